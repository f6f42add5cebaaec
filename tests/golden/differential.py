#!/usr/bin/python3
"""Compares the library with the reference reader, on files that each have one field changed behind right checksums, and on damaged ones.

    tests/golden/differential.py                                            some hundreds of files, in half a minute
    tests/golden/differential.py --shards 100000 --manifests 100000 --damaged 10000

      --shards N      shards with a changed field (default: 600)
      --manifests N   datasets with a change in a manifest, table, list, shard or column file (default: 300)
      --damaged N     shards that are flipped, cut, overwritten and moved, and repaired (default: 60)
      --seed S        another run (default: 1). One seed gives the same files
      --build-dir DIR whose Python package and shardctl are tested (default: build)
      --shardctl PATH makes datasets to begin with, beside the golden ones (default: that of the build)
      --package DIR   where the Python package lies (default: that of the build)
      --output DIR    gets each file on which the two differ, with both verdicts beside it (default: differential)

Both open a file, read every value, and validate it, also deep. They must find it right or wrong alike, with the class of section 8 of the
specification, at the same operation or, of the library, an earlier one, and give the same values. What changes is a number, text or
checksum of any part of a shard, table or manifest; checksums, ids and hashes that cover it are made again, from the inside to the outside.

Exit status: 0 they agree, 1 they differ, 2 usage, 3 it is not built.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPEC = os.path.join(ROOT, "format-spec")
VALID = os.path.join(SPEC, "golden", "valid")
sys.path[:0] = [SPEC, os.path.join(SPEC, "golden")]

import reference_parts as P  # noqa: E402
import reference_reader as R  # noqa: E402
import writer as W  # noqa: E402
from differential_changes import ShardFile, another  # noqa: E402
from differential_damage import damage, recover_as_told  # noqa: E402
from differential_datasets import DatasetFile  # noqa: E402
from differential_library import FEW, LEVELS, SINGLE, Library, digest  # noqa: E402
from reference_dataset import read_dataset  # noqa: E402

KEPT = 2  # files of each difference
# What validation alone has to find (section 4.4), and the reference reader finds when it reads.
VALIDATION_FINDS = re.compile("value checksum does not match|page checksum does not match|absent value is not zero")
# What the reference reader finds when it opens a dataset, since it reads lists of shards whole.
LIST_PAGES = re.compile("list of shards: (page|checksum of page|shard)|manifest names a file twice")
# What only a reader of whole lists finds.
WHOLE_LIST = re.compile("list of shards: (magic|samples, blocks or bytes of the root)")
UNDECODED = re.compile("jpeg|png|webp|image|decode", re.I)  # the reference reader has no decoder


# ---- What the reference reader finds, and whether the library does ----

def told(error):
    return [error.kind, str(error)] if isinstance(error, P.ShardError) else [f"crash: {type(error).__name__}", str(error)]


def judge_reference(path, keys):
    try:
        source = read_dataset(path) if os.path.isdir(path) else R.read_shard(path)
    except Exception as error:
        return {"open": told(error)}
    problem = getattr(source, "index_problem", None)
    out = {"open": None, "samples": source.sample_count, "read": None, "soft": None, "found": [], "digests": None, "single": {},
           "unseen": os.path.isdir(path) and bool(source.manifest.dropped), "index": str(problem) if problem else None}
    values = {column.name: [] for column in source.columns if column.codec in P.CODECS}
    try:
        if source.sample_count <= FEW:
            for raws in source.raw_samples():
                for name, each in values.items():
                    raw = raws.get(name)
                    each.append(None if raw is None else bytes(raw))
            out["digests"] = {name: digest(each) for name, each in values.items()}
    except Exception as error:
        out["soft" if VALIDATION_FINDS.search(str(error)) else "read"] = told(error)
    for i in range(min(source.sample_count, SINGLE)):
        for name, each in values.items():
            try:  # through the index, where there is one
                value = source.read_blob(i, name) if os.path.isdir(path) and not out["index"] and is_blob(source, name) else each[i]
                out["single"][f"{i} {name}"] = digest([value])
            except IndexError:
                pass  # not read
            except Exception as error:
                out["single"][f"{i} {name}"] = told(error)
    for key in keys:
        try:
            out["found"].append(source.find(key) if any(column.key for column in source.columns) else "ValueError")
        except Exception as error:
            out["found"].append(told(error)[0])
    for level in LEVELS[2:]:
        try:
            source.validate(deep=level == "deep")
            out[level] = None
        except Exception as error:
            out[level] = told(error)
    return out


def is_blob(source, name):
    return bool(source.manifest.segments) and any(column.name == name and column.is_indexed for column in source.columns)


def first_wrong(verdict):
    """The operation that first finds something, and its class."""
    for level in LEVELS:
        if found := verdict.get(level):
            return level, found if isinstance(found[0], list) else [found]
    return None, []


def compare(mine, theirs):
    """What differs between the reference's and the library's verdict, in words; or an empty string."""
    level, wrong = first_wrong(mine)
    their_level, their_wrong = first_wrong(theirs)
    classes = {class_ for class_, _ in their_wrong}
    if level == "open" and LIST_PAGES.match(wrong[0][1]):
        level = "read"  # a reader may read them when it needs them
    if level == "open" and WHOLE_LIST.match(wrong[0][1]) or level == "read" and mine.get("unseen"):
        level = "validate"  # what who reads a page needs not, and columns that nobody sees
    if "crash" in classes or wrong and wrong[0][0].startswith("crash"):
        return "crash"
    if classes == {"limit"}:
        return ""
    if (level is None) != (their_level is None):
        if level is None and their_level == "deep" and all(UNDECODED.search(message) for _, message in their_wrong):
            return ""
        mine, theirs = f"{wrong[0][0]} at {level}" if level else "accepts", f"{'+'.join(sorted(classes))} at {their_level}" if their_level else "accepts"
        return f"reference {mine}, library {theirs}"
    if level is not None and wrong[0][0] not in classes:
        return f"reference {wrong[0][0]}, library {'+'.join(sorted(classes))}"
    if level is not None and LEVELS.index(level) != LEVELS.index(their_level):
        return f"library finds it at {their_level}, reference at {level}" if LEVELS.index(level) < LEVELS.index(their_level) else "earlier"
    if mine["open"] or theirs["open"]:
        return ""
    if (mine["index"] is None) != (theirs["index"] is None):
        return f"index: reference {'has a problem' if mine['index'] else 'has none'}, library {'has one' if theirs['index'] else 'has none'}"
    if mine["samples"] != theirs["samples"] and theirs["digests"]:
        return "number of samples"
    for name, value in mine["single"].items() if level is None or "index" not in wrong[0][1] else ():
        other = theirs["single"].get(name)
        if isinstance(value, str) and other is not None and other != value:
            return f"single value: {'another' if isinstance(other, str) else other[0]}"
    if mine["read"] or theirs["read"]:
        return ""
    if mine["digests"] and theirs["samples"] and mine["digests"] != theirs["digests"]:
        return "values"
    for a, b in zip(mine["found"], theirs["found"]):
        if a != b and a != "Unimplemented" and (level is None or not isinstance(a, str) and not isinstance(b, str)):
            return "find by key"
    return ""


def stretches(shard, losses):
    """(first sample, samples, checksums of the chunks) of each block of a repaired shard, as in the damaged one (tests/unit/dataset/check/golden_test.cc)."""
    out, waiting, lost = [], sorted(losses), 0
    for k, entry in enumerate(shard.directory):
        while waiting and waiting[0][0] <= entry.first_sample + lost:
            lost += waiting.pop(0)[1]
        out.append((entry.first_sample + lost, entry.sample_count, [(each.checksum, each.values_checksum) for each in shard.block(k).entries]))
    return out


def compare_repair(library, path, scratch):
    mine, error, footer, blocks, problem = [], None, False, [], ""
    try:
        recovered, footer = recover_as_told(path)
        mine = [(block.first_sample, block.sample_count, [(each.checksum, each.values_checksum) for each in block.entries]) for block in recovered]
    except Exception as found:
        error = told(found)
    output = os.path.join(scratch, "repaired.shard")
    if os.path.exists(output):
        os.remove(output)
    theirs = library.ask("repair", path, output)
    if theirs.get("written"):
        try:
            shard = R.read_shard(output)
            shard.validate()
            blocks = stretches(shard, [loss[:2] for loss in theirs["losses"]])
        except Exception as found:
            problem = f"the repaired shard is wrong: {found}"
    if (theirs["error"] or [""])[0] == "crash" or error and error[0].startswith("crash"):
        problem = "crash"
    if not problem and blocks != mine:
        a, b = ([block[:2] for block in each] for each in (mine, blocks))
        problem = ("other blocks of the same samples" if a == b else ("library has more blocks" if footer else "more") if all(each in b for each in a) else
                   "reference has more blocks" if all(each in a for each in b) else "other blocks")
    return problem, {"blocks": [block[:2] for block in mine], "error": error}, {"blocks": [block[:2] for block in blocks], **theirs}


# ---- Files to begin with ----

def packed(shardctl, folder):
    """Datasets that the library writes."""
    def run(*arguments):
        subprocess.run([shardctl, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    rng, out = random.Random(7), []
    for part in ("a", "b"):
        for i in range(9):
            name = f"{folder}/in-{part}/{part}{i:02}"
            write(f"{name}.txt", " ".join(rng.choice(("river", "stone", "façade", "7")) for _ in range(rng.randrange(12))).encode())
            write(f"{name}.json", json.dumps({"n": i, "of": [part] * (i % 3)}).encode())
            write(f"{name}.bin", rng.randbytes(rng.randrange(200)))
            if i % 3:
                write(f"{name}.raw", rng.randbytes(rng.randrange(90)))
    small = ["--shard-samples", "5", "--block-size", "300B"]
    for name, more in (("plain", []), ("stored", ["--storage", "bin=blob", "--storage", "raw=paged", "--dictionary", "txt=512B", "--sha256"])):
        run("pack", f"{folder}/in-a", "-o", f"{folder}/{name}", *small, *more)
        run("pack", f"{folder}/in-b", "-o", f"{folder}/{name}", "--append", *small)
        out.append(f"{folder}/{name}")
    rows = [{"at": i / 3 - 2, "count": i * i - 5, "good": i % 2 == 0} | ({"word": "w" * i} if i % 4 else {}) for i in range(18)]
    write(f"{folder}/rows.ndjson", "".join(json.dumps(row) + "\n" for row in rows).encode())
    for name in ("added", "removed", "compacted"):
        shutil.copytree(f"{folder}/plain", f"{folder}/{name}")
        if name != "removed":
            run("columns", "add", f"{folder}/{name}", "--from", f"{folder}/rows.ndjson", "--type", "count=i16")
        run("rm", f"{folder}/{name}", "--range", "3:8")
        out.append(f"{folder}/{name}")
    run("compact", f"{folder}/compacted", "--purge")
    run("columns", "rename", f"{folder}/added", "txt=text")
    run("synth", "sa1b", "-o", f"{folder}/pairs", *"--count 3 --width 24 --height 16 --min-objects 1 --max-objects 3 --quality 30".split())
    run("pack", f"{folder}/pairs", "-o", f"{folder}/masks", "--block-size", "1KiB")
    return [*out, f"{folder}/masks"]


def handmade():
    """A shard of all storages whose compressed chunks are frames of raw blocks, so that their insides have places."""
    columns = [W.Col("key", "utf8", "zstd", key=True), W.Col("text", "utf8", "zstd", nullable=True), W.Col("data", "bytes", nullable=True),
               W.Col("page", "bytes", nullable=True, storage="paged"), W.Col("n", "i32", "zstd", nullable=True), W.Col("x", "f32"),
               W.Col("yes", "bool", nullable=True), W.Col("box", "ndarray", dtype="u8", shape=[2, 3]), W.Col("any", "ndarray", "zstd", dtype="i16"),
               W.Col("mask", "rle", "zstd", nullable=True), W.Col("doc", "json", nullable=True, metadata={"unit": "m"})]
    samples = [dict(key=f"k{i}", text="wört" * i, data=b"d" * i, page=b"p" * (3 * i), n=9 - 4 * i, x=[0.0, -0.0, float("nan"), 1.5, float("inf")][i],
                    yes=i % 2 == 1, box=W.Array([2, 3], list(range(i, i + 6))), any=W.Array([i, 2], list(range(2 * i))),
                    mask=W.Masks([(3, 4, [4, 2, 1, 2, 3])], i % 2), doc='{"a": [1, 2.5]}') for i in range(5)]
    for i, name in enumerate(("yes", "mask", "text", "data", "n", "page", "doc")):
        samples[i % 5][name] = None
    frame = lambda raw: (1, W.handmade_frame(raw, checksum=None))  # noqa: E731
    return W.build(columns, samples, [3, 2], metadata={"a": "1", "b": "2"}, encoders={name: frame for name in ("key", "text", "n", "any", "mask")}).data


def nested(*inner):
    """A shard whose values are shards, the blocks of which lie at multiples of 64 in it."""
    columns = [W.Col("key", "utf8", "zstd", key=True), W.Col("data", "bytes", storage="blob")]
    return W.build(columns, [dict(key=f"k{i}", data=data) for i, data in enumerate(inner)], [1] * len(inner)).data


def load(path):
    with open(path, "rb") as file:
        return file.read()


def write(name, data):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "wb") as file:
        file.write(data)


def copy_bases(paths, folder):
    """Beside the datasets that are made there."""
    for path in paths:
        shutil.copytree(path, os.path.join(folder, os.path.basename(path)), dirs_exist_ok=True)


# ---- The run ----

class Run:
    def __init__(self, options, library, scratch, bases):
        self.options, self.library, self.scratch, self.bases = options, library, scratch, bases
        copy_bases(bases, scratch)
        self.counts, self.differ, self.reasons, self.allowed = (collections.Counter() for _ in range(4))

    def note(self, group_, kind, number, difference, path, mine, theirs):
        self.counts[group_, kind] += 1
        self.allowed[difference] += 1  # earlier: see golden/README.md
        if difference in ("", "earlier", "more"):
            return
        self.differ[group_, kind] += 1
        reason = f"{group_}: {kind}: {difference}"
        self.reasons[reason] += 1
        if self.reasons[reason] > KEPT:
            return
        target = os.path.join(self.options.output, f"{group_}-{number}{'.shard' if os.path.isfile(path) else ''}")
        os.makedirs(self.options.output, exist_ok=True)
        if os.path.isfile(path):
            shutil.copyfile(path, target)
        else:
            shutil.copytree(path, target, dirs_exist_ok=True)
            copy_bases(self.bases, self.options.output)
        with open(f"{target}.verdicts.json", "w", encoding="utf-8") as file:
            json.dump({"kind": kind, "difference": difference, "reference": mine, "library": theirs}, file, indent=1)

    def compare_file(self, group_, kind, number, path, keys):
        mine, theirs = judge_reference(path, keys), self.library.ask("judge", path, keys)
        self.note(group_, kind, number, compare(mine, theirs), path, mine, theirs)

    def shards(self, seeds, number):
        rng = random.Random(f"{self.options.seed} shard {number}")
        names, kind = sorted(seeds), None
        if rng.random() < 0.5:  # kinds that few shards have are as frequent as others
            kind = rng.choice(sorted({kind for seed in seeds.values() for kind in seed.by_kind}))
            names = [name for name in names if kind in seeds[name].by_kind]
        seed = seeds[rng.choices(names, [1 / (1 + (len(seeds[name].data) > 12000) * 8) for name in names])[0]]
        kind, pins = another(rng, seed.data, seed.fields, seed.by_kind, kind)
        path = os.path.join(self.scratch, "changed.shard")
        write(path, seed.changed(pins, rng.random() < 0.85))
        self.compare_file("shard", kind, number, path, seed.keys)

    def manifests(self, seeds, number):
        rng = random.Random(f"{self.options.seed} manifest {number}")
        seed = seeds[rng.choice(sorted(seeds))]
        kind, files = seed.changed(rng)
        folder = os.path.join(self.scratch, "changed")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        for name, data in files.items():
            write(os.path.join(folder, name), data)
        self.compare_file("dataset", kind, number, folder, seed.keys)

    def damaged(self, seeds, number):
        rng = random.Random(f"{self.options.seed} damage {number}")
        names = [name for name in sorted(seeds) if name != "unknown-codec-of-key.shard"]  # its key index cannot be made
        datas = [seeds[name].data for name in names if len(seeds[name].data) < 20000]
        kind, data = damage(rng, rng.choice(datas), datas)
        path = os.path.join(self.scratch, "damaged.shard")
        write(path, data)
        difference, mine, theirs = compare_repair(self.library, path, self.scratch)
        self.note("damage", kind, number, difference, path, mine, theirs)


def main():
    parser = argparse.ArgumentParser(usage="tests/golden/differential.py [--shards N] [--manifests N] [--damaged N] [--seed S] [--output DIR]")
    parser.add_argument("--shards", type=int, default=600)
    parser.add_argument("--manifests", type=int, default=300)
    parser.add_argument("--damaged", type=int, default=60)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--build-dir", default=os.path.join(ROOT, "build"))
    parser.add_argument("--shardctl")
    parser.add_argument("--package")
    parser.add_argument("--output", default="differential")
    options = parser.parse_args()
    python = os.path.join(options.build_dir, "python-venv", "bin", "python")
    shardctl = options.shardctl or os.path.join(options.build_dir, "tools", "shardctl")
    for path in (python, shardctl):
        if not os.path.exists(path):
            print(f"{path} is missing: tests/run makes it", file=sys.stderr)
            return 3
    library = Library(python, options.package or os.path.join(options.build_dir, "python"))
    if subprocess.run([python, "-c", "import shardkit"], env=library.environment, check=False).returncode:
        return 3
    with tempfile.TemporaryDirectory() as scratch:
        datasets = {name: DatasetFile(os.path.join(VALID, name)) for name in sorted(os.listdir(VALID)) if os.path.isdir(os.path.join(VALID, name))}
        made = {f"made/{os.path.basename(folder)}": DatasetFile(folder) for folder in packed(shardctl, os.path.join(scratch, "made"))}
        shards = {name: ShardFile(load(os.path.join(VALID, name))) for name in sorted(os.listdir(VALID)) if name.endswith(".shard")}
        inner = [shards[name].data for name in ("one-sample.shard", "many-blocks.shard", "only-needed-sections.shard")]
        shards |= {"handmade": ShardFile(handmade()), "nested": ShardFile(nested(*inner))}
        for folder, dataset in made.items():
            shards |= {f"{folder}/{name}": shard for name, shard in dataset.shards.items()}
        datasets |= made
        run = Run(options, library, scratch, {path for dataset in datasets.values() for path in dataset.bases.values()})
        for name, seed in [*shards.items(), *datasets.items()]:  # first as they are
            path = os.path.join(scratch, "whole.shard") if isinstance(seed, ShardFile) else seed.folder
            if isinstance(seed, ShardFile):
                write(path, seed.changed([]))
                if load(path) != seed.data:
                    print(f"{name}: repairing changes a whole shard", file=sys.stderr)
            run.compare_file("whole", "shard" if isinstance(seed, ShardFile) else "dataset", run.counts.total(), path, seed.keys)
        for make, seeds, count in ((run.shards, shards, options.shards), (run.manifests, datasets, options.manifests), (run.damaged, shards, options.damaged)):
            for number in range(count):
                make(seeds, number)
                if number % 10000 == 9999:
                    print(f"{number + 1} of {count} {make.__name__} compared; {run.differ.total()} differ", flush=True)
    for (group_, kind), count in sorted(run.counts.items()):
        print(f"{count:7} {group_}: {kind}" + (f"  ({run.differ[group_, kind]} differ)" if run.differ[group_, kind] else ""))
    for reason, count in run.reasons.most_common():
        print(f"{count:7} DIFFER {reason}")
    print(f"{run.allowed['earlier']:7} found by the library at an earlier operation, {run.allowed['more']} with more recovered where the footer is damaged")
    print(f"{run.counts.total()} compared, {run.differ.total()} differ")
    return int(run.differ.total() > 0)


if __name__ == "__main__":
    sys.exit(main())
