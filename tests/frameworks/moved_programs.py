#!/usr/bin/env python3
"""Runs programs of other loaders' own examples, then the same with Shardkit, and compares what each epoch has.

    PYTHONPATH=BUILD/python tests/frameworks/moved_programs.py [--streaming CHECKOUT] [--webdataset CHECKOUT]

The checkouts are of https://github.com/mosaicml/streaming and https://github.com/webdataset/webdataset; their programs
are read from there. The Python needs both packages, torch, torchvision, matplotlib and Pillow. A program is changed
before it is run at all where it needs data of the network, and where it no longer runs; then one line moves it.
Prints a row for each program: changed lines, samples of an epoch, and samples/s before and after. Exit status 1: a
program failed, or has other samples.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# In place of data and models of the network.
STAND_INS = """
import io, os, tarfile
import numpy as np
from PIL import Image
from torch import nn

def pixels(i):
    return Image.fromarray(np.random.default_rng(i).integers(0, 256, (64, 96, 3), dtype=np.uint8))

class CIFAR10:
    def __init__(self, root, train, download):
        self.first, self.count = (0, 2000) if train else (2000, 500)
    def __len__(self):
        return self.count
    def __getitem__(self, i):
        return pixels(self.first + i).resize((32, 32)), int(self.first + i) % 10

def resnet50(pretrained):
    return nn.Sequential(nn.Conv2d(3, 8, 7, 16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 1000))

for number in range(4):
    os.makedirs("tars", exist_ok=True)
    with tarfile.open(f"tars/imagenet-train-{number:06d}.tar", "w") as tar:
        for i in range(100 * number, 100 * number + 100):
            image = io.BytesIO()
            pixels(i).save(image, "JPEG")
            for name, value in ("jpg", image.getvalue()), ("cls", b"%d" % i):
                member = tarfile.TarInfo(f"{i:08d}.{name}")
                member.size = len(value)
                tar.addfile(member, io.BytesIO(value))
"""

# What a program does once more at its end: the samples of `LOADER`, of which `ID` makes numbers.
EPOCH = """
import json, time
begin = time.perf_counter()
samples = sorted(int(number) for batch in LOADER for number in ID)
print("EPOCH", json.dumps([samples, time.perf_counter() - begin]))
"""

TARS = ('bucket + "/imagenet-train-{000000..001281}.tar"', '"tars/imagenet-train-{000000..000003}.tar"')
# Program: what makes it run here, what moves it, the loader of an epoch and the numbers of a batch.
PROGRAMS = {
    ("streaming", "examples/synthetic_nlp.ipynb"): (
        [
            ("shuffle=False)", "shuffle=False, batch_size=batch_size)"),  # 0.13 has to know it
            ("shuffle=shuffle_train)", "shuffle=shuffle_train, batch_size=batch_size)"),
            ("num_workers=8, drop_last=True", "num_workers=2"),
            ("np.random.random() < 0.8", "i % 5 > 0"),
            ("shutil.rmtree(out_root, ignore_errors=True)\n", ""),
        ],
        ("from streaming import", "from shardkit.streaming import"),
        ("dataloader_ds_with_bs", "batch['number']"),
    ),
    ("streaming", "examples/cifar10.ipynb"): (
        [
            ("from torchvision.datasets import CIFAR10", "from stand_ins import CIFAR10"),
            ("np.random.permutation", "np.arange"),
            ("train_epochs = 2", "train_epochs = 1"),
            ("shutil.rmtree(out_root, ignore_errors=True)\n", ""),
        ],
        ("from streaming import", "from shardkit.streaming import"),
        ("train_dataloader", "batch[0].flatten(1).double().sum(1).mul(1000)"),
    ),
    ("webdataset", "examples/train-resnet50-wds.ipynb"): (
        [
            TARS,
            ("from torchvision.models import resnet50", "from stand_ins import resnet50"),
            ("resampled=True", "resampled=False"),  # which repeats tars by chance
            ("1282 * 100 // 64", "400 // 64 + 1"),
            ('cache_dir = "./_cache"', "cache_dir = None"),
            ("num_workers=4", "num_workers=2"),
        ],
        ("import webdataset as wds", "import shardkit.wds as wds"),
        ("trainloader", "batch[1]"),
    ),
    ("webdataset", "examples/column-store.ipynb"): (
        [TARS, ("resampled=True, shardshuffle=True", "shardshuffle=False")],
        ("import webdataset as wds", "import shardkit.wds as wds"),
        ("trainset", "[batch['cls']]"),
    ),
}


def cells(notebook):
    """The code of a notebook, without commands of its own."""
    code = ["".join(cell["source"]) for cell in json.loads(notebook)["cells"] if cell["cell_type"] == "code"]
    return "\n".join(line for line in "\n".join(code).split("\n") if not line.lstrip().startswith(("%", "!"))) + "\n"


def replaced(program, changes):
    """The program with the changes, each of which has to be possible."""
    for old, new in changes:
        if old not in program:
            raise SystemExit(f"moved_programs: {old!r} is not in the program: it is another version")
        program = program.replace(old, new)
    return program


def run(program, folder):
    """The samples of an epoch, and its seconds."""
    folder.mkdir()
    (folder / "stand_ins.py").write_text(STAND_INS)
    (folder / "program.py").write_text("import stand_ins\n" + program)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": os.path.abspath(os.environ["PYTHONPATH"])},
    )
    if done.returncode != 0:
        return None, done.stderr[-2000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("EPOCH "))
    return json.loads(line[6:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("streaming", "webdataset"):
        parser.add_argument(f"--{name}", type=pathlib.Path, metavar="CHECKOUT")
    checkouts = vars(parser.parse_args())
    failed = False
    print("| Program | Changed lines | Samples of an epoch | Samples/s before | after |\n|---|--:|--:|--:|--:|")
    for (package, path), (runs_here, moves, (loader, numbers)) in PROGRAMS.items():
        if checkouts[package] is None:
            continue
        before = replaced(cells((checkouts[package] / path).read_text()), runs_here)
        before += EPOCH.replace("LOADER", loader).replace("ID", numbers)
        after = replaced(before, [moves])
        with tempfile.TemporaryDirectory() as folder:
            results = [
                run(program, pathlib.Path(folder, name)) for name, program in (("before", before), ("after", after))
            ]
        changed = sum(one != two for one, two in zip(before.split("\n"), after.split("\n"), strict=True))
        if None in (results[0][0], results[1][0]):
            failed = True
            print(
                f"| {package}: {path} | {changed} | {' '.join(str(why) for what, why in results if what is None)} | | |"
            )
            continue
        (wanted, seconds), (found, ours) = results
        same = "" if found == wanted else ", others before"
        failed = failed or bool(same)
        speeds = f"{len(wanted) / seconds:.0f} | {len(found) / ours:.0f}"
        print(f"| {package}: {path} | {changed} | {len(found)}{same} | {speeds} |")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
