"""A random sequence of changes of datasets, and the model that they are compared with."""

from __future__ import annotations

import copy
import functools
import inspect
import json
import os
import random
import subprocess
from typing import Any

import numpy as np

import shardkit as sk

TYPES = ("i64", "utf8?", "bytes?", "f32[2]?", "i32[]?")
Row = dict[str, Any]


class Model:
    """A dataset as a list: its columns with their types, its samples, and both as they were in each generation."""

    def __init__(self, path: str, columns: dict[str, str], rows: list[Row]) -> None:
        self.path = path
        self.columns = columns
        self.rows = rows
        self.generations: dict[int, tuple[dict[str, str], list[Row]]] = {}

    def keys(self) -> set[str]:
        return {row["key"] for row in self.rows}

    def keep(self) -> None:
        """What the dataset has is that of its newest generation."""
        newest = sk.history(self.path)[-1].generation
        if newest in self.generations:
            columns, rows = self.generations[newest]
            assert (columns, len(rows)) == (self.columns, len(self.rows)), "it has changed within a generation"
        self.generations[newest] = (dict(self.columns), list(self.rows))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a is not None and b is not None and a.dtype == b.dtype and np.array_equal(a, b)
    return type(a) is type(b) and bool(a == b)


def compare(found: Any, expected: Row, columns: dict[str, str]) -> None:
    assert list(found) == ["key", *columns], (list(found), list(columns))
    for name in found:
        value, wanted = found[name], expected.get(name)
        if isinstance(value, np.generic):
            value = value.item()
        assert same(value, wanted), (expected["key"], name, value, wanted)


