#!/usr/bin/python3
"""A second, independent reader of Shardkit shards and datasets, written from spec.md alone.

It is meant to be read beside the specification: section numbers in comments are those of spec.md. It checks
every checksum, every zero byte and every rule, and prefers plain code to speed. Needs Python 3.11 and the
Debian packages python3-xxhash and python3-zstandard. reference_parts.py holds sections 1 to 3,
reference_values.py section 4, reference_table.py tables, reference_manifest.py and reference_dataset.py section 9,
this file the others and the command line.

    shard = read_shard(path)         steps 1 to 3 of section 7
    shard.validate(deep=True)        everything
    for sample in shard.samples():   {"column": value or None}
    shard.sample(17), shard.find("key")
    read_dataset(directory), recover(path)
"""
import argparse
import base64
import bisect
import json
import math
import mmap
import os
import signal
import struct
import sys
from collections import namedtuple
from typing import NamedTuple

from reference_parts import (CODECS, MAX_BLOCK_SAMPLES, Block, Cursor, ShardError, check, check_dictionary, identify, parse_header,
                             read_metadata, xxh3, xxhash)
from reference_table import KeyTable, Table
from reference_values import BOOL, FLOATS, SCALARS, TYPE_NAMES, Ndarray, check_value, decode_value, is_known, is_zero, round_up, scalars

END_MAGIC = b"\x89END\r\n\x1a\n"
TRAILER_LENGTH, TABLE_ENTRY, DIRECTORY_ENTRY, RANGE_ENTRY = 104, 32, 48, 24
MAX_SHARD_SAMPLES, MAX_FOOTER, MAX_METADATA = (1 << 32) - 1, 1 << 40, 1 << 26
DIRECTORY, STATISTICS, METADATA, KEY_INDEX, BLOCK_HEADERS, BLOCK_RANGES, HEADER = range(1, 8)
SECTION_NAMES = {1: "block directory", 2: "statistics", 3: "metadata", 4: "key index", 5: "block headers", 6: "block ranges", 7: "header copy"}
Section = namedtuple("Section", "kind flags offset length checksum")
DirectoryEntry = namedtuple("DirectoryEntry", "offset block_length front_length first_sample sample_count reserved header_checksum")


class BlockRange(NamedTuple):
    present_count: int
    minimum: object  # int, float, or None
    maximum: object


class ColumnStatistics(NamedTuple):
    present_count: int
    value_bytes: int
    stored_bytes: int
    min_length: int
    max_length: int
    range_kind: int
    minimum: object  # int, float, or None
    maximum: object
    length_histogram: tuple


def range_kind(column):
    """The kind of a range of the column's values, 0 when they have none."""
    code = SCALARS.get(column.type, "")
    return 3 if column.type in FLOATS else 1 if code in tuple("bhiq") else 2 if len(code) == 1 else 0


def unpack_range(kind, *ends):
    return tuple(struct.unpack("<" + "qQd"[kind - 1], end)[0] if kind else None for end in ends)


def sign_order(number):
    return number, math.copysign(1, number)  # -0 before +0


def map_file(path):
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")


# ---- Sections 5 to 7: footer, trailer, the whole shard ----

