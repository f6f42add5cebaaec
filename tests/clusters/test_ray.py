from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
psutil = pytest.importorskip("psutil")

import shardkit.ray  # noqa: E402  (needs ray)


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    os.environ |= {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    options = {"include_dashboard": False, "log_to_driver": False, "object_store_memory": 200 << 20}
    ray.init(num_cpus=3, _node_ip_address="127.0.0.1", **options)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    yield
    ray.shutdown()


def make_files(folder: Path, count: int) -> Path:
    folder.mkdir()
    generator = random.Random(7)
    for i in range(count):
        (folder / f"{i:06d}.bin").write_bytes(generator.randbytes(generator.randrange(200, 3000)))
        (folder / f"{i:06d}.txt").write_text(f"sample {i}\n")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


OPTIONS = {"shard_size": "64KiB", "block_size": "16KiB"}


def test_packs_what_one_call_packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = make_files(tmp_path / "files", 1000)
    whole = sk.pack(files, tmp_path / "whole", **OPTIONS)
    monkeypatch.chdir(tmp_path)
    calls: list[tuple[int, int]] = []
    report = sk.ray.pack("files", "out", num_tasks=7, progress=lambda *call: calls.append(call), **OPTIONS)
    assert (report.samples, report.shards) == (whole.samples, whole.shards)
    assert calls[-1] == (7, 7)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    found = sk.ray.validate("out", num_tasks=3)
    assert found
    assert (found.samples, found.shards, found.bytes) == (1000, whole.shards, whole.bytes)

    sk.convert("whole", "converted", codecs={"txt": "none"}, **OPTIONS)
    sk.ray.convert("whole", "again", codecs={"txt": "none"}, **OPTIONS)
    assert contents(tmp_path / "again") == contents(tmp_path / "converted")
    with pytest.raises(FileExistsError):
        sk.ray.pack("files", "out", **OPTIONS)

    shard = next((tmp_path / "out").glob("*.shard"))
    damaged = bytearray(shard.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    shard.write_bytes(damaged)
    found = sk.ray.validate("out")
    assert not found
    assert found.problems[0].path.endswith(shard.name)


def test_errors_name_the_file_and_what_is_there_goes_on(tmp_path: Path) -> None:
    files = make_files(tmp_path / "files", 200)
    sk.pack(files, tmp_path / "whole", **OPTIONS)
    (files / "000150.jpg").write_bytes(b"no image")
    with pytest.raises(sk.DataLossError, match=r"000150\.jpg"):
        sk.ray.pack(files, tmp_path / "out", **OPTIONS)
    with pytest.raises(FileExistsError, match="already has a plan"):
        sk.ray.pack(files, tmp_path / "out", **OPTIONS)
    report = sk.ray.pack(files, tmp_path / "skipped", skip_errors=True, **OPTIONS)
    assert [skipped.key.partition(".")[0] for skipped in report.skipped] == ["000150"]
    (files / "000150.jpg").unlink()
    sk.plan_pack(files, tmp_path / "killed", **OPTIONS)
    sk.pack_task(tmp_path / "killed", 1, 3)
    sk.ray.pack(None, tmp_path / "killed", num_tasks=2)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


class Killer(threading.Thread):
    """Kills worker processes of Ray that run a task of a name, at random, until `kills` were hit."""

    def __init__(self, name: str, kills: int) -> None:
        super().__init__(daemon=True)
        self.wanted, self.left, self.ended = name, kills, False

    def run(self) -> None:
        generator = random.Random(3)
        while self.left > 0 and not self.ended:
            time.sleep(generator.random() * 0.1)
            for process in psutil.process_iter(["cmdline"]):
                if self.wanted in " ".join(process.info["cmdline"] or []) and generator.random() < 0.5:
                    try:
                        process.send_signal(signal.SIGKILL)
                    except psutil.NoSuchProcess:
                        continue
                    self.left -= 1
                    break


def test_workers_killed_at_random(tmp_path: Path) -> None:
    files = make_files(tmp_path / "files", 3000)
    sk.pack(files, tmp_path / "whole", **OPTIONS)
    kills, rounds = 8, 0
    while kills > 0:
        killer = Killer("shardkit.pack", kills)
        killer.start()
        sk.ray.pack(files, tmp_path / f"out{rounds}", num_tasks=12, max_retries=50, **OPTIONS)
        killer.ended = True
        killer.join()
        kills = killer.left
        assert contents(tmp_path / f"out{rounds}") == contents(tmp_path / "whole")
        rounds += 1
        assert rounds < 20, "tasks end before they are killed"


def rows(count: int) -> list[dict[str, Any]]:
    return [
        {
            "key": f"row {i:05d}",
            "number": i,
            "text": f"text {i}" if i % 5 else None,
            "image": b"\xff\xd8\xff" + i.to_bytes(4, "little") + b"\0\0",
            "vector": np.arange(6, dtype=np.float32).reshape(2, 3) + i,
            "ragged": np.arange(i % 4 + 1, dtype=np.int64),
            "info": {"i": i},
        }
        for i in range(count)
    ]


COLUMNS = {
    "number": "i64",
    "text": "utf8?",
    "image": "jpeg",
    "vector": "f32[2, 3]",
    "ragged": "i64[]",
    "info": "json",
}


def same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found["number"] == wanted["number"]
    assert (found["key"], found["text"], found["image"]) == (wanted["key"], wanted["text"], wanted["image"])
    np.testing.assert_array_equal(found["vector"], wanted["vector"])
    np.testing.assert_array_equal(found["ragged"], wanted["ragged"])


def test_read_gives_rows_in_order(tmp_path: Path) -> None:
    wanted = rows(500)
    sk.pack(wanted, tmp_path / "in", columns=COLUMNS, max_block_samples=64, shard_samples=200)
    data = sk.ray.read(tmp_path / "in", parallelism=7)
    assert data.count() == 500
    found = data.take_all()
    for got, row in zip(found, wanted, strict=True):
        same(got, row)
    assert found[3]["info"] == '{"i": 3}'
    some = sk.ray.read(tmp_path / "in", ["number"]).sum("number")
    assert some == sum(range(500))


def test_a_sink_writes_a_dataset(tmp_path: Path) -> None:
    wanted = rows(500)
    sk.pack(wanted, tmp_path / "in", columns=COLUMNS, max_block_samples=64)
    sink = sk.ray.Sink(tmp_path / "out", columns=COLUMNS, max_block_samples=50)
    sk.ray.read(tmp_path / "in", parallelism=5).map_batches(lambda batch: batch).write_datasink(sink)
    assert sink.published is not None
    assert sink.published.samples == 500
    assert sk.validate(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]
    found = sk.open(os.fspath(tmp_path / "out"))
    assert found.schema["vector"].shape == [2, 3]
    for got, row in zip(found, wanted, strict=True):
        same(got, row)


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of Python of docs/scale.md, one after another."""
    make_files(tmp_path / "files", 100)
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).resolve().parents[2] / "docs" / "scale.md").read_text()
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/scale.md", "exec"), names)
    words = sk.open("words")
    assert (len(words), words[0]["words"]) == (100, 2)


def test_a_sink_gives_keys_and_fails_as_a_whole(tmp_path: Path) -> None:
    ray.data.range(300, override_num_blocks=4).write_datasink(sk.ray.Sink(tmp_path / "out"))
    found = sk.open(os.fspath(tmp_path / "out"))
    assert sorted(sample["id"] for sample in found) == list(range(300))
    assert len(set(found.keys())) == 300
    assert sk.validate(tmp_path / "out").repeated_keys == 0

    def fail(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == 250:
            raise RuntimeError("no more")
        return row

    with pytest.raises(Exception, match="no more"):
        ray.data.range(300, override_num_blocks=4).map(fail).write_datasink(sk.ray.Sink(tmp_path / "bad"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
