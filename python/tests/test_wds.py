from __future__ import annotations

import gc
import io
import json
import os
import pickle
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import collect_garbage, served

import shardkit as sk
from shardkit import wds


@pytest.fixture(scope="module")
def tars(tmp_path_factory: pytest.TempPathFactory) -> str:
    """60 samples in three tars."""
    folder = tmp_path_factory.mktemp("tars")
    with wds.ShardWriter(folder / "x-%03d.tar", maxcount=20, verbose=0) as writer:
        for i in range(60):
            writer.write({"__key__": f"{i:06d}", "txt": f"text {i}", "cls": i, "json": {"n": i}, "npy": np.arange(i)})
    return os.fspath(folder)


def keys(samples: Any) -> list[str]:
    return [sample["__key__"] for sample in samples]


ALL = [f"{i:06d}" for i in range(60)]


def test_samples_are_bytes_with_key_and_url(tars: str) -> None:
    samples = list(wds.WebDataset(tars))
    assert keys(samples) == ALL
    url = f"{tars}/x-002.tar"
    assert list(samples[41]) == ["__key__", "__url__", "__local_path__", "cls", "json", "npy", "txt"]
    assert samples[41]["__url__"] == url
    assert samples[41]["txt"] == b"text 41"
    assert samples[41]["cls"] == b"41"
    assert len(wds.WebDataset(tars)) == 60


def test_urls(tars: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    several = [f"{tars}/x-{i:03d}.tar" for i in range(3)]
    monkeypatch.setenv("WDS_TARS", tars)
    for urls in (
        tars + "/x-{000..002}.tar",
        tars + "/x-{000,00{1..2}}.tar",
        tars + "/*.tar",
        os.path.dirname(tars) + "/**/x-[0-9]??.tar",
        "::".join(several),
        several,
        [tars + "/x-{000..001}.tar", tars + "/x-002.tar"],
        "file:" + tars,
        "${TARS}/x-{000..002}.tar",
    ):
        samples = list(wds.WebDataset(urls))
        assert keys(samples) == ALL, urls
        assert samples[20]["__url__"] == several[1]
    other = tmp_path / "a,b" / "x-000.tar"
    other.parent.mkdir()
    other.write_bytes(Path(several[0]).read_bytes())
    assert keys(wds.WebDataset([several[2], other])) == ALL[40:] + ALL[:20]


def test_open_takes_patterns(tars: str) -> None:
    assert len(sk.open(tars + "/x-{000..001}.tar")) == 40
    assert list(sk.open(tars + "/x-{2..0..2}.tar".replace("{2..0..2}", "00{2..0..2}")).keys()) == ALL[40:] + ALL[:20]
    assert sum(len(batch) for batch in sk.Loader(tars + "/x-*.tar", 7)) == 60
    assert sk.validate(tars + "/*.tar")
    with pytest.raises(FileNotFoundError, match="no tar, shard or dataset fits"):
        sk.open(tars + "/y-*.tar")
    with pytest.raises(FileNotFoundError, match=r"x-003\.tar"):
        sk.open(tars + "/x-{002..003}.tar")
    with pytest.raises(FileNotFoundError):
        sk.open(tars + "/x-{}.tar")
    with pytest.raises(MemoryError, match="more than"):
        sk.open(tars + "/x-{0..99999999}.tar")


def test_tars_behind_a_web_server(tars: str) -> None:
    with served(tars) as origin:
        samples = list(wds.WebDataset(origin + "/x-{000..002}.tar", shardshuffle=3))
        assert sorted(keys(samples)) == ALL
        assert {sample["__url__"] for sample in samples} == {f"{origin}/x-{i:03d}.tar" for i in range(3)}
        assert keys(wds.WebDataset([f"{origin}/x-002.tar", f"{tars}/x-000.tar"])) == ALL[40:] + ALL[:20]


def test_a_name_with_braces_is_that_file(tars: str, tmp_path: Path) -> None:
    path = tmp_path / "x-{0..1}*.tar"
    path.write_bytes(Path(tars, "x-000.tar").read_bytes())
    assert len(sk.open(path)) == 20
    assert keys(wds.WebDataset(path)) == ALL[:20]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: wds.WebDataset("pipe:cat x.tar"), "no program is run: give the URL"),
        (lambda t: wds.WebDataset([]), "the list is empty"),
        (lambda t: wds.WebDataset({"datasets": []}), "proportion"),
        (lambda t: wds.WebDataset("x.yaml"), "lists of shards are not read"),
        (lambda t: wds.WebDataset("${NOTHING}.tar"), "WDS_NOTHING"),
        (lambda t: wds.WebDataset(t, mode="unlink"), "resampled"),
        (lambda t: wds.WebDataset(t, url_to_name=str), "leave it out"),
        (lambda t: wds.WebDataset(t, rename_files=str), r"rename\(\)"),
        (lambda t: wds.WebDataset(t, nodesplitter=iter), "samples are divided"),
        (lambda t: wds.WebDataset(t, workersplitter=iter), "samples are divided"),
        (lambda t: wds.WebDataset(t).shuffle(3, rng=1), "seed="),
        (lambda t: wds.WebDataset(t).decode("gif"), "Unknown imagespec"),
        (lambda t: wds.WebDataset(t).mcached(), "list"),
        (lambda t: wds.WebDataset(t).batched(0), "batches have samples"),
        (lambda t: wds.WebLoader(wds.WebDataset(t), sampler=[1]), "indices"),
        (lambda t: wds.WebLoader([1, 2]), "DataLoader"),
        (lambda t: wds.DataPipeline(wds.SimpleShardList(t)), "tarfile_to_samples"),
        (lambda t: wds.TarWriter("s3://bucket/x.tar"), "opener"),
        (lambda t: wds.RandomMix, "proportion"),
    ],
)
def test_what_is_refused_says_what_is_here(tars: str, make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError, NotImplementedError, AttributeError), match=message):
        make(tars)


