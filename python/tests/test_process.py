from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import collect_garbage

import shardkit as sk


def in_child(function: object) -> int:
    """The exit status of a forked child that runs the function."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            function()  # type: ignore[operator]
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_pickled_by_path(dataset: str) -> None:
    samples = sk.open(dataset, columns=["text"])
    again = pickle.loads(pickle.dumps(samples))
    assert again[3] == samples[3]
    assert len(pickle.dumps(samples)) < 1000


def test_works_after_a_fork(dataset: str) -> None:
    samples = sk.open(dataset)
    assert samples[3]["text"] == "text 3"

    def read() -> None:
        assert samples[4]["text"] == "text 4"
        assert samples["key 7"]["label"] == 7
        assert sum(len(block) for block in samples.scan(threads=2)) == 200

    assert in_child(read) == 0
    assert samples[5]["text"] == "text 5"


def test_works_after_a_fork_while_threads_read(dataset: str) -> None:
    samples = sk.open(dataset)
    stop = threading.Event()

    def read_on() -> None:
        i = 0
        while not stop.is_set():
            assert samples[i % 200]["label"] == i % 200
            i += 1

    threads = [threading.Thread(target=read_on) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for i in range(30):

            def read(i: int = i) -> None:
                assert samples[i]["label"] == i

            assert in_child(read) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def label(arguments: tuple[sk.Dataset, int]) -> int:
    samples, i = arguments
    return int(samples[i]["label"])


def test_a_child_collects_what_the_parent_has_not(dataset: str) -> None:
    script = """
import gc, os, sys
os.register_at_fork(after_in_child=gc.collect)  # before Shardkit's own
import shardkit as sk
gc.disable()
loader = sk.Loader(sys.argv[1], 8)
batch = next(iter(loader))
cycle = [loader, batch]
cycle.append(cycle)
del loader, batch, cycle
for _ in range(3):
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
assert gc.collect() > 0
"""
    subprocess.run([sys.executable, "-c", script, dataset], check=True, timeout=60)


def test_spawned_and_forked_pools(dataset: str) -> None:
    samples = sk.open(dataset)
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(label, [(samples, i) for i in range(20)]) == list(range(20))


# Programs and the status they end with. DAEMON runs a function again and again beside the end of the program.
LOADER = "loader = sk.Loader(path, 8, columns=['label'])\n"
DAEMON = """
begun = threading.Event()
def again(function):
    while True:
        function()
        begun.set()
def daemon(function):
    threading.Thread(target=again, args=[function], daemon=True).start()
    begun.wait()
