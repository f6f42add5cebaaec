#!/usr/bin/env python3
"""Runs programs of other loaders' own examples, then the same with Shardkit, and compares what each epoch has.

    PYTHONPATH=BUILD/python tests/frameworks/moved_programs.py
        [--streaming CHECKOUT] [--webdataset CHECKOUT] [--litdata CHECKOUT] [--datasets CHECKOUT]

The checkouts are of https://github.com/mosaicml/streaming, https://github.com/webdataset/webdataset,
https://github.com/Lightning-AI/litdata and https://github.com/huggingface/datasets, whose programs stand in sections of
its guides; they are read from there. The Python needs these packages, lightning, torch, torchvision, matplotlib and
Pillow. A program is changed before it is run at all where it needs data of the network, and where it no longer runs;
then a line moves it, or, of litData and datasets, a few.
Prints a row for each program: changed lines, samples of an epoch, and samples/s before and after. Exit status 1: a
program failed, or has other samples.
"""

import argparse
import difflib
import json
import os
import pathlib
import re
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

def beans():
    from datasets import Dataset, Features, Image, Value
    files = [io.BytesIO() for _ in range(400)]
    for i, file in enumerate(files):
        pixels(i).resize((256, 256)).save(file, "JPEG")
    images = [{"bytes": file.getvalue(), "path": None} for file in files]
    features = Features({"image": Image(), "labels": Value("int64")})
    Dataset.from_dict({"image": images, "labels": range(400)}, features=features).to_parquet("beans.parquet")

def resnet50(pretrained):
    return nn.Sequential(nn.Conv2d(3, 8, 7, 16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 1000))

for number in range(0 if os.path.exists("tars") else 4):
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

NEXT = "# The next program.\n"

# What a program does once more at its end: the samples of `LOADER`, of which `ID` makes numbers.
EPOCH = """
import json, time
begin = time.perf_counter()
samples = sorted(int(number) for batch in LOADER for number in ID)
print("EPOCH", json.dumps([samples, time.perf_counter() - begin]))
"""

TARS = ('bucket + "/imagenet-train-{000000..001281}.tar"', '"tars/imagenet-train-{000000..000003}.tar"')
LOADER = """ld.StreamingDataLoader(
            self.{}_dataset, batch_size=self.batch_size, num_workers=2, persistent_workers=True
        )"""