def test_stages(tars: str) -> None:
    dataset = (
        wds.WebDataset(tars)
        .decode()
        .rename(number="cls;class", keep=True)
        .map_dict(number=lambda n: n + 1)
        .select(lambda sample: sample["number"] % 2 == 0)
        .to_tuple("missing;number", "json", "npy")
        .map_tuple(None, lambda document: document["n"])
    )
    samples = list(dataset)
    assert [sample[:2] for sample in samples] == [(i + 1, i) for i in range(1, 60, 2)]
    assert samples[1][2].tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="with_length"):
        len(dataset)
    assert len(dataset.with_length(30)) == 30
    batches = list(wds.WebDataset(tars).decode().to_tuple("cls txt").batched(8))
    assert [len(numbers) for numbers, _ in batches] == [8] * 7 + [4]
    assert batches[0][0].tolist() == list(range(8))
    assert batches[7][1] == [f"text {i}" for i in range(56, 60)]
    assert len(wds.WebDataset(tars).batched(8)) == 8
    assert len(wds.WebDataset(tars).batched(8, partial=False)) == 7
    assert keys(wds.WebDataset(tars).listed(7).unlisted()) == ALL
    assert keys(wds.WebDataset(tars).map(dict).batched(7).unbatched()) == ALL
    assert keys(wds.WebDataset(tars).slice(2, 9, 3)) == [ALL[2], ALL[5], ALL[8]]
    assert keys(wds.WebDataset(tars).compose(lambda source: (s for s in source if s["__key__"] < "000003"))) == ALL[:3]
    assert next(iter(wds.WebDataset(tars).extract_keys("*.cls", "*.txt"))) == (b"0", b"text 0")
    assert set(next(iter(wds.WebDataset(tars).rename_keys(a="cls", keep_unselected=True)))) >= {"a", "txt"}
    assert set(next(iter(wds.WebDataset(tars, select_files=lambda name: name.endswith("cls"))))) == {
        *("__key__", "__url__", "__local_path__", "cls")
    }
    assert 5 < len(list(wds.WebDataset(tars).rsample(0.5))) < 55


def test_handlers(tars: str) -> None:
    def odd(sample: dict[str, Any]) -> dict[str, Any]:
        if int(sample["cls"]) % 2 == 0:
            raise RuntimeError("even")
        return sample

    with pytest.raises(RuntimeError, match="even"):
        list(wds.WebDataset(tars).map(odd))
    assert keys(wds.WebDataset(tars).map(odd, handler=wds.ignore_and_continue)) == ALL[1::2]
    assert keys(wds.WebDataset(tars).map(odd, handler=wds.ignore_and_stop)) == []
    with pytest.warns(UserWarning, match="even"):
        assert len(list(wds.WebDataset(tars).map(odd, handler=wds.warn_and_continue))) == 30
    with pytest.raises(wds.DecodingError, match=r"x-000.tar: sample '000000': 'txt' cannot be decoded: .*wrong"):
        list(wds.WebDataset(tars).decode(wds.handle_extension("txt", lambda _: 1 / 0 if False else _fail())))
    with pytest.raises(ValueError, match="didn't find"):
        list(wds.WebDataset(tars).to_tuple("jpg;png"))


def _fail() -> None:
    raise RuntimeError("wrong")


def test_a_pickle_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "p.tar"
    with wds.TarWriter(path) as writer:
        writer.write({"__key__": "a", "pyd": {1: 2}})
    with pytest.raises(wds.DecodingError, match="handle_extension"):
        list(wds.WebDataset(path).decode())
    decoded = wds.WebDataset(path).decode(wds.handle_extension("pyd", pickle.loads))
    assert next(iter(decoded))["pyd"] == {1: 2}


