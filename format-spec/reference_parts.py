"""The parts of a shard: header, schema and blocks (sections 1 to 3 of spec.md).

Part of reference_reader.py, which see. Section numbers in comments are those of spec.md.
"""
import dataclasses
import struct
from collections import namedtuple
from typing import NamedTuple

try:
    import xxhash
    import zstandard
except ImportError as error:
    raise SystemExit(f"reference_reader: {error}; install the Debian packages python3-xxhash python3-zstandard")

from reference_values import MAX_RANK, NDARRAY, SCALARS, TYPE_NAMES, UTF8, BadValue, array_bytes, decode_value, is_zero, round_up

SHARD_MAGIC = b"\x89SHK\r\n\x1a\n"
BLOCK_MAGIC = b"\x89BLK\r\n\x1a\n"
MAX_HEADER, MAX_ALIGNMENT, MAX_DICTIONARY = 1 << 26, 1 << 20, 1 << 20
MAX_COLUMNS, PER_VALUE_RANK, MAX_FIXED_SIZE = 4096, 255, 1 << 40
MAX_BLOCK_SAMPLES = 1 << 20
MAX_ZSTD_RAW, FREE_ZSTD_RAW, MAX_ZSTD_RATIO, MAX_ZSTD_WINDOW = 1 << 31, 1 << 26, 1024, 1 << 27
CODECS = {0: "none", 1: "zstd"}
NONE, ZSTD = CODECS
FIXED, INLINE, BLOB, PAGED = 1, 2, 3, 4  # storage
MAX_PAGE, PAGE_ENTRY = 65536, 16


class ShardError(Exception):
    """`kind` is DataLoss (damage), Unimplemented (a newer format), NotFound (no such file) or PermissionDenied (a base
    out of reach); `offset` that of the structure at fault."""

    def __init__(self, message, offset=None, kind="DataLoss"):
        super().__init__(message if offset is None else f"{message} (offset {offset})")
        self.kind, self.offset = kind, offset


def check(condition, message, offset=None, kind="DataLoss"):
    if not condition:
        raise ShardError(message, offset, kind)


def xxh3(data):
    return xxhash.xxh3_64_intdigest(data)


def utf8(data, what, offset):
    try:
        return str(bytes(data), "utf-8")
    except UnicodeDecodeError:
        raise ShardError(f"{what} is not UTF-8", offset) from None


class Cursor:
    """Reads fields one after another and never past the end."""

    def __init__(self, data, position, what, offset):
        self.data, self.position, self.what, self.offset = data, position, what, offset

    def take(self, length):
        begin, self.position = self.position, self.position + length
        check(self.position <= len(self.data), f"{self.what} is cut short", self.offset)
        return self.data[begin:self.position]

    def unpack(self, code):
        return struct.unpack(code, self.take(struct.calcsize(code)))

    def number(self, code):
        return self.unpack("<" + code)[0]


# ---- Sections 1 and 2: header and schema ----

@dataclasses.dataclass(frozen=True)
class Column:
    name: str
    type: int
    codec: int
    storage: int
    nullable: bool
    key: bool
    value_size: int | None = None  # bytes of every value; None when values differ in length
    dtype: int = 0            # ndarray
    shape: tuple | None = None  # ndarray whose values all have this shape
    metadata: dict = dataclasses.field(default_factory=dict)

    @property
    def has_values_chunk(self):
        return self.storage in (BLOB, PAGED)

    @property
    def is_indexed(self):
        """Whether the offset index of a dataset has the places of its records."""
        return self.storage == BLOB and self.codec == NONE

    def describe(self):
        """As in a manifest (section 9.1)."""
        out = {"name": self.name} | named("type", self.type, TYPE_NAMES) | named("codec", self.codec, CODECS)
        out |= {"nullable": self.nullable, "key": self.key}
        if self.storage == FIXED:
            out["value_size"] = self.value_size
        if self.type == NDARRAY or self.type not in TYPE_NAMES:
            out |= named("dtype", self.dtype, TYPE_NAMES) | {"shape": None if self.shape is None else list(self.shape)}
        return out | ({"metadata": self.metadata} if self.metadata else {})


