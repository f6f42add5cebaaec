"""A small writer of shards and datasets, made from spec.md and not from any reader; for golden files only.

Every piece passes through `hook(name, bytes)` before its checksum is made. make_invalid.py tampers there, so the
damage is reached behind right checksums.
"""
import base64
import dataclasses
import hashlib
import itertools
import json
import math
import struct

import xxhash
import zstandard

TYPES = dict(bytes=1, utf8=2, json=3, jpeg=4, png=5, image=6, i8=16, i16=17, i32=18, i64=19, u8=20, u16=21, u32=22,
             u64=23, f16=24, bf16=25, f32=26, f64=27, bool=28, f8e4m3=29, f8e5m2=30, complex64=31, ndarray=32, rle=33,
             complex128=64, timestamp_s=65, timestamp_ms=66, timestamp_us=67, timestamp_ns=68)
CODECS = dict(none=0, zstd=1)
PACK = dict(i8="b", i16="h", i32="i", i64="q", u8="B", u16="H", u32="I", u64="Q", f16="e", f32="f", f64="d", bool="?",
            bf16="H", f8e4m3="B", f8e5m2="B", complex64="ff", complex128="dd", timestamp_s="q", timestamp_ms="q", timestamp_us="q",
            timestamp_ns="q")
STORAGES = [None, "fixed", "inline", "blob", "paged"]
LARGE = 1024
# What each byte of an f8e4m3 is, from its table in the OCP specification: sign, 4 bits of exponent with a bias of 7, 3 bits
# of mantissa; no infinities.
E4M3 = [repr(math.copysign(m / 8 * 2.0**-6 if e == 0 else math.nan if (e, m) == (15, 7) else (1 + m / 8) * 2.0**(e - 7), sign))
        for sign in (1, -1) for e in range(16) for m in range(8)]


@dataclasses.dataclass
class Col:
    name: str
    type: str | int  # a number, with dtype, shape and storage, for one that readers do not know
    codec: str | int = "none"
    nullable: bool = False
    key: bool = False
    dtype: str | int | None = None
    shape: list | None = None
    value_size: int | None = None  # of a type that readers do not know
    storage: str | None = None  # paged, or what a later version would choose. Else what codec and size give, unless a file is to be wrong
    metadata: dict = dataclasses.field(default_factory=dict)
    stored: str | None = None  # of a dataset's column: the stored name, where it is another than the name

    def size(self):
        if self.value_size is not None:
            return self.value_size
        if self.type == "ndarray":
            return None if self.shape is None else scalar_size(self.dtype) * math.prod(self.shape)
        return scalar_size(self.type) if self.type in PACK else None

    def form(self):
        return self.storage or ("fixed" if self.size() is not None else "blob" if self.codec == "none" else "inline")

    def paged(self):
        return self.form() == "paged"

    def blob(self):
        return self.form() == "blob"

    def indexed(self):
        """Whether the offset index has the places of its records."""
        return self.blob() and self.codec == "none"

    def shaped(self):
        return self.type == "ndarray" or isinstance(self.type, int)

    def describe(self):
        out = dict(name=self.name) | ({} if self.stored is None else dict(stored=self.stored))
        out |= named("type", self.type, TYPES) | named("codec", self.codec, CODECS)
        out |= dict(nullable=self.nullable, key=self.key)
        out |= {} if self.size() is None else dict(value_size=self.size())
        out |= named("dtype", self.dtype, TYPES) | dict(shape=self.shape) if self.shaped() else {}
        return out | (dict(metadata=dict(sorted(self.metadata.items()))) if self.metadata else {})


def named(key, value, numbers):
    """As a manifest has it: a name and its number or, of one that readers do not know, the number alone."""
    return {key: value, f"{key}_number": numbers[value]} if value in numbers else {f"{key}_number": value}


@dataclasses.dataclass
class Masks:
    """An rle value: (height, width, runs) of each mask."""
    masks: list
    transform: int = 0


@dataclasses.dataclass
class Array:
    """An ndarray value."""
    shape: list
    flat: list


def xxh3(data):
    return xxhash.xxh3_64_intdigest(bytes(data))


def pad(data, a):
    return data + bytes(-len(data) % a)


