"""Datasets: changes of manifests, tables and shards, and how what names them is made again. Part of differential.py, which see."""
import collections
import copy
import hashlib
import json
import os
import re

from differential_changes import Changed, Fields, ShardFile, TablePlaces, another, checksum, group, some_keys
import reference_table as T
from reference_parts import xxh3
from reference_dataset import read_dataset


class Raw(str):
    """A number, or anything else, as it is to stand in a manifest."""


class Pairs(list):
    """An object of JSON: [key, value]."""

    def get(self, wanted, otherwise=None):
        return next((value for key, value in self if key == wanted), otherwise)

    def put(self, wanted, value):
        for pair in self:
            if pair[0] == wanted:
                pair[1] = value


def parse_manifest(text):
    return json.loads(text, object_pairs_hook=lambda pairs: Pairs([list(pair) for pair in pairs]), parse_int=Raw)


def dump(value):
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{dump(key)}: {dump(item)}" for key, item in value) + "}"
    return "[" + ", ".join(map(dump, value)) + "]" if isinstance(value, list) else json.dumps(value)


def manifest_bytes(tree):
    pairs = [pair for pair in tree if pair[0] != "checksum"] if isinstance(tree, Pairs) else []
    body = "{\n" + "".join(f"  {dump(key)}: {dump(value)},\n" for key, value in pairs)
    return body.encode() + f'  "checksum": "{xxh3(body.encode()):016x}"\n}}\n'.encode()


def nodes(tree, path=()):
    """(path without numbers, container, position in it) of each value."""
    for i, item in enumerate(tree):
        key, value = item if isinstance(tree, Pairs) else ("*", item)
        if key == "checksum" and not path:
            continue
        here = (*path, key)
        yield here, tree, i
        if isinstance(value, list):
            yield from nodes(value, here)


NUMBERS = ("0", "1", "2", "-1", "-0", "1.0", "1e0", "01", "4096", "65536", "4294967296", str(1 << 62), str((1 << 62) + 1), str((1 << 63) - 1), str(1 << 63),
           str((1 << 64) - 1), str(1 << 64), "1" + "0" * 30, "1E400", '"1"', "+1", "NaN")
TEXTS = ("", "a\0b", "a\nb", "..", "a/../b", "a//b", "/a", "a/", "./a", "é", "\ud800", "x" * 256, "x" * 255, "x" * 4097, "0", "utf8", "bytes", "none", "zstd",
         "bases", "dataset.json", "dataset.segment", "label@2", "json", "key", "ndarray", "i64", "A\u0308")
KEYS = ("later", "index", "table", "sha256", "stored", "dropped", "column_files", "removed", "next_shard", "replaced", "value_size", "dtype", "shape",
        "metadata", "features", "shards", "columns", "runs", "bases")
# A dataset that is changed lies in the folder "changed", with the bases of all datasets beside it.
LOCATIONS = ("", ".", "..", "../tiny", "../tiny/", "./../segments", "..//segments", "../no-such/../segments",
             "../../segments", "../../../..", "../tiny/..", "part", "../changed", "../changed/part", "../segments/part",
             "../no-such", "/", "/no-such/x", "../a?b", "../a#b", "../a@b", "a\0b", "../\n", "x" * 4097, "s3://b/x",
             "s3://a@b/x", "s3://b/x@y", "hf://datasets/a/b@c", "https://b/x?y", "https://b/x#y", "https://a:b@c")


