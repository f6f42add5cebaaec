"""The parts of a shard: header, schema, values and blocks (sections 1 to 4 of spec.md).

The other half of reference_reader.py, which see. Section numbers in comments are those of spec.md.
"""
import dataclasses
import re
import struct
from typing import NamedTuple

try:
    import xxhash
    import zstandard
except ImportError as error:
    raise SystemExit(f"reference_reader: {error}; install the Debian packages python3-xxhash python3-zstandard")

SHARD_MAGIC = b"\x89SHK\r\n\x1a\n"
BLOCK_MAGIC = b"\x89BLK\r\n\x1a\n"
MAX_HEADER, MAX_ALIGNMENT, MAX_DICTIONARY = 1 << 26, 1 << 20, 1 << 20
MAX_COLUMNS, MAX_RANK, PER_VALUE_RANK = 4096, 8, 255
MAX_BLOCK_SAMPLES = 1 << 20
MAX_ZSTD_RAW, FREE_ZSTD_RAW, MAX_ZSTD_RATIO, MAX_ZSTD_WINDOW = 1 << 31, 1 << 26, 1024, 1 << 27
MAX_JSON_DEPTH = 1024
CODECS = ("none", "zstd")

BYTES, UTF8, JSON, JPEG, PNG, IMAGE, BOOL, NDARRAY, RLE, BF16 = 1, 2, 3, 4, 5, 6, 28, 32, 33, 25
SCALARS = {16: "b", 17: "h", 18: "i", 19: "q", 20: "B", 21: "H", 22: "I", 23: "Q",
           24: "e", BF16: "H", 26: "f", 27: "d", BOOL: "B"}  # type -> code of struct
FLOATS = (24, 25, 26, 27)
TYPE_NAMES = {1: "bytes", 2: "utf8", 3: "json", 4: "jpeg", 5: "png", 6: "image", 16: "i8", 17: "i16", 18: "i32",
              19: "i64", 20: "u8", 21: "u16", 22: "u32", 23: "u64", 24: "f16", 25: "bf16", 26: "f32", 27: "f64", 28: "bool",
              32: "ndarray", 33: "rle"}
TYPE_NUMBERS = {name: number for number, name in TYPE_NAMES.items()}


class ShardError(Exception):
    """`kind` is DataLoss (damage), Unimplemented (a newer format) or NotFound (no such file); `offset` that of the structure at fault."""

    def __init__(self, message, offset=None, kind="DataLoss"):
        super().__init__(message if offset is None else f"{message} (offset {offset})")
        self.kind, self.offset = kind, offset


class BadValue(ValueError):
    """A value breaks section 4. Whoever knows where the value lies turns it into a ShardError."""


def check(condition, message, offset=None, kind="DataLoss"):
    if not condition:
        raise ShardError(message, offset, kind)


def xxh3(data):
    return xxhash.xxh3_64_intdigest(data)


def round_up(x, a):
    return (x + a - 1) // a * a


def is_zero(data):
    return bytes(data).count(0) == len(data)


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

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]


# ---- Sections 1 and 2: header and schema ----

@dataclasses.dataclass(frozen=True)
class Column:
    name: str
    type: int
    codec: int
    nullable: bool
    key: bool
    dtype: int = 0            # ndarray
    shape: tuple | None = None  # ndarray whose values all have this shape

    @property
    def fixed_size(self):
        """Bytes of every value, or None when values differ in length."""
        if self.type in SCALARS:
            return struct.calcsize("<" + SCALARS[self.type])
        return None if self.shape is None else array_bytes(self.dtype, self.shape)

    @property
    def is_blob(self):
        return self.codec == 0 and self.fixed_size is None

    def describe(self):
        out = {"name": self.name, "type": TYPE_NAMES[self.type], "codec": CODECS[self.codec],
               "nullable": self.nullable, "key": self.key}
        if self.type == NDARRAY:
            out |= {"dtype": TYPE_NAMES[self.dtype], "shape": None if self.shape is None else list(self.shape)}
        return out


def array_bytes(dtype, shape):
    total = struct.calcsize("<" + SCALARS[dtype])
    for dimension in shape:
        total *= dimension
    return total


