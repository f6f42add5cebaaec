"""The manifest of a dataset (sections 9.1, 9.4 and 9.6 of spec.md). Part of reference_reader.py, which see."""
import json
import re
from typing import NamedTuple

from reference_parts import BLOB, CODECS, FIXED, INLINE, MAX_COLUMNS, NONE, Column, ShardError, check, check_column, plain_name, xxh3
from reference_reader import map_file
from reference_table import MAX_NAME, MAX_REMOVED, counts_fit
from reference_values import BYTES, IMAGE, JPEG, JSON, MAX_RANK, NDARRAY, PNG, TYPE_NAMES, UTF8

MANIFEST_KEYS = ("format", "version", "features", "generation", "operation", "samples", "bytes", "blocks", "columns", "metadata",
                 "segments", "checksum")
FEATURES = ("bases",)
MAX_BASES = 65536
NARROWER = {BYTES: (UTF8, JSON, JPEG, PNG, IMAGE), UTF8: (JSON,), IMAGE: (JPEG, PNG)}  # what a shard may say where the dataset says the key


class TableReference(NamedTuple):
    name: str
    bytes: int
    root: int  # with the tail
    checksum: int


class Removed(NamedTuple):
    samples: int
    table: TableReference


class Segment(NamedTuple):
    shards: int
    samples: int
    blocks: int
    table: TableReference


class ManifestShard(NamedTuple):
    name: str
    bytes: int
    samples: int
    blocks: int
    content_hash: bytes
    sha256: bytes | None = None  # of the whole file


class Run(NamedTuple):
    sample: int  # stored
    samples: int
    begin: int  # in the file

    @property
    def end(self):
        return self.sample + self.samples


class Base(NamedTuple):
    name: str
    location: str
    generation: int
    checksum: str  # of its manifest, which this reader does not open


class ColumnFile(NamedTuple):
    file: ManifestShard
    columns: list
    runs: list


def is_count(value, most=1 << 62):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def is_operation(value):
    if not (isinstance(value, Object) and isinstance(value.get("name"), str) and isinstance(value.get("arguments"), Object)):
        return False
    return not value.twice and not value["arguments"].twice and all(isinstance(items, list) and all(isinstance(item, str) for item in items) for items in value["arguments"].values())


class Object(dict):
    """A JSON object: of a key that occurs twice the first value, and that it does. Unknown keys are ignored, as is what stands in them."""
    def __init__(self, pairs):
        super().__init__()
        self.twice = []
        for key, value in pairs:
            if key in self:
                self.twice.append(key)
            else:
                self[key] = value


def check_object(value, what):
    check(isinstance(value, Object), f"{what} is not an object")
    check(not value.twice, f"{what}: the key {value.twice[:1]} occurs twice")


def array(value, what):
    check(isinstance(value, list), f"{what} is not an array")
    return value


def parse_json(data):
    # NaN, which Python takes, is the value of no key that is known.
    parsed = json.loads(str(data, "utf-8"), object_pairs_hook=Object, parse_int=lambda digits: -1 if digits == "-0" else int(digits))
    json.dumps(parsed, ensure_ascii=False).encode()  # no half of a surrogate pair
    return parsed


def from_hex(value, count, what):
    check(isinstance(value, str) and len(value) == 2 * count and set(value) <= set("0123456789abcdef"),
          f"{what} is not {2 * count} lower-case hexadecimal digits")
    return bytes.fromhex(value)


