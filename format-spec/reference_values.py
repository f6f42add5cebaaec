"""The types of a shard's columns and their values (section 4 of spec.md).

Part of reference_reader.py, which see. Section numbers in comments are those of spec.md.
"""
import math
import re
import struct
from typing import NamedTuple

MAX_RANK, MAX_JSON_DEPTH = 8, 1024
BYTES, UTF8, JSON, JPEG, PNG, IMAGE, BOOL, NDARRAY, RLE, BF16 = 1, 2, 3, 4, 5, 6, 28, 32, 33, 25
F8E4M3, F8E5M2, COMPLEX64, COMPLEX128 = 29, 30, 31, 64
SCALARS = {16: "b", 17: "h", 18: "i", 19: "q", 20: "B", 21: "H", 22: "I", 23: "Q",
           24: "e", BF16: "H", 26: "f", 27: "d", BOOL: "B", F8E4M3: "B", F8E5M2: "B", COMPLEX64: "ff", COMPLEX128: "dd",
           65: "q", 66: "q", 67: "q", 68: "q"}  # type -> code of struct
FLOATS = (24, 25, 26, 27, F8E4M3, F8E5M2)
TYPE_NAMES = {1: "bytes", 2: "utf8", 3: "json", 4: "jpeg", 5: "png", 6: "image", 16: "i8", 17: "i16", 18: "i32",
              19: "i64", 20: "u8", 21: "u16", 22: "u32", 23: "u64", 24: "f16", 25: "bf16", 26: "f32", 27: "f64", 28: "bool",
              29: "f8e4m3", 30: "f8e5m2", 31: "complex64", 32: "ndarray", 33: "rle", 64: "complex128", 65: "timestamp_s",
              66: "timestamp_ms", 67: "timestamp_us", 68: "timestamp_ns"}
TYPE_NUMBERS = {name: number for number, name in TYPE_NAMES.items()}


class BadValue(ValueError):
    """A value breaks section 4. Whoever knows where the value lies turns it into a ShardError."""


def round_up(x, a):
    return (x + a - 1) // a * a


def is_zero(data):
    return bytes(data).count(0) == len(data)


def array_bytes(dtype, shape):
    total = struct.calcsize("<" + SCALARS[dtype])
    for dimension in shape:
        total *= dimension
    return total


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
    values = struct.unpack("<" + code * (len(data) // struct.calcsize("<" + code)), data)
    if type_ in (COMPLEX64, COMPLEX128):
        values = [complex(*pair) for pair in zip(values[::2], values[1::2])]
    if type_ == F8E5M2:  # the upper half of a binary16
        values = struct.unpack(f"<{len(values)}e", struct.pack(f"<{len(values)}H", *(v << 8 for v in values)))
    if type_ == F8E4M3:
        values = map(e4m3, values)
    if type_ == BF16:  # the upper half of a binary32
        values = struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}I", *(v << 16 for v in values)))
    if type_ == BOOL:
        if any(v > 1 for v in values):
            raise BadValue("bool is neither 0 nor 1")
        values = map(bool, values)
    return list(values)


def e4m3(bits):
    """OCP FP8 E4M3: no infinities, one NaN of either sign."""
    exponent, mantissa = bits >> 3 & 15, bits & 7
    magnitude = math.nan if bits & 127 == 127 else math.ldexp(mantissa + 8 if exponent else mantissa, max(exponent, 1) - 10)
    return math.copysign(magnitude, -1 if bits & 128 else 1)


def is_known(column):
    """Whether its values are more than bytes to this reader."""
    return column.type in TYPE_NAMES and (column.type != NDARRAY or column.dtype in TYPE_NAMES)


def decode_value(column, data):
    """One value as plain Python: bytes, str, int, float, complex, bool, Ndarray, or a list of masks."""
    if column.type in (BYTES, JPEG, PNG, IMAGE) or not is_known(column):
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
    if data[:1] == b"P" and data[1:2] in tuple(b"%d" % digit for digit in range(1, 7)) and data[2:3] in (b"\t", b"\n", b"\r", b" "):
        return "PNM"
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
