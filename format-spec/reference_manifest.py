"""The manifest of a dataset, and lists of its shards (sections 9.1 and 9.5 to 9.7 of spec.md). Part of reference_reader.py, which see."""
import json
import os
from typing import NamedTuple

from reference_parts import BLOB, CODECS, FIXED, INLINE, MAX_COLUMNS, NONE, Column, ShardError, check, check_column, plain_name, xxh3
from reference_reader import map_file
from reference_table import MAX_NAME, MAX_REMOVED, ShardList, counts_fit
from reference_values import BYTES, IMAGE, JPEG, JSON, MAX_RANK, NDARRAY, PNG, TYPE_NAMES, UTF8

LAYERS, REMOVED, SHARD_PAGES = "layers", "removed-samples", "shard-pages"
FEATURES = (LAYERS, REMOVED, SHARD_PAGES)  # those known
MANIFEST_KEYS = ("format", "version", "features", "generation", "operation", "samples", "bytes", "blocks", "columns", "metadata",
                 "segments", "checksum")
NARROWER = {BYTES: (UTF8, JSON, JPEG, PNG, IMAGE), UTF8: (JSON,), IMAGE: (JPEG, PNG)}  # what a shard may say where the dataset says the key


class TableReference(NamedTuple):
    name: str
    bytes: int
    root: int  # with the tail
    checksum: int


class Source(NamedTuple):
    """Of the values of a view's column, behind those of the source before (section 9.6)."""
    end: int  # stored samples
    layer: int | None
    column: str | None  # of the layer or, without one, of the shards; None: absent


class Layer(NamedTuple):
    name: str
    checksum: int
    samples: int


class View(NamedTuple):
    columns: tuple
    sources: list  # of each column
    layers: list


class Removed(NamedTuple):
    samples: int
    table: TableReference


class Segment(NamedTuple):
    shards: int
    samples: int
    blocks: int
    index: TableReference
    keys: TableReference | None = None
    list: TableReference | None = None


class ManifestShard(NamedTuple):
    name: str
    bytes: int
    samples: int
    blocks: int
    content_hash: bytes
    sha256: bytes | None = None  # of the whole file


def is_count(value, most=1 << 62):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def is_operation(value):
    if not (isinstance(value, Object) and isinstance(value.get("name"), str) and isinstance(value.get("arguments"), Object)):
        return False
    return not value.twice and not value["arguments"].twice and all(isinstance(items, list) and all(isinstance(item, str) for item in items) for items in value["arguments"].values())


class Object(dict):
    """A JSON object: of a key that stands twice the first value, and that it does. Unknown keys are ignored, as is what stands in them."""
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
    check(not value.twice, f"{what}: the key {value.twice[:1]} stands twice")


def array(value, what):
    check(isinstance(value, list), f"{what} is not an array")
    return value


