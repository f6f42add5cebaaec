"""The invalid golden files: each has one defect and right checksums everywhere else. See make_golden.py."""
import struct

from writer import (Array, Col, build, handmade_frame, key_table, xxh3)

COLUMNS = [Col("key", "utf8", "zstd", key=True), Col("data", "bytes", nullable=True)]
VALUES = [b"zero", b"one", None, b"three", b""]
SAMPLES = [dict(key=f"k{i}", data=value) for i, value in enumerate(VALUES)]
OPEN, READ, VALIDATE, DEEP = "open", "read", "validate", "deep"
NAN = float("nan")
LOST, NEWER, ABSENT, REFUSED = "DataLoss", "Unimplemented", "NotFound", "PermissionDenied"
LEAN = (5, 7)  # kinds of sections that most of these shards go without, so that all together are small
WHOLE = [dict(first_sample=0, sample_count=3), dict(first_sample=3, sample_count=2)]  # both blocks of the base shard

# A dictionary in Zstandard's own format with the ID 7: entropy tables that a version of the library has trained, then
# content. MALFORMED has its magic and no tables.
TRAINED = bytes.fromhex(
    "37a430ec 07000000 1c10d84a92030cc3300c831f504c1c284f0638c98a8808ec8cecacb501b303000000922c7901000004800300c090110d00a6"
    "84861200c04715a28811000000000000000000000000000000f49365fb0200000000000000000000000000000100000004000000080000"
    "00") + b'{"label": "cat", "score": 0.5, "source": "camera"}'
MALFORMED = TRAINED[:8] + b"\xff" * 24


def base(hook=lambda name, data: data, columns=COLUMNS, samples=SAMPLES, blocks=(3, 2), footnote="2", without=LEAN, **options):
    return build(columns, samples, list(blocks) if len(samples) == 5 else None, hook=hook, metadata={"a": "1", "b": footnote},
                 without=without, **options)


def patch(data, offset, replacement):
    offset %= len(data)
    return data[:offset] + replacement + data[offset + len(replacement):]


def flipped(data, offset):
    return patch(data, offset, bytes([data[offset] ^ 16]))


def u16(value):
    return struct.pack("<H", value)


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def patched(piece, offset, replacement, **options):
    """The base shard with bytes of one piece replaced before its checksum is made."""
    return base(lambda name, data: patch(data, offset, replacement) if name == piece else data, **options)


def replaced(piece, change, **options):
    return base(lambda name, data: change(data) if name == piece else data, **options)


def swap_entries(table, size, i, j):
    parts = [table[k:k + size] for k in range(0, len(table), size)]
    parts[i], parts[j] = parts[j], parts[i]
    return b"".join(parts)


def error(found_by, contains, offset=None, kind=LOST, **more):
    return {"class": kind, "found_by": found_by, "contains": contains, "offset": offset} | more


