#!/usr/bin/python3
"""Makes the golden files beside it: make_golden.py [DIRECTORY | --table]. Deterministic; README.md describes the files.

Twins come from the values written here, never from a reader.
"""
import itertools
import json
import os
import struct
import sys
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import changed_datasets  # noqa: E402
import make_invalid  # noqa: E402
import make_invalid_dataset  # noqa: E402
from writer import (CODECS, CREATE, Array, Col, Masks, build, frame, handmade_frame, manifest, manifest_text, segment, segment_file,  # noqa: E402
                    shard_row, twin)

NAN, INF = float("nan"), float("inf")
TRAINED = make_invalid.TRAINED
F16_MAX, F32_MAX, F64_MAX = 65504.0, (2 - 2**-23) * 2.0**127, 1.7976931348623157e308
BF16_MAX = (2 - 2**-7) * 2.0**127


def noise(count, seed=1):
    """Bytes of a linear congruential generator."""
    out, state = bytearray(), seed
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(state >> 56)
    return bytes(out)


# One gray pixel each.
GRAY_JPEG = bytes.fromhex(
    "ffd8ffe000104a46494600010100000100010000ffdb00430050373c463c32504641465a55505f78c882786e6e78f5afb991c8" + "ff" * 51 +
    "ffc0000b080001000101011100ffc40014000100000000000000000000000000000000ffc40014100100000000000000000000000000000000"
    "ffda0008010100003f003fffd9")
GRAY_PNG = b"\x89PNG\r\n\x1a\n" + b"".join(
    struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    for kind, data in ((b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(b"\0\x80", 0)), (b"IEND", b"")))
SQUARE = (3, 4, [4, 2, 1, 2, 3])
FULL = (3, 4, [0, 12])
SQUARE_JPEG = GRAY_JPEG.replace(b"\x08\0\1\0\1", b"\x08\0\3\0\4")  # of the size of these masks
LONG = (200, 300, [100, 300, 57, 301, 59200, 42])


def with_encoding(encoding, compress):
    return lambda raw: (encoding, compress(raw))


def one_sample():
    return build([Col("key", "utf8", "zstd", key=True), Col("data", "bytes")],
                 [dict(key="a/b", data=b"Hello, shard!")])


def every_type():
    columns = [Col("key", "utf8", "zstd", key=True), Col("bytes", "bytes"), Col("utf8", "utf8"), Col("json", "json"),
               Col("jpeg", "jpeg"), Col("png", "png")]
    numbers = ["i64", "u16", "f16", "bf16", "f32"]  # all of them: scalar_extremes
    columns += [Col(name, name) for name in [*numbers, "bool"]]
    columns += [Col("image", "ndarray", dtype="u8", shape=[2, 1, 3]), Col("boxes", "ndarray", dtype="f32"),
                Col("flags", "ndarray", "zstd", dtype="bool"), Col("masks", "rle"), Col("small_masks", "rle", "zstd")]
    samples = []
    for i in range(2):
        samples.append(dict(key=f"sample-{i}", bytes=bytes(range(i, i + 5)), utf8="żółć 形" * i, json='{"a": [1, %d]}' % i,
                            jpeg=SQUARE_JPEG, png=GRAY_PNG, bool=i == 1, image=Array([2, 1, 3], list(range(i, i + 6))),
                            boxes=Array([i, 4], [0.5, 1.5, -2.0, 4.25][:4 * i]), flags=Array([3], [True, False, i == 1]),
                            masks=Masks([SQUARE, FULL][:i + 1], i), small_masks=Masks([SQUARE], 1 - i)))
        samples[i] |= {name: (i + 1) * (1 if name[0] == "u" else -1) * (1.5 if "f" in name else 1) for name in numbers}
    return build(columns, samples, metadata={"shardkit.version": "golden"})


