from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import shardkit as sk

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SECONDS = 120


@pytest.fixture(autouse=True)
def time_limit() -> Iterator[None]:
    """A test that hangs ends the program with the places of all threads."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the parent ignores it
    import faulthandler

    faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.__stderr__)
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

    def do_GET(self) -> None:
        path = self.root / self.path.lstrip("/")
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


@contextmanager
def served(folder: str, hang: threading.Event | None = None, sent: list[int] | None = None) -> Iterator[str]:
    """Serve a folder; the URL of it."""
    members = {"root": Path(folder), "hang": hang or threading.Event(), "sent": [] if sent is None else sent}
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
