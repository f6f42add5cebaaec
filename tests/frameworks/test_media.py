"""Videos: decoders take open values and read parts of them, and examples/train_clips.py learns from them."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import shardkit as sk
import shardkit.dataset

ROOT = Path(__file__).resolve().parents[2]
SIDE = 48


def require(decoder: str) -> Any:
    """Skip where torchcodec does not find FFmpeg's libraries, which the system has to have."""
    if decoder != "torchcodec":
        return av
    import torchcodec.decoders

    try:
        torchcodec.decoders.VideoDecoder(b"no video")
    except Exception as error:
        if "libtorchcodec" in str(error):
            pytest.skip(f"torchcodec finds no libraries of FFmpeg; install ffmpeg: {str(error).splitlines()[0]}")
    return torchcodec.decoders


def write_video(path: Path, frames: list[Any], **options: Any) -> bytes:
    """Return a video of frames, uint8 [height, width, 3], with a key frame each second."""
    with av.open(os.fspath(path), "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.gop_size = 25
        for name, value in options.items():
            setattr(stream, name, value)
        for pixels in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return path.read_bytes()


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Squares that move to the left or to the right; the class is which."""
    folder = tmp_path_factory.mktemp("clips")
    with sk.Writer(folder / "dataset", {"video": "bytes", "label": "i64"}, max_block_samples=4) as writer:
        for i in range(24):
            random = np.random.default_rng(i)
            place, color = int(random.integers(SIDE)), random.integers(120, 256, 3)
            frames = []
            for k in range(40):
                pixels = random.integers(0, 40, (SIDE, SIDE, 3), np.uint8)
                columns = (np.arange(16) + place + (k if i % 2 else -k) * 3) % SIDE
                pixels[16:32, columns] = color
                frames.append(pixels)
            writer.write(f"clip {i}", video=write_video(folder / "a.mp4", frames), label=i % 2)
    return folder / "dataset"


@pytest.mark.parametrize("decoder", ["torchcodec", "pyav"])
def test_movements_are_learnt_and_training_resumes_exactly(
    clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoder: str
) -> None:
    require(decoder)
    # These tests have a conftest of their own.
    monkeypatch.syspath_prepend(ROOT / "python" / "tests")
    monkeypatch.delitem(sys.modules, "conftest", raising=False)
    check_training = runpy.run_path(os.fspath(ROOT / "python" / "tests" / "test_examples.py"))["check_training"]
    check_training(tmp_path, "train_clips.py", clips, "--decoder", decoder, steps=36, fall=0.8)


def test_both_decoders_take_the_same_clip(clips: Path) -> None:
    require("torchcodec")
    example = runpy.run_path(os.fspath(ROOT / "examples" / "train_clips.py"))
    dataset = sk.open(clips)
    for i in range(len(dataset)):
        made = []
        for name in ("by_torchcodec", "by_pyav"):
            with dataset.open_value(i, "video") as file:
                made.append(example[name](file, np.random.default_rng(i)))
        assert made[0].shape == made[1].shape == (example["FRAMES"], 3, SIDE, SIDE)
        assert np.abs(made[0].astype(int) - made[1]).mean() < 4  # other conversions of colors
    from torchcodec.decoders import VideoDecoder

    assert len(VideoDecoder(dataset[0]["video"])) == 40


@pytest.mark.parametrize("decoder", ["torchcodec", "pyav"])
def test_a_frame_in_the_middle_takes_less_than_a_fifth_of_a_video(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoder: str
) -> None:
    module = require(decoder)
    random = np.random.default_rng(1)
    noise = [random.integers(0, 256, (320, 320, 3), np.uint8) for _ in range(250)]
    video = write_video(tmp_path / "a.mp4", noise, bit_rate=1 << 30)
    assert len(video) > 20 << 20
    with sk.Writer(tmp_path / "dataset", {"video": "bytes"}) as writer:
        writer.write("a", video=video)
    asked: list[int] = []
    readinto = shardkit.dataset._ValueFile.readinto

    def counted(self: Any, buffer: Any) -> int:
        asked.append(readinto(self, buffer))
        return asked[-1]

    monkeypatch.setattr(shardkit.dataset._ValueFile, "readinto", counted)
    with sk.open(tmp_path / "dataset").open_value("a", "video") as file:
        if decoder == "torchcodec":
            frame = module.VideoDecoder(file, seek_mode="approximate")[130].permute(1, 2, 0).numpy()
        else:
            with av.open(file) as container:
                container.seek(int(5.2 / container.streams.video[0].time_base), stream=container.streams.video[0])
                frame = next(f for f in container.decode(video=0) if f.time >= 5.2).to_ndarray(format="rgb24")
    differences = [np.abs(frame.astype(int) - each).mean() for each in noise[120:140]]
    assert np.argmin(differences) == 10
    assert sum(asked) < len(video) / 5