def named(key, number, names):
    return ({key: names[number]} if number in names else {}) | {f"{key}_number": number}


def size_of_type(type_, dtype, shape):
    """Bytes of every value, or None when the type does not say."""
    if type_ in SCALARS:
        return array_bytes(type_, ())
    return array_bytes(dtype, shape) if type_ == NDARRAY and shape is not None and dtype in SCALARS else None


class Header(NamedTuple):
    minor: int
    length: int
    alignment: int
    compatible_flags: int
    columns: tuple
    dictionaries: dict  # column -> bytes
    shard_id: int

    @property
    def first_block(self):
        return round_up(self.length, self.alignment)


def identify(header, entries):
    """Section 1.1: the id of a shard with this header, the first of whose blocks has these column entries."""
    return xxh3(b"".join((header[:40], bytes(8), header[48:-8], entries)))


def parse_header(data):
    if data[:8] != SHARD_MAGIC:
        changed = len(data) >= 8 and data[:4] == SHARD_MAGIC[:4]
        raise ShardError("header magic is wrong" + ("; a transfer in text mode changed it" if changed else ""), 0)
    cursor = Cursor(data, 8, "header", 0)
    major, minor, length = cursor.number("H"), cursor.number("H"), cursor.number("I")
    check(length % 8 == 0 and 24 <= length <= MAX_HEADER, f"header length {length} is impossible", 0)
    check(length <= len(data), "header is cut short", 0)
    data = data[:length]
    checksum, = struct.unpack_from("<Q", data, length - 8)
    check(xxh3(data[:-8]) == checksum, "header checksum does not match", 0)
    check(major == 1, f"major version {major} is not supported", 0, "Unimplemented")
    check(length >= 80, f"header length {length} is impossible", 0)
    cursor = Cursor(data[:-8], 16, "header", 0)
    alignment, incompatible, compatible = cursor.number("I"), cursor.number("I"), cursor.number("I")
    schema_length, dictionary_count, reserved, shard_id, specification = cursor.unpack("<IIIQ24s")
    bit = (incompatible & -incompatible).bit_length() - 1
    check(incompatible == 0, f"incompatible flag bit {bit} is not known", 0, "Unimplemented")
    check(alignment.bit_count() == 1 and 64 <= alignment <= MAX_ALIGNMENT,
          f"alignment {alignment} is not a power of two from 64 to 1048576", 0)
    check(reserved == 0, "header reserved bytes are not zero", 0)
    check(specification == f"Shardkit shard {major}.{minor}".encode().ljust(24, b"\0"), "header: the specification named is not its own", 0)
    columns = parse_schema(cursor.take(schema_length))
    check(dictionary_count <= len(columns), "more dictionaries than columns", 0)
    dictionaries = {}
    for _ in range(dictionary_count):
        column, size = cursor.number("I"), cursor.number("I")
        check(column > max(dictionaries, default=-1), "dictionary columns do not ascend", 0)
        check(column < len(columns) and columns[column].codec == ZSTD,
              f"dictionary for column {column}, which is not a zstd column", 0)
        check(1 <= size <= MAX_DICTIONARY, f"dictionary length {size} is not 1 to 1048576", 0)
        dictionaries[column] = bytes(cursor.take(size))
    check(length - 8 == round_up(cursor.position, 8), "header length does not match its contents", 0)
    check(is_zero(cursor.take(length - 8 - cursor.position)), "header padding is not zero", 0)
    return Header(minor, length, alignment, compatible, columns, dictionaries, shard_id)