"""
EXITS = {
    "an iteration goes on": (LOADER + "iterator = iter(loader); next(iterator)", 0),
    "batches are alive": (LOADER + "batches = list(loader); labels = [batch['label'] for batch in batches]", 0),
    "sys.exit in the loop": (LOADER + "for batch in loader: sys.exit(3)", 3),
    "an exception in the loop": (LOADER + "for batch in loader: raise SystemExit(4)", 4),
    "SIGTERM": (LOADER + "for batch in loader: os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    "SIGTERM with a handler": (
        LOADER + "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "for batch in loader: os.kill(os.getpid(), signal.SIGTERM)",
        5,
    ),
    "SIGINT": (
        LOADER + "signal.signal(signal.SIGINT, lambda *_: sys.exit(6))\n"
        "for batch in loader: os.kill(os.getpid(), signal.SIGINT)",
        6,
    ),
    "batch_function raises": ("for batch in sk.Loader(path, 8, batch_function=lambda batch: sys.exit(7)): pass", 7),
    "atexit asks for a batch": (LOADER + "iterator = iter(loader); atexit.register(lambda: next(iterator))", 0),
    "a cycle": (LOADER + "iterator = iter(loader); next(iterator); cycle = [loader, iterator]; cycle.append(cycle)", 0),
    "an unfinished writer": ("writer = sk.Writer(path + '.new', {'a': 'i64'}); writer.write('k', a=1)", 0),
    "a fork, with functions": (
        "loader = sk.Loader(path, 8, batch_function=len); iterator = iter(loader); next(iterator); child = os.fork()\n"
        "if child: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))",
        0,
    ),
    "a fork": (
        LOADER + "iterator = iter(loader); next(iterator); child = os.fork()\n"
        "if child: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))",
        0,
    ),
    "a daemon iterates": (LOADER + DAEMON + "daemon(lambda: [batch['label'] for batch in loader])", 0),
    "a daemon makes loaders": (DAEMON + "daemon(lambda: next(iter(sk.Loader(path, 8))))", 0),
    "daemons read and scan": (
        DAEMON + "samples = sk.open(path)\n"
        "daemon(lambda: [samples[i] for i in range(200)]); begun.clear()\n"
        "daemon(lambda: [block['label'] for block in samples.scan()])",
        0,
    ),
    "a daemon validates": (DAEMON + "daemon(lambda: sk.validate(path, progress=lambda done, total: None))", 0),
    "a daemon adds columns": (
        DAEMON + "daemon(lambda: sk.add_columns(path, ({'n': i} for i in range(200))))",
        0,
    ),
    "a daemon writes": (
        DAEMON + "writer = sk.Writer(path + '.new', {'a': 'i64'}); numbers = iter(range(1 << 60))\n"
        "daemon(lambda: writer.write(str(next(numbers)), a=1))",
        0,
    ),
}


@pytest.mark.parametrize("name", EXITS)
def test_programs_end(name: str, tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "dataset")
    with sk.Writer(path, {"label": "i64"}, block_size="1KiB", shard_samples=70) as writer:
        for i in range(200):
            writer.write(f"key {i}", label=i)
    program, status = EXITS[name]
    imports = "import atexit, os, signal, sys, threading\nimport shardkit as sk\npath = sys.argv[1]\n"
    # From Python 3.12 on, os.fork() warns of threads.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", imports + program, path]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (status, "")


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def begun(iterable: Iterable[Any]) -> Any:
    """What is iterated, and its first element, while the rest is still to come."""
    iterator = iter(iterable)
    return iterable, iterator, next(iterator)


def torch_kind(name: str, **options: Any) -> Callable[[str], Any]:
    return lambda path: getattr(pytest.importorskip("shardkit.torch"), name)(path, columns=["label"], **options)


KINDS: dict[str, Callable[[str], Any]] = {
    "Loader": lambda path: begun(sk.Loader(path, 8)),
    "Loader, not iterated": lambda path: sk.Loader(path, 8),
    "Loader, whole epoch": lambda path: list(sk.Loader(path, 8)),
    "Loader, follow": lambda path: begun(sk.Loader(path, 8, follow=True)),
    "Loader, functions": lambda path: begun(
        sk.Loader(path, 8, columns={"label": lambda value: value}, batch_function=lambda batch: batch["label"])
    ),
    "Loader, epochs": lambda path: begun(sk.Loader(path, 8).epochs(2)),
    "Dataset": lambda path: (sk.open(path), sk.open(path)[3]),
    "scan": lambda path: begun(sk.open(path).scan(threads=2)),
    "keys": lambda path: begun(sk.open(path).keys()),
    "Writer": lambda path: sk.Writer(f"{path}.{time.monotonic_ns()}", {"a": "i64"}, threads=2),
    "plan": lambda path: (sk.plan(path, 8), sk.simulate(path, global_batch_size=8)),
    "validate": lambda path: sk.validate(path, threads=2),
    "torch.Loader": lambda path: begun(torch_kind("Loader", batch_size=8)(path)),
    "torch.Loader, not iterated": torch_kind("Loader"),
    "torch.Loader, sampler": lambda path: torch_kind("Loader")(path).sampler,
    "torch.Loader, stage": lambda path: begun(torch_kind("Loader", device="emulated")(path)),
    "torch.StepLoader": lambda path: begun(
        pytest.importorskip("shardkit.torch").StepLoader(torch_kind("Loader", batch_size=8)(path))
    ),
    "torch.IterableDataset": lambda path: begun(torch_kind("IterableDataset")(path)),
    "torch.Dataset": lambda path: (dataset := torch_kind("Dataset")(path), dataset[3]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_threads_end_with_the_last_reference(kind: str, dataset: str) -> None:
    KINDS[kind](dataset)  # starts what the process keeps
    collect_garbage()
    gc.disable()
    try:
        before = threads()
        for _ in range(3):
            made = KINDS[kind](dataset)
            del made
        end = time.monotonic() + 20  # the system forgets a thread a little after Python has joined it
        while threads() > before:  # fewer, where one of what was made first had not ended yet
            assert time.monotonic() < end, (threads(), before)
            time.sleep(0.01)
    finally:
        gc.enable()


# What is made with a relative path, and what is done with it after the process has changed its directory.
AFTER_CHDIR: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "Dataset": (lambda: sk.open("ds"), lambda made: [made[i]["label"] for i in (0, 199)]),
    "key": (lambda: sk.open("ds"), lambda made: made["key 199"]["label"]),
    "keys": (lambda: sk.open("ds"), lambda made: list(made.keys())),
    "scan": (lambda: sk.open("ds"), lambda made: [len(block) for block in made.scan()]),
    "pickled": (lambda: pickle.dumps(sk.open("ds")), lambda made: pickle.loads(made)[199]["label"]),
    "shard": (lambda: sk.open("ds/00000001.shard"), lambda made: made[69]["label"]),
    "Loader": (lambda: begun(sk.Loader("ds", 50, columns=["label"]))[0], lambda made: len(list(made))),
    "follow": (lambda: sk.Loader("ds", 50, follow=True), lambda made: [len(list(made)) for _ in range(2)]),
    "state": (
        lambda: sk.Loader([sk.LoaderDataset("ds")], 50),
        lambda made: (made.load_state_dict(made.state_dict()), len(list(made))),
    ),
    "Writer": (lambda: sk.Writer("new", {"a": "i64"}), lambda made: (made.write("k", a=1), made.close())),
    "torch.Dataset": (lambda: torch_kind("Dataset")("ds"), lambda made: made[199]["label"]),
    "torch.IterableDataset": (lambda: torch_kind("IterableDataset")("ds"), lambda made: len(list(made))),
    "torch.IterableDataset, pickled": (
        lambda: pickle.dumps(torch_kind("IterableDataset")("ds")),
        lambda made: len(list(pickle.loads(made))),
    ),
}


@pytest.mark.parametrize("name", AFTER_CHDIR)
def test_paths_hold_after_chdir(name: str, dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ds").symlink_to(dataset)
    (tmp_path / "elsewhere").mkdir()
    make, use = AFTER_CHDIR[name]
    monkeypatch.chdir(tmp_path)
    here = use(make())
    shutil.rmtree("new", ignore_errors=True)
    made = make()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert use(made) == here
    assert os.listdir() == []


def in_program(program: str, *arguments: str, **environment: str) -> str:
    """What a program prints."""
    command = [sys.executable, "-c", f"import os, resource, sys\nimport shardkit as sk\n{program}", *arguments]
    ended = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )
    return ended.stdout


THREADS = """
loader = sk.Loader(sys.argv[1], 8)
next(iter(loader))
print(loader.report().decode.threads)
"""


def test_threads_are_for_what_the_process_may_use(dataset: str) -> None:
    one = f"os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\n"
    assert in_program(one + THREADS, dataset) == "1\n"
    assert in_program(THREADS, dataset, LOCAL_WORLD_SIZE="1000000") == "1\n"


@pytest.fixture(scope="module")
def many_shards(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = os.fspath(tmp_path_factory.mktemp("data") / "many")
    with sk.Writer(path, {"label": "i64", "blob": "bytes"}, shard_samples=1) as writer:
        for i in range(150):
            writer.write(f"key {i}", label=i, blob=bytes([i]) * 2000)
    return path


LIMIT = "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\n"


@pytest.mark.parametrize("mode", ["auto", "buffered", "mapped", "direct"])
def test_more_shards_than_files_may_be_open(many_shards: str, mode: str) -> None:
    program = f"""
