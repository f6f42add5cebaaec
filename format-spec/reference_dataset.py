"""Datasets: shards, segments, column files, removed samples, bases (section 9 of spec.md). Part of reference_reader.py,
which see."""
import bisect
import hashlib
import itertools
import os
import struct

from reference_manifest import Manifest, ManifestShard, check_name, column_difference
from reference_parts import CODECS, ShardError, check, xxh3
from reference_reader import KEY_INDEX, map_file, read_shard, sample_json
from reference_table import Index, IndexBlock, KeyTable, RemovedSamples, ShardList, Table
from reference_values import decode_value


class Dataset:
    """What readers see. Of shards, blocks, segments and indexes the samples are those that are stored."""

    def __init__(self, directory):
        self.directory = directory
        self.manifest = Manifest(os.path.join(directory, "dataset.json"))
        self.columns, self.stored = self.manifest.columns, self.manifest.stored
        self.folders = {base: self.folder(base) for base in self.manifest.bases}
        self.index_problem, self.shards = None, self.manifest.shards
        files = [self.open_segment(segment) for segment in self.manifest.segments]  # sections of each; none where the file is not used
        self.indexes, self.lists, self.keys = zip(*files) if files else ((), (), ())
        if self.shards is None:
            self.shards = self.listed_shards()
        self.first_samples = [0, *itertools.accumulate(shard.samples for shard in self.shards)]
        self.removed = self.read_removed() if self.manifest.removed else []
        self.before = [ordinal - i for i, ordinal in enumerate(self.removed)]  # how many samples are seen before each
        self.sample_count = self.first_samples[-1] - len(self.removed)
        self.opened, self.cached = {}, None

    def folder(self, base):
        """A base's directory, by the letters of the path. Of a stranger's dataset only what lies beside it is opened
        (security.md)."""
        own = os.path.abspath(self.directory)
        reach = own
        for _ in range(2):
            reach = reach if os.path.dirname(reach) == "/" else os.path.dirname(reach)
        path = os.path.abspath("/" + os.path.join(own, base.location).lstrip("/"))  # abspath keeps two slashes
        check(path != own, f"manifest: base {base.name!r}: {base.location} is the dataset itself")
        check("://" not in base.location and f"{path}/".startswith(f"{reach}/"),
              f"base {base.name!r}: {base.location} is out of reach: this reader opens only what lies below {reach}",
              kind="PermissionDenied")
        return path

    def path(self, entry):
        """Of a shard or column file."""
        base, name = self.manifest.place(entry.name)
        return os.path.join(self.folders[base] if base else self.directory, name)

    def map(self, what, name):
        try:
            return map_file(os.path.join(self.directory, name))
        except OSError:  # also of a name that the system does not allow
            raise ShardError(f"{what} is missing: {name}", kind="NotFound") from None

    def open_segment(self, segment):  # section 9.2
        """Index, list and keys. The samples can be read without index and keys."""
        try:
            table = Table("table", [Index, ShardList, KeyTable], self.map("table", segment.table.name), payloads=False)
            index, shards, keys = *table.sections, *[None] * (3 - len(table.sections))
            other = "table is of other shards: not the one that the manifest names"
            check(table.identity == segment.table[1:], other, 0)
            if self.shards is None:  # else nobody looks at the list
                shards.read_payload()
                check(shards.totals[:3] == segment[:3], other, 0)
            if keys:
                keys.read_payload()
                keys.check_count(segment.samples)
        except ShardError as error:
            problem = self.segment_problem(error)
            if self.shards is None:
                raise problem from None
            return None, None, None
        try:
            index.read_payload()
            check((index.shard_count, index.sample_count, index.block_count) == segment[:3], other, 0)
        except ShardError as error:
            self.segment_problem(error)
            index = None
        return index, shards, keys

    def segment_problem(self, error):
        problem = ShardError(f"segment file: {error}", kind=error.kind if self.shards is None else "DataLoss")
        problem.offset = error.offset
        self.index_problem = self.index_problem or problem
        return problem

    def listed_shards(self):
        shards = [ManifestShard(*row) for listed in self.lists for row in listed.rows()]
        for s, shard in enumerate(shards):
            check_name(f"list of shards: shard {s}", shard.name)
        self.manifest.check_shards(shards)
        return shards

    def read_removed(self):  # section 9.5
        samples, named = self.manifest.removed
        table = Table("list of removed samples", [RemovedSamples], self.map("list of removed samples", named.name))
        found, = table.sections
        check((table.identity, found.count) == (named[1:], samples), "list of removed samples: is another list than the one that dataset.json names", 0)
        return found.ordinals(self.first_samples[-1])

    def segments(self):
        """For each segment: the number of its first shard, its shards and its first sample, its index, list and keys."""
        s = 0
        for segment, *sections in zip(self.manifest.segments, self.indexes, self.lists, self.keys):
            yield s, self.shards[s:s + segment.shards], self.first_samples[s], *sections
            s += segment.shards

    def shard(self, s):
        entry, first = self.shards[s], self.first_samples[s]
        what = f"shard {s} {entry.name!r}"
        if what not in self.opened:
            shard = self.open(what, entry)
            have = {column.name for column in shard.columns}
            for name, column in zip(self.stored, self.columns):  # of the samples some may be in column files
                elsewhere = sum(max(0, min(run.end, first + entry.samples) - max(run.sample, first)) for run in self.manifest.runs[name])
                check(name in have or column.nullable or elsewhere == entry.samples, f"{what}: column {name!r} is missing and not nullable")
            self.opened[what] = shard
        return self.opened[what]

    def column_file(self, k):
        entry, columns, _ = self.manifest.column_files[k]
        what = f"column file {k} {entry.name!r}"
        if what not in self.opened:
            file = self.open(what, entry)
            check([column.name for column in file.columns] == columns, f"{what}: its columns are not those that the manifest names")
            check(not any(column.key for column in file.columns), f"{what}: has a key column")
            self.opened[what] = file
        return self.opened[what]

    def open(self, what, entry):
        """A shard or column file, compared with the manifest."""
        base, _ = self.manifest.place(entry.name)
        what += f" (base {base.name!r}, {base.location})" if base else ""
        try:
            shard = read_shard(self.path(entry))
        except OSError:
            raise ShardError(f"{what} is missing", kind="NotFound") from None
        except ShardError as error:
            raise ShardError(f"{what}: {error}", kind=error.kind) from None
        check((len(shard.data), shard.sample_count, shard.block_count, shard.content_hash) == entry[1:5],
              f"{what} is not the one in the manifest: bytes, samples, blocks or content hash differ")
        named = dict(zip(self.stored, self.columns))
        for mine in shard.columns:
            here = f"{what}: column {mine.name!r}"
            check(mine.name in named or mine.name in self.manifest.dropped, f"{here} is not the dataset's")
            difference = mine.name in named and column_difference(mine, named[mine.name])
            check(not difference, f"{here}: {difference} differs")
        return shard

    def parts(self, s, b):
        """Of block `b` of shard `s`: (what, shard or column file, number of the block there) of each that has columns of it."""
        entry = self.shard(s).directory[b]
        first = self.first_samples[s] + entry.first_sample
        end = first + entry.sample_count
        yield f"shard {s}", self.shard(s), b
        for k, (_, _, runs) in enumerate(self.manifest.column_files):
            for run in (run for run in runs if run.sample < end and first < run.end):
                what, wanted = f"column file {k}", run.begin + first - run.sample
                number = next((n for n, block in enumerate(self.column_file(k).directory)
                               if (block.first_sample, block.sample_count) == (wanted, entry.sample_count)), None)
                check(run.sample <= first and end <= run.end and number is not None,
                      f"{what}: no block of it is samples {first} to {end}, which are a block of shard {s}")
                yield what, self.column_file(k), number

    def read(self, s, b):
        """{stored name: its values in block `b` of shard `s`}, of the columns whose codec is known. Every chunk is checked."""
        if self.cached is None or self.cached[0] != (s, b):
            found = {}
            for what, shard, number in self.parts(s, b):
                try:
                    found |= {data.column.name: data for data in shard.read_known(number)}
                except ShardError as error:
                    raise ShardError(f"{what}: {error}", kind=error.kind) from None
            self.cached = ((s, b), found)
        return self.cached[1]

    def locate(self, ordinal):
        """(shard, block, place in it) of a stored sample."""
        s = bisect.bisect_right(self.first_samples, ordinal) - 1
        ordinal -= self.first_samples[s]
        b = bisect.bisect_right(self.shard(s).directory, ordinal, key=lambda entry: entry.first_sample) - 1
        return s, b, ordinal - self.shard(s).directory[b].first_sample

    def stored_ordinal(self, ordinal):
        if not 0 <= ordinal < self.sample_count:
            raise IndexError(f"sample {ordinal} of {self.sample_count}")
        return ordinal + bisect.bisect_right(self.before, ordinal)

    def raw_sample(self, ordinal, decode=lambda column, raw: raw):
        """{column: encoded bytes, or None when absent or of a codec that is not known}."""
        s, b, i = self.locate(self.stored_ordinal(ordinal))
        found = self.read(s, b)
        return {column.name: found[name].value(i, lambda _, raw, column=column: decode(column, raw)) if name in found else None
                for name, column in zip(self.stored, self.columns)}

    def sample(self, ordinal):
        """{column: value or None}, by the types of the dataset's columns."""
        for column in self.columns:
            check(column.codec in CODECS, f"column {column.name!r}: unknown codec {column.codec}", None, "Unimplemented")
        return self.raw_sample(ordinal, decode_value)

    def samples(self):
        return (self.sample(ordinal) for ordinal in range(self.sample_count))

    def raw_samples(self):
        return (self.raw_sample(ordinal) for ordinal in range(self.sample_count))

    def read_blob(self, ordinal, name):
        """One blob value through the offset index; of the shard, only the record's bytes."""
        stored = self.stored_ordinal(ordinal)
        column, = (stored_name for stored_name, column in zip(self.stored, self.columns) if column.name == name)
        if any(run.sample <= stored < run.end for run in self.manifest.runs[column]):
            return self.raw_sample(ordinal)[name]
        _, shards, first_sample, index, _, _ = [part for part in self.segments() if part[2] <= stored][-1]
        if index is None:
            raise self.index_problem
        block, page = index.find(stored - first_sample)
        entry = shards[block.shard]
        if column not in index.names(block):  # that shard has no records of it
            return self.raw_sample(ordinal)[name]
        begin, end = index.record(block, page, index.names(block).index(column), stored - first_sample - block.first_sample)
        if begin == end:
            return None
        data = map_file(self.path(entry))
        counts_and_hash = struct.pack("<QQ16s", entry.samples, entry.blocks, entry.content_hash)  # of the trailer
        check(len(data) == entry.bytes and data[-72:-40] == counts_and_hash, f"shard {entry.name!r} is not the one in the manifest")
        record = data[begin:end]
        check(len(record) == end - begin >= 8, f"sample {ordinal}: record is cut short", begin)
        check(xxh3(record[:-8]) == int.from_bytes(record[-8:], "little"),
              f"sample {ordinal}: record checksum does not match", begin)
        return bytes(record[:-8])

    def find(self, key):
        """The ordinal of the first sample with this key that readers see, or None."""
        (column, name), = ((column, name) for name, column in zip(self.stored, self.columns) if column.key)
        check(column.codec in CODECS, f"column {column.name!r}: unknown codec {column.codec}", None, "Unimplemented")
        gone = set(self.removed)

        def has_key(ordinal):
            s, b, i = self.locate(ordinal)
            return ordinal not in gone and self.read(s, b)[name].raw(i) == key.encode()
        for _, shards, first, _, _, keys in self.segments():
            try:
                candidates = list(keys.find(xxh3(key.encode()))) if keys else None
            except ShardError:  # a page is damaged
                candidates = None
            if candidates is None:  # the shards tell the same
                candidates = range(sum(shard.samples for shard in shards))
            found = next(filter(has_key, (first + i for i in candidates)), None)
            if found is not None:
                return found - bisect.bisect_left(self.removed, found)
        return None

    def validate(self, deep=False):
        if self.index_problem:
            raise self.index_problem
        for first_shard, shards, _, index, listed, _ in self.segments():
            self.validate_index(index, first_shard, shards)
            listed.read_payload()
            check(listed.totals[:3] == (len(shards), sum(shard.samples for shard in shards), sum(shard.blocks for shard in shards)),
                  "list of shards: is of other shards: not the manifest's", 0)
            for s, (row, entry) in enumerate(zip(listed.rows(), shards), first_shard):
                check(row == tuple(entry), f"list of shards: shard {s} is not that of the manifest", 0)
        files = [(f"shard {s} {entry.name!r}", entry, self.shard(s)) for s, entry in enumerate(self.shards)]
        files += [(f"column file {k} {each.file.name!r}", each.file, self.column_file(k)) for k, each in enumerate(self.manifest.column_files)]
        for what, entry, shard in files:
            try:
                shard.validate(deep)
            except ShardError as error:
                raise ShardError(f"{what}: {error}", kind=error.kind) from None
            check(entry.sha256 in (None, hashlib.sha256(shard.data).digest()),
                  f"{what}: sha256 is not the one in the manifest, although every other checksum fits")
            for key, value in shard.metadata.items():
                check(self.manifest.metadata.get(key, value) == value, f"manifest: metadata {key!r} differs from that of {what}")
        for s, entry in enumerate(self.shards):
            for b in range(entry.blocks):
                names = [column.name for _, shard, _ in self.parts(s, b) for column in shard.columns]
                for name in names:
                    check(names.count(name) == 1, f"shard {s} {entry.name!r}: has column {name!r} of samples that a column file has, too")
        for s, shards, first_sample, _, _, keys in self.segments():  # against the key tables of the shards, which have been validated
            if keys:
                entries = []
                for k in range(s, s + len(shards)):
                    check(KEY_INDEX in self.shard(k).sections, f"key table: shard {k} has no keys", 0)
                    table = self.shard(k).key_table()
                    entries += [(hash_, self.first_samples[k] - first_sample + ordinal)
                                for number in range(table.page_count) for hash_, ordinal in table.entries(number)]
                keys.validate(sorted(entries))

    def validate_index(self, index, first_shard, shards):
        """Compares the index, page by page, with one made of the segment's shards."""
        check(index.dataset_hash == xxh3(b"".join(shard.content_hash for shard in shards)), "offset index: is of other shards than the manifest's", 0)
        check(all(layout not in index.layouts[:k] for k, layout in enumerate(index.layouts)), "offset index: a list of columns occurs twice", 0)
        pages = ((index.blocks_of(number, data), first, data) for number, (first, data) in enumerate(index.pages()))
        waiting, position, end, sample, layouts = [], 0, 0, 0, []
        for s in range(len(shards)):
            shard = self.shard(first_shard + s)
            blobs = [column.name.encode() for column in shard.columns if column.is_indexed]
            for b, listed in enumerate(shard.directory):
                if blobs not in layouts:
                    layouts.append(blobs)
                if not waiting:
                    waiting, first, data = next(pages, ([], 0, b""))
                    check(waiting, "offset index: blocks are missing", 0)
                    check(first == sample, "offset index: page 0: does not begin with the sample that its fence says", 0)
                    position, end = 8 + 64 * len(waiting), len(data)
                block = waiting.pop(0)
                wanted = IndexBlock(listed.offset, listed.block_length, listed.front_length, sample, listed.sample_count, s,
                                    listed.header_checksum, layouts.index(blobs), 0, position if blobs else 0)
                check(block == wanted, f"offset index: entry of block {b} of shard {first_shard + s} is wrong", 0)
                self.validate_places(index, block, data, shard.block(b), b)
                position += 8 * len(blobs) * (block.sample_count + 1)
                sample += block.sample_count
                if not waiting:
                    check(position == end, "offset index: bytes after the last places of a page", 0)
        check(not waiting and next(pages, None) is None, "offset index: more blocks than the shards have", 0)
        check(index.layouts == layouts, "offset index: lists of columns are not those of the shards", 0)

    def validate_places(self, index, entry, data, block, b):
        indexed = [c for c, column in enumerate(block.header.columns) if column.is_indexed]
        for c, places in zip(indexed, index.places(entry, data)):
            begin = block.offset + block.entries[c].values_offset
            check(list(places) == [begin, *(begin + end for end in block.column(c).ends)], f"offset index: block {b}: places are wrong", 0)

