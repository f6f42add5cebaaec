from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import served

import shardkit as sk


def test_reads_as_from_disk(dataset: str, url: str) -> None:
    local, remote = sk.open(dataset), sk.open(url)
    assert len(remote) == len(local)
    assert list(remote.keys()) == list(local.keys())
    assert remote["key 7"]["text"] == "text 7"
    assert remote[3]["blob"] == local[3]["blob"]
    np.testing.assert_array_equal(remote[5]["masks"].dense(), local[5]["masks"].dense())
    labels = np.concatenate([block["label"].copy() for block in remote.scan(threads=2)])
    assert labels.tolist() == list(range(len(local)))
    steps = zip(sk.plan(url, 16, seed=1).epoch(), sk.plan(dataset, 16, seed=1).epoch(), strict=True)
    assert all(a.tolist() == b.tolist() for a, b in steps)
    with pytest.raises(FileNotFoundError, match="/missing"):
        sk.open(url + "/missing")


def test_filters_as_from_disk(dataset: str, url: str, tmp_path: Path) -> None:
    where = "label >= 100 and any(vector > 180) and blob is not null"
    for source, name in ((dataset, "local"), (url, "remote")):
        sk.filter(source, tmp_path / name, where=where, threads=2)
        sk.split(source, tmp_path / f"{name}-parts", {"train": 0.5, "val": 0.25})
    for made in ("", "-parts/train", "-parts/val"):
        local, remote = tmp_path / f"local{made}", tmp_path / f"remote{made}"
        names = sorted(file.name for file in local.iterdir())
        assert names == sorted(file.name for file in remote.iterdir())
        for name in names:
            if name != ".shardkit":  # its job has the path of the input
                assert (local / name).read_bytes() == (remote / name).read_bytes()
    assert sk.count(url, where=where) == len(sk.open(tmp_path / "local")) == 18


def test_trains_in_the_same_order_and_resumes(dataset: str, url: str) -> None:
    def batches(path: str, state: dict[str, object] | None = None, stop: int | None = None) -> tuple[list[bytes], Any]:
        loader = sk.Loader(path, 16, seed=3, columns=["label", "vector"])
        if state is not None:
            loader.load_state_dict(state)
        seen = []
        for batch in loader:
            seen.append(batch["label"].tobytes() + batch["vector"].tobytes())
            if len(seen) == stop:
                break
        return seen, loader.state_dict()

    whole, _ = batches(dataset)
    first, state = batches(url, stop=4)
    rest, _ = batches(url, state)
    assert first + rest == whole


