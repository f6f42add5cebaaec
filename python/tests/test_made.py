"""Rows that a function makes of inputs, in the thread that packs, by threads, or by processes."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import collect_garbage

import shardkit as sk

PLACES: list[dict[str, Any]] = [
    {"workers": 0},
    {"workers": 1},
    {"workers": 3},
    {"workers": 1, "worker_kind": "process"},
    {"workers": 2, "worker_kind": "process"},
]
COUNTS = [3, 0, 1, 2, 700]


def counted(number: int) -> dict[str, Any] | None:
    """None for some inputs; slower for others."""
    if number % 50 == 3:
        time.sleep(0.002)
    return None if number % 5 == 4 else {"number": number, "array": np.full(3, number), "nested": {"a": [number]}}


def several(count: int) -> Iterator[dict[str, Any]]:
    for i in range(count):
        yield {"count": count, "i": i}


def fails(number: int) -> Any:
    if number == 9:
        return [number]
    if number in (40, 300):
        raise OSError(f"no disk {number}")
    return {"number": number}


def fails_inside(number: int) -> Iterator[dict[str, Any]]:
    yield {"number": number, "i": 0}
    if number == 5:
        raise OSError("no disk")
    yield {"number": number, "i": 1}


def dies(number: int) -> Any:
    if number == 400:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"number": number}


def unpassable(number: int) -> Any:
    return {"number": (lambda: number) if number == 2 else number}


def opened(number: int) -> Any:
    """As much memory as would show if all of it were held."""
    for i in range(200):
        yield {"number": number, "i": i, "blob": b"x" * (1 << 20)}


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("count", [0, 1, 2, 5, 600])
def test_rows_come_in_the_order_of_their_inputs(tmp_path: Path, where: dict[str, Any], count: int) -> None:
    rows = sk.rows(counted, (number for number in range(count)), **where)
    columns = {"number": "i64", "array": "i64[3]", "nested": "json"}
    report = sk.pack(rows, tmp_path / "out", allow_empty=True, columns=columns)
    expected = [i for i in range(count) if i % 5 != 4]
    assert (report.samples, report.packed, report.skipped) == (len(expected), len(expected), [])
    samples = list(sk.open(tmp_path / "out"))
    assert [sample["number"] for sample in samples] == expected
    assert [sample["key"] for sample in samples] == [f"{i:012d}" for i in expected]
    assert all((sample["array"] == sample["number"]).all() for sample in samples)
    assert all(sample["nested"] == {"a": [sample["number"]]} for sample in samples)
    # The same again, as an iterable.
    assert [row["number"] for row in sk.rows(counted, range(count), **where)] == expected


@pytest.mark.parametrize("where", PLACES)
def test_an_input_may_give_several_rows(tmp_path: Path, where: dict[str, Any]) -> None:
    report = sk.pack(sk.rows(several, COUNTS, **where), tmp_path / "out")
    expected = [(number, count, i) for number, count in enumerate(COUNTS) for i in range(count)]
    assert report.samples == len(expected)
    found = [(sample["key"], sample["count"], sample["i"]) for sample in sk.open(tmp_path / "out")]
    assert found == [(f"{number:012d}-{i:06d}", count, i) for number, count, i in expected]


@pytest.mark.parametrize("where", PLACES)
def test_failures_name_the_input(tmp_path: Path, where: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^row 9: a dict from column to value is wanted, not list$"):
        sk.pack(sk.rows(fails, range(20), **where), tmp_path / "out")
    inputs = [f"{i}" for i in range(10, 400)]
    with pytest.raises(sk.FunctionError, match=r"^of_text failed on input 30 \('40'\): OSError: no disk 40$") as caught:
        sk.pack(sk.rows(of_text, inputs, **where), tmp_path / "out")
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(sk.FunctionError, match=r"^of_text failed on input 289 \('300'\): OSError: no disk 300$"):
        sk.pack(sk.rows(of_text, [*inputs[:30], *inputs[31:]], **where), tmp_path / "out")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
    report = sk.pack(sk.rows(of_text, inputs, **where), tmp_path / "out", skip_errors=True)
    assert [(each.position, each.key) for each in report.skipped] == [(30, "'40'"), (290, "'300'")]
    assert "of_text failed on input 290 ('300'): OSError: no disk 300" in report.skipped[1].reason
    assert list(sk.open(tmp_path / "out").column("number")) == [i for i in range(10, 400) if i not in (40, 300)]
    with pytest.raises(sk.FunctionError, match=r"failed on input 0 \('x+\.\.\.\): ValueError"):
        sk.pack(sk.rows(of_text, ["x" * 1000], **where), tmp_path / "other")


def of_text(text: str) -> Any:
    return fails(int(text))


@pytest.mark.parametrize("where", PLACES)
def test_what_an_input_gave_before_it_failed_is_kept(tmp_path: Path, where: dict[str, Any]) -> None:
    report = sk.pack(sk.rows(fails_inside, range(8), **where), tmp_path / "out", skip_errors=True)
    assert [(each.position, each.key) for each in report.skipped] == [(5, "5")]
    found = [(sample["number"], sample["i"]) for sample in sk.open(tmp_path / "out")]
    assert found == [(n, i) for n in range(8) for i in range(2) if (n, i) != (5, 1)]


class Interrupted:
    """A function that notes its inputs, and is interrupted at one."""

    def __init__(self, at: int, times: int) -> None:
        self.at, self.times = at, times
        self.called: list[int] = []

    def __call__(self, number: int) -> Any:
        self.called.append(number)
        if number == self.at:
            raise KeyboardInterrupt
        if self.times == 1:
            return {"number": number, "i": 0}
        return ({"number": number, "i": i} for i in range(self.times))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("times", "shard"), [(1, 50), (7, 50), (1000, 300)])
def test_a_resumed_run_calls_with_inputs_that_are_not_stored(
    tmp_path: Path, workers: int, times: int, shard: int
) -> None:
    count = 2100 // times + 1
    options: dict[str, Any] = {"shard_samples": shard, "keep_on_cancel": True}
    whole = Interrupted(-1, times)
    sk.pack(sk.rows(whole, range(count), workers=0), tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        sk.pack(sk.rows(Interrupted(count - 1, times), range(count), workers=workers), tmp_path / "out", **options)
    again = Interrupted(-1, times)
    report = sk.pack(sk.rows(again, iter(range(count)), workers=workers), tmp_path / "out", resume=True, **options)
    assert report.samples == count * times
    assert 0 < report.packed < count * times
    begin = (report.samples - report.packed) // times
    assert set(range(begin, count)) <= set(again.called)
    ahead = 0 if workers == 0 else 2 * 5 * 64
    assert not [n for n in again.called if 256 // times + 1 + ahead <= n < begin]
    for shard_file in (tmp_path / "whole").glob("*.shard"):
        assert shard_file.read_bytes() == (tmp_path / "out" / shard_file.name).read_bytes()
    with pytest.raises(FileExistsError):
        sk.pack(sk.rows(again, range(count)), tmp_path / "out")


def test_the_skipped_of_all_runs_are_listed(tmp_path: Path) -> None:
    class Twice(Interrupted):
        def __call__(self, number: int) -> Any:
            if number in (10, 380):
                raise OSError("no disk")
            return super().__call__(number)

    options: dict[str, Any] = {"shard_samples": 50, "keep_on_cancel": True, "skip_errors": True}
    with pytest.raises(KeyboardInterrupt):
        sk.pack(sk.rows(Twice(350, 1), range(400), workers=0), tmp_path / "out", **options)
    report = sk.pack(sk.rows(Twice(-1, 1), range(400), workers=0), tmp_path / "out", resume=True, **options)
    assert [each.position for each in report.skipped] == [10, 380]
    assert report.samples == 398


def test_what_processes_cannot_do_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='worker_kind="process" needs workers'):
        sk.rows(counted, [], workers=0, worker_kind="process")
    with pytest.raises(ValueError, match="workers='many': give a number, or \"auto\""):
        sk.rows(counted, [], workers="many")
    with pytest.raises(TypeError, match=r"cannot be passed to other processes .*: give a function that a module"):
        sk.pack(sk.rows(lambda number: {"n": number}, range(5), worker_kind="process"), tmp_path / "out")
    with pytest.raises(sk.FunctionError, match=r"dies failed on .*input.*: a process of functions .* ended by SIGKILL"):
        sk.pack(sk.rows(dies, range(2000), workers=2, worker_kind="process"), tmp_path / "out")
    with pytest.raises(sk.FunctionError, match=r"unpassable failed on .*input.*lambda"):
        sk.pack(sk.rows(unpassable, range(5), workers=1, worker_kind="process"), tmp_path / "out")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("where", PLACES)
def test_memory_holds_some_rows_of_an_input(where: dict[str, Any]) -> None:
    begin = resident()
    taken = 0
    rows = iter(sk.rows(opened, range(20), **where))
    for _ in range(300):
        taken += len(next(rows)["blob"])
        assert resident() < begin + (700 << 20)
    assert taken == 300 << 20
    del rows


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("where", PLACES)
def test_threads_and_processes_end_with_the_rows(where: dict[str, Any]) -> None:
    collect_garbage()
    rows = iter(sk.rows(counted, range(2000), **where))
    assert next(rows)["number"] == 0
    del rows
    while [thread.name for thread in threading.enumerate() if thread.name.startswith("shardkit")]:
        time.sleep(0.001)  # the time limit of tests ends this


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0.01, 100])
def test_processes_end_with_the_program(tmp_path: Path, how: signal.Signals, seconds: float) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""
import os, time
import shardkit as sk
def ident(number):
    os.write(1, b'%d\\n' % os.getpid())
    if number > 300:
        time.sleep({seconds})
    return {{"number": number}}
if __name__ == "__main__":
    sk.pack(sk.rows(ident, range(10**9), workers=2, worker_kind="process"), {os.fspath(tmp_path / "out")!r})
""")
    running = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert running.stdout is not None
    idents: set[int] = set()
    with io.TextIOWrapper(running.stdout) as lines:
        for number, line in enumerate(lines):
            idents.add(int(line))
            if number > 300:
                break
        assert len(idents) == 2
        time.sleep(1)  # until they sleep, or have been at it for some time
        running.send_signal(how)
        running.wait(30)
    end = time.monotonic() + 20
    while alive := [ident for ident in idents if os.path.exists(f"/proc/{ident}")]:
        assert time.monotonic() < end, alive
        time.sleep(0.05)