read_dataset = Dataset


def dataset_json(dataset):
    manifest = dataset.manifest
    columns = [column.describe() for column in dataset.columns]
    for name, column in zip(dataset.stored, columns):
        column |= {"stored": name} if name != column["name"] else {}

    def row(entry):
        return entry._asdict() | {"content_hash": entry.content_hash.hex(), "sha256": entry.sha256 and entry.sha256.hex()}
    files = [row(each.file) | {"columns": each.columns, "runs": [run._asdict() for run in each.runs]} for each in manifest.column_files]
    return {
        "format": "shardkit-dataset", "version": 1,
        "sample_count": dataset.sample_count, "bytes": manifest.json["bytes"], "blocks": manifest.json["blocks"],
        "columns": columns, **({"dropped": manifest.dropped} if manifest.dropped else {}),
        **({"bases": [base._asdict() for base in manifest.bases]} if manifest.bases else {}),
        "metadata": manifest.metadata, "generation": manifest.generation,
        **({"column_files": files} if files else {}), **({"removed": manifest.removed.samples} if manifest.removed else {}),
        "segments": [{"shards": segment.shards, "samples": segment.samples, "blocks": segment.blocks, "table": segment.table.name}
                     for segment in manifest.segments],
        "shards": [row(entry) for entry in dataset.shards],
        "samples": [sample_json(dataset.columns, raws) for raws in dataset.raw_samples()],
    }