def shards():
    """{name: (bytes, error)}."""
    out = {}

    def add(name, built, found_by, contains, at=None, kind=LOST, **more):
        data = built if isinstance(built, bytes) else built.data
        place = at if at is None or isinstance(at, int) else (good if isinstance(built, bytes) else built).at[at]
        out[name] = (data, error(found_by, contains, place, kind, **more))

    lean = dict(columns=COLUMNS[:1])  # options for a shard of one column
    lean_and_whole = lean | dict(without=())  # and for one with all sections
    good = base()
    data, at, size = good.data, good.at, len(good.data)

    def flip(name, offset, found_by, contains, place, **more):
        add(f"flip-{name}", flipped(data, offset), found_by, contains, place, **more)

    bare = dict(samples=[])
    none = base(**bare)
    # Header.
    add("magic", patch(none.data, 1, b"SHX"), OPEN, ["header", "magic"], "header")
    add("magic-text-mode", none.data.replace(b"\r\n", b"\n"), OPEN, ["header", "magic"], 0)
    add("flip-header", flipped(none.data, 16), OPEN, ["header checksum"], "header")
    add("flip-major", flipped(none.data, 9), OPEN, ["header checksum"], "header")
    add("flip-schema", flipped(none.data, 77), OPEN, ["header checksum"], "header")
    add("major-2", patched("header", 8, u16(2), **bare), OPEN, ["major version 2"], "header", NEWER)
    # Of two defects the earlier one of section 11.1 decides.
    add("major-2-short", reseal(none.data[:8] + u16(2) + u16(0) + u32(24) + bytes(8)), OPEN, ["major version 2"], 0, NEWER)
    add("major-2-and-more", patched("header", 8, u16(2) + u16(0) + none.data[12:16] + b"\xff" * 24, **bare), OPEN, ["major version 2"], 0,
        NEWER)
    add("header-length-24", reseal(none.data[:12] + u32(24) + bytes(8)), OPEN, ["header", "length 24"], 0)
    add("header-length-72", reseal(none.data[:12] + u32(72) + none.data[16:72]), OPEN, ["header", "length 72"], 0)
    add("incompatible-and-alignment", patched("header", 16, u32(96) + u32(1 << 7), **bare), OPEN, ["incompatible flag", "bit 7"], 0, NEWER)
    add("reserved-and-type", base(lambda n, d: patch(d, 36, u32(1)) if n == "header" else patch(d, 28, b"\5") if n == "schema" else d,
                                  **bare), OPEN, ["header", "reserved"], 0)
    add("reserved-and-specification", patched("header", 36, u32(1) + bytes(8) + b"s", **bare), OPEN, ["header", "reserved"], 0)
    add("specification-and-type", base(lambda n, d: patch(d, 48, b"s") if n == "header" else patch(d, 28, b"\5") if n == "schema" else d,
                                       **bare), OPEN, ["header", "specification"], 0)
    add("schema-name-and-type", patched("schema", 3, b"\xff" + none.data[76:95] + b"\x63", **bare), OPEN,
        ["schema", "utf-8"], 0)
    add("schema-flags-and-type", base(lambda n, d: patch(patch(d, 12, b"\x42"), 28, b"\5") if n == "schema" else d, **bare), OPEN,
        ["schema", "column 0", "reserved flag"], 0)
    add("incompatible-bit-7", patched("header", 20, u32(1 << 7), **bare), OPEN, ["incompatible flag", "bit 7"], "header", NEWER)
    add("alignment-96", patched("header", 16, u32(96), **bare), OPEN, ["alignment 96"], "header")
    add("alignment-32", patched("header", 16, u32(32), **bare), OPEN, ["alignment 32"], "header")
    add("header-reserved", patched("header", 36, u32(1), **bare), OPEN, ["header", "reserved"], "header")
    for name, at_, text in (("other", 48, b"Shardkit Shard"), ("of-minor-1", 65, b"1"), ("of-major-2", 63, b"2"), ("byte-after", 71, b"\1")):
        add(f"header-specification-{name}", patched("header", at_, text, **bare), OPEN, ["header", "specification"], "header")
    add("header-padding", patched("header", -1, b"\1", **bare), OPEN, ["header", "padding"], "header")
    add("dictionary-of-blob-column", replaced("header", lambda d: patch(d, 82, b"\0\3"), dictionaries=dict(key=b"k"), **bare),
        OPEN, ["dictionary", "column 0"], "header")
    # Schema.
    add("schema-duplicate-name", base(columns=[COLUMNS[0], COLUMNS[1], Col("data", "bytes", nullable=True)], samples=[]), OPEN,
        ["schema", "twice"], "header")
    add("schema-reserved-flags", patched("schema", 12, b"\x42", **bare), OPEN, ["schema", "column 0", "reserved flag"], "header")
    # Types and codecs of later versions are no defects, but the rules that hold for all of them are.
    later = dict(columns=[Col("x", 77, dtype=0, shape=[], value_size=4)], samples=[])
    for name, change, contains in (("rank-9", lambda d: patch(d, 11, b"\x09"), ["column 0"]), ("key", lambda d: patch(d, 10, b"\2"), ["key"]),
                                   ("value-size", lambda d: patch(d, 12, u64((1 << 40) + 1)), ["2^40"])):
        add(f"schema-unknown-type-{name}", replaced("schema", change, **later), OPEN, ["schema", *contains], "header")
    add("schema-unknown-dtype-inline", base(columns=[Col("x", "ndarray", dtype=300, shape=[2], value_size=2, storage="inline")], samples=[]), OPEN,
        ["schema", "storage"], "header")
    add("schema-dtype-0", base(columns=[Col("x", "ndarray", dtype=0, value_size=None)], samples=[]), OPEN, ["schema", "dtype"], "header")
    add("schema-dtype-no-scalar", base(columns=[Col("x", "ndarray", dtype="utf8", value_size=None)], samples=[]), OPEN,
        ["schema", "dtype"], "header")
    unknown = dict(columns=[Col("key", "utf8", "zstd", key=True), Col("v", "bytes", 9, storage="blob"), Col("w", "bytes", 9, storage="inline"),
                            Col("p", "bytes", 9, storage="paged")],
                   samples=[dict(key=f"k{i}", v=b"value", w=b"value", p=b"value") for i in range(5)])
    opaque = base(**unknown)
    add("unknown-codec-head", flipped(opaque.data, opaque.at["head 1 1"] + 3), VALIDATE, ["block 1", "column 1", "chunk checksum"],
        opaque.at["head 1 1"])
    add("unknown-codec-values", flipped(opaque.data, opaque.at["values 1 1"] + 3), VALIDATE,
        ["block 1", "column 1", "values chunk checksum"], opaque.at["values 1 1"])
    add("unknown-codec-pages", flipped(opaque.data, opaque.at["values 1 3"] + 3), VALIDATE,
        ["block 1", "column 3", "values chunk checksum"], opaque.at["values 1 3"])
    add("unknown-codec-padding", patched("chunk 1 2", -1, b"\1", **unknown), VALIDATE, ["block 1", "column 2", "padding"], "head 1 2")
    add("unknown-codec-raw-length", patched("entry 1 2", 16, u64((1 << 62) + 1), **unknown), READ, ["block 1", "column 2"], "block 1")
    add("unknown-codec-values-in-inline-column", patched("entry 1 2", 40, u64(8), **unknown), READ, ["block 1", "column 2", "values chunk"],
        "block 1")
    for name, text in (("object", '{"0": "cat"}'), ("numbers", "[1, 2]"), ("no-json", '["cat"')):
        add(f"class-names-{name}", base(columns=[Col("x", "u8", metadata={"class_names": text})], samples=[dict(x=0)]), VALIDATE,
            ["column 0", "class_names"], "header")
    add("schema-key-nullable", patched("schema", 12, b"\x03", **bare), OPEN, ["schema", "key"], "header")
    add("schema-two-keys", base(columns=[COLUMNS[0], Col("data", "utf8", key=True)],
                                samples=[]), OPEN, ["schema", "key"], "header")
    add("schema-name-not-utf8", patched("schema", 19, b"\xff", **bare), OPEN, ["schema", "utf-8"], "header")
    add("schema-name-line-feed", patched("schema", 20, b"\n", **bare), OPEN, ["schema", "line feed"], "header")
    add("schema-name-nul", patched("schema", 22, b"\0", **bare), OPEN, ["schema", "nul"], "header")
    add("schema-storage-0", patched("schema", 28, b"\0", **bare), OPEN, ["schema", "column 1", "storage 0"], "header")
    add("schema-storage-5", patched("schema", 28, b"\5", **bare), OPEN, ["schema", "column 1", "storage 5"], "header")
    add("schema-trailing-byte", replaced("schema", lambda d: d + b"\0", **bare), OPEN, ["schema"], "header")
    add("schema-metadata-cut-short", patched("schema", 31, u32(1), **bare), OPEN, ["schema", "column 1", "metadata"], "header")
    named = dict(columns=[Col("x", "i32", metadata={"a": "1", "b": "2"})], samples=[])
    for name, change, contains in (
            ("value-size", lambda d: patch(d, 12, u64(5)), ["value_size"]),
            ("metadata-descends", lambda d: d[:24] + d[34:44] + d[24:34], ["metadata", "ascend"]),
            ("metadata-twice", lambda d: patch(d, 38, b"a"), ["metadata", "ascend"]),
            ("metadata-not-utf8", lambda d: patch(d, 33, b"\xff"), ["metadata", "utf-8"]),
            ("metadata-name-line-feed", lambda d: patch(d, 28, b"\n"), ["metadata", "line feed"])):
        add(f"schema-{name}", replaced("schema", change, **named), OPEN, ["schema", *contains], "header")
    for name, col in (("inline-number", Col("x", "i32", storage="inline")), ("fixed-text", Col("x", "utf8", storage="fixed")),
                      ("blob-array", Col("x", "ndarray", dtype="u8", shape=[2], storage="blob")),
                      ("paged-number", Col("x", "i32", storage="paged")), ("blob-of-zstd", Col("x", "bytes", "zstd", storage="blob")),
                      ("paged-of-zstd", Col("x", "bytes", "zstd", storage="paged")), ("inline-of-none", Col("x", "bytes", storage="inline")),
                      ("unknown-type-inline-of-none", Col("x", 77, dtype=0, storage="inline"))):
        add(f"schema-{name}", base(columns=[col], samples=[]), OPEN, ["schema", "column", "storage"], "header")
    add("schema-zero-dimension", base(columns=[Col("x", "ndarray", dtype="u8", shape=[1 << 40, 0, 1 << 40])], samples=[]), OPEN,
        ["schema", "2^40"], "header")
    add("schema-rank-9", base(columns=[Col("x", "ndarray", dtype="u8", shape=[1] * 9)], samples=[]), OPEN,
        ["schema", "column 0"], "header")
    add("schema-no-columns", base(columns=[], samples=[]), OPEN, ["schema", "column"], "header")
    # Block header, directory and the id of the shard.
    flip("block-header", at["block 1"] + 40, READ, ["block 1", "header checksum"], "block 1", recovered=WHOLE[:1])
    add("shard-id", base(lambda n, d: u64(7) if n == "shard id" else d, **lean), VALIDATE, ["header", "shard id"], "header")
    add("shard-id-without-blocks", base(lambda n, d: u64(7) if n == "shard id" else d, **bare), VALIDATE, ["header", "shard id"], "header")
    add("block-shard-id", patched("block 1", 48, u64(7), **lean), READ, ["block 1", "shard id"], "block 1")
    add("block-magic", patched("block 1", 0, b"\x88", **lean), READ, ["block 1", "magic"], "block 1")
    add("block-reserved", patched("block 1", 44, u32(1), **lean), READ, ["block 1", "reserved"], "block 1")
    add("block-column-count", patched("block 1", 12, u32(3), **lean), READ, ["block 1", "column count"], "block 1")
    length = good.entries[1][1]
    short = base(lambda n, d: patch(d, 16, u64(length - 64)) if n == "block 1" else
                 patch(d, 48 + 8, u64(length)) if n == "section 1" else d)
    add("block-length", short, READ, ["block 1"], "block 1")
    add("block-sample-count-0", patched("block 1", 40, u32(0), **lean), OPEN, ["block 1", "sample count"], "section 1")
    add("block-sample-count-over-limit", patched("block 1", 40, u32((1 << 20) + 1), **lean), OPEN,
        ["block 1", "sample count"], "section 1")
    add("chunk-offset-misplaced", patched("entry 1 1", 0, u64(192 + 128)), READ,
        ["block 1", "column 1", "chunk offset"], "block 1")
    add("chunk-overlap", patched("entry 1 1", 0, u64(192)), READ, ["block 1", "column 1", "chunk offset"], "block 1")
    add("values-overlap", patched("entry 1 1", 32, u64(192)), READ, ["block 1", "column 1", "values", "offset"], "block 1")
    add("chunk-past-end", patched("entry 1 0", 8, u64(1 << 63) * 2), READ, ["block 1"], "block 1")
    add("values-in-inline-column", patched("entry 1 0", 40, u64(8), **lean), READ, ["block 1", "column 0", "values chunk"], "block 1")
    add("encoding-unknown", patched("entry 1 0", 56, b"\3", **lean), READ, ["block 1", "column 0", "unknown encoding"], "block 1")
    add("encoding-without-dictionary", patched("entry 1 0", 56, b"\2", **lean), READ, ["block 1", "column 0", "dictionary"], "block 1")
    add("encoding-of-blob", patched("entry 1 1", 56, b"\1"), READ, ["block 1", "column 1", "codec"], "block 1")
    add("raw-length", patched("entry 1 0", 16, u64(21), **lean), READ, ["block 1", "column 0", "raw length"], "block 1")
    add("directory-disagrees", replaced("section 1", lambda d: patch(d, 48 + 40, u64(7)), **lean), READ,
        ["block 1", "directory"], "block 1")
    stranger = base(samples=[dict(SAMPLES[0], data=b"ZERO"), *SAMPLES[1:]])
    add("block-foreign", replaced("whole block 1", lambda d: stranger.data[at["block 1"]:at["end 1"]]), READ,
        ["block 1", "shard id"], "block 1")
    # A shard with the same header and first block has the same id. That its second block is another one the directory tells.
    sibling = base(samples=[*SAMPLES[:4], dict(key="k4", data=b"four")])
    add("block-of-same-id", data[:at["block 1"]] + sibling.data[at["block 1"]:at["end 1"]] + data[at["end 1"]:], READ,
        ["block 1", "directory"], "block 1", recovered=WHOLE[:1])
    even = dict(samples=[dict(key=f"k{i}", data=b"same") for i in range(6)])
    twins = build(COLUMNS, even["samples"], [3, 3], without=LEAN)
    one, two, end = twins.at["block 0"], twins.at["block 1"], twins.at["end 1"]
    both = [dict(first_sample=0, sample_count=3), dict(first_sample=3, sample_count=3)]
    for name, middle, k, recovered in (("blocks-swapped", twins.data[two:end] + twins.data[one:two], 0, both),
                                       ("block-twice", twins.data[one:two] * 2, 1, both[:1])):
        add(name, twins.data[:one] + middle + twins.data[end:], READ, [f"block {k}", "directory"], (one, two)[k], recovered=recovered)
        add(f"recover-{name}", twins.data[:one] + middle, OPEN, ["trailer"], recovered=recovered)
    # Padding.
    add("padding-after-header", replaced("pad header", lambda d: patch(d, -1, b"\1"), alignment=256, **lean), VALIDATE,
        ["padding", "block 0"], len(header_of(base(**lean))))
    add("padding-between-blocks", replaced("pad 0", lambda d: patch(d, -1, b"\1"), alignment=256, **lean), VALIDATE,
        ["padding", "block 1"], "end 0")
    add("padding-before-footer", replaced("pad 1", lambda d: patch(d, -1, b"\1"), alignment=256, **lean), VALIDATE,
        ["padding", "footer"], "end 1")
    add("padding-after-chunk", patched("chunk 1 0", -1, b"\1"), VALIDATE, ["block 1", "column 0", "padding"], "head 1 0")
    add("padding-after-values", patched("values chunk 1 1", -1, b"\1"), VALIDATE,
        ["block 1", "column 1", "padding"], "values 1 1")
    add("padding-after-section", patched("padded section 3", -1, b"\1", footnote="22"), VALIDATE, ["metadata", "padding"], "section 3")
    # Chunks.
    flip("head-chunk", at["head 1 0"] + 3, READ, ["block 1", "column 0", "chunk checksum"], "head 1 0")
    flip("chunk-padding", at["head 1 0"] + 63, READ, ["block 1", "column 0", "chunk checksum"], "head 1 0")
    flip("values-chunk", at["values 0 1"] + 2, READ, ["block 0", "column 1", "values chunk checksum"], "values 0 1")
    add("record-checksum", patched("values 0 1", 12, b"!"), VALIDATE,
        ["block 0", "column 1", "sample 1", "value checksum"], at["values 0 1"] + 12)
    add("ends-descend", patched("head 0 1", 16, u64(3)), READ, ["block 0", "column 1", "sample 1", "ends"], "head 0 1")
    add("ends-past-the-end", patched("head 0 1", 16, u64(1000)), READ, ["block 0", "column 1", "ends"], "head 0 1")
    add("ends-short", patched("head 1 1", 16, u64(20)), READ, ["block 1", "column 1", "ends"], "head 1 1")
    add("ends-descend-inline", patched("head 0 0", 0, u64(5), **lean), READ, ["block 0", "column 0", "sample 1", "ends"], "head 0 0")
    add("ends-stop-short", patched("head 1 0", 8, u64(3), **lean), READ, ["block 1", "column 0", "ends"], "head 1 0")
    add("presence-beyond-samples", patched("head 1 1", 0, b"\x07"), READ, ["block 1", "column 1", "presence"], "head 1 1")
    add("absent-value-with-bytes", patched("head 0 1", 0, b"\x05"), READ, ["block 0", "column 1", "absent"], "head 0 1")
    # Pages.
    paged = dict(columns=[Col("p", "bytes", nullable=True, storage="paged")],
                 samples=[dict(p=b"first"), dict(p=b"second"), dict(p=b""), dict(), dict(p=b"last")], blocks=(5,))
    page, table, values, length = ["block 0", "column 0", "page 0"], "head 0 0", base(**paged).at["values 0 0"], 15 + 2 * 4 + 8
    another = ["block 0", "column 0", "page 1"]

    def another_page(end, first):
        return replaced("head 0 0", lambda d: d + struct.pack("<QII", end, first, 0), **paged)

    add("page-checksum", patched("values 0 0", 2, b"!", **paged), VALIDATE, [*page, "page checksum"], values)
    add("page-flipped", flipped(base(**paged).data, values + 2), READ, ["block 0", "column 0", "values chunk checksum"], values)
    add("page-ends-descend", patched("page 0 0 0", 17, u16(4), **paged), READ, [*page, "ends"], values)
    add("page-ends-past-the-values", patched("page 0 0 0", 15, u16(16), **paged), READ, [*page, "ends"], values)
    add("page-absent-value-with-bytes", patched("page 0 0 0", 21, u16(12), **paged), READ, [*page, "absent"], values)
    add("page-not-full", base(fill=lambda values: [1, 4], **paged), VALIDATE, [*another, "fits in"], table)
    over = [dict(p=b"x" * 9000)] * 6 + [dict(p=b"y" * 11600)]
    add("page-over-64-kib", base(columns=paged["columns"], samples=over, fill=lambda values: [7]), READ, [*page, "bytes"], table)
    add("page-table-reserved", patched("head 0 0", 20, u32(1), **paged), READ, [*page, "reserved"], table)
    add("page-table-first-not-0", patched("head 0 0", 16, u32(1), **paged), READ, [*page, "sample"], table)
    add("page-table-first-descends", another_page(length, 0), READ, ["block 0", "column 0", "page", "sample"], table)
    add("page-table-first-past-the-samples", another_page(length, 5), READ, [*another, "sample"], table)
    add("page-table-ends-descend", another_page(length - 1, 3), READ, [*another, "end"], table)
    add("page-table-ends-past-the-values", patched("head 0 0", 8, u64(length + 1), **paged), READ, [*page, "end"], table)
    add("page-table-ends-short", patched("head 0 0", 8, u64(length - 1), **paged), READ, ["block 0", "column 0", "page", "end"], table)
    add("page-table-length", replaced("head 0 0", lambda d: d + bytes(8), **paged), READ, ["block 0", "column 0", "length"], None)
    add("page-table-empty", replaced("head 0 0", lambda d: d[:8], **paged), READ, ["block 0", "column 0", "length"], None)
    number = dict(columns=[Col("n", "i32", nullable=True)], samples=[dict(n=1), dict(n=None)])
    add("absent-slot-not-zero", patched("values 0 0", 4, b"\1", **number), VALIDATE,
        ["block 0", "column 0", "sample 1", "absent", "zero"], "head 0 0")
    # Zstandard.
    text = dict(columns=[Col("t", "utf8", "zstd")], samples=[dict(t="aaaa"), dict(t="bbbb")])

    def zstd(compress, hook=lambda name, d: d, **options):
        return base(hook, encoders=dict(t=lambda raw: (1, compress(raw))), **(text | options))

    add("zstd-content-size", zstd(lambda raw: handmade_frame(raw, 23)), READ, ["block 0", "column 0", "zstd", "instead of"], "head 0 0")
    add("zstd-no-content-size", zstd(lambda raw: handmade_frame(raw)[:4] + b"\x00\x58" + handmade_frame(raw)[13:]), READ,
        ["block 0", "column 0", "zstd"], "head 0 0")
    add("zstd-cut-short", zstd(lambda raw: handmade_frame(raw)[:-1]), READ, ["block 0", "column 0", "zstd"], "head 0 0")
    add("zstd-trailing-bytes", zstd(lambda raw: handmade_frame(raw) + b"\0"), READ, ["block 0", "column 0", "zstd"], "head 0 0")
    add("zstd-two-frames", zstd(lambda raw: handmade_frame(raw[:9], 24) + handmade_frame(raw[9:])), READ,
        ["block 0", "column 0", "zstd"], "head 0 0")
    for name, form, words in (("window", dict(window=(17 << 3) + 1), ["window"]), ("checksum", dict(checksum=1), []),
                              ("dictionary-id", dict(dictionary_id=7), [])):
        add(f"zstd-{name}", zstd(lambda raw, form=form: handmade_frame(raw, **form)), READ, ["block 0", "column 0", "zstd", *words], "head 0 0")
    add("zstd-skippable", zstd(lambda raw: b"\x50\x2a\x4d\x18" + bytes(4) + handmade_frame(raw)), READ,
        ["block 0", "column 0", "zstd"], "head 0 0")
    add("zstd-other-dictionary", base(encoders=dict(t=lambda raw: (2, handmade_frame(raw, dictionary_id=8))), dictionaries=dict(t=TRAINED),
                                      **text), READ, ["block 0", "column 0", "zstd"], "head 0 0")
    add("zstd-of-nothing", build([Col("t", "ndarray", "zstd", dtype="u8", shape=[0])], [dict(t=Array([0], []))],
                                 encoders=dict(t=lambda raw: (1, handmade_frame(raw)))), READ, ["block 0", "column 0", "raw length"], "block 0")
    add("dictionary-malformed", base(encoders=dict(t=lambda raw: (2, handmade_frame(raw))), dictionaries=dict(t=MALFORMED), **text),
        READ, ["block 0", "column 0", "zstd"], "head 0 0")
    add("dictionary-malformed-unused", base(encoders=dict(t=lambda raw: (1, handmade_frame(raw))), dictionaries=dict(t=MALFORMED), **text),
        VALIDATE, ["column 0", "dictionary", "malformed"], 0)
    bomb = zstd(lambda raw: handmade_frame(raw, 1 << 40), lambda n, d: patch(d, 16, u64(1 << 40)) if n == "entry 0 0" else d)
    add("zstd-bomb", bomb, READ, ["block 0", "column 0", "raw length", "limit"], "block 0")
    big = (1 << 26) + 1
    ratio = zstd(lambda raw: handmade_frame(raw, big), lambda n, d: patch(d, 16, u64(big)) if n == "entry 0 0" else d)
    add("zstd-ratio", ratio, READ, ["block 0", "column 0", "raw length", "limit"], "block 0")
    # Footer and trailer, in a shard of one column.
    good = base(**lean_and_whole)
    data, at, size = good.data, good.at, len(good.data)
    for kind, name, level in ((1, "block directory", OPEN), (2, "statistics", VALIDATE), (3, "metadata", VALIDATE),
                              (4, "key index", VALIDATE), (5, "block headers", VALIDATE), (7, "header copy", VALIDATE)):
        flip("section-" + name.replace(" ", "-"), at[f"section {kind}"] + 9, level, [name, "checksum"], f"section {kind}")
    flip("section-table", at["table"] + 9, OPEN, ["section table", "checksum"], "table")
    add("section-kinds-ascend", replaced("table", lambda d: patch(patch(d, 96, u32(2)), 128, u32(3)), **lean_and_whole), OPEN,
        ["section", "descend"], "table")
    add("section-kind-twice", patched("table", 128, u32(3), **lean_and_whole), OPEN, ["section", "descend"], "table")
    add("section-kind-0", patched("table", 160, u32(0), **lean_and_whole), OPEN, ["section", "kind 0"], "table")
    add("section-offset", patched("table", 96 + 8, u64(at["section 3"] + 8), **lean_and_whole), OPEN, ["section", "offset"], "table")
    add("section-flag-missing", patched("table", 36, u32(0), **lean_and_whole), OPEN, ["block headers", "flags"], "table")
    add("header-copy-flag-missing", patched("table", 4, u32(0), **lean_and_whole), OPEN, ["header copy", "flags"], "table")
    add("section-flag-too-many", patched("table", 68, u32(1), **lean_and_whole), OPEN, ["key index", "flags"], "table")
    add("section-reserved-flags", patched("table", 4, u32(4), **lean_and_whole), OPEN, ["section", "reserved flag"], "table")
    add("section-unknown", base(extra_sections=[(77, 0, b"must be known")], **lean), OPEN, ["unknown section kind 77"], "table", NEWER)
    add("section-missing", patched("table", 64, u32(4), columns=[Col("x", "u8")], samples=[]), OPEN, ["section"], "table")
    # Each of the table's own checksums is right, except one.
    def add_keys(name, change, words, kind=LOST, **options):
        add(f"key-index-{name}", base(lambda piece, d: change(piece, d), **lean, **options), VALIDATE, ["key table", *words], "section 4", kind)

    def of_piece(name, change):
        return lambda piece, d: change(d) if piece == name else d

    add_keys("unsorted", of_piece("keys entries", lambda d: [d[0], d[2], d[1], *d[3:]]), ["entry 1"])
    add_keys("wrong-hash", of_piece("keys entries", lambda d: [(d[0][0] ^ 1, d[0][1]), *d[1:]]), ["entry 0"])
    add_keys("wrong-ordinal", of_piece("keys entries", lambda d: [*d[:3], (d[3][0], d[4][1]), (d[4][0], d[3][1])]), ["entry 3"])
    add_keys("ordinal-twice", of_piece("keys entries", lambda d: [*d[:3], (d[3][0], d[2][1]), d[4]]), ["entry 3"])
    add_keys("ordinal-past-the-end", of_piece("keys entries", lambda d: [*d[:4], (d[4][0], 5)]), ["entry 4"])
    add_keys("entry-missing", of_piece("keys entries", lambda d: d[:4]), ["4 entries"])
    add_keys("count", of_piece("keys payload", lambda d: u64(6)), ["6 entries"])
    add_keys("payload-long", of_piece("keys payload", lambda d: d + bytes(8)), [])
    add_keys("page-checksum", of_piece("keys fence 0", lambda d: patch(d, 16, bytes([d[16] ^ 1]))), ["page 0", "checksum"])
    add_keys("fence", of_piece("keys fence 0", lambda d: patch(d, 0, bytes([d[0] ^ 1]))), ["fence"])
    add_keys("fence-offset", of_piece("keys fence 0", lambda d: patch(d, 8, u64(16))), ["fence"])
    add_keys("root-checksum", of_piece("table tail", lambda d: patch(d, 24, bytes([d[24] ^ 1]))), ["checksum", "root"])
    add_keys("root-length", of_piece("table tail", lambda d: patch(d, 8, u64(1 << 40))), ["root"])
    add_keys("magic", of_piece("table magic", lambda d: d[:7] + b"\r"), [])
    add_keys("kind", of_piece("keys header", lambda d: patch(d, 0, u32(1))), ["kind"])
    add_keys("major-2", of_piece("table tail", lambda d: patch(d, 4, u16(2))), ["version 2"], NEWER)
    add_keys("reserved", of_piece("table tail", lambda d: patch(d, 40, u64(1))), ["reserved"])
    # Of a codec that is not known nobody can tell the hashes of the keys; that each sample has one entry can be told.
    for name, piece, words in (("unsorted", lambda d: [d[1], d[0]], ["entry"]), ("ordinal-twice", lambda d: [d[0], (d[1][0], d[0][1])], [])):
        add(f"unknown-codec-of-key-{name}", base(of_piece("keys entries", piece), columns=[Col("key", "utf8", 9, storage="inline", key=True)],
                                                 samples=[dict(key="a"), dict(key="b")]), VALIDATE, ["key table", *words], "section 4")
    # Two samples have one key: their entries belong in one page.
    split = key_table("baa", divide=lambda entries: [entries[:2], entries[2:]])
    twice = [dict(key=key) for key in "baa"]
    add("key-index-divided", base(lambda piece, d: split if piece == "section 4" else d, samples=twice, **lean), VALIDATE, ["key table", "fence"],
        "section 4")
    add("metadata-unsorted", replaced("section 3", lambda d: d[:4] + d[14:24] + d[4:14], **lean), VALIDATE, ["metadata", "ascend"], "section 3")
    add("metadata-cut-short", patched("section 3", 0, u32(3), **lean), VALIDATE, ["metadata"], "section 3")
    def add_statistics(name, change, words):
        add(f"statistics-{name}", replaced("section 2", change, **lean), VALIDATE, ["statistics", *words], "section 2")

    # The keys have two bytes each, so that the histogram is one count of 5.
    add_statistics("present-count", lambda d: patch(d, 0, u64(4)), ["present_count"])
    add_statistics("histogram", lambda d: patch(d, 64, u64(2)), ["length_histogram"])
    add_statistics("of-other-lengths", lambda d: patch(d, 24, u64(4) * 2), ["min_length"])
    add_statistics("histogram-begins-with-0", lambda d: patch(d, 24, u64(1))[:64] + u64(0) + u64(5), ["length_histogram"])
    add_statistics("histogram-ends-with-0", lambda d: patch(d, 32, u64(4))[:64] + u64(5) + u64(0), ["length_histogram"])
    add_statistics("histogram-sum-wraps", lambda d: patch(d, 24, u64(1) + u64(4))[:64] + u64(5) + u64((1 << 64) - 1) + u64(1), ["length_histogram"])
    add_statistics("lengths-reversed", lambda d: patch(d, 24, u64(3)), ["min_length"])
    add_statistics("of-none-with-length", lambda d: patch(d, 0, u64(0))[:64], ["max_length"])
    add_statistics("short", lambda d: d[:64], [])
    add_statistics("long", lambda d: d + u64(0), ["length"])
    # Block headers and ranges: one defect each in a section that says the rest rightly.
    head = 64 * 2
    add("block-headers-swapped", replaced("section 5", lambda d: d[head:] + d[:head], **lean_and_whole), VALIDATE,
        ["block headers", "block 0"], "section 5")
    add("block-headers-differ", replaced("section 5", lambda d: patch(d, head + 32, u64(7)), **lean_and_whole), VALIDATE,
        ["block headers", "block 1"], "section 5")
    add("block-headers-forged", replaced("section 5", forged_header, **lean_and_whole), VALIDATE, ["block headers", "block 1"], "section 5")
    add("block-headers-short", replaced("section 5", lambda d: d[:head], **lean_and_whole), VALIDATE, ["block headers", "length"], "section 5")
    add("block-headers-long", replaced("section 5", lambda d: d + bytes(head), **lean_and_whole), VALIDATE, ["block headers", "length"], "section 5")
    other_header = header_of(base(samples=[dict(key=f"K{i}") for i in range(5)], **lean))
    for name, change, words in (("differs", lambda d: patch(d, 24, u32(1)), []), ("of-another", lambda d: other_header, []),
                                ("short", lambda d: d[:-8], ["length"]), ("long", lambda d: d + bytes(8), ["length"])):
        add(f"header-copy-{name}", replaced("section 7", change, **lean_and_whole), VALIDATE, ["header copy", *words], "section 7")
    number = dict(columns=[Col("text", "utf8"), Col("n", "i16", nullable=True), Col("x", "f32")],
                  samples=[dict(text="", n=n, x=x) for n, x in ((-5, 0.0), (7, 1.5), (None, NAN), (9, NAN), (None, 2.0))])
    ranged, word = base(**number), struct.pack
    flip_at = ranged.at["section 6"]
    add("flip-section-block-ranges", flipped(ranged.data, flip_at + 9), VALIDATE, ["block ranges", "checksum"], flip_at)

    def ranges(name, change, contains):  # block 0: n, x; block 1: n, x
        add("block-ranges-" + name, replaced("section 6", change, **number), VALIDATE, ["block ranges", *contains], flip_at)

    ranges("contradict-statistics", lambda d: patch(d, 48 + 8, word("<qq", 8, 8)), ["column 1"])
    # Together the blocks still have the range that the statistics say.
    ranges("of-other-values", lambda d: patch(d, 48 + 8, word("<q", 0)), ["block 1", "column 1"])
    ranges("present-count", lambda d: patch(patch(d, 0, u32(1)), 48, u32(2)), ["block 0", "column 1"])
    ranges("present-count-over-limit", lambda d: patch(d, 24, u32(4)), ["block 0", "column 2", "present_count"])
    ranges("flags", lambda d: patch(d, 4, u32(3)), ["block 0", "column 1", "flag"])
    ranges("flag-missing", lambda d: patch(d, 4, u32(0)), ["block 0", "column 1", "flag"])
    ranges("of-none", lambda d: patch(d, 48, u32(0)), ["block 1", "column 1", "present_count"])
    ranges("reversed", lambda d: patch(d, 8, word("<qq", 7, -5)), ["block 0", "column 1", "minimum"])
    ranges("of-nan", lambda d: patch(d, 24 + 8, word("<dd", NAN, NAN)), ["block 0", "column 2", "minimum"])
    ranges("short", lambda d: d[:-24], ["length"])
    add("directory-gap", patched("section 1", 48, u64(at["block 1"] + 64), **lean), OPEN, ["block 1", "offset"], "section 1")
    add("directory-first-sample", patched("section 1", 48 + 24, u64(4), **lean), OPEN, ["block 1", "first sample"], "section 1")
    # Trailer and length.
    flip("trailer", at["trailer"] + 33, OPEN, ["trailer checksum"], "trailer")
    add("trailer-magic", patch(data, size - 1, b"\0"), OPEN, ["trailer magic"], "trailer")
    add("trailer-file-length", patched("trailer", 64, u64(size + 1), **lean), OPEN, ["trailer", "file length"], "trailer")
    add("trailer-shard-id", patched("trailer", 72, u64(1), **lean), OPEN, ["trailer", "shard id"], "trailer")
    add("trailer-reserved", patched("trailer", 80, u64(1), **lean), OPEN, ["trailer", "reserved"], "trailer")
    add("trailer-footer-offset", patched("trailer", 0, u64(1 << 40), **lean), OPEN, ["trailer", "footer offset"], "trailer")
    add("trailer-section-count", patched("trailer", 16, u32(1 << 20), **lean), OPEN, ["trailer"], "trailer")
    add("trailer-sample-count", patched("trailer", 32, u64(6), **lean), OPEN, ["trailer", "sample"], "trailer")
    add("trailer-block-count", patched("trailer", 40, u64(3), **lean), OPEN, ["block directory"], "section 1")
    add("trailer-content-hash", patched("trailer", 48, bytes(16), **lean), VALIDATE, ["trailer", "content hash"], "trailer")
    add("trailing-byte", data + b"\0", OPEN, ["trailer magic"])
    first = WHOLE[:1]
    for name, length, fragment, recovered in (
            ("empty-file", 0, "magic", None), ("in-magic", 5, "magic", None), ("in-header", 40, "header", None),
            ("after-header", at["block 0"], "trailer", []), ("in-block-0", at["block 0"] + 100, "trailer", []),
            ("in-block-1", at["end 1"] - 1, "trailer", first), ("before-footer", at["footer"], "trailer", WHOLE),
            ("in-footer", at["table"], "trailer", WHOLE), ("in-trailer", size - 1, "trailer", WHOLE)):
        add(f"truncated-{name}", data[:length], OPEN, [fragment], **({} if recovered is None else {"recovered": recovered}))
    recovery(add, good)
    # Values, found when they are decoded.
    masks = bytes.fromhex("01000000 00 000000 02000000 02000000 02000000")
    for name, col, value, contains in (
            ("utf8-invalid", Col("v", "utf8"), b"ab\xc3(", ["utf-8"]), ("json-invalid", Col("v", "json"), b"{1}", ["json"]),
            ("json-bom", Col("v", "json"), b"\xef\xbb\xbf{}", ["json"]), ("json-two-texts", Col("v", "json"), b"1 2", ["json"]),
            ("json-too-deep", Col("v", "json"), b"[" * 1025 + b"]" * 1025, ["json"]),
            ("json-not-utf8", Col("v", "json"), b'"\xed\xa0\x80"', []), ("json-empty", Col("v", "json"), b"", ["json"]),
            ("jpeg-no-jpeg", Col("v", "jpeg"), b"\x89PNG\r\n\x1a\n", ["jpeg"]), ("png-no-png", Col("v", "png"), b"\xff\xd8\xff", ["png"]),
            ("bool-2", Col("v", "bool"), b"\2", ["bool"]),
            ("image-no-format", Col("v", "image"), b"\0\0\0\x14ftypheic\0\0\0\0mif1avif", ["image"]),
            ("rle-sum", Col("v", "rle"), masks + b"\1\2", ["rle", "sum"]),
            ("rle-trailing-bytes", Col("v", "rle"), masks + b"\1\3\0", ["rle", "follow"]),
            ("rle-cut-short", Col("v", "rle"), masks + b"\1", ["rle", "run"]),
            ("rle-long-number", Col("v", "rle"), masks + b"\1\x83\0", ["rle", "run"]),
            ("rle-transform", Col("v", "rle"), patch(masks, 4, b"\2") + b"\1\3", ["rle", "transform"]),
            ("rle-reserved", Col("v", "rle"), patch(masks, 7, b"\1") + b"\1\3", ["rle", "reserved"]),
            ("rle-mask-count", Col("v", "rle"), patch(masks, 0, u32(0xFFFFFFFF)), ["rle"]),
            ("rle-negative-run", Col("v", "rle"), patch(patch(masks, 4, b"\1"), 16, b"\3") + b"\2\6\0", ["rle", "run"]),
            ("rle-too-many-pixels", Col("v", "rle"), patch(masks, 8, b"\0\0\1\0\0\0\1\0") + b"\0\0", ["rle", "pixels"]),
            ("ndarray-byte-count", Col("v", "ndarray", dtype="u16"), b"\1" + bytes(7) + u64(9) + bytes(16), ["ndarray", "bytes"]),
            ("ndarray-huge", Col("v", "ndarray", dtype="u16"), b"\2" + bytes(7) + u64(1 << 63) * 2, ["ndarray", "bytes"]),
            ("ndarray-rank", Col("v", "ndarray", dtype="u8"), b"\x09" + bytes(79), ["ndarray", "rank"]),
            ("ndarray-padding", Col("v", "ndarray", dtype="u8"), b"\1" + bytes(7) + u64(1) + b"\5" + bytes(6) + b"\1", ["ndarray", "padding"]),
            ("ndarray-bool", Col("v", "ndarray", "zstd", dtype="bool", shape=[2]), b"\1\2", ["bool"])):
        built = build([col], [dict(v=True if col.type == "bool" else value)], without=LEAN,
                      hook=lambda n, d, c=col: bool_2(n, d) if c.type == "bool" else d)
        add(f"value-{name}", built, DEEP, ["block 0", "column 0", "sample 0", *contains])
    return out