def parse_schema(data):
    cursor = Cursor(data, 0, "schema", 0)
    count = cursor.number("H")
    check(1 <= count <= MAX_COLUMNS, f"schema: column count {count} is not 1 to 4096", 0)
    columns, names, keys = [], set(), 0
    for c in range(count):  # first what tells where each entry ends
        name = bytes(cursor.take(cursor.number("B")))
        type_, dtype, codec, storage, flags, rank = struct.unpack("<HHBBBB", cursor.take(8))
        what = f"schema: column {c} {name.decode(errors='replace')!r}"
        check(FIXED <= storage <= PAGED, f"{what}: storage {storage} is not 1, 2, 3 or 4", 0)
        check(flags < 4, f"{what}: reserved flags {flags:#04x} are set", 0)
        if type_ == NDARRAY or type_ not in TYPE_NAMES:
            check(rank <= MAX_RANK or rank == PER_VALUE_RANK, f"{what}: rank {rank} is over 8", 0)
        else:
            check(dtype == 0 and rank == 0, f"{what}: dtype and rank are not zero", 0)
        value_size = cursor.number("Q") if storage == FIXED else None
        has_shape = (type_ == NDARRAY or type_ not in TYPE_NAMES) and rank != PER_VALUE_RANK
        shape = struct.unpack(f"<{rank}Q", cursor.take(8 * rank)) if has_shape else None
        cursor.what = f"{what}: metadata"
        metadata = read_metadata(cursor)
        cursor.what = "schema"
        columns.append(Column(name, type_, codec, storage, bool(flags & 1), bool(flags & 2), value_size, dtype, shape, metadata))
    check(cursor.position == len(data), "schema length does not match its contents", 0)
    for c, column in enumerate(columns):
        check(len(column.name) > 0, f"schema: column {c} has an empty name", 0)
        name = plain_name(column.name, f"schema: column {c}: name", 0)
        check_column(column, f'schema: column {c} "{name}"')
        check(name not in names, f"schema: column {c}: the name {name} occurs twice", 0)
        check(not column.key or keys == 0, f"schema: column {c}: a second key column", 0)
        names.add(name)
        keys += column.key
        columns[c] = dataclasses.replace(column, name=name)
    return tuple(columns)


def check_column(column, what):
    check(not column.key or (column.type == UTF8 and not column.nullable), f"{what}: key column is not a non-nullable utf8", 0)
    check(column.type != NDARRAY or column.dtype != 0, f"{what}: dtype of an ndarray is 0", 0)
    if column.type == NDARRAY and column.dtype in TYPE_NAMES:
        check(column.dtype in SCALARS, f"{what}: dtype {column.dtype} is not a scalar", 0)
        whole = [dimension for dimension in column.shape or () if dimension]
        check(array_bytes(column.dtype, whole) <= MAX_FIXED_SIZE, f"{what}: shape is over 2^40 bytes", 0)
    fixed = column.storage == FIXED
    if column.type in TYPE_NAMES:
        same_size = column.type in SCALARS or (column.type == NDARRAY and column.shape is not None)
        check(fixed == same_size, f"{what}: storage {column.storage} is not one of its type", 0)
    size = size_of_type(column.type, column.dtype, column.shape)
    check(size is None or column.value_size == size, f"{what}: value_size {column.value_size} is not the type's {size}", 0)
    check(not fixed or column.value_size <= MAX_FIXED_SIZE, f"{what}: value_size is over 2^40", 0)
    fits = fixed or column.codec not in CODECS or column.codec == (ZSTD if column.storage == INLINE else NONE)
    check(fits, f"{what}: storage {column.storage} with codec {column.codec}", 0)


def plain_name(data, what, offset):
    """Of a column or of metadata."""
    name = utf8(data, what, offset)
    check("\0" not in name and "\n" not in name, f"{what} has a NUL or a line feed", offset)
    return name


def read_metadata(cursor):
    """Of a column, or of the shard (section 5)."""
    out, last = {}, None
    for _ in range(cursor.number("I")):
        name = bytes(cursor.take(cursor.number("I")))
        check(last is None or name > last, f"{cursor.what} names do not ascend", cursor.offset)
        last = name
        value = cursor.take(cursor.number("I"))
        out[plain_name(name, f"{cursor.what} name", cursor.offset)] = utf8(value, f"{cursor.what} value", cursor.offset)
    return out


# ---- Section 3: blocks ----

Entry = namedtuple("Entry", "offset stored_length raw_length checksum values_offset values_length values_checksum encoding")  # of a column