class Shard:
    def __init__(self, data):
        self.data = data
        # Section 7 begins with the trailer, because a reader over a network gets it first. This one holds the
        # whole file and begins with the header, so that a file of another version is called that.
        self.header = parse_header(data)
        self.columns = self.header.columns
        self.read_trailer()
        self.read_section_table()
        self.read_directory()
        self.cached = None

    def read_trailer(self):  # section 6
        size = len(self.data)
        check(size >= self.header.first_block + TRAILER_LENGTH, "file is too short for a trailer", size)
        self.trailer_offset = at = size - TRAILER_LENGTH
        trailer = self.data[at:]
        check(trailer[96:] == END_MAGIC, "trailer magic is wrong; the shard was cut short or damaged", at)
        (self.footer_offset, self.footer_length, self.section_count, reserved, self.table_checksum, self.sample_count,
         self.block_count, self.content_hash, file_length, shard_id, reserved2,
         checksum) = struct.unpack_from("<QQIIQQQ16sQQQQ", trailer)
        check(xxh3(trailer[:88]) == checksum, "trailer checksum does not match", at)
        check(reserved == 0 and reserved2 == 0, "trailer reserved bytes are not zero", at)
        check(file_length == size, f"trailer: file length is {file_length}, the file has {size}", at)
        check(shard_id == self.header.shard_id, "trailer: shard id is not the header's", at)
        check(self.footer_length <= MAX_FOOTER and self.footer_offset + self.footer_length == at
              and self.footer_offset % self.header.alignment == 0, "trailer: footer offset or length is wrong", at)
        check(TABLE_ENTRY * self.section_count <= self.footer_length, "trailer: section count is wrong", at)
        check(self.sample_count <= MAX_SHARD_SAMPLES, "trailer: sample count is over the limit", at)

    def read_section_table(self):  # section 5
        at = self.trailer_offset - TABLE_ENTRY * self.section_count
        table = self.data[at:self.trailer_offset]
        check(xxh3(table) == self.table_checksum, "section table checksum does not match", at)
        self.sections, position, last_kind = {}, self.footer_offset, 1 << 32
        for fields in struct.iter_unpack("<IIQQQ", table):
            section = Section(*fields)
            kind = section.kind
            name = f"section {SECTION_NAMES.get(kind, kind)}"
            check(kind < last_kind, f"{name}: section kinds do not descend", at)
            check(kind != 0, f"{name}: kind 0 is never given", at)
            check(section.flags < 2, f"{name}: reserved flags are set", at)
            check(section.offset == position, f"{name}: section offset {section.offset} is not {position}", at)
            position, last_kind = round_up(position + section.length, 8), kind
            check(position <= at, f"{name}: passes the section table", at)
            check(kind in SECTION_NAMES or section.flags & 1, f"unknown section kind {kind}", at, "Unimplemented")
            check(kind not in SECTION_NAMES or section.flags == (kind >= BLOCK_HEADERS), f"{name}: flags are wrong", at)
            self.sections[kind] = section
        check(position == at, "sections do not reach the section table", at)
        has_key = any(column.key for column in self.columns)
        for kind in (DIRECTORY, STATISTICS, METADATA, KEY_INDEX):
            check((kind in self.sections) == (has_key or kind != KEY_INDEX),
                  f"section {SECTION_NAMES[kind]} is missing or not wanted", at)

    def section(self, kind):
        """A section's bytes, its checksum and the zero bytes after it checked."""
        section = self.sections[kind]
        name = SECTION_NAMES.get(kind, f"section {kind}")
        whole = self.data[section.offset:section.offset + round_up(section.length, 8)]
        check(xxh3(whole) == section.checksum, f"{name} checksum does not match", section.offset)
        check(is_zero(whole[section.length:]), f"{name} padding is not zero", section.offset)
        return whole[:section.length]

    def read_directory(self):  # section 5
        data, at = self.section(DIRECTORY), self.sections[DIRECTORY].offset
        check(len(data) == DIRECTORY_ENTRY * self.block_count, "block directory length is wrong", at)
        self.directory = [DirectoryEntry(*fields) for fields in struct.iter_unpack("<QQQQIIQ", data)]
        position, sample, header_length = self.header.first_block, 0, 64 * (len(self.columns) + 1)
        for k, entry in enumerate(self.directory):
            what = f"block directory, block {k}"
            check(entry.offset == position, f"{what}: offset {entry.offset} is not {position}", at)
            check(entry.first_sample == sample, f"{what}: first sample {entry.first_sample} is not {sample}", at)
            check(1 <= entry.sample_count <= MAX_BLOCK_SAMPLES,
                  f"{what}: sample count {entry.sample_count} is not 1 to 1048576", at)
            check(entry.reserved == 0, f"{what}: reserved bytes are not zero", at)
            check(entry.block_length % 64 == 0 and entry.front_length % 64 == 0
                  and header_length <= entry.front_length <= entry.block_length, f"{what}: a length is wrong", at)
            position = round_up(position + entry.block_length, self.header.alignment)
            check(position <= self.footer_offset, f"{what}: the block passes the footer", at)
            sample += entry.sample_count
        check(position == self.footer_offset, "trailer: footer offset is not where the blocks end",
              self.trailer_offset)
        check(sample == self.sample_count, f"trailer: sample count {self.sample_count} is not that of the blocks",
              self.trailer_offset)

    def block(self, k, head=None):
        """Step 4 of section 7: the block's header, or its copy, checked against itself and the directory."""
        entry = self.directory[k]
        block = Block(self.data, self.header, entry.offset, k, head)
        check((block.length, block.front_length, block.first_sample, block.sample_count, block.checksum) ==
              (*entry[1:5], entry.header_checksum), f"block {k}: header differs from the block directory", entry.offset)
        return block

    def read_known(self, k):
        """The columns of a block whose codec is known, every chunk checked."""
        block = self.block(k)
        return [block.column(c) for c, column in enumerate(self.columns) if column.codec in CODECS]

    def block_headers(self):
        """The copies of the blocks' headers, or None."""
        if BLOCK_HEADERS not in self.sections:
            return None
        data, length = self.section(BLOCK_HEADERS), 64 * (len(self.columns) + 1)
        check(len(data) == length * self.block_count, "block headers: length is wrong", self.sections[BLOCK_HEADERS].offset)
        return [data[length * k:length * (k + 1)] for k in range(self.block_count)]

    def project(self, names):
        """{"column": value or None} of each sample, for these columns alone: reads only their chunks."""
        wanted = [c for c, column in enumerate(self.columns) if column.name in names]
        copies = self.block_headers() or [None] * self.block_count
        for k, head in enumerate(copies):
            block = self.block(k, head)
            columns = [block.column(c) for c in wanted]
            for i in range(block.sample_count):
                yield {data.column.name: data.value(i) for data in columns}

    def locate(self, ordinal):
        """The columns of the block of a sample, and its place in them."""
        k = bisect.bisect_right(self.directory, ordinal, key=lambda entry: entry.first_sample) - 1
        if self.cached is None or self.cached[0] != k:
            self.cached = (k, self.read_known(k))
        return self.cached[1], ordinal - self.directory[k].first_sample

    def check_ordinal(self, ordinal):
        if not 0 <= ordinal < self.sample_count:
            raise IndexError(f"sample {ordinal} of {self.sample_count}")

    def sample(self, ordinal):
        self.check_ordinal(ordinal)
        for column in self.columns:
            check(column.codec in CODECS, f"column {column.name!r}: unknown codec {column.codec}; project() reads the others",
                  None, "Unimplemented")
        columns, i = self.locate(ordinal)
        return {data.column.name: data.value(i) for data in columns}

    def raw_sample(self, ordinal):
        """{"column": encoded bytes or None}, without the columns of codecs that are not known."""
        self.check_ordinal(ordinal)
        columns, i = self.locate(ordinal)
        return {data.column.name: data.raw(i) for data in columns}

    def samples(self):
        return (self.sample(ordinal) for ordinal in range(self.sample_count))

    def raw_samples(self):
        return (self.raw_sample(ordinal) for ordinal in range(self.sample_count))

    def key_table(self):
        table, = Table("key table", [KeyTable], self.section(KEY_INDEX), self.sections[KEY_INDEX].offset).sections
        table.check_count(self.sample_count)
        return table

    def find(self, key, accept=lambda ordinal: True):
        """The ordinal of the first sample with this key that `accept` takes, or None."""
        name, = (column.name for column in self.columns if column.key)
        return next((i for i in self.key_table().find(xxh3(key.encode())) if accept(i) and self.sample(i)[name] == key), None)

    @property
    def metadata(self):
        data, at = self.section(METADATA), self.sections[METADATA].offset
        check(len(data) <= MAX_METADATA, "metadata is over 64 MiB", at)
        cursor = Cursor(data, 0, "metadata", at)
        out = read_metadata(cursor)
        check(cursor.position == len(data), "metadata has trailing bytes", at)
        return out

    @property
    def statistics(self):
        data, at = self.section(STATISTICS), self.sections[STATISTICS].offset
        cursor, out = Cursor(data, 0, "statistics", at), {}
        for column in self.columns:
            fields, what = cursor.unpack("<5QII8s8s"), f'statistics of column "{column.name}"'
            present, _, _, shortest, longest, kind, reserved, low, high = fields
            if is_known(column) and column.codec in CODECS:
                check(kind <= 3 and reserved == 0, f"{what} are malformed", at)
                check(kind or low + high == bytes(16), f"{what}: range not zero", at)
            check(shortest <= longest and (present or not longest), f"{what}: min_length or max_length is wrong", at)
            first, last = shortest.bit_length(), longest.bit_length()
            counts = cursor.unpack(f"<{last - first + 1}Q") if present else ()
            check(sum(counts) == present, f"{what}: length_histogram does not count the present_count of {present} values", at)
            check(all(counts[:1] + counts[-1:]), f"{what}: length_histogram begins or ends with 0", at)
            histogram = dict(enumerate(counts, first))
            out[column.name] = ColumnStatistics(*fields[:5], kind, *unpack_range(kind if kind <= 3 else 0, low, high),
                                                tuple(histogram.get(k, 0) for k in range(65)))
        check(cursor.position == len(data), "statistics length is wrong", at)
        return out

    @property
    def block_ranges(self):
        """For each block {"column": BlockRange} of the columns with a range, compared with the statistics; or None."""
        if BLOCK_RANGES not in self.sections or any(column.type not in TYPE_NAMES for column in self.columns):
            return None  # with a type that is not known, nobody can tell which columns have a range
        data, at = self.section(BLOCK_RANGES), self.sections[BLOCK_RANGES].offset
        ranged, out = [(c, column) for c, column in enumerate(self.columns) if range_kind(column)], []
        check(len(data) == RANGE_ENTRY * len(ranged) * self.block_count, "block ranges: length is wrong", at)
        entries = struct.iter_unpack("<II8s8s", data)
        for k, block in enumerate(self.directory):
            out.append({})
            for (c, column), (present, flags, low, high) in zip(ranged, entries):
                what = f'block ranges: block {k}, column {c} "{column.name}"'
                check(flags <= 1, f"{what}: reserved flags are set", at)
                check(flags or low + high == bytes(16), f"{what}: flag says no range, but it is not zero", at)
                check(flags <= present <= block.sample_count, f"{what}: present_count is wrong", at)
                low, high = unpack_range(flags and range_kind(column), low, high)
                check(not flags or low <= high and sign_order(low) <= sign_order(high), f"{what}: minimum is over maximum", at)
                out[-1][column.name] = BlockRange(present, low, high)
        for c, column in ranged:
            entries, whole = [block[column.name] for block in out], self.statistics[column.name]
            ends = [end for entry in entries for end in entry[1:] if end is not None]
            merged = (sum(entry.present_count for entry in entries), min(ends, key=sign_order, default=None),
                      max(ends, key=sign_order, default=None))
            check(repr(merged) == repr((whole.present_count, whole.minimum, whole.maximum)),
                  f'block ranges: column {c} "{column.name}": together they are not what the statistics say', at)
        return out

    def validate(self, deep=False):
        """Everything: every checksum, every zero byte, id, every section; with deep, every value."""
        position = self.header.length
        for k in range(self.block_count + 1):
            begin = self.directory[k].offset if k < self.block_count else self.footer_offset
            what = f"block {k}" if k < self.block_count else "the footer"
            check(is_zero(self.data[position:begin]), f"padding before {what} is not zero", position)
            position = begin + (self.directory[k].block_length if k < self.block_count else 0)
        for kind in self.sections:
            self.section(kind)
        for c, column in enumerate(self.columns):
            check(is_list_of_strings(column.metadata.get("class_names", "[]")),
                  f'column {c} "{column.name}": class_names in its metadata is not a JSON array of strings', 0)
        for c in self.header.dictionaries:
            check_dictionary(self.header, c)
        metadata, statistics, keys, copies, ranges = self.metadata, self.statistics, [], self.block_headers(), self.block_ranges
        content = xxhash.xxh3_128(self.data[:self.header.length])
        tallies, first_entries = [Tally(column) for column in self.columns], b""
        for k, entry in enumerate(self.directory):
            block = self.block(k)
            head = self.data[entry.offset:entry.offset + block.header_length]
            first_entries = first_entries or head[56:-8]
            content.update(head)
            check(copies is None or copies[k] == head, f"block headers: the copy of block {k} is not its header",
                  copies and self.sections[BLOCK_HEADERS].offset)
            for c, tally in enumerate(tallies):
                if self.columns[c].codec not in CODECS:
                    block.check_chunks(c)
                    tally.stored += block.entries[c].stored_length + block.entries[c].values_length
                    continue
                data = block.column(c)
                data.check_full()
                found = tally.add(data, deep)
                check(ranges is None or repr(ranges[k].get(data.column.name, found)) == repr(found),
                      f'block ranges: block {k}, column {c} "{data.column.name}": the range is not that of the values',
                      ranges and self.sections[BLOCK_RANGES].offset)
                if data.column.key:
                    keys += [(xxh3(data.raw(i)), entry.first_sample + i) for i in range(entry.sample_count)]
        header = self.data[:self.header.length]
        check(identify(header, first_entries) == self.header.shard_id, "header: shard id is not that of header and first block", 0)
        if HEADER in self.sections:
            copy, at = self.section(HEADER), self.sections[HEADER].offset
            check(len(copy) == len(header), f"header copy: its length is not the header's {len(header)}", at)
            check(copy == header, "header copy: it is not the header", at)
        check(content.digest() == self.content_hash, "trailer: content hash does not match", self.trailer_offset)
        for tally, (name, found) in zip(tallies, statistics.items()):
            for field, value, wanted in zip(ColumnStatistics._fields, found, tally.result()):
                if (tally.column.codec not in CODECS and field != "stored_bytes"
                        or not is_known(tally.column) and field in ("range_kind", "minimum", "maximum")):
                    continue  # nothing to compare with
                differ = "is wrong" if isinstance(value, tuple) else f"is {value}, not {wanted}"
                check(repr(value) == repr(wanted), f'statistics of column "{name}": {field} {differ}', self.sections[STATISTICS].offset)
        if KEY_INDEX in self.sections:
            known = all(column.codec in CODECS for column in self.columns if column.key)
            self.key_table().validate(sorted(keys) if known else None)
        return metadata