class Manifest:
    def __init__(self, path):
        try:
            data = bytes(map_file(path))
        except FileNotFoundError:
            raise ShardError("not a dataset: dataset.json is missing", kind="NotFound") from None
        at = data.rfind(b'\n  "checksum": "') + 1
        check(at > 0, "manifest has no checksum line")
        check(data[at:] == f'  "checksum": "{xxh3(data[:at]):016x}"\n}}\n'.encode(),
              "manifest checksum does not match, or bytes follow its line", at)
        try:
            self.json = parse_json(data)
        except (ValueError, RecursionError) as error:
            raise ShardError(f"manifest is not JSON: {error}") from None
        check(isinstance(self.json, Object), "manifest is not a JSON object")
        check(self.json.get("format") == "shardkit-dataset", "manifest format is not shardkit-dataset")
        version, features = self.json.get("version"), self.json.get("features")
        check(is_count(version), f"manifest version {version!r} is not a count")
        check(version == 1, f"manifest version {version} is not supported", kind="Unimplemented")
        check(isinstance(features, list) and all(isinstance(feature, str) for feature in features),
              "manifest features are not an array of strings")
        check(features == sorted(set(features)), "manifest features do not ascend")
        unknown = [feature for feature in features if feature not in FEATURES]
        check(not unknown, f"manifest feature {unknown[:1]} is not known", kind="Unimplemented")
        check_object(self.json, "manifest")
        for key in MANIFEST_KEYS:
            check(key in self.json, f"manifest has no {key!r}")
        try:
            self.columns = parse_columns(self.json)
            self.stored, self.dropped = self.parse_stored()  # names, those of the columns in their order
            self.metadata = self.json["metadata"]
            bases = array(self.json.get("bases", []), "manifest: bases")
            self.bases = [self.parse_base(k, entry) for k, entry in enumerate(bases)]
            self.segments = [self.parse_segment(k, entry) for k, entry in enumerate(array(self.json["segments"], "manifest: segments"))]
            self.shards = None  # the lists of the segments count
            if "shards" in self.json:
                self.shards = [self.parse_shard(f"manifest: shard {k}", entry) for k, entry in enumerate(array(self.json["shards"], "manifest: shards"))]
            self.column_files = [self.parse_column_file(k, entry) for k, entry in enumerate(array(self.json.get("column_files", []), "manifest: column_files"))]
            self.removed = self.parse_removed(self.json["removed"]) if "removed" in self.json else None
        except (KeyError, TypeError, AttributeError) as error:
            raise ShardError(f"manifest is malformed: {error!r}") from None
        check_metadata(self.metadata, "manifest")
        self.check_bases("bases" in features)
        self.generation = self.json["generation"]
        check(is_count(self.generation) and self.generation > 0, "manifest generation is no count from 1")
        check(is_operation(self.json["operation"]), "manifest: operation is not an object of a name and of arguments, arrays of strings")
        check(is_count(self.json.get("next_shard", 0)), "manifest: next_shard is not a count")
        for name in array(self.json.get("replaced", []), "manifest: replaced"):
            check_name("manifest: replaced", name)
        if self.shards is not None:
            self.check_shards(self.shards)
        for field in ("samples", "bytes", "blocks"):
            check(is_count(self.json[field]), f"manifest: {field} is no count")
            total = sum(getattr(segment, field, 0) for segment in self.segments)
            check(self.json[field] == total or field == "bytes", f"manifest: {field} is {self.json[field]}, the segments have {total}")
        samples = self.json["samples"]
        check(self.removed is None or 0 < self.removed.samples <= min(samples, MAX_REMOVED),
              f"manifest: removed: {self.removed and self.removed.samples} samples cannot be removed of {samples}")
        check(self.column_files or "column_files" not in self.json, "manifest: column_files is empty")
        self.check_column_files(samples)

    def parse_stored(self):
        stored = [entry.get("stored", entry["name"]) for entry in self.json["columns"]]
        dropped = array(self.json.get("dropped", []), "manifest: dropped")
        for name in stored + dropped:
            check(isinstance(name, str) and 1 <= len(name.encode()) <= 255, f"manifest: stored or dropped name {name!r} is malformed")
            plain_name(name.encode(), "manifest: stored name", None)
        for entry in self.json["columns"]:
            check(entry.get("stored") != entry["name"], f"manifest: column {entry['name']!r}: stored is the name")
        check(dropped or "dropped" not in self.json, "manifest: dropped is empty")
        check(dropped == sorted(set(dropped), key=str.encode), "manifest: dropped does not ascend")
        check(len(set(stored + dropped)) == len(stored + dropped), "manifest: two columns have one stored name, or one that is in dropped")
        return stored, dropped

    def check_bases(self, is_feature):
        """Section 9.6."""
        check(is_feature or "bases" not in self.json, "manifest: has bases, and features do not name them")
        check(self.bases or "bases" not in self.json, "manifest: bases is empty")
        check(self.bases or not is_feature, "manifest: features name bases, and it has none")
        names = [base.name.encode() for base in self.bases]
        check(names == sorted(set(names)), "manifest: bases do not ascend by name, each once")
        check(len(names) <= MAX_BASES, f"manifest: {len(names)} bases are over {MAX_BASES}")
        tables = [segment.table.name for segment in self.segments] + ([self.removed.table.name] if self.removed else [])
        for name in tables:
            check(self.place(name)[0] is None, f"manifest: table {name!r} would lie in a base")

    def place(self, name):
        """Of a file: the base in which it lies, or None, and its name there."""
        first, _, rest = name.partition("/")
        return next(((base, rest) for base in self.bases if rest and base.name == first), (None, name))

    def check_column_files(self, samples):
        """Section 9.4, as far as the manifest tells by itself."""
        key = [name for name, column in zip(self.stored, self.columns) if column.key]
        runs = {name: [] for name in self.stored + self.dropped}
        for k, (file, columns, own) in enumerate(self.column_files):
            what = f"manifest: column file {k}"
            check(columns and len(set(columns)) == len(columns), f"{what}: has no column, or one twice")
            for name in columns:
                check(name in runs and name not in key, f"{what}: column {name!r} is not a stored name, or the key's")
                runs[name] += own
            check(own, f"{what}: has no runs")
            for run in own:
                check(run.samples and run.end <= samples and run.begin + run.samples <= file.samples, f"{what}: {run} is empty or passes an end")
            check(all(run.end <= after.sample for run, after in zip(own, own[1:])), f"{what}: its runs do not ascend, or overlap")
        for name, every in runs.items():
            every.sort()
            check(all(run.end <= after.sample for run, after in zip(every, every[1:])), f"manifest: column files: runs of {name!r} overlap")
        self.runs = runs

    def check_shards(self, shards):
        """What the manifest says of these, which it lists, or the segment files."""
        names = [file.name for file in (*shards, *(segment.table for segment in self.segments), *(each.file for each in self.column_files))]
        names += [self.removed.table.name] if self.removed else []
        check(len(set(names)) == len(names), "manifest names a file twice")
        first = 0
        for k, segment in enumerate(self.segments):
            part = shards[first:first + segment.shards]
            check(0 < segment.shards == len(part), f"manifest: segment {k}: {segment.shards} shards cannot be")
            check((segment.samples, segment.blocks) == (sum(shard.samples for shard in part), sum(shard.blocks for shard in part)),
                  f"manifest: segment {k}: samples or blocks are not those of its shards")
            first += segment.shards
        check(first == len(shards), "manifest: the segments leave out shards")
        check(self.json["bytes"] == sum(shard.bytes for shard in shards), "manifest: bytes are not those of the shards")

    @staticmethod
    def parse_table(what, entry):
        check_object(entry, what)
        check_name(what, entry["name"])
        check(is_count(entry["bytes"]) and is_count(entry["root"]) and 64 <= entry["root"] <= entry["bytes"],
              f"{what}: bytes or root cannot be")
        return TableReference(entry["name"], entry["bytes"], entry["root"],
                              int.from_bytes(from_hex(entry["checksum"], 8, f"{what}: checksum"), "big"))

    @staticmethod
    def parse_base(k, entry):
        what = f"manifest: base {k}"
        check_object(entry, what)
        name, location, generation, checksum = base = Base(*(entry[field] for field in Base._fields))
        check_name(what, name)
        check("/" not in name and len(name.encode()) <= 255, f"{what}: name {name!r} is not one component, or too long")
        check(isinstance(location, str) and 0 < len(location.encode()) <= MAX_NAME and "\0" not in location,
              f"{what}: location {location!r} is not allowed")
        is_url = "://" in location
        check(not is_url or re.fullmatch(r"[A-Za-z0-9+.-]+://[^/@?#]+(/[^?#]*)?", location, re.DOTALL),
              f"{what}: location {location!r} is no URL without user, query and fragment")
        check(is_count(generation) and generation > 0, f"{what}: generation is no count from 1")
        from_hex(checksum, 8, f"{what}: checksum")
        return base

    @classmethod
    def parse_removed(cls, entry):
        check_object(entry, "manifest: removed")
        check(is_count(entry["samples"]), "manifest: removed: samples is not a count")
        return Removed(entry["samples"], cls.parse_table("manifest: removed: table", entry["table"]))

    @classmethod
    def parse_segment(cls, k, entry):
        what = f"manifest: segment {k}"
        check_object(entry, what)
        for field in ("shards", "samples", "blocks"):
            check(is_count(entry[field]), f"{what}: {field} is not a count")
        return Segment(entry["shards"], entry["samples"], entry["blocks"], cls.parse_table(f"{what}: table", entry["table"]))

    @staticmethod
    def parse_shard(what, entry):
        check_object(entry, what)
        name = entry["name"]
        check_name(what, name)
        for field in ("bytes", "samples", "blocks"):
            check(is_count(entry[field]), f"{what}: {field} is not a count")
        check(counts_fit(entry["samples"], entry["blocks"]), f"{what}: {entry['samples']} samples cannot be in {entry['blocks']} blocks")
        sha256 = from_hex(entry["sha256"], 32, f"{what}: sha256") if "sha256" in entry else None
        return ManifestShard(name, entry["bytes"], entry["samples"], entry["blocks"], from_hex(entry["content_hash"], 16, f"{what}: content_hash"), sha256)

    @classmethod
    def parse_column_file(cls, k, entry):
        what = f"manifest: column file {k}"
        file, runs = cls.parse_shard(what, entry), []
        for run in array(entry["runs"], f"{what}: runs"):
            check_object(run, f"{what}: run")
            runs.append(Run(*(run[field] for field in Run._fields)))
            check(all(map(is_count, runs[-1])), f"{what}: {runs[-1]} is not of counts")
        columns = array(entry["columns"], f"{what}: columns")
        check(all(isinstance(name, str) for name in columns), f"{what}: columns are not strings")
        return ColumnFile(file, columns, runs)