class Block:
    """A block header, checked against its own checksum and for the canonical layout."""

    def __init__(self, data, header, offset, index, head=None):
        """`head`: the copy of the block's header in the footer, to be used in its place."""
        self.data, self.header, self.offset, self.index = data, header, offset, index
        what, columns = f"block {index}", header.columns
        self.header_length = 64 * (len(columns) + 1)
        head = data[offset:offset + self.header_length] if head is None else head
        check(head[:8] == BLOCK_MAGIC, f"{what}: magic is wrong", offset)
        check(len(head) == self.header_length, f"{what}: header is cut short", offset)
        self.checksum, = struct.unpack_from("<Q", head, self.header_length - 8)
        check(xxh3(head[:-8]) == self.checksum, f"{what}: header checksum does not match", offset)
        (header_length, column_count, self.length, self.front_length, self.first_sample, self.sample_count,
         reserved, shard_id) = struct.unpack_from("<IIQQQIIQ", head, 8)
        check(header_length == self.header_length, f"{what}: header length {header_length} is wrong", offset)
        check(column_count == len(columns), f"{what}: column count {column_count} is not the schema's", offset)
        check(reserved == 0, f"{what}: reserved bytes are not zero", offset)
        check(shard_id == header.shard_id, f"{what}: shard id is not the header's: this is a block of another shard", offset)
        check(1 <= self.sample_count <= MAX_BLOCK_SAMPLES,
              f"{what}: sample count {self.sample_count} is not 1 to 1048576", offset)
        self.entries = []
        position = self.header_length
        for c, column in enumerate(columns):
            entry = Entry(*struct.unpack_from("<7QB", head, 56 + 64 * c))
            here = self.where(c)
            check(is_zero(head[56 + 64 * c + 57:56 + 64 * c + 64]), f"{here}: reserved bytes are not zero", offset)
            check(entry.offset == position, f"{here}: chunk offset {entry.offset} is not {position}", offset)
            position = round_up(position + entry.stored_length, 64)
            check(column.has_values_chunk or entry[4:7] == (0, 0, 0), f"{here}: a values chunk of a column that has none", offset)
            self.entries.append(entry)
            if column.codec not in CODECS:  # what encoding and raw length mean is that codec's business
                check(entry.raw_length <= 1 << 62, f"{here}: raw length is over 2^62", offset)
                continue
            check(entry.encoding <= 2, f"{here}: unknown encoding {entry.encoding}", offset)
            check(column.codec == ZSTD or entry.encoding == 0, f"{here}: encoding of a column of codec none", offset)
            check(entry.encoding != 2 or c in header.dictionaries, f"{here}: the column has no dictionary", offset)
            if entry.encoding == 0:
                check(entry.stored_length == entry.raw_length, f"{here}: raw length is not stored length", offset)
            else:
                check(entry.raw_length > 0, f"{here}: compressed though the raw length is 0", offset)
                limit = min(MAX_ZSTD_RAW, max(FREE_ZSTD_RAW, MAX_ZSTD_RATIO * entry.stored_length))
                check(entry.raw_length <= limit, f"{here}: raw length {entry.raw_length} is over the limit", offset)
        check(self.front_length == position, f"{what}: front length {self.front_length} is not {position}", offset)
        for c in [c for storage in (BLOB, PAGED) for c, column in enumerate(columns) if column.storage == storage]:
            found = self.entries[c].values_offset
            check(found == position, f"{self.where(c)}: values offset {found} is not {position}", offset)
            position = round_up(position + self.entries[c].values_length, 64)
        check(self.length == position, f"{what}: block length {self.length} is not {position}", offset)
        check(offset + self.length <= len(data), f"{what}: is cut short", offset)

    def where(self, c):
        return f'block {self.index}, column {c} "{self.header.columns[c].name}"'

    def chunk(self, c, what, begin, length, checksum):
        """A chunk's bytes, its checksum and the zero bytes after it checked."""
        begin += self.offset
        whole = self.data[begin:begin + round_up(length, 64)]
        check(xxh3(whole) == checksum, f"{self.where(c)}: {what} checksum does not match", begin)
        check(is_zero(whole[length:]), f"{self.where(c)}: padding after the {what} is not zero", begin)
        return whole[:length]

    def column(self, c):
        column = self.header.columns[c]
        check(column.codec in CODECS, f'{self.where(c)}: unknown codec {column.codec}', None, "Unimplemented")
        return ColumnData(self, c)

    def check_chunks(self, c):
        """All that can be checked of a column whose codec is not known."""
        entry = self.entries[c]
        self.chunk(c, "head chunk", entry.offset, entry.stored_length, entry.checksum)
        if self.header.columns[c].has_values_chunk:
            self.chunk(c, "values chunk", entry.values_offset, entry.values_length, entry.values_checksum)


