"""Fields of shards and tables, changes of them, and how the checksums that cover these are made again. Part of differential.py, which see."""
import collections
import struct

import reference_parts as P
import reference_reader as R
import reference_table as T

Field = collections.namedtuple("Field", "kind at size number twins", defaults=(True, ()))  # twins: other places of the same number


class Fields(list):
    def row(self, at, what, names):
        """Numbers one after another, "name:size …"."""
        for name, size in (part.split(":") for part in names.split()):
            self.append(Field(f"{what} {name}", at, int(size)))
            at += int(size)
        return at

    def text(self, kind, at, size):
        if size > 0:
            self.append(Field(kind, at, size, False))
        return at + size


class Changed(bytearray):
    """Bytes of which some are pinned, (place, bytes): whatever is put there, they stay."""
    def __init__(self, data, pins):
        super().__init__(data)
        self.pins = pins
        for at, new in pins:
            self.put(at, new)

    def put(self, at, new):
        self[at:at + len(new)] = new
        for begin, pinned in self.pins:
            if begin < at + len(new) and at < begin + len(pinned):
                self[begin:begin + len(pinned)] = pinned


def metadata_fields(out, data, at, what):
    count, = struct.unpack_from("<I", data, at)
    at = out.row(at, what, "count:4")
    for _ in range(count):
        for part in ("name", "value"):
            length, = struct.unpack_from("<I", data, at)
            at = out.text(f"{what} {part}", out.row(at, what, f"{part}_length:4"), length)
    return at


def header_fields(out, data, at, shard, what="header"):
    end = at + shard.header.length
    out.text(f"{what} specification", at + 48, 24)
    out.row(at, what, "magic:8 major:2 minor:2 header_length:4 alignment:4 incompatible_flags:4 compatible_flags:4 schema_length:4 "
            "dictionary_count:4 reserved:4 shard_id:8")
    at = out.row(at + 72, what, "column_count:2")
    for column in shard.columns:
        at = out.text(f"{what} name", out.row(at, what, "name_length:1"), len(column.name.encode()))
        at = out.row(at, what, "type:2 dtype:2 codec:1 storage:1 flags:1 rank:1" + " value_size:8" * (column.storage == P.FIXED) +
                     " dimension:8" * len(column.shape or ()))
        at = metadata_fields(out, data, at, f"{what} column metadata")
    for dictionary in shard.header.dictionaries.values():
        at = out.text(f"{what} dictionary", out.row(at, what, "dictionary_column:4 dictionary_length:4"), len(dictionary))
    out.text(f"{what} pad", at, end - 8 - at)
    out.row(end - 8, what, "checksum:8")


def block_header_fields(out, at, shard, k, what="block"):
    columns, listed = len(shard.columns), shard.sections[R.DIRECTORY].offset + 48 * k
    begin = at
    at = out.row(at, what, "magic:8 header_length:4 column_count:4 block_length:8 front_length:8 first_sample:8 sample_count:4 reserved:4 shard_id:8")
    if what == "block":
        last = [(shard.trailer_offset + 32, 8)] if k + 1 == shard.block_count else []
        for name, place, size, twins in (("block_length", 16, 8, [(listed + 8, 8)]), ("front_length", 24, 8, [(listed + 16, 8)]),
                                         ("first_sample", 32, 8, [(listed + 24, 8)]), ("sample_count", 40, 4, [(listed + 32, 4), *last])):
            out.append(Field(f"{what} {name} and in directory", begin + place, size, True, tuple(twins)))
    for _ in range(columns):
        at = out.row(at, f"{what} entry", "offset:8 stored_length:8 raw_length:8 checksum:8 values_offset:8 values_length:8 values_checksum:8 "
                     "encoding:1 reserved:7")
    out.row(at, what, "checksum:8")