def test_epochs_are_shuffled_and_repeat_by_seed(tars: str) -> None:
    dataset = wds.WebDataset(tars, shardshuffle=100, seed=3)
    first, second = keys(dataset), keys(dataset)
    assert sorted(first) == sorted(second) == ALL
    assert first != second
    assert first != ALL
    assert keys(wds.WebDataset(tars, seed=3).shuffle(5)) == first
    assert keys(wds.WebDataset(tars, seed=4).shuffle(5)) != first
    dataset.set_epoch(1)
    assert keys(dataset) == second
    assert keys(wds.WebDataset(tars).shuffle(0)) == ALL


def test_repeat_and_with_epoch(tars: str) -> None:
    assert keys(wds.WebDataset(tars).repeat(2)) == ALL * 2
    endless = wds.WebDataset(tars, resampled=True, seed=1).with_epoch(40)
    parts = [keys(endless) for _ in range(3)]
    assert [len(part) for part in parts] == [40] * 3
    assert sorted(parts[0] + parts[1] + parts[2]) == sorted(ALL * 2)
    assert len(endless) == 40


@pytest.mark.parametrize("world", [2, 7])
def test_ranks_divide_samples(tars: str, world: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", str(world))
    seen = []
    for rank in range(world):
        monkeypatch.setenv("RANK", str(rank))
        dataset = wds.WebDataset(tars, shardshuffle=2)
        part = keys(dataset)
        assert len(part) == len(dataset) > 0
        seen += part
        assert keys(wds.WebDataset(tars, nodesplitter=None)) == ALL
    assert sorted(seen) == ALL
    with pytest.raises(ValueError, match="split_by_node"):
        wds.WebDataset(tars, nodesplitter=wds.single_node_only)


def _pipelines(tars: str, threads: int) -> Iterator[wds.DataPipeline]:
    dataset = wds.WebDataset(tars, shardshuffle=5, seed=2).decode().to_tuple("cls", "__key__")
    yield dataset
    yield wds.WebLoader(dataset.batched(7), batch_size=None, num_workers=threads)
    yield wds.WebLoader(dataset.batched(7), None, num_workers=threads).unbatched().batched(4)
    yield dataset.compose().repeat(2)
    yield wds.WebLoader(dataset.select(lambda s: s[0] % 3), None, num_workers=threads).batched(5).with_epoch(11)
    yield dataset.slice(5, 40).listed(6)
    yield dataset.compose(lambda source: (sample for sample in source for _ in range(2)))


@pytest.mark.parametrize("number", range(7))
def test_a_state_goes_on_after_what_was_given(tars: str, number: int) -> None:
    def made(threads: int) -> wds.DataPipeline:
        return list(_pipelines(tars, threads))[number]

    def plain(items: Any) -> list[str]:
        return [repr(item) for item in items]

    whole = made(2)
    first, second = plain(whole), plain(whole)
    assert len(first) > 3
    for given in sorted({0, 1, 2, len(first) // 2, len(first) - 1, len(first)}):
        before = made(given % 3)
        iterator = iter(before)
        assert plain(next(iterator) for _ in range(given)) == first[:given]
        state = json.loads(json.dumps(before.state_dict()))
        assert len(json.dumps(state)) < 1000
        after = made((given + 1) % 3)
        after.load_state_dict(state)
        assert plain(after) == first[given:], (given, state)
        assert plain(after) == second
    ended = made(0)
    list(ended)
    following = made(0)
    following.load_state_dict(ended.state_dict())
    assert plain(following) == second


def test_iterations_that_end_in_a_collection_of_garbage(tars: str) -> None:
    before = gc.get_threshold()
    try:
        for threshold in (1, 7, 50):
            gc.set_threshold(threshold, 1, 1)
            for _ in range(40):
                dataset = wds.WebDataset(tars).map(dict)
                next(iter(wds.WebLoader(dataset, None, num_workers=2)))
    finally:
        gc.set_threshold(*before)


def test_an_iteration_ends_with_the_next(tars: str) -> None:
    def threads() -> int:
        return sum(thread.name.startswith("shardkit-wds") for thread in threading.enumerate())

    collect_garbage()
    while threads() > 0:
        time.sleep(0.01)
    gc.disable()
    try:
        dataset = wds.WebLoader(wds.WebDataset(tars).map(dict), None, num_workers=2)
        for _ in range(5):
            next(iter(dataset))
        dataset.close()
        while threads() > 0:  # the time limit of tests ends this
            time.sleep(0.01)
    finally:
        gc.enable()


def test_a_pipeline_is_pickled(tars: str) -> None:
    dataset = pickle.loads(pickle.dumps(wds.WebDataset(tars).shuffle(3)))
    assert sorted(keys(dataset)) == ALL


def test_data_pipeline(tars: str) -> None:
    pipeline = wds.DataPipeline(
        wds.SimpleShardList(tars + "/x-{000..002}.tar"),
        wds.split_by_node,
        wds.split_by_worker,
        wds.tarfile_to_samples(handler=wds.warn_and_continue),
        wds.shuffle(10),
        wds.decode(),
        wds.to_tuple("cls"),
        wds.batched(7),
    )
    assert sorted(int(n) for (batch,) in pipeline for n in batch) == list(range(60))
    assert list(wds.DataPipeline(range(1, 4)).map(lambda i: i + 1)) == [2, 3, 4]


def test_a_damaged_tar(tars: str, tmp_path: Path) -> None:
    path = tmp_path / "cut.tar"
    path.write_bytes(Path(tars, "x-000.tar").read_bytes()[:20000])
    with pytest.raises(sk.DataLossError, match=r"cut\.tar"):
        list(wds.WebDataset(path))


def test_a_packed_dataset(tars: str, tmp_path: Path) -> None:
    sk.pack(tars, tmp_path / "packed")
    samples = {sample["__key__"]: sample for sample in wds.WebDataset(tmp_path / "packed")}
    assert sorted(samples) == ALL
    assert samples["000007"]["json"] == b'{"n": 7}'
    with sk.Writer(tmp_path / "numbers", {"label": "i64"}) as writer:
        writer.write("a", label=1)
    with pytest.raises(ValueError, match="of i64"):
        list(wds.WebDataset(tmp_path / "numbers"))


def test_writers(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with wds.TarWriter(path, mtime=0, user="me", keep_meta=True) as writer:
        size = writer.write({"__key__": "d/k", "txt.gz": "hello", "cls": 5, "_note": "x", "npz": {"a": np.arange(3)}})
        with pytest.raises(ValueError, match="no handler found for abc"):
            writer.write({"__key__": "e", "abc": 5})
        with pytest.raises(ValueError, match="__key__"):
            writer.write({"txt": "x"})
    with tarfile.open(path) as tar:
        members = tar.getmembers()
        assert [member.name for member in members] == ["d/k._note", "d/k.cls", "d/k.npz", "d/k.txt.gz"]
        assert sum(member.size for member in members) == size
        assert {(member.uname, member.gname, member.mode, member.mtime) for member in members} == {
            ("me", "bigdata", 0o444, 0)
        }
    sample = next(iter(wds.WebDataset(path).decode()))
    assert sample["txt.gz"] == "hello"
    assert sample["npz"]["a"].tolist() == [0, 1, 2]
    stream = io.BytesIO()
    with wds.TarWriter(stream, encoder=False) as writer:
        writer.write({"__key__": "a", "x": b"1"})
    assert not stream.closed
    written: list[str] = []
    with wds.ShardWriter(tmp_path / "s-%d.tar", maxsize=3, verbose=0, post=written.append, start_shard=4) as shards:
        for i in range(3):
            shards.write({"__key__": str(i), "x": b"123"})
    assert written == [f"{tmp_path}/s-{i}.tar" for i in range(4, 7)]


def test_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    path = tmp_path / "i.tar"
    with wds.TarWriter(path) as writer:
        writer.write({"__key__": "a", "png": pixels, "ppm": image.fromarray(pixels), "jpg": pixels / 255})
    raw = next(iter(wds.WebDataset(path)))
    assert raw["jpg"][:2] == b"\xff\xd8"
    assert np.array_equal(next(iter(wds.WebDataset(path).decode("rgb8")))["png"], pixels)
    assert np.array_equal(next(iter(wds.WebDataset(path).decode("rgb")))["ppm"], pixels.astype(np.float32) / 255)
    assert next(iter(wds.WebDataset(path).decode("pill")))["png"].mode == "L"
    assert next(iter(wds.WebDataset(path).decode("rgba8", only="png")))["png"].shape == (4, 5, 4)


def test_torch(tars: str) -> None:
    torch = pytest.importorskip("torch")
    dataset = wds.WebDataset(tars, shardshuffle=9).decode().to_tuple("cls", "__key__").batched(4)
    for workers in (0, 3):
        loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers)
        epochs = [[key for _, names in loader for key in names] for _ in range(2)]
        assert [sorted(epoch) for epoch in epochs] == [ALL, ALL]
        assert epochs[0] != epochs[1]
    batch = next(iter(wds.WebLoader(wds.WebDataset(tars).decode().to_tuple("cls"), batch_size=5, drop_last=True)))
    assert batch[0].tolist() == list(range(5))
