"""Runs webdataset's own tests with `shardkit.wds` in its place, and prints a table of what passes.

    tests/frameworks/wds_upstream.py CHECKOUT [pytest's options]

CHECKOUT is a folder with the tests and testdata of webdataset 1.0.2. A copy of them runs; the import is what changes.
Needs pytest, torch, Pillow, msgpack and imageio. Their large test file is made here where the checkout lacks it. Tests
that read the network fail without one.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from shardkit import wds

# webdataset.filters has stages as functions of the stream with a line in front of their names.
FILTERS = """
import shardkit.wds as wds
from shardkit.wds import default_collation_fn


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda data, *args, **kw: iter(wds.DataPipeline(lambda: data, getattr(wds, name[1:])(*args, **kw)))
"""


def copied(checkout: Path, target: Path) -> None:
    """Copy the tests, with the import replaced, and their data."""
    shutil.copytree(checkout / "testdata", target / "testdata")
    (target / "tests").mkdir()
    (target / "tests" / "filters.py").write_text(FILTERS)
    for path in sorted((checkout / "tests").glob("*.py")):
        text = path.read_text()
        text = re.sub(r"^( *)import webdataset as wds", r"\1import shardkit.wds as wds", text, flags=re.MULTILINE)
        text = re.sub(r"^( *)from webdataset import ([a-z_, ]+)$", _modules, text, flags=re.MULTILINE)
        text = re.sub(r"^( *)from webdataset\.filters import", r"\1from tests.filters import", text, flags=re.MULTILINE)
        text = re.sub(r"^( *)from webdataset(\.\w+)? import", r"\1from shardkit.wds import", text, flags=re.MULTILINE)
        (target / "tests" / path.name).write_text(text)
    if not (target / "testdata" / "imagenet-000000.tgz").exists():
        with wds.TarWriter(target / "testdata" / "imagenet-000000.tgz") as writer:
            for i in range(47):
                size = (793, 600, 3) if i == 0 else (40, 30, 3)
                pixels = np.full(size, i, np.uint8)
                writer.write({"__key__": str(i), "png": pixels, "cls": i % 7, "wnid": f"n{i}", "xml": f"<a>{i}</a>"})


def _modules(match: re.Match[str]) -> str:
    """Return the import of modules of webdataset, whose names are in shardkit.wds where they are here."""
    return "\n".join(f"{match[1]}import shardkit.wds as {name}" for name in re.split(r", *", match[2]))


class Results:
    """Counts the outcomes of each file."""

    def __init__(self) -> None:
        self.files: dict[str, Counter[str]] = {}
        self.failed: list[str] = []

    def _count(self, name: str, outcome: str) -> None:
        self.files.setdefault(name, Counter())[outcome] += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
            name = os.path.basename(report.location[0])
            self._count(name, report.outcome)
            if report.outcome == "failed":
                reason = str(getattr(getattr(report.longrepr, "reprcrash", None), "message", "")).splitlines()
                self.failed.append(f"{name}::{report.location[2]}: {reason[0][:160] if reason else ''}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E ")]
            name = os.path.basename(report.nodeid)
            self._count(name, "not imported")
            self.failed.append(f"{name}: {lines[-1][1:].strip()[:200] if lines else ''}")


def main() -> int:
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "tests").is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    results = Results()
    with tempfile.TemporaryDirectory() as folder:
        copied(Path(sys.argv[1]), Path(folder))
        os.chdir(folder)
        sys.path.insert(0, folder)
        options = ["-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
        with open("output", "w") as output:
            kept = os.dup(1)
            os.dup2(output.fileno(), 1)
            pytest.main([*options, *sys.argv[2:], "tests"], plugins=[results])
            sys.stdout.flush()
            os.dup2(kept, 1)
        os.chdir("/")
    print("| File | passed | failed |\n|---|---|---|")
    for name, counts in sorted(results.files.items()):
        print(f"| {name} | {counts['passed']} | {counts['failed'] or 'not imported' * bool(counts['not imported'])} |")
    print(*results.failed, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