def column_fields(out, data, column, block, c):
    """Of the chunks; returns the checksums of records and pages: (place, begin of what it covers)."""
    entry, sums = block.entries[c], []
    at = block.offset + entry.offset
    stored = bytes(data[at:at + entry.stored_length])
    out.text("head pad", at + len(stored), -len(stored) % 64)
    values = block.offset + entry.values_offset
    out.text("values chunk pad", values + entry.values_length, -entry.values_length % 64)
    if block.header.columns[c].codec not in P.CODECS:
        out.text("chunk of an unknown codec", at, len(stored))
        out.text("chunk of an unknown codec", values, entry.values_length)
        return sums
    found = P.ColumnData(block, c)
    if entry.encoding:
        out.row(at, "frame", "magic:4 descriptor:1 byte:1 byte:1 byte:1 byte:1 byte:1 byte:1 byte:1 byte:1 byte:1 byte:1 byte:1 byte:1")
        out.text("frame bytes", at, len(stored))
        raw = bytes(found.decompress(data[at:at + len(stored)], entry.raw_length, block.header.dictionaries.get(c) if entry.encoding == 2 else None))
        if stored.count(raw) != 1 or len(raw) < 8:
            return sums
        at += stored.index(raw)  # a frame of raw blocks
    n = block.sample_count
    if column.nullable:
        at = out.row(at, "head", "presence:8 " * (P.round_up((n + 7) // 8, 8) // 8))
    if column.storage in (P.INLINE, P.BLOB):
        at = out.row(at, "head", "end:8 " * n)
    if column.storage == P.PAGED:
        at = out.row(at, "page table", "end:8 first:4 reserved:4 " * len(found.pages))
        begin = 0
        for k, (end, first, _) in enumerate(found.pages):
            last = found.pages[k + 1][1] if k + 1 < len(found.pages) else n
            out.text("page values", values + begin, end - begin - 8 - 2 * (last - first - 1))
            out.row(values + end - 8 - 2 * (last - first - 1), "page", "end:2 " * (last - first - 1) + "checksum:8")
            sums.append((values + end - 8, values + begin))
            begin = end
    elif column.storage == P.BLOB:
        for begin, end in zip(found.begins, found.ends):
            if end > begin:
                out.row(out.text("record value", values + begin, end - begin - 8), "record", "checksum:8")
                sums.append((values + end - 8, values + begin))
    elif column.storage == P.INLINE:
        for begin, end in zip(found.begins, found.ends):
            out.text("inline value", at + begin, end - begin)
    elif column.value_size in (1, 2, 4, 8):
        out.row(at, "fixed", f"value:{column.value_size} " * n)
    else:
        for i in range(n):
            out.text("fixed bytes", at + column.value_size * i, column.value_size)
    return sums


TABLE_PAYLOADS = {1: "shard_count:8 block_count:8 sample_count:8 dataset_hash:8 layout_count:4 zero:4", 2: "shard_count:8 sample_count:8 block_count:8 bytes:8",
                  3: "count:8", 4: "count:8"}


class TablePlaces:
    """Where the parts of a table of at most 4096 pages lie that begins at `base`, of sections of these classes."""

    def __init__(self, out, data, base, wanted):
        table = T.Table("table", wanted, data[base:])
        self.base, self.length = base, table.identity[0]
        self.tail = base + self.length - 64
        self.root = base + self.length - table.identity[1]
        self.payloads, self.pages, at = {}, [], self.root  # by kind; begin and end of each page, and the place of its checksum
        out.row(base, "table", "magic:8")
        for section in table.sections:
            what = section.name
            at = out.row(at, what, "kind:4 reserved:4 page_count:8 pages_end:8 payload_length:8")
            ends = [base + fence.offset for fence in section.root] + [base + section.pages_end]
            for begin, end in zip(ends, ends[1:]):
                self.page(out, data, f"{what} page", section.kind, begin, end)
                at = out.row(at, what, "fence_first:8 fence_offset:8 fence_checksum:8")
                self.pages.append((begin, end, at - 8))
            self.payloads[section.kind] = at
            end, at = at + len(section.payload), out.row(at, what, TABLE_PAYLOADS[section.kind])
            while section.kind == 1 and end - at >= 8:  # lists of columns
                count, = struct.unpack_from("<I", data, at)
                at = out.row(at, what, "layout_columns:4")
                for _ in range(count):
                    length, = struct.unpack_from("<I", data, at)
                    at = out.text(f"{what} layout name", out.row(at, what, "layout_name_length:4"), length)
            out.text(f"{what} pad", at, end - at)
            at = end
        out.row(self.tail, "table", "section_count:4 major:2 minor:2 root_length:8 table_length:8 root_checksum:8 reserved:8 reserved:8 checksum:8 magic:8")

    @staticmethod
    def page(out, data, what, kind, begin, end):
        if kind == 3:
            out.row(begin, what, "hash:8 ordinal:8 " * min((end - begin) // 16, 64))
        elif kind == 4:
            out.row(begin, what, "ordinal:8 " * ((end - begin) // 8))
        else:
            count, = struct.unpack_from("<I", data, begin)
            at = out.row(begin, what, "count:4 zero:4")
            if kind == 1:
                for _ in range(count):
                    at = out.row(at, what, "offset:8 block_length:8 front_length:8 first_sample:8 sample_count:4 shard:4 header_checksum:8 "
                                 "layout:4 reserved:4 places_begin:8")
                out.row(at, what, "place:8 " * ((end - at) // 8))
            else:
                for i in range(count):
                    out.row(begin + 8 + 56 * i, what, "first_sample:8 samples:8 bytes:8 blocks:8 content_hash:8 content_hash:8 name_offset:4 "
                            "name_length:2 flags:2")
                out.text(f"{what} names", begin + 8 + 56 * count, end - begin - 8 - 56 * count)

    def repair(self, data):
        for begin, end, place in self.pages:
            data.put(place, checksum(data[begin:end]))
        data.put(self.tail + 24, checksum(data[self.root:self.tail]))
        data.put(self.tail + 48, checksum(data[self.tail:self.tail + 48]))


def checksum(data):
    return struct.pack("<Q", P.xxh3(bytes(data)))


def group(fields):
    out = collections.defaultdict(list)
    for field in fields:
        out[field.kind].append(field)
    return dict(out)


def some_keys(source):
    name = next((column.name for column in source.columns if column.key and column.codec in P.CODECS), None)
    return [str(raws[name], "utf-8") for raws, _ in zip(source.raw_samples(), range(6))] + ["no such key"] if name else []


class ShardFile:
    """A right shard, its fields, and how to make checksums again."""

    def __init__(self, data):
        self.data, self.sums = data, []
        self.fields, self.shard = out, shard = Fields(), R.Shard(memoryview(data))
        header_fields(out, data, 0, shard)
        position = shard.header.length
        for k, entry in enumerate(shard.directory):
            out.text("pad", position, entry.offset - position)
            position = entry.offset + entry.block_length
            block = shard.block(k)
            block_header_fields(out, entry.offset, shard, k)
            for c, column in enumerate(shard.columns):
                self.sums += column_fields(out, data, column, block, c)
        out.text("pad", position, shard.footer_offset - position)
        self.blocks = [shard.block(k) for k in range(shard.block_count)]
        for kind, section in shard.sections.items():
            self.section(out, kind, section.offset, section.length)
            out.text("section pad", section.offset + section.length, -section.length % 8)
        for n in range(shard.section_count):
            out.row(shard.trailer_offset - 32 * (shard.section_count - n), "section", "kind:4 flags:4 offset:8 length:8 checksum:8")
        out.row(shard.trailer_offset, "trailer", "footer_offset:8 footer_length:8 section_count:4 reserved:4 table_checksum:8 sample_count:8 block_count:8 "
                "content_hash:8 content_hash:8 file_length:8 shard_id:8 reserved:8 checksum:8 magic:8")
        self.by_kind = group(self.fields)
        self.keys = some_keys(shard)

    def section(self, out, kind, at, length):
        shard = self.shard
        if kind == R.HEADER:
            header_fields(out, self.data, at, shard, "header copy")
        elif kind == R.BLOCK_HEADERS:
            for k in range(shard.block_count):
                block_header_fields(out, at + 64 * (len(shard.columns) + 1) * k, shard, k, "block copy")
        elif kind == R.BLOCK_RANGES:
            out.row(at, "range", "present_count:4 flags:4 minimum:8 maximum:8 " * (length // 24))
        elif kind == R.KEY_INDEX:
            self.table = TablePlaces(out, memoryview(self.data)[:at + length], at, [T.KeyTable])
        elif kind == R.METADATA:
            metadata_fields(out, self.data, at, "metadata")
        elif kind == R.STATISTICS:
            for entry in shard.statistics.values():
                buckets = entry.max_length.bit_length() - entry.min_length.bit_length() + 1 if entry.present_count else 0
                at = out.row(at, "statistics", "present_count:8 value_bytes:8 stored_bytes:8 min_length:8 max_length:8 range_kind:4 reserved:4 "
                             "minimum:8 maximum:8" + " histogram:8" * buckets)
        elif kind == R.DIRECTORY:
            out.row(at, "directory", "offset:8 block_length:8 front_length:8 first_sample:8 sample_count:4 reserved:4 header_checksum:8 " * (length // 48))
        else:
            out.text("section of another version", at, length)

    def changed(self, pins, copies=True):
        """The shard with these bytes changed, (place, bytes), and whatever covers them right again. Without `copies`, those in the footer stay."""
        sections = self.shard.sections
        kept = () if copies else (sections[kind] for kind in sections if kind in (R.HEADER, R.BLOCK_HEADERS))
        data = Changed(self.data, [*pins, *((section.offset, self.data[section.offset:section.offset + section.length]) for section in kept)])
        if self.changes_values(data.pins):
            self.repair(data)
            self.count_anew(data)
        self.repair(data)
        return bytes(data)

    def repair(self, data):
        put, shard, length = data.put, self.shard, self.shard.header.length
        for at, begin in self.sums:
            put(at, checksum(data[begin:at]))
        for block in self.blocks:
            for c, entry in enumerate(block.entries):
                places = block.offset + entry.offset, block.offset + entry.values_offset
                put(block.offset + 56 + 64 * c + 24, checksum(data[places[0]:places[0] + P.round_up(entry.stored_length, 64)]))
                if shard.columns[c].has_values_chunk:
                    put(block.offset + 56 + 64 * c + 48, checksum(data[places[1]:places[1] + P.round_up(entry.values_length, 64)]))
        head = 64 * (len(shard.columns) + 1)
        first = self.blocks[0].offset if self.blocks else 0
        put(40, struct.pack("<Q", P.identify(bytes(data[:length]), bytes(data[first + 56:first + head - 8] if self.blocks else b""))))
        for at in [shard.trailer_offset + 72, *(block.offset + 48 for block in self.blocks)]:
            put(at, data[40:48])
        put(length - 8, checksum(data[:length - 8]))
        at = shard.sections[R.DIRECTORY].offset
        copies, hashed = shard.sections.get(R.BLOCK_HEADERS), bytes(data[:length])
        for k, block in enumerate(self.blocks):
            put(block.offset + head - 8, checksum(data[block.offset:block.offset + head - 8]))
            put(at + 48 * k + 40, data[block.offset + head - 8:block.offset + head])
            hashed += data[block.offset:block.offset + head]
            if copies:
                put(copies.offset + head * k, data[block.offset:block.offset + head])
        if R.HEADER in shard.sections:
            put(shard.sections[R.HEADER].offset, data[:length])
        if R.KEY_INDEX in shard.sections:
            self.table.repair(data)
        table = shard.trailer_offset - 32 * shard.section_count
        for n, section in enumerate(shard.sections.values()):
            put(table + 32 * n + 24, checksum(data[section.offset:section.offset + P.round_up(section.length, 8)]))
        put(shard.trailer_offset + 24, checksum(data[table:shard.trailer_offset]))
        put(shard.trailer_offset + 48, R.xxhash.xxh3_128_digest(hashed))
        put(shard.trailer_offset + 88, checksum(data[shard.trailer_offset:shard.trailer_offset + 88]))

    def changes_values(self, pins):
        """Whether they lie in chunks, so that the footer says something else of the values."""
        ends = [(block.offset + 64 * (len(self.shard.columns) + 1), block.offset + block.length) for block in self.blocks]
        return any(begin <= at < end for at, _ in pins for begin, end in ends)

    def count_anew(self, data):
        """Ranges and keys of the changed values, where they can be read."""
        try:
            put, shard = data.put, R.Shard(memoryview(bytes(data)))
            tallies = [R.Tally(column) for column in shard.columns]
            found = [[tally.add(shard.block(k).column(c), False) if shard.columns[c].codec in P.CODECS else None
                      for c, tally in enumerate(tallies)] for k in range(shard.block_count)]
            at = self.shard.sections[R.STATISTICS].offset
            for tally, before in zip(tallies, self.shard.statistics.values()):
                if R.range_kind(tally.column) and tally.column.codec in P.CODECS:
                    entry = tally.result()
                    put(at + 40, struct.pack("<I", entry.range_kind) + bytes(4) + pack_range(entry.range_kind, entry))
                at += 64 + 8 * (before.max_length.bit_length() - before.min_length.bit_length() + 1 if before.present_count else 0)
            if R.BLOCK_RANGES in shard.sections:
                at = shard.sections[R.BLOCK_RANGES].offset
                for block in found:
                    for c, entry in enumerate(block):
                        if (kind := R.range_kind(shard.columns[c])) and entry is not None:
                            some = entry.minimum is not None
                            put(at, struct.pack("<II", entry.present_count, some) + pack_range(some and kind, entry))
                        at += 24 if kind else 0
            for c, column in enumerate(shard.columns):
                if column.key:
                    keys = [P.xxh3(values.raw(i)) for k in range(shard.block_count) for values in [shard.block(k).column(c)]
                            for i in range(values.block.sample_count)]
                    pages = T.divide(sorted((key, i) for i, key in enumerate(keys)))
                    for page, (begin, end, place) in zip(pages, self.table.pages):
                        if 16 * len(page) == end - begin:
                            put(begin, b"".join(struct.pack("<QQ", *entry) for entry in page))
                            put(place - 16, struct.pack("<Q", page[0][0]))
        except (P.ShardError, ValueError, struct.error, OverflowError, MemoryError):
            pass


def pack_range(kind, entry):
    return b"".join(struct.pack("<" + "qQd"[kind - 1], end) for end in (entry.minimum, entry.maximum)) if kind else bytes(16)


# ---- What a field becomes ----

def another_number(rng, value, size, others):
    top = (1 << 8 * size) - 1
    while True:
        k = rng.randrange(8 * size)
        new = rng.choice((0, 1, value + 1, value - 1, value ^ 1 << k, 1 << k, (1 << k) - 1, top, rng.choice(others), rng.randrange(300), value + 8,
                          value - 8, value + 64, value - 64, 2 * value, rng.getrandbits(8 * size))) & top
        if new != value:
            return new


def another_text(rng, text):
    new = bytearray(text)
    for _ in range(20):
        at = rng.randrange(len(new))
        choice = rng.randrange(6)
        if choice == 0:
            new[at] ^= 1 << rng.randrange(8)
        elif choice == 1:
            new[at] = rng.choice(b"\0\n\xff\x80 A/\x7f")
        elif choice == 2:
            new[:] = bytes(len(new))
        elif choice == 3:
            new[at:] = rng.randbytes(len(new) - at)
        elif choice == 4:
            new.reverse()
        else:
            new[at] = new[rng.randrange(len(new))]
        if bytes(new) != text:
            return bytes(new)
    return bytes([new[0] ^ 255]) + bytes(new[1:])


def another(rng, data, fields, by_kind, kind=None):
    """The kind of a field, and the pins that change it."""
    kind = kind or rng.choice(sorted(by_kind))
    field = rng.choice(by_kind[kind])
    old = data[field.at:field.at + field.size]
    if not field.number:
        return kind, [(field.at, another_text(rng, old))]
    near = fields.index(field)
    others = [int.from_bytes(data[other.at:other.at + other.size], "little")
              for other in [*fields[max(near - 2, 0):near + 3], rng.choice(by_kind[kind]), rng.choice(fields)] if other.number] + [len(data)]
    value = int.from_bytes(old, "little")
    new = another_number(rng, value, field.size, others)
    pins = [(field.at, new.to_bytes(field.size, "little"))]
    for at, size in field.twins:
        twin = int.from_bytes(data[at:at + size], "little") + new - value
        pins.append((at, (twin & (1 << 8 * size) - 1).to_bytes(size, "little")))
    if kind == "header minor" and rng.random() < 0.7:
        pins.append((48, f"Shardkit shard 1.{new}".encode().ljust(24, b"\0")[:24]))
    return kind, pins
