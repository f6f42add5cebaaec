from __future__ import annotations

import gc
import os
import re
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SECONDS = 120
STDERR = pytest.StashKey[int]()

# The least images of one pixel.
JPEG = bytes.fromhex(
    "ffd8ffdb004300" + "01" * 64 + "ffc0000b080001000101011100ffc40014000100000000000000000000000000000000"
    "ffc40014100100000000000000000000000000000000ffda0008010100003f003fffd9"
)
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c6360060000050004ebd3a5660000000049454e44ae426082"
)


def pytest_configure(config: pytest.Config) -> None:
    # While a test runs, what is printed goes to a file, which is lost when a hang ends the program.
    config.stash[STDERR] = os.dup(2)


@pytest.fixture(autouse=True)
def time_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that hangs ends the program with the places of all threads."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the parent ignores it
    import faulthandler

    faulthandler.dump_traceback_later(SECONDS, exit=True, file=request.config.stash[STDERR])
    yield
    faulthandler.cancel_dump_traceback_later()


def value(i: int) -> dict[str, object]:
    """The values of sample i, made of i alone."""
    random = np.random.default_rng(i)
    return {
        "label": i,
        "text": f"text {i}",
        "vector": np.arange(4, dtype=np.float32) + i,
        "array": random.integers(0, 255, (i % 3 + 1, 2), dtype=np.uint8),
        "masks": random.random((i % 4, 9, 11)) > 0.5,
        "blob": None if i % 5 == 0 else random.bytes(1500 + i),
    }


COLUMNS = {
    "label": "i64",
    "text": "utf8",
    "vector": "f32[4]",
    "array": "u8[]",
    "masks": "rle",
    "blob": "bytes?",
}


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    """200 samples in several shards and blocks."""
    path = os.fspath(tmp_path_factory.mktemp("data") / "dataset")
    with sk.Writer(path, COLUMNS, block_size="16KiB", shard_samples=70, metadata={"made": "here"}) as writer:
        for i in range(200):
            writer.write(f"key {i}", **value(i))
    return path


# A value of every type; those that are absent in some samples come after.
EVERY_TYPE: dict[str, Callable[[int], Any]] = {
    **{name: lambda i: i & 1 for name in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool")},
    **{name: lambda i: i / 4 for name in ("f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2", "complex64", "complex128")},
    **{f"timestamp_{unit}": lambda i: np.datetime64(i, "s") for unit in ("s", "ms", "us", "ns")},
    "utf8": lambda i: "grüße" * i,
    "json": lambda i: f'{{"a": {i}}}',
    "bytes": lambda i: bytes([i]) * i,
    "rle": lambda i: np.arange(i * 12).reshape(i, 3, 4) % (i + 2) == 0,
    "i32[3]": lambda i: np.arange(3) + i,
    "bf16[2, 2]": lambda i: np.full((2, 2), i / 2),
    "f32[0]": lambda i: np.zeros(0),
    "timestamp_s[2]": lambda i: np.array([i, -i], "M8[s]"),
    "u8[]": lambda i: np.arange(i * (2 if i % 2 else 6)).reshape((i, 2) if i % 2 else (i, 3, 2)),
    "f8e5m2[]": lambda i: np.arange(i) / 4,
    "jpeg": lambda i: JPEG,
    "png": lambda i: PNG,
    "image": lambda i: PNG if i % 2 else JPEG,
}


@pytest.fixture(scope="session")
def every_type(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Eight samples with columns of every type, named after it, and after that of which some values are absent."""
    path = os.fspath(tmp_path_factory.mktemp("data") / "types")
    kinds = [kind + end for kind in EVERY_TYPE for end in ("", "?")]
    with sk.Writer(path, {kind: kind for kind in kinds}, shard_samples=5) as writer:
        for i in range(8):
            there = {kind: EVERY_TYPE[kind](i) for kind in EVERY_TYPE}
            absent = {f"{kind}?": None if (i + n) % 3 == 0 else there[kind] for n, kind in enumerate(there)}
            writer.write(f"k{i}", **there, **absent)
    return path


def identical(a: Any, b: Any) -> bool:
    """Tell whether values are equal, and of one type."""
    if isinstance(a, (np.ndarray, np.generic)) and isinstance(b, (np.ndarray, np.generic)):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return type(a) is type(b) and bool(a == b)


@pytest.fixture
def data() -> Path:
    if not DATA.is_dir():
        pytest.skip("shared/data is not there")
    return DATA


class Ranges(BaseHTTPRequestHandler):
    """Serves the files of a folder, and ranges of them."""

    root: Path
    hang: threading.Event
    sent: list[int]  # bytes of each answer
    query: str  # what else is asked for is forbidden

    def do_GET(self) -> None:
        name, _, query = self.path.partition("?")
        if query != self.query:
            self.send_error(403)
            return
        path = self.root / name.lstrip("/")
        if not path.is_file():
            self.send_error(404)
            return
        if path.suffix == ".shard" and self.hang.is_set():
            threading.Event().wait(60)
        content = path.read_bytes()
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        assert match is not None
        begin, end = int(match[1]), min(int(match[2]) + 1, len(content))
        self.send_response(206)
        self.send_header("content-range", f"bytes {begin}-{end - 1}/{len(content)}")
        self.send_header("content-length", str(end - begin))
        self.send_header("etag", f'"{len(content)}"')
        self.end_headers()
        self.wfile.write(content[begin:end])
        self.sent.append(end - begin)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hang() -> threading.Event:
    """When it is set, shards are not answered."""
    return threading.Event()


class _Cycle:
    itself: _Cycle


def collect_garbage() -> None:
    """Collect garbage, also while another thread does, when `gc.collect` does nothing."""
    cycle = _Cycle()
    cycle.itself = cycle
    left = weakref.ref(cycle)
    del cycle
    while left() is not None:  # the time limit of tests ends this
        gc.collect()
        time.sleep(0.001)


@contextmanager
def served(
    folder: str, hang: threading.Event | None = None, sent: list[int] | None = None, query: str = ""
) -> Iterator[str]:
    """Serve a folder; the URL of it."""
    members = {
        "root": Path(folder),
        "hang": hang or threading.Event(),
        "sent": [] if sent is None else sent,
        "query": query,
    }
    handler = type("Handler", (Ranges,), members)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def url(dataset: str, hang: threading.Event) -> Iterator[str]:
    """The dataset behind a web server."""
    with served(dataset, hang) as origin:
        yield origin
