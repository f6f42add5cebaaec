"""A random sequence of changes of datasets, and the model that they are compared with."""

from __future__ import annotations

import copy
import os
import random
from typing import Any

import numpy as np

import shardkit as sk

TYPES = ("i64", "utf8?", "bytes?", "f32[2]?", "i32[]?")
Row = dict[str, Any]
# In memory where there is a file system of it, for it takes most of the time to wait for a device.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
KEY = ""  # of a row: the key, whatever its column is called
COLUMNS = ("columns_add", "columns_add_in_order", "columns_drop", "columns_rename")
# As often as they are to be made.
CHANGES = ("append", "append", "filter", "split", "merge", "copy", "index", *COLUMNS, "remove", "remove", "compact", "compact")
CHANGES_OF_NONE = ("append", "append", "index", "columns_drop", "columns_rename", "compact")  # where all samples were removed


class Model:
    """A dataset as a list: its columns with their types, its samples, and both as they were in each generation."""

    def __init__(
        self, path: str, columns: dict[str, str], rows: list[Row], key_column: str = "key", changed: bool = False
    ) -> None:
        self.path = path
        self.key_column = key_column
        self.columns = columns
        self.rows = rows
        self.changed = changed  # whether columns ever were added, renamed or dropped
        self.gone: list[str] = []  # keys of removed samples
        self.generations: dict[int, tuple[dict[str, str], list[Row], str]] = {}

    def keys(self) -> set[str]:
        return {row[KEY] for row in self.rows}

    def keep(self) -> None:
        """What the dataset has is that of its newest generation."""
        newest = sk.history(self.path)[-1].generation
        if newest in self.generations:
            columns, rows, key_column = self.generations[newest]
            now = (self.columns, len(self.rows), self.key_column)
            assert (columns, len(rows), key_column) == now, "it has changed within a generation"
        self.generations[newest] = (dict(self.columns), list(self.rows), self.key_column)


def plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a is not None and b is not None and a.dtype == b.dtype and np.array_equal(a, b)
    return type(a) is type(b) and bool(a == b)


def compare(found: Any, expected: Row, columns: dict[str, str], key_column: str) -> None:
    assert list(found) == [key_column, *columns], (list(found), key_column, list(columns))
    for name in found:
        value, wanted = plain(found[name]), expected.get(KEY if name == key_column else name)
        assert same(value, wanted), (expected[KEY], name, value, wanted)