def scalar_extremes():
    columns, rows = [], [{}, {}, {}, {}]
    for bits in (8, 16, 32, 64):
        columns += [Col(f"i{bits}", f"i{bits}"), Col(f"u{bits}", f"u{bits}", "zstd")]
        for i in range(4):
            rows[i][f"i{bits}"] = [-2**(bits - 1), 2**(bits - 1) - 1, 0, -1][i]
            rows[i][f"u{bits}"] = [0, 2**bits - 1, 1, 2**(bits - 1)][i]
    for name, largest, least in (("f16", F16_MAX, 2.0**-24), ("bf16", BF16_MAX, 2.0**-133),
                                 ("f32", F32_MAX, 2.0**-149), ("f64", F64_MAX, 5e-324)):
        columns.append(Col(name, name))
        for i in range(4):
            rows[i][name] = [-largest, largest, least, NAN][i]
    columns += [Col("infinite", "f32"), Col("nan", "f64"), Col("bool", "bool")]
    for i in range(4):
        rows[i] |= dict(infinite=[INF, -INF, 0.0, 1.0][i], nan=NAN, bool=i == 2)
    return build(columns, rows, [3, 1])


def nullable():
    columns = [Col("first", "i32", nullable=True), Col("last", "bytes", nullable=True), Col("all", "bytes", nullable=True),
               Col("all_text", "utf8", "zstd", nullable=True), Col("all_numbers", "f64", nullable=True),
               Col("even", "utf8", "zstd", nullable=True)]
    return build(columns, [dict(first=None if i == 0 else i, last=None if i == 65 else noise(i % 5, i),
                                even=None if i % 2 else str(i)) for i in range(66)], [65, 1])


def empty_values():
    columns = [Col("blob", "bytes", nullable=True), Col("text", "utf8", "zstd", nullable=True), Col("must", "bytes")]
    rows = [(b"", "", b""), (None, None, b""), (b"x", "x", b"x"), (b"", "", b"")]
    return build(columns, [dict(zip(("blob", "text", "must"), row)) for row in rows])


def zstd():
    names = ("compressed", "raw", "handmade")
    columns = [Col("compressed", "utf8", "zstd"), Col("raw", "bytes", "zstd"), Col("handmade", "u8", "zstd")]
    samples = [dict(compressed="all work and no play " * (i + 3), raw=noise(20, i), handmade=7) for i in range(12)]
    return build(columns, samples, [9, 3], encoders=dict(zip(names, (
        with_encoding(1, frame), with_encoding(0, bytes), with_encoding(1, handmade_frame)))))


def dictionary():
    text = b'{"label": "cat", "score": 0.5, "source": "camera"}' * 2
    columns = [Col("plain", "bytes"), Col("a", "json", "zstd"), Col("b", "utf8", "zstd")]
    samples = [dict(plain=b"-", a='{"label": "cat", "score": 0.%d, "source": "camera"}' % i, b="camera") for i in range(6)]
    return build(columns, samples, [4, 2], dictionaries=dict(a=text, b=b"camera"),
                 encoders=dict(a=with_encoding(2, lambda raw: frame(raw, 19, text))))


def frames():
    """Each form of a frame that is allowed, in a column of its own."""
    forms = dict(window=dict(window=17 << 3), small_window=dict(window=0), id_zero=dict(window=0, dictionary_id=0),
                 checksum=dict(checksum=0))
    encoders = {name: with_encoding(1, lambda raw, form=form: handmade_frame(raw, **form)) for name, form in forms.items()}
    # A raw block of one byte, an empty one, and a run-length block with the rest; then 1 byte for the size.
    encoders["blocks"] = with_encoding(1, lambda raw: handmade_frame(b"")[:4] + bytes([0x20, len(raw), 1 << 3, 0, 0]) + raw[:1] +
                                       bytes([0, 0, 0, 1 | 1 << 1 | len(raw) - 1 << 3, 0, 0]) + raw[1:2])
    return build([Col(name, "u8", "zstd") for name in encoders],
                 [{name: 1 + (i > 0 or name == "checksum") for name in encoders} for i in range(9)], encoders=encoders)


def trained_dictionary():
    """A dictionary in Zstandard's own format: frames that name it, that name none, and one that does not use it."""
    values = ['{"label": "cat", "score": 0.%d, "source": "camera"}' % i for i in range(4)]
    encoders = dict(named=with_encoding(2, lambda raw: frame(raw, 19, TRAINED)), unnamed=with_encoding(2, handmade_frame),
                    by_hand=with_encoding(2, lambda raw: handmade_frame(raw, dictionary_id=7)), unused=with_encoding(1, handmade_frame))
    return build([Col(name, "json", "zstd") for name in encoders], [dict.fromkeys(encoders, value) for value in values], [3, 1],
                 dictionaries=dict.fromkeys(encoders, TRAINED), encoders=encoders)


