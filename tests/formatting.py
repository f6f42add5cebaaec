#!/usr/bin/python3
"""Checks the format of the C++ and CUDA sources against .clang-format.

    tests/formatting.py            check; one line per file that differs, exit status 1
    tests/formatting.py --write    format them

Versions of clang-format differ in details, so only version 14 is used, which Debian 12 and Ubuntu 24.04 both have
(tools/install_dependencies test). Without it the check is skipped, and the last line says so.
"""
import os
import re
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


def problems_of(sources):
    """One line per file that differs. All in one process, for it takes longer to start than to read a file."""
    done = subprocess.run([FORMATTER, "--dry-run", "-Werror", *sources], cwd=ROOT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    wrong = dict.fromkeys(re.findall(r"^(\S+?):\d+:\d+: error: ", done.stderr, re.MULTILINE))
    problems = [f"{path}: not as clang-format has it; run tests/formatting.py --write" for path in wrong]
    return problems if problems or done.returncode == 0 else [done.stderr]


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
    problems = problems_of(sources)
    print("\n".join(problems + [f"{int(not problems)} passed, {int(bool(problems))} failed, 0 skipped"]))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
