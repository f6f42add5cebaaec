"""Datasets as they are stored: shards and offset index (section 9 of spec.md). Part of reference_reader.py, which see."""
import bisect
import hashlib
import itertools
import os
import struct
from typing import NamedTuple

from reference_manifest import Manifest, Segment, column_difference
from reference_parts import ShardError, check, xxh3
from reference_reader import map_file, read_shard
from reference_table import OFFSET_INDEX, KeyTable, Table
from reference_values import is_zero, round_up


# ---- Section 9.2: offset index ----

class IndexBlock(NamedTuple):
    offset: int
    block_length: int
    front_length: int
    first_sample: int  # in the segment
    sample_count: int
    shard: int  # in the segment
    header_checksum: int
    incompatible_flags: int
    layout: int
    ends_begin: int  # in the page


class Index:
    """The offset index of one segment."""
    def __init__(self, data, reference):
        checksum = int.from_bytes(data[-16:-8], "little")
        self.table = Table(data, OFFSET_INDEX)
        payload = self.table.payload
        check((len(data), len(data) - self.table.pages_end, checksum) == reference[1:] or self.table.fence_page_count,
              "index is of other shards: not the table that the manifest names", 0)
        check(len(payload) >= 40, "index: root is cut short", 0)
        (self.shard_count, self.block_count, self.sample_count, self.dataset_hash, column_count,
         layout_count) = struct.unpack_from("<4QII", payload)
        position = 40

        def number(what):
            nonlocal position
            check(position + 4 <= len(payload), f"index: {what} are cut short", 0)
            position += 4
            return int.from_bytes(payload[position - 4:position], "little")
        self.columns = []
        check(column_count <= 4096, "index: too many columns", 0)
        for _ in range(column_count):
            length = number("names of columns")
            check(length <= len(payload) - position, "index: names of columns are cut short", 0)
            self.columns.append(payload[position:position + length])
            position += length
        check(len(set(self.columns)) == column_count, "index: a column stands twice in the root", 0)
        self.layouts = []
        for _ in range(layout_count):
            self.layouts.append([number("lists of columns") for _ in range(number("lists of columns"))])
            check(all(column < column_count for column in self.layouts[-1]), "index: a list names a column that is not there", 0)
        check(round_up(position, 8) == len(payload) and is_zero(payload[position:]), "index: bytes after the lists of columns", 0)

    def blocks_of(self, number, data):
        """The blocks of page `number`, which has the bytes `data`."""
        count, zero = struct.unpack_from("<II", data)
        check(count > 0 and zero == 0 and 8 + 64 * count <= len(data), f"index: page {number} cannot have {count} blocks", 0)
        blocks = [IndexBlock(*fields) for fields in struct.iter_unpack("<4QIIQIIQ", data[8:8 + 64 * count])]
        for block in blocks:
            check(block.shard < self.shard_count and block.layout < len(self.layouts),
                  f"index: page {number}: an entry lies past the segment's shards or lists", 0)
        return blocks

    def find(self, sample):
        """The block that holds `sample`, which counts in the segment, and its page."""
        check(self.table.page_count > 0, "index has no blocks", 0)
        number = self.table.find_page(sample)
        data = self.table.page(number)[1]
        for block in self.blocks_of(number, data):
            if 0 <= sample - block.first_sample < block.sample_count:
                return block, data
        raise ShardError(f"index: no block holds sample {sample}", 0)

    def names(self, block):
        return [str(self.columns[column], "utf-8", "replace") for column in self.layouts[block.layout]]

    def ends(self, block, data):
        """A list for each column of the block's layout."""
        counts = [block.sample_count] * len(self.layouts[block.layout])
        check(block.ends_begin + 8 * sum(counts) <= len(data), "index: page 0: ends lie past the page" if self.table.page_count == 1
              else "index: ends lie past the page", 0)
        every = struct.unpack_from(f"<{sum(counts)}Q", data, block.ends_begin)
        return [every[k * block.sample_count:(k + 1) * block.sample_count] for k in range(len(counts))]

    def record(self, block, data, k, i):
        """(begin, end) in the shard's file of the record of sample i of the block, in column k of its layout; equal when absent."""
        every = self.ends(block, data)
        if i:
            return every[k][i - 1], every[k][i]
        before = max([block.offset + block.front_length] + [ends[-1] for ends in every if ends[-1] < every[k][-1]])
        begin = round_up(before, 64)
        return min(begin, every[k][0]), every[k][0]