def json_texts():
    """What the grammar of RFC 8259 allows and parsers often refuse."""
    values = ["1e999", "-0", "1" * 40, "0." + "3" * 50 + "e-999", r'"\ud800"', r'["\udc00\ud83d\ude00"]', r'"\u0000\/"', '"\x7f\u2028"',
              '{"a": 1, "a": [], "": {}}', " \t\r\n[ null ,true, false ]\n", "[" * 1024 + "]" * 1024, '{"a":[' * 512 + "0" + "]}" * 512]
    return build([Col("json", "json"), Col("small", "json", "zstd")], [dict(json=value, small=value if len(value) < 1000 else "0") for value in values], [6, 6])


def many_blocks():
    columns = [Col("Schlüssel", "utf8", "zstd", key=True), Col("画像", "bytes"), Col("note", "utf8", nullable=True),
               Col("number", "i16")]
    samples = [{"Schlüssel": f"größe/{i:02}", "画像": noise(i * 7 % 50, i + 1), "number": i * 100 - 900,
                "note": None if i % 3 else "ok" * i} for i in range(23)]
    return build(columns, samples, [1, 3, 8, 9, 2], metadata={"autor": "niemand", "Überschrift": "größer", "empty": ""})


def aligned_4096():
    columns = [Col("key", "utf8", "zstd", key=True), Col("large", "bytes"), Col("numbers", "ndarray", dtype="u16")]
    samples = [dict(key=f"{i}", large=noise(600 * i, i), numbers=Array([300 * i], list(range(300 * i)))) for i in range(3)]
    return build(columns, samples, [2, 1], alignment=4096)


def ndarrays():
    columns = [Col("any", "ndarray", dtype="i16", nullable=True), Col("any_zstd", "ndarray", "zstd", dtype="f16"),
               Col("scalar", "ndarray", dtype="i32", shape=[]), Col("zero", "ndarray", dtype="f64", shape=[4, 0, 2]),
               Col("deep", "ndarray", dtype="u8", shape=[1, 2, 1, 1, 1, 1, 1, 2])]
    shapes = [([], [5]), ([0], []), ([3], [-1, 0, 1]), ([2, 0, 3], []), ([1, 1, 1, 1, 1, 1, 1, 1], [9]), ([2, 2], [1, 2, 3, 4])]
    return build(columns, [dict(any=None if i == 2 else Array(shape, flat), any_zstd=Array(shape, [v / 2 for v in flat]),
                                scalar=Array([], [i - 3]), zero=Array([4, 0, 2], []),
                                deep=Array([1, 2, 1, 1, 1, 1, 1, 2], [i, 1, 2, 3])) for i, (shape, flat) in enumerate(shapes)])


def zero_bytes():
    """A column without bytes: its chunks are raw, though its codec is zstd."""
    return build([Col("zero", "ndarray", "zstd", dtype="f32", shape=[0])], [dict(zero=Array([0], []))] * 3, [2, 1])


def rle():
    columns = [Col("plain", "rle"), Col("edge", "rle", "zstd")]
    empty, full, none = (5, 5, [25]), (5, 5, [0, 25]), (0, 7, [])
    # The largest masks, with differences of 33 bits, one positive and one negative.
    flat, tall = (1, 4294967295, [1, 4294967293, 1]), (4294967295, 1, [0, 0, 0, 4294967295])
    lists = [[], [empty], [full, none, SQUARE], [LONG, flat, tall], [(4, 4, [0, 1, 0, 15])], [(300, 300, [1, 2, 70000, 3, 128, 19866])]]
    return build(columns, [dict(plain=Masks(masks, 0), edge=Masks(masks, 1)) for masks in lists], [4, 2])


def image():
    """Whole files of the formats that the project's reader decodes, and how those of the others begin."""
    tail = bytes(range(60))
    brands = [b"mif1"] * 11
    values = [GRAY_JPEG, GRAY_PNG, b"RIFF\x04\0\0\0WEBP", b"GIF87a", b"GIF89a" + tail, b"BM", b"II*\0", b"MM\0*" + tail, b"II+\0",
              b"MM\0+", b"\xff\n", b"\0\0\0\x0cJXL \r\n\x87\n" + tail, b"\0\0\0\x0cftypavif", b"\0\0\0\x14ftypmif1\0\0\0\0avis",
              b"\0\0\0\x40ftypheic\0\0\0\0" + b"".join(brands) + b"avif", None]
    return build([Col("key", "utf8", "zstd", key=True), Col("image", "image", nullable=True), Col("small", "image", "zstd")],
                 [dict(key=f"{i:02}", image=value, small=GRAY_PNG) for i, value in enumerate(values)], [9, 7])