def scalar_size(name):
    return struct.calcsize("<" + PACK[name])


def scalar(name, value):
    if name == "bf16":
        return struct.pack("<f", value)[2:]
    if name == "f8e5m2":
        return struct.pack("<e", value)[1:]
    if name == "f8e4m3":
        return bytes([E4M3.index(repr(float(value)))])
    if isinstance(value, complex):
        return struct.pack("<" + PACK[name], value.real, value.imag)
    return struct.pack("<" + PACK[name], value)


def leb128(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def encode(col, value):
    if isinstance(value, bytes):  # byte strings, and values that are to be wrong
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Masks):
        parts = [[h for h, _, _ in value.masks], [w for _, w, _ in value.masks], [len(r) for _, _, r in value.masks]]
        out = struct.pack("<IB3x", len(value.masks), value.transform)
        out += b"".join(struct.pack("<I", number) for part in parts for number in part)
        for height, _, runs in value.masks:
            for i, run in enumerate(runs):
                d = run - (height - runs[i - 1]) if i >= 2 else run
                out += leb128(((d << 1) ^ (d >> 63)) if value.transform else run)
        return out
    if isinstance(value, Array):
        data = b"".join(scalar(col.dtype, number) for number in value.flat)
        if col.shape is not None:
            return data
        return pad(struct.pack(f"<B7x{len(value.shape)}Q", len(value.shape), *value.shape) + data, 8)
    return scalar(col.type, value)


def number_twin(value):
    if isinstance(value, complex):
        return [number_twin(value.real), number_twin(value.imag)]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def twin(col, value):
    if value is None:
        return None
    raw = encode(col, value)
    if len(raw) > LARGE:
        return {"length": len(raw), "xxh3_64": f"{xxh3(raw):016x}"}
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Masks):
        return [{"size": [h, w], "counts": runs} for h, w, runs in value.masks]
    if isinstance(value, Array):
        return {"dtype": col.dtype, "shape": value.shape, "data": [number_twin(number) for number in value.flat]}
    return number_twin(value)


def encode_schema(columns):
    out = struct.pack("<H", len(columns))
    for col in columns:
        name = col.name.encode()
        rank = 0 if not col.shaped() else 255 if col.shape is None else len(col.shape)
        out += bytes([len(name)]) + name
        out += struct.pack("<HHBBBB", TYPES.get(col.type, col.type), TYPES.get(col.dtype, col.dtype or 0), CODECS.get(col.codec, col.codec),
                           STORAGES.index(col.form()), col.nullable + 2 * col.key, rank)
        out += b"".join(struct.pack("<Q", number) for number in ([col.size() or 0] if col.form() == "fixed" else []) + (col.shape or []))
        out += encode_metadata(col.metadata)
    return out


def encode_metadata(metadata):
    out = struct.pack("<I", len(metadata))
    for name, value in sorted((name.encode(), value.encode()) for name, value in metadata.items()):
        out += struct.pack("<I", len(name)) + name + struct.pack("<I", len(value)) + value
    return out


def numeric(col):
    """Whether the values have a range."""
    return col.type in PACK and "complex" not in col.type


def value_range(col, present):
    """range_kind, minimum and maximum as stored, and the two in the twin."""
    numbers = [int(v) if v is True or v is False else v for v in present if v == v] if numeric(col) else []
    kind = 0 if not numbers else 3 if "f" in col.type else 1 if col.type[0] in "it" else 2
    numbers.sort(key=lambda number: (number, math.copysign(1, number)))  # -0 before +0
    low, high = (numbers[0], numbers[-1]) if numbers else (None, None)
    ends = [struct.pack("<" + "qQd"[kind - 1], n) if kind else bytes(8) for n in (low, high)]
    return kind, b"".join(ends), dict(minimum=number_twin(low), maximum=number_twin(high))


def block_ranges(columns, part):
    """The section's bytes for one block of these samples, and their twin."""
    data, fields = b"", {}
    for col in filter(numeric, columns):
        present = [sample[col.name] for sample in part if sample.get(col.name) is not None]
        kind, ends, twin_ = value_range(col, present)
        data += struct.pack("<II", len(present), kind != 0) + ends
        fields[col.name] = dict(present_count=len(present)) | twin_
    return data, fields