def parse_json(data):
    def no_number(text):
        raise ValueError(f"{text} is no number")
    parsed = json.loads(str(data, "utf-8"), object_pairs_hook=Object, parse_constant=no_number,
                        parse_int=lambda digits: -1 if digits == "-0" else int(digits))
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
        self.size = len(data)
        at = data.rfind(b'\n  "checksum": "') + 1
        check(at > 0, "manifest has no checksum line")
        check(data[at:] == f'  "checksum": "{xxh3(data[:at]):016x}"\n}}\n'.encode(),
              "manifest checksum does not match, or bytes follow its line", at)
        self.checksum = xxh3(data[:at])
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
        for feature in features:
            check(feature in FEATURES, f"manifest feature {feature!r} is not known", kind="Unimplemented")
        check_object(self.json, "manifest")
        for key in MANIFEST_KEYS:
            check(key in self.json, f"manifest has no {key!r}")
        lists = SHARD_PAGES in features
        check(("shards" in self.json) != lists, f"manifest: 'shards' and feature {SHARD_PAGES!r} exclude each other, and one is there")
        for key, feature in (("view", LAYERS), ("removed", REMOVED)):
            check((key in self.json) == (feature in features), f"manifest: of {key!r} and the feature {feature!r} there is one without the other")
        try:
            self.columns = parse_columns(self.json, "manifest")
            self.metadata = self.json["metadata"]
            self.segments = [self.parse_segment(k, entry) for k, entry in enumerate(array(self.json["segments"], "manifest: segments"))]
            check(all((segment.list is not None) == lists for segment in self.segments) and (self.segments or not lists),
                  f"manifest: segments have a list exactly with the feature {SHARD_PAGES!r}")
            self.shards = [self.parse_shard(k, entry) for k, entry in enumerate(array(self.json.get("shards", []), "manifest: shards"))]
            self.view = parse_view(self.json["view"]) if "view" in self.json else None
            self.removed = self.parse_removed(self.json["removed"]) if "removed" in self.json else None
            for segment in self.segments if lists else []:
                self.shards += self.read_list(os.path.dirname(path), segment)
        except (KeyError, TypeError, AttributeError) as error:
            raise ShardError(f"manifest is malformed: {error!r}") from None
        check_metadata(self.metadata, "manifest")
        self.generation = self.json["generation"]
        check(is_count(self.generation) and self.generation > 0, "manifest generation is no count from 1")
        check(is_operation(self.json["operation"]), "manifest: operation is not an object of a name and of arguments, arrays of strings")
        check(is_count(self.json.get("next_shard", 0)), "manifest: next_shard is not a count")
        for name in array(self.json.get("replaced", []), "manifest: replaced"):
            check_name("manifest: replaced", name)
        names = [shard.name for shard in self.shards]
        names += [table.name for segment in self.segments for table in (segment.index, segment.keys, segment.list) if table]
        names += [self.removed.table.name] if self.removed else []
        names += [layer.name for layer in self.view.layers] if self.view else []
        check(len(set(names)) == len(names), "manifest names a file twice")
        self.check_segments()
        for field in ("samples", "bytes", "blocks"):
            total = sum(getattr(shard, field) for shard in self.shards)
            check(is_count(self.json[field]) and self.json[field] == total, f"manifest: {field} is {self.json.get(field)}, the shards have {total}")
        samples = self.json["samples"]
        check(self.removed is None or 0 < self.removed.samples <= min(samples, MAX_REMOVED),
              f"manifest: removed: {self.removed and self.removed.samples} samples cannot be removed of {samples}")
        if self.view:
            self.check_view(samples)

    def check_view(self, samples):
        """Section 9.6, as far as the manifest tells by itself."""
        for k, layer in enumerate(self.view.layers):
            check(0 < layer.samples <= samples, f"manifest: view: layer {k}: has {layer.samples} samples, but the shards {samples}")
        stored = {column.name: column for column in self.columns}
        for column, sources in zip(self.view.columns, self.view.sources):
            what = f"manifest: view: column {column.name!r}"
            ends = [source.end for source in sources]
            check(all(before < end <= samples for before, end in zip([0, *ends], ends)), f"{what}: the ends of its sources are wrong")
            from_shards = [source.column for source in sources if source.layer is None]
            for source in sources:
                if source.layer is not None:
                    check(source.layer < len(self.view.layers), f"{what}: there is no layer {source.layer}")
                    check(source.end <= self.view.layers[source.layer].samples, f"{what}: a source ends behind its layer")
                    check(not column.key, f"{what}: the key comes from the shards, not from a layer")
                elif source.column is not None:
                    check(source.column in stored, f"{what}: the shards have no column {source.column!r}")
            if not sources or ends[-1] < samples:
                from_shards.append(column.name if column.name in stored else None)
            for name in from_shards:
                difference = name and column_difference(stored[name], column)
                check(not difference, f"{what}: does not fit the shards' column {name!r}: {difference} differs")
            check(column.nullable or None not in from_shards, f"{what}: is not nullable, but some samples have no value")

    def check_segments(self):
        first = 0
        for k, segment in enumerate(self.segments):
            check(0 < segment.shards <= len(self.shards) - first, f"manifest: segment {k}: {segment.shards} shards cannot be")
            part = self.shards[first:first + segment.shards]
            check((segment.samples, segment.blocks) == (sum(shard.samples for shard in part), sum(shard.blocks for shard in part)),
                  f"manifest: segment {k}: samples or blocks are not those of its shards")
            first += segment.shards
        check(first in (0, len(self.shards)), "manifest: the segments leave out shards")

    @staticmethod
    def parse_table(what, entry):
        check_object(entry, what)
        check_name(what, entry["name"])
        check(is_count(entry["bytes"]) and is_count(entry["root"]) and 64 <= entry["root"] <= entry["bytes"],
              f"{what}: bytes or root cannot be")
        return TableReference(entry["name"], entry["bytes"], entry["root"],
                              int.from_bytes(from_hex(entry["checksum"], 8, f"{what}: checksum"), "big"))

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
        keys = cls.parse_table(f"{what}: keys", entry["keys"]) if "keys" in entry else None
        listed = cls.parse_table(f"{what}: list", entry["list"]) if "list" in entry else None
        return Segment(entry["shards"], entry["samples"], entry["blocks"], cls.parse_table(f"{what}: index", entry["index"]), keys, listed)

    @staticmethod
    def read_list(directory, segment):
        """Section 9.5."""
        named = segment.list
        try:
            data = map_file(os.path.join(directory, named.name))
        except FileNotFoundError:
            raise ShardError(f"list of shards: {named.name} is missing; shardctl index makes it anew", kind="NotFound") from None
        listed = ShardList(data)
        check(listed.identity == named[1:] and listed.totals[:3] == (segment.shards, segment.samples, segment.blocks),
              "list of shards is of other shards: not the table that the manifest names", 0)
        for k, row in enumerate(listed.rows):
            check_name(f"list of shards: shard {k}", row[0])
        return [ManifestShard(*row) for row in listed.rows]

    @staticmethod
    def parse_shard(k, entry):
        check_object(entry, f"manifest: shard {k}")
        name = entry["name"]
        check_name(f"manifest: shard {k}", name)
        for field in ("bytes", "samples", "blocks"):
            check(is_count(entry[field]), f"manifest: shard {k}: {field} is not a count")
        check(counts_fit(entry["samples"], entry["blocks"]), f"manifest: shard {k}: {entry['samples']} samples cannot be in {entry['blocks']} blocks")
        sha256 = from_hex(entry["sha256"], 32, f"manifest: shard {k}: sha256") if "sha256" in entry else None
        return ManifestShard(name, entry["bytes"], entry["samples"], entry["blocks"],
                             from_hex(entry["content_hash"], 16, f"manifest: shard {k}: content_hash"), sha256)


