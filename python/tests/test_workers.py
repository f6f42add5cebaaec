"""Threads and processes that call functions of Python for a loader: how they end, and with what."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import collect_garbage
from test_functions import PLACES, batches, doubled

import shardkit as sk
from shardkit._workers import end_later

SAMPLES = 200


def crowd(label: Any) -> Any:
    return np.full((200, 300), label, np.float64)


def leaves(label: Any) -> Any:
    if label == 40:
        sys.exit(7)
    return label


def dies(label: Any) -> Any:
    if label == 40 and not os.path.exists(os.environ["SHARDKIT_TEST_DIED"]):
        Path(os.environ["SHARDKIT_TEST_DIED"]).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return label


def inside(label: Any) -> Any:
    return {"a": np.full(1000, label), "b": [np.full(10, label)]}


def test_threads_and_processes_end_with_their_loader(dataset: str) -> None:
    def ours() -> set[str]:
        return {thread.name for thread in threading.enumerate() if thread.name.startswith("shardkit")}

    def memory() -> list[str]:
        """What processes share, as files that are open and as maps."""
        files = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        links = [os.readlink(file) for file in files if os.path.islink(file)]
        return [
            each for each in [*links, *Path("/proc/self/maps").read_text().splitlines()] if "shardkit-samples" in each
        ]

    collect_garbage()
    assert ours() == set()
    for where in PLACES[1:]:
        for taken in (0, 2, SAMPLES):
            loader = sk.Loader(dataset, 10, columns={"label": doubled}, **where)
            assert len(list(itertools.islice(loader, taken))) == min(taken, 20)
            if taken == 2:
                list(loader)  # begins the epoch again, on the same workers
            del loader
            collect_garbage()
            while ours() or memory():  # the time limit of tests ends this
                time.sleep(0.001)


def test_a_process_that_dies_is_told_and_replaced(
    dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDKIT_TEST_DIED", os.fspath(tmp_path / "died"))
    # The server of forks has the environment that it was started with.
    code = f"""
import shardkit as sk, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_workers import dies
def main():
    loader = sk.Loader({dataset!r}, 20, order="sequential", columns={{"label": dies}}, workers=1, worker_kind="process")
    batches, made = iter(loader), []
    for _ in range(len(loader)):
        try:
            made.append(next(batches)["label"][0])
        except RuntimeError as error:
            print(error)
    print(*made)
if __name__ == "__main__":
    main()
"""
    program = tmp_path / "program.py"
    program.write_text(code)
    result = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=100, check=True)
    lines = result.stdout.splitlines()
    assert lines == [
        'a process of functions (worker_kind="process") was ended by SIGKILL, as the system does when memory is short',
        "0 20 60 80 100 120 140 160 180",
    ]


def test_a_program_without_a_guard_is_told_of_it(dataset: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""
import shardkit as sk
from shardkit._workers import end_later

def same(value): return value
loader = sk.Loader({dataset!r}, 20, columns={{"label": same}}, workers=1, worker_kind="process")
print(len(list(loader)))
""")
    result = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 1
    assert 'begins its work under `if __name__ == "__main__":`' in result.stderr


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0.01, 100])
def test_processes_end_with_the_program(dataset: str, tmp_path: Path, how: signal.Signals, seconds: float) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""
import os, sys, time
import shardkit as sk
from shardkit._workers import end_later

def ident(value):
    if value > 100:
        time.sleep({seconds})
    return os.getpid()
if __name__ == "__main__":
    columns = {{"label": ident}}
    loader = sk.Loader({dataset!r}, 8, columns=columns, order="sequential", workers=2, worker_kind="process")
    seen = set()
    while True:
        for batch in loader:
            seen |= set(batch["label"].tolist())
            if len(seen) == 2:
                print(*seen, flush=True)
                seen.add(0)
""")
    running = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert running.stdout is not None
    idents = [int(word) for word in running.stdout.readline().split()]
    assert len(idents) == 2
    if seconds > 1:
        time.sleep(1)  # until they sleep
    running.send_signal(how)
    running.wait(30)
    running.stdout.close()
    end = time.monotonic() + 20
    while alive := [ident for ident in idents if os.path.exists(f"/proc/{ident}")]:
        assert time.monotonic() < end, alive
        time.sleep(0.05)


def test_exceptions_that_end_a_program_end_it(dataset: str) -> None:
    for where in PLACES:
        loader = sk.Loader(dataset, 10, columns={"label": leaves}, order="sequential", **where)
        batches_ = iter(loader)
        assert [next(batches_)["label"][0] for _ in range(4)] == [0, 10, 20, 30]
        with pytest.raises(SystemExit) as caught:
            next(batches_)
        assert caught.value.code == 7


def test_large_values_go_between_processes(dataset: str) -> None:
    made = batches(dataset, 8, columns={"label": crowd}, workers=2, worker_kind="process")
    assert all((batch["label"] == batch.ordinals[:, None, None]).all() for batch in made)
    assert made[0]["label"].shape == (8, 200, 300)


def unpassable(label: Any) -> Any:
    return (lambda: label) if label == 40 else label


def test_results_that_cannot_be_passed_are_told(dataset: str) -> None:
    loader = sk.Loader(
        dataset,
        20,
        columns={"label": sk.Map(unpassable, collate="list")},
        order="sequential",
        workers=1,
        worker_kind="process",
    )
    batches_, made, told = iter(loader), [], []
    for _ in range(len(loader)):
        try:
            made.append(next(batches_)["label"][0])
        except Exception as error:
            told.append(str(error))
    assert len(told) == 1
    assert "lambda" in told[0]
    assert made == [0, 20, 60, 80, 100, 120, 140, 160, 180]


def test_a_loader_may_be_collected_in_a_thread_of_its_own(dataset: str) -> None:
    """Where garbage is collected, no thread of the loader may wait for itself."""
    loader = sk.Loader(dataset, 10, columns={"label": doubled}, workers=2)
    workers, running = loader._workers, loader._running
    assert workers is not None
    ended = threading.Event()

    def close(call: Any) -> None:
        with workers._lock:
            end_later([*running[0].end(), *workers.end()])
        ended.set()

    workers.add([close])
    assert ended.wait(60)


def test_loaders_that_end_in_a_collection_of_garbage(dataset: str) -> None:
    """A collection may run where this thread holds a lock that the threads of a loader take before they end."""
    stop = threading.Event()

    def looked_at() -> None:
        while not stop.is_set():
            threading.enumerate()

    looking = threading.Thread(target=looked_at)
    looking.start()
    before = gc.get_threshold()
    try:
        for threshold in (1, 50):
            gc.set_threshold(threshold, 1, 1)
            for _ in range(10):
                loader = sk.Loader(dataset, 10, columns={"label": doubled}, workers=2)
                next(iter(loader))
                loader.itself = loader  # type: ignore[attr-defined]
                del loader
    finally:
        gc.set_threshold(*before)
        stop.set()
    looking.join()


def test_arrays_inside_of_results_are_kept(dataset: str) -> None:
    made = batches(dataset, 20, columns={"label": sk.Map(inside, collate="list")}, workers=1, worker_kind="process")
    for batch in made:
        for i, result in zip(batch.ordinals, batch["label"], strict=True):
            assert (result["a"] == i).all()
            assert (result["b"][0] == i).all()