def statistics(col, values, stored):
    """The section's bytes for one column, and their twin."""
    present = [value for value in values if value is not None]
    lengths = [len(encode(col, value)) for value in present]
    buckets = range(min(lengths).bit_length(), max(lengths).bit_length() + 1) if lengths else ()
    histogram = {k: sum(length.bit_length() == k for length in lengths) for k in buckets}
    kind, ends, range_twin = value_range(col, present)
    fields = dict(present_count=len(present), value_bytes=sum(lengths), stored_bytes=stored,
                  min_length=min(lengths, default=0), max_length=max(lengths, default=0))
    data = struct.pack("<5QII", *fields.values(), kind, 0) + ends + struct.pack(f"<{len(histogram)}Q", *histogram.values())
    fields |= range_twin | dict(length_histogram={str(k): count for k, count in histogram.items() if count})
    return data, fields


@dataclasses.dataclass
class Built:
    data: bytes
    at: dict      # piece -> offset
    twin: dict
    entries: list  # directory: (offset, block_length, front_length, first_sample, sample_count, header_checksum)
    hash: bytes
    columns: list
    record_places: list  # per block {column name: places in the file}


def frame(raw, level=3, dictionary=None):
    dictionary = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
    return zstandard.ZstdCompressor(level=level, write_content_size=True, write_dict_id=True,
                                    dict_data=dictionary).compress(raw)


def handmade_frame(raw, content_size=None, window=None, dictionary_id=None, checksum=None):
    """A Zstandard frame of raw and run-length blocks, the same under every version of the library: of a single segment,
    or with the window descriptor `window`; with `dictionary_id` in one byte; with a checksum, changed by `checksum`."""
    size = len(raw) if content_size is None else content_size
    descriptor = 0xC0 | (window is None) << 5 | (checksum is not None) << 2 | (dictionary_id is not None)
    out = struct.pack("<IB", 0xFD2FB528, descriptor)
    out += b"".join(bytes([field]) for field in (window, dictionary_id) if field is not None) + struct.pack("<Q", size)
    if len(set(raw)) == 1:
        out += (1 | 1 << 1 | len(raw) << 3).to_bytes(3, "little") + raw[:1]
    else:
        out += (1 | len(raw) << 3).to_bytes(3, "little") + raw
    return out if checksum is None else out + struct.pack("<I", (xxhash.xxh64_intdigest(raw) ^ checksum) & 0xFFFFFFFF)


def fill_pages(values):
    """How many values each page has."""
    counts, length = [], 0
    for value in values:
        size = len(value or b"")
        if counts and length + 2 + size <= 65536:
            counts[-1] += 1
            length += 2 + size
        else:
            counts.append(1)
            length = 8 + size
    return counts


def make_pages(values, counts, hook, name):
    """The pages and their table."""
    joined = table = b""
    first = 0
    for p, count in enumerate(counts):
        part = [value or b"" for value in values[first:first + count]]
        ends = [sum(map(len, part[:i + 1])) for i in range(count - 1)]
        body = hook(f"page {name} {p}", b"".join(part) + struct.pack(f"<{count - 1}H", *ends))
        joined += body + struct.pack("<Q", xxh3(body))
        table += struct.pack("<QII", len(joined), first, 0)
        first += count
    return joined, table


def divided(entries):
    """The pages that entries of a key table make: those of one hash in one page, if they fit one."""
    pages, page = [], []
    for k, entry in enumerate(entries):
        run = sum(1 for _ in itertools.takewhile(lambda other: other[0] == entry[0], entries[k:k + 4097]))
        begins = k == 0 or entries[k - 1][0] != entry[0]
        if len(page) == 4096 or page and begins and len(page) + run > 4096:
            pages, page = [*pages, page], []
        page.append(entry)
    return [*pages, page] if page else pages


def key_section(keys, hook=lambda name, data: data, divide=divided):
    """The section of these keys, in the order of their samples."""
    entries = hook("keys entries", sorted((xxh3(key.encode()), i) for i, key in enumerate(keys)))
    pages = [(page[0][0], b"".join(struct.pack("<QQ", *entry) for entry in page)) for page in divide(entries)]
    return 3, pages, struct.pack("<Q", len(entries))


