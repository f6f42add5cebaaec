"""Invalid datasets, and the list of all invalid golden files. See make_golden.py."""
import dataclasses

import changed_datasets
from make_invalid import (ABSENT, COLUMNS, LEAN, LOST, NEWER, OPEN, READ, SAMPLES, VALIDATE, base, error, flipped, patch,
                          patched, shards, u16, u32, u64)
from writer import Col, build, key_section, manifest, manifest_text, removed_table, sealed, segment, segment_file, shard_row, table as make_table


def datasets():
    """{name: ({path: bytes}, error)}."""
    out = {}
    columns = [Col("key", "utf8", key=True)]
    shard = base(columns=columns)
    pair = [("a.shard", shard)]

    def add(name, error_, **files):
        whole = {"a.shard": shard.data, "dataset.json": manifest(columns, {}, pair), "dataset.segment": segment_file(pair)}
        whole |= {path.replace("_", "."): data for path, data in files.items()}
        out[name] = ({f"/{path}": data for path, data in whole.items() if data is not None}, error_)

    text, whole_file = manifest(columns, {}, pair), segment_file(pair)
    row = shard_row("a.shard", shard)

    def with_shard(**changes):
        totals = {key: value for key, value in changes.items() if key in ("bytes", "samples", "blocks")}
        return manifest(columns, {}, pair, shards=[row | changes], **totals)

    # Of manifests that are refused there is nothing else: no shard is looked at.
    no_shards = dict(a_shard=None, dataset_segment=None)
    add("dataset-manifest-flipped", error(OPEN, ["manifest", "checksum"]), dataset_json=text.replace(b'"samples": 5', b'"samples": 7', 1), **no_shards)
    add("dataset-manifest-missing", error(OPEN, ["dataset.json"], kind=ABSENT), dataset_json=None)
    add("dataset-manifest-cut-short", error(OPEN, ["manifest"]), dataset_json=text[:-20], **no_shards)
    short = manifest(columns, {}, [])
    add("dataset-manifest-line-after", error(OPEN, ["manifest", "checksum"]), dataset_json=short + b"\n", **no_shards)
    short += b"{\n"
    add("dataset-manifest-object-after", error(OPEN, ["manifest"]), dataset_json=sealed(short), **no_shards)
    add("dataset-version-2", error(OPEN, ["version 2"], kind=NEWER), dataset_json=manifest(columns, {}, pair, version=2), **no_shards)
    add("dataset-version-flipped", error(OPEN, ["manifest", "checksum"]), dataset_json=text.replace(b'"version": 1', b'"version": 3'), **no_shards)
    bare = build(columns, [], [], without=LEAN)
    bare_pair, none = [("a.shard", bare)], shard_row("a.shard", bare)

    def add_bare(name, error_, **fields):
        add(name, error_, **no_shards, dataset_json=manifest(columns, {}, bare_pair, **fields))

    def add_head(name, error_, **fields):
        """Of a dataset without shards."""
        add(name, error_, **no_shards, dataset_json=manifest(columns, {}, [], **fields))

    def add_edited(name, contains, old, new):
        """The manifest with other text in one place."""
        body = manifest(columns, {"a": "1"}, bare_pair)
        body = body[:body.rindex(b'  "checksum"')].replace(old.encode(), new.encode(), 1)
        add(name, error(OPEN, ["manifest", *contains]), **no_shards, dataset_json=sealed(body))

    # The shards would not be understood either, but that is not looked at before the features are known.
    unknown = error(OPEN, ["manifest", "feature", "remapped-values"], kind=NEWER)
    add_bare("dataset-feature-unknown", unknown, features=["remapped-values"], shards=[{"name": 7}])
    add("dataset-feature-unknown-last", unknown, a_shard=None, dataset_segment=None, dataset_json=manifest_text(
        [("shards", [{"name": 7}]), ("metadata", []), ("version", 1), ("features", ["remapped-values"]), ("format", "shardkit-dataset")]))
    add_head("dataset-feature-and-version", error(OPEN, ["version 2"], kind=NEWER), version=2, features=7)
    add_head("dataset-features-no-array", error(OPEN, ["manifest"]), features="remapped-values")
    add_head("dataset-features-no-string", error(OPEN, ["manifest"]), features=[1])
    add_head("dataset-features-descend", error(OPEN, ["manifest", "features", "ascend"]), features=["b", "a"])
    add_head("dataset-features-twice", error(OPEN, ["manifest", "features", "ascend"]), features=["a", "a"])
    for key in ("features", "generation", "operation", "segments"):
        add_edited(f"dataset-no-{key}", [key], f'  "{key}":', '  "other":')
    for name, before, inserted in (("manifest", '  "samples"', '  "features": [],\n'), ("metadata", '"a": "1"', '"a": "2", '),
                                   ("column", '"type"', '"name": "key", '),
                                   ("segment", '"table"', '"blocks": 0, '), ("table", '"root"', '"bytes": 1, '), ("shard", '"content_hash"', '"name": "a.shard", ')):
        add_edited(f"dataset-key-twice-in-{name}", ["twice"], before, inserted + before)
    add_edited("dataset-shard-lacks-key", ["blocks"], '"blocks": 0, "content', '"content')
    add_edited("dataset-column-lacks-key", ["nullable"], '"nullable": false, ', "")
    add_edited("dataset-segment-lacks-table", ["table"], '"table"', '"index"')
    add_edited("dataset-table-lacks-root", ["root"], '"root"', '"more"')
    add_edited("dataset-version-twice", ["twice"], '  "features"', '  "version": 2,\n  "features"')  # the first one counts
    add_head("dataset-segments-no-array", error(OPEN, ["manifest", "segments"]), segments={})
    add_head("dataset-generation-0", error(OPEN, ["manifest", "generation"]), generation=0)
    for name, operation in (("no-object", "create"), ("no-name", dict(arguments={})), ("name-no-string", dict(name=1, arguments={})),
                            ("no-arguments", dict(name="create")), ("arguments-no-object", dict(name="remove", arguments=["1"])),
                            ("argument-no-array", dict(name="remove", arguments=dict(samples="1"))),
                            ("argument-of-numbers", dict(name="remove", arguments=dict(samples=[1])))):
        add_head(f"dataset-operation-{name}", error(OPEN, ["manifest", "operation"]), operation=operation)
    for name, words, changes in (("shards", ["segment 0", "shards"], dict(shards=2)), ("no-shards", ["segment 0", "shards"], dict(shards=0)),
                                 ("samples", ["segment 0", "samples"], dict(samples=1)), ("blocks", ["segment 0", "blocks"], dict(blocks=1))):
        add_bare(f"dataset-segment-{name}", error(OPEN, ["manifest", *words]), segments=[segment(bare_pair) | changes])
    for name, words, changes in (("root", ["root"], dict(root=63)), ("root-long", ["root"], dict(root=1 << 20)),
                                 ("checksum", ["checksum", "16"], dict(checksum="0" * 15)), ("name", ["name"], dict(name="../dataset.segment")),
                                 ("name-twice", ["twice"], dict(name="a.shard"))):
        listed = segment(bare_pair)
        add_bare(f"dataset-table-{name}", error(OPEN, ["manifest", *words]), segments=[listed | dict(table=listed["table"] | changes)])
    two = [("a.shard", bare), ("b.shard", bare)]
    add("dataset-segments-leave-out", error(OPEN, ["manifest", "segments"]), a_shard=bare.data, dataset_segment=segment_file(bare_pair),
        dataset_json=manifest(columns, {}, two, segments=[segment(bare_pair)]))
    add_bare("dataset-without-segments", error(OPEN, ["manifest", "segments"]), segments=[])
    add_bare("dataset-totals-of-segments", error(OPEN, ["manifest", "samples"]), shards=None, samples=6)
    plain, array = Col("x", "utf8"), Col("x", "ndarray", dtype="u8")
    shaped = dict(dtype_number=0, shape=None)  # what a column of a type that is not known has, too
    for key, col, other, limit in (("type", plain, "json", 1 << 16), ("codec", plain, "zstd", 1 << 8), ("dtype", array, "i8", 1 << 16)):
        for name, field in (("number-missing", {f"{key}_number": None}), ("of-another", {key: other}),
                            ("missing", {key: None}), ("over-limit", shaped | {f"{key}_number": limit})):
            row_ = {k: v for k, v in (col.describe() | field).items() if v is not None or k == "shape"}
            add_head(f"dataset-column-{key}-{name}", error(OPEN, ["manifest", f"{key}_number"]), columns=[row_])
    for name, field in (("name-line-feed", dict(name="a\nb")), ("type-number-no-count", shaped | dict(type_number="2")),
                        ("type-number-negative", shaped | dict(type_number=-1)), ("metadata-number", dict(metadata={"unit": 1}))):
        add_head(f"dataset-column-{name}", error(OPEN, ["manifest"]), columns=[plain.describe() | field])
    for name, field, words in (("dtype-unwanted", dict(dtype="u8"), ["dtype"]), ("dtype-number-unwanted", dict(dtype_number=20), ["dtype"]),
                               ("shape-unwanted", dict(shape=None), ["shape"]), ("type-no-string", shaped | dict(type=77, type_number=77), ["type"]),
                               ("value-size-null", dict(value_size=None), ["value_size"])):
        add_head(f"dataset-column-{name}", error(OPEN, ["manifest", *words]), columns=[plain.describe() | field])
    add_head("dataset-no-column", error(OPEN, ["manifest", "columns"]), columns=[])
    add_head("dataset-metadata-line-feed", error(OPEN, ["manifest"]), metadata={"a\nb": "1"})
    counted = Col("n", "i32")
    for name, size in (("wrong", 5), ("missing", None)):
        row_ = counted.describe() | dict(value_size=size)
        add_head(f"dataset-column-value-size-{name}", error(OPEN, ["manifest"]), columns=[{k: v for k, v in row_.items() if v is not None}])
    add("dataset-shard-twice", error(OPEN, ["manifest", "twice"]), a_shard=bare.data, dataset_json=manifest(columns, {}, bare_pair * 2))
    large = (1 << 62) + 1
    add_bare("dataset-count-over-limit", error(OPEN, ["manifest", "count"]), shards=[none | dict(samples=large)], samples=large)
    miscounted = {"without-blocks": (1, 0), "of-more-blocks": (1, 2)}  # samples and blocks of a shard
    for name, (samples, blocks) in miscounted.items():
        add_bare(f"dataset-shard-{name}", error(OPEN, ["manifest", "samples", "blocks"]), shards=[none | dict(samples=samples, blocks=blocks)],
                 samples=samples, blocks=blocks, segments=[segment(bare_pair) | dict(samples=samples, blocks=blocks)])
    digits = shard_row("a.shard", bare, True)["sha256"]
    for name, wrong in (("short", digits[:-1]), ("long", digits + "0"), ("upper-case", "A" + digits[1:])):
        add_bare(f"dataset-sha256-{name}", error(OPEN, ["manifest", "sha256"]), shards=[none | dict(sha256=wrong)])
    add_bare("dataset-sha256-null", error(OPEN, ["manifest"]), shards=[none | dict(sha256=None)])
    # Metadata are not part of the content hash: all that the manifest says of this shard is true but the sha256.
    forged = base(columns=columns, footnote="3")
    add("dataset-sha256-differs", error(VALIDATE, ["sha256"]), a_shard=forged.data,
        dataset_segment=segment_file(pair, ("a.shard",)), dataset_json=manifest(columns, {}, pair, hashed=("a.shard",)))
    add("dataset-totals", error(OPEN, ["manifest", "samples"]), dataset_json=manifest(columns, {}, pair, samples=6), **no_shards)
    add("dataset-name-dotdot", error(OPEN, ["manifest", "shard 0", "name"]), dataset_json=with_shard(name="../a.shard"), **no_shards)
    add("dataset-name-absolute", error(OPEN, ["manifest", "shard 0", "name"]), dataset_json=with_shard(name="/a.shard"), **no_shards)
    add("dataset-shard-missing", error(READ, ["shard 0", "missing"], kind=ABSENT), a_shard=None)
    other = base(columns=columns, samples=[dict(key="k9"), *SAMPLES[1:]])
    add("dataset-shard-swapped", error(READ, ["shard 0", "content hash"]), a_shard=other.data)
    add_head("dataset-feature-shard-flag", error(OPEN, ["manifest", "feature", "shard-flag-7"], kind=NEWER), features=["shard-flag-7"])
    flagged = patched("header", 20, u32(1 << 7), columns=columns)
    add("dataset-shard-incompatible", error(READ, ["shard", "incompatible flag", "bit 7"], kind=NEWER), a_shard=flagged.data,
        dataset_json=manifest(columns, {}, [("a.shard", flagged)]), dataset_segment=segment_file([("a.shard", flagged)]))
    add("dataset-metadata-differs", error(VALIDATE, ["shard 0", "metadata", "b"]), dataset_json=manifest(columns, {"b": "3"}, pair))
    add("dataset-column-differs", error(READ, ["shard 0", "key", "type"]),
        dataset_json=manifest([Col("key", "json")], {}, pair))
    # What may not differ between the columns of a dataset and of a shard, besides the type.
    key, number = columns[0], Col("n", "ndarray", dtype="u8", shape=[2])
    array = base(columns=[key, number], samples=[dict(key="k", n=b"\1\2")])
    for name, dataset_columns, built, words in (
            ("codec", [Col("key", "utf8", "zstd", key=True)], shard, ["key", "codec"]), ("key", [Col("key", "utf8")], shard, ["key", "differs"]),
            ("nullable", [COLUMNS[0], Col("data", "bytes")], base(), ["data", "nullable"]), ("missing", [key, Col("x", "u8")], shard, ["column", "x"]),
            ("extra", [key], array, ["column", "n"]), ("wider", [COLUMNS[0], Col("data", "json", nullable=True)], base(), ["data", "type"]),
            ("shape", [key, Col("n", "ndarray", dtype="u8")], array, ["n", "shape"]),
            ("dtype", [key, Col("n", "ndarray", dtype="i8", shape=[2])], array, ["n", "dtype"])):
        one = [("a.shard", built)]
        add(f"dataset-column-{name}", error(READ, ["shard 0", *words]), a_shard=built.data,
            dataset_json=manifest(dataset_columns, {}, one), dataset_segment=segment_file(one))
    add("dataset-segment-file-missing", error(OPEN, ["segment", "missing"]), dataset_segment=None)
    for name, words, data in (("cut-short", [], whole_file[:-8]), ("tail-flipped", ["tail", "checksum"], flipped(whole_file, len(whole_file) - 40)),
                              ("root-flipped", ["root", "checksum"], flipped(whole_file, len(whole_file) - 72)),
                              ("of-others", ["other shards"], segment_file([("a.shard", other)]))):
        add(f"dataset-segment-file-{name}", error(OPEN, ["segment", *words], 0), dataset_segment=data)
    add("dataset-segment-file-magic", error(VALIDATE, [], 0), dataset_segment=patch(whole_file, 0, b"\x88"))
    add("dataset-index-page-flipped", error(READ, ["index", "page 0", "checksum"], 0), dataset_segment=flipped(whole_file, 16))
    add("dataset-keys-page-flipped", error(VALIDATE, ["key table", "page 0", "checksum"], 0),
        dataset_segment=flipped(whole_file, whole_file.index(key_section(f"k{i}" for i in range(5))[1][0][1])))

    def add_file(name, words, hook=lambda name, data: data, made=None):
        """With a segment file that the manifest names, and that is wrong in what every table has. There is no shard: opening finds it."""
        made = segment_file(bare_pair, hook=hook) if made is None else made
        add(f"dataset-segment-file-{name}", error(OPEN, ["segment", *words], 0), a_shard=None, dataset_segment=made,
            dataset_json=manifest(columns, {}, bare_pair, segments=[segment(bare_pair, data=made)]))

    def add_index(name, error_, hook):
        """With an offset index that is wrong."""
        made = segment_file(pair, keyed=False, hook=hook)
        add(name, error_, a_shard=None if error_["found_by"] == OPEN else shard.data, dataset_segment=made, dataset_json=manifest(columns, {}, pair, segments=[segment(pair, data=made)]))

    def of_piece(piece, change):
        return lambda name, data: change(data) if name == piece else data

    def at(part, place, data):
        return of_piece(part, lambda old: patch(old, place, data))

    def changed(number, field, value):
        """One field of one block."""
        def hook(name, data):
            if name == "index blocks":
                fields, places = data[number]
                data = [*data[:number], ((*fields[:field], value, *fields[field + 1:]), places), *data[number + 1:]]
            return data
        return hook

    def sections(change):
        return of_piece("table sections", change)

    add_file("major-2", ["version 2"], at("table tail", 4, u16(2)))
    add_file("reserved", ["reserved"], at("table tail", 32, u64(1)))
    for count in (0, 17):
        add_file(f"section-count-{count}", ["section_count"], at("table tail", 0, u32(count)))
    add_file("section-count-short", ["root"], at("table tail", 0, u32(2)))
    add_file("section-count-long", ["root"], at("table tail", 0, u32(4)))
    add_file("root-long", ["root"], of_piece("table root", lambda d: d + bytes(8)))
    add_file("table-length", ["table_length"], at("table tail", 16, u64(8)))
    add_file("kinds-descend", ["kind"], sections(lambda d: [d[1], d[0], d[2]]))
    add_file("kind-twice", ["kind"], sections(lambda d: [d[0], d[1], d[1]]))
    add_file("kind-unwanted", ["kind"], sections(lambda d: [*d, (4, [], u64(0))]))
    add_file("without-index", ["kind"], sections(lambda d: d[1:]))
    add_file("without-list", ["kind"], sections(lambda d: [d[0], d[2]]))
    add_file("of-another-kind", ["kind"], made=removed_table([1]))
    add_file("section-reserved", ["reserved"], at("list header", 4, u32(1)))
    add_file("section-begin", [], of_piece("list fence 0", lambda d: patch(d, 8, u64(16))))
    add_file("pages-end-of-none", [], at("index header", 16, u64(16)))
    add_file("pages-end-before-the-pages", [], at("list header", 16, u64(0)))
    add_file("pages-end-behind-the-pages", [], of_piece("keys header", lambda d: patch(d, 16, u64(int.from_bytes(d[16:24], "little") + 8))))
    add_file("page-count-over-limit", ["pages"], at("index header", 8, u64(8_388_609)))
    for name, length in (("over-limit", (1 << 26) + 8), ("odd", 12)):
        add_file(f"payload-{name}", ["payload"], at("keys header", 24, u64(length)))
    add_file("payload-long", ["root"], at("keys header", 24, u64(16)))

    wrong, places = error(VALIDATE, ["index", "block 1"]), 8 + 2 * 64  # where those of block 0 begin: of 3 samples, those of block 1 of 2
    for name, place, value in (("begin", places, 0), ("descend", places + 16, 0), ("end", places + 3 * 8, 1 << 20)):
        add_index(f"dataset-index-places-{name}", error(VALIDATE, ["index", "block 0", "places"]), at("index page 0", place, u64(value)))
    add_index("dataset-index-block", wrong, changed(1, 0, 0))
    add_index("dataset-index-block-reserved", error(READ, ["index", "reserved"]), changed(1, 8, 1))
    add_index("dataset-index-layout", error(READ, ["index", "page 0"]), changed(1, 7, 1))
    add_index("dataset-index-shard", error(READ, ["index", "page 0"]), changed(1, 5, 1))
    add_index("dataset-index-places-outside", error(READ, ["index", "places"]), at("index page 0", 8 + 56, u64(1 << 40)))
    # Those of the first block of two shards are alike, and the second shard's are said to be where the first one's are.
    alike = [*pair, ("b.shard", other)]
    elsewhere = segment_file(alike, hook=at("index page 0", 8 + 2 * 64 + 56, u64(8 + 4 * 64)))
    add("dataset-index-places-elsewhere", error(VALIDATE, ["index", "block"]), b_shard=other.data, dataset_segment=elsewhere,
        dataset_json=manifest(columns, {}, alike, segments=[segment(alike, data=elsewhere)]))
    add_index("dataset-index-block-count", error(READ, ["index", "page"]), at("index page 0", 0, u32(4096)))
    add_index("dataset-index-no-blocks-in-page", error(READ, ["index", "page"]), at("index page 0", 0, u32(0)))
    add_index("dataset-index-reserved", error(READ, ["index", "page"]), at("index page 0", 4, u32(1)))
    add_index("dataset-index-first", error(VALIDATE, ["index", "page 0"]), at("index fence 0", 0, u64(1)))
    add_index("dataset-index-hash", error(VALIDATE, ["index", "other shards"]), at("index payload", 24, u64(0)))
    add_index("dataset-index-counts", error(OPEN, ["segment", "other shards"], 0), at("index payload", 16, u64(6)))
    add_index("dataset-index-root-reserved", error(OPEN, ["index", "reserved"], 0), at("index payload", 36, u32(1)))
    add_index("dataset-index-column-unknown", error(VALIDATE, ["index", "column"]), at("index payload", 48, b"kez"))
    add_index("dataset-index-column-twice", error(OPEN, ["index", "twice"], 0), of_piece("index layouts", lambda d: [["key", "key"]]))
    add_index("dataset-index-name-cut-short", error(OPEN, ["index", "cut short"], 0), at("index payload", 44, u32(1 << 20)))
    add_index("dataset-index-lists-too-many", error(OPEN, ["index", "lists"], 0), at("index payload", 32, u32(9)))
    add_index("dataset-index-list-unused", error(VALIDATE, ["index", "columns"]), of_piece("index layouts", lambda d: [*d, []]))
    add_index("dataset-index-list-twice", error(VALIDATE, ["index", "columns"]), lambda name, data: [*data, *data] if name == "index layouts" else
              changed(1, 7, 1)(name, data))
    add_index("dataset-index-bytes-after", error(OPEN, ["index", "bytes after"], 0), of_piece("index payload", lambda d: d + bytes(8)))

    def add_keys(name, words, hook, shards=pair, found_by=VALIDATE, **files):
        """With keys that are wrong."""
        made = segment_file(shards, hook=hook)
        named = dict(dataset_segment=made, dataset_json=manifest(columns, {}, shards, segments=[segment(shards, data=made)]))
        add(f"dataset-keys-{name}", error(found_by, ["key table", *words], 0), **named | files)

    add_keys("page-checksum", ["page 0", "checksum"], of_piece("keys fence 0", lambda d: patch(d, 16, bytes([d[16] ^ 1]))))
    add_keys("fence", ["fence"], of_piece("keys fence 0", lambda d: patch(d, 0, bytes([d[0] ^ 1]))))
    add_keys("unsorted", ["entry 1"], of_piece("keys entries", lambda d: [d[0], d[2], d[1], *d[3:]]))
    add_keys("ordinal-past-the-end", ["entry 4"], of_piece("keys entries", lambda d: [*d[:4], (d[4][0], 5)]))
    add_keys("wrong-hash", ["entry 0"], of_piece("keys entries", lambda d: [(d[0][0] ^ 1, d[0][1]), *d[1:]]))
    add_keys("entry-missing", ["4 entries"], of_piece("keys entries", lambda d: d[:4]), found_by=OPEN, a_shard=None)
    twice = [("a.shard", base(columns=columns, samples=[dict(key=key) for key in "baa"]))]
    divided_run = key_section("baa", divide=lambda entries: [entries[:2], entries[2:]])
    add_keys("divided", ["fence"], sections(lambda d: [*d[:2], divided_run]), shards=twice, a_shard=twice[0][1].data)

    def add_list(name, error_, hook=lambda name, data: data, shards=bare_pair, whole=False, changes=None, keyed=True, **files):
        """With a list of shards that counts, and that is wrong. Only where it must be read as a whole are the shards there."""
        made = segment_file(shards, keyed=keyed, hook=hook)
        named = dict(a_shard=bare.data if whole else None, dataset_segment=made,
                     dataset_json=manifest(columns, {}, shards, **dict(segments=[segment(shards, data=made)], shards=None) | (changes or {})))
        add(f"dataset-list-{name}", error_, **named | files)

    listed = error(READ, ["list of shards", "page 0"])
    first, begin = 8, 8 + 56  # of the entry of the first shard, and of its name
    add_list("missing", error(OPEN, ["segment", "missing"], kind=ABSENT), dataset_segment=None)
    add_list("of-others", error(OPEN, ["segment", "other shards"]), dataset_segment=segment_file(pair))
    add_list("root", error(OPEN, ["segment", "root", "checksum"]), dataset_segment=flipped(segment_file(bare_pair), len(segment_file(bare_pair)) - 80))
    add_list("major-2", error(OPEN, ["segment", "version 2"], kind=NEWER), at("table tail", 4, u16(2)))
    add_list("counts", error(OPEN, ["segment", "other shards"]), at("list payload", 8, u64(1)))
    add_list("page", error(READ, ["list of shards", "page 0", "checksum"]), at("list fence 0", 16, u64(1)))
    add_list("count", listed, at("list page 0", 0, u32(2)))
    add_list("reserved", listed, at("list page 0", 4, u32(1)))
    add_list("samples", error(READ, ["list of shards", "samples"]), at("list page 0", first + 8, u64(1)))
    add_list("fence", error(READ, ["list of shards", "samples"]), at("list fence 0", 0, u64(1)))
    add_list("flags", error(READ, ["list of shards", "page 0", "flags"]), at("list page 0", first + 54, u16(2)))
    add_list("name-outside", error(READ, ["list of shards", "page 0", "name"]), at("list page 0", first + 52, u16(16)))
    add_list("name-elsewhere", error(READ, ["list of shards", "page 0", "name"]), at("list page 0", first + 48, u32(begin + 1)))
    add_list("name-empty", error(READ, ["list of shards", "page 0", "name"]), at("list page 0", first + 52, u16(0)))
    add_list("name-dotdot", error(READ, ["list of shards", "name"]), at("list page 0", begin, b"../hard"))
    add_list("name-not-utf8", error(READ, ["list of shards", "name"]), at("list page 0", begin, b"\xff"))
    add_list("sha256-outside", error(READ, ["list of shards", "page 0", "name"]), at("list page 0", first + 54, u16(1)))
    for name, (samples, blocks) in miscounted.items():
        lying = [("a.shard", dataclasses.replace(bare, twin=bare.twin | dict(sample_count=samples), entries=[(0,) * 6] * blocks))]
        add_list(f"shard-{name}", error(READ, ["list of shards", "page 0", "samples", "blocks"]), at("index payload", 8, u64(blocks) + u64(samples)),
                 shards=lying, keyed=False)
    add_list("bytes-after", error(READ, ["list of shards", "page 0", "bytes"]), at("list page 0", begin + 7, b"\1"))
    add_list("name-twice", error(READ, ["twice"]), shards=bare_pair * 2, whole=True)
    add_list("totals", error(READ, ["list of shards", "bytes"]), at("list payload", 24, u64(1)), whole=True, changes=dict(bytes=1))
    add_list("total-of-bytes", error(OPEN, ["manifest", "bytes"]), whole=True, changes=dict(bytes=1))
    # The manifest lists the shards, and the list in the segment says something else.
    for name, hook in (("name", at("list page 0", begin, b"b.shard")), ("bytes", lambda name, data: at("list payload", 24, u64(8))(
            name, at("list page 0", first + 16, u64(8))(name, data)))):
        add_list(f"differs-in-{name}", error(VALIDATE, ["list of shards", "shard 0"]), hook, whole=True, changes=dict(shards=[none]))
    add_list("differs-in-sha256", error(VALIDATE, ["list of shards", "shard 0"]), whole=True,
             changes=dict(shards=[none | dict(sha256=digits)]))
    return out


def table():
    """The table of README.md."""
    rows = ["| File | Class | Found by | Message contains |", "|---|---|---|---|"]
    for name, (_, wrong) in sorted(all_invalid().items()):
        words = ", ".join(f"`{fragment}`" for fragment in wrong["contains"])
        rows.append(f"| {name} | {wrong['class']} | {wrong['found_by']} | {words} |")
    return "\n".join(rows) + "\n"


def all_invalid():
    """{name: ({path suffix: bytes}, error)}."""
    out = {name: ({".shard": data}, wrong) for name, (data, wrong) in shards().items()}
    return out | datasets() | changed_datasets.invalid()