def refilled(number: int) -> Iterator[dict[str, Any]]:
    row = {"number": number}
    for i in range(4):
        row["i"] = i
        yield row


def whole_refilled() -> Iterator[dict[str, Any]]:
    row: dict[str, Any] = {}
    for i in range(300):
        row["i"] = i
        yield row


@pytest.mark.parametrize("where", PLACES)
def test_a_dict_may_be_filled_again(tmp_path: Path, where: dict[str, Any]) -> None:
    sk.pack(sk.rows(refilled, range(3), **where), tmp_path / "out")
    assert [(row["number"], row["i"]) for row in sk.open(tmp_path / "out")] == [
        (n, i) for n in range(3) for i in range(4)
    ]


def test_a_dict_of_an_iterable_may_be_filled_again(tmp_path: Path) -> None:
    sk.pack(whole_refilled(), tmp_path / "out")
    assert list(sk.open(tmp_path / "out").column("i")) == list(range(300))


@pytest.mark.parametrize("where", PLACES[:3])
def test_inputs_that_were_looked_at_are_not_left_out(tmp_path: Path, where: dict[str, Any]) -> None:
    rows = sk.rows(fails, iter(range(9)), **where)
    assert next(iter(rows)) == {"number": 0}
    with pytest.raises(ValueError, match="an iterator, of which some were taken: make the rows again"):
        sk.pack(rows, tmp_path / "out")
    again = sk.rows(fails, range(9), **where)
    assert next(iter(again)) == {"number": 0}
    assert sk.pack(again, tmp_path / "out").samples == 9


@pytest.mark.parametrize("where", PLACES)
def test_an_error_of_the_inputs_comes_after_what_is_made(tmp_path: Path, where: dict[str, Any]) -> None:
    def inputs() -> Iterator[int]:
        yield from range(9)
        raise OSError("the list is gone")

    made: list[int] = []
    with pytest.raises(OSError, match="the list is gone"):
        made.extend(row["number"] for row in sk.rows(fails, inputs(), **where))
    assert made == list(range(9))


def test_an_input_has_a_place_for_so_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardkit._made._PART_BITS", 2)
    report = sk.pack(sk.rows(several, [3, 4, 2], workers=0), tmp_path / "out", skip_errors=True)
    assert [row["count"] for row in sk.open(tmp_path / "out")] == [3] * 3 + [4] * 3 + [2] * 2
    assert [(skipped.position, "more than 3 rows" in skipped.reason) for skipped in report.skipped] == [(1, True)]