datasets = [sk.open(sys.argv[1], mode="{mode}") for _ in range(5)]
for _ in range(2):
    for samples in datasets:
        assert [samples[i]["label"] for i in range(150)] == list(range(150))
        assert sum(len(block) for block in samples.scan(threads=2)) == 150
    assert len(os.listdir("/proc/self/fd")) < 90
if "{mode}" != "mapped":  # a block in memory keeps its map
    assert sum(len(batch) for batch in sk.Loader([sys.argv[1]] * 5, 10, mode="{mode}")) == 750
# Also where the rest of the program has taken what was left.
others = []
while len(os.listdir("/proc/self/fd")) < 99:
    others.append(os.open("/dev/null", os.O_RDONLY))
assert [samples[i]["label"] for i in range(150)] == list(range(150))
"""
    in_program(LIMIT + program, many_shards)


def test_errors_of_the_system_have_their_number(many_shards: str, tmp_path: Path) -> None:
    program = """
import errno
others = []
def error(function):
    try:
        function()
    except OSError as caught:
        return errno.errorcode[caught.errno], type(caught).__name__
while True:
    try:
        others.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        break
print(error(lambda: sk.open(sys.argv[1])))
for each in others:
    os.close(each)
print(error(lambda: sk.open("/dev/null/x")))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def write():
    with sk.Writer(sys.argv[2], {"a": "bytes"}) as writer:
        for i in range(100):
            writer.write(f"k{i}", a=os.urandom(1 << 20))
print(error(write))
"""
    lines = in_program(LIMIT + program, many_shards, os.fspath(tmp_path / "new")).splitlines()
    assert lines == ["('EMFILE', 'OSError')", "('ENOTDIR', 'FileNotFoundError')", "('EFBIG', 'OSError')"]
