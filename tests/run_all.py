#!/usr/bin/python3
"""The tests of continuous integration, for tests/run --all. Continues after a failure. The last line counts everything.

Exit status, as of tests/run: 0 all passed, 1 a test failed, 3 something could not be built or installed.
"""
import os
import re
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Both fixed: what is tried depends on the change alone, neither on chance nor on the machine. tests/nightly searches.
FUZZ_RUNS = 300
FUZZ_SEED = 1
# Seconds after which a part does not begin: on a slow machine continuous integration ends before it is stopped. A part left out
# counts as one skipped test, and is in tests/nightly. The part for another processor takes six minutes, and finds little that the
# others do not: it runs where all is done within 40 minutes.
LATEST_START = 3000
LATEST_START_OF_AARCH64 = 2040


def run(command):
    """Runs a command and shows its output. Returns its exit status and the lines of its output."""
    print(f"\n== {' '.join(command)}", flush=True)
    start = time.monotonic()
    lines = []
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace")
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        lines.append(line.rstrip("\n"))
    status = process.wait()
    print(f"== {time.monotonic() - start:.0f} s", flush=True)
    return status, lines


def tests(arguments):
    """(passed, failed, skipped, exit status) of a run of tests/run."""
    status, lines = run(["tests/run", *arguments])
    counts = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", lines[-1]) if lines else None
    if counts is None:
        return 0, 1, 0, status or 1
    passed, failed, skipped = map(int, counts.groups())
    return passed, failed if status == 0 else max(failed, 1), skipped, status


class BuildsAhead:
    """Builds for the sanitizers that take what time of the processors the tests of the part before leave.

    A build that fails is made again by its part, which then says why.
    """

    def __init__(self, sanitizers):
        # Here, because two installations at once would wait for one another.
        run(["tools/install_dependencies", "build", "test", "python", "fuzz", "bench"])
        self._made = {name: threading.Event() for name in sanitizers}
        threading.Thread(target=self._make, daemon=True).start()

    def _make(self):
        for name, made in self._made.items():
            subprocess.run(["nice", "-n", "19", "tests/run", "--build-only", "--sanitize", name], cwd=ROOT, check=False,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            made.set()

    def wait(self, sanitizer):
        self._made[sanitizer].wait()


def fuzz():
    """The same for a short campaign, in which each target counts as a test."""
    status, lines = run(["fuzz/campaign", "--runs", str(FUZZ_RUNS), "--seed", str(FUZZ_SEED), "--build-dir", "build-asan"])
    rows = [line.split("|") for line in lines if re.match(r"\| \w+ +\| +\d", line)]
    failed = sum(int(row[-2]) != 0 for row in rows)
    if status != 0:
        failed = max(failed, 1)
    return max(len(rows) - failed, 0), failed, 0, status


def guard():
    """The same for the instructions of hot paths, each of which counts as a test."""
    status, lines = run(["bench/guard"])
    if status == 77:
        return 0, 0, 1, 0
    rows = [line for line in lines if re.search(r" [\d,]+ +(\d+\.\d{3}|nan)( |$)", line)]
    failed = sum(line.endswith("differs") for line in rows)
    if status != 0:
        failed = max(failed, 1)
    return len(rows) - failed, failed, 0, status


def main():
    start = time.monotonic()
    ahead = BuildsAhead(["address,undefined", "thread"])

    def sanitized(sanitizer):
        ahead.wait(sanitizer)
        return tests(["--sanitize", sanitizer, *sys.argv[1:]])

    parts = []
    for name, latest, part in (("tests", LATEST_START, lambda: tests(["--interop", *sys.argv[1:]])),
                               ("guard", LATEST_START, guard),
                               ("address", LATEST_START, lambda: sanitized("address,undefined")),
                               ("fuzz", LATEST_START, fuzz),
                               ("thread", LATEST_START, lambda: sanitized("thread")),
                               ("aarch64", LATEST_START_OF_AARCH64, lambda: tests(["--cross", "aarch64", *sys.argv[1:]]))):
        if time.monotonic() - start > latest:
            print(f"\n== {name}: left out, for {latest} s have passed; run tests/nightly {name}", flush=True)
            parts.append((0, 0, 1, 0))
        else:
            parts.append(part())
    passed, failed, skipped = (sum(part[i] for part in parts) for i in range(3))
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")
    return max(part[3] for part in parts)


if __name__ == "__main__":
    sys.exit(main())