def test_a_cache_is_read_instead_of_the_server(dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHARDKIT_CACHE", "SHARDKIT_CACHE_LIMIT"):
        monkeypatch.setenv(name, "")  # and put back afterwards
    sent: list[int] = []
    with served(dataset, sent=sent) as url:
        try:
            sk.use_cache(tmp_path / "cache", "64MiB")
            assert os.environ["SHARDKIT_CACHE_LIMIT"] == str(64 << 20)
            first = [sample["label"] for sample in sk.open(url)]
            fetched = sum(sent)
            sent.clear()
            assert [sample["label"] for sample in sk.open(url)] == first == list(range(200))
            assert sum(sent) < 0.2 * fetched, "the manifest, and a byte of each file"
            sent.clear()
            loader = sk.Loader(url, 16)
            assert len(list(loader)) == len(loader)
            assert loader.report().requests <= len(sent), "what the cache answered is not sent"
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                sent.clear()
                assert pool.map(_label, [(sk.open(url), 7)]) == [7]
                assert sum(sent) < 0.2 * fetched
            os.chmod(tmp_path / "cache", 0o777)
            with pytest.raises(PermissionError, match="chmod 700"):
                sk.use_cache(tmp_path / "cache", "32MiB")
            assert sk.open(url)[7]["label"] == 7, "the last cache is still in use"
        finally:
            sk.use_cache(None)


def test_a_loader_has_a_cache(dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHARDKIT_CACHE", "SHARDKIT_CACHE_LIMIT"):
        monkeypatch.setenv(name, "")  # and put back afterwards
    sent: list[int] = []
    with served(dataset, sent=sent) as url:
        try:
            first = [
                list(batch["label"]) for batch in sk.Loader(url, 16, cache=tmp_path / "cache", cache_limit="64MiB")
            ]
            assert os.environ["SHARDKIT_CACHE_LIMIT"] == str(64 << 20)
            fetched = sum(sent)
            sent.clear()
            again = sk.Loader(url, 16, cache=str(tmp_path / "cache"))
            assert [list(batch["label"]) for batch in again] == first
            assert os.environ["SHARDKIT_CACHE_LIMIT"] == str(64 << 20), "the limit stays"
            assert sum(sent) < 0.2 * fetched, "the manifest, and a byte of each file"
            with pytest.raises(ValueError, match="has one cache: give that, or leave cache out"):
                sk.Loader(url, 16, cache=tmp_path / "other")
            assert not (tmp_path / "other").exists()
            with pytest.raises(ValueError, match="give its directory as cache"):
                sk.Loader(url, 16, cache_limit="1GB")
            with pytest.raises(ValueError, match="directory=''"):
                sk.Loader(url, 16, cache="")
        finally:
            sk.use_cache(None)


def test_a_forked_child_connects_anew(url: str) -> None:
    samples = sk.open(url)
    assert samples[0]["label"] == 0
    copy = pickle.loads(pickle.dumps(samples))
    assert copy[1]["label"] == 1
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(_label, [(samples, i) for i in range(20)]) == list(range(20))


def test_a_query_reaches_the_server_and_nothing_else(dataset: str, tmp_path: Path) -> None:
    with served(dataset, query="sig=SECRET") as origin:
        samples = sk.open(origin + "?sig=SECRET")
        assert samples.path == origin
        assert "SECRET" not in repr(samples)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.map(_label, [(samples, 1)]) == [1]
        loader = sk.Loader(origin + "/?sig=SECRET", 16, seed=1, columns=["label"])
        assert sum(len(batch) for batch in loader) == len(samples)
        assert "SECRET" not in repr(loader) + repr(loader.state_dict())
        sk.filter(origin + "?sig=SECRET", tmp_path / "made", where="label >= 0")
        assert not any(b"SECRET" in file.read_bytes() for file in (tmp_path / "made").iterdir() if file.is_file())
        with pytest.raises(FileNotFoundError) as missing:
            sk.open(origin + "/none?sig=SECRET")
        with pytest.raises(IndexError) as index:
            samples[10**6]
        with pytest.raises(PermissionError) as refused:
            sk.Loader(origin + "?sig=SECRET2", 16)
        for error in (missing, index, refused):
            assert "SECRET" not in str(error.value)
        sk.open(origin + "?sig=SECRET")  # a newer one takes the place of an older one


def test_a_dataset_may_refer_to_its_own_server(dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDKIT_ALLOW_BASES", "")
    shutil.copytree(dataset, tmp_path / "data/base")
    sent: list[int] = []
    with served(os.fspath(tmp_path), sent=sent) as origin:
        for name in ("data/a/b/c/mine", "local"):
            sk.filter(f"{origin}/data/base", tmp_path / name, where="label % 2 = 0", by_reference=True)
        assert [sample["label"] for sample in sk.open(f"{origin}/data/a/b/c/mine")] == list(range(0, 200, 2))
        sent.clear()
        with pytest.raises(PermissionError, match=f'base "base" lies at "{origin}/data/base", out of reach'):
            sk.open(tmp_path / "local")
        assert sent == []
        sk.allow_bases(origin)
        try:
            labels = [label for batch in sk.Loader(tmp_path / "local", 16) for label in batch["label"].tolist()]
            assert sorted(labels) == list(range(0, 200, 2))
        finally:
            sk.allow_bases()


def _label(arguments: tuple[sk.Dataset, int]) -> int:
    samples, i = arguments
    return int(samples[i]["label"])


@contextmanager
def interrupted() -> Iterator[None]:
    """Ctrl-C comes, and ends what is done in the block."""
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        timer.cancel()


def test_a_loader_ends_while_the_server_hangs(url: str, hang: threading.Event) -> None:
    loader = sk.Loader(url, 16)
    hang.set()
    with interrupted():
        next(iter(loader))
    del loader


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/ds"


@pytest.fixture
def refusing() -> str:
    """A server that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}/ds"


WAITS: dict[str, Callable[[str], Any]] = {
    "open": sk.open,
    "Loader": sk.Loader,
    "plan": sk.plan,
    "simulate": lambda url: sk.simulate(url, global_batch_size=8),
    "validate": sk.validate,
    "count": lambda url: sk.count(url, where="label >= 100"),
    "history": sk.history,
    "follow": lambda url: sk.Loader(url, follow=True),
}


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("server", ["silent", "refusing"])
def test_ctrl_c_ends_what_waits_for_a_server(wait: str, server: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(server)
    with interrupted():
        WAITS[wait](url)


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("wait", ["value", "key", "scan", "scan alone", "keys", "iteration", "shard"])
def test_ctrl_c_ends_what_waits_for_a_shard(
    wait: str, cached: bool, url: str, hang: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SHARDKIT_CACHE", "SHARDKIT_CACHE_LIMIT"):
        monkeypatch.setenv(name, "")
    if cached:
        sk.use_cache(tmp_path / "cache", "64MiB")
    try:
        samples = sk.open(url)
        waits: dict[str, Callable[[], Any]] = {
            "value": lambda: samples[150],
            "key": lambda: samples["key 150"],
            "scan": lambda: list(samples.scan(threads=2)),
            "scan alone": lambda: list(samples.scan(threads=0)),
            "keys": lambda: list(samples.keys()),
            "iteration": lambda: list(samples),
            "shard": lambda: sk.open(url + "/00000001.shard"),
        }
        hang.set()
        with interrupted():
            waits[wait]()
        hang.clear()
        assert samples[150]["label"] == 150  # nothing else has ended
    finally:
        if cached:
            sk.use_cache(None)


def test_web_servers_are_not_written_to(dataset: str, url: str) -> None:
    with pytest.raises(NotImplementedError, match="can only be read"):
        sk.convert(dataset, url + "/new")
    with pytest.raises(NotImplementedError, match="can only be read"):
        sk.pack([{"a": 1}], url)


def test_an_annotation_file_of_a_store_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    ids = range(60)
    for i in ids:
        (tmp_path / "images" / f"{i}.ppm").write_bytes(b"P6 1 1 255 abc")
    document = {
        "images": [{"id": i, "file_name": f"{i}.ppm", "height": 1, "width": 1} for i in ids],
        "annotations": [{"id": 60 * k + i, "image_id": i, "caption": f"{i} {k}"} for k in range(5) for i in ids],
    }
    (tmp_path / "captions.json").write_text(json.dumps(document))
    sent: list[int] = []
    with served(os.fspath(tmp_path), sent=sent) as url:
        sk.pack([f"{url}/captions.json", tmp_path / "images"], tmp_path / "out", kind="coco")
    assert len(sent) < 10
    assert sk.open(tmp_path / "out")["7"]["captions"] == [f"7 {k}" for k in range(5)]