def zstd_decoder(dictionary):
    """For one frame. A dictionary that is malformed gives a ZstdError here or when the decoder is first used."""
    dictionary = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
    return zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=MAX_ZSTD_RAW).decompressobj()


def check_dictionary(header, c):
    """Whether the dictionary of column c can be loaded: an empty frame is decompressed with it."""
    try:
        zstd_decoder(header.dictionaries[c]).decompress(bytes.fromhex("28b52ffd 20 00 010000"))
    except zstandard.ZstdError as error:
        raise ShardError(f'column {c} "{header.columns[c].name}": zstd dictionary is malformed: {error}', 0) from None


class ColumnData:
    """The values of one column of one block, checked (sections 3, 3.1, 3.2 and 3.3)."""

    def __init__(self, block, c):
        self.block, self.c, self.column = block, c, block.header.columns[c]
        entry, n, column = block.entries[c], block.sample_count, self.column
        self.offset, self.pages = block.offset + entry.offset, []
        head = block.chunk(c, "head chunk", entry.offset, entry.stored_length, entry.checksum)
        if entry.encoding:
            dictionary = block.header.dictionaries[c] if entry.encoding == 2 else None
            head = self.decompress(head, entry.raw_length, dictionary)
        where, size = block.where(c), column.value_size
        presence_bytes = round_up((n + 7) // 8, 8) if column.nullable else 0
        ends_bytes = 8 * n if column.storage in (INLINE, BLOB) else 0
        least = presence_bytes + ends_bytes + (0 if size is None else n * size)
        check(len(head) >= least, f"{where}: raw length {len(head)} is under {least}", self.offset)
        bits = int.from_bytes(head[:presence_bytes], "little") if column.nullable else (1 << n) - 1
        check(bits >> n == 0, f"{where}: presence bits beyond the samples", self.offset)
        self.present = [digit == "1" for digit in reversed(f"{bits:0{n}b}")]
        self.values = head[presence_bytes + ends_bytes:]
        if size is not None:
            check(len(self.values) == n * size, f"{where}: raw length {len(head)} is not {least}", self.offset)
            self.begins, self.ends = range(0, n * size, size) if size else [0] * n, None
            return
        if column.storage == PAGED:
            self.read_pages(self.values, block.chunk(c, "values chunk", entry.values_offset, entry.values_length,
                                                     entry.values_checksum))
            return
        self.ends = struct.unpack_from(f"<{n}Q", head, presence_bytes)
        self.begins = (0,) + self.ends[:-1]
        if column.storage == BLOB:
            check(len(self.values) == 0, f"{where}: raw length {len(head)} is not {least}", self.offset)
            self.values = block.chunk(c, "values chunk", entry.values_offset, entry.values_length,
                                      entry.values_checksum)
        for i, (begin, end, present) in enumerate(zip(self.begins, self.ends, self.present)):
            if end < begin:
                self.fail(i, "ends descend")
            if end > len(self.values):
                self.fail(i, "ends pass the end of the values")
            if not present and end != begin:
                self.fail(i, "an absent value has bytes")
            if present and column.storage == BLOB and end - begin < 8:
                self.fail(i, "ends leave no room for a record checksum")
        check(self.ends[-1] == len(self.values), f"{where}: ends do not reach the end of the values", self.offset)

    def read_pages(self, table, values):  # section 3.3
        n, where, at = self.block.sample_count, self.block.where(self.c), self.offset
        check(len(table) > 0 and len(table) % PAGE_ENTRY == 0, f"{where}: raw length does not fit the pages", at)
        self.pages, position = list(struct.iter_unpack("<QII", table)), 0
        lasts = [first for _, first, _ in self.pages[1:]] + [n]
        for k, ((end, first, reserved), last) in enumerate(zip(self.pages, lasts)):
            here = f"{where}, page {k}"
            check(reserved == 0, f"{here}: reserved bytes are not zero", at)
            check((first == 0 or k > 0) and first < last <= n, f"{here}: its samples are wrong", at)
            check(position + 8 + 2 * (last - first - 1) <= end <= len(values), f"{here}: its end {end} is wrong", at)
            single = last == first + 1 and self.present[first]
            check(end - position <= MAX_PAGE or single, f"{here}: {end - position} bytes are over 65536", at)
            position = end
        check(position == len(values), f"{where}: the last page's end is not that of the values", at)
        self.values, self.begins, self.ends, begin = values, [], [], 0
        for k, ((end, first, _), last) in enumerate(zip(self.pages, lasts)):
            count, page = last - first, values[begin:end]
            place = self.block.offset + self.block.entries[self.c].values_offset + begin
            check(xxh3(page[:-8]) == int.from_bytes(page[-8:], "little"), f"{where}, page {k}: page checksum does not match", place)
            bytes_ = len(page) - 8 - 2 * (count - 1)
            ends = [0, *struct.unpack_from(f"<{count - 1}H", page, bytes_), bytes_]
            for i in range(count):
                if ends[i + 1] < ends[i]:
                    self.fail(first + i, f"ends of page {k} descend", place)
                if ends[i + 1] > ends[i] and not self.present[first + i]:
                    self.fail(first + i, f"an absent value of page {k} has bytes", place)
            self.begins += [begin + end for end in ends[:-1]]
            self.ends += [begin + end for end in ends[1:]]
            begin = end

    def check_full(self):
        """That a writer made its pages as full as can be, which reading does not check (section 3.3)."""
        begin = 0
        for k, ((end, _, _), (_, first, _)) in enumerate(zip(self.pages, self.pages[1:]), 1):
            length = end - begin + 2 + self.ends[first] - self.begins[first]
            check(length > MAX_PAGE, f"{self.block.where(self.c)}, page {k}: its first value fits in the page before", self.offset)
            begin = end

    def fail(self, i, message, offset=None, kind="DataLoss"):
        sample = self.block.first_sample + i
        offset = self.offset if offset is None else offset
        raise ShardError(f"{self.block.where(self.c)}, sample {sample}: {message}", offset, kind)

    def decompress(self, stored, raw_length, dictionary):
        where = self.block.where(self.c)
        try:
            parameters = zstandard.get_frame_parameters(stored)
            holds = "an unknown number of" if parameters.content_size >= 1 << 63 else parameters.content_size
            check(holds == raw_length, f"{where}: zstd frame holds {holds} bytes instead of {raw_length}", self.offset)
            single_segment = stored[4] & 0x20  # then the content is the window
            check(single_segment or parameters.window_size <= MAX_ZSTD_WINDOW, f"{where}: zstd frame's window passes 128 MiB",
                  self.offset)
            decoder = zstd_decoder(dictionary)
            raw = decoder.decompress(stored)
        except zstandard.ZstdError as error:
            raise ShardError(f"{where}: zstd frame is damaged: {error}", self.offset) from None
        check(decoder.eof and len(raw) == raw_length, f"{where}: zstd frame is cut short", self.offset)
        check(not decoder.unused_data, f"{where}: bytes after the zstd frame", self.offset)
        return memoryview(raw)

    def raw(self, i):
        """The encoded bytes of value i of the block, or None when absent. A record's checksum is checked."""
        begin, size = self.begins[i], self.column.value_size
        data = self.values[begin:begin + size] if size is not None else self.values[begin:self.ends[i]]
        if not self.present[i]:
            if not is_zero(data):
                self.fail(i, "an absent value is not zero")
            return None
        if self.column.storage != BLOB:
            return data
        if xxh3(data[:-8]) != int.from_bytes(data[-8:], "little"):
            place = self.block.offset + self.block.entries[self.c].values_offset + begin
            self.fail(i, "value checksum does not match", place)
        return data[:-8]

    def value(self, i, decode=decode_value):
        data = self.raw(i)
        try:
            return None if data is None else decode(self.column, data)
        except BadValue as error:
            self.fail(i, str(error))
        except ShardError as error:
            self.fail(i, str(error), kind=error.kind)