def numbers():
    """The scalars that the other files do not have, each with what is special of it."""
    eights = dict(f8e4m3=[448.0, -448.0, 2.0**-9, -0.0, NAN, 0.1015625], f8e5m2=[57344.0, -INF, 2.0**-16, INF, NAN, -0.0])
    pairs = dict(complex64=[1.5 - 2j, complex(0.0, -0.0), complex(INF, NAN)], complex128=[complex(5e-324, -F64_MAX), 1j, complex(NAN, 1)])
    times = {f"timestamp_{unit}": [-2**63, 2**63 - 1, 0, 1_700_000_000] for unit in ("s", "ms", "us", "ns")}
    values = eights | pairs | times
    columns = [Col(name, name, "zstd" if name in times else "none", nullable=name in pairs) for name in values]
    columns += [Col("matrix", "ndarray", dtype="complex64", shape=[1, 2]), Col("scales", "ndarray", "zstd", dtype="f8e4m3"),
                Col("days", "ndarray", dtype="timestamp_s", shape=[2])]
    rows = [{name: items[i] if i < len(items) else None if name in pairs else items[0] for name, items in values.items()}
            for i in range(6)]
    for i, row in enumerate(rows):
        row |= dict(matrix=Array([1, 2], [complex(i, -i), 0.5j]), scales=Array([i], [0.5 * k for k in range(i)]), days=Array([2], [-i, i]))
    return build(columns, rows, [4, 2])


def unknown_type(**options):
    """Types and dtypes of a later version, of each storage; the block ranges of that version cannot be understood."""
    columns = [Col("key", "utf8", "zstd", key=True), Col("fixed", 77, "zstd", dtype=0, shape=[], value_size=3, nullable=True),
               Col("inline", 4000, "zstd", dtype=9, shape=[2, 1 << 50], metadata={"media_type": "model/gltf-binary"}), Col("blob", 0xF000, dtype=0),
               Col("nothing", 7, dtype=0, shape=[0], value_size=0), Col("elements", "ndarray", dtype=300, shape=[2], value_size=1),
               Col("arrays", "ndarray", dtype=300, nullable=True), Col("label", "i32")]
    samples = [dict(key=f"k{i}", fixed=None if i == 1 else noise(3, i), inline=noise(i, i), blob=noise(2 * i, i), nothing=b"",
                    elements=noise(1, i), arrays=noise(i, 9) if i else None, label=i - 1) for i in range(3)]
    return build(columns, samples, [2, 1], extra_sections=[(6, 1, b"ranges of a type from the future")], **options)


def unknown_codec(**options):
    """Codecs of a later version, of each storage: their chunks say nothing, and all else can be read."""
    columns = [Col("key", "utf8", "zstd", key=True), Col("inline", "bytes", 2, storage="inline", nullable=True),
               Col("data", "bytes"), Col("fixed", "i64", 200), Col("blob", "jpeg", 3, storage="blob"), Col("both", 77, 3, dtype=0, value_size=4),
               Col("paged", "bytes", 3, storage="paged"), Col("behind", "bytes")]
    samples = [dict(key=f"k{i}", inline=None if i == 2 else noise(i, i), data=noise(5, i), fixed=i, blob=GRAY_JPEG, both=noise(4, i), paged=noise(i, 7),
                    behind=noise(3, i))
               for i in range(3)]
    opaque = with_encoding(7, lambda raw: b"compressed by means from the future"[:len(raw)])
    return build(columns, samples, [2, 1], encoders=dict(inline=opaque, fixed=opaque, blob=opaque, paged=opaque), **options)


def unknown_codec_of_key():
    """A key column whose codec is of a later version: what the key index says of the keys cannot be compared."""
    return build([Col("key", "utf8", 9, storage="inline", key=True), Col("data", "bytes")], [dict(key=f"k{i}", data=noise(5, i)) for i in range(3)],
                 [2, 1], encoders=dict(key=with_encoding(7, lambda raw: b"compressed by means from the future"[:len(raw)])))