class Header(NamedTuple):
    minor: int
    length: int
    alignment: int
    compatible_flags: int
    columns: tuple
    dictionaries: dict  # column -> bytes
    checksum: int

    @property
    def first_block(self):
        return round_up(self.length, self.alignment)


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
    check(length >= 48, f"header length {length} is impossible", 0)
    cursor = Cursor(data[:-8], 16, "header", 0)
    alignment, incompatible, compatible = cursor.number("I"), cursor.number("I"), cursor.number("I")
    schema_length, dictionary_count, reserved = cursor.number("I"), cursor.number("I"), cursor.number("I")
    bit = (incompatible & -incompatible).bit_length() - 1
    check(incompatible == 0, f"incompatible flag bit {bit} is not known", 0, "Unimplemented")
    check(alignment.bit_count() == 1 and 64 <= alignment <= MAX_ALIGNMENT,
          f"alignment {alignment} is not a power of two from 64 to 1048576", 0)
    check(reserved == 0, "header reserved bytes are not zero", 0)
    columns = parse_schema(cursor.take(schema_length))
    check(dictionary_count <= len(columns), "more dictionaries than columns", 0)
    dictionaries = {}
    for _ in range(dictionary_count):
        column, size = cursor.number("I"), cursor.number("I")
        check(column > max(dictionaries, default=-1), "dictionary columns do not ascend", 0)
        check(column < len(columns) and columns[column].codec == 1,
              f"dictionary for column {column}, which is not a zstd column", 0)
        check(1 <= size <= MAX_DICTIONARY, f"dictionary length {size} is not 1 to 1048576", 0)
        dictionaries[column] = bytes(cursor.take(size))
    check(length - 8 == round_up(cursor.position, 8), "header length does not match its contents", 0)
    check(is_zero(cursor.take(length - 8 - cursor.position)), "header padding is not zero", 0)
    return Header(minor, length, alignment, compatible, columns, dictionaries, checksum)


def parse_schema(data):
    cursor = Cursor(data, 0, "schema", 0)
    count = cursor.number("H")
    check(1 <= count <= MAX_COLUMNS, f"schema: column count {count} is not 1 to 4096", 0)
    columns, names, keys = [], set(), 0
    for c in range(count):  # first what tells where each entry ends, and whether a newer version has made it
        name = bytes(cursor.take(cursor.number("B")))
        type_, codec, flags, dtype, rank = cursor.take(5)
        what = f"schema: column {c} {name.decode(errors='replace')!r}"
        check(type_ in TYPE_NAMES, f"{what}: unknown type {type_}", 0, "Unimplemented")
        check(codec < len(CODECS), f"{what}: unknown codec {codec}", 0, "Unimplemented")
        check(flags < 4, f"{what}: reserved flags {flags:#04x} are set", 0)
        shape = None
        if type_ == NDARRAY:
            check(rank <= MAX_RANK or rank == PER_VALUE_RANK, f"{what}: rank {rank} is over 8", 0)
            if rank != PER_VALUE_RANK:
                shape = struct.unpack(f"<{rank}Q", cursor.take(8 * rank))
        else:
            check(dtype == 0 and rank == 0, f"{what}: dtype and rank are not zero", 0)
        columns.append(Column(name, type_, codec, bool(flags & 1), bool(flags & 2), dtype, shape))
    check(cursor.position == len(data), "schema length does not match its contents", 0)
    for c, column in enumerate(columns):
        check(len(column.name) > 0, f"schema: column {c} has an empty name", 0)
        name = utf8(column.name, f"schema: column {c}: name", 0)
        what = f'schema: column {c} "{name}"'
        check(not column.key or (column.type == UTF8 and not column.nullable), f"{what}: key column is not a non-nullable utf8", 0)
        if column.type == NDARRAY:
            check(column.dtype in SCALARS, f"{what}: dtype {column.dtype} is not a scalar", 0)
            check(column.shape is None or array_bytes(column.dtype, column.shape) <= 1 << 40, f"{what}: shape is over 2^40 bytes", 0)
        check(name not in names, f"{what}: the name stands twice", 0)
        check(not column.key or keys == 0, f"{what}: a second key column", 0)
        names.add(name)
        keys += column.key
        columns[c] = dataclasses.replace(column, name=name)
    return tuple(columns)


# ---- Section 4: values ----

class Ndarray(NamedTuple):
    dtype: str
    shape: tuple
    data: bytes

    def flat(self):
        return scalars(TYPE_NUMBERS[self.dtype], self.data)

    def nested(self):
        numbers = iter(self.flat())

        def level(shape):
            return [level(shape[1:]) for _ in range(shape[0])] if shape else next(numbers)
        return level(self.shape)


def scalars(type_, data):
    """The numbers of a run of scalars, as a list of int, float or bool."""
    code = SCALARS[type_]
    values = struct.unpack(f"<{len(data) // struct.calcsize('<' + code)}{code}", data)
    if type_ == BF16:  # the upper half of a binary32
        values = struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}I", *(v << 16 for v in values)))
    if type_ == BOOL:
        if any(v > 1 for v in values):
            raise BadValue("bool is neither 0 nor 1")
        values = map(bool, values)
    return list(values)


