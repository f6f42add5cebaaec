"""What docs/pack.md and docs/recipes.md tell to type, run as it stands on a small input of each kind."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import JPEG, PNG
from test_guides import programs, require, run
from tfrecords import example, field, records, varint

import shardkit as sk
from shardkit.schema import describe

ROOT = Path(__file__).resolve().parents[2]
RECIPES = programs("recipes.md")
# The packages that the recipes need, and the row of docs/pack.md.
PACKAGES = {
    "Parquet, and datasets of Hugging Face": ["pyarrow"],
    "Images with a metadata.parquet": ["pyarrow"],
    "Arrow: DuckDB, polars, pandas": ["pyarrow"],
    "TFRecord": ["crc32c"],
    "LMDB": ["lmdb"],
    "LMDB of Caffe": ["lmdb"],
    "HDF5": ["h5py"],
    "NumPy": [],
    "Several images in a sample": [],
    "A Dataset of torch": ["torch"],
}


def write(path: Path, content: bytes | str = JPEG) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def tar_of(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


def samples(dataset: Path) -> dict[str, dict[str, Any]]:
    """The samples by their keys, without these."""
    return {
        sample["key"]: {name: value for name, value in sample.items() if name != "key"} for sample in sk.open(dataset)
    }


def class_folders(folder: Path) -> None:
    for number, name in enumerate(("cat/a.jpg", "cat/b.png", "dog/a.jpg")):
        write(folder / name, PNG if number == 1 else JPEG)


def check_classes(dataset: Path) -> None:
    found = samples(dataset)
    assert sorted((row["label"], row["image"]) for row in found.values()) == [(0, PNG), (0, JPEG), (1, JPEG)]
    assert sk.open(dataset).classes == ["cat", "dog"]


# Parquet


def make_parquet(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    images = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    for part, rows in (("train-00001", [1, 2]), ("train-00000", [0]), ("test-00000", [7])):
        table = pa.table(
            {
                "image": pa.array([{"bytes": PNG if i % 2 else JPEG, "path": f"{i}.jpg"} for i in rows], images),
                "label": pa.array(rows, pa.int64()),
            }
        )
        features = {"image": {"_type": "Image"}, "label": {"names": ["a", "b", "c"], "_type": "ClassLabel"}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        write(folder / "data" / f"{part}-of-00002.parquet", "")
        pq.write_table(table, folder / "data" / f"{part}-of-00002.parquet")


def check_parquet(dataset: Path) -> None:
    found = list(samples(dataset).values())
    assert found == [{"image": PNG if i % 2 else JPEG, "label": i} for i in range(3)]
    assert sk.open(dataset).classes == ["a", "b", "c"]


PHOTOS = {"a.jpg": (JPEG, 7), "b/c.png": (PNG, None)}


def make_photos_of_rows(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, (image, _) in PHOTOS.items():
        write(folder / "photos" / name, image)
    labels = pa.array([label for _, label in PHOTOS.values()], pa.int16())
    pq.write_table(pa.table({"file_name": list(PHOTOS), "label": labels}), folder / "photos" / "metadata.parquet")


def check_photos_of_rows(dataset: Path) -> None:
    assert samples(dataset) == {
        name: {"file_name": name, "image": image, "label": label} for name, (image, label) in PHOTOS.items()
    }
    schema = sk.open(dataset).schema
    assert (describe(schema["image"]), describe(schema["label"])) == ("image", "i16?")


def test_metadata_in_parquet_is_refused_with_the_recipe(tmp_path: Path) -> None:
    require(sys.executable, ["pyarrow"])
    import pyarrow as pa
    import pyarrow.parquet as pq

    way = "docs/recipes.md, Images with a metadata.parquet"
    make_photos_of_rows(tmp_path)
    folder = tmp_path / "photos"
    shutil.make_archive(str(folder), "zip", folder)
    for given in ("photos", "photos.zip"):
        assert f"{given}/metadata.parquet: " in typed(tmp_path, f"shardctl pack {given} -o OUT")
        assert way in typed(tmp_path, f"shardctl pack {given} -o OUT")
    pq.write_table(pa.table({"profile_name": list(PHOTOS), "label": [1, 2]}), folder / "metadata.parquet")
    assert typed(tmp_path, "shardctl pack photos -o OUT") == ""  # it names no files


# Arrow


def make_people(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    vectors = pa.array([[i, i + 1] for i in range(5)], pa.list_(pa.float32(), 2))
    table = pa.table({"key": list("abcde"), "height": [1.5 + i / 10 for i in range(5)], "vector": vectors})
    pq.write_table(table, folder / "people.parquet")


def check_people(dataset: Path) -> None:
    import pyarrow.parquet as pq

    assert [row["vector"].tolist() for row in samples(dataset).values()] == [[i, i + 1] for i in range(5)]
    first, again = (pq.read_table(dataset.parent / f"{name}.parquet") for name in ("people", "again"))
    assert again.equals(first)


# TFRecord


def make_tfrecord(folder: Path) -> None:
    for part in range(2):
        rows = [
            {"image/encoded": [JPEG], "image/class/label": [i], "image/class/text": ["ü".encode()]}
            for i in (2 * part, 2 * part + 1)
        ]
        write(folder / "tfrecords" / f"train-0000{part}-of-00002", records([example(row) for row in rows]))


def check_tfrecord(dataset: Path) -> None:
    found = list(samples(dataset).values())
    assert [row["image/class/label"] for row in found] == [0, 1, 2, 3]
    assert {row["image/encoded"] for row in found} == {JPEG}
    assert {row["image/class/text"] for row in found} <= {"ü", "ü".encode()}


# LMDB


def make_lmdb(path: Path, values: dict[bytes, bytes]) -> None:
    import lmdb

    with lmdb.open(str(path), map_size=1 << 20) as store, store.begin(write=True) as transaction:
        for key, value in values.items():
            transaction.put(key, value)


LSUN = {b"%040x" % i: PNG if i % 2 else JPEG for i in range(5)}


def check_lsun(dataset: Path) -> None:
    assert samples(dataset) == {key.decode(): {"image": value} for key, value in LSUN.items()}
    assert sk.open(dataset).schema["image"].type in ("image", "bytes")


PIXELS = np.zeros((8, 16, 3), np.uint8) + np.array([250, 128, 4], np.uint8)


def make_caffe(folder: Path) -> None:
    def number(field: int, value: int) -> bytes:
        return varint(field << 3) + varint(value)

    planes = PIXELS[:, :, ::-1].transpose(2, 0, 1).tobytes()
    sizes = number(1, 3) + number(2, 8) + number(3, 16)
    values = {b"00000000_a": sizes + field(4, planes) + number(5, 300), b"00000001_b": field(4, JPEG) + number(7, 1)}
    make_lmdb(folder / "train_lmdb", values)


def check_caffe(dataset: Path) -> None:
    found = samples(dataset)
    assert [(key, row["label"]) for key, row in found.items()] == [("00000000_a", 300), ("00000001_b", 0)]
    assert found["00000001_b"]["image"] == JPEG
    decoded = sk.decode_image(found["00000000_a"]["image"])
    assert decoded.shape == PIXELS.shape
    assert abs(decoded.astype(int) - PIXELS).max() < 8


# Arrays

IMAGES = np.arange(600 * 4 * 5 * 3, dtype=np.uint32).astype(np.uint8).reshape(600, 4, 5, 3)
LABELS = np.arange(600) % 7


def make_hdf5(folder: Path) -> None:
    import h5py

    with h5py.File(folder / "train.h5", "w") as file:
        file.create_dataset("image", data=IMAGES, chunks=(50, 4, 5, 3), compression="gzip")
        file["label"] = LABELS


def make_npz(folder: Path) -> None:
    np.savez(folder / "train.npz", image=IMAGES, label=LABELS)


def check_arrays(dataset: Path) -> None:
    found = sk.open(dataset)
    assert len(found) == 600
    for i, sample in enumerate(found):
        assert np.array_equal(sample["image"], IMAGES[i])
        assert sample["label"] == LABELS[i]


# Lists of files


def make_pages(folder: Path) -> None:
    for i in range(3):
        write(folder / "pages" / f"{i}.png", PNG + bytes([i]))
    rows = ({"file_names": [f"{i}.png" for i in names], "text": str(names)} for names in ([0, 1], [2]))
    write(folder / "pages" / "metadata.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def check_pages(dataset: Path) -> None:
    assert samples(dataset) == {
        "0.png": {"image_0": PNG + b"\0", "image_1": PNG + b"\1", "text": "[0, 1]"},
        "2.png": {"image_0": PNG + b"\2", "image_1": None, "text": "[2]"},
    }


# torch


def make_photos(folder: Path) -> None:
    for i in range(7):
        write(folder / "photos" / f"{i}.jpg", JPEG + bytes([i]))


def check_photos(dataset: Path) -> None:
    assert [(row["image"], row["label"]) for row in samples(dataset).values()] == [
        (JPEG + bytes([i]), i % 3) for i in range(7)
    ]


# What makes the input in a folder, and what checks the dataset.
Case = tuple[Callable[[Path], None], Callable[[Path], None]]
INPUTS: dict[str, Case] = {
    "Parquet, and datasets of Hugging Face": (make_parquet, check_parquet),
    "Images with a metadata.parquet": (make_photos_of_rows, check_photos_of_rows),
    "Arrow: DuckDB, polars, pandas": (make_people, check_people),
    "TFRecord": (make_tfrecord, check_tfrecord),
    "LMDB": (lambda folder: make_lmdb(folder / "bedroom_val_lmdb", LSUN), check_lsun),
    "LMDB of Caffe": (make_caffe, check_caffe),
    "HDF5": (make_hdf5, check_arrays),
    "NumPy": (make_npz, check_arrays),
    "Several images in a sample": (make_pages, check_pages),
    "A Dataset of torch": (make_photos, check_photos),
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile(RECIPES[recipe], recipe, "exec")
    require(sys.executable, PACKAGES[recipe])
    make, check = INPUTS[recipe]
    make(tmp_path)
    if recipe == "A Dataset of torch":  # workers import the program, if they are not forked
        run(sys.executable, RECIPES[recipe], tmp_path)
    else:
        monkeypatch.chdir(tmp_path)
        exec(compile(RECIPES[recipe], recipe, "exec"), {})
    check(tmp_path / "dataset")
    assert sk.validate(tmp_path / "dataset", deep=True)


# The table of docs/pack.md


def make_files(folder: Path) -> None:
    for i in range(3):
        write(folder / "FOLDER" / f"d/{i}.jpg")
        write(folder / "FOLDER" / f"d/{i}.json", json.dumps({"n": i}))


def check_files(dataset: Path) -> None:
    assert samples(dataset) == {f"d/{i}": {"jpg": JPEG, "json": {"n": i}} for i in range(3)}


def make_zip(folder: Path) -> None:
    class_folders(folder / "classes")
    with zipfile.ZipFile(folder / "archive.zip", "w") as file:
        for path in sorted((folder / "classes").rglob("*.*")):
            file.write(path, path.relative_to(folder / "classes"))


def make_metadata(folder: Path) -> None:
    write(folder / "data" / "train" / "a.jpg")
    write(folder / "data" / "train" / "b.png", PNG)
    write(folder / "data" / "train" / "metadata.csv", 'file_name,text\na.jpg,a cat\nb.png,"a dog, asleep"\n')


def make_list(folder: Path) -> None:
    write(folder / "DIR" / "x" / "a.jpg")
    write(folder / "DIR" / "b.png", PNG)
    write(folder / "list.csv", 'image_path,text\nx/a.jpg,a cat\nb.png,"a dog, asleep"\n')


def check_texts(dataset: Path) -> None:
    found = [sorted(map(repr, row.values())) for row in samples(dataset).values()]
    assert len(found) == 2
    for row, (image, text) in zip(found, ((JPEG, "a cat"), (PNG, "a dog, asleep")), strict=True):
        assert {repr(image), repr(text)} <= set(row)


def make_lines(folder: Path) -> None:
    for part in range(2):
        rows = ({"text": f"{part} {i} ü", "n": i} for i in range(5))
        write(folder / "lines" / f"{part}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def check_lines(dataset: Path) -> None:
    expected = [{"text": f"{part} {i} ü", "n": i} for part in range(2) for i in range(5)]
    assert list(samples(dataset).values()) == expected


def make_tars(folder: Path) -> None:
    for part in range(2):
        members = {f"{part}{i}.{end}": value for i in range(2) for end, value in (("jpg", JPEG), ("cls", b"%d" % i))}
        write(folder / "tars" / f"{part:06}.tar", tar_of(members))


def check_tars(dataset: Path) -> None:
    found = samples(dataset)
    assert [(key, row["jpg"]) for key, row in found.items()] == [(key, JPEG) for key in ("00", "01", "10", "11")]
    assert [row["cls"] for row in found.values()] in (["0", "1"] * 2, [b"0", b"1"] * 2)


def make_mds(folder: Path) -> None:
    sk.pack([{"image": JPEG, "label": i} for i in range(5)], folder / "rows")
    sk.convert(folder / "rows", folder / "mds", to="mds", columns=["image", "label"])
    (folder / "mds" / "shardkit.json").unlink(missing_ok=True)


def check_mds(dataset: Path) -> None:
    found = sk.open(dataset)
    assert [(sample["image"], sample["label"]) for sample in found] == [(JPEG, i) for i in range(5)]


def make_coco(folder: Path) -> None:
    for i in (1, 2):
        write(folder / "IMAGES" / f"{i:012}.jpg")
    boxes = [
        {"id": i, "image_id": 1, "category_id": 3 * i, "bbox": [0, 0, 1, 1], "area": 1, "iscrowd": 0} for i in (1, 2)
    ]
    document = {
        "images": [{"id": i, "file_name": f"{i:012}.jpg", "width": 1, "height": 1} for i in (1, 2)],
        "annotations": [{**box, "segmentation": [[0, 0, 1, 0, 1, 1]]} for box in boxes],
        "categories": [{"id": 3 * i, "name": name} for i, name in ((1, "cat"), (2, "dog"))],
    }
    write(folder / "instances.json", json.dumps(document))


def check_coco(dataset: Path) -> None:
    found = list(samples(dataset).values())
    assert [row["image"] for row in found] == [JPEG, JPEG]
    assert found[0]["bbox"].tolist() == [[0, 0, 1, 1]] * 2
    assert found[0]["category_id"].tolist() == [3, 6]
    assert found[1]["bbox"] is None or len(found[1]["bbox"]) == 0


def make_sa1b(folder: Path) -> None:
    command = [os.environ.get("SHARDCTL", "shardctl"), "synth", "sa1b", "-o", folder / "pairs", "--count", "3"]
    subprocess.run(command, check=True, capture_output=True)
    write(
        folder / "sa_000020.tar",
        tar_of({path.name: path.read_bytes() for path in sorted((folder / "pairs").iterdir())}),
    )


def check_sa1b(dataset: Path) -> None:
    found = samples(dataset)
    assert len(found) == 3
    for key, row in found.items():
        assert row["image"] == (dataset.parent / "pairs" / f"{key}.jpg").read_bytes()
        annotations = json.loads((dataset.parent / "pairs" / f"{key}.json").read_bytes())["annotations"]
        assert len(row["masks"]) == len(annotations) > 0


def make_imagenet(folder: Path) -> None:
    classes = {
        name: tar_of({f"{name}_{i}.JPEG": JPEG + bytes([i]) for i in range(3)}) for name in ("n01440764", "n01443537")
    }
    write(folder / "ILSVRC2012_img_train.tar", tar_of({f"{name}.tar": tar for name, tar in classes.items()}))


def check_imagenet(dataset: Path) -> None:
    found = {Path(key).stem: row for key, row in samples(dataset).items()}
    assert len(found) == 6
    for number, name in enumerate(("n01440764", "n01443537")):
        for i in range(3):
            assert found[f"{name}_{i}"] == {"image": JPEG + bytes([i]), "label": number, "class_name": name}
    assert sk.open(dataset).classes == ["n01440764", "n01443537"]


def picture(path: Path, width: int, height: int, orientation: int = 1) -> None:
    image = pytest.importorskip("PIL.Image", reason="the package PIL is not installed")
    made = image.new("RGB", (width, height))
    exif = made.getexif()
    exif[0x0112] = orientation
    path.parent.mkdir(parents=True, exist_ok=True)
    made.save(path, exif=exif)


def make_yolo(folder: Path) -> None:
    picture(folder / "images" / "a.jpg", 100, 50)
    picture(folder / "images" / "train" / "b.jpg", 64, 32)
    picture(folder / "images" / "turned.jpg", 100, 50, 6)
    write(folder / "labels" / "a.txt", "7 0.5 0.5 0.2 0.4\n\n0 0.125 0.25 0.25 0.5")
    write(folder / "labels" / "turned.txt", "1 0.5 0.5 0.2 0.4\n")
    (folder / "examples").symlink_to(ROOT / "examples")


def check_yolo(dataset: Path) -> None:
    found = samples(dataset)
    boxes = {key: (row["boxes"].round(3).tolist(), row["category"].tolist()) for key, row in found.items()}
    assert boxes == {
        "a": ([[40, 15, 20, 20], [0, 0, 25, 25]], [7, 0]),
        "train/b": ([], []),
        "turned": ([[20, 30, 10, 40]], [1]),
    }
    assert all(found[key]["boxes"].shape[1] == 4 for key in found)
    assert found["train/b"]["image"] == (dataset.parent / "images" / "train" / "b.jpg").read_bytes()
    columns = {"image": sk.Image(apply_orientation=True), "boxes": sk.Boxes("xywh", with_columns=["category"])}
    assert sum(int(batch.counts("boxes").sum()) for batch in sk.Loader(dataset, 1, columns=columns)) == 2 + 1


def make_voc(folder: Path, names: tuple[str, ...] = ("2007_000027", "2007_000032", "empty")) -> None:
    voc = folder / "VOCdevkit" / "VOC2012"
    for i, name in enumerate(names):
        write(voc / "JPEGImages" / f"{name}.jpg")
        kinds = [] if name == "empty" else [("person", (1, 1, 10, 20.5)), ("cat", (3, 4, 3, 4))][: i + 1]
        objects = "".join(
            f"<object><name>{kind}</name><difficult>{k}</difficult><part><name>head</name></part><bndbox>"
            + "".join(f"<{side}>{at}</{side}>" for side, at in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
            + "</bndbox></object>"
            for k, (kind, box) in enumerate(kinds)
        )
        write(voc / "Annotations" / f"{name}.xml", f"<annotation><filename>{name}.jpg</filename>{objects}</annotation>")
    write(voc / "ImageSets" / "Main" / "val.txt", "2007_000032\n")
    (folder / "examples").symlink_to(ROOT / "examples")


def check_voc(dataset: Path) -> None:
    found = samples(dataset)
    assert sk.open(dataset).classes == ["cat", "person"]
    shown = {
        key: (row["boxes"].tolist(), row["category"].tolist(), row["difficult"].tolist()) for key, row in found.items()
    }
    assert shown == {
        "2007_000027": ([[0, 0, 10, 20.5]], [1], [0]),
        "2007_000032": ([[0, 0, 10, 20.5], [2, 3, 1, 1]], [1, 0], [0, 1]),
        "empty": ([], [], []),
    }
    assert {row["image"] for row in found.values()} == {JPEG}


# By the first words of a line's command, or the place that it links to.
LINES: dict[str, Case] = {
    "shardctl pack FOLDER ": (make_files, check_files),
    "shardctl pack train ": (lambda folder: class_folders(folder / "train"), check_classes),
    "shardctl pack data ": (make_metadata, check_texts),
    "shardctl pack archive.zip ": (make_zip, check_classes),
    "shardctl pack --from table list.csv ": (make_list, check_texts),
    "shardctl pack lines ": (make_lines, check_lines),
    "shardctl pack tars ": (make_tars, check_tars),
    "shardctl pack mds ": (make_mds, check_mds),
    "shardctl pack --from coco ": (make_coco, check_coco),
    "shardctl pack sa_000020.tar ": (make_sa1b, check_sa1b),
    "tar -xf ILSVRC2012_img_train.tar ": (make_imagenet, check_imagenet),
    "python3 examples/pack_yolo.py ": (make_yolo, check_yolo),
    "python3 examples/pack_voc.py ": (make_voc, check_voc),
}


def table() -> list[str]:
    """The second cells of the table at the beginning of docs/pack.md."""
    lines = (ROOT / "docs" / "pack.md").read_text().split("| I have | I type |\n|---|---|\n", 1)[1].splitlines()
    rows = lines[: lines.index("")]
    return [re.fullmatch(r"\| .* \| (.*?) \|", row)[1] for row in rows]  # type: ignore[index]


def heading(anchor: str) -> str:
    (found,) = (name for name in RECIPES if re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") == anchor)
    return found


def typed(folder: Path, command: str) -> str:
    """What a command says on standard error; "" where it succeeds."""
    shardctl = Path(os.environ.get("SHARDCTL", "shardctl")).parent
    path = os.pathsep.join([str(Path(sys.executable).parent), str(shardctl), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(Path(sk.__file__).absolute().parents[1])},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 or done.stderr
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("cell", table())
def test_what_pack_md_tells_to_type(cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.match(r"`([^`]*)`", cell)
    anchor = re.search(r"\(recipes\.md#(.*?)\)", cell)
    if anchor is None:
        assert code is not None
        ((make, check),) = (case for begin, case in LINES.items() if code[1].startswith(begin))
        make(tmp_path)
        assert typed(tmp_path, code[1]) == ""
        check(tmp_path / "OUT")
        return
    recipe = heading(anchor[1])
    require(sys.executable, PACKAGES[recipe])
    if code is None:
        return  # the recipe is tested by itself
    make, check = INPUTS[recipe]
    program = re.sub(r"^ *sk\.pack\(.*\n", "", RECIPES[recipe], flags=re.MULTILINE)
    if recipe == "A Dataset of torch":
        program = program.replace('if __name__ == "__main__":\n', "dataset = [row(sample) for sample in Photos()]\n")
    make(tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(compile(f"{program}\n{code[1]}\n", cell, "exec"), {})
    check(tmp_path / "OUT")


def test_yolo_with_names_and_with_what_is_no_box(tmp_path: Path) -> None:
    make_yolo(tmp_path)
    command = "python3 examples/pack_yolo.py images labels named --names cat dog"
    assert typed(tmp_path, command) == ""
    assert sk.open(tmp_path / "named").classes == ["cat", "dog"]
    for line in ("1 0.1 0.1 0.2 0.2 0.3 0.1", "cat 0.5 0.5 0.2 0.4", "1 0.5 0.5 0.2 x", "1 0.5"):
        write(tmp_path / "labels" / "turned.txt", f"1 0.5 0.5 0.2 0.4\n{line}\n")
        assert "labels/turned.txt, line 2: " in typed(tmp_path, "python3 examples/pack_yolo.py images labels OUT")
        assert not list((tmp_path / "OUT").glob("*"))
    (tmp_path / "none").mkdir()
    assert "none: there are no labels" in typed(tmp_path, "python3 examples/pack_yolo.py images none OUT")
    assert "there are no rows" in typed(tmp_path, "python3 examples/pack_yolo.py none labels OUT")


def test_sets_of_voc_and_what_is_none(tmp_path: Path) -> None:
    make_voc(tmp_path)
    command = "python3 examples/pack_voc.py VOCdevkit/VOC2012"
    assert typed(tmp_path, f"{command} val --set val") == ""
    assert list(samples(tmp_path / "val")) == ["2007_000032"]
    assert sk.open(tmp_path / "val").classes == ["cat", "person"]
    annotation = tmp_path / "VOCdevkit" / "VOC2012" / "Annotations" / "empty.xml"
    for content in ("<annotation>", "<annotation><object><name>a</name></object></annotation>"):
        write(annotation, content)
        assert "Annotations/empty.xml: " in typed(tmp_path, f"{command} OUT")
    write(annotation, "<annotation></annotation>")
    (tmp_path / "VOCdevkit" / "VOC2012" / "JPEGImages" / "empty.jpg").unlink()
    assert "JPEGImages/empty.jpg" in typed(tmp_path, f"{command} OUT")
    assert not list((tmp_path / "OUT").glob("*"))
