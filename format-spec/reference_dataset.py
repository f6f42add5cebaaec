"""Datasets: manifest and offset index (section 9 of spec.md). Part of reference_reader.py, which see."""
import bisect
import collections
import hashlib
import itertools
import json
import os
import struct
from typing import NamedTuple

from reference_parts import (BYTES, CODECS, IMAGE, JPEG, JSON, PNG, TYPE_NUMBERS, UTF8, Column, ShardError, check,
                             is_zero, round_up, xxh3)
from reference_reader import map_file, read_shard, sample_json
from reference_table import KeyTable

INDEX_MAGIC = b"\x89IDX\r\n\x1a\n"
INDEX_HEADER, PAGE = 192, 65536
FEATURES = ()  # of the manifest, those known
MANIFEST_KEYS = ("format", "version", "features", "samples", "bytes", "blocks", "columns", "metadata", "shards", "checksum")
NARROWER = {BYTES: (UTF8, JSON, JPEG, PNG, IMAGE), UTF8: (JSON,), IMAGE: (JPEG, PNG)}  # what a shard may say where the dataset says the key


# ---- Section 9.1: manifest ----

class ManifestShard(NamedTuple):
    name: str
    bytes: int
    samples: int
    blocks: int
    content_hash: bytes
    sha256: bytes | None = None  # of the whole file


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1 << 62


class Object(dict):
    """A JSON object that remembers which of its keys stood twice: unknown ones are ignored, as is what stands in them."""
    def __init__(self, pairs):
        super().__init__(pairs)
        self.twice = [key for key, count in collections.Counter(key for key, _ in pairs).items() if count > 1]


def check_object(value, what):
    check(isinstance(value, Object), f"{what} is not an object")
    check(not value.twice, f"{what}: the key {value.twice[:1]} stands twice")


def parse_json(data):
    def no_number(text):
        raise ValueError(f"{text} is no number")
    parsed = json.loads(str(data, "utf-8"), object_pairs_hook=Object, parse_constant=no_number)
    json.dumps(parsed, ensure_ascii=False).encode()  # no half of a surrogate pair
    return parsed


def from_hex(value, count, what):
    check(isinstance(value, str) and len(value) == 2 * count and set(value) <= set("0123456789abcdef"),
          f"{what} is not {2 * count} lower-case hexadecimal digits")
    return bytes.fromhex(value)


class TableReference(NamedTuple):
    name: str
    bytes: int
    root: int
    checksum: int


class Segment(NamedTuple):
    shards: int
    samples: int
    blocks: int
    index: TableReference
    keys: TableReference | None = None


def parse_reference(entry):
    return TableReference(entry["name"], entry["bytes"], entry["root"], int(entry["checksum"], 16))


def parse_segment(entry):
    tables = {kind: parse_reference(entry[kind]) for kind in ("index", "keys") if kind in entry}
    return Segment(entry["shards"], entry["samples"], entry["blocks"], **tables)


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
        try:
            self.columns = tuple(parse_column(c, entry) for c, entry in enumerate(self.json["columns"]))
            self.metadata = self.json["metadata"]
            self.shards = [self.parse_shard(k, entry) for k, entry in enumerate(self.json["shards"])]
            self.segments = [parse_segment(entry) for entry in self.json.get("segments", [])]
        except (KeyError, TypeError, AttributeError) as error:
            raise ShardError(f"manifest is malformed: {error!r}") from None
        check_object(self.metadata, "manifest metadata")
        check(all(isinstance(value, str) for value in self.metadata.values()),
              "manifest metadata is not an object of strings")
        names = [shard.name for shard in self.shards]
        check(len(set(names)) == len(names), "manifest names a shard twice")
        check(len({column.name for column in self.columns}) == len(self.columns), "manifest has a duplicate column")
        for field in ("samples", "bytes", "blocks"):
            total = sum(getattr(shard, field) for shard in self.shards)
            check(is_count(self.json[field]) and self.json[field] == total, f"manifest: {field} is {self.json.get(field)}, the shards have {total}")

    @staticmethod
    def parse_shard(k, entry):
        check_object(entry, f"manifest: shard {k}")
        name = entry["name"]
        check(isinstance(name, str) and name and not any(part in ("", ".", "..") for part in name.split("/"))
              and "\0" not in name, f"manifest: shard {k}: name {name!r} is not allowed")
        for field in ("bytes", "samples", "blocks"):
            check(is_count(entry[field]), f"manifest: shard {k}: {field} is not a count")
        sha256 = from_hex(entry["sha256"], 32, f"manifest: shard {k}: sha256") if "sha256" in entry else None
        return ManifestShard(name, entry["bytes"], entry["samples"], entry["blocks"],
                             from_hex(entry["content_hash"], 16, f"manifest: shard {k}: content_hash"), sha256)


