"""Makes compressed_vectors.h: a shard compressed by the libraries that mosaicml-streaming compresses with, and its hashes.

    make_compressed_vectors.py > compressed_vectors.h

Needs Python's modules brotli, zstd, snappy (python-snappy) and xxhash, which mosaicml-streaming installs.
"""
import bz2
import gzip
import hashlib
import struct

import brotli
import snappy
import xxhash
import zstd


def shard():
    header = (b'{"column_encodings": ["int", "str"], "column_names": ["id", "text"], "column_sizes": [8, null], '
              b'"compression": null, "format": "mds", "hashes": [], "size_limit": 67108864, "version": 2}')
    samples = []
    for i in range(20):
        text = f"sample {i}".encode() + b"." * (i % 7)
        samples.append(struct.pack("<Iq", len(text), i) + text)
    begin = 4 + 4 * 21 + len(header)
    offsets = [begin + sum(map(len, samples[:i])) for i in range(21)]
    return struct.pack("<22I", 20, *offsets) + header + b"".join(samples)


def main():
    raw = shard()
    made = {"br": brotli.compress(raw, quality=11), "bz2": bz2.compress(raw, 9), "gz": gzip.compress(raw, 9, mtime=0),
            "snappy": snappy.compress(raw), "zstd": zstd.compress(raw, 3)}
    print("// Made by make_compressed_vectors.py: TextRows(20) in one shard.\n#pragma once\n")
    print("#include <string_view>\n\nnamespace shardkit::test {\n")
    print("struct NamedText {\n  std::string_view name;\n  std::string_view text;\n};\n")
    print("// Hexadecimal.\ninline constexpr NamedText kCompressedShards[] = {")
    for name, data in made.items():
        print(f'    {{"{name}",')
        digits = data.hex()
        lines = [digits[i:i + 100] for i in range(0, len(digits), 100)]
        print("\n".join(f'     "{line}"' for line in lines) + "},")
    print("};\n\n// Of the shard as it is.\ninline constexpr NamedText kShardHashes[] = {")
    for name in ("xxh32", "xxh64", "xxh3_64", "xxh128", "xxh3_128"):
        print(f'    {{"{name}", "{getattr(xxhash, name)(raw).hexdigest()}"}},')
    for name in ("md5", "sha1", "sha256", "sha512", "sha3_256", "blake2b", "blake2s"):
        print(f'    {{"{name}", "{getattr(hashlib, name)(raw).hexdigest()}"}},')
    print("};\n\n}  // namespace shardkit::test")


main()
