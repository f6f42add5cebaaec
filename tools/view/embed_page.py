#!/usr/bin/env python3
"""Writes a C++ source with the bytes of files: embed_page.py OUTPUT FILE...

Standard library only. A file is a constant named after its base name.
"""
import os
import sys

PIECE = 12000  # bytes of one literal; compilers limit their length


def literal(data):
    """C++ string literals of the bytes, one after another."""
    lines = []
    for begin in range(0, len(data), PIECE):
        for row in range(begin, min(begin + PIECE, len(data)), 40):
            lines.append('"' + "".join(f"\\{byte:03o}" for byte in data[row:min(row + 40, begin + PIECE)]) + '"')
    return "\n    ".join(lines) or '""'


def main(output, files):
    entries = []
    for path in files:
        with open(path, "rb") as file:
            data = file.read()
        entries.append(f'    {{"{os.path.basename(path)}", std::string_view({literal(data)}, {len(data)})}},\n')
    with open(output, "w", encoding="utf-8") as file:
        file.write('#include "view/page.h"\n\nnamespace shardctl {\nnamespace {\n\nconstexpr PageFile kFiles[] = {\n'
                   + "".join(entries) + "};\n\n}  // namespace\n\n"
                   "std::span<const PageFile> PageFiles() { return kFiles; }\n\n}  // namespace shardctl\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