def decode_value(column, data):
    """One value as plain Python: bytes, str, int, float, bool, Ndarray, or a list of masks."""
    if column.type in (BYTES, JPEG, PNG, IMAGE):
        return bytes(data)
    if column.type in (UTF8, JSON):
        try:
            return str(bytes(data), "utf-8")
        except UnicodeDecodeError as error:
            raise BadValue(f"invalid UTF-8 at byte {error.start}") from None
    if column.type in SCALARS:
        return scalars(column.type, data)[0]
    if column.type == RLE:
        return decode_rle(bytes(data))
    if column.shape is not None:
        return Ndarray(TYPE_NAMES[column.dtype], column.shape, bytes(data))
    if len(data) < 8 or data[0] > MAX_RANK or len(data) < 8 + 8 * data[0]:
        raise BadValue("ndarray: rank is over 8, or the shape is cut short")
    if not is_zero(data[1:8]):
        raise BadValue("ndarray reserved bytes are not zero")
    shape, begin = struct.unpack_from(f"<{data[0]}Q", data, 8), 8 + 8 * data[0]
    end = begin + array_bytes(column.dtype, shape)
    if len(data) != round_up(end, 8):
        raise BadValue(f"ndarray of shape {list(shape)} has {len(data)} bytes, not {round_up(end, 8)}")
    if not is_zero(data[end:]):
        raise BadValue("ndarray padding is not zero")
    return Ndarray(TYPE_NAMES[column.dtype], shape, bytes(data[begin:end]))


def decode_rle(data):
    """Section 4.1. A list of {"size": [height, width], "counts": runs}."""
    if len(data) < 8:
        raise BadValue("rle head is cut short")
    count, transform = struct.unpack_from("<IB", data)
    if transform > 1:
        raise BadValue(f"rle transform {transform} is not known")
    if not is_zero(data[5:8]):
        raise BadValue("rle reserved bytes are not zero")
    position = 8 + 12 * count
    if position > len(data):
        raise BadValue("rle mask table is cut short")
    table = struct.unpack_from(f"<{3 * count}I", data, 8)
    masks = []
    for height, width, run_count in zip(table[:count], table[count:2 * count], table[2 * count:]):
        if height * width > 0xFFFFFFFF:
            raise BadValue("rle mask has over 2^32 - 1 pixels")
        runs = []
        for i in range(run_count):
            number = shift = 0
            while True:
                if position == len(data):
                    raise BadValue(f"rle: run {i} of mask {len(masks)} is cut short")
                byte = data[position]
                position += 1
                number |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
                if shift > 63:
                    raise BadValue(f"rle: run {i} of mask {len(masks)} is over 64 bits")
            if number >> 64 or (byte == 0 and shift > 7):
                raise BadValue(f"rle: run {i} of mask {len(masks)} is not in its shortest form or over 64 bits")
            if transform == 1:
                number = (number >> 1) ^ -(number & 1)
                if i >= 2:
                    number += height - runs[i - 1]
            if not 0 <= number <= 0xFFFFFFFF:
                raise BadValue(f"rle: run {i} of mask {len(masks)} is negative or over 2^32 - 1")
            runs.append(number)
        if sum(runs) != height * width:
            raise BadValue(f"rle runs of mask {len(masks)} sum to {sum(runs)}, not {height} x {width}")
        masks.append({"size": [height, width], "counts": runs})
    if position != len(data):
        raise BadValue(f"rle: {len(data) - position} bytes follow the last run")
    return masks


def image_format(data):
    """Section 4.2: the format's name, or None."""
    data = bytes(data[:64])
    for name, *signatures in (("JPEG", b"\xff\xd8\xff"), ("PNG", b"\x89PNG\r\n\x1a\n"), ("GIF", b"GIF87a", b"GIF89a"),
                              ("BMP", b"BM"), ("TIFF", b"II\x2a\0", b"MM\0\x2a", b"II\x2b\0", b"MM\0\x2b"),
                              ("JPEG XL", b"\xff\n", b"\0\0\0\x0cJXL \r\n\x87\n")):
        if data.startswith(tuple(signatures)):
            return name
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WebP"
    if data[4:8] == b"ftyp":
        end = min(len(data), int.from_bytes(data[:4], "big"))
        if any(data[at:at + 4] in (b"avif", b"avis") for at in (8, *range(16, 64, 4)) if at + 4 <= end):
            return "AVIF"
    return None


JSON_TOKEN = re.compile(r'[ \t\n\r]*([{}\[\],:]|"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
                        r'|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null)')