def is_list_of_strings(text):
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


class Tally:
    """Statistics of a column, made again from its values."""

    def __init__(self, column):
        self.column, self.lengths, self.stored, self.numbers = column, [], 0, []

    def add(self, data, deep):
        """Counts the values of a block; returns their BlockRange."""
        entry = data.block.entries[data.c]
        self.stored += entry.stored_length + entry.values_length
        raws = [data.raw(i) for i in range(data.block.sample_count)]
        self.lengths += [len(raw) for raw in raws if raw is not None]
        if deep:
            for i in range(len(raws)):
                data.value(i, check_value)
        numbers, raws = [], [raw for raw in raws if raw is not None]
        if range_kind(self.column):
            numbers = b"".join(raws) if self.column.type == BOOL else scalars(self.column.type, b"".join(raws))
            numbers = sorted((number for number in numbers if number == number), key=sign_order)  # NaN is not itself
            self.numbers = sorted(self.numbers + numbers, key=sign_order)
            del self.numbers[1:-1]
        return BlockRange(len(raws), numbers[0] if numbers else None, numbers[-1] if numbers else None)

    def result(self):
        kind = range_kind(self.column) if self.numbers else 0
        histogram = [0] * 65
        for length in self.lengths:
            histogram[length.bit_length()] += 1
        return ColumnStatistics(len(self.lengths), sum(self.lengths), self.stored, min(self.lengths, default=0),
                                max(self.lengths, default=0), kind, *([self.numbers[0], self.numbers[-1]] if kind else [None] * 2),
                                tuple(histogram))