def key_table(keys, hook=lambda name, data: data, divide=divided):
    return table([key_section(keys, hook, divide)], hook)


def build(columns, samples, blocks=None, alignment=64, metadata=None, dictionaries=None, encoders=None, minor=0,
          compatible=0, extra_sections=(), without=(), fill=fill_pages, hook=lambda name, data: data):
    """`blocks`: sample count of each. `encoders`: column name -> function from raw head chunk to (encoding, stored).
    `without`: kinds of sections to leave out."""
    metadata, dictionaries, encoders, at = metadata or {}, dictionaries or {}, encoders or {}, {}
    if blocks is None:
        blocks = [len(samples)] if samples else []
    schema = hook("schema", encode_schema(columns))
    header = struct.pack("<8sHHIIIIIIIQ24s", b"\x89SHK\r\n\x1a\n", 1, minor, 0, alignment, 0, compatible, len(schema),
                         len(dictionaries), 0, 0, f"Shardkit shard 1.{minor}".encode()) + schema
    for c, col in enumerate(columns):
        if col.name in dictionaries:
            header += struct.pack("<II", c, len(dictionaries[col.name])) + dictionaries[col.name]
    header = pad(header, 8)
    header = hook("header", header[:12] + struct.pack("<I", len(header) + 8) + header[16:])
    shard_id = None  # known when the first block is
    out = bytes(-(-(len(header) + 8) // alignment) * alignment)  # room for the header
    at["header"], entries, record_places, first, copies, ranges = 0, [], [], 0, b"", []
    stored_bytes = {col.name: 0 for col in columns}
    for k, count in enumerate(blocks):
        at[f"block {k}"] = len(out)
        part, begins_and_ends = samples[first:first + count], {}
        position, heads, values_chunks, pages, fields = 64 * (len(columns) + 1), b"", b"", b"", []
        for c, col in enumerate(columns):
            values = [None if sample.get(col.name) is None else encode(col, sample[col.name]) for sample in part]
            presence = sum(1 << i for i, value in enumerate(values) if value is not None)
            head = presence.to_bytes(-(-count // 64) * 8, "little") if col.nullable else b""
            if col.paged():
                joined, table = make_pages(values, fill(values), hook, f"{k} {c}")
                head += table
            elif col.size() is None:
                pieces = [b"" if v is None else v + struct.pack("<Q", xxh3(v)) if col.blob() else v for v in values]
                ends = [sum(map(len, pieces[:i + 1])) for i in range(count)]
                head += struct.pack(f"<{count}Q", *ends)
            else:
                pieces = [bytes(col.size()) if value is None else value for value in values]
            joined = hook(f"values {k} {c}", joined if col.paged() else b"".join(pieces))
            head = hook(f"head {k} {c}", head if col.blob() or col.paged() else head + joined)
            encoding, stored = encoders.get(col.name, lambda raw: (0, raw))(head)
            chunk = hook(f"chunk {k} {c}", pad(stored, 64))
            at[f"head {k} {c}"] = len(out) + position
            fields.append([position, len(stored), len(head), xxh3(chunk), 0, 0, 0, encoding])
            stored_bytes[col.name] += len(stored)
            position += len(chunk)
            heads += chunk
            if col.blob() or col.paged():
                chunk = hook(f"values chunk {k} {c}", pad(joined, 64))
                fields[c][4:7] = len(pages if col.paged() else values_chunks), len(joined), xxh3(chunk)
                stored_bytes[col.name] += len(joined)
            if col.paged():
                pages += chunk
            elif col.blob():
                values_chunks += chunk
                begins_and_ends[col.name] = (len(values_chunks) - len(chunk), ends)
        front = position
        entry_bytes = b""
        for c, col in enumerate(columns):
            if col.blob() or col.paged():
                fields[c][4] += front + (len(values_chunks) if col.paged() else 0)
                at[f"values {k} {c}"] = at[f"block {k}"] + fields[c][4]
            entry_bytes += hook(f"entry {k} {c}", struct.pack("<7QB7x", *fields[c]))
        shard_id = hook("shard id", identify(header, entry_bytes)) if shard_id is None else shard_id
        block = struct.pack("<8sIIQQQII8s", b"\x89BLK\r\n\x1a\n", 64 * (len(columns) + 1), len(columns),
                            front + len(values_chunks + pages), front, first, count, 0, shard_id) + entry_bytes
        block = hook(f"block {k}", block)
        block += struct.pack("<Q", xxh3(block)) + heads + values_chunks + pages
        block = hook(f"whole block {k}", block)
        head_length = 64 * (len(columns) + 1)
        checksum, = struct.unpack_from("<Q", block, head_length - 8)
        length, front, first_sample, stated_count = struct.unpack_from("<QQQI", block, 16)
        entries.append((len(out), length, front, first_sample, stated_count, checksum))
        base = len(out) + front
        record_places.append({name: [base + begin + end for end in [0, *ends]] for name, (begin, ends) in begins_and_ends.items()})
        copies += block[:head_length]
        ranges.append(block_ranges(columns, part))
        at[f"end {k}"] = len(out) + len(block)
        out = hook(f"pad {k}", pad(out + block, alignment))
        first += count
    shard_id = hook("shard id", identify(header, b"")) if shard_id is None else shard_id
    header = header[:40] + shard_id + header[48:]
    header += struct.pack("<Q", xxh3(header))
    padded = hook("pad header", pad(header, alignment))
    out = padded + out[len(padded):]
    footer_offset, table, section_count = len(out), b"", 0
    key = next((col.name for col in columns if col.key), None)
    tallies = {col.name: statistics(col, [s.get(col.name) for s in samples], stored_bytes[col.name]) for col in columns}
    meta = encode_metadata(metadata)
    sections = [(1, 0, b"".join(struct.pack("<QQQQIIQ", *entry[:5], 0, entry[5]) for entry in entries)),
                (2, 0, b"".join(data for data, _ in tallies.values())), (3, 0, meta), (5, 1, copies), (7, 1, header)]
    if key:
        sections.append((4, 0, key_table([sample[key] for sample in samples], hook)))
    if any(map(numeric, columns)) and all(col.type in TYPES for col in columns):
        sections.append((6, 1, b"".join(data for data, _ in ranges)))
    sections = [section for section in sections if section[0] not in without]
    for kind, flags, data in sorted([*sections, *extra_sections], reverse=True):
        data = hook(f"section {kind}", data)
        padded = hook(f"padded section {kind}", pad(data, 8))
        at[f"section {kind}"] = len(out)
        table += struct.pack("<IIQQQ", kind, flags, len(out), len(data), xxh3(padded))
        out += padded
        section_count += 1
    table = hook("table", table)
    at["table"], at["footer"] = len(out), footer_offset
    out += table
    at["trailer"] = len(out)
    content_hash = xxhash.xxh3_128_digest(header + copies)
    trailer = struct.pack("<QQIIQQQ16sQ8sQ", footer_offset, len(out) - footer_offset, section_count, 0, xxh3(table),
                          len(samples), len(blocks), content_hash, len(out) + 104, shard_id, 0)
    trailer = hook("trailer", trailer)
    out += trailer + struct.pack("<Q", xxh3(trailer)) + b"\x89END\r\n\x1a\n"
    twin_ = {
        "format": {"major": 1, "minor": minor, "alignment": alignment, "compatible_flags": compatible},
        "sample_count": len(samples), "file_length": len(out), "content_hash": content_hash.hex(),
        "columns": [col.describe() for col in columns],
        "dictionaries": {col.name: len(dictionaries[col.name]) for col in columns if col.name in dictionaries},
        "metadata": dict(sorted(metadata.items())),
        "statistics": {name: fields for name, (_, fields) in tallies.items()},
        "blocks": [dict(zip(("offset", "block_length", "front_length", "first_sample", "sample_count"), entry))
                   for entry in entries],
        "block_ranges": [fields for _, fields in ranges] if any(kind == 6 for kind, _, _ in sections) else None,
        "samples": [{col.name: twin(col, sample.get(col.name)) for col in columns if col.codec in CODECS} for sample in samples],
    }
    return Built(out, at, twin_, entries, content_hash, columns, record_places)


def identify(header, entries):
    """The id of a shard, of its header without checksum and with zero bytes in place of the id, and of the column entries of its first block."""
    return struct.pack("<Q", xxh3(header + entries))


def line(value):
    return json.dumps(value, ensure_ascii=False)


def shard_row(name, built, hashed=False):
    row = dict(name=name, bytes=len(built.data), samples=built.twin["sample_count"], blocks=len(built.entries),
               content_hash=built.hash.hex())
    return row | (dict(sha256=hashlib.sha256(built.data).hexdigest()) if hashed else {})


CREATE = dict(name="create", arguments={})


def manifest(columns, metadata, shards, /, hashed=(), **changes):
    """dataset.json of shards: (name, Built). Those named in `hashed` have a sha256. `changes` replace fields before the
    checksum is made; None leaves one out."""
    fields = dict(format="shardkit-dataset", version=1, features=[], generation=1, operation=CREATE,
                  samples=sum(b.twin["sample_count"] for _, b in shards), bytes=sum(len(b.data) for _, b in shards),
                  blocks=sum(len(b.entries) for _, b in shards), columns=[col.describe() for col in columns], dropped=None, metadata=metadata,
                  bases=None, segments=[segment(shards, data=segment_file(shards, hashed))] if shards else [],
                  column_files=None, removed=None,
                  shards=[shard_row(name, b, name in hashed) for name, b in shards]) | changes
    return manifest_text((key, value) for key, value in fields.items() if value is not None)


def manifest_text(fields):
    """Of (key, value), in their order."""
    rows = []
    for name, value in fields:
        if isinstance(value, list) and value and name != "dropped":
            rows.append(f'  "{name}": [\n' + ",\n".join("    " + line(item) for item in value) + "\n  ],\n")
        elif isinstance(value, dict) and value and name not in ("operation", "removed"):
            items = ",\n".join(f"    {line(key)}: {line(item)}" for key, item in value.items())
            rows.append(f'  "{name}": {{\n{items}\n  }},\n')
        else:
            rows.append(f'  "{name}": {line(value)},\n')
    return sealed(("{\n" + "".join(rows)).encode())


def sealed(body):
    """A manifest with its last lines."""
    return body + f'  "checksum": "{xxh3(body):016x}"\n}}\n'.encode()


SECTION_NAMES = {1: "index", 2: "list", 3: "keys", 4: "removed"}


def table(sections, hook=lambda name, data: data):
    """A table of checked pages (section 5.1). `sections`: kind, (first, bytes) of each page, at most 4096, and payload of each."""
    out, root = hook("table magic", b"\x89TBL\r\n\x1a\n"), b""
    sections = hook("table sections", sections)
    for kind, pages, payload in sections:
        name, fences = SECTION_NAMES[kind], b""
        for number, (first, page) in enumerate(pages):
            page = hook(f"{name} page {number}", page)
            fences += hook(f"{name} fence {number}", struct.pack("<3Q", first, len(out), xxh3(page)))
            out += page
        payload = hook(f"{name} payload", payload)
        root += hook(f"{name} header", struct.pack("<II3Q", kind, 0, len(pages), len(out), len(payload))) + fences + payload
    root = hook("table root", root)
    tail = hook("table tail", struct.pack("<IHH5Q", len(sections), 1, 0, len(root), len(out) + len(root) + 64, xxh3(root), 0, 0))
    return out + root + tail + struct.pack("<Q", xxh3(tail)) + b"\x89TBE\r\n\x1a\n"


def reference(name, data):
    """What the manifest says of a table with the bytes `data`."""
    root, = struct.unpack_from("<Q", data, len(data) - 56)
    return dict(name=name, bytes=len(data), root=root + 64, checksum=f"{struct.unpack_from('<Q', data, len(data) - 16)[0]:016x}")


def segment(shards, name="dataset.segment", data=None):
    """What the manifest says of a segment of `shards` whose file has the bytes `data`."""
    return dict(shards=len(shards), samples=sum(b.twin["sample_count"] for _, b in shards), blocks=sum(len(b.entries) for _, b in shards),
                table=reference(name, segment_file(shards) if data is None else data))


def segment_file(shards, hashed=(), keyed=True, hook=lambda name, data: data):
    """The segment file of shards: (name, Built); with a section of keys where they have some, unless it is not `keyed`."""
    keyed = keyed and any(col.key for col in shards[0][1].columns)
    return table([index(shards, hook), shard_list(shards, hashed), *([keys(shards, hook)] if keyed else [])], hook)


def removed_table(ordinals, count=None, hook=lambda name, data: data):
    """The list of removed samples, of which its root says that they are `count`."""
    pages = [ordinals[i:i + 8192] for i in range(0, len(ordinals), 8192)]
    pages = [(page[0], struct.pack(f"<{len(page)}Q", *page)) for page in pages]
    return table([(4, pages, struct.pack("<Q", len(ordinals) if count is None else count))], hook)


def column_file_row(name, built, *runs, hashed=False):
    """What the manifest says of a column file. `runs`: (sample, samples, begin) of each."""
    return shard_row(name, built, hashed) | dict(columns=[col.name for col in built.columns],
                                                 runs=[dict(zip(("sample", "samples", "begin"), run)) for run in runs])


def keys(shards, hook=lambda name, data: data):
    """The section of the keys of shards: (name, Built)."""
    column = next(col.name for col in shards[0][1].columns if col.key)
    return key_section([sample[column] for _, built in shards for sample in built.twin["samples"]], hook)


def index(shards, hook=lambda name, data: data):
    """The offset index of shards: (name, Built). Through `hook` pass, by the name "index layouts", the lists of columns, and, by the name
    "index blocks", the list of (fields but the last, places)."""
    layouts, blocks, samples = [], [], 0
    for s, (_, built) in enumerate(shards):
        indexed = [col.name for col in built.columns if col.indexed()]
        for (offset, length, front, _, count, checksum), places in zip(built.entries, built.record_places):
            if indexed not in layouts:
                layouts.append(indexed)
            fields = (offset, length, front, samples, count, s, checksum, layouts.index(indexed), 0)
            blocks.append((fields, [place for name in indexed for place in places[name]]))
            samples += count
    pages = [[]]
    for block in hook("index blocks", blocks):
        if pages[-1] and 8 + sum(64 + 8 * len(places) for _, places in [*pages[-1], block]) > 65536:
            pages.append([])
        pages[-1].append(block)
    encoded = []
    for page in filter(None, pages):
        head, tail, begin = struct.pack("<II", len(page), 0), b"", 8 + 64 * len(page)
        for fields, places in page:
            head += struct.pack("<4QIIQIIQ", *fields, begin + len(tail) if places else 0)
            tail += struct.pack(f"<{len(places)}Q", *places)
        encoded.append((page[0][0][3], head + tail))
    layouts = hook("index layouts", layouts)
    payload = struct.pack("<4QII", len(shards), len(blocks), samples, xxh3(b"".join(b.hash for _, b in shards)), len(layouts), 0)
    for layout in layouts:
        payload += struct.pack("<I", len(layout)) + b"".join(struct.pack("<I", len(name.encode())) + name.encode() for name in layout)
    return 1, encoded, pad(payload, 8)


def shard_list(shards, hashed=()):
    """The list of shards: (name, Built)."""
    rows, first, pages = [], 0, []
    for name, built in shards:
        digest = hashlib.sha256(built.data).digest() if name in hashed else b""
        samples = built.twin["sample_count"]
        rows.append((first, samples, len(built.data), len(built.entries), built.hash, name.encode(), digest))
        first += samples
    for begin in range(0, len(rows), 256):
        part = rows[begin:begin + 256]
        entries = texts = b""
        for *numbers, content_hash, name, digest in part:
            entries += struct.pack("<4Q16sIHH", *numbers, content_hash, 8 + 56 * len(part) + len(texts), len(name), bool(digest))
            texts += name + digest
        pages.append((part[0][0], pad(struct.pack("<II", len(part), 0) + entries + texts, 8)))
    return 2, pages, struct.pack("<4Q", len(rows), first, *(sum(row[k] for row in rows) for k in (3, 2)))
