from __future__ import annotations

import json
import os
import re
import runpy
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import JPEG

import shardkit as sk

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def lines(name: str, *arguments: object) -> list[str]:
    """What an example prints."""
    command = [sys.executable, EXAMPLES / name, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def check_training(folder: Path, name: str, *arguments: object, steps: int, fall: float) -> None:
    """The losses fall to a part of what they were, and are the same when the run is stopped."""
    whole = lines(name, *arguments, "--steps", steps)
    losses = [float(line.split()[-1]) for line in whole]
    assert len(losses) == steps
    assert sum(losses[-6:]) < fall * sum(losses[:6])
    parts = []
    for count in (7, 100):
        parts += lines(name, *arguments, "--steps", steps, "--checkpoint", folder / "checkpoint", "--stop-after", count)
    assert parts == whole


def test_masks_are_learnt_and_training_resumes_exactly(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pairs = tmp_path / "pairs"
    subprocess.run(
        [os.environ.get("SHARDCTL", "shardctl"), "synth", "sa1b", "-o", pairs, "--count", "10"],
        check=True,
        capture_output=True,
    )
    sk.pack(pairs, tmp_path / "dataset")
    check_training(tmp_path, "train_masks.py", tmp_path / "dataset", steps=24, fall=0.97)


def steps_of(printed: list[str]) -> dict[int, float]:
    """The losses of what a quickstart prints, "step 5: loss 1.2, 300 images/s"."""
    found = (re.match(r"step (\d+): loss ([\d.]+), \d+ \w+/s$", line) for line in printed)
    return {int(line[1]): float(line[2]) for line in found if line}


def check_quickstart(folder: Path, name: str, *inputs: object, steps: int, fall: float) -> None:
    """As `check_training`, of a program that goes on when the same command is given again."""
    whole = steps_of(lines(name, *inputs, "--out", folder / "whole", "--steps", steps))
    assert list(whole) == list(range(1, steps + 1))
    losses = list(whole.values())
    assert sum(losses[-6:]) < fall * sum(losses[:6])
    parts = [steps_of(lines(name, *inputs, "--out", folder / "parts", "--steps", count)) for count in (7, steps, steps)]
    assert parts[0] | parts[1] == whole
    assert list(parts[1]) == list(range(8, steps + 1))
    assert parts[2] == {}


def test_texts_are_learnt_and_training_resumes_exactly(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    texts = [path.read_text() for path in sorted(EXAMPLES.glob("pack_*.py"))]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    check_quickstart(tmp_path, "quickstart_text.py", tmp_path / "texts.jsonl", steps=24, fall=0.85)
    data = tmp_path / "whole" / "dataset"
    assert [bytes(sample["tokens"].astype(np.uint8)).decode() for sample in sk.open(data)] == texts
    columns = {"tokens": sk.Tokens(128, "concat")}
    assert len(sk.Loader(data, batch_size=8, columns=columns)) < 24  # the second epoch is reached


def test_texts_are_made_up_where_none_are_given(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert len(steps_of(lines("quickstart_text.py", "--out", tmp_path, "--steps", 2))) == 2
    assert len(sk.open(tmp_path / "dataset")) == 2000


def test_the_model_sees_earlier_tokens_of_its_text_only() -> None:
    torch = pytest.importorskip("torch")
    example = SimpleNamespace(**runpy.run_path(str(EXAMPLES / "quickstart_text.py")))
    context, end = example.CONTEXT, 40
    pieces = np.array([[0, 0, end, 0], [0, end, context - end, 0]])
    tokens = torch.arange(context)[None]
    model = example.Model()
    for changed, unlike in ((10, range(10, end)), (end, range(end, context)), (50, range(50, context))):
        other = tokens.clone()
        other[0, changed] = 200
        one, two = (model(sk.TokenRows(values, pieces, torch.from_numpy)) for values in (tokens, other))
        assert (one - two).abs().sum(dim=2)[0].nonzero()[:, 0].tolist() == list(unlike)


def draw_stripes(folder: Path, count: int, seed: int) -> None:
    """Images in three class folders: stripes across, along, and both, of any color."""
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(seed)
    for i in range(count):
        wave = np.sin(np.arange(48) * random.uniform(0.6, 1.2) + random.uniform(0, 6))
        planes = {"across": wave[:, None] + 0 * wave, "along": wave + 0 * wave[:, None], "both": wave[:, None] * wave}
        name = list(planes)[i % 3]
        pixels = 128 + planes[name][..., None] * random.uniform(-100, 100, 3) + random.normal(0, 10, (48, 48, 3))
        (folder / name).mkdir(parents=True, exist_ok=True)
        image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / name / f"{i}.jpg")


def test_classes_are_learnt_and_lightning_resumes_within_an_epoch(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    draw_stripes(tmp_path / "train", 150, 1)
    draw_stripes(tmp_path / "val", 60, 2)
    whole = lines("train_lightning.py", tmp_path, tmp_path / "whole", "--epochs", 5)
    accuracies = [float(line.split()[-1]) for line in whole if line.startswith("epoch")]
    assert accuracies[-1] > accuracies[0] + 0.2
    # An epoch has 9 steps.
    options = (tmp_path, tmp_path / "parts", "--epochs", 5)
    assert lines("train_lightning.py", *options, "--stop-after", 20) == whole[: 20 + 2]
    assert lines("train_lightning.py", *options) == whole[20 + 2 :]


def test_an_augmentation_gives_the_same_wherever_it_runs(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    with sk.Writer(folder, {"image": sk.Encode()}) as writer:
        for i in range(10):
            writer.write(str(i), image=np.random.default_rng(i).integers(0, 255, (90, 120, 3), np.uint8))
    runs = [
        lines("augment.py", folder, *options)
        for options in ((), ("--workers", 0), ("--workers", 3), ("--kind", "process"))
    ]
    assert [line.split()[0] for line in runs[0][:3]] == ["0", "1", "2"]
    assert len(set(runs[0][:3])) == 3
    assert all(run[:3] == runs[0][:3] for run in runs)
    assert "bounded by" in runs[0][4]


def test_rare_classes_come_as_often_and_training_goes_on_at_another_world_size(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "pictures"
    labels = [0] * 60 + [1] * 10 + [2] * 3 + [3] * 7
    with sk.Writer(folder, {"image": sk.Encode(), "label": "i64"}, max_block_samples=4) as writer:
        for i, label in enumerate(labels):
            pixels = np.random.default_rng(i).integers(0, 60, (40, 50, 3), np.uint8) + np.uint8(60 * label)
            writer.write(str(i), image=pixels, label=label)

    def counts(line: str) -> dict[int, int]:
        return {
            int(name): int(count)
            for name, count in (each.split(": ") for each in line[line.index("{") + 1 : -1].split(", "))
        }

    options = (folder, "--where", "label < 3", "--epochs", 4)
    whole = lines("train_balanced.py", *options)
    assert len(whole) == 4
    for line in whole:
        taken = counts(line)
        assert set(taken) == {0, 1, 2}
        assert sum(taken.values()) == 80  # 73, and 7 that repeat others in the last batch
        assert all(abs(count - 80 / 3) < 14 for count in taken.values())
    # One epoch of two ranks, then alone.
    checkpoint = tmp_path / "checkpoint"
    for rank in (1, 0):
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
        try:
            part = lines(
                "train_balanced.py", *options[:-1], 1, "--checkpoint", checkpoint if rank == 0 else tmp_path / "other"
            )
        finally:
            del os.environ["RANK"], os.environ["WORLD_SIZE"]
        assert sum(counts(part[0]).values()) == 40
    rest = lines("train_balanced.py", *options, "--checkpoint", checkpoint)
    assert [counts(line) for line in rest] == [counts(line) for line in whole[1:]]


def test_objects_are_found_and_training_resumes_exactly(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    columns = {"image": sk.Encode(), "boxes": "i32[]", "category": "i64[]"}
    with sk.Writer(tmp_path / "objects", columns) as writer:
        for i in range(40):
            random = np.random.default_rng(i)
            pixels = random.integers(0, 30, (80, 100, 3), np.uint8)
            boxes, classes = [], []
            for _ in range(i % 4):
                left, top, width, height = random.integers((0, 0, 15, 15), (70, 50, 30, 30))
                kind = int(random.integers(3))
                pixels[top : top + height, left : left + width, kind] = 220
                boxes.append([left, top, width, height])
                classes.append(kind)
            writer.write(
                str(i),
                image=pixels,
                boxes=np.array(boxes, np.int32).reshape(-1, 4),
                category=np.array(classes, np.int64),
            )
    check_training(tmp_path, "train_detection.py", tmp_path / "objects", steps=24, fall=0.8)


def test_classes_of_pixels_are_learnt_and_training_resumes_exactly(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    image = pytest.importorskip("PIL.Image")
    with sk.Writer(tmp_path / "maps", {"image": sk.Encode(), "labels": "png"}) as writer:
        for i in range(24):
            random = np.random.default_rng(i)
            classes = np.zeros((80, 100), np.uint8)
            for kind in (1, 2, 3):
                top, left = random.integers((0, 0), (50, 70))
                classes[top : top + 25, left : left + 25] = kind
            pixels = np.array([[20, 20, 20], [200, 60, 60], [60, 200, 60], [60, 60, 200]], np.uint8)[classes]
            noise = random.integers(0, 20, pixels.shape, np.uint8)
            image.fromarray(classes).save(tmp_path / "labels.png")
            writer.write(str(i), image=pixels + noise, labels=(tmp_path / "labels.png").read_bytes())
    check_training(tmp_path, "train_segmentation.py", tmp_path / "maps", steps=24, fall=0.8)


def test_captions_find_their_images_and_training_resumes_exactly(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    check_quickstart(tmp_path, "quickstart_image_text.py", steps=40, fall=0.9)


def test_captions_of_coco_and_of_a_dataset_are_taken(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "val").mkdir()
    for i in range(20):
        (tmp_path / "val" / f"{i}.jpg").write_bytes(JPEG)
    images = [{"id": i, "file_name": f"{i}.jpg", "width": 64, "height": 48} for i in range(20)]
    captions = [{"id": i, "image_id": i // 2, "caption": f"the {i}th caption"} for i in range(40)]
    (tmp_path / "captions_val.json").write_text(json.dumps({"images": images, "annotations": captions}))
    coco = (tmp_path / "captions_val.json", tmp_path / "val")
    packed = lines("quickstart_image_text.py", *coco, "--out", tmp_path / "coco", "--steps", 3)
    data = tmp_path / "coco" / "dataset"
    assert sk.open(data)["3"]["captions"] == ["the 6th caption", "the 7th caption"]
    opened = lines("quickstart_image_text.py", data, "--out", tmp_path / "opened", "--steps", 3)
    assert steps_of(opened) == steps_of(packed)
    assert not (tmp_path / "opened" / "dataset").exists()


# A program whose loaders note the samples that the loop gets, one line for each step, in the file of their rank.
NOTING = """
import json, os, runpy, sys
import shardkit.torch

class Noting(shardkit.torch.Loader):
    def __init__(self, *arguments, as_tuple, **options):
        super().__init__(*arguments, **options)
        self.names = as_tuple

    def epochs(self, count):
        return map(self.noted, super().epochs(count))

    def noted(self, batches):
        for batch in batches:
            with open(f"{NOTES}.{self.rank}", "a") as file:
                print(json.dumps(batch.sample_keys), file=file)
            yield tuple(batch[name] for name in self.names)

    def __iter__(self):
        return (tuple(batch[name] for name in self.names) for batch in super().__iter__())

NOTES = sys.argv.pop(1)
shardkit.torch.Loader = Noting
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def start_ranks(count: int, notes: Path, *arguments: object) -> list[subprocess.Popen[str]]:
    """Run quickstart_images.py on so many ranks of this machine, as torchrun does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", NOTING, notes, EXAMPLES / "quickstart_images.py", *arguments]
    variables = {"WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
    return [
        subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **{name: str(value) for name, value in variables.items()}, "RANK": str(rank)},
        )
        for rank in range(count)
    ]


def noted(notes: Path, ranks: int) -> list[list[str]]:
    """The samples of each step over all ranks, sorted."""
    of_ranks = [Path(f"{notes}.{rank}").read_text().splitlines() for rank in range(ranks)]
    return [sorted(key for line in step for key in json.loads(line)) for step in zip(*of_ranks, strict=False)]


def test_pictures_are_learnt_and_two_killed_ranks_go_on_as_one(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("torch has no torch.distributed")
    options = ("--epochs", 3, "--every", 5)
    (alone,) = start_ranks(1, tmp_path / "alone", "--out", tmp_path / "whole", *options)
    whole = alone.communicate(timeout=100)[0].splitlines()
    assert alone.returncode == 0
    accuracies = [float(line.split()[-1]) for line in whole if line.startswith("epoch")]
    assert len(accuracies) == 3
    assert accuracies[-1] > 0.6
    samples = noted(tmp_path / "alone", 1)
    assert len(samples) == 3 * 22  # of 540 pictures, 24 in a step

    ranks = start_ranks(2, tmp_path / "two", "--out", tmp_path / "parts", *options)
    assert ranks[0].stdout is not None
    printed = []
    for line in ranks[0].stdout:
        printed.append(line.strip())
        if line.startswith("step 30:"):  # in the second epoch
            break
    for rank in ranks:
        rank.kill()
    printed += ranks[0].stdout.read().splitlines()  # they may have come further
    for rank in ranks:
        rank.communicate(timeout=100)
    step = torch.load(tmp_path / "parts" / "checkpoint.pt")["step"]
    assert step in (25, 30, 35)
    assert noted(tmp_path / "two", 2)[:step] == samples[:step]

    (rest,) = start_ranks(1, tmp_path / "rest", "--out", tmp_path / "parts", *options)
    printed += rest.communicate(timeout=100)[0].splitlines()
    assert rest.returncode == 0
    assert noted(tmp_path / "rest", 1) == samples[step:]
    assert steps_of(printed) == pytest.approx(steps_of(whole), rel=1e-3)
    assert float(printed[-1].split()[-1]) == pytest.approx(accuracies[-1], abs=0.05)


def test_class_folders_and_their_dataset_are_taken(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    draw_stripes(tmp_path / "photos", 60, 1)
    packed = lines("quickstart_images.py", tmp_path / "photos", "--out", tmp_path / "run", "--epochs", 2, "--every", 1)
    data = tmp_path / "run" / "dataset"
    assert len(sk.open(data)) == 60
    assert len(steps_of(packed)) == 2 * 2  # of 54 pictures; every tenth is for validation
    opened = lines("quickstart_images.py", data, "--out", tmp_path / "opened", "--epochs", 2, "--every", 1)
    assert steps_of(opened) == steps_of(packed)
    assert lines("quickstart_images.py", data, "--out", tmp_path / "opened", "--epochs", 2) == []


def test_views_find_each_other_and_training_resumes_exactly(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with sk.Writer(tmp_path / "pictures", {"image": sk.Encode()}) as writer:
        for i in range(48):
            random = np.random.default_rng(i)
            color = random.integers(30, 220, 3)
            pixels = (color + random.normal(0, 12, (60, 70, 3))).clip(0, 255).astype(np.uint8)
            writer.write(str(i), image=pixels)
    check_training(tmp_path, "train_views.py", tmp_path / "pictures", steps=24, fall=0.95)


def test_pitches_are_learnt_and_training_resumes_exactly(tmp_path: Path) -> None:
    """Tones of three pitches in noise, by turns as WAV and FLAC."""
    pytest.importorskip("torch")
    soundfile = pytest.importorskip("soundfile")
    with sk.Writer(tmp_path / "sounds", {"audio": "bytes", "label": "i64"}, max_block_samples=8) as writer:
        for i in range(30):
            random = np.random.default_rng(i)
            times = np.arange(random.integers(5000, 20000)) / 16000
            sound = 0.2 * np.sin(2 * np.pi * (440, 660, 990)[i % 3] * random.uniform(0.97, 1.03) * times)
            path = tmp_path / ("a.wav" if i % 2 else "a.flac")
            soundfile.write(path, sound + random.normal(0, 0.02, times.size), 16000)
            writer.write(str(i), audio=path.read_bytes(), label=i % 3)
    check_training(tmp_path, "train_sounds.py", tmp_path / "sounds", steps=24, fall=0.8)