PARTS = '            sk.split(self.data_dir, "parts", '
IMPORTS = "import shardkit as sk\nfrom shardkit.torch import Loader\n"
STREAM = 'load_dataset("parquet", data_files="my_dataset/*.parquet", '
# Package and program, perhaps of two files, or of the sections of a guide: what makes it run here, what moves it, the
# loader of an epoch and the numbers of a batch.
PROGRAMS = {
    ("streaming", "examples/synthetic_nlp.ipynb"): (
        [
            ("shuffle=False)", "shuffle=False, batch_size=batch_size)"),  # 0.13 has to know it
            ("shuffle=shuffle_train)", "shuffle=shuffle_train, batch_size=batch_size)"),
            ("num_workers=8, drop_last=True", "num_workers=2"),
            ("np.random.random() < 0.8", "i % 5 > 0"),
            ("shutil.rmtree(out_root, ignore_errors=True)\n", ""),
        ],
        [("from streaming import", "from shardkit.streaming import")],
        ("dataloader_ds_with_bs", "batch['number']"),
    ),
    ("streaming", "examples/cifar10.ipynb"): (
        [
            ("from torchvision.datasets import CIFAR10", "from stand_ins import CIFAR10"),
            ("np.random.permutation", "np.arange"),
            ("train_epochs = 2", "train_epochs = 1"),
            ("shutil.rmtree(out_root, ignore_errors=True)\n", ""),
        ],
        [("from streaming import", "from shardkit.streaming import")],
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
        [("import webdataset as wds", "import shardkit.wds as wds")],
        ("trainloader", "batch[1]"),
    ),
    ("webdataset", "examples/column-store.ipynb"): (
        [TARS, ("resampled=True, shardshuffle=True", "shardshuffle=False")],
        [("import webdataset as wds", "import shardkit.wds as wds")],
        ("trainset", "[batch['cls']]"),
    ),
    ("litdata", "examples/getting_started/generate.py", "examples/getting_started/stream.py"): (
        [
            ("s3://my-bucket/my_optimized_dataset", "my_optimized_dataset"),
            ("num_workers=4", "num_workers=2"),
            (
                "for sample in batch],\n    }",
                'for sample in batch],\n        "index": [sample["index"] for sample in batch],\n    }',
            ),
        ],
        [
            ("from litdata import optimize", "import shardkit as sk"),
            (
                "    optimize(\n        fn=random_images,  # The function applied over each input.",
                '    sk.pack(\n        sk.rows(random_images, range(1000), workers=2, worker_kind="process"),',
            ),
            ("        inputs=list(range(1000)),  # Provide any inputs. The fn is applied on each item.\n", ""),
            ("output_dir=", "output="),
            ("        num_workers=2,  # The number of workers. The inputs are distributed among them.\n", ""),
            (
                'chunk_bytes="64MB"',
                'columns={"index": "i64", "image": sk.Encode("jpeg"), "class": "i64"}, shard_size="64MB"',
            ),
            (
                "from litdata import StreamingDataLoader, StreamingDataset",
                "import shardkit as sk\nfrom shardkit.torch import Loader",
            ),
            ("StreamingDataset(input_dir, shuffle=True)", "sk.open(input_dir)"),
            (
                """# Custom collate function to handle the batch (Optional)
def collate_fn(batch):
    return {
        "image": [sample["image"] for sample in batch],
        "class": [sample["class"] for sample in batch],
        "index": [sample["index"] for sample in batch],
    }


""",
                "",
            ),
            ("StreamingDataLoader(dataset, collate_fn=collate_fn)", "Loader(input_dir)"),
        ],
        ("dataloader", "batch['index']"),
    ),
    (
        "litdata",
        "examples/sine_function_model_prediction/01-optimize.py",
        "examples/sine_function_model_prediction/02-model_training.py",
    ): (
        [
            ("num_workers=4", "num_workers=2"),
            ("num_workers=7", "num_workers=2"),
            ("max_epochs=100", "max_epochs=1"),
            ("splits=[0.7, 0.1, 0.1]", "splits=[0.8, 0.1, 0.1]"),  # which leaves none out
        ],
        [
            ("import numpy as np\n\nimport litdata as ld", "import numpy as np\n\nimport shardkit as sk"),
            ("import litdata as ld", "import shardkit as sk\nfrom shardkit.torch import Loader"),
            ("    ld.optimize(\n        fn=sine_function,  # the function applied to each input\n", "    sk.pack(\n"),
            ("        inputs=list(np.linspace", "        sk.rows(sine_function, np.linspace"),
            ("1000)),  # the inputs", '1000), workers=2, worker_kind="process"),  # the inputs'),
            ("output_dir=", "output="),
            ("        num_workers=2,  # The number of workers on the same machine\n", ""),
            ("chunk_size=50", "shard_samples=50"),
            ('        mode="overwrite",  # if optimized dataset already exists in dir, overwrite it.\n', ""),
            ("        dataset = ld.StreamingDataset(self.data_dir)\n", '        if stage == "fit":\n'),
            (
                "        self.train_dataset, self.val_dataset, self.test_dataset = ld.train_test_split(dataset, "
                "splits=",
                PARTS,
            ),
            ("[0.8, 0.1, 0.1])", '{"train": 0.8, "val": 0.1, "test": 0.1})'),
            (LOADER.format("train"), 'Loader("parts/train", batch_size=self.batch_size)'),
            (LOADER.format("val"), 'Loader("parts/val", batch_size=self.batch_size)'),
            (LOADER.format("test"), 'Loader("parts/test", batch_size=self.batch_size)'),
            ('self.log("test_loss", test_loss)', 'self.log("test_loss", test_loss, batch_size=len(x))'),
            ('self.log("val_loss", val_loss)', 'self.log("val_loss", val_loss, batch_size=len(x))'),
        ],
        (
            "(batch for part in ('train', 'val', 'test') for batch in getattr(data, part + '_dataloader')())",
            "batch['x'].flatten() * 1e6",
        ),
    ),
    ("datasets", "docs/source/quickstart.mdx#Vision"): (
        [
            ('"AI-Lab-Makerere/beans"', '"parquet", data_files="beans.parquet"'),
            ("load_dataset, Image\n", "load_dataset, Image\nstand_ins.beans()\n"),
            ("from torch.utils.data", "import torch\nfrom torch.utils.data"),  # which the guide lacks here
        ],
        [
            (
                """from torchvision.transforms import Compose, ColorJitter, ToTensor
jitter = Compose(
    [ColorJitter(brightness=0.5, hue=0.5), ToTensor()]
)
def transforms(examples):
    examples["pixel_values"] = [jitter(image.convert("RGB")) for image in examples["image"]]
    return examples
dataset = dataset.with_transform(transforms)
import torch
from torch.utils.data import DataLoader
def collate_fn(examples):
    images = []
    labels = []
    for example in examples:
        images.append((example["pixel_values"]))
        labels.append(example["labels"])

    pixel_values = torch.stack(images)
    labels = torch.tensor(labels)
    return {"pixel_values": pixel_values, "labels": labels}
dataloader = DataLoader(dataset, collate_fn=collate_fn, batch_size=4)
""",
                IMPORTS
                + """sk.pack(dataset, "beans")
jitter = sk.Image(source="image", jitter=(0.5, 0, 0, 0.5), dtype="f32")
columns = {"pixel_values": jitter, "labels": None}
dataloader = Loader("beans", batch_size=4, order="sequential", columns=columns)
""",
            ),
        ],
        ("dataloader", "batch['labels']"),
    ),
    ("datasets", "docs/source/use_with_pytorch.mdx#Stream data"): (
        [
            ("np.random.rand(10_000)", "np.arange(10_000) / 10_000"),
            (
                'Dataset.from_dict({"data": data}).push_to_hub("<username>/my_dataset")',
                'for i in range(2):\n    Dataset.from_dict({"data": data[i::2]}).to_parquet(f"my_dataset/{i}.parquet")',
            ),
            ('load_dataset("<username>/my_dataset", ', STREAM),
            ('load_dataset("deepmind/code_contests", ', STREAM),
            ("num_workers=4", "num_workers=2"),
        ],
        [
            ("from torch.utils.data import DataLoader\n", IMPORTS),
            (
                "dataloader = DataLoader(my_iterable_dataset, batch_size=32)",
                'sk.pack(my_iterable_dataset, "dataset")\n'
                'dataloader = Loader("dataset", batch_size=32, order="sequential")',
            ),
            ("DataLoader(my_iterable_dataset, batch_size=32, num_workers=2)", 'Loader("dataset", batch_size=32)'),
        ],
        ("dataloader", "batch['data'] * 1e6"),
    ),
}


