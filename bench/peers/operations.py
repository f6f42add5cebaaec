"""One change of a dataset by one program: operations.py PROGRAM CHANGE FOLDER. bench/operations runs it, and says what is measured.

FOLDER has `data` (of PROGRAM), and gets what the change makes. Prints the seconds of the change, without start and imports.
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import time

import numpy as np

SAMPLES, BYTES, SEED = 50_000, 4096, 7
SHARD = 64 << 20
CHOSEN = "n < 100"  # of 1000


def rows(begin, end):
    """Key, number from 0 to 999, and bytes of samples `begin` to `end`; the same for all programs."""
    random = np.random.default_rng([SEED, begin])
    values = random.bytes((end - begin) * BYTES)
    for i, n in enumerate(random.integers(0, 1000, end - begin)):
        yield f"{begin + i:08d}", int(n), values[i * BYTES:(i + 1) * BYTES]


def removed():
    return [f"{i:08d}" for i in range(50, SAMPLES, 100)]


def scores():
    return np.arange(SAMPLES, dtype=np.int64) * 3


class Shardkit:
    def __init__(self):
        import shardkit
        self.sk = shardkit

    def write(self, path, parts, **options):
        with self.sk.Writer(path, {"n": "i64", "value": "bytes"}, shard_size=SHARD, sync=False, **options) as writer:
            for key, n, value in parts:
                writer.write(key, n=n, value=value)

    def append(self, data, out, parts):
        self.write(data, parts, append=True)

    def filter(self, data, out):
        self.sk.filter(data, out, where=CHOSEN, sync=False, shard_size=SHARD, progress=False)

    def merge(self, data, other, out):
        self.sk.merge([data, other], out)

    def shardctl(self, *arguments):
        subprocess.run([os.environ["SHARDCTL"], *arguments], check=True, stdout=subprocess.DEVNULL)

    def add(self, data, out):
        np.save(out + ".npy", scores())
        return lambda: self.shardctl("columns", "add", data, "--from", out + ".npy", "--columns", "score")

    def delete(self, data, out):
        with open(out + ".txt", "w", encoding="utf-8") as file:
            file.write("".join(f"{key}\n" for key in removed()))
        return lambda: self.shardctl("rm", data, "--keys-from", out + ".txt")

    def count(self, path):
        dataset = self.sk.open(path)
        return len(dataset), len(dataset.schema)


class MDS:
    """What it cannot change in place is read and written again. An append or a merge is files beside one another, and their index."""

    COLUMNS = {"key": "str", "n": "int", "value": "bytes"}

    def __init__(self):
        import streaming
        from streaming.base.util import merge_index
        self.streaming, self.merge_index = streaming, merge_index

    def write(self, path, parts, columns=None, names=("key", "n", "value")):
        with self.streaming.MDSWriter(out=path, columns=columns or self.COLUMNS, size_limit=SHARD) as writer:
            for part in parts:
                writer.write(dict(zip(names, part)))

    def read(self, path):
        dataset = self.streaming.LocalDataset(path)
        return (dataset[i] for i in range(len(dataset)))

    def rewrite(self, path, out, keep=lambda sample: True, **added):
        columns = self.COLUMNS | dict.fromkeys(added, "int")
        with self.streaming.MDSWriter(out=out, columns=columns, size_limit=SHARD) as writer:
            for i, sample in enumerate(self.read(path)):
                if keep(sample):
                    writer.write(sample | {name: int(values[i]) for name, values in added.items()})

    def append(self, data, out, parts):
        # The index of a folder of folders: the dataset and what is appended.
        self.write(os.path.join(data, "appended"), parts)
        place = os.path.join(data, "first")
        os.mkdir(place)
        for path in glob.glob(os.path.join(data, "*.*")):
            os.rename(path, os.path.join(place, os.path.basename(path)))
        self.merge_index(data, keep_local=True)

    def filter(self, data, out):
        self.rewrite(data, out, lambda sample: sample["n"] < 100)

    def merge(self, data, other, out):
        os.mkdir(out)
        for name, path in (("a", data), ("b", other)):
            shutil.copytree(path, os.path.join(out, name), copy_function=os.link)
        self.merge_index(out, keep_local=True)

    def add(self, data, out):
        self.rewrite(data, out, score=scores())

    def delete(self, data, out):
        gone = set(removed())
        self.rewrite(data, out, lambda sample: sample["key"] not in gone)

    def count(self, path):
        with open(os.path.join(path, "index.json"), encoding="utf-8") as file:
            shards = json.load(file)["shards"]
        return sum(shard["samples"] for shard in shards), len(shards[0]["column_names"])


class WebDataset:
    """An append is one more tar, and a merge a longer list of them. All else is read and written again."""

    def __init__(self):
        import webdataset
        self.wds = webdataset

    def write(self, path, parts, first=0):
        os.makedirs(path, exist_ok=True)
        with self.wds.ShardWriter(path + "/%06d.tar", maxsize=SHARD, maxcount=1 << 40, start_shard=first, verbose=0) as writer:
            for key, n, value in parts:
                writer.write({"__key__": key, "n": str(n).encode(), "value": value})

    def rewrite(self, path, out, keep=lambda sample: True, **added):
        os.makedirs(out)
        with self.wds.ShardWriter(out + "/%06d.tar", maxsize=SHARD, maxcount=1 << 40, verbose=0) as writer:
            tars = sorted(glob.glob(path + "/*.tar"))
            for i, sample in enumerate(self.wds.WebDataset(tars, shardshuffle=False)):
                if keep(sample):
                    kept = {name: value for name, value in sample.items() if name in ("__key__", "n", "value")}
                    writer.write(kept | {name: str(values[i]).encode() for name, values in added.items()})

    def append(self, data, out, parts):
        self.write(data, parts, first=len(glob.glob(data + "/*.tar")))

    def filter(self, data, out):
        self.rewrite(data, out, lambda sample: int(sample["n"]) < 100)

    merge = None

    def add(self, data, out):
        self.rewrite(data, out, score=scores())

    def delete(self, data, out):
        gone = set(removed())
        self.rewrite(data, out, lambda sample: sample["__key__"] not in gone)

    def count(self, path):
        samples = 0
        for samples, sample in enumerate(self.wds.WebDataset(sorted(glob.glob(path + "/*.tar")), shardshuffle=False), 1):
            columns = sum(not name.startswith("__") for name in sample)
        return samples, columns + 1


class Lance:
    def __init__(self):
        import lance
        import pyarrow
        self.lance, self.arrow = lance, pyarrow

    def write(self, path, parts, mode="create"):
        schema = self.arrow.schema([("key", self.arrow.string()), ("n", self.arrow.int64()), ("value", self.arrow.large_binary())])

        def batches():
            some = []
            for part in parts:
                some.append(part)
                if len(some) == 256:
                    yield self.arrow.record_batch([self.arrow.array(column, kind) for column, kind in zip(zip(*some), schema.types)], schema=schema)
                    some.clear()
            if some:
                yield self.arrow.record_batch([self.arrow.array(column, kind) for column, kind in zip(zip(*some), schema.types)], schema=schema)

        self.lance.write_dataset(batches(), path, schema=schema, mode=mode)

    def append(self, data, out, parts):
        self.write(data, parts, mode="append")

    def filter(self, data, out):
        scanner = self.lance.dataset(data).scanner(filter=CHOSEN, batch_size=256)
        self.lance.write_dataset(scanner.to_reader(), out)

    def merge(self, data, other, out):
        shutil.copytree(data, out, copy_function=os.link)
        self.lance.write_dataset(self.lance.dataset(other).scanner(batch_size=256).to_reader(), out, mode="append")

    def add(self, data, out):
        table = self.arrow.table({"score": scores()})
        self.lance.dataset(data).add_columns(table.to_reader())

    def delete(self, data, out):
        self.lance.dataset(data).delete("key in (" + ", ".join(f"'{key}'" for key in removed()) + ")")

    def count(self, path):
        dataset = self.lance.dataset(path)
        return dataset.count_rows(), len(dataset.schema)


PROGRAMS = {"Shardkit": Shardkit, "MDS": MDS, "WebDataset": WebDataset, "Lance": Lance}
EXPECTED = {"append": (SAMPLES + SAMPLES // 100, 3), "add": (SAMPLES, 4), "delete": (SAMPLES - SAMPLES // 100, 3),
            "merge": (SAMPLES + SAMPLES // 10, 3), "filter": (None, 3)}


def main():
    name, change, folder = sys.argv[1:]
    program = PROGRAMS[name]()
    data, other, out = (os.path.join(folder, part) for part in ("data", "other", "out"))
    if change == "make":
        program.write(data, rows(0, SAMPLES))
        program.write(other, rows(2 * SAMPLES, 2 * SAMPLES + SAMPLES // 10))
        return
    if getattr(program, change) is None:
        print("none")
        return
    if change == "append":
        arguments = [data, out, list(rows(SAMPLES, SAMPLES + SAMPLES // 100))]
    elif change == "merge":
        arguments = [data, other, out]
    else:
        arguments = [data, out]
    begin = time.perf_counter()
    later = getattr(program, change)(*arguments)
    if later is not None:  # only what it returns is the change
        begin = time.perf_counter()
        later()
    print(time.perf_counter() - begin)
    samples, columns = program.count(out if os.path.isdir(out) else data)
    expected = EXPECTED[change]
    if samples != (expected[0] or samples) or columns != expected[1] or samples == 0:
        sys.exit(f"{name}: {change} gave {samples} samples and {columns} columns, not {expected}")


if __name__ == "__main__":
    main()