def parse_column(c, entry):
    check_object(entry, f"manifest: column {c}")
    what = f"manifest: column {c} {entry['name']!r}"
    check(isinstance(entry["name"], str) and 1 <= len(entry["name"].encode()) <= 255, f"{what}: name is malformed")
    check(isinstance(entry["type"], str) and isinstance(entry["codec"], str), f"{what}: type or codec is no string")
    check(entry["type"] in TYPE_NUMBERS, f"{what}: unknown type {entry['type']!r}", kind="Unimplemented")
    check(entry["codec"] in CODECS, f"{what}: unknown codec {entry['codec']!r}", kind="Unimplemented")
    check(isinstance(entry["nullable"], bool) and isinstance(entry["key"], bool), f"{what}: flags are not boolean")
    dtype, shape = 0, None
    if entry["type"] == "ndarray":
        check(entry["dtype"] in TYPE_NUMBERS, f"{what}: unknown dtype {entry['dtype']!r}", kind="Unimplemented")
        dtype, shape = TYPE_NUMBERS[entry["dtype"]], entry["shape"]
        check(shape is None or all(is_count(dimension) for dimension in shape), f"{what}: shape is malformed")
        shape = None if shape is None else tuple(shape)
    return Column(entry["name"], TYPE_NUMBERS[entry["type"]], CODECS.index(entry["codec"]), entry["nullable"],
                  entry["key"], dtype, shape)


# ---- Section 9.2: offset index ----

class IndexBlock(NamedTuple):
    offset: int
    block_length: int
    front_length: int
    first_sample: int
    sample_count: int
    shard: int
    header_checksum: int
    ends_begin: int
    zero: int = 0


class IndexShard(NamedTuple):
    first_sample: int
    sample_count: int
    first_block: int
    block_count: int
    file_length: int
    name_offset: int
    name_length: int
    zero: bytes = bytes(12)