def read_shard(path):
    return Shard(map_file(path))


# ---- Section 8: recovery ----

def recover(path):
    """Header and blocks of a shard of which no byte has moved, and whose header, or the copy of it, is whole."""
    data = map_file(path)
    for at, sections in section_tables(data):
        try:
            return recover_with(data, at, sections)
        except ShardError:
            continue  # it is another shard's, or nothing tells the schema
    return recover_with(data, len(data), {})


def section_tables(data):  # recovery.md, part 1
    """(place, {kind: bytes}), beginning with the last one."""
    for at in range(len(data) // 8 * 8 - TABLE_ENTRY, -1, -8):
        last = Section(*struct.unpack_from("<IIQQQ", data, at))
        begin = last.offset + round_up(last.length, 8)
        if last.kind != DIRECTORY or last.length % DIRECTORY_ENTRY or begin > at or (at - begin) % TABLE_ENTRY:
            continue
        sections = [Section(*fields) for fields in struct.iter_unpack("<IIQQQ", data[begin:at + TABLE_ENTRY])]
        ends = [section.offset + round_up(section.length, 8) for section in sections]
        if ends[:-1] == [section.offset for section in sections[1:]] and all(
                xxh3(data[section.offset:end]) == section.checksum for section, end in zip(sections, ends)):
            yield begin, {section.kind: data[section.offset:section.offset + section.length] for section in sections}


def recover_with(data, at, sections):  # recovery.md, part 2
    try:
        header = parse_header(data)
    except ShardError:
        if HEADER not in sections:
            raise
        header = parse_header(sections[HEADER])
    check(sections.get(HEADER, b"")[40:48] in (b"", struct.pack("<Q", header.shard_id)), "section table of another shard", at)
    found, place, length = [], 0, 64 * (len(header.columns) + 1)
    while place < len(data):
        found += whole_block(data, header, place)
        place = found[-1].offset + found[-1].length if found and found[-1].offset == place else place + 64
    check(not any(block.offset <= at < block.offset + block.length for block in found), "section table within a value", at)
    listed = {fields[-1]: fields[0] for fields in struct.iter_unpack("<QQQQIIQ", sections.get(DIRECTORY, b""))}  # checksum -> place
    for checksum in set(listed) - {block.checksum for block in found}:  # only their headers may be lost
        copies = sections.get(BLOCK_HEADERS, b"")
        for head in (copies[k:k + length] for k in range(0, len(copies), length)):
            found += whole_block(data, header, listed[checksum], head) if int.from_bytes(head[-8:], "little") == checksum else []
    blocks, sample = [], 0
    for block in sorted(found, key=lambda block: (block.first_sample, block.offset)):
        if listed.pop(block.checksum, None) is not None if sections else block.first_sample >= sample:
            blocks.append(block)
            sample = block.first_sample + block.sample_count
    return header, blocks


def whole_block(data, header, place, head=None):
    """A list of the block there, or an empty one."""
    try:
        block = Block(data, header, place, f"at {place}", head)
        for c in range(len(header.columns)):
            block.check_chunks(c)
    except ShardError:
        return []
    return [block]


# ---- The decoded-JSON twin (golden/README.md) and the command line ----

LARGE = 1024  # an encoded value of more bytes than this is given by its hash


def plain_number(number):
    if isinstance(number, complex):
        return [plain_number(number.real), plain_number(number.imag)]
    return str(number) if isinstance(number, float) and not math.isfinite(number) else number


def value_json(column, raw):
    if raw is None:
        return None
    if len(raw) > LARGE:
        return {"length": len(raw), "xxh3_64": f"{xxh3(raw):016x}"}
    value = decode_value(column, raw)
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Ndarray):
        return {"dtype": value.dtype, "shape": list(value.shape), "data": [plain_number(n) for n in value.flat()]}
    return plain_number(value)


