#!/usr/bin/python3
"""Writes bytes.md, the worked examples, from the golden files they show."""
import os
import struct
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "bytes.md")


def rows():
    """(name of the piece, [(length, meaning)]) in the order of the file; a # stands for the number found there."""
    key = [(8, "ends: the value ends at#"), (3, 'value: "a/b"'), (53, "zero, to a multiple of 64")]
    entry = [(8, "offset"), (8, "stored_length"), (8, "raw_length"), (8, "checksum"), (8, "values_offset"),
             (8, "values_length"), (8, "values_checksum"), (1, "encoding: raw"), (7, "reserved")]
    statistics = [(8, "present_count"), (8, "value_bytes"), (8, "stored_bytes"), (8, "min_length"), (8, "max_length"),
                  (8, "range_kind: none; reserved"), (16, "minimum, maximum"), (8, "length_histogram: values of as many significant bits#")]
    return [
        ("Header", [(8, "magic"), (2, "major#"), (2, "minor#"), (4, "header_length#"), (4, "alignment#"),
                    (4, "incompatible_flags"), (4, "compatible_flags"), (4, "schema_length#"), (4, "dictionary_count#"),
                    (4, "reserved"), (8, "shard_id"), (24, 'specification "Shardkit shard 1.0"'), (2, "column_count#"), (4, 'name "key"'),
                    (8, "type utf8, dtype, codec zstd, storage inline, flags key, rank"), (4, "metadata#"), (5, 'name "data"'),
                    (8, "type bytes, dtype, codec none, storage blob, flags, rank"), (4, "metadata#"), (5, "pad"), (8, "checksum")]),
        ("Zero bytes up to the alignment", [(None, "")]),
        ("Block header", [(8, "magic"), (4, "header_length#"), (4, "column_count#"), (8, "block_length#"),
                          (8, "front_length#"), (8, "first_sample#"), (4, "sample_count#"), (4, "reserved"),
                          (8, "shard_id: the header's")] + [(n, "key: " + what) for n, what in entry] +
         [(n, "data: " + what) for n, what in entry] + [(8, "checksum")]),
        ("Head chunk of key", key),
        ("Head chunk of data", [(8, "ends: the record ends at#"), (56, "zero")]),
        ("Values chunk of data", [(13, 'value: "Hello, shard!"'), (8, "its checksum"), (43, "zero")]),
        ("Header copy", [(120, "the shard's header again, byte for byte")]),
        ("Block headers", [(192, "the block's header again, byte for byte")]),
        ("Key index", [(8, "magic of a table"), (8, 'page 0: hash of "a/b"'), (8, "page 0: ordinal#"), *section_rows(), (8, "fence of page 0: first, the hash of its first entry"),
                       (8, "offset#"), (8, "checksum"), (8, "payload: number of entries#"), *tail_rows()]),
        ("Metadata", [(4, "count#"), (4, "zero, to a multiple of 8")]),
        ("Statistics", [(n, "key: " + what) for n, what in statistics] + [(n, "data: " + what) for n, what in statistics]),
        ("Block directory", [(8, "offset#"), (8, "block_length#"), (8, "front_length#"), (8, "first_sample#"),
                             (4, "sample_count#"), (4, "reserved"), (8, "header_checksum")]),
        ("Section table", [(n, f"{name}: {what}") for name in ("header", "block headers", "key index", "metadata", "statistics", "block directory")
                           for n, what in ((8, "kind, flags"), (8, "offset"), (8, "length"), (8, "checksum"))]),
        ("Trailer", [(8, "footer_offset#"), (8, "footer_length#"), (4, "section_count#"), (4, "reserved"),
                     (8, "table_checksum"), (8, "sample_count#"), (8, "block_count#"), (16, "content_hash"),
                     (8, "file_length#"), (8, "shard_id"), (8, "reserved"), (8, "checksum"), (8, "magic")]),
    ]


def section_rows(what="section"):
    return [(4, f"{what}: kind#"), (4, "reserved"), (8, "page_count#"), (8, "pages_end#"), (8, "payload_length#")]


def fence_rows():
    return [(8, "fence of page 0: first#"), (8, "offset#"), (8, "checksum")]


def tail_rows():
    return [(4, "tail: section_count#"), (2, "major#"), (2, "minor#"), (8, "root_length#"), (8, "table_length#"),
            (8, "root_checksum"), (16, "reserved"), (8, "checksum"), (8, "magic")]