def check_name(what, name):
    check(isinstance(name, str) and name and not any(part in ("", ".", "..") for part in name.split("/"))
          and "\0" not in name and len(name.encode(errors="surrogateescape")) <= MAX_NAME, f"{what}: name {name!r} is not allowed")


def parse_columns(entry, what):
    rows = array(entry["columns"], f"{what}: columns")
    check(1 <= len(rows) <= MAX_COLUMNS, f"{what}: {len(rows)} columns are not 1 to 4096")
    columns = tuple(parse_column(c, row) for c, row in enumerate(rows))
    check(len({column.name for column in columns}) == len(columns), f"{what} has a duplicate column")
    check(sum(column.key for column in columns) <= 1, f"{what} has more than one key")
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
    """In what a column of shards or a layer does not fit `column`, which stands for it; else an empty string."""
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


# ---- Section 9.6: layers ----

def parse_view(entry):
    check_object(entry, "manifest: view")
    columns, sources = parse_columns(entry, "manifest: view"), []
    for row in entry["columns"]:
        what = f"manifest: view: column {row['name']!r}"
        sources.append([parse_source(f"{what}: source {k}", source) for k, source in enumerate(array(row.get("sources", []), f"{what}: sources"))])
    layers = array(entry["layers"], "manifest: view: layers")
    return View(columns, sources, [parse_layer(f"manifest: view: layer {k}", layer) for k, layer in enumerate(layers)])


def parse_source(what, entry):
    check_object(entry, what)
    column, layer = entry.get("column"), entry.get("layer")
    check(is_count(entry["end"]), f"{what}: end is not a count")
    check("column" not in entry or (isinstance(column, str) and column), f"{what}: column has no name")
    check("layer" not in entry or (is_count(layer) and column), f"{what}: layer is not a count, or stands without a column")
    return Source(entry["end"], layer, column)


def parse_layer(what, entry):
    check_object(entry, what)
    check_name(what, entry["name"])
    check(is_count(entry["samples"]), f"{what}: samples is not a count")
    return Layer(entry["name"], int.from_bytes(from_hex(entry["checksum"], 8, f"{what}: checksum"), "big"), entry["samples"])
