from __future__ import annotations

import copy
import io
import json
import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk
from shardkit import reports


def make_files(folder: Path, count: int, size: int = 100) -> Path:
    folder.mkdir()
    for i in range(count):
        (folder / f"{i:06d}.bin").write_bytes(i.to_bytes(4, "little") * (size // 4))
    return folder


def test_a_run_with_other_types_is_not_resumed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "late.tar", "w") as tar:  # whose column "late" is not in its first samples
        for i in range(400):
            for name in ("txt", "late") if i == 399 else ("txt",):
                member = tarfile.TarInfo(f"{i:03}.{name}")
                member.size = 4
                tar.addfile(member, io.BytesIO(b"text"))
    sk.pack(tmp_path / "late.tar", tmp_path / "out", types={"late": "bytes"})
    with pytest.raises(ValueError, match="another job"):
        sk.pack(tmp_path / "late.tar", tmp_path / "out", types={"late": "utf8"}, resume=True)
    assert sk.pack(tmp_path / "late.tar", tmp_path / "out", types={"late": "bytes"}, resume=True)


def test_pack_validate_unpack(tmp_path: Path) -> None:
    files = make_files(tmp_path / "files", 50)
    calls: list[tuple[int, int]] = []
    report = sk.pack(files, tmp_path / "out", threads=2, progress=lambda done, total: calls.append((done, total)))
    assert (report.samples, report.packed, report.skipped) == (50, 50, [])
    assert calls[-1][0] == 50
    assert sk.validate(tmp_path / "out", deep=True)
    unpacked = sk.unpack(tmp_path / "out", tmp_path / "back")
    assert unpacked.files == 50
    for file in files.iterdir():
        assert (tmp_path / "back" / file.name).read_bytes() == file.read_bytes()
    sk.unpack(tmp_path / "out", tmp_path / "parts", by_shard=True)
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["00000000"]


def test_options_reach_the_library(tmp_path: Path) -> None:
    files = make_files(tmp_path / "files", 30)
    report = sk.pack(files, tmp_path / "out", shard_samples=7, types={"bin": "bytes"}, codecs={"bin": "zstd"})
    assert report.shards == 5
    assert sk.open(os.fspath(tmp_path / "out")).schema["bin"].codec == "zstd"
    assert sk.pack(files, tmp_path / "nothing", dry_run=True).packed == 30
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(TypeError, match="no option colour"):
        sk.pack(files, tmp_path / "other", colour=1)
    with pytest.raises(ValueError, match="group_by"):
        sk.pack(files, tmp_path / "other", group_by="never")


def test_skipped_samples_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = make_files(tmp_path / "files", 3)
    (files / "000001.jpg").write_bytes(b"no image")
    with pytest.raises(sk.DataLossError, match=r"000001\.jpg"):
        sk.pack(files, tmp_path / "out")
    with caplog.at_level(logging.WARNING, "shardkit"):
        report = sk.pack(files, tmp_path / "out", skip_errors=True)
    assert len(report.skipped) == 1
    assert report.skipped[0].key.startswith("000001")
    assert "000001" in caplog.text


def test_what_the_command_notes_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    for name in ("a.jsonl", "b.jsonl", "c.txt", ".DS_Store"):
        (folder / name).write_text("{}")
    report = sk.pack(folder, tmp_path / "out")
    note, passed_over = report.warnings
    assert note.startswith("files *.jsonl of the input are packed as they are, not the samples in them")
    assert passed_over.startswith("passed over 1 hidden file or folder")
    assert note in caplog.messages
    with pytest.raises(ValueError, match="work in tasks waits for the device: not without sync"):
        sk.plan_pack(folder, tmp_path / "tasks", sync=False)
    assert sk.plan_pack(folder, tmp_path / "tasks").warnings == report.warnings
    assert sk.read_pack_plan(tmp_path / "tasks").warnings == []
    kept = sk.pack(folder, tmp_path / "kept", kind="files", keep_hidden=True)
    assert kept.samples == 4
    assert 'sample ""' in kept.warnings[0]


def test_classes_are_mixed_unless_by_path(tmp_path: Path) -> None:
    for i in range(60):
        image = tmp_path / "images" / str(i // 20) / f"{100 + i}.jpg"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(b"\xff\xd8\xff\xe0")
    sk.pack(tmp_path / "images", tmp_path / "mixed")
    sk.pack(tmp_path / "images", tmp_path / "path", order="path")
    mixed, by_path = ([int(sample["label"]) for sample in sk.open(tmp_path / name)] for name in ("mixed", "path"))
    assert by_path == sorted(mixed) != mixed
    with pytest.raises(ValueError, match="order"):
        sk.pack(tmp_path / "images", tmp_path / "other", order="sequential")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_tasks_make_what_one_call_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = make_files(tmp_path / "files", 50, 1000)
    (files / "000007.jpg").write_bytes(b"no image")
    options = {"shard_size": 4000, "skip_errors": True}
    whole = sk.pack(files, tmp_path / "whole", **options)
    monkeypatch.chdir(tmp_path)
    plan = sk.plan_pack("files", "tasks", **options)
    assert (plan.samples, plan.units) == (50, whole.shards)
    monkeypatch.chdir("/")
    with pytest.raises(ValueError, match="units are missing"):
        sk.finish_pack(tmp_path / "tasks")
    reports = [sk.pack_task(tmp_path / "tasks", task, 3, threads=2) for task in (2, 0, 1, 1)]
    assert sum(report.samples for report in reports) == 49
    assert reports[3].units_before == reports[3].units > 0
    assert [len(report.skipped) for report in reports] == [0, 1, 0, 0]
    finished = sk.finish_pack(tmp_path / "tasks", threads=2)
    assert (finished.samples, finished.packed, finished.skipped) == (49, 49, whole.skipped)
    assert contents(tmp_path / "tasks") == contents(tmp_path / "whole")
    with pytest.raises(FileExistsError):
        sk.plan_pack(files, tmp_path / "tasks")

    conversion = {"shard_size": 8000, "columns": ["key", "bin"]}
    sk.convert(tmp_path / "whole", tmp_path / "converted", **conversion)
    for task in range(4):
        sk.convert_task(tmp_path / "whole", tmp_path / "again", task, 4, **conversion)
    with pytest.raises(ValueError, match="other options"):
        sk.finish_convert(tmp_path / "whole", tmp_path / "again")
    assert sk.finish_convert(tmp_path / "whole", tmp_path / "again", **conversion).samples == 49
    assert contents(tmp_path / "again") == contents(tmp_path / "converted")
    found = [sk.validate(tmp_path / "again", task=task, tasks=2) for task in (0, 1)]
    assert sum(report.samples for report in found) == 49


def test_index_merge_repair(tmp_path: Path, dataset: str) -> None:
    sk.convert(dataset, tmp_path / "b", columns=["key", "label"], codecs={"key": "none"}, shard_samples=64)
    assert sk.index(tmp_path / "b").samples == 200
    with pytest.raises(ValueError, match="200 samples have a key of an input before theirs"):
        sk.merge([dataset, tmp_path / "b"], tmp_path / "both", copy=True)
    shard = sorted((tmp_path / "b").glob("*.shard"))[0]
    content = bytearray(shard.read_bytes())
    content[content.index(b"key 3")] ^= 255
    shard.write_bytes(content)
    report = sk.validate(tmp_path / "b")
    assert not report
    assert report.problem_count == len(report.problems) > 0
    assert shard.name in report.problems[0].path
    repaired = sk.repair(tmp_path / "b", tmp_path / "repaired")
    assert repaired.written
    assert not repaired.lossless
    assert repaired.samples_recovered + repaired.samples_lost == 200
    assert repaired.shards[0].losses[0].sample_count > 0
    assert sk.validate(tmp_path / "repaired")


def test_an_exception_of_progress_ends_the_job(tmp_path: Path) -> None:
    files = make_files(tmp_path / "files", 20)

    def fail(done: int, total: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        sk.pack(files, tmp_path / "out", progress=fail)


def test_ctrl_c_ends_a_job_and_leaves_nothing(tmp_path: Path) -> None:
    make_files(tmp_path / "files", 40)
    for file in (tmp_path / "files").iterdir():
        os.truncate(file, 64 << 20)  # sparse: seconds of work
    code = f"""
import shardkit as sk, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the parent ignores it
try:
    sk.pack({os.fspath(tmp_path / "files")!r}, {os.fspath(tmp_path / "out")!r}, stream_above="1GiB", sync=False)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    while child.poll() is None and not (tmp_path / "out").exists():
        time.sleep(0.001)
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == "interrupted\n"
    assert child.wait(30) == 0
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_append_history_and_earlier_generations(tmp_path: Path) -> None:
    files = make_files(tmp_path / "files", 20)
    out = os.fspath(tmp_path / "out")
    sk.pack(files, out, shard_samples=8)
    more = tmp_path / "more"
    more.mkdir()
    for i in range(18, 30):
        (more / f"{i:06d}.bin").write_bytes(b"more")
    with pytest.raises(FileExistsError, match='has the keys of 2 samples already: "000018", "000019"'):
        sk.pack(more, out, append=True)
    report = sk.pack(more, out, append=True, existing_keys="skip")
    assert (report.samples, report.packed, report.existing) == (30, 10, 2)
    with sk.Writer(out, columns={"bin": "bytes"}, append=True) as writer:
        writer.write("last", bin=b"written")
    assert writer.result is not None
    assert writer.result.samples == 31
    history = sk.history(out)
    assert [(each.generation, each.operation, each.arguments.get("samples")) for each in history] == [
        (1, "create", None),
        (2, "append", ["10"]),
        (3, "append", ["1"]),
    ]
    assert len(sk.open(out, generation=1)) == 20
    assert sk.open(out, generation=2)["000025"]["bin"] == b"more"
    with pytest.raises(FileNotFoundError, match="generation 4"):
        sk.open(out, generation=4)
    assert sk.unpack(out, tmp_path / "first", generation=1).files == 20
    with pytest.raises(ValueError, match="existing_keys"):
        sk.pack(more, out, append=True, existing_keys="never")


def test_diff(tmp_path: Path) -> None:
    files = make_files(tmp_path / "files", 20)
    first, second = os.fspath(tmp_path / "first"), os.fspath(tmp_path / "second")
    sk.pack(files, first, shard_samples=8)
    sk.pack(files, second, shard_samples=5)
    assert not sk.diff(first, second, threads=2)
    (files / "000003.bin").write_bytes(b"other")
    (files / "000004.bin").unlink()
    sk.pack(files, tmp_path / "third")
    diff = sk.diff(first, tmp_path / "third")
    assert diff
    assert diff.by_key
    assert diff.matched == 19
    assert diff.only_a.examples == [("000004", 4, None)]
    assert diff.columns["bin"].examples == [("000003", 3, 3)]
    with sk.Writer(first, columns={"bin": "bytes"}, append=True) as writer:
        writer.write("new", bin=b"new")
    since = sk.diff(first, first, generation_a=1)
    assert (since.unread, since.only_b.count, since.only_a.count) == (20, 1, 0)


def test_reports_are_values(tmp_path: Path) -> None:
    files = make_files(tmp_path / "files", 20)
    out, other = os.fspath(tmp_path / "out"), tmp_path / "other"
    plan = sk.plan_pack(files, tmp_path / "planned")
    task = sk.pack_task(tmp_path / "planned", 0, 2)
    packed = sk.pack(files, out)
    added = sk.add_columns(out, {"number": np.arange(20, dtype=np.int32)})
    filtered = sk.filter(out, other, where="number > 3")
    removed = sk.remove(out, keys=["000003", "none"])
    assert (removed.removed, removed.keys_missing, removed.samples, removed.removed_in_all) == (1, 1, 19, 1)
    history, diff = sk.history(out), sk.diff(out, other)
    with open(other / "00000000.shard", "r+b") as shard:
        shard.write(b"damaged!")
    unpacked, validated = sk.unpack(out, tmp_path / "back"), sk.validate(other)
    assert not validated
    repaired = sk.repair(other, tmp_path / "repaired")
    simulated = sk.simulate(sk.DatasetNumbers(1000, 100), 10)
    found = [plan, task, packed, added, filtered, removed, *history, diff, unpacked, validated, repaired, simulated]
    for report in [*found, diff.only_a, filtered.selection, *validated.problems, *repaired.shards, *simulated.epochs]:
        copies = [pickle.loads(pickle.dumps(report)), copy.deepcopy(report)]
        assert copies == [report, report]
        assert [repr(each) for each in copies] == [repr(report)] * 2
        assert repr(report).startswith(f"{type(report).__name__}(")
        name = re.findall(r"\w+(?==)", repr(report))[0]
        assert f"({name}={getattr(report, name)!r}" in repr(report)
        with pytest.raises(AttributeError):
            setattr(report, name, getattr(report, name))
        assert report != "another type"
    assert len(history) == 3
    assert history[0] != history[1]
    assert len({*validated.problems, *pickle.loads(pickle.dumps(validated)).problems}) == len(validated.problems)
    for mistake in ({"message": 1}, {"text": "a"}):
        with pytest.raises(TypeError):
            reports.Problem(**mistake)
    assert reports.Problem("file", message="wrong") == reports.Problem(message="wrong", path="file")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    names = [b"a\xff.txt", b"dir\xfe/.DS_Store"]
    folder = os.fsencode(tmp_path / "files")
    os.makedirs(folder + b"/dir\xfe")
    for name in names:
        with open(folder + b"/" + name, "wb") as file:
            file.write(b"text")
    (tmp_path / "files" / "b.txt").write_bytes(b"text")
    with pytest.raises(ValueError, match="a\ufffd\\.txt: the name is not valid UTF-8"):
        sk.pack(tmp_path / "files", tmp_path / "refused")
    report = sk.pack(tmp_path / "files", tmp_path / "out", skip_errors=True)
    assert (report.samples, [skipped.key for skipped in report.skipped]) == (1, ["a\ufffd.txt"])
    assert "dir\ufffd/.DS_Store" in report.warnings[0]


def test_files_are_chosen(tmp_path: Path) -> None:
    for name in ("a/1.txt", "a/2.txt", "b/3.txt", "b/3.md"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)

    def keys(output: str, **options: Any) -> list[str]:
        sk.pack(tmp_path / "in", tmp_path / output, **options)
        return [sample["key"] for sample in sk.open(tmp_path / output)]

    assert keys("included", include=["*.txt"], exclude=["a/2.*"]) == ["a/1", "b/3"]
    assert keys("listed", files=["b/3.txt", "a/1.txt"]) == ["b/3", "a/1"]
    assert keys("limited", limit=2) == ["a/1", "a/2"]
    (tmp_path / "in" / os.fsdecode(b"\xe9.txt")).write_text("latin")
    assert keys("latin1", names="latin1", include=["/*.txt"]) == ["é"]
    assert keys("escaped", names="escape", include=["/*.txt"]) == ["%e9"]
    (tmp_path / "in" / os.fsdecode(b"\xe9.txt")).unlink()
    with pytest.raises(ValueError, match="--include and --exclude leave no file"):
        keys("none", include=["*.png"])
    with pytest.raises(ValueError, match="limit"):
        keys("resumed", limit=2, resume=True)


def test_lines_of_json(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"id": {i}, "text": "t{i}", "score": {i / 2}}}\n' for i in range(300)))
    assert sk.pack(path, tmp_path / "out", key="id").samples == 300
    sample = sk.open(tmp_path / "out")[7]
    assert (sample["id"], sample["text"], sample["score"]) == ("7", "t7", 3.5)
    typed = sk.pack(path, tmp_path / "typed", kind="jsonl", key="id", types={"score": "f32"}, limit=10)
    assert typed.samples == 10


def test_tables(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    for i in range(3):
        (tmp_path / "files" / f"{i}.txt").write_text(f"file {i}")
        (tmp_path / "files" / f"{i}.bin").write_bytes(bytes([i, 255]))
    path = tmp_path / "list.csv"
    path.write_text("id,text_path,data,score\n" + "".join(f"{i + 7},{i}.txt,{i}.bin,{i / 2}\n" for i in range(3)))
    report = sk.pack(path, tmp_path / "out", key="id", file=["text_path=text", "data"], root=tmp_path / "files")
    assert report.samples == 3
    sample = sk.open(tmp_path / "out")[2]
    assert (sample["id"], sample["text"], bytes(sample["data"]), sample["score"]) == ("9", "file 2", b"\x02\xff", 1.0)
    assert sample["text_path"] == "2.txt"
    plan = sk.plan_pack(path, tmp_path / "tasks", kind="table", key="id", file="data", root=str(tmp_path / "files"))
    assert plan.units == 1
    sk.pack_task(tmp_path / "tasks", 0, 1)
    assert sk.finish_pack(tmp_path / "tasks").samples == 3
    assert sk.pack(path, tmp_path / "rows").samples == 3
    with pytest.raises(ValueError, match="only tables name files"):
        sk.pack(tmp_path / "files", tmp_path / "wrong", kind="files", file="data")
    (tmp_path / "files" / "1.txt").unlink()
    skipped = sk.pack(path, tmp_path / "less", file="text_path", root=tmp_path / "files", skip_errors=True)
    assert (skipped.samples, len(skipped.skipped)) == (2, 1)


def test_annotations_of_coco(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    (images / "a.ppm").write_bytes(b"P6 1 1 255 abc")
    square = [1, 1, 3, 1, 3, 3, 1, 3]
    document = {
        "images": [{"id": 7, "file_name": "a.ppm", "height": 4, "width": 6}],
        "categories": [{"id": 3, "name": "cat"}],
        "annotations": [{"id": 1, "image_id": 7, "category_id": 3, "segmentation": [square], "bbox": [1, 1, 2, 2.5]}],
    }
    annotations = tmp_path / "instances.json"
    annotations.write_text(json.dumps(document))
    assert sk.pack([annotations, images], tmp_path / "out", kind="coco").samples == 1
    dataset = sk.open(tmp_path / "out")
    sample = dataset["a"]
    assert sample["masks"] == sk.Masks.from_polygons([[square]], 4, 6)
    np.testing.assert_array_equal(sample["bbox"], [[1, 1, 2, 2.5]])
    np.testing.assert_array_equal(sample["label"], [0])
    assert dataset.schema["label"].class_names == ["cat"]
    assert sk.unpack(tmp_path / "out", tmp_path / "back").warnings == []
    assert json.loads((tmp_path / "back" / "instances.json").read_text()) == document
    sk.drop_columns(tmp_path / "out", "bbox")
    [warning] = sk.unpack(tmp_path / "out", tmp_path / "less").warnings
    assert "instances.json lacks what was in bbox" in warning
    del document["annotations"][0]["bbox"]
    assert json.loads((tmp_path / "less" / "instances.json").read_text()) == document
