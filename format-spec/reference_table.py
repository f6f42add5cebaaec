"""Tables of checked pages (sections 5.1, 5.2, 9.2 and 9.5 of spec.md), for reference_reader.py, which see."""
import bisect
import functools
import itertools
import struct
from collections import namedtuple
from typing import NamedTuple

from reference_parts import MAX_COLUMNS, Cursor, ShardError, check, xxh3
from reference_values import is_zero, round_up

TABLE_MAGIC, TAIL_MAGIC = b"\x89TBL\r\n\x1a\n", b"\x89TBE\r\n\x1a\n"
TAIL_BYTES, SECTION_BYTES, FENCE_BYTES, ROOT_FENCES, FENCES_OF_PAGE = 64, 32, 24, 4096, 2048
MAX_SECTIONS, MAX_PAGES, MAX_PAYLOAD = 16, ROOT_FENCES * FENCES_OF_PAGE, 1 << 26
Fence = namedtuple("Fence", "first offset checksum")


class Table:
    """A table in `data`, a buffer of exactly its bytes. `wanted`: the classes of its sections, of which the third is not always there.
    `offset` is where it lies in its file, for messages. Without `payloads`, read_payload of each section is left to the caller."""

    def __init__(self, name, wanted, data, offset=0, payloads=True):
        def need(condition, message, kind="DataLoss"):
            check(condition, f"{name}: {message}", offset, kind)
        need(len(data) >= len(TABLE_MAGIC) + TAIL_BYTES, "too short")
        tail = bytes(data[-TAIL_BYTES:])
        need(tail[56:] == TAIL_MAGIC, "does not end as one")
        (section_count, major, _, root_length, length, root_checksum, *reserved, checksum) = struct.unpack("<IHHQQQQQQ", tail[:56])
        need(checksum == xxh3(tail[:48]), "checksum of the tail")
        need(major == 1, f"major version {major}, not known", "Unimplemented")
        need(1 <= section_count <= MAX_SECTIONS, f"section_count is {section_count}")
        need(not any(reserved), "reserved bytes")
        need(length == len(data), f"table_length is {length}")
        root_begin = length - TAIL_BYTES - root_length
        need(root_begin >= len(TABLE_MAGIC), f"root_length is {root_length}")
        root = data[root_begin:-TAIL_BYTES]
        need(root_checksum == xxh3(root), "checksum of the root")
        self.identity = length, root_length + TAIL_BYTES, checksum  # what a reference of the manifest says of it (section 9.1)
        self.sections, begin = [], len(TABLE_MAGIC)
        classes, last = {each.kind: each for each in wanted}, 0
        for _ in range(section_count):
            need(len(root) >= SECTION_BYTES, "root is too short for its sections")
            kind, reserved, page_count, pages_end, payload_length = struct.unpack_from("<IIQQQ", root)
            need(kind > last, f"kind {kind} of a section does not ascend")
            need(kind in classes, f"a section is of another kind, {kind}")
            what = classes[kind].name
            need(reserved == 0, f"{what}: reserved bytes")
            need(page_count <= MAX_PAGES, f"{what}: {page_count} pages are over the limit")
            need(payload_length <= MAX_PAYLOAD and payload_length % 8 == 0, f"{what}: payload of {payload_length} bytes")
            fence_pages = -(-page_count // FENCES_OF_PAGE) if page_count > ROOT_FENCES else 0
            need(begin + 8 * page_count <= pages_end <= root_begin and (page_count or pages_end == begin), f"{what}: pages_end is {pages_end}")
            end = SECTION_BYTES + FENCE_BYTES * (fence_pages or page_count)
            need(len(root) >= end + payload_length, f"{what}: the root is too short for it")
            self.sections.append(classes[kind](data, offset, begin, page_count, pages_end, root[SECTION_BYTES:end], bytes(root[end:end + payload_length])))
            begin = pages_end + (FENCE_BYTES * page_count if fence_pages else 0)
            root, last = root[end + payload_length:], kind
        need(len(root) == 0, "root is longer than its sections")
        need(begin == root_begin, f"sections end at {begin}, and the root begins at {root_begin}")
        need([type(section) for section in self.sections] in (wanted, wanted[:2]), "lacks a section of a kind")
        for section in self.sections if payloads else ():
            section.read_payload()


class Section:
    def __init__(self, data, offset, begin, page_count, pages_end, fences, payload):
        self.data, self.offset, self.page_count, self.pages_end, self.payload = memoryview(data), offset, page_count, pages_end, payload
        self.pages_length = pages_end - begin
        self.root = self.fences_in(fences, begin, pages_end)

    def check(self, condition, message):
        check(condition, f"{self.name}: {message}", self.offset)

    def fences_in(self, data, begin, end):
        fences = [Fence(*fields) for fields in struct.iter_unpack("<QQQ", data)]
        for before, fence in zip([None, *fences], fences):
            in_order = fence.offset == begin if before is None else before.offset < fence.offset and before.first <= fence.first
            self.check(in_order and fence.offset % 8 == 0 and fence.offset < end, "fences")
        return fences

    def fence_page(self, number):
        begin = self.pages_end + FENCE_BYTES * FENCES_OF_PAGE * number
        count = min(FENCES_OF_PAGE, self.page_count - FENCES_OF_PAGE * number)
        data = self.data[begin:begin + FENCE_BYTES * count]
        above = self.root[number]
        self.check(xxh3(data) == above.checksum, f"checksum of fence page {number}")
        last = number + 1 == len(self.root)
        fences = self.fences_in(data, above.offset, self.pages_end if last else self.root[number + 1].offset)
        self.check(fences[0].first == above.first and (last or fences[-1].first <= self.root[number + 1].first),
                   f"fence page {number} contradicts the root")
        return fences

    @functools.cached_property
    def fences(self):
        """Those of all pages."""
        if self.page_count <= ROOT_FENCES:
            return self.root
        return [fence for number in range(len(self.root)) for fence in self.fence_page(number)]

    def find_page(self, x):
        """The number of the page to look for `x` in. The section has pages."""
        firsts = [fence.first for fence in self.fences]
        found = bisect.bisect_left(firsts, x)
        return found if found < len(firsts) and firsts[found] == x else max(found - 1, 0)

    def page(self, number):
        """(first, bytes) of a page."""
        fences = self.fences
        end = fences[number + 1].offset if number + 1 < len(fences) else self.pages_end
        data = self.data[fences[number].offset:end]
        self.check(xxh3(data) == fences[number].checksum, f"checksum of page {number}")
        return fences[number].first, data

    def check_magic(self):
        self.check(bytes(self.data[:8]) == TABLE_MAGIC, "magic")

    def pages(self):
        self.check_magic()
        return map(self.page, range(self.page_count))


# ---- Section 5.2: key tables ----

KEYS_OF_PAGE = 4096


def divide(entries):
    """The pages of the entries (hash, ordinal)."""
    pages, page = [], []

    def end():
        pages.append(page[:])
        page.clear()
    for _, run in itertools.groupby(entries, key=lambda entry: entry[0]):
        run = list(run)
        if page and len(page) + len(run) > KEYS_OF_PAGE:
            end()
        for entry in run:
            if len(page) == KEYS_OF_PAGE:
                end()
            page.append(entry)
    if page:
        end()
    return pages


class KeyTable(Section):
    kind, name = 3, "key table"

    def read_payload(self):
        self.check(len(self.payload) == 8, "payload")
        self.count = int.from_bytes(self.payload, "little")
        self.check(self.pages_length == 16 * self.count, f"the pages do not hold {self.count} entries")

    def check_count(self, count):
        self.check(self.count == count, f"{self.count} entries for {count} samples")

    def entries(self, number):
        """Those of a page."""
        first, data = self.page(number)
        self.check(len(data) % 16 == 0 and len(data) <= 16 * KEYS_OF_PAGE, f"page {number}: length")
        entries = list(struct.iter_unpack("<QQ", data))
        self.check(entries[0][0] == first, f"page {number}: its fence is not the hash of its first entry")
        return entries

    def find(self, wanted):
        """The ordinals of the samples whose keys have this hash."""
        number = self.find_page(wanted) if self.count else self.page_count
        while number < self.page_count:
            entries = self.entries(number)
            begin = bisect.bisect_left(entries, (wanted, 0))
            for hash_, ordinal in entries[begin:]:
                if hash_ != wanted:
                    return
                self.check(ordinal < self.count, f"ordinal {ordinal} is past the last sample")
                yield ordinal
            if begin or len(entries) < KEYS_OF_PAGE:  # the page is not of this hash alone
                return
            number += 1

    def validate(self, wanted=None):
        """That it is the table of these entries, byte for byte; of keys that cannot be read, that each sample has one entry in it."""
        self.check_magic()
        pages = [self.entries(number) for number in range(self.page_count)]
        entries = list(itertools.chain.from_iterable(pages))
        if wanted is None:
            self.check(sorted(ordinal for _, ordinal in entries) == list(range(self.count)), "not every ordinal stands once")
            wanted = sorted(entries)
        for number, (entry, should) in enumerate(zip(entries, wanted)):
            self.check(entry == should, f"entry {number} is {entry}, not {should}")
        self.check(pages == divide(wanted), "fences do not divide the entries as they should")


# ---- Section 9.2: offset index ----

class IndexBlock(NamedTuple):
    offset: int
    block_length: int
    front_length: int
    first_sample: int  # in the segment
    sample_count: int
    shard: int  # in the segment
    header_checksum: int
    layout: int
    reserved: int
    places_begin: int  # in the page


class Index(Section):
    kind, name = 1, "offset index"

    def read_payload(self):
        payload = self.payload
        cursor = Cursor(payload, 0, "offset index: root with its lists of columns", 0)
        self.shard_count, self.block_count, self.sample_count, self.dataset_hash, layout_count, reserved = cursor.unpack("<4QII")
        self.check(reserved == 0, "root: reserved bytes are not zero")
        self.layouts = []
        for _ in range(layout_count):
            count = cursor.number("I")
            self.check(count <= MAX_COLUMNS, "a list has more columns than a schema")
            self.layouts.append([cursor.take(cursor.number("I")) for _ in range(count)])
            self.check(len(set(self.layouts[-1])) == count, "a column occurs twice in a list")
        end = cursor.position
        self.check(round_up(end, 8) == len(payload) and is_zero(payload[end:]), "bytes after the lists of columns")

    def blocks_of(self, number, data):
        """The blocks of page `number`, which has the bytes `data`."""
        count, zero = struct.unpack_from("<II", data)
        self.check(count > 0 and zero == 0 and 8 + 64 * count <= len(data), f"page {number} cannot have {count} blocks")
        blocks = [IndexBlock(*fields) for fields in struct.iter_unpack("<4QIIQIIQ", data[8:8 + 64 * count])]
        for block in blocks:
            self.check(block.reserved == 0, f"page {number}: reserved bytes of a block are not zero")
            self.check(block.shard < self.shard_count and block.layout < len(self.layouts),
                  f"page {number}: an entry lies past the segment's shards or lists")
        return blocks

    def find(self, sample):
        """The block that holds `sample`, which counts in the segment, and its page."""
        self.check(self.page_count > 0, "has no blocks")
        number = self.find_page(sample)
        data = self.page(number)[1]
        for block in self.blocks_of(number, data):
            if 0 <= sample - block.first_sample < block.sample_count:
                return block, data
        raise ShardError(f"offset index: no block holds sample {sample}", 0)

    def names(self, block):
        return [str(name, "utf-8", "replace") for name in self.layouts[block.layout]]

    def places(self, block, data):
        """A list for each column of the block's layout."""
        count, columns = block.sample_count + 1, len(self.layouts[block.layout])
        self.check(block.places_begin + 8 * count * columns <= len(data), "places of a block lie past the page")
        every = struct.unpack_from(f"<{count * columns}Q", data, block.places_begin)
        return [every[k * count:(k + 1) * count] for k in range(columns)]

    def record(self, block, data, k, i):
        """(begin, end) in the shard's file of the record of sample i of the block, in column k of its layout; equal when absent."""
        begin, end = self.places(block, data)[k][i:i + 2]
        self.check(begin <= end, "a record ends before it begins")
        return begin, end


# ---- Section 9.2: list of shards ----

SHARDS_OF_PAGE, SHARD_BYTES, MAX_NAME = 256, 56, 4096


def counts_fit(samples, blocks):
    """Of a shard: each block has a sample."""
    return blocks <= samples and (blocks == 0) == (samples == 0)


class ShardList(Section):
    kind, name = 2, "list of shards"

    def read_payload(self):
        self.check(len(self.payload) == 32, "payload")
        self.totals = struct.unpack("<4Q", self.payload)  # shards, samples, blocks, bytes
        self.check(self.page_count == -(-self.totals[0] // SHARDS_OF_PAGE), f"{self.page_count} pages for {self.totals[0]} shards")

    def rows(self):
        """(name, bytes, samples, blocks, content hash, SHA-256 or None) of each shard."""
        rows = []
        for number, (first, data) in enumerate(self.pages()):
            rows += self.decode(f"page {number}", first, bytes(data), len(rows), sum(row[2] for row in rows))
        sums = (len(rows), *(sum(row[k] for row in rows) for k in (2, 3, 1)))
        self.check(sums == self.totals, "samples, blocks or bytes of the root are not those of its shards")
        return rows

    def decode(self, what, first, data, before, first_sample):
        count = min(SHARDS_OF_PAGE, self.totals[0] - before)
        self.check(struct.unpack_from("<II", data) == (count, 0) and len(data) >= 8 + SHARD_BYTES * count,
              f"{what}: does not hold the {count} shards of its place")
        rows, end = [], 8 + SHARD_BYTES * count
        self.check(first == first_sample, f"{what}: samples: its fence is not its first one")
        for i in range(count):
            stated_first, samples, size, blocks, content_hash, offset, length, flags = struct.unpack_from("<4Q16sIHH", data, 8 + SHARD_BYTES * i)
            self.check(max(stated_first, samples, size, blocks) <= 1 << 62, f"{what}: shard {i}: a count over its limit")
            self.check(counts_fit(samples, blocks), f"{what}: shard {i}: {samples} samples cannot be in {blocks} blocks")
            self.check(stated_first == first_sample, f"{what}: shard {i}: does not begin with the samples after the shard before")
            self.check(flags <= 1, f"{what}: shard {i}: reserved flags")
            digest_end = end + length + 32 * flags
            self.check(offset == end and 0 < length <= MAX_NAME and digest_end <= len(data), f"{what}: shard {i}: its name cannot lie there")
            try:
                name = str(data[end:end + length], "utf-8")
            except UnicodeDecodeError:
                name = str(data[end:end + length], "utf-8", "surrogateescape")
            rows.append((name, size, samples, blocks, content_hash, data[end + length:digest_end] if flags else None))
            end, first_sample = digest_end, first_sample + samples
        self.check(len(data) == -(-end // 8) * 8 and not any(data[end:]), f"{what}: bytes after the last name")
        return rows


# ---- Section 9.5: removed samples ----

REMOVED_OF_PAGE, MAX_REMOVED = 8192, 1 << 28


class RemovedSamples(Section):
    kind, name = 4, "list of removed samples"

    def read_payload(self):
        self.check(len(self.payload) == 8, "payload")
        self.count = int.from_bytes(self.payload, "little")
        self.check(self.count <= MAX_REMOVED, f"{self.count} samples are over the limit")
        self.check(self.page_count == -(-self.count // REMOVED_OF_PAGE), f"{self.page_count} pages for {self.count} samples")

    def ordinals(self, stored):
        """The stored samples that are removed, ascending, of `stored` that there are."""
        found = []
        for number, (first, data) in enumerate(self.pages()):
            count = min(REMOVED_OF_PAGE, self.count - len(found))
            self.check(len(data) == 8 * count, f"page {number}: does not begin or end as its place wants")
            ordinals = struct.unpack(f"<{count}Q", data)
            self.check(ordinals[0] == first, f"page {number}: its fence is not its first sample")
            for ordinal in ordinals:
                self.check(ordinal < stored and (not found or found[-1] < ordinal),
                           f"page {number}: sample {ordinal} of {stored} does not follow the one before")
                found.append(ordinal)
        return found
