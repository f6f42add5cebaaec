"""Tables of checked pages (sections 5.1, 5.2, 9.5 and 9.7 of spec.md), for reference_reader.py, which see."""
import bisect
import itertools
import struct
from collections import namedtuple

from reference_parts import check, xxh3

TABLE_MAGIC, TAIL_MAGIC = b"\x89TBL\r\n\x1a\n", b"\x89TBE\r\n\x1a\n"
OFFSET_INDEX, SHARD_LIST, KEYS, REMOVED = 1, 2, 3, 4
KIND_NAMES = {OFFSET_INDEX: "offset index", SHARD_LIST: "list of shards", KEYS: "key table", REMOVED: "list of removed samples"}
TAIL_BYTES, FENCE_BYTES, ROOT_FENCES, FENCES_OF_PAGE = 64, 24, 4096, 2048
MAX_PAGES, MAX_PAYLOAD = ROOT_FENCES * FENCES_OF_PAGE, 1 << 26
Fence = namedtuple("Fence", "first offset checksum")


class Table:
    """A table in `data`, a buffer of exactly its bytes. `offset` is where it lies in its file, for messages."""

    def __init__(self, data, kind, offset=0):
        self.data, self.kind, self.offset = memoryview(data), kind, offset
        self.name = KIND_NAMES[kind]
        check(len(data) >= len(TABLE_MAGIC) + TAIL_BYTES, f"{self.name}: too short", offset)
        tail = bytes(self.data[-TAIL_BYTES:])
        check(tail[56:] == TAIL_MAGIC, f"{self.name}: does not end as one", offset)
        (number, major, _, self.page_count, self.payload_length, length, root_checksum, reserved,
         checksum) = struct.unpack("<IHHQQQQQQ", tail[:56])
        check(checksum == xxh3(tail[:48]), f"{self.name}: checksum of the tail", offset)
        check(major == 1, f"{self.name}: major version {major}", offset, "Unimplemented")
        check(number == kind, f"{self.name}: kind is {number}", offset)
        check(reserved == 0, f"{self.name}: reserved bytes", offset)
        check(length == len(data), f"{self.name}: table_length is {length}", offset)
        check(self.page_count <= MAX_PAGES and self.payload_length <= MAX_PAYLOAD and self.payload_length % 8 == 0,
              f"{self.name}: over a limit", offset)
        two_levels = self.page_count > ROOT_FENCES
        self.fence_page_count = -(-self.page_count // FENCES_OF_PAGE) if two_levels else 0
        root_fences = self.fence_page_count if two_levels else self.page_count
        root_offset = length - TAIL_BYTES - FENCE_BYTES * root_fences - self.payload_length
        self.root_bytes = length - root_offset  # with the tail
        self.identity = length, self.root_bytes, checksum  # what a reference of the manifest says of it (section 9.1)
        self.pages_end = root_offset - (FENCE_BYTES * self.page_count if two_levels else 0)
        check(self.pages_end >= len(TABLE_MAGIC) + 8 * self.page_count, f"{self.name}: does not fit", offset)
        check(self.page_count > 0 or self.pages_end == len(TABLE_MAGIC), f"{self.name}: does not fit", offset)
        root = self.data[root_offset:-TAIL_BYTES]
        check(root_checksum == xxh3(root), f"{self.name}: checksum of the root", offset)
        self.payload = bytes(root[FENCE_BYTES * root_fences:])
        self.root = self.fences_in(root[:FENCE_BYTES * root_fences], len(TABLE_MAGIC), self.pages_end)

    def fences_in(self, data, begin, end):
        fences = [Fence(*fields) for fields in struct.iter_unpack("<QQQ", data)]
        for before, fence in zip([None, *fences], fences):
            in_order = fence.offset == begin if before is None else before.offset < fence.offset and before.first <= fence.first
            check(in_order and fence.offset % 8 == 0 and fence.offset < end, f"{self.name}: fences", self.offset)
        return fences

    def fence_page(self, number):
        begin = self.pages_end + FENCE_BYTES * FENCES_OF_PAGE * number
        count = min(FENCES_OF_PAGE, self.page_count - FENCES_OF_PAGE * number)
        data = self.data[begin:begin + FENCE_BYTES * count]
        above = self.root[number]
        check(xxh3(data) == above.checksum, f"{self.name}: checksum of fence page {number}", self.offset)
        last = number + 1 == len(self.root)
        fences = self.fences_in(data, above.offset, self.pages_end if last else self.root[number + 1].offset)
        check(fences[0].first == above.first and (last or fences[-1].first <= self.root[number + 1].first),
              f"{self.name}: fence page {number} contradicts the root", self.offset)
        return fences

    def fences(self):
        """Those of all pages."""
        if self.fence_page_count == 0:
            return self.root
        return [fence for number in range(self.fence_page_count) for fence in self.fence_page(number)]

    def find_page(self, x):
        """The number of the page to look for `x` in. The table has pages."""
        firsts = [fence.first for fence in self.fences()]
        found = bisect.bisect_left(firsts, x)
        return found if found < len(firsts) and firsts[found] == x else max(found - 1, 0)

    def page(self, number):
        fences = self.fences()
        end = fences[number + 1].offset if number + 1 < len(fences) else self.pages_end
        data = self.data[fences[number].offset:end]
        check(xxh3(data) == fences[number].checksum, f"{self.name}: checksum of page {number}", self.offset)
        return fences[number].first, data

    def pages(self):
        """(first, bytes) of each page, after the table's first bytes were compared."""
        check(bytes(self.data[:8]) == TABLE_MAGIC, f"{self.name}: magic", self.offset)
        fences = self.fences()
        ends = [fence.offset for fence in fences[1:]] + [self.pages_end]
        for number, (fence, end) in enumerate(zip(fences, ends)):
            data = self.data[fence.offset:end]
            check(xxh3(data) == fence.checksum, f"{self.name}: checksum of page {number}", self.offset)
            yield fence.first, data


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


class KeyTable(Table):
    """The keys of `count` samples."""

    def __init__(self, data, count, offset=0):
        super().__init__(data, KEYS, offset)
        self.count = count
        check(len(self.payload) == 8, f"{self.name}: payload", offset)
        stated = int.from_bytes(self.payload, "little")
        check(self.pages_end - len(TABLE_MAGIC) == 16 * stated, f"{self.name}: the pages do not hold {stated} entries", offset)
        check(stated == count, f"{self.name}: {stated} entries for {count} samples", offset)

    def entries(self, number):
        """Those of a page."""
        first, data = self.page(number)
        check(len(data) % 16 == 0 and len(data) <= 16 * KEYS_OF_PAGE, f"{self.name}: page {number}: length", self.offset)
        entries = list(struct.iter_unpack("<QQ", data))
        check(entries[0][0] == first, f"{self.name}: page {number}: its fence is not the hash of its first entry", self.offset)
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
                check(ordinal < self.count, f"{self.name}: ordinal {ordinal} is past the last sample", self.offset)
                yield ordinal
            if begin or len(entries) < KEYS_OF_PAGE:  # the page is not of this hash alone
                return
            number += 1

    def validate(self, wanted=None):
        """That it is the table of these entries, byte for byte; of keys that cannot be read, that each sample has one entry in it."""
        found = []
        for first, data in self.pages():
            check(len(data) % 16 == 0, f"{self.name}: page {len(found)}: length", self.offset)
            found.append((first, list(struct.iter_unpack("<QQ", data))))
        entries = list(itertools.chain.from_iterable(page for _, page in found))
        if wanted is None:
            check(sorted(ordinal for _, ordinal in entries) == list(range(self.count)), f"{self.name}: not every ordinal stands once", self.offset)
            wanted = sorted(entries)
        for number, (entry, should) in enumerate(zip(entries, wanted)):
            check(entry == should, f"{self.name}: entry {number} is {entry}, not {should}", self.offset)
        check(found == [(page[0][0], page) for page in divide(wanted)], f"{self.name}: fences do not divide the entries as they should",
              self.offset)


# ---- Section 9.5: lists of shards ----

SHARDS_OF_PAGE, SHARD_BYTES, MAX_NAME = 256, 56, 4096


def counts_fit(samples, blocks):
    """Of a shard: each block has a sample."""
    return blocks <= samples and (blocks == 0) == (samples == 0)


class ShardList(Table):
    """The shards of a segment. `rows` has (name, bytes, samples, blocks, content hash, SHA-256 or None) of each."""

    def __init__(self, data):
        super().__init__(data, SHARD_LIST)
        check(len(self.payload) == 32, f"{self.name}: payload", 0)
        self.totals = struct.unpack("<4Q", self.payload)  # shards, samples, blocks, bytes
        check(self.page_count == -(-self.totals[0] // SHARDS_OF_PAGE), f"{self.name}: {self.page_count} pages for {self.totals[0]} shards", 0)
        self.rows = []
        for number, (first, data) in enumerate(self.pages()):
            self.rows += self.decode(f"{self.name}: page {number}", first, bytes(data))
        sums = (len(self.rows), *(sum(row[k] for row in self.rows) for k in (2, 3, 1)))
        check(sums == self.totals, f"{self.name}: samples, blocks or bytes of the root are not those of its shards", 0)

    def decode(self, what, first, data):
        count = min(SHARDS_OF_PAGE, self.totals[0] - len(self.rows))
        check(struct.unpack_from("<II", data) == (count, 0) and len(data) >= 8 + SHARD_BYTES * count,
              f"{what}: does not hold the {count} shards of its place", 0)
        rows, end, first_sample = [], 8 + SHARD_BYTES * count, sum(row[2] for row in self.rows)
        check(first == first_sample, f"{what}: samples: its fence is not its first one", 0)
        for i in range(count):
            stated_first, samples, size, blocks, content_hash, offset, length, flags = struct.unpack_from("<4Q16sIHH", data, 8 + SHARD_BYTES * i)
            check(max(stated_first, samples, size, blocks) <= 1 << 62, f"{what}: shard {i}: a count over its limit", 0)
            check(counts_fit(samples, blocks), f"{what}: shard {i}: {samples} samples cannot be in {blocks} blocks", 0)
            check(stated_first == first_sample, f"{what}: shard {i}: does not begin with the samples after the shard before", 0)
            check(flags <= 1, f"{what}: shard {i}: reserved flags", 0)
            digest_end = end + length + 32 * flags
            check(offset == end and 0 < length <= MAX_NAME and digest_end <= len(data), f"{what}: shard {i}: its name cannot lie there", 0)
            try:
                name = str(data[end:end + length], "utf-8")
            except UnicodeDecodeError:
                name = str(data[end:end + length], "utf-8", "surrogateescape")
            rows.append((name, size, samples, blocks, content_hash, data[end + length:digest_end] if flags else None))
            end, first_sample = digest_end, first_sample + samples
        check(len(data) == -(-end // 8) * 8 and not any(data[end:]), f"{what}: bytes after the last name", 0)
        return rows


# ---- Section 9.7: removed samples ----

REMOVED_OF_PAGE, MAX_REMOVED = 8192, 1 << 28


class RemovedTable(Table):
    """`ordinals` has the stored samples that are removed, ascending, of `stored` that there are."""

    def __init__(self, data, stored):
        super().__init__(data, REMOVED)
        check(len(self.payload) == 8, f"{self.name}: payload", 0)
        self.count = int.from_bytes(self.payload, "little")
        check(self.count <= MAX_REMOVED, f"{self.name}: {self.count} samples are over the limit", 0)
        check(self.page_count == -(-self.count // REMOVED_OF_PAGE), f"{self.name}: {self.page_count} pages for {self.count} samples", 0)
        self.ordinals = []
        for number, (first, data) in enumerate(self.pages()):
            count = min(REMOVED_OF_PAGE, self.count - len(self.ordinals))
            check(len(data) == 8 * count, f"{self.name}: page {number}: does not begin or end as its place wants", 0)
            ordinals = struct.unpack(f"<{count}Q", data)
            check(ordinals[0] == first, f"{self.name}: page {number}: its fence is not its first sample", 0)
            for ordinal in ordinals:
                check(ordinal < stored and (not self.ordinals or self.ordinals[-1] < ordinal),
                      f"{self.name}: page {number}: sample {ordinal} of {stored} does not follow the one before", 0)
                self.ordinals.append(ordinal)
