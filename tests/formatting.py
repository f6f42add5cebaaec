#!/usr/bin/python3
"""Checks the format of the C++ and CUDA sources against .clang-format.

    tests/formatting.py            check; one line per file that differs, exit status 1
    tests/formatting.py --write    format them

Versions of clang-format differ in details, so only version 14 is used, which Debian 12 and Ubuntu 24.04 both have
(tools/install_dependencies test). Without it the check is skipped, and the last line says so.
"""
import concurrent.futures
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FORMATTER = "clang-format-14"
FOLDERS = ["bench", "examples", "format-spec", "fuzz", "lib", "python", "tests", "tools"]
SOURCES = (".h", ".cc", ".cu", ".cuh")


def files(endings):
    for folder in FOLDERS:
        for place, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if name.endswith(endings):
                    yield os.path.relpath(os.path.join(place, name), ROOT)


def differs(path):
    return subprocess.run([FORMATTER, "--dry-run", "-Werror", path], cwd=ROOT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0


def main():
    if sys.argv[1:] not in ([], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    if shutil.which(FORMATTER) is None:
        print(f"{FORMATTER} is not installed (tools/install_dependencies test)")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    sources = list(files(SOURCES))
    if sys.argv[1:]:
        return subprocess.run([FORMATTER, "-i", *sources], cwd=ROOT, check=False).returncode
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [path for path, differ in zip(sources, pool.map(differs, sources)) if differ]
    problems = [f"{path}: not as clang-format has it; run tests/formatting.py --write" for path in wrong]
    print("\n".join(problems + [f"{int(not problems)} passed, {int(bool(problems))} failed, 0 skipped"]))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