class Sequence:
    """Datasets in a folder, changed by numbers that follow from the seed."""

    def __init__(self, seed: int, folder: str, command: str | None) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.command = command
        self.log: list[str] = []
        self.made = 0  # datasets, keys and columns, for their names
        self.current = self.pack()

    # Input.

    def value(self, kind: str) -> Any:
        random = self.random
        if kind.endswith("?") and random.random() < 0.2:
            return None
        if kind == "i64":
            return random.randrange(-5, 20)
        if kind == "utf8?":
            return "".join(random.choices("abcdefghé ", k=random.randrange(0, 30)))
        if kind == "bytes?":
            return random.randbytes(random.choice((0, 5, 300, 5000)))
        if kind == "f32[2]?":
            return np.array([random.random(), random.randrange(9)], np.float32)
        return np.arange(random.randrange(0, 4), dtype=np.int32)

    def name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made}"

    def new_rows(self, columns: dict[str, str], count: int, keys: list[str] | None = None) -> list[Row]:
        keys = keys or [self.name("k") for _ in range(count)]
        return [{"key": key} | {name: self.value(kind) for name, kind in columns.items()} for key in keys]

    def options(self) -> dict[str, Any]:
        random = self.random
        return {
            "sync": False,
            "threads": random.choice((1, 1, 2)),
            "block_size": random.choice((4096, 1 << 16)),
            "max_block_samples": random.choice((1, 3, 100)),
            "shard_samples": random.choice((2, 5, 50)),
        }

    def write(self, path: str, columns: dict[str, str], rows: list[Row], **options: Any) -> None:
        with sk.Writer(path, columns, **options) as writer:
            for row in rows:
                writer.write(row["key"], **{name: row[name] for name in columns})

    def some(self, items: list[Any], least: int = 0) -> list[Any]:
        count = self.random.randint(min(least, len(items)), max(min(least, len(items)), len(items) // 2))
        return self.random.sample(items, count)

    # Changes. Each returns what is to be compared; None where it cannot be made now.

    def pack(self) -> Model:
        columns = {"n": "i64"} | {self.name("c"): self.random.choice(TYPES[1:]) for _ in range(self.random.randrange(3))}
        rows = self.new_rows(columns, self.random.randrange(1, 12))
        path = os.path.join(self.folder, self.name("d"))
        options = self.options()
        self.log.append(f"pack {path}: {columns}, {len(rows)} samples, {options}")
        self.write(path, columns, rows, **options)
        return Model(path, columns, rows)

    def append(self) -> Model:
        model, random = self.current, self.random
        mode = random.choice(("refuse", "skip", "add"))
        there = list(dict.fromkeys(row["key"] for row in model.rows))
        again = self.some(there) if random.random() < 0.5 else []
        keys = again + [self.name("k") for _ in range(random.randrange(0 if again else 1, 6))]
        random.shuffle(keys)
        columns = dict(model.columns)
        for name in self.some([name for name, kind in columns.items() if kind.endswith("?")]):
            del columns[name]  # their values are absent
        if random.random() < 0.15:
            columns[self.name("c")] = random.choice(TYPES[1:])
        rows = self.new_rows(columns, len(keys), keys)
        options = self.options()
        self.log.append(f"append {mode}: {columns}, {len(keys)} samples, {len(again)} of them there, {options}")
        try:
            self.write(model.path, columns, rows, append=True, existing_keys=mode, **options)
        except FileExistsError:
            assert mode == "refuse" and again
            return model
        assert not (mode == "refuse" and again), "keys that are there were not refused"
        known = model.keys()
        added = [row for row in rows if mode != "skip" or row["key"] not in known]
        if added:  # else nothing is published, new columns neither
            model.rows = model.rows + added
            model.columns = model.columns | columns
        return model

    def filter(self) -> Model | None:
        model, random = self.current, self.random
        path = os.path.join(self.folder, self.name("d"))
        rows = model.rows
        given: dict[str, Any] = {}
        if "n" in model.columns and random.random() < 0.6:
            least = random.randrange(-5, 15)
            given["where"] = f"n >= {least}"
            rows = [row for row in rows if row.get("n") is not None and row["n"] >= least]
        if random.random() < 0.4:
            given["keys"] = self.some(sorted(model.keys()), 1)
            rows = [row for row in rows if row["key"] in given["keys"]]
        if not given or random.random() < 0.3:
            first = random.randrange(0, len(model.rows))
            end = random.randint(first + 1, len(model.rows))
            given["ranges"] = [(first, end)]
            inside = {id(row) for row in model.rows[first:end]}
            rows = [row for row in rows if id(row) in inside]
        self.log.append(f"filter {given}")
        assert sk.count(model.path, **given) == len(rows)
        if not rows:
            return None
        sk.filter(model.path, path, progress=False, **given, **self.options())
        return Model(path, dict(model.columns), rows)

    def split(self) -> Model | None:
        model = self.current
        folder = os.path.join(self.folder, self.name("s"))
        self.log.append("split")
        try:
            made = sk.split(
                model.path, folder, {"a": 0.5, "b": 0.5}, seed=self.random.randrange(9), progress=False, **self.options()
            )
        except ValueError as error:  # a part without samples
            assert "sample" in str(error), error
            return None
        # Which key is where, only the hash knows; but each is in one part.
        parts = {}
        for name in made:
            keys = set(sk.open(os.path.join(folder, name)).keys())
            rows = [row for row in model.rows if row["key"] in keys]
            parts[name] = Model(os.path.join(folder, name), dict(model.columns), rows)
        assert sum(len(part.rows) for part in parts.values()) == len(model.rows)
        for part in parts.values():
            self.check(part)
        return self.random.choice([part for part in parts.values() if part.rows])

    def merge(self) -> Model | None:
        model, random = self.current, self.random
        columns = dict(model.columns)
        other = os.path.join(self.folder, self.name("d"))
        again = random.random() < 0.3
        keys = self.some(sorted(model.keys()), 1) if again else None
        rows = self.new_rows(columns, random.randrange(1, 6), keys)
        self.write(other, columns, rows, **self.options())
        path = os.path.join(self.folder, self.name("d"))
        choices = "keep_repeated_keys" in inspect.signature(sk.merge).parameters
        keep = choices and random.random() < 0.5
        self.log.append(f"merge with {len(rows)} samples, keys there: {again}, keep: {keep}")
        try:
            sk.merge([model.path, other], path, **({"keep_repeated_keys": True} if keep else {}))
        except ValueError as error:  # two shards are equal, if by chance their values are
            assert again and ((choices and not keep) or "the same samples" in str(error)), error
            return model
        assert not (again and choices and not keep), "keys of several datasets were not refused"
        return Model(path, columns, model.rows + rows)

    def index(self) -> Model:
        compact = self.random.random() < 0.5
        self.log.append(f"index, compact: {compact}")
        sk.index(self.current.path, compact=compact)
        return self.current

    def shardctl(self, *arguments: str, code: int = 0) -> None:
        assert self.command is not None
        done = subprocess.run([self.command, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == code, (arguments, done.returncode, done.stderr)

    def columns_add(self) -> Model:
        model, random = self.current, self.random
        replaced = [name for name in model.columns if random.random() < 0.2]
        name = random.choice(replaced) if replaced else self.name("c")
        chosen = self.some(sorted(model.keys()), 1)
        numbers = {key: random.randrange(100) for key in chosen}
        file = os.path.join(self.folder, self.name("f") + ".ndjson")
        with open(file, "w", encoding="utf-8") as out:
            for key, number in numbers.items():
                print(json.dumps({"id": key, name: number}), file=out)
            print(json.dumps({"id": "no such key", name: 1}), file=out)
        self.log.append(f"columns add {name}: {numbers}")
        self.shardctl("columns", "add", model.path, "--from", file, "--key", "id")
        model.rows = [{**row, name: numbers.get(row["key"])} for row in model.rows]
        model.columns = model.columns | {name: "i64?"}
        return model

    def columns_drop(self) -> Model | None:
        model = self.current
        names = [name for name in self.some(list(model.columns), 1) if name != "n"]
        if not names:
            return None
        self.log.append(f"columns drop {names}")
        self.shardctl("columns", "drop", model.path, *names)
        model.columns = {name: kind for name, kind in model.columns.items() if name not in names}
        model.rows = [{name: value for name, value in row.items() if name not in names} for row in model.rows]
        return model

    def columns_rename(self) -> Model | None:
        model = self.current
        names = [name for name in self.some(list(model.columns), 1) if name != "n"]
        if not names:
            return None
        targets = names[1:] + names[:1] if len(names) > 1 and self.random.random() < 0.5 else [self.name("c") for _ in names]
        renamed = dict(zip(names, targets, strict=True))
        self.log.append(f"columns rename {renamed}")
        self.shardctl("columns", "rename", model.path, *(f"{old}={new}" for old, new in renamed.items()))
        model.columns = {renamed.get(name, name): kind for name, kind in model.columns.items()}
        model.rows = [{renamed.get(name, name): value for name, value in row.items()} for row in model.rows]
        return model

    def remove(self) -> Model | None:
        model = self.current
        keys = self.some(sorted(model.keys()), 1)
        if len(keys) == len(model.keys()):
            return None
        file = os.path.join(self.folder, self.name("f"))
        with open(file, "w", encoding="utf-8") as out:
            out.write("".join(f"{key}\n" for key in keys))
        self.log.append(f"rm {keys}")
        self.shardctl("rm", model.path, "--keys-from", file)
        model.rows = [row for row in model.rows if row["key"] not in keys]
        return model

    def compact(self) -> Model:
        purge = self.random.random() < 0.4
        self.log.append(f"compact, purge: {purge}")
        self.shardctl("compact", self.current.path, *(["--purge"] if purge else []))
        if purge:  # nothing of earlier generations is left
            self.current.generations.clear()
        return self.current

    # Comparisons.

    def check(self, model: Model) -> None:
        """Compare the dataset in order, by ordinal and by key."""
        self.compare(sk.open(model.path), model.columns, model.rows)
        with_index = sk.open(model.path)
        for row in self.random.sample(model.rows, min(3, len(model.rows))):
            first = next(i for i, other in enumerate(model.rows) if other["key"] == row["key"])
            assert with_index.find(row["key"]) == first
            compare(with_index[first], model.rows[first], model.columns)
        assert with_index.find("no such key") is None

    def compare(self, dataset: sk.Dataset, columns: dict[str, str], rows: list[Row]) -> None:
        assert len(dataset) == len(rows), (len(dataset), len(rows))
        assert [column.name for column in dataset.schema] == ["key", *columns]
        for found, expected in zip(dataset, rows, strict=True):
            compare(found, expected, columns)

    def check_earlier(self, model: Model) -> None:
        """Compare a generation that was kept with what the dataset was then."""
        kept = [each.generation for each in sk.history(model.path) if each.generation in model.generations]
        generation = self.random.choice(kept)
        self.compare(sk.open(model.path, generation=generation), *model.generations[generation])

    def check_loader(self, model: Model) -> None:
        """An epoch has each sample once."""
        columns = ["n"] if "n" in model.columns else None
        loader = sk.Loader(model.path, 3, columns=columns, decode_threads=1, read_threads=1)
        found = sorted(key for batch in loader for key in batch.keys)
        assert found == sorted(row["key"] for row in model.rows)

    def changes(self) -> list[Any]:
        """Those whose verbs there are, as often as they are to be made."""
        verbs = {verb for verb in ("columns", "rm", "compact") if self.command is not None and _has(self.command, verb)}
        made = [self.append, self.append, self.filter, self.split, self.merge, self.index]
        made += [self.columns_add, self.columns_drop, self.columns_rename] * ("columns" in verbs)
        made += [self.remove, self.remove] * ("rm" in verbs) + [self.compact] * ("compact" in verbs)
        return made

    def run(self, changes: int) -> None:
        self.current.keep()
        self.check(self.current)
        choices = self.changes()
        for _ in range(changes):
            before = copy.copy(self.current)
            changed = self.random.choice(choices)()
            if changed is not None and changed.path != before.path:
                self.check(before)  # what it was made of has not changed
            self.current = changed or self.current
            self.current.keep()
            self.check(self.current)
            self.check_earlier(self.current)
        if self.random.random() < 0.2:
            self.check_loader(self.current)
        sk.validate(self.current.path, progress=False)


@functools.cache
def _has(command: str, verb: str) -> bool:
    return subprocess.run([command, verb, "--help"], capture_output=True, check=False).returncode == 0