def unknown_statistics():
    """Ranges of a later version: of columns whose type or codec they do not know readers look at the histogram alone."""
    columns = [Col("type", 77, dtype=0), Col("codec", "bytes", 9, storage="blob")]
    ranges = [struct.pack("<2Q", 7, 9), struct.pack("<2Q", 1, 0)]  # as u64, and of no kind
    built = build(columns, [dict(type=b"a", codec=b"b")], hook=lambda name, data: data[:40] + struct.pack("<Q", 2) + ranges[0] + data[64:120] +
                  ranges[1] + data[136:] if name == "section 2" else data)
    built.twin["statistics"]["type"] |= dict(minimum=7, maximum=9)
    return built


def column_metadata():
    columns = [Col("key", "utf8", "zstd", key=True, metadata={"description": "Name of the file,\nwith its folder", "": ""}),
               Col("label", "u8", metadata={"class_names": '["Katze", "\\u0048und", "Öwe"]', "unit": "1"}),
               Col("image", "bytes", metadata={"media_type": "image/webp", "größe": "µm", "shardkit.note": "ours"})]
    return build(columns, [dict(key=f"k{i}", label=i % 3, image=noise(i, i)) for i in range(4)], metadata={"a": "1"})


def key_pages():
    """A key that more samples have than one page of the key index has room for, among others."""
    return build([Col("key", "utf8", "zstd", key=True)], [dict(key="" if i % 500 else f"{i}") for i in range(4110)],
                 encoders=dict(key=with_encoding(1, frame)))


def simple(**options):
    columns = [Col("key", "utf8", "zstd", key=True), Col("data", "bytes")]
    return build(columns, [dict(key=f"k{i}", data=noise(i, i)) for i in range(3)], [2, 1], **options)


def block_ranges(**options):
    """Blocks whose ranges lie apart, overlap, are of absent values or of NaN alone, and are of zeros with a sign."""
    columns = [Col("time", "i64"), Col("text", "utf8", "zstd"), Col("score", "f32", "zstd", nullable=True), Col("count", "u16", nullable=True),
               Col("vector", "ndarray", dtype="f64", shape=[2]), Col("seen", "bool")]
    scores = [0.5, -2.5, 0.0, -0.0, NAN, NAN, None, INF, -INF, NAN, 1.5]
    return build(columns, [dict(time=1000 * i - 3000, text=f"{i}", score=score, count=None if i < 6 else 9 * i,
                                vector=Array([2], [i + 0.5, i - 0.5]), seen=i % 4 == 1)
                           for i, score in enumerate(scores)], [2, 2, 3, 3, 1], **options)