def segment_rows():
    """Those of the dataset's segment file."""
    block = [(8, "offset#"), (8, "block_length#"), (8, "front_length#"), (8, "first_sample#"), (4, "sample_count#"), (4, "shard#"),
             (8, "header_checksum"), (4, "layout#"), (4, "reserved"), (8, "places_begin#")]
    shard = [(8, "first_sample#"), (8, "samples#"), (8, "bytes#"), (8, "blocks#"), (16, "content_hash"), (4, "name_offset#"), (2, "name_length#"),
             (2, "flags")]
    return [
        ("Magic", [(8, "magic")]),
        ("Offset index, page 0", [(4, "block_count#"), (4, "zero")] + [(n, f"block {k}: {what}") for k in range(2) for n, what in block] +
         [(8, "block 0, data: the values chunk begins at#"), (8, "block 0, data: the record of sample 0 ends at#"),
          (8, "block 0, data: that of sample 1 ends at#"), (8, "block 1, data: the values chunk begins at#"),
          (8, "block 1, data: the record of sample 2 ends at#")]),
        ("List of shards, page 0", [(4, "shard_count#"), (4, "zero")] + [(n, f"shard {k}: {what}") for k in range(2) for n, what in shard] +
         [(7, 'name "0.shard"'), (7, 'name "1.shard"'), (2, "zero, to a multiple of 8")]),
        ("Keys, page 0", [row for k in range(3) for row in ((8, f"entry {k}: hash"), (8, "ordinal#"))]),
        ("Root", [*section_rows("offset index"), *fence_rows(), (8, "payload: shard_count#"), (8, "block_count#"), (8, "sample_count#"),
                  (8, "dataset_hash"), (4, "layout_count#"), (4, "zero"), (4, "layout 0: columns#"), (4, "length of the name#"), (4, 'name "data"'),
                  (4, "zero, to a multiple of 8"), *section_rows("list of shards"), *fence_rows(), (8, "payload: shard_count#"),
                  (8, "sample_count#"), (8, "block_count#"), (8, "bytes#"), *section_rows("keys"), (8, "fence of page 0: first, the hash of its first entry"),
                  (8, "offset#"), (8, "checksum"), (8, "payload: number of entries#")]),
        ("Tail", tail_rows()),
    ]


def dump(data):
    """Hex of a field: long ones are shortened, those of zeros to what is in them."""
    words = [data[i:i + 8] for i in range(0, len(data), 8)]
    if len(data) > 16 and all(map(any, words[:2])):
        return f"{words[0].hex(' ').upper()} … {words[-1].hex(' ').upper()}"
    if not any(data) and len(data) > 16:
        return f"00 × {len(data)}"
    if len(data) > 16:
        parts = [f"…, byte {8 * i}: {word.hex(' ').upper()}" for i, word in enumerate(words) if any(word)]
        return "00 " + ", ".join(parts) + ", … 00"
    return data.hex(" ").upper()


def load(path):
    with open(os.path.join(HERE, "valid", path), "rb") as file:
        return file.read()


def page():
    data = load("one-sample.shard")
    header_length, alignment = struct.unpack_from("<H2xI", data, 12)
    out = ["# A shard and a dataset, byte by byte\n\n[spec.md](spec.md) and [dataset.md](dataset.md) say what the fields mean.\n\n## A shard\n\n`golden/valid/one-sample.shard`: "
           f"one sample in {len(data)} bytes, alignment 64. Column\n`key` is utf8 of codec zstd, stored raw since so few "
           "bytes do not shrink; `data` is a blob column. The script\n`golden/make_hex_example.py` writes this page and "
           "a test compares it with the files.\n", tables(data, rows(), -header_length % alignment)]
    segment, manifest = load("tiny/dataset.segment"), load("tiny/dataset.json").decode()
    checksum_line = manifest.rindex('  "checksum"')
    ends = struct.unpack_from("<3Q", segment, 144)
    out += ["\n## A dataset of two shards\n\n`golden/valid/tiny`: two samples in `0.shard`, one in `1.shard`, with the columns of "
            f"the shard\nabove. Its `dataset.json`, of {len(manifest)} bytes, ends with a line feed:\n\n```json\n{manifest}```\n\n"
            "The checksum is that of all lines before its own, with their line feeds: bytes 0 to "
            f"{checksum_line}.\nIts `dataset.segment` has {len(segment)} bytes. The record of sample 0 lies from byte {ends[0]} of `0.shard`, where the "
            f"values chunk begins, to {ends[1]}, and\nthat of sample 1 from there to {ends[2]}.\n",
            tables(segment, segment_rows())]
    return "".join(out)


def tables(data, pieces, gap=0):
    """`gap`: bytes of the piece whose length is not in its row."""
    out, at = [], 0
    for title, fields in pieces:
        out.append(f"\n{title}\n\n| Offset | Bytes | Meaning |\n|---|---|---|\n")
        for length, meaning in fields:
            if length is None:
                length, meaning = gap, "zero"
            if meaning.endswith("#"):
                meaning = f"{meaning[:-1]} {int.from_bytes(data[at:at + length], 'little')}"
            out.append(f"| {at} | `{dump(data[at:at + length])}` | {meaning} |\n")
            at += length
    assert at == len(data), (at, len(data))
    return "".join(out)


def main():
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page())


if __name__ == "__main__":
    main()
