"""Samples for mosaicml-streaming's MDSWriter: columns of random encodings, values for them, and the bytes that Shardkit reads them as.

MISSING is the reason why this module cannot be used, or None.
"""
import decimal
import io
import random
import struct

try:
    import numpy
    import xxhash
    from PIL import Image
    from streaming import MDSWriter
    from streaming.base.format.mds.encodings import get_mds_encodings, mds_decode, mds_encode
except ImportError as error:
    MISSING = f"needs the package mosaicml-streaming: {error}"
else:
    MISSING = None

SCALARS = {"int": "<q", "uint8": "<B", "uint16": "<H", "uint32": "<I", "uint64": "<Q", "int8": "<b", "int16": "<h",
           "int32": "<i", "int64": "<q", "float16": "<e", "float32": "<f", "float64": "<d"}
ELEMENTS = ["uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32", "uint64", "int64", "float64"]
TEXTS = ["", "plain", "übergroß", "数据", "😀 emoji", "line\nbreak \"quoted\"", "\0null"]
PICTURES = ["jpeg", "png", "pil"]
LISTS = ["list[jpeg]", "list[png]", "list[pil]"]
COMPRESSIONS = [None, "zstd", "zstd:7", "gz", "gz:5", "bz2", "bz2:1", "br", "br:3", "snappy"]
HASHES = [[], ["sha1"], ["md5", "xxh64"], ["sha256", "xxh128", "xxh3_64"]]


def picture(chance):
    shape = (chance.randint(1, 20), chance.randint(1, 20), 3)
    return Image.fromarray(numpy.random.default_rng(chance.random().hex().encode()[3]).integers(0, 256, shape, numpy.uint8))


def array(chance, dtype, shape=None):
    if shape is None:
        shape = [chance.choice([1, 2, 3, 300]) if i == 0 else chance.randint(1, 3) for i in range(chance.randint(1, 5))]
    count = int(numpy.prod(shape))
    return numpy.frombuffer(chance.randbytes(count * numpy.dtype(dtype).itemsize), dtype).reshape(shape)


def value(chance, encoding):
    """A random value for an encoding."""
    if encoding == "bytes":
        return chance.randbytes(chance.choice([0, 1, 10, 1000]))
    if encoding == "str":
        return chance.choice(TEXTS) * chance.randint(0, 3)
    if encoding in SCALARS:
        letter = SCALARS[encoding][1]
        if letter in "efd":
            return struct.unpack(SCALARS[encoding], struct.pack(SCALARS[encoding], chance.uniform(-1000, 1000)))[0]
        bits = 8 * struct.calcsize(SCALARS[encoding])
        number = chance.getrandbits(bits)
        return number - (1 << (bits - 1)) if letter in "bhiq" else number
    if encoding == "str_int":
        return chance.getrandbits(64) - (1 << 63)
    if encoding == "str_float":
        return chance.uniform(-1e300, 1e300)
    if encoding == "str_decimal":
        return decimal.Decimal(chance.getrandbits(100)) / 1000
    if encoding == "json":
        return {"list": [1, 2.5, None, chance.choice(TEXTS)], "deep": {"b": True}}
    if encoding in PICTURES:
        return picture(chance)
    if encoding in LISTS:
        return [picture(chance) for _ in range(chance.randint(0, 3))]
    if encoding in ("jpeg_array", "jpegarray"):
        return [mds_encode("jpeg", picture(chance)) for _ in range(chance.randint(1, 3))]
    kind = encoding.split(":")
    if len(kind) == 3:
        return array(chance, kind[1], [int(size) for size in kind[2].split(",")])
    return array(chance, kind[1] if len(kind) == 2 else "int16")  # Shardkit reads one dtype in a column


def tiff(image):
    """The file that Shardkit makes of pixels (format-spec/interop.md), of mode RGB."""
    width, height = image.size
    tags = [(256, 4, width), (257, 4, height), (258, 3, None), (259, 3, 1), (262, 3, 2), (273, 4, None), (277, 3, 3), (278, 4, height),
            (279, 4, 3 * width * height)]
    behind = 8 + 2 + 12 * len(tags) + 4
    file = struct.pack("<2sHIH", b"II", 42, 8, len(tags))
    for tag, kind, number in tags:
        file += struct.pack("<HHII", tag, kind, 3 if tag == 258 else 1, {258: behind, 273: behind + 8}.get(tag, number))
    return file + bytes(4) + struct.pack("<4H", 8, 8, 8, 0) + image.tobytes()


def listed(files):
    return struct.pack(f"<{2 + len(files)}I", 0, len(files), *map(len, files)) + b"".join(files)


def stored(encoding, item):
    """The bytes that Shardkit must read for the value, made without Shardkit."""
    if encoding in SCALARS:
        return struct.pack(SCALARS[encoding], item)
    if encoding == "str_int":
        return struct.pack("<q", item)
    if encoding == "str_float":
        return struct.pack("<d", item)
    if encoding == "pil":
        return tiff(item)
    if encoding == "list[pil]":
        return listed([tiff(each) for each in item])
    if encoding.startswith("ndarray"):
        data = item.tobytes()
        if encoding.count(":") == 2:
            return data
        return struct.pack(f"<{1 + item.ndim}Q", item.ndim, *item.shape) + data + bytes(-len(data) % 8)
    if encoding in ("bytes",):
        return item
    if encoding in ("str", "str_decimal"):
        return str(item).encode()
    return mds_encode(encoding, item)


def decoded(encoding, data):
    """The object that a value is, as Shardkit reads it; None for arrays with their shape."""
    if encoding in ("str_int", "str_float"):
        return struct.unpack("<q" if encoding == "str_int" else "<d", data)[0]
    if encoding == "pil":
        return Image.open(io.BytesIO(data))
    if encoding == "list[pil]":
        return mds_decode("list[png]", data)
    if encoding.startswith("ndarray") and encoding.count(":") < 2:
        return None
    return mds_decode(encoding, data)


def same(one, other):
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Image.Image) or isinstance(one, numpy.ndarray):
        return numpy.array_equal(numpy.asarray(one), numpy.asarray(other)) or numpy.asarray(one).tobytes() == numpy.asarray(other).tobytes()
    return one == other


def encodings(chance):
    names = sorted(get_mds_encodings() - {"pkl"})
    names += [f"ndarray:{dtype}" for dtype in ELEMENTS]
    names += [f"ndarray:{dtype}:{chance.randint(1, 4)},{chance.randint(1, 4)}" for dtype in ELEMENTS]
    return names


def random_columns(chance, names=("z", "a", "\u00fc", "with space", "x.y"), most=8):
    """Random columns for MDSWriter."""
    chosen = chance.sample(encodings(chance), chance.randint(1, most))
    return {chance.choice(names) + str(i): encoding for i, encoding in enumerate(chosen)}


def random_samples(chance, columns, count):
    return [{name: value(chance, encoding) for name, encoding in columns.items()} for _ in range(count)]


def write(path, columns, samples, **options):
    with MDSWriter(out=path, columns=columns, **options) as writer:
        for sample in samples:
            writer.write(sample)
    return path


def expected_hashes(columns, samples):
    """The expected output of `shardctl ls --values-xxh3`."""
    return [{name: xxhash.xxh3_64_hexdigest(stored(encoding, sample[name])) for name, encoding in columns.items()}
            for sample in samples]


def seeded(seed):
    return random.Random(seed)