class DatasetFile:
    """A right dataset: its files, their fields, and how to make what names them again."""

    def __init__(self, folder):
        self.folder, self.files, self.tables, self.shards = folder, {}, {}, {}
        for root, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(root, name), "rb") as file:
                    self.files[os.path.relpath(os.path.join(root, name), folder)] = file.read()
        tree = parse_manifest(self.files["dataset.json"])
        self.bases = {base.get("name"): os.path.normpath(os.path.join(folder, base.get("location")))
                      for base in tree.get("bases", [])}
        for segment in tree.get("segments"):
            self.add_table(segment.get("table").get("name"), [T.Index, T.ShardList, T.KeyTable])
        if tree.get("removed"):
            self.add_table(tree.get("removed").get("table").get("name"), [T.RemovedSamples])
        for row in (row for row in rows_of_files(tree) if row.get("name") in self.files):  # the others are of bases
            self.shards[row.get("name")] = ShardFile(self.files[row.get("name")])
        self.names = sorted(name for name in self.files if name in self.tables or name in self.shards or name == "dataset.json")
        self.keys = some_keys(read_dataset(folder))

    def add_table(self, name, wanted):
        out = Fields()
        self.tables[name] = TablePlaces(out, memoryview(self.files[name]), 0, wanted), out, group(out)

    def changed(self, rng):
        """What was changed, and the files."""
        files, name = dict(self.files), rng.choice(self.names)
        if rng.random() < 0.02:
            del files[name]
            return f"{kind_of_file(name)} is missing", files
        if name in self.shards:
            shard = self.shards[name]
            kind, pins = another(rng, shard.data, shard.fields, shard.by_kind)
            files[name] = shard.changed(pins)
            tree = self.follow(files, name)
        elif name in self.tables:
            _, fields, by_kind = self.tables[name]
            kind, pins = another(rng, self.files[name], fields, by_kind)
            self.repair_table(files, name, pins)
            tree = self.refer(files, parse_manifest(files["dataset.json"]))
        else:
            tree = parse_manifest(files[name])
            of_bases = rng.random() < (0.4 if self.bases else 0.05)
            kind = self.change_bases(rng, tree, files) if of_bases else change_manifest(rng, tree)
        kind = f"{kind_of_file(name)}: {kind}"
        files["dataset.json"] = manifest_bytes(tree)
        if name == "dataset.json" and rng.random() < 0.03:
            text = bytearray(files[name])
            text[-rng.randrange(1, 40)] ^= 1 << rng.randrange(8)
            files[name], kind = bytes(text), "dataset.json: end"
        return kind, files

    def change_bases(self, rng, tree, files):
        """Changes one thing of the bases, or which files lie in them; returns what."""
        bases = tree.get("bases", [])
        rows = [*rows_of_files(tree), *(holder.get("table") for holder in holders_of_tables(tree))]
        folders = [name.split("/")[0] for name in [*self.files, *(row.get("name") for row in rows)]]
        choice = rng.choice(("added", "renamed", "elsewhere", "copied", "file moved")) if bases else "added"
        if choice == "added":
            if not bases:
                tree.insert(rng.randrange(len(tree)), ["bases", bases])
            added = [["name", rng.choice(["b", *folders])], ["location", rng.choice(LOCATIONS)],
                     ["generation", Raw("1")], ["checksum", "0" * 16]]
            bases.insert(rng.randrange(len(bases) + 1), Pairs(added))
            tree.put("features", ["bases"] if rng.random() < 0.9 else [])
            return "bases: added"
        base = rng.choice(bases)
        name = base.get("name")
        if choice == "copied":  # the base as the folder of its name makes a whole dataset
            for root, _, inner in os.walk(self.bases[name]):
                for path in (os.path.join(root, each) for each in inner):
                    with open(path, "rb") as file:
                        files[f"{name}/{os.path.relpath(path, self.bases[name])}"] = file.read()
            bases.remove(base)
            if not bases and rng.random() < 0.9:
                tree[:] = [pair for pair in tree if pair[0] != "bases"]
                tree.put("features", [] if rng.random() < 0.9 else ["bases"])
        elif choice == "file moved":
            row = rng.choice(rows)
            inner = row.get("name").split("/", 1)[-1]
            row.put("name", rng.choice([inner, f"{name}/{inner}", f"{name}/{row.get('name')}"]))
        elif choice == "renamed":
            base.put("name", rng.choice(["b", *folders, *self.bases]))
        else:
            base.put("location", rng.choice(LOCATIONS))
        return f"bases: {choice}"

    def repair_table(self, files, name, pins):
        data = Changed(files[name], pins)
        self.tables[name][0].repair(data)
        files[name] = bytes(data)

    @staticmethod
    def refer(files, tree):
        for holder in holders_of_tables(tree):
            named = holder.get("table")
            named.put("checksum", files[named.get("name")][-16:-8][::-1].hex())
        return tree

    def follow(self, files, name):
        """After a shard or column file has changed: the manifest's row and, of a shard, the segment file."""
        tree = parse_manifest(files["dataset.json"])
        data, before = files[name], self.files[name]
        for row in rows_of_files(tree):
            if row.get("name") == name:
                row.put("content_hash", data[-56:-40].hex())
                row.put("sha256", hashlib.sha256(data).hexdigest())
        if name not in [row.get("name") for row in tree.get("shards", [])]:
            return tree
        hashes = [bytes.fromhex(row.get("content_hash")) for row in tree.get("shards")]
        shard, first = self.shards[name].shard, 0
        for segment in tree.get("segments"):
            table = segment.get("table").get("name")
            places, last = self.tables[table][0], first + int(segment.get("shards"))
            pins = [(places.payloads[1] + 24, checksum(b"".join(hashes[first:last])))]
            for old, new in ((before[-56:-40], data[-56:-40]), (hashlib.sha256(before).digest(), hashlib.sha256(data).digest())):  # in the list
                at = files[table].find(old)
                pins += [(at, new)] if at >= 0 else []
            for block in self.shards[name].blocks:
                at = block.offset + 64 * (len(shard.columns) + 1) - 8
                pins += [(field.at, data[at:at + 8]) for field in self.tables[table][1]
                         if field.kind.endswith("header_checksum") and files[table][field.at:field.at + 8] == before[at:at + 8]]
            self.repair_table(files, table, pins)
            first = last
        return self.refer(files, tree)