def sample_json(columns, raws):
    return {column.name: value_json(column, raws.get(column.name)) for column in columns if column.codec in CODECS}


def statistics_json(entry):
    out = entry._asdict()
    del out["range_kind"]
    out["minimum"], out["maximum"] = plain_number(entry.minimum), plain_number(entry.maximum)
    out["length_histogram"] = {str(k): count for k, count in enumerate(entry.length_histogram) if count}
    return out


def ranges_json(ranges):
    return {name: {field: plain_number(value) for field, value in entry._asdict().items()} for name, entry in ranges.items()}


def shard_json(shard):
    header, ranges = shard.header, shard.block_ranges
    return {
        "format": {"major": 1, "minor": header.minor, "alignment": header.alignment,
                   "compatible_flags": header.compatible_flags},
        "sample_count": shard.sample_count, "file_length": len(shard.data), "content_hash": shard.content_hash.hex(),
        "columns": [column.describe() for column in shard.columns],
        "dictionaries": {shard.columns[c].name: len(data) for c, data in header.dictionaries.items()},
        "metadata": shard.metadata,
        "statistics": {name: statistics_json(entry) for name, entry in shard.statistics.items()},
        "blocks": [dict(zip(DirectoryEntry._fields[:5], entry)) for entry in shard.directory],
        "block_ranges": None if ranges is None else [ranges_json(block) for block in ranges],
        "samples": [sample_json(shard.columns, raws) for raws in shard.raw_samples()],
    }