class Sequence:
    """Datasets in a folder, changed by numbers that follow from the seed."""

    def __init__(self, seed: int, folder: str) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.log: list[str] = []
        self.made = 0  # datasets, keys and columns, for their names
        self.column_names: list[str] = []
        self.current = self.pack()

    # Input.

    def value(self, kind: str) -> Any:
        random = self.random
        if kind.endswith("?") and random.random() < 0.2:
            return None
        if kind in ("i64", "i64?"):
            return random.randrange(-5, 20)
        if kind == "utf8?":
            return "".join(random.choices("abcdefghé ", k=random.randrange(0, 30)))
        if kind == "bytes?":
            return random.randbytes(random.choice((0, 5, 300, 5000)))
        if kind == "f32[2]?":
            return np.array([random.random(), random.randrange(9)], np.float32)
        return np.arange(random.randrange(0, 4), dtype=np.int32)

    def gone(self, model: Model) -> list[str]:
        """Some keys of removed samples, which are as new ones."""
        return self.some(sorted(set(model.gone) - model.keys()), self.random.randrange(2))

    def column_name(self, model: Model) -> str:
        """A name that no column has, though one may have had it."""
        free = set(self.column_names) - {model.key_column, *model.columns}
        return self.random.choice(sorted(free)) if free and self.random.random() < 0.5 else self.name("c")

    def name(self, kind: str) -> str:
        self.made += 1
        if kind == "c":
            self.column_names.append(f"c{self.made}")
        return f"{kind}{self.made}"

    def new_rows(self, columns: dict[str, str], keys: list[str]) -> list[Row]:
        return [{KEY: key} | {name: self.value(kind) for name, kind in columns.items()} for key in keys]

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
                writer.write(row[KEY], **{name: row[name] for name in columns})

    def copying(self) -> dict[str, Any]:
        """How samples come into a new dataset: by reference, or copied, with some options."""
        return {"by_reference": True} if self.random.random() < 0.5 else self.options()

    def some(self, items: list[Any], least: int = 0) -> list[Any]:
        count = self.random.randint(min(least, len(items)), max(min(least, len(items)), len(items) // 2))
        return self.random.sample(items, count)

    # Changes. Each returns what is to be compared; None where it cannot be made now.

    def pack(self) -> Model:
        columns = {"n": "i64"} | {self.name("c"): self.random.choice(TYPES[1:]) for _ in range(self.random.randrange(3))}
        rows = self.new_rows(columns, [self.name("k") for _ in range(self.random.randrange(1, 12))])
        path = os.path.join(self.folder, self.name("d"))
        options = self.options()
        self.log.append(f"pack {path}: {columns}, {len(rows)} samples, {options}")
        self.write(path, columns, rows, **options)
        return Model(path, columns, rows)

    def append(self) -> Model:
        model, random = self.current, self.random
        mode = random.choice(("refuse", "skip", "add"))
        there = list(dict.fromkeys(row[KEY] for row in model.rows))
        again = self.some(there) if random.random() < 0.5 else []
        keys = again + [self.name("k") for _ in range(random.randrange(0 if again else 1, 6))] + self.gone(model)
        random.shuffle(keys)
        columns = dict(model.columns)
        for name in self.some([name for name, kind in columns.items() if kind.endswith("?")]):
            del columns[name]  # their values are absent
        if random.random() < 0.3:
            columns[self.column_name(model)] = random.choice(TYPES[1:])
        rows = self.new_rows(columns, keys)
        options = self.options()
        self.log.append(f"append {mode}: {columns}, {len(keys)} samples, {len(again)} of them there, {options}")
        try:
            self.write(model.path, columns, rows, append=True, existing_keys=mode, **options)
        except FileExistsError:
            assert mode == "refuse" and again
            return model
        except ValueError as error:  # where the key was renamed, another column may have the name that it has here
            assert "key" in columns and '"key"' in str(error), error
            return model
        assert not (mode == "refuse" and again), "keys that are there were not refused"
        known = model.keys()
        added = [row for row in rows if mode != "skip" or row[KEY] not in known]
        if added:  # else nothing is published, new columns neither
            model.rows = model.rows + added
            model.columns = model.columns | columns
        return model

    def selection(self, model: Model) -> tuple[dict[str, Any], list[Row]]:
        """What selects samples, as filter and remove take it, and those that it selects."""
        random = self.random
        rows = model.rows
        given: dict[str, Any] = {}
        numbers = [name for name, kind in model.columns.items() if kind in ("i64", "i64?")]
        if numbers and random.random() < 0.6:
            name, least = random.choice(numbers), random.randrange(-5, 25)
            given["where"] = f"{name} >= {least}"
            rows = [row for row in rows if row.get(name) is not None and row[name] >= least]
        if random.random() < 0.4:
            given["keys"] = self.some(sorted(model.keys()), 1)
            rows = [row for row in rows if row[KEY] in given["keys"]]
        if not given or random.random() < 0.3:
            first = random.randrange(0, len(model.rows))
            end = random.randint(first + 1, len(model.rows))
            given["ranges"] = [(first, end)]
            inside = {id(row) for row in model.rows[first:end]}
            rows = [row for row in rows if id(row) in inside]
        return given, rows

    def filter(self) -> Model | None:
        model = self.current
        path = os.path.join(self.folder, self.name("d"))
        given, rows = self.selection(model)
        copying = self.copying()
        self.log.append(f"filter {given} {copying}")
        assert sk.count(model.path, **given) == len(rows)
        if not rows:
            return None
        sk.filter(model.path, path, progress=False, **given, **copying)
        return Model(path, dict(model.columns), rows, model.key_column, model.changed and "by_reference" in copying)

    def split(self) -> Model | None:
        model = self.current
        folder = os.path.join(self.folder, self.name("s"))
        copying = self.copying()
        self.log.append(f"split {copying}")
        try:
            made = sk.split(
                model.path, folder, {"a": 0.5, "b": 0.5}, seed=self.random.randrange(9), progress=False, **copying
            )
        except ValueError as error:  # a part without samples
            assert "sample" in str(error), error
            return None
        # Which key is where, only the hash knows; but each is in one part.
        parts = {}
        for name in made:
            keys = set(sk.open(os.path.join(folder, name)).keys())
            rows = [row for row in model.rows if row[KEY] in keys]
            changed = model.changed and "by_reference" in copying
            parts[name] = Model(os.path.join(folder, name), dict(model.columns), rows, model.key_column, changed)
        assert sum(len(part.rows) for part in parts.values()) == len(model.rows)
        for part in parts.values():
            self.check(part)
        if self.random.random() < 0.5:
            return self.random.choice([part for part in parts.values() if part.rows])
        first, second = parts.values()
        path = os.path.join(self.folder, self.name("d"))
        how = self.random.choice(({}, {"by_reference": True}, {"copy": True}))
        self.log.append(f"merge the parts {how}")
        sk.merge([first.path, second.path], path, progress=False, **how)
        return Model(path, dict(model.columns), first.rows + second.rows, model.key_column, first.changed and "copy" not in how)

    def merge(self) -> Model | None:
        model, random = self.current, self.random
        columns = dict(model.columns)
        if "key" in columns:  # which the key of a new dataset is called
            return None
        other = os.path.join(self.folder, self.name("d"))
        again = random.random() < 0.3
        keys = self.some(sorted(model.keys()), 1) if again else [self.name("k"), *self.gone(model)]
        rows = self.new_rows(columns, keys)
        self.write(other, columns, rows, **self.options())
        if model.key_column != "key":
            sk.rename_columns(other, {"key": model.key_column})
        path = os.path.join(self.folder, self.name("d"))
        how = random.choice(("copy", "by_reference", "links"))
        given = {"keep_repeated_keys": random.random() < 0.5, "copy": how == "copy", "by_reference": how == "by_reference"}
        self.log.append(f"merge with {len(rows)} samples, keys there: {again}, {given}")
        try:
            sk.merge([model.path, other], path, progress=False, **given)
        except ValueError as error:
            if "do not lie under the same names" in str(error):
                assert not given["copy"] and (model.changed or model.key_column != "key"), error
            else:  # two shards are equal, if by chance their values are
                assert again and (not given["keep_repeated_keys"] or "the same samples" in str(error)), error
            return model
        assert given["keep_repeated_keys"] or not again, "keys of several datasets were not refused"
        return Model(path, columns, model.rows + rows, model.key_column, model.changed and not given["copy"])

    def copy(self) -> Model:
        """All samples, stored again."""
        model = self.current
        path = os.path.join(self.folder, self.name("d"))
        how = self.random.choice((sk.convert, sk.reshard, sk.repair))
        options: dict[str, Any] = {"sync": False} if how is sk.repair else self.options()
        self.log.append(f"{how.__name__} {options}")
        how(model.path, path, progress=False, **options)
        assert not sk.diff(model.path, path, progress=False), "a difference was found"
        return Model(path, dict(model.columns), model.rows, model.key_column, model.changed and how is sk.repair)

    def index(self) -> Model:
        model = self.current
        lost = [name for name in sorted(os.listdir(model.path)) if name.endswith(".segment") and self.random.random() < 0.3]
        self.log.append(f"index without {lost}")
        for name in lost:
            os.remove(os.path.join(model.path, name))
        self.check(model)  # from the shards
        sk.index(model.path)
        # A column of appended samples, none of which is left, may be in no shard any more.
        there = {column.name for column in sk.open(model.path).schema}
        lost = [name for name in model.columns if name not in there]
        assert all(row.get(name) is None for row in model.rows for name in lost), lost
        model.columns = {name: kind for name, kind in model.columns.items() if name in there}
        model.rows = [{name: value for name, value in row.items() if name not in lost} for row in model.rows]
        return model

    def columns_add(self) -> Model:
        model, random = self.current, self.random
        replaced = [name for name in model.columns if random.random() < 0.2]
        name = random.choice(replaced) if replaced else self.column_name(model)
        kind = random.choice(TYPES[1:])
        chosen = self.some(sorted(model.keys()), 1)
        values = {key: self.value(kind) for key in chosen}
        self.log.append(f"columns add {name}, {kind}: {chosen}")
        rows = [{"id": key, name: value} for key, value in values.items()] + [{"id": "no such key", name: None}]
        random.shuffle(rows)
        report = sk.add_columns(model.path, rows, key="id", columns={"id": "utf8", name: kind}, threads=random.choice((1, 2)))
        assert report.unmatched == 1, report
        model.rows = [{**row, name: values.get(row[KEY])} for row in model.rows]
        model.columns = model.columns | {name: kind}
        model.changed = True
        return model

    def columns_add_in_order(self) -> Model:
        """Row i of an array is of sample i."""
        model = self.current
        name = self.column_name(model)
        self.log.append(f"columns add {name}, i64: in order")
        numbers = np.array([self.random.randrange(100) for _ in model.rows], np.int64)
        sk.add_columns(model.path, {name: numbers})
        model.rows = [{**row, name: int(number)} for row, number in zip(model.rows, numbers, strict=True)]
        model.columns = model.columns | {name: "i64?"}
        model.changed = True
        return model

    def columns_drop(self) -> Model | None:
        model = self.current
        names = [name for name in self.some(list(model.columns), 1) if name != "n"]
        if not names:
            return None
        self.log.append(f"columns drop {names}")
        sk.drop_columns(model.path, names)
        model.columns = {name: kind for name, kind in model.columns.items() if name not in names}
        model.rows = [{name: value for name, value in row.items() if name not in names} for row in model.rows]
        model.changed = True
        return model

    def columns_rename(self) -> Model | None:
        model = self.current
        names = [name for name in self.some([model.key_column, *model.columns], 1) if name != "n"]
        if not names:
            return None
        targets = [self.column_name(model), *(self.name("c") for _ in names[1:])]
        if len(names) > 1 and self.random.random() < 0.5:
            targets = names[1:] + names[:1]
        renamed = dict(zip(names, targets, strict=True))
        self.log.append(f"columns rename {renamed}")
        sk.rename_columns(model.path, renamed)
        model.key_column = renamed.get(model.key_column, model.key_column)
        model.columns = {renamed.get(name, name): kind for name, kind in model.columns.items()}
        model.rows = [{renamed.get(name, name): value for name, value in row.items()} for row in model.rows]
        model.changed = True
        return model

    def remove(self) -> Model | None:
        model, random = self.current, self.random
        given, gone = self.selection(model)
        if len(gone) == len(model.rows) and random.random() < 0.7:
            return None  # of an empty dataset little can be made
        self.log.append(f"rm {given}")
        report = sk.remove(model.path, threads=random.choice((1, 2)), **given)
        assert (report.removed, report.samples) == (len(gone), len(model.rows) - len(gone)), report
        ids = {id(row) for row in gone}
        model.rows = [row for row in model.rows if id(row) not in ids]
        model.gone = model.gone + [row[KEY] for row in gone]
        return model

    def compact(self) -> Model:
        model, random = self.current, self.random
        given = {
            "lost": random.choice((0.001, 0.05, 0.2, 1.0)),
            "fold": random.random() < 0.4,
            "purge": random.random() < 0.4,
            "threads": random.choice((1, 2)),
        }
        self.log.append(f"compact {given}")
        report = sk.compact(model.path, progress=False, **given)
        assert report.samples == len(model.rows), report
        if given["fold"]:
            model.changed = False
        if given["purge"]:  # nothing of earlier generations is left
            assert report.removed_left == 0, report
            model.generations.clear()
            assert len(sk.history(model.path)) == 1, sk.history(model.path)
        return model

    # Comparisons.

    def check(self, model: Model) -> None:
        """Compare the dataset in order, by ordinal and by key, and some columns of it."""
        self.compare(sk.open(model.path), model.columns, model.rows, model.key_column)
        with_index = sk.open(model.path)
        for row in self.random.sample(model.rows, min(3, len(model.rows))):
            first = next(i for i, other_row in enumerate(model.rows) if other_row[KEY] == row[KEY])
            assert with_index.find(row[KEY]) == first
            compare(with_index[first], model.rows[first], model.columns, model.key_column)
            for name in [name for name, kind in model.columns.items() if kind == "bytes?"]:
                value = with_index.open_value(first, name)
                assert (value and value.read()) == model.rows[first].get(name), name
        for key in ["no such key", *set(model.gone) - model.keys()]:
            assert with_index.find(key) is None, key
        columns = [model.key_column, *self.some(list(model.columns))]
        self.random.shuffle(columns)
        part = sk.open(model.path, columns=columns)
        assert part.schema.names == columns
        for found, row in zip(part, model.rows, strict=True):
            assert all(same(plain(found[name]), row.get(KEY if name == model.key_column else name)) for name in columns)

    def compare(self, dataset: sk.Dataset, columns: dict[str, str], rows: list[Row], key_column: str) -> None:
        assert len(dataset) == len(rows), (len(dataset), len(rows))
        assert [column.name for column in dataset.schema] == [key_column, *columns]
        for found, expected in zip(dataset, rows, strict=True):
            compare(found, expected, columns, key_column)

    def check_earlier(self, model: Model) -> None:
        """Compare a generation that was kept with what the dataset was then."""
        kept = [each.generation for each in sk.history(model.path) if each.generation in model.generations]
        generation = self.random.choice(kept)
        self.compare(sk.open(model.path, generation=generation), *model.generations[generation])

    def check_loader(self, model: Model) -> None:
        """An epoch has each sample once, with all of its values."""
        loader = sk.Loader(model.path, 3, columns=list(model.columns), decode_threads=1, read_threads=1)
        seen = []
        for batch in loader:
            for i, ordinal in enumerate(batch.ordinals.tolist()):
                seen.append(ordinal)
                row = model.rows[ordinal]
                assert batch.sample_keys[i] == row[KEY]
                for name in model.columns:
                    assert batch.present(name)[i] == (row.get(name) is not None), (row[KEY], name)
                    if row.get(name) is not None:
                        value = batch[name][i]
                        assert same(bytes(value) if isinstance(row[name], bytes) else plain(value), row[name]), (row[KEY], name)
        assert sorted(seen) == list(range(len(model.rows)))

    def others(self) -> dict[str, tuple[int, int]]:
        """Length and time of the files of all datasets but this one, which may refer to them."""
        found = {}
        for place, _, names in os.walk(self.folder):
            for name in names if place != self.current.path else []:
                status = os.stat(os.path.join(place, name))
                found[os.path.join(place, name)] = (status.st_size, status.st_mtime_ns)
        return found

    def run(self, changes: int) -> None:
        self.current.keep()
        self.check(self.current)
        for _ in range(changes):
            before, others = copy.copy(self.current), self.others()
            changed = getattr(self, self.random.choice(CHANGES if before.rows else CHANGES_OF_NONE))()
            if changed is not None and changed.path != before.path:
                self.check(before)  # what it was made of has not changed
            assert others.items() <= self.others().items(), "a change of this dataset has changed another one"
            self.current = changed or self.current
            self.current.keep()
            self.check(self.current)
            self.check_earlier(self.current)
        if self.current.rows and self.random.random() < 0.2:
            self.check_loader(self.current)
        report = sk.validate(self.current.path, progress=False)
        assert report.problem_count == 0, report.problems