def rows_of_files(tree):
    """What the manifest says of shards and column files."""
    return [*tree.get("shards", []), *tree.get("column_files", [])]


def holders_of_tables(tree):
    """What the manifest says of segments and of removed samples."""
    return [*tree.get("segments"), *([tree.get("removed")] if tree.get("removed") else [])]


def kind_of_file(name):
    return "shard" if name.endswith(".shard") else re.sub(r"-\d+", "", os.path.basename(name))


def change_manifest(rng, tree):
    """Changes one thing; returns what."""
    by_path = collections.defaultdict(list)
    for path, container, i in nodes(tree):
        by_path["/".join(path)].append((container, i))
    path = rng.choice(sorted(by_path))
    container, i = rng.choice(by_path[path])
    pair = isinstance(container, Pairs)
    value = container[i][1] if pair else container[i]
    everything = [copy.deepcopy(each[j][1] if isinstance(each, Pairs) else each[j]) for entries in by_path.values() for each, j in entries]

    def put(new):
        if pair:
            container[i][1] = new
        else:
            container[i] = new
    choice = rng.random()
    if choice < 0.55 and not isinstance(value, list):
        if isinstance(value, Raw):
            number = int(value)
            near = map(str, (number + 1, number - 1, 2 * number, number ^ 1 << rng.randrange(62)))
            put(Raw(rng.choice([*NUMBERS, *near, *(item for item in everything if isinstance(item, Raw))])))
        elif isinstance(value, str):
            same = [item for item in everything if isinstance(item, str) and not isinstance(item, Raw)]
            digits = value and rng.choice((value[:-1], value + "0", value.upper(), value.capitalize(), value[::-1],
                                           value.replace(value[0], rng.choice("0f9aZ"))))
            put(rng.choice([*TEXTS, *[digits] * 8, *rng.sample(same, min(8, len(same)))]))
        else:
            put(rng.choice([not value, None, Raw("0"), Raw("1"), "true"]))
        return f"{path} changed"
    if choice < 0.70:
        put(rng.choice([None, True, False, [], Pairs(), "", Raw("0"), Raw("1.0"), [None], [Pairs()], rng.choice(everything)]))
        return f"{path} of another type"
    if choice < 0.80:
        del container[i]
        return f"{path} dropped"
    if choice < 0.90:
        at = rng.randrange(len(container) + 1)
        container.insert(at, [container[i][0], rng.choice([value, None, Raw("7")])] if pair else value)
        return f"{path} twice"
    if pair and choice < 0.95:
        added = rng.choice([Pairs([["a", None], ["a", None]]), None, Raw("1"), "x", [], ["x"], Pairs()])
        container.insert(rng.randrange(len(container) + 1), [rng.choice(KEYS), added])
        return f"{path}: key added"
    if pair:
        container[i][0] = rng.choice([*(container[i][0] + "x", container[i][0].upper(), ""), *(key for key, _ in container)])
        return f"{path} renamed"
    rng.shuffle(container)
    return f"{path} shuffled"