def main():
    from reference_dataset import dataset_json, read_dataset
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader of the output that stops, as head does, is no error
    parser = argparse.ArgumentParser(description="Read Shardkit shards and datasets; print them as JSON.")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a shard, or a dataset's directory")
    parser.add_argument("--json", action="store_true", help="one line per document instead of indented JSON")
    parser.add_argument("--sample", type=int, metavar="N", help="print only sample N")
    parser.add_argument("--verify-only", action="store_true", help="check everything, print nothing")
    parser.add_argument("--values-xxh3", action="store_true", help="one line per sample: the hash of each value")
    options = parser.parse_args()
    status = 0
    for path in options.paths:
        try:
            source = read_dataset(path) if os.path.isdir(path) else read_shard(path)
            if options.values_xxh3:
                for ordinal, raws in enumerate(source.raw_samples()):
                    hashes = {column.name: None if raws.get(column.name) is None else f"{xxh3(raws[column.name]):016x}"
                              for column in source.columns}
                    print(json.dumps({"sample": ordinal, "columns": hashes}, ensure_ascii=False))
                continue
            source.validate(deep=True)
            if options.verify_only:
                continue
            if options.sample is not None:
                document = sample_json(source.columns, source.raw_sample(options.sample))
            else:
                document = shard_json(source) if isinstance(source, Shard) else dataset_json(source)
            print(json.dumps(document, ensure_ascii=False, indent=None if options.json else 2))
        except (ShardError, OSError, IndexError) as error:
            print(f"reference_reader: {path}: {error}", file=sys.stderr)
            status = 3 if isinstance(error, OSError) else 2 if isinstance(error, IndexError) else max(status, 1)
    return status


def __getattr__(name):  # the dataset half of the library is in other files
    if name == "read_dataset":
        import reference_dataset
        return reference_dataset.read_dataset
    raise AttributeError(name)


if __name__ == "__main__":
    sys.modules["reference_reader"] = sys.modules["__main__"]
    sys.exit(main())