def check_json(text):
    """One JSON text by the grammar of RFC 8259. The standard library's parser would do more than that, and less."""
    open_, state, position = [], "value", 0  # what is not closed yet: { and [
    while open_ or state != "after a value":
        match = JSON_TOKEN.match(text, position)
        if match is None:
            raise BadValue(f"json: no token of JSON at character {position}")
        token, position = match[1], match.end()
        inner = open_[-1] if open_ else None
        if token in ("{", "[") and state in ("value", "first element"):
            open_.append(token)
            if len(open_) > MAX_JSON_DEPTH:
                raise BadValue(f"json is nested deeper than {MAX_JSON_DEPTH}")
            state = "first name" if token == "{" else "first element"
        elif token[0] not in "{}[],:" and state in ("value", "first element"):
            state = "after a value"
        elif token[0] == '"' and state in ("name", "first name"):
            state = "colon"
        elif token == ":" and state == "colon":
            state = "value"
        elif token == "," and state == "after a value":
            state = "name" if inner == "{" else "value"
        elif ((inner, token) in (("{", "}"), ("[", "]"))
              and state in ("after a value", "first name" if inner == "{" else "first element")):
            open_.pop()
            state = "after a value"
        else:
            raise BadValue(f"json: {token[:20]!r} before character {position} does not belong there")
    if text[position:].strip(" \t\n\r"):
        raise BadValue(f"json: text after its end, from character {position} on")


def check_value(column, data):
    """What `validate --deep` checks, but for the pixels of images, which the standard library cannot decode."""
    value = decode_value(column, data)
    if column.type == JSON:
        check_json(value)
    if column.type == IMAGE and image_format(value) is None:
        raise BadValue("image begins like no known format")
    if column.type in (JPEG, PNG) and image_format(value) != TYPE_NAMES[column.type].upper():
        raise BadValue(f"{TYPE_NAMES[column.type]} does not begin like one")
    if isinstance(value, Ndarray) and value.dtype == "bool":
        value.flat()


# ---- Section 3: blocks ----

class Entry(NamedTuple):
    """A column entry of a block header."""
    offset: int
    stored_length: int
    raw_length: int
    checksum: int
    values_offset: int
    values_length: int
    values_checksum: int
    encoding: int


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
         reserved, self.previous) = struct.unpack_from("<IIQQQIIQ", head, 8)
        check(header_length == self.header_length, f"{what}: header length {header_length} is wrong", offset)
        check(column_count == len(columns), f"{what}: column count {column_count} is not the schema's", offset)
        check(reserved == 0, f"{what}: reserved bytes are not zero", offset)
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
            check(entry.encoding <= 2, f"{here}: unknown encoding {entry.encoding}", offset)
            check(column.codec == 1 or entry.encoding == 0, f"{here}: encoding of a column of codec none", offset)
            check(entry.encoding != 2 or c in header.dictionaries, f"{here}: the column has no dictionary", offset)
            check(column.is_blob or entry[4:7] == (0, 0, 0), f"{here}: a values chunk of an inline column", offset)
            if entry.encoding == 0:
                check(entry.stored_length == entry.raw_length, f"{here}: raw length is not stored length", offset)
            else:
                check(entry.raw_length > 0, f"{here}: compressed though the raw length is 0", offset)
                limit = min(MAX_ZSTD_RAW, max(FREE_ZSTD_RAW, MAX_ZSTD_RATIO * entry.stored_length))
                check(entry.raw_length <= limit, f"{here}: raw length {entry.raw_length} is over the limit", offset)
            self.entries.append(entry)
        check(self.front_length == position, f"{what}: front length {self.front_length} is not {position}", offset)
        for c, column in enumerate(columns):
            if column.is_blob:
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
        return ColumnData(self, c)


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
    """The values of one column of one block, checked (sections 3, 3.1 and 3.2)."""

    def __init__(self, block, c):
        self.block, self.c, self.column = block, c, block.header.columns[c]
        entry, n, column = block.entries[c], block.sample_count, self.column
        self.offset = block.offset + entry.offset
        head = block.chunk(c, "head chunk", entry.offset, entry.stored_length, entry.checksum)
        if entry.encoding:
            dictionary = block.header.dictionaries[c] if entry.encoding == 2 else None
            head = self.decompress(head, entry.raw_length, dictionary)
        where, size = block.where(c), column.fixed_size
        presence_bytes = round_up((n + 7) // 8, 8) if column.nullable else 0
        ends_bytes = 8 * n if size is None else 0
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
        self.ends = struct.unpack_from(f"<{n}Q", head, presence_bytes)
        self.begins = (0,) + self.ends[:-1]
        if column.is_blob:
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
            if present and column.is_blob and end - begin < 8:
                self.fail(i, "ends leave no room for a record checksum")
        check(self.ends[-1] == len(self.values), f"{where}: ends do not reach the end of the values", self.offset)

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
        begin, size = self.begins[i], self.column.fixed_size
        data = self.values[begin:begin + size] if size is not None else self.values[begin:self.ends[i]]
        if not self.present[i]:
            if not is_zero(data):
                self.fail(i, "an absent value is not zero")
            return None
        if not self.column.is_blob:
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
