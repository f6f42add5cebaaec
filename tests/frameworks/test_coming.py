"""The guides of litData and Hugging Face, and what litData's chunks become, with these packages."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import litdata
import numpy as np
import PIL.Image
import pytest
import torch

import shardkit as sk
from shardkit import sources

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def no_look_for_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITDATA_DISABLE_VERSION_CHECK", "1")


@pytest.mark.parametrize("tests", ["test_guides.py -k litdata or hugging", "test_hugging_face.py"])
def test_with_the_packages(tests: str) -> None:
    file, *chosen = tests.split(" ", 2)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", file, *chosen]
    done = subprocess.run(
        command, cwd=ROOT / "python" / "tests", capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout


def names_of(guide: str) -> str:
    """The left columns of the tables of a guide."""
    lines = (ROOT / "docs" / guide).read_text().splitlines()
    return "\n".join(line.split(" | ")[0] for line in lines if line.startswith("| "))


@pytest.mark.parametrize(
    ("guide", "function"),
    [
        ("from-litdata.md", litdata.optimize),
        ("from-litdata.md", litdata.StreamingDataset.__init__),
        ("from-litdata.md", litdata.StreamingDataLoader.__init__),
        ("from-hugging-face.md", datasets.load_dataset),
    ],
)
def test_each_parameter_has_a_line(guide: str, function: Callable[..., Any]) -> None:
    named = names_of(guide)
    parameters = set(inspect.signature(function).parameters) - {"self", "args", "kwargs", "config_kwargs"}
    assert len(parameters) > 10
    assert [name for name in parameters if not re.search(rf"\b{name}\b", named)] == []


def as_dict(i: int) -> Any:
    return {
        "image": PIL.Image.open("photo.jpg"),
        "label": i,
        "text": f"text {i}",
        "share": i / 2,
        "flag": i % 2 == 0,
        "grid": torch.full((2, 3), i),
        "tensor": torch.arange(4, dtype=torch.float32) + i,
        "array": np.full((3, 2), i, np.int16),
        "nested": {"a": i, "b": ["x", i]},
        "file": litdata.types.File(path="photo.jpg"),
        "other": litdata.types.Image(path="photo.jpg"),
    }


def as_tuple(i: int) -> Any:
    return Path("photo.jpg").read_bytes(), i


def as_list(i: int) -> Any:
    return [PIL.Image.open("photo.jpg"), i]


def as_value(i: int) -> Any:
    return np.arange(5) + i


def as_pixels(i: int) -> Any:
    return {"image": PIL.Image.new("RGB", (8, 8), (i, 0, 0))}


def as_pickle(i: int) -> Any:
    return {"set": {i}}


@pytest.fixture
def optimized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]))
    PIL.Image.new("RGB", (20, 10), (255, 0, 0)).save("photo.jpg")

    def run(function: Callable[[int], Any], count: int = 20) -> Path:
        folder = tmp_path / function.__name__
        litdata.optimize(function, list(range(count)), os.fspath(folder), chunk_size=7, num_workers=1, verbose=False)
        return folder

    return run


@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_samples_of_litdata(optimized: Callable[..., Path], tmp_path: Path, count: int) -> None:
    sk.pack(sources.litdata(optimized(as_dict, count)), tmp_path / "out")
    photo = (tmp_path / "photo.jpg").read_bytes()
    kinds = {column.name: column.type for column in sk.open(tmp_path / "out").schema}
    assert (kinds["image"], kinds["file"], kinds["nested"], kinds["grid"]) == ("jpeg", "jpeg", "json", "ndarray")
    samples = list(sk.open(tmp_path / "out"))
    assert len(samples) == count
    for i, sample in enumerate(samples):
        assert sample["image"] == sample["file"] == sample["other"] == photo
        assert (sample["label"], sample["text"], sample["share"], sample["flag"]) == (i, f"text {i}", i / 2, i % 2 == 0)
        assert sample["nested"] == {"a": i, "b": ["x", i]}
        for name, value in (("grid", np.full((2, 3), i)), ("array", np.full((3, 2), i, np.int16))):
            np.testing.assert_array_equal(sample[name], value)
            assert sample[name].dtype == value.dtype
        np.testing.assert_array_equal(sample["tensor"], np.arange(4, dtype=np.float32) + i)


def test_samples_of_litdata_that_are_no_dicts(optimized: Callable[..., Path], tmp_path: Path) -> None:
    photo = (tmp_path / "photo.jpg").read_bytes()
    for function in (as_tuple, as_list):
        sk.pack(sources.litdata(optimized(function)), tmp_path / f"{function.__name__}.out")
        found = [(sample["0"], sample["1"]) for sample in sk.open(tmp_path / f"{function.__name__}.out")]
        assert found == [(photo, i) for i in range(20)]
    sk.pack(sources.litdata(optimized(as_value)), tmp_path / "value.out")
    assert [sample["0"].tolist() for sample in sk.open(tmp_path / "value.out")] == [
        list(range(i, i + 5)) for i in range(20)
    ]
    with pytest.raises(ValueError, match=r"shardkit\.Encode"):
        sk.pack(sources.litdata(optimized(as_pixels)), tmp_path / "pixels.out")
    sk.pack(sources.litdata(tmp_path / "as_pixels"), tmp_path / "pixels.out", columns={"image": sk.Encode("jpeg")})
    assert sk.decode_image(sk.open(tmp_path / "pixels.out")[19]["image"]).shape == (8, 8, 3)
    with pytest.raises(sk.FunctionError, match="a value is pickled, and unpickling runs code"):
        sk.pack(sources.litdata(optimized(as_pickle)), tmp_path / "pickle.out")
    with pytest.raises(ValueError, match="shuffle is for training"):
        sources.litdata(tmp_path / "as_value", shuffle=True)


def test_an_import_of_litdata_goes_on(optimized: Callable[..., Path], tmp_path: Path) -> None:
    folder = optimized(as_tuple, 300)
    options: dict[str, Any] = {"shard_samples": 50, "keep_on_cancel": True}

    rows = sources.litdata(folder)
    read: list[int] = []
    function = rows.maker.steps[0].function

    def slow(i: int) -> Any:
        read.append(i)
        if len(read) == 290:
            raise KeyboardInterrupt
        return function(i)

    rows.maker.steps[0] = rows.maker.steps[0]._replace(function=slow)
    with pytest.raises(KeyboardInterrupt):
        sk.pack(rows, tmp_path / "out", **options)
    report = sk.pack(sources.litdata(folder), tmp_path / "out", resume=True, **options)
    assert report.samples == 300
    assert 0 < report.packed < 300
    assert list(sk.open(tmp_path / "out").column("1")) == list(range(300))
