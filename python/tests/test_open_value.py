"""Values as files: the same bytes as `dataset[i]`, and no more of them is read than is asked for."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import EVERY_TYPE, served

import shardkit as sk

MIB = 1 << 20


def test_the_bytes_are_those_that_are_stored(every_type: str) -> None:
    dataset = sk.open(every_type)
    for i in range(8):
        for name in ("bytes", "jpeg", "png", "image", "utf8", "i32[3]"):
            for end in ("", "?"):
                wanted = dataset[i][name + end]
                file = dataset.open_value(i, name + end)
                if wanted is None:
                    assert file is None
                    continue
                assert file is not None
                stored = file.read()
                if name == "i32[3]":
                    stored = np.frombuffer(stored, np.int32)  # type: ignore[assignment]
                np.testing.assert_equal(stored, wanted.encode() if name == "utf8" else wanted)
    assert all(dataset.open_value(7, kind) for kind in EVERY_TYPE)


@pytest.fixture(params=["shard", "no index", "zstd", "webdataset", "tar.gz", "mds", "url"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, list[bytes]]]:
    """Values of several sizes, in datasets that store them in different ways."""
    kind = request.param
    values = [np.random.default_rng(n).bytes(n) for n in (0, 1, 2, 5, 5000, 70_000)]
    path = tmp_path / "data"
    column = sk.column("video", "bytes", codec="zstd" if kind == "zstd" else "none")
    with sk.Writer(path, {"video": column}) as writer:
        for i, value in enumerate(values):
            writer.write(f"k{i}", video=value)
    if kind == "no index":
        (path / "dataset.segment").unlink()
    if kind in ("mds", "webdataset", "tar.gz"):
        sk.convert(path, tmp_path / "other", to="mds" if kind == "mds" else "webdataset")
        path = tmp_path / "other"
    if kind == "tar.gz":
        import gzip

        (tar,) = path.glob("*.tar")
        path = tmp_path / "other.tar.gz"
        path.write_bytes(gzip.compress(tar.read_bytes()))
    if kind == "url":
        with served(os.fspath(path)) as url:
            yield url, values
    else:
        yield os.fspath(path), values


@pytest.mark.parametrize("buffer_size", [1, 7, "64KiB"])
def test_a_value_is_a_file_as_any_other(blobs: tuple[str, list[bytes]], buffer_size: int | str, tmp_path: Path) -> None:
    path, values = blobs
    dataset = sk.open(path)
    random = np.random.default_rng(1)
    for i, value in enumerate(values):
        opened = dataset.open_value(f"k{i}", "video", buffer_size=buffer_size)
        assert opened is not None
        (tmp_path / "file").write_bytes(value)
        with opened as file, open(tmp_path / "file", "rb") as real:
            ours: list[Any] = [file, file.raw]
            theirs: list[Any] = [real, real.raw]
            assert file.raw.size == len(value)  # type: ignore[attr-defined]
            assert file.readable()
            assert file.seekable()
            assert not file.writable()
            for ours_, theirs_ in zip(ours, theirs, strict=True):
                ours_.seek(0)
                theirs_.seek(0)
                for _ in range(30):
                    whence = int(random.integers(3))
                    to = int(random.integers(-3, len(value) + 3)) - (len(value) if whence == 2 else 0)
                    try:
                        place = theirs_.seek(to, whence)
                    except OSError:
                        with pytest.raises(ValueError, match="seek"):
                            ours_.seek(to, whence)
                        continue
                    assert ours_.seek(to, whence) == place == ours_.tell()
                    count = int(random.integers(-1, 3000))
                    assert ours_.read(count) == theirs_.read(count)
                ours_.seek(0)
                theirs_.seek(0)
                into, wanted = bytearray(3), bytearray(3)
                assert ours_.readinto(into) == theirs_.readinto(wanted)
                assert into == wanted
        with pytest.raises(ValueError, match="closed"):
            file.read(1)
        with pytest.raises(ValueError, match="closed"):
            file.raw.seek(0)


def test_indexes_are_those_of_the_dataset(dataset: str) -> None:
    for chosen in (sk.open(dataset), sk.open(dataset, where="label >= 100", columns=["blob", "label"])):
        for index in (1, -1, np.int64(2), f"key {chosen[3]['label']}"):
            file = chosen.open_value(index, "blob")
            assert (file and file.read()) == chosen[index]["blob"]
    with pytest.raises(IndexError, match="no sample 200; it has 200"):
        sk.open(dataset).open_value(200, "blob")
    with pytest.raises(KeyError, match="key 0"):
        sk.open(dataset, where="label >= 100").open_value("key 0", "blob")
    with pytest.raises(KeyError, match="no column 'blob'; the dataset has label"):
        sk.open(dataset, columns=["label"]).open_value(0, "blob")
    with pytest.raises(ValueError, match="buffer_size"):
        sk.open(dataset).open_value(1, "blob", buffer_size="much")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    path = os.fspath(tmp_path_factory.mktemp("large") / "data")
    value = np.random.default_rng(1).bytes(50 * MIB)
    with sk.Writer(path, {"video": "bytes", "other": "bytes", "label": "i64"}) as writer:
        writer.write("a", video=value, other=b"x" * MIB, label=1)
    return path, value


def grown(sent: list[int], before: int) -> int:
    """Return what was sent since, as soon as the server has counted it."""
    for _ in range(1000):
        if sum(sent) > before:
            break
        time.sleep(0.01)
    return sum(sent) - before


def test_a_part_of_a_value_behind_a_url_is_read_alone(large: tuple[str, bytes]) -> None:
    path, value = large
    sent: list[int] = []
    with served(path, sent=sent) as url:
        file = sk.open(url).open_value(0, "video")
        assert file is not None
        time.sleep(0.1)
        opened = sum(sent)
        assert opened < 64 << 10
        file.seek(25 * MIB)
        assert file.read(1000) == value[25 * MIB :][:1000]
        # The buffer's size, or twice that where the request was sent again because of a slow answer.
        assert grown(sent, opened) in (256 << 10, 512 << 10)
        before = sum(sent)
        assert file.read(1000) == value[25 * MIB :][1000:2000]
        file.seek(-MIB, io.SEEK_END)
        assert file.read() == value[-MIB:]
        assert grown(sent, before) in (MIB, 2 * MIB)


def test_a_part_is_not_checked_and_all_of_it_is(large: tuple[str, bytes], tmp_path: Path) -> None:
    path, value = large
    (shard,) = Path(path).glob("*.shard")
    stored = shard.read_bytes()
    place = stored.index(value[1000:1100])
    copy = tmp_path / "data"
    copy.mkdir()
    for file in Path(path).iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    changed = bytearray(stored)
    changed[place] ^= 1
    (copy / shard.name).write_bytes(changed)
    opened = sk.open(copy).open_value(0, "video")
    assert opened is not None
    opened.seek(2000)
    assert opened.read(10) == value[2000:2010]
    opened.seek(0)
    with pytest.raises(sk.DataLossError, match="checksum is wrong") as error:
        opened.read()
    assert (error.value.sample, error.value.column) == (0, "video")
    (copy / shard.name).write_bytes(stored[: place + 5])  # cut while it is open
    opened.seek(20 * MIB)
    with pytest.raises(sk.DataLossError, match="cut"):
        opened.read(10)


def test_a_child_of_a_fork_goes_on_reading(large: tuple[str, bytes]) -> None:
    path, value = large
    with served(path) as url:
        files = [sk.open(where).open_value(0, "video") for where in (path, url)]
        for file in files:
            assert file is not None
            assert file.read(3) == value[:3]
        child = os.fork()
        if child == 0:
            right = all(
                file is not None and file.seek(MIB) == MIB and file.read(9) == value[MIB:][:9] for file in files
            )
            os._exit(0 if right else 1)
        assert os.waitpid(child, 0)[1] == 0
        for file in files:
            assert file is not None
            assert file.read(5) == value[3:8]


def test_threads_have_files_of_their_own(large: tuple[str, bytes]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    path, value = large
    dataset = sk.open(path)

    def part(i: int) -> bool:
        file = dataset.open_value(0, "video", buffer_size=1000)
        assert file is not None
        file.seek(i * MIB)
        return file.read(5000) == value[i * MIB :][:5000]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(part, range(50)))


def encoded_video(path: Path, frames: int, size: int, rate: int) -> None:
    """A video of noise, as many bits as asked for, with a key frame each second."""
    av = pytest.importorskip("av")
    random = np.random.default_rng(1)
    with av.open(os.fspath(path), "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width = stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.bit_rate = rate
        stream.gop_size = 25
        for i in range(frames):
            pixels = random.integers(0, 256, (size, size, 3), np.uint8)
            pixels[:16, :16] = i % 250  # so that a frame can be told
            for packet in stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


def test_a_frame_of_a_video_behind_a_url_takes_a_part_of_it(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    encoded_video(tmp_path / "a.mp4", frames=250, size=320, rate=1 << 30)
    value = (tmp_path / "a.mp4").read_bytes()
    assert len(value) > 20 * MIB
    with sk.Writer(tmp_path / "data", {"video": "bytes"}) as writer:
        writer.write("a", video=value)
    sent: list[int] = []
    with served(os.fspath(tmp_path / "data"), sent=sent) as url:
        opened = sk.open(url).open_value("a", "video")
        assert opened is not None
        with opened as file, av.open(file) as container:
            stream = container.streams.video[0]
            assert stream.frames == 250
            wanted = 130 / 25
            container.seek(int(wanted / stream.time_base), stream=stream)
            frame = next(frame for frame in container.decode(stream) if frame.time >= wanted)
            assert frame.to_ndarray(format="rgb24")[4:12, 4:12].mean() == pytest.approx(130, abs=12)
    assert sum(sent) < len(value) / 5


@pytest.mark.parametrize("format", ["WAV", "FLAC"])
def test_a_window_of_a_recording_behind_a_url_takes_a_part_of_it(tmp_path: Path, format: str) -> None:
    soundfile = pytest.importorskip("soundfile")
    sound = np.random.default_rng(1).integers(-(1 << 15), 1 << 15, 1 << 22, np.int16)
    soundfile.write(tmp_path / "a", sound, 16000, format=format)
    with sk.Writer(tmp_path / "data", {"audio": "bytes"}) as writer:
        writer.write("a", audio=(tmp_path / "a").read_bytes())
    sent: list[int] = []
    with served(os.fspath(tmp_path / "data"), sent=sent) as url:
        opened = sk.open(url).open_value("a", "audio")
        assert opened is not None
        with opened as stored, soundfile.SoundFile(stored) as file:
            assert file.frames == 1 << 22
            file.seek(1 << 21)
            np.testing.assert_array_equal(file.read(4096, dtype="int16"), sound[1 << 21 :][:4096])
    assert sum(sent) < 2 * MIB  # of 8