class Index:
    def __init__(self, data):
        self.data = data
        check(data[:8] == INDEX_MAGIC, "index magic is wrong", 0)
        check(len(data) >= INDEX_HEADER, "index header is cut short", 0)
        checksum, = struct.unpack_from("<Q", data, 184)
        check(xxh3(data[:184]) == checksum, "index header checksum does not match", 0)
        (major, _, self.blob_count, self.shard_count, self.block_count, self.sample_count, ends, self.blocks_offset,
         self.shards_offset, self.names_offset, names_length, self.pages_offset, file_length, self.dataset_hash,
         pages_checksum) = struct.unpack_from("<HHI12Q", data, 8)
        check(major == 1, f"index major version {major} is not supported", 0, "Unimplemented")
        check(is_zero(data[112:184]), "index reserved bytes are not zero", 0)
        check(ends == INDEX_HEADER and self.blocks_offset == ends + 8 * self.sample_count * self.blob_count
              and self.shards_offset == self.blocks_offset + 64 * self.block_count
              and self.names_offset == self.shards_offset + 64 * self.shard_count
              and self.pages_offset == round_up(self.names_offset + names_length, 8), "index offsets are wrong", 0)
        page_count = (self.pages_offset - INDEX_HEADER + PAGE - 1) // PAGE
        check(file_length == len(data) == self.pages_offset + 8 * page_count, "index file length is wrong", 0)
        pages = data[self.pages_offset:]
        check(xxh3(pages) == pages_checksum, "index: checksum of the page checksums does not match", self.pages_offset)
        self.page_checksums = struct.unpack(f"<{page_count}Q", pages)
        self.pages_checked = set()
        self.names = self.read(self.names_offset, self.pages_offset - self.names_offset)
        check(is_zero(self.names[names_length:]), "index padding after the names is not zero", self.names_offset)

    def read(self, offset, length):
        """Bytes of the index; every page they touch is checked when it is first used."""
        for page in range((offset - INDEX_HEADER) // PAGE, (offset + length - INDEX_HEADER + PAGE - 1) // PAGE):
            if page not in self.pages_checked:
                begin = INDEX_HEADER + page * PAGE
                check(xxh3(self.data[begin:min(begin + PAGE, self.pages_offset)]) == self.page_checksums[page],
                      f"index page {page}: checksum does not match", begin)
                self.pages_checked.add(page)
        return self.data[offset:offset + length]

    def block(self, k):
        return IndexBlock(*struct.unpack("<QQQQIIQQQ", self.read(self.blocks_offset + 64 * k, 64)))

    def shard(self, s):
        return IndexShard(*struct.unpack("<6QI12s", self.read(self.shards_offset + 64 * s, 64)))

    def ends(self, block, blob):
        begin = block.ends_begin + blob * block.sample_count
        check(begin + block.sample_count <= self.sample_count * self.blob_count, "index: ends begin past the end", 0)
        return struct.unpack(f"<{block.sample_count}Q", self.read(INDEX_HEADER + 8 * begin, 8 * block.sample_count))

    def record(self, k, blob, i):
        """(begin, end) in the shard's file of the record of sample i of block k; equal when absent."""
        block = self.block(k)
        ends = self.ends(block, blob)
        if i:
            return ends[i - 1], ends[i]
        last = [self.ends(block, other)[-1] for other in range(self.blob_count)]
        before = max([block.offset + block.front_length] + [end for end in last if end < ends[-1]])
        return round_up(before, 64), ends[0]


# ---- The whole dataset ----

class Dataset:
    def __init__(self, directory):
        self.directory = directory
        self.manifest = Manifest(os.path.join(directory, "dataset.json"))
        self.columns = self.manifest.columns
        self.blobs = [column.name for column in self.columns if column.is_blob]
        self.index, self.index_problem = None, None
        try:
            self.index = self.open_index()
        except ShardError as error:  # the samples can be read without it
            self.index_problem = error
        self.first_samples = [0, *itertools.accumulate(shard.samples for shard in self.manifest.shards)]
        self.opened = None

    def open_index(self):
        try:
            index = Index(map_file(os.path.join(self.directory, "dataset.idx")))
        except FileNotFoundError:
            raise ShardError("index is missing; it can be rebuilt from the shards") from None
        hashes = b"".join(shard.content_hash for shard in self.manifest.shards)
        check(index.dataset_hash == xxh3(hashes), "index is of other shards than the manifest's", 0)
        check((index.blob_count, index.shard_count, index.block_count, index.sample_count) ==
              (len(self.blobs), len(self.manifest.shards), self.manifest.json["blocks"], self.manifest.json["samples"]),
              "index counts differ from the manifest", 0)
        return index

    def shard(self, s):
        if self.opened is None or self.opened[0] != s:
            self.opened = (s, self.open_shard(s))
        return self.opened[1]

    def open_shard(self, s):
        entry = self.manifest.shards[s]
        what = f"shard {s} {entry.name!r}"
        try:
            shard = read_shard(os.path.join(self.directory, entry.name))
        except FileNotFoundError:
            raise ShardError(f"{what} is missing", kind="NotFound") from None
        except ShardError as error:
            raise ShardError(f"{what}: {error}", kind=error.kind) from None
        check((len(shard.data), shard.sample_count, shard.block_count, shard.content_hash) == entry[1:5],
              f"{what} is not the one in the manifest: bytes, samples, blocks or content hash differ")
        have = {column.name: column for column in shard.columns}
        for column in self.columns:
            mine = have.pop(column.name, None)
            here = f"{what}: column {column.name!r}"
            if mine is None:
                check(column.nullable, f"{here} is missing and not nullable")
                continue
            check(mine.type == column.type or mine.type in NARROWER.get(column.type, ()), f"{here}: type differs")
            for field in ("codec", "key", "dtype", "shape"):
                check(getattr(mine, field) == getattr(column, field), f"{here}: {field} differs")
            check(column.nullable or not mine.nullable, f"{here} is nullable")
        check(not have, f"{what}: columns {list(have)} are not the dataset's")
        return shard

    def locate(self, ordinal):
        """The shard of a sample and the sample's ordinal in it."""
        if not 0 <= ordinal < self.first_samples[-1]:
            raise IndexError(f"sample {ordinal} of {self.first_samples[-1]}")
        s = bisect.bisect_right(self.first_samples, ordinal) - 1
        return self.shard(s), ordinal - self.first_samples[s]

    def sample(self, ordinal):
        shard, i = self.locate(ordinal)
        values = shard.sample(i)
        return {column.name: values.get(column.name) for column in self.columns}

    def raw_samples(self):
        for s in range(len(self.manifest.shards)):
            yield from self.shard(s).raw_samples()

    def read_blob(self, ordinal, name):
        """One blob value through the offset index. Whether its bytes mean what they seem to is for the header to say."""
        if self.index_problem:
            raise self.index_problem
        s = bisect.bisect_right(self.first_samples, ordinal) - 1
        entry = self.index.shard(s)
        k = max((k for k in range(entry.first_block, entry.first_block + entry.block_count)
                 if self.index.block(k).first_sample <= ordinal))
        begin, end = self.index.record(k, self.blobs.index(name), ordinal - self.index.block(k).first_sample)
        if begin == end:
            return None
        record = self.shard(s).data[begin:end]
        check(len(record) == end - begin >= 8, f"sample {ordinal}: record is cut short", begin)
        check(xxh3(record[:-8]) == int.from_bytes(record[-8:], "little"),
              f"sample {ordinal}: record checksum does not match", begin)
        return bytes(record[:-8])

    def key_table(self, segment):
        """Section 9.4: the table of a segment's keys. NotFound where there is none."""
        named = segment.keys
        check(named is not None, "the manifest names no table of the keys", kind="NotFound")
        try:
            data = map_file(os.path.join(self.directory, named.name))
        except FileNotFoundError:
            raise ShardError(f"keys: {named.name} is missing; it can be made again from the shards", kind="NotFound") from None
        table = KeyTable(data, segment.samples)
        check((len(data), named.checksum) == (named.bytes, int.from_bytes(data[-16:-8], "little")),
              "key table is of other shards: it is not the one that the manifest names", 0)
        return table

    def find(self, key):
        """The ordinal of the first sample with this key, or None."""
        name, = (column.name for column in self.columns if column.key)
        first_sample = first_shard = 0
        for segment in self.manifest.segments or [Segment(len(self.manifest.shards), self.first_samples[-1], 0, None)]:
            try:
                found = [first_sample + ordinal for ordinal in self.key_table(segment).find(xxh3(key.encode()))]
                found = next((sample for sample in found if self.sample(sample)[name] == key), None)
            except ShardError:  # the shards tell the same
                found = self.find_in_shards(key, first_shard, first_shard + segment.shards)
            if found is not None:
                return found
            first_sample, first_shard = first_sample + segment.samples, first_shard + segment.shards
        return None

    def find_in_shards(self, key, begin, end):
        found = ((s, self.shard(s).find(key)) for s in range(begin, end))
        return next((self.first_samples[s] + ordinal for s, ordinal in found if ordinal is not None), None)

    def validate_keys(self):
        """Each table against the key tables of the segment's shards, which have been validated."""
        s = 0
        for segment in self.manifest.segments:
            end, first_sample = s + segment.shards, self.first_samples[s]
            if segment.keys is not None:
                entries = [(hash_, self.first_samples[k] - first_sample + ordinal) for k in range(s, end)
                           for table in [self.shard(k).key_table()] for page in range(table.page_count)
                           for hash_, ordinal in table.entries(page)]
                self.key_table(segment).validate(sorted(entries))
            s = end

    def validate(self, deep=False):
        if self.index_problem:
            raise self.index_problem
        k = first_sample = ends_begin = name_offset = 0
        for s, entry in enumerate(self.manifest.shards):
            shard, name = self.shard(s), entry.name.encode()
            try:
                shard.validate(deep)
            except ShardError as error:
                raise ShardError(f"shard {s} {entry.name!r}: {error}", kind=error.kind) from None
            check(entry.sha256 in (None, hashlib.sha256(shard.data).digest()),
                  f"shard {s} {entry.name!r}: sha256 is not the one in the manifest, although every other checksum fits")
            for key, value in shard.metadata.items():
                check(self.manifest.metadata.get(key, value) == value,
                      f"manifest: metadata {key!r} differs from that of shard {s} {entry.name!r}")
            wanted = IndexShard(first_sample, entry.samples, k, entry.blocks, entry.bytes, name_offset, len(name))
            check(self.index.shard(s) == wanted, f"index: entry of shard {s} is wrong", self.index.shards_offset + 64 * s)
            check(self.index.names[name_offset:name_offset + len(name)] == name, f"index: name of shard {s} is wrong",
                  self.index.names_offset)
            name_offset += len(name)
            for b, listed in enumerate(shard.directory):
                wanted = IndexBlock(listed.offset, listed.block_length, listed.front_length, first_sample,
                                    listed.sample_count, s, listed.header_checksum, ends_begin)
                check(self.index.block(k) == wanted, f"index: entry of block {k} is wrong",
                      self.index.blocks_offset + 64 * k)
                self.validate_ends(shard.block(b), k, wanted)
                k += 1
                first_sample += listed.sample_count
                ends_begin += listed.sample_count * len(self.blobs)
        check(name_offset == len(bytes(self.index.names).rstrip(b"\0")), "index: bytes after the names", 0)
        self.validate_keys()

    def validate_ends(self, block, k, entry):
        places = {column.name: c for c, column in enumerate(block.header.columns)}
        for blob, name in enumerate(self.blobs):
            wanted = [block.offset + block.front_length] * block.sample_count
            if name in places and block.entries[places[name]].values_length:
                base = block.offset + block.entries[places[name]].values_offset
                wanted = [base + end for end in block.column(places[name]).ends]
                check(self.index.record(k, blob, 0) == (base, wanted[0]), f"index: block {k}, column {name!r}: the first "
                      "record is not where the rule of section 9.2 puts it")
            check(list(self.index.ends(entry, blob)) == wanted, f"index: block {k}, column {name!r}: ends are wrong",
                  INDEX_HEADER + 8 * (entry.ends_begin + blob * entry.sample_count))


def read_dataset(directory):
    return Dataset(directory)


def dataset_json(dataset):
    manifest = dataset.manifest
    return {
        "format": "shardkit-dataset", "version": 1,
        "sample_count": manifest.json["samples"], "bytes": manifest.json["bytes"], "blocks": manifest.json["blocks"],
        "columns": [column.describe() for column in dataset.columns],
        "metadata": manifest.metadata,
        "shards": [entry._asdict() | {"content_hash": entry.content_hash.hex(), "sha256": entry.sha256 and entry.sha256.hex()}
                   for entry in manifest.shards],
        "samples": [sample_json(dataset.columns, raws) for raws in dataset.raw_samples()],
    }