# ---- The whole dataset ----

class Dataset:
    def __init__(self, directory):
        self.directory = directory
        self.manifest = Manifest(os.path.join(directory, "dataset.json"))
        self.columns = self.manifest.columns
        self.indexes, self.index_problem = [], None
        try:
            self.indexes = [self.open_index(segment) for segment in self.manifest.segments]
        except ShardError as error:  # the samples can be read without it
            self.index_problem = error
        self.first_samples = [0, *itertools.accumulate(shard.samples for shard in self.manifest.shards)]
        self.sample_count = self.first_samples[-1]
        self.opened = None

    def open_index(self, segment):
        try:
            index = Index(map_file(os.path.join(self.directory, segment.index.name)), segment.index)
        except FileNotFoundError:
            raise ShardError("index is missing; it can be rebuilt from the shards") from None
        check((index.shard_count, index.sample_count, index.block_count) == (segment.shards, segment.samples, segment.blocks),
              "index is of other shards than the manifest's: its counts differ", 0)
        return index

    def segments(self):
        """For each segment: its index, the number of its first shard, and that of its first sample."""
        shard = sample = 0
        for segment, index in zip(self.manifest.segments, self.indexes):
            yield index, shard, sample
            shard += segment.shards
            sample += segment.samples

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
            difference = column_difference(mine, column)
            check(not difference, f"{here}: {difference} differs")
        check(not have, f"{what}: columns {list(have)} are not the dataset's")
        return shard

    def locate(self, ordinal):
        """The shard of a sample and the sample's ordinal in it."""
        if not 0 <= ordinal < self.first_samples[-1]:
            raise IndexError(f"sample {ordinal} of {self.first_samples[-1]}")
        s = bisect.bisect_right(self.first_samples, ordinal) - 1
        return self.shard(s), ordinal - self.first_samples[s]

    def raw_sample(self, ordinal):
        shard, i = self.locate(ordinal)
        return shard.raw_sample(i)

    def sample(self, ordinal):
        shard, i = self.locate(ordinal)
        values = shard.sample(i)
        return {column.name: values.get(column.name) for column in self.columns}

    def raw_samples(self):
        for s in range(len(self.manifest.shards)):
            yield from self.shard(s).raw_samples()

    def read_blob(self, ordinal, name):
        """One blob value through the offset index; of the shard, only the record's bytes."""
        if self.index_problem or not self.indexes:
            raise self.index_problem or ShardError("the manifest names no index")
        index, first_shard, first_sample = [part for part in self.segments() if part[2] <= ordinal][-1]
        block, page = index.find(ordinal - first_sample)
        entry = self.manifest.shards[first_shard + block.shard]
        flags = block.incompatible_flags
        check(flags == 0, f"{entry.name}: incompatible flag bit {(flags & -flags).bit_length() - 1} is not known", 0, "Unimplemented")
        codec = next(column.codec for column in self.columns if column.name == name)
        if codec != 0 or name not in index.names(block):  # no records of it, or none in that shard
            shard, i = self.locate(ordinal)
            value = shard.sample(i).get(name)
            return value.encode() if isinstance(value, str) else value
        begin, end = index.record(block, page, index.names(block).index(name), ordinal - first_sample - block.first_sample)
        if begin == end:
            return None
        data = map_file(os.path.join(self.directory, entry.name))
        check(len(data) == entry.bytes, f"shard {entry.name!r} is not the one in the manifest: its length differs")
        record = data[begin:end]
        check(len(record) == end - begin >= 8, f"sample {ordinal}: record is cut short", begin)
        check(xxh3(record[:-8]) == int.from_bytes(record[-8:], "little"),
              f"sample {ordinal}: record checksum does not match", begin)
        return bytes(record[:-8])

    def key_table(self, segment):
        """Section 9.5: the table of a segment's keys. NotFound where there is none."""
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

    def find(self, key, accept=lambda ordinal: True):
        """The ordinal of the first sample with this key that `accept` takes, or None."""
        name, = (column.name for column in self.columns if column.key)
        first_sample = first_shard = 0
        for segment in self.manifest.segments or [Segment(len(self.manifest.shards), self.first_samples[-1], 0, None)]:
            try:
                found = [first_sample + ordinal for ordinal in self.key_table(segment).find(xxh3(key.encode()))]
                found = next((sample for sample in found if accept(sample) and self.sample(sample)[name] == key), None)
            except ShardError:  # the shards tell the same
                found = self.find_in_shards(key, first_shard, first_shard + segment.shards, accept)
            if found is not None:
                return found
            first_sample, first_shard = first_sample + segment.samples, first_shard + segment.shards
        return None

    def find_in_shards(self, key, begin, end, accept):
        for s in range(begin, end):
            first = self.first_samples[s]
            found = self.shard(s).find(key, lambda ordinal: accept(first + ordinal))
            if found is not None:
                return first + found
        return None

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
        for index, first_shard, _ in self.segments():
            self.validate_index(index, first_shard)
        for s, entry in enumerate(self.manifest.shards):
            shard = self.shard(s)
            try:
                shard.validate(deep)
            except ShardError as error:
                raise ShardError(f"shard {s} {entry.name!r}: {error}", kind=error.kind) from None
            check(entry.sha256 in (None, hashlib.sha256(shard.data).digest()),
                  f"shard {s} {entry.name!r}: sha256 is not the one in the manifest, although every other checksum fits")
            for key, value in shard.metadata.items():
                check(self.manifest.metadata.get(key, value) == value,
                      f"manifest: metadata {key!r} differs from that of shard {s} {entry.name!r}")
            have = {column.name: column.metadata for column in shard.columns}
            for column in self.columns:
                for key, value in column.metadata.items():
                    check(have.get(column.name, column.metadata).get(key) == value,
                          f"manifest: column {column.name!r}: metadata {key!r} is not that of shard {s} {entry.name!r}")
        self.validate_keys()

    def validate_index(self, index, first_shard):
        """Compares the index, page by page, with one made of the segment's shards."""
        shards = self.manifest.shards[first_shard:first_shard + index.shard_count]
        check(index.dataset_hash == xxh3(b"".join(shard.content_hash for shard in shards)), "index is of other shards than the manifest's", 0)
        known = [column.name.encode() for column in self.columns]
        check(all(name in known for name in index.columns), "index: a column is not the dataset's", 0)
        pages = ((index.blocks_of(number, data), first, data) for number, (first, data) in enumerate(index.table.pages()))
        waiting, position, end, sample, layouts, columns = [], 0, 0, 0, [], []
        for s in range(len(shards)):
            shard = self.shard(first_shard + s)
            blobs = [column.name.encode() for column in shard.columns if column.is_blob]
            for b, listed in enumerate(shard.directory):
                if blobs not in layouts:
                    layouts.append(blobs)
                    columns += [name for name in blobs if name not in columns]
                if not waiting:
                    waiting, first, data = next(pages, ([], 0, b""))
                    check(waiting, "index: blocks are missing", 0)
                    check(first == sample, "index: page 0: does not begin with the sample that its fence says", 0)
                    position, end = 8 + 64 * len(waiting), len(data)
                block = waiting.pop(0)
                wanted = IndexBlock(listed.offset, listed.block_length, listed.front_length, sample, listed.sample_count, s,
                                    listed.header_checksum, 0, layouts.index(blobs),
                                    position if blobs else 0)
                check(block == wanted, f"index: entry of block {b} of shard {first_shard + s} is wrong", 0)
                self.validate_ends(index, block, data, shard.block(b), b)
                position += 8 * len(blobs) * block.sample_count
                sample += block.sample_count
                if not waiting:
                    check(position == end, "index: bytes after the last ends of a page", 0)
        check(not waiting and next(pages, None) is None, "index: more blocks than the shards have", 0)
        check(index.columns == columns and [[index.columns[c] for c in layout] for layout in index.layouts] == layouts,
              "index: columns or their lists are not those of the shards", 0)

    def validate_ends(self, index, entry, data, block, b):
        blobs = [c for c, column in enumerate(block.header.columns) if column.is_blob]
        for k, (c, ends) in enumerate(zip(blobs, index.ends(entry, data))):
            wanted = [block.offset + block.front_length] * block.sample_count
            base = block.offset + block.entries[c].values_offset
            if block.header.columns[c].codec != 0:
                wanted = [base + block.entries[c].values_length if block.entries[c].values_length else wanted[0]] * block.sample_count
            elif block.entries[c].values_length:
                wanted = [base + end for end in block.column(c).ends]
                check(index.record(entry, data, k, 0) == (base, wanted[0]), f"index: block {b}: ends: the first record is not where "
                      "the rule of section 9.2 puts it", 0)
            check(list(ends) == wanted, f"index: block {b}: ends are wrong", 0)
