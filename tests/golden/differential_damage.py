"""Damage of shards, and what recovery finds in them. Part of differential.py, which see."""
import bisect
import struct

import reference_parts as P
import reference_reader as R
from differential_changes import checksum


def damage(rng, data, others):
    """What was done, and the bytes."""
    data, size = bytearray(data), len(data)
    kinds = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.choice(("flip", "flip", "cut", "zero", "random", "insert", "remove", "swap", "embed", "append", "tail"))
        at, length = rng.randrange(max(len(data), 1)), rng.choice((1, 8, 64, 512, 4096, rng.randrange(1, 2000)))
        kinds.append(kind)
        if kind == "flip" and data:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == "cut":
            del data[at:]
        elif kind == "tail":
            del data[-rng.choice((1, 8, 104, 200)):]
        elif kind in ("zero", "random"):
            end = min(at + length, len(data))
            data[at:end] = bytes(end - at) if kind == "zero" else rng.randbytes(end - at)
        elif kind == "insert":
            data[at:at] = rng.choice((bytes(length), rng.randbytes(length), rng.choice(others)))
        elif kind == "remove":
            del data[at:at + length]
        elif kind == "swap" and len(data) > 256:
            a, b = (64 * rng.randrange(len(data) // 64) for _ in range(2))
            length = min(length // 64 * 64 or 64, abs(a - b) or 64)
            data[a:a + length], data[b:b + length] = data[b:b + length], data[a:a + length]
            del data[size:]
        elif kind == "embed":  # another shard, or a part of it, over these bytes
            other = rng.choice(others)
            begin = 64 * rng.randrange(len(other) // 64)
            at = at // 64 * 64
            piece = other[begin:begin + rng.choice((len(other), 64 * rng.randrange(1, 40)))][:len(data) - at]
            data[at:at + len(piece)] = piece
        elif kind == "append":
            data += rng.choice(others)
    return " ".join(sorted(set(kinds))), bytes(data)


def parsed(data):
    try:
        return P.parse_header(data)
    except P.ShardError:
        return None


def recover_as_told(path):
    """As the reference reader, but also where a trailer tells how far bytes have moved and how many samples there were, and where only some of
    the sections before it are whole (recovery.md, parts 1 and 2). The blocks, and whether the footer is whole: if not, the library looks more widely."""
    data = R.map_file(path)
    size, sections, trailer = len(data), {}, data[-104:]
    if size < 104 or trailer[96:] != R.END_MAGIC or checksum(trailer[:88]) != trailer[88:96]:
        return R.recover(path)[1], False
    moved, count = size - int.from_bytes(trailer[64:72], "little"), int.from_bytes(trailer[16:20], "little")
    table = data[max(size - 104 - 32 * count, 0):size - 104]
    if checksum(table) == trailer[24:32] and len(table) == 32 * count:
        sections = {section.kind: section for section in (R.Section(*fields) for fields in struct.iter_unpack("<IIQQQ", table))}
    places = [0, moved, *(sections[R.HEADER].offset + shift for shift in (0, moved) if R.HEADER in sections)]
    begin, header = next(((place, header) for place in places if place <= size and (header := parsed(data[max(place, 0):]))), (0, None))
    begin = begin if begin == moved else 0
    if header is None or trailer[72:80] != struct.pack("<Q", header.shard_id) or moved > 0 and begin == 0 and data[moved:moved + 8] == P.SHARD_MAGIC:
        return R.recover(path)[1], False  # the end of another shard

    def section(kind, whole=True):
        for shift in (0, moved) if kind in sections else ():
            at, length = sections[kind].offset + shift, sections[kind].length
            found = data[max(at, 0):at + P.round_up(length, 8)]
            if not whole or checksum(found) == struct.pack("<Q", sections[kind].checksum):
                yield found[:length]
    directory = next(section(R.DIRECTORY), None)
    listed = {fields[-1]: fields[0] for fields in struct.iter_unpack("<QQQQIIQ", directory or b"")}
    places = sorted({size, *range(begin % 64 if begin < 0 else begin, size, 64), *(at + moved for at in listed.values())})
    found, place = [], places[0]
    while place < size:
        block = R.whole_block(data, header, place) if place >= 0 else []
        found += block
        place = place + block[0].length if block else places[bisect.bisect_right(places, place)]
    length = 64 * (len(header.columns) + 1)
    for wanted in set(listed) - {block.checksum for block in found}:
        for copies in section(R.BLOCK_HEADERS, False):
            for head in (copies[k:k + length] for k in range(0, len(copies) - length + 1, length)):
                if head[-8:] == struct.pack("<Q", wanted):
                    for at in (listed[wanted], listed[wanted] + moved):
                        found += R.whole_block(data, header, at, head) if at >= 0 else []
    blocks, sample = [], 0
    for block in sorted(found, key=lambda block: (block.first_sample, block.offset)):
        fits = sample <= block.first_sample and block.first_sample + block.sample_count <= int.from_bytes(trailer[32:40], "little")
        if listed.pop(block.checksum, None) is not None if directory is not None else fits:
            blocks.append(block)
            sample = block.first_sample + block.sample_count
    return blocks, moved == 0 and sections and all(any(section(kind)) for kind in sections)