def paged():
    """Pages: of many values, one that a single value fills, behind which one byte more does not fit, and one of absent values."""
    columns = [Col("key", "utf8", storage="paged", key=True), Col("small", "bytes", storage="paged"),
               Col("note", "utf8", nullable=True, storage="paged"), Col("data", "bytes", nullable=True, storage="paged"),
               Col("blob", "bytes")]
    large = {6: b"full" * ((65536 - 8 - 2) // 4) + b"up", 7: b"!"}
    return build(columns, [dict(key=f"{i:03}", small=noise(i % 7, i), note=None if i % 3 else "ok" * (i % 5), blob=noise(3, i),
                                data=large.get(i, b"x" * (i % 4)) if i < 9 else None) for i in range(40)], [3, 9, 28])


VALID = {
    "empty": lambda: build([Col("key", "utf8", key=True), Col("x", "i32")], [], []),
    "one-sample": one_sample, "every-type": every_type, "scalar-extremes": scalar_extremes, "nullable": nullable,
    "empty-values": empty_values, "zstd": zstd, "dictionary": dictionary, "many-blocks": many_blocks,
    "aligned-4096": aligned_4096, "ndarray": ndarrays, "rle": rle, "zero-bytes": zero_bytes, "image": image,
    "frames": frames, "trained-dictionary": trained_dictionary, "json": json_texts,
    "no-key": lambda: build([Col("x", "bool")], [dict(x=i == 1) for i in range(9)]),
    "signed-zeros": lambda: build([Col("x", "f32")], [dict(x=x) for x in (0.0, -0.0, 0.0)]),
    "duplicate-keys": lambda: build([Col("key", "utf8", key=True)], [dict(key=key) for key in "abab"]),
    "key-pages": key_pages,
    "unused-flag": lambda: simple(compatible=1 << 9),
    "ignorable-section": lambda: simple(extra_sections=[(77, 1, b"from the future")]),
    "minor-7": lambda: simple(minor=7),
    "without-block-headers": lambda: simple(without=(5,)),
    "without-block-ranges": lambda: block_ranges(without=(6,)),
    "without-header-copy": lambda: simple(without=(7,)),
    "only-needed-sections": lambda: block_ranges(without=(5, 6, 7)),
    "block-ranges": block_ranges, "paged": paged,
    "key-index-minor-7": lambda: build([Col("key", "utf8", key=True)], [dict(key="a")],
                                       hook=lambda name, data: data[:6] + b"\7" + data[7:] if name == "table tail" else data),
    "unknown-statistics": unknown_statistics,
    "numbers": numbers, "unknown-type": unknown_type, "unknown-codec": unknown_codec, "unknown-codec-of-key": unknown_codec_of_key, "column-metadata": column_metadata,
}


# Two shards: the second lacks columns, has narrower types, and blob columns without a value, beside columns whose
# values end exactly at a multiple of 64, so that values chunks without bytes begin where others do.
DATASET_COLUMNS = [Col("key", "utf8", "zstd", key=True), Col("image", "bytes", nullable=True),
                   Col("text", "utf8", nullable=True), Col("label", "i32", nullable=True), Col("extra", "bytes", nullable=True)]


def dataset_samples():
    first = [dict(key=f"first/{i}", image=noise(10 * i, i), text=None if i == 1 else f"text {i}", label=i) for i in range(5)]
    second = [dict(key="second/0", image=GRAY_JPEG, text='{"a": 1}'), dict(key="second/1", image=GRAY_JPEG + bytes(-(len(GRAY_JPEG) + 8) % 64)),
              dict(key="second/2", text='[' + '1, ' * 17 + '100]')]
    return first, second


def dataset_two():
    first, second = dataset_samples()
    key = Col("key", "utf8", "zstd", key=True)
    a = build([key, *DATASET_COLUMNS[1:4], DATASET_COLUMNS[4]], first, [2, 3], metadata={"part": "1"})
    b = build([key, Col("text", "json", nullable=True), Col("image", "jpeg", nullable=True)], second, [1, 1, 1],
              alignment=256)
    return DATASET_COLUMNS, {"note": "żółć", "source": "golden"}, [("a.shard", a), ("part/b.shard", b)], first + second


def dataset_images():
    """A shard for each type of images: together they are of type image."""
    columns = [Col("key", "utf8", "zstd", key=True), Col("image", "image")]
    files = dict(jpeg=[GRAY_JPEG, GRAY_JPEG + b"after the end"], png=[GRAY_PNG], image=[b"GIF89a", GRAY_PNG, GRAY_JPEG])
    samples = {name: [dict(key=f"{name}/{i}", image=value) for i, value in enumerate(values)] for name, values in files.items()}
    shards = [(f"{name}.shard", build([columns[0], Col("image", name)], samples[name], [len(values)]))
              for name, values in files.items()]
    return columns, {}, shards, [sample for part in samples.values() for sample in part]


def dataset_tiny():
    """The one of bytes.md."""
    columns = [Col("key", "utf8", "zstd", key=True), Col("data", "bytes")]
    first, second = [dict(key="a", data=b"one"), dict(key="b", data=b"two")], [dict(key="c", data=b"three")]
    return columns, {}, [("0.shard", build(columns, first, [2])), ("1.shard", build(columns, second, [1]))], first + second


def dataset_storages():
    """A column that one shard has in pages, one as blobs, and one not at all."""
    columns = [Col("key", "utf8", "zstd", key=True), Col("data", "bytes", nullable=True)]
    paged = [columns[0], Col("data", "bytes", nullable=True, storage="paged")]
    samples = [dict(key=f"k{i}", data=None if i % 3 == 2 else noise(30, i)) for i in range(9)]
    del samples[8]["data"]
    shards = [("0.shard", build(paged, samples[:4], [1, 3])), ("1.shard", build(columns, samples[4:7])),
              ("2.shard", build(columns[:1], [dict(key="k7"), dict(key="k8")]))]
    del samples[7]["data"]
    return columns, {}, shards, samples


def dataset_empty():
    return DATASET_COLUMNS, {}, [], []


def dataset_column_metadata():
    """The dataset's columns keep the metadata in which all shards that have them agree. A type has no name."""
    def columns(label, extra):
        return [Col("key", "utf8", "zstd", key=True, metadata={"description": "same"}),
                Col("label", "i32", metadata={"class_names": '["a", "b"]'} | label), Col("scan", 77, dtype=0, value_size=2), *extra]
    only = Col("only", "bytes", nullable=True, metadata={"unit": "m"})
    parts = [columns({"unit": "1"}, []), columns({"unit": "2"}, [only]), columns({}, [only])]
    samples = [[dict(key=f"{k}", label=k % 2, scan=noise(2, k)) | ({} if k == 0 else dict(only=noise(k, k)))] for k in range(3)]
    shards = [(f"{k}.shard", build(parts[k], samples[k])) for k in range(3)]
    return columns({}, [only]), {}, shards, [sample for part in samples for sample in part]


def dataset_small():
    columns = [Col("key", "utf8", "zstd", key=True), Col("data", "bytes")]
    samples = [dict(key=f"k{i}", data=noise(9 * i, i)) for i in range(3)]
    return columns, {"note": "small"}, [("a.shard", build(columns, samples[:2])), ("part/b.shard", build(columns, samples[2:]))], samples


def dataset_unknown():
    """Types, dtypes and codecs of later versions, in blob columns of which the index has the places of those that are not encoded."""
    columns = [Col("key", "utf8", "zstd", key=True), Col("scan", 77, dtype=0), Col("mesh", 2000, "zstd", dtype=9, shape=[2, 3]),
               Col("grid", "ndarray", dtype=300, shape=[2], value_size=4), Col("video", "bytes", 9, storage="blob"), Col("data", "bytes"),
               Col("text", "utf8", 200, storage="inline", nullable=True), Col("pose", 0xF001, 201, dtype="f32", value_size=2)]
    samples = [dict(key=f"k{i}", scan=noise(5 + i, i), mesh=noise(i, i), grid=noise(4, i), video=noise(9 * i, i), data=noise(7, i), text=None,
                    pose=noise(2, i)) for i in range(2)]
    return columns, {}, [("0.shard", build(columns, samples))], samples


# What a later version says of the numbers of these columns, beside numbers of which it says nothing. Only the numbers count.
LATER_NAMES = {"mesh": dict(type="mesh", dtype="u4"), "grid": dict(dtype="f32"), "video": dict(codec="zstd"),
               "pose": dict(type="utf8", codec="brotli")}


def with_names(row):
    """A column's row in the manifest, with the names that a later version gives."""
    names, out = LATER_NAMES.get(row["name"], {}), {}
    for key, value in row.items():
        name = names.get(key.removesuffix("_number")) if key.endswith("_number") else None
        out |= {key: value} if name is None else {key.removesuffix("_number"): name, key: value}
    return out


def other_order(columns, metadata, shards):
    """The manifest with its keys in another order, and with keys that are not known yet."""
    def turned(row):
        return dict(reversed(row.items())) | {"later": {"a": [1, {"b": None}], "c": 1.5}}
    segments = [turned(row | dict(table=turned(row["table"]))) for row in [segment(shards)]]
    fields = dict(later={"shards": [], "format": "another"}, shards=[turned(shard_row(name, built)) for name, built in shards],
                  segments=segments, operation=turned(CREATE), generation=1, metadata=metadata,
                  columns=[turned(col.describe()) for col in columns], samples=3, blocks=2,
                  bytes=sum(len(built.data) for _, built in shards), features=[], version=1, format="shardkit-dataset")
    return manifest_text(fields.items())


# After a merge, some shards may have a sha256 and others not.
HASHED = {"sha256": ("a.shard",), "shard-list": ("a.shard",)}
DATASETS = {"two-shards": dataset_two, "no-shards": dataset_empty, "images": dataset_images, "sha256": dataset_small,
            "other-order": dataset_small, "tiny": dataset_tiny, "column-metadata-dataset": dataset_column_metadata,
            "storages": dataset_storages, "segments": dataset_small, "segment-without-keys": dataset_small, "shard-list": dataset_small,
            "unknown-numbers": dataset_unknown}
# Segment files, with the number of their shards; others have one segment.
SEGMENTS = {"no-shards": {}} | dict.fromkeys(("segments", "segment-without-keys"), {"dataset.segment": 1, "dataset-2.segment": 1})
APPENDED = dict(generation=2, operation=dict(name="append", arguments=dict(shards=["1"], samples=["1"])))
CHANGES = {"shard-list": dict(shards=None), "segments": APPENDED, "segment-without-keys": APPENDED}


def dataset_segments(name, shards):
    """The rows of the manifest, and the files."""
    rows, files, first = [], {}, 0
    for path, count in SEGMENTS.get(name, {"dataset.segment": len(shards)}).items():
        part = shards[first:first + count]
        files[path] = segment_file(part, HASHED.get(name, ()), keyed=(name, first) != ("segment-without-keys", 1))
        rows.append(segment(part, path, files[path]))
        first += count
    return rows, files


def dataset_files(name, columns, metadata, shards):
    rows, files = dataset_segments(name, shards)
    changes = CHANGES.get(name, {})
    if name == "unknown-numbers":
        changes = dict(columns=[with_names(col.describe()) for col in columns])
    made = other_order(columns, metadata, shards) if name == "other-order" else manifest(
        columns, metadata, shards, hashed=HASHED.get(name, ()), segments=rows, **changes)
    return {path: built.data for path, built in shards} | {"dataset.json": made} | files


def dataset_twin(name, columns, metadata, shards, samples):
    return {
        "format": "shardkit-dataset", "version": 1, "sample_count": len(samples),
        "bytes": sum(len(built.data) for _, built in shards), "blocks": sum(len(built.entries) for _, built in shards),
        "columns": [col.describe() for col in columns], "metadata": metadata, "generation": CHANGES.get(name, {}).get("generation", 1),
        "segments": [row | dict(table=row["table"]["name"]) for row in dataset_segments(name, shards)[0]],
        "shards": [dict(sha256=None) | shard_row(path, built, path in HASHED.get(name, ())) for path, built in shards],
        "samples": [{col.name: twin(col, sample.get(col.name)) for col in columns if col.codec in CODECS} for sample in samples],
    }


def dataset_manifest(name):
    return dataset_files(name, *DATASETS[name]()[:3])["dataset.json"]


CHANGED = changed_datasets.VALID | {
    "bases": lambda: changed_datasets.bases(dataset_manifest("segments"), *dataset_small()[2:]),
    "bases-columns": lambda: changed_datasets.bases_columns(dataset_manifest("tiny"), dataset_tiny()[2]),
}


def dump(value):
    """JSON, a line for each key and each item of a list or object under it."""
    rows = []
    for key, item in value.items():
        text = json.dumps(item, ensure_ascii=False)
        if isinstance(item, list) and len(text) > 100:
            text = "[\n  " + ",\n  ".join(json.dumps(part, ensure_ascii=False) for part in item) + "\n ]"
        elif isinstance(item, dict) and len(text) > 100:
            text = "{\n  " + ",\n  ".join(f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(part, ensure_ascii=False)}"
                                         for name, part in item.items()) + "\n }"
        rows.append(f" {json.dumps(key)}: {text}")
    return ("{\n" + ",\n".join(rows) + "\n}\n").encode()


def counted(samples):
    """The samples of a twin, where a number stands for so many more that are like the one before."""
    out = []
    for _, like in itertools.groupby(samples, repr):  # -0.0 is equal to 0.0, but not like it
        run = list(like)
        out += [run[0], len(run) - 1] if len(run) > 100 else run
    return out


def all_files():
    """{path: bytes} of everything."""
    out = {}
    for name, make in VALID.items():
        built = make()
        out[f"valid/{name}.shard"] = built.data
        out[f"valid/{name}.json"] = dump(built.twin | dict(samples=counted(built.twin["samples"])))
    for name, make in DATASETS.items():
        columns, metadata, shards, samples = make()
        out |= {f"valid/{name}/{path}": data for path, data in dataset_files(name, columns, metadata, shards).items()}
        out[f"valid/{name}.json"] = dump(dataset_twin(name, columns, metadata, shards, samples))
    for name, make in CHANGED.items():
        whole = make()
        out |= {f"valid/{name}/{path}": data for path, data in whole.files.items()}
        out[f"valid/{name}.json"] = dump(whole.twin())
    for name, (files, error) in make_invalid_dataset.all_invalid().items():
        for path, data in files.items():
            out[f"invalid/{name}{path}"] = data
        out[f"invalid/{name}.error.json"] = dump(error)
    return out


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    if sys.argv[1:] == ["--table"]:  # for README.md
        print(make_invalid_dataset.table(), end="")
        return
    for path, data in all_files().items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
