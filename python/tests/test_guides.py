"""The guides for those who come from other loaders: the programs before and after train on the same samples."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from recorder import LEVELS

import shardkit as sk

TESTS = Path(__file__).resolve().parent
DOCS = TESTS.parents[1] / "docs"
# The peers are in an environment of their own when tests/run --interop made one. The programs run in other folders.
PEERS = os.path.abspath(os.environ.get("SHARDKIT_INTEROP_PYTHON", sys.executable))
GUIDES = {
    "from-dataloader.md": ["torch", "torchvision", "PIL"],
    "from-mosaicml-streaming.md": ["torch", "torchvision", "streaming"],
    "from-webdataset.md": ["torch", "torchvision", "webdataset"],
    "from-litdata.md": ["torch", "torchvision", "litdata"],
    "from-hugging-face.md": ["torch", "torchvision", "datasets"],
    "from-ffcv.md": ["torch", "torchvision", "ffcv"],
}

# Guides whose package is beside Shardkit, which takes its objects.
PACKED = {"from-hugging-face.md"}

MOVED = "The same program, one line changed"

# All samples: the levels of the colour, and the label.
EVERY = sorted([*colour, i % 3] for i, colour in enumerate(itertools.product(range(len(LEVELS)), repeat=3)))
# What makes the data of those whose format Shardkit does not write. litData's workers import the program.
WRITE = {
    "from-litdata.md": """
import glob, litdata

CLASSES = ["cat", "dog", "owl"]

def sample(path):
    with open(path, "rb") as file:
        return {"image": file.read(), "label": CLASSES.index(path.split("/")[-2])}

if __name__ == "__main__":
    paths = sorted(glob.glob("photos/*/*.jpg"))
    litdata.optimize(sample, paths, "optimized", chunk_size=9, num_workers=1)
""",
    "from-ffcv.md": """
from ffcv.fields import IntField, RGBImageField
from ffcv.writer import DatasetWriter
from torchvision import datasets

fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=95), "label": IntField()}
DatasetWriter("photos.beton", fields, num_workers=1).from_indexed_dataset(datasets.ImageFolder("photos"))
""",
}


def programs(guide: str) -> dict[str, str]:
    """The blocks of Python by the heading that they stand under; several of one heading are one program."""
    found: dict[str, str] = {}
    for section in re.split(r"^## ", (DOCS / guide).read_text(), flags=re.MULTILINE)[1:]:
        blocks = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        if blocks:
            found[section.splitlines()[0]] = "\n".join(blocks)
    return found


def has(python: str, module: str) -> bool:
    """Tell whether an interpreter has a module."""
    command = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", command], check=False).returncode == 0


def require(python: str, modules: list[str]) -> None:
    """Skip the test where an interpreter lacks one of these."""
    for module in modules:
        if not has(python, module):
            pytest.skip(f"the package {module} is not installed")


def run(python: str, program: str, folder: Path) -> str:
    """What a program prints that stands in a file of its own, beside its data."""
    (folder / "program.py").write_text(program)
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [python, "program.py"]
    done = subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True, timeout=100, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def samples_of_epochs(python: str, program: str, folder: Path) -> list[list[list[int]]]:
    """The samples that a program trains on, those of each epoch sorted."""
    seen = json.loads(run(python, "from recorder import train\n" + program, folder).splitlines()[-1])
    return [sorted(seen[i : i + len(EVERY)]) for i in range(0, len(seen), len(EVERY))]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photographs in class folders, and the same as MDS and as tars."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("inputs")
    with sk.Writer(str(folder / "columns"), {"image": "jpeg", "label": "i64"}) as writer:
        (folder / "tars").mkdir()
        for i, colour in enumerate(itertools.product(LEVELS, repeat=3)):
            path = folder / "photos" / ("cat", "dog", "owl")[i % 3] / f"{i:02}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            image.new("RGB", (300 + i, 280), colour).save(path, quality=95)
            writer.write(f"{i:02}", image=path.read_bytes(), label=i % 3)
            with tarfile.open(folder / "tars" / f"{i // 9:06}.tar", "a") as tar:
                for extension, content in (("jpg", path.read_bytes()), ("cls", b"%d" % (i % 3))):
                    member = tarfile.TarInfo(f"{i:02}.{extension}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
    sk.convert(folder / "columns", folder / "mds", to="mds", columns=["image", "label"])
    return folder


def data_of(guide: str, inputs: Path, folder: Path) -> Path:
    """Put what the programs of a guide read into a folder."""
    for path in inputs.iterdir():
        (folder / path.name).symlink_to(path)
    if guide in WRITE and all(has(PEERS, module) for module in GUIDES[guide]):
        run(PEERS, WRITE[guide], folder)
    return folder


@pytest.mark.parametrize("guide", GUIDES)
def test_before(guide: str, inputs: Path, tmp_path: Path) -> None:
    program = programs(guide)["Before"]
    compile(program, guide, "exec")
    python = sys.executable if guide in PACKED else PEERS
    require(python, GUIDES[guide])
    folder = data_of(guide, inputs, tmp_path)
    assert samples_of_epochs(python, program, folder) == [EVERY, EVERY]


def test_before_with_another_import(inputs: Path, tmp_path: Path) -> None:
    parts = programs("from-webdataset.md")
    run(sys.executable, parts[MOVED], tmp_path)
    for module in ("torch", "torchvision", "PIL"):
        pytest.importorskip(module)
    program = parts["Before"].replace("import webdataset as wds", "import shardkit.wds as wds")
    assert program != parts["Before"]
    folder = data_of("from-webdataset.md", inputs, tmp_path)
    assert samples_of_epochs(sys.executable, program, folder) == [EVERY, EVERY]


@pytest.mark.parametrize("guide", GUIDES)
def test_after(guide: str, inputs: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    parts = programs(guide)
    assert parts.keys() - {MOVED} == {"Before", "Bring the data over", "After"}
    program = parts["Bring the data over"] + parts["After"]
    compile(program, guide, "exec")
    package = {"from-litdata.md": "litdata", "from-hugging-face.md": "datasets"}.get(guide)
    if package is not None and not has(sys.executable, package):
        (tmp_path / "dataset").symlink_to(inputs / "columns")
        program = parts["After"]
    folder = data_of(guide, inputs, tmp_path)
    assert samples_of_epochs(sys.executable, program, folder) == [EVERY, EVERY]


def test_one_line_changed(inputs: Path, tmp_path: Path) -> None:
    guide = "from-mosaicml-streaming.md"
    require(sys.executable, ["torch", "torchvision", "PIL"])
    parts = programs(guide)
    (line,) = parts[MOVED].strip().splitlines()
    program = parts["Before"].replace(line.replace("shardkit.streaming", "streaming"), line)
    assert program != parts["Before"]
    folder = data_of(guide, inputs, tmp_path)
    assert samples_of_epochs(sys.executable, program, folder) == [EVERY, EVERY]