def check_name(what, name):
    check(isinstance(name, str) and name and not any(part in ("", ".", "..") for part in name.split("/"))
          and "\0" not in name and not any("\ud800" <= c <= "\udfff" for c in name) and len(name.encode(errors="surrogateescape")) <= MAX_NAME, f"{what}: name {name!r} is not allowed")


def parse_columns(entry):
    rows = array(entry["columns"], "manifest: columns")
    check(1 <= len(rows) <= MAX_COLUMNS, f"manifest: {len(rows)} columns are not 1 to 4096")
    columns = tuple(parse_column(c, row) for c, row in enumerate(rows))
    check(len({column.name for column in columns}) == len(columns), "manifest has a duplicate column")
    check(sum(column.key for column in columns) <= 1, "manifest has more than one key")
    return columns


def parse_column(c, entry):
    check_object(entry, f"manifest: column {c}")
    what = f"manifest: column {c} {entry['name']!r}"
    check(isinstance(entry["name"], str) and 1 <= len(entry["name"].encode()) <= 255, f"{what}: name is malformed")
    type_, codec = numbered(entry, "type", TYPE_NAMES, 1 << 16, what), numbered(entry, "codec", CODECS, 1 << 8, what)
    check(isinstance(entry["nullable"], bool) and isinstance(entry["key"], bool), f"{what}: flags are not boolean")
    dtype, shape = 0, None
    if type_ == NDARRAY or type_ not in TYPE_NAMES:
        dtype, shape = numbered(entry, "dtype", TYPE_NAMES, 1 << 16, what), entry["shape"]
        if shape is not None:
            shape = tuple(array(shape, f"{what}: shape"))
            check(len(shape) <= MAX_RANK and all(is_count(dimension, (1 << 64) - 1) for dimension in shape), f"{what}: shape is malformed")
    else:
        for key in ("dtype", "dtype_number", "shape"):
            check(key not in entry, f"{what}: has a {key}, which its type does not have")
    size = entry.get("value_size")
    check("value_size" not in entry or is_count(size), f"{what}: value_size is not a count")
    metadata = entry.get("metadata", Object([]))
    check_metadata(metadata, what)
    storage = FIXED if size is not None else BLOB if codec == NONE else INLINE  # the last two as far as a dataset knows
    column = Column(entry["name"], type_, codec, storage, entry["nullable"], entry["key"], size, dtype, shape, metadata)
    plain_name(column.name.encode(), f"{what}: name", None)
    check_column(column, what)
    return column


def column_difference(mine, column):
    """In what a column of a shard or column file does not fit `column`, the dataset's; else an empty string."""
    if mine.type != column.type and mine.type not in NARROWER.get(column.type, ()):
        return "type"
    different = [field for field in ("codec", "key", "dtype", "shape", "value_size") if getattr(mine, field) != getattr(column, field)]
    return different[0] if different else "nullable" if mine.nullable and not column.nullable else ""


def numbered(entry, key, names, end, what):
    """The number of a type or codec; where this reader knows it, its name is there, too."""
    number = entry[f"{key}_number"]
    check(isinstance(entry.get(key, ""), str), f"{what}: {key} is not a string")
    check(is_count(number) and number < end, f"{what}: {key}_number {number!r} is none of a {key}")
    check(number not in names or entry.get(key) == names[number], f"{what}: {key} {entry.get(key)!r} is not the name of {key}_number {number}")
    return number


def check_metadata(value, what):
    check_object(value, f"{what}: metadata")
    check(all(isinstance(text, str) for text in value.values()), f"{what}: metadata is not an object of strings")
    for name in value:
        plain_name(name.encode(), f"{what}: metadata name", None)