def section(guide, title):
    """The code for PyTorch in a section of a guide: what stands behind its prompts."""
    text = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^##|\Z)", guide, re.DOTALL | re.MULTILINE)[1]
    blocks = re.findall(
        r"^```py(?:thon)?\n(.*?)^```", re.sub(r"<tf>.*?</tf>", "", text, flags=re.DOTALL), re.DOTALL | re.MULTILINE
    )
    lines = [line for block in blocks for line in block.split("\n")]
    return "".join(line[4:] + "\n" for line in lines if line.startswith((">>> ", "...")))


def cells(notebook):
    """The code of a program; of a notebook, without commands of its own."""
    if not notebook.startswith("{"):
        return notebook
    code = ["".join(cell["source"]) for cell in json.loads(notebook)["cells"] if cell["cell_type"] == "code"]
    return "\n".join(line for line in "\n".join(code).split("\n") if not line.lstrip().startswith(("%", "!"))) + "\n"


def code(checkout, place):
    """The code at a place of a checkout."""
    file, _, title = place.partition("#")
    text = (checkout / file).read_text()
    return section(text, title) if title else cells(text)


def replaced(program, changes):
    """The program with the changes, each of which has to be possible."""
    for old, new in changes:
        if old not in program:
            raise SystemExit(f"moved_programs: {old!r} is not in the program: it is another version")
        program = program.replace(old, new)
    return program


def run(programs, folder):
    """The samples of an epoch, and its seconds."""
    folder.mkdir()
    (folder / "stand_ins.py").write_text(STAND_INS)
    for program in programs:
        done = started(folder, program)
        if done.returncode != 0:
            return None, done.stderr[-2000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("EPOCH "))
    return json.loads(line[6:])


def started(folder, program):
    """What came of a program."""
    (folder / "program.py").write_text("import stand_ins\n" + program)
    environment = {
        "MPLBACKEND": "agg",
        "PYTHONPATH": os.path.abspath(os.environ["PYTHONPATH"]),
        "HF_HOME": str(folder / "huggingface"),
    }
    command = [sys.executable, "program.py"]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("streaming", "webdataset", "litdata", "datasets"):
        parser.add_argument(f"--{name}", type=pathlib.Path, metavar="CHECKOUT")
    checkouts = vars(parser.parse_args())
    failed = False
    print("| Program | Changed lines | Samples of an epoch | Samples/s before | after |\n|---|--:|--:|--:|--:|")
    for (package, *files), (runs_here, moves, (loader, numbers)) in PROGRAMS.items():
        if checkouts[package] is None:
            continue
        before = NEXT.join(code(checkouts[package], file) for file in files)
        before = replaced(before, runs_here) + EPOCH.replace("LOADER", loader).replace("ID", numbers)
        after = replaced(before, moves)
        with tempfile.TemporaryDirectory() as folder:
            wanted, seconds = run(before.split(NEXT), pathlib.Path(folder, "before"))
            found, ours = run(after.split(NEXT), pathlib.Path(folder, "after"))
        marks = [line[0] for line in difflib.ndiff(before.split("\n"), after.split("\n"))]
        row = f"| {package}: {', '.join(files)} | {max(marks.count('+'), marks.count('-'))} |"
        if wanted is None or found is None:
            failed = True
            print(row, "failed |", seconds if wanted is None else ours)
            continue
        failed = failed or found != wanted
        samples = len(found) if found == wanted else f"{len(found)}, others than the {len(wanted)} before"
        print(f"{row} {samples} | {len(wanted) / seconds:.0f} | {len(found) / ours:.0f} |")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