def recovery(add, good):
    """Shards of which recovery (recovery.md) finds more than a reader that goes from block to block, or might find too much."""
    data, at, header = good.data, good.at, header_of(good)
    lost = bytes(len(header)) + data[len(header):]
    add("recover-header-lost", lost, OPEN, ["header", "magic"], 0, recovered=WHOLE)
    add("recover-header-and-trailer-lost", lost[:at["trailer"]], OPEN, ["header", "magic"], 0, recovered=WHOLE)
    add("recover-block-header-lost", flipped(data, at["block 1"] + 40), READ, ["block 1", "header checksum"], at["block 1"], recovered=WHOLE)
    # The end of another shard with the same columns: its directory does not tell which blocks are this one's.
    other = build(good.columns, [dict(key=f"K{i}") for i in range(5)], [3, 2])
    add("recover-end-of-another", data[:at["footer"]] + other.data[at["footer"]:], OPEN, ["trailer", "shard id"], recovered=WHOLE)
    add("recover-another-behind", data + other.data, OPEN, ["trailer"], recovered=WHOLE)
    # A shard in a value. It has the same columns, and one of its blocks has just the sample of the damaged block.
    columns = [Col("data", "bytes")]
    inner = build(columns, [dict(data=b"inner %d" % i) for i in range(3)], [1, 1, 1], without=LEAN)
    outer = build(columns, [dict(data=b"0"), dict(data=inner.data), dict(data=b"2")], [1, 1, 1])
    samples = [dict(first_sample=i, sample_count=1) for i in range(3)]
    damaged, begin = flipped(outer.data, outer.at["block 1"] + 40), outer.at["values 1 0"]
    add("recover-shard-in-a-value", damaged[:outer.at["footer"]], OPEN, ["trailer"], recovered=[samples[0], samples[2]])
    # With the directory and the copies of the headers the block around it is found again.
    add("recover-block-around-a-shard", damaged, READ, ["block 1", "header checksum"], outer.at["block 1"], recovered=samples)
    # The inner one begins with the same block, so that both have one id. A whole block is not searched.
    same = build(columns, [dict(data=b"0"), dict(data=inner.data), dict(data=b"2")], [1, 1, 1], without=LEAN)
    around = build(columns, [dict(data=b"0"), dict(data=same.data)], [1, 1], without=LEAN)
    add("recover-shard-of-same-id-in-a-value", around.data[:around.at["footer"]], OPEN, ["trailer"], recovered=samples[:2])
    # Cut short where the inner one ends, whose trailer is then the last one of the file.
    add("recover-cut-behind-a-shard-in-a-value", outer.data[:begin + len(inner.data)], OPEN, ["trailer"], recovered=samples[:1])


def bool_2(name, data):
    at = {"section 2": 48, "section 6": 8}.get(name)
    return b"\2" if name == "values 0 0" else patch(data, at, u64(2) * 2) if at else data


def forged_header(copies):
    """The copy of block 1 with another id, and a checksum that is right."""
    block = patch(copies[128:-8], 48, u64(7))
    return copies[:128] + block + u64(xxh3(block))


def reseal(data):
    """A header that is the whole file, with a right checksum."""
    return data[:-8] + u64(xxh3(data[:-8]))


def header_of(built):
    length, = struct.unpack_from("<I", built.data, 12)
    return built.data[:length]
