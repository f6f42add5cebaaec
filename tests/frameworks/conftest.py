from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from harness import CONTEXT, SAMPLES, group_of

import shardkit as sk

PACKAGES = ("torch", "torchdata", "lightning", "accelerate", "transformers")
INTRODUCTION = """# Each sample once, under every framework

`tests/run --frameworks --output tests/frameworks/README.md` wrote this. Each cell is a training run of several epochs
that stops, and goes on in new processes with another number of ranks: 1, 2, 3, 5 and 1, over gloo. It passes when

- the steps of all its parts are those of a run of one process that is never stopped, each sample once in each epoch,
- the state of the data has at most 1 KB, and
- the loader delivers in each part what is trained on in it, and a few batches that are made ahead of the loop: nothing
  of the past is read to be skipped.

What is loaded is a column; or it goes through functions of Python that run ahead, or is chosen by a condition and
balanced, or is documents packed into rows of tokens.

Composer is not installed: a script makes the calls of its trainer. [docs/frameworks.md](../../docs/frameworks.md) says
what each framework needs, and `test_pitfalls.py` shows what happens without it.
"""
TABLE = pytest.StashKey[dict[str, dict[str, str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--table", metavar="FILE", help="write the results of the matrix to this file")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TABLE] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if call.when == "call" and "framework" in parameters:
        row = item.config.stash[TABLE].setdefault(parameters["framework"], {})
        stop, loads = parameters["stop"], parameters.get("loads", "a column")
        row[stop if loads == "a column" else f"{stop}, {loads}"] = report.outcome
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--table")
    if not path:
        return
    table = session.config.stash[TABLE]
    stops = list(dict.fromkeys(stop for row in table.values() for stop in row))
    lines = [f"| Stopped | {' | '.join(stops)} |", "|---" * (len(stops) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(row.get(stop, '') for stop in stops)} |" for name, row in table.items()]
    versions = [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in PACKAGES)]
    Path(path).write_text(f"{INTRODUCTION}\nWith {', '.join(versions)}.\n\n" + "\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = os.fspath(tmp_path_factory.mktemp("data") / "dataset")
    columns = {"label": "i64", "group": "i64", "tokens": "u32[]"}
    with sk.Writer(path, columns, max_block_samples=4, shard_samples=70) as writer:
        token = 0
        for i in range(SAMPLES):
            count = CONTEXT + (4 if i % 2 else -4)  # two documents fill two rows
            writer.write(
                f"key {i}", label=i, group=group_of(i), tokens=np.arange(token, token + count, dtype=np.uint32)
            )
            token += count
    return path
