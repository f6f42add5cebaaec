"""What frameworks lose, repeat or read again when they are left to themselves; docs/frameworks.md says what helps.

When one of these fails because a framework has changed, the documentation can lose a line.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from harness import SAMPLES, STEPS, Leg, Result, reference, run_leg

import shardkit as sk


def trained(results: list[Result]) -> list[int]:
    return sorted(i for result in results for step in result.trained for i in step)


def delivered(results: list[Result]) -> list[int]:
    return sorted(i for result in results for step in result.delivered for i in step)


def test_lightning_repeats_samples_after_a_checkpoint_of_the_last_batch(dataset: str, tmp_path: Path) -> None:
    whole = reference(dataset, 2)
    for first_step, stop in ((0, STEPS), (STEPS, STEPS + 3)):
        [result] = run_leg("lightning_run.lightning_alone", dataset, tmp_path, Leg(1, stop), first_step, 2)
        assert result.trained == whole[first_step:stop]
    [result] = run_leg("lightning_run.lightning_alone", dataset, tmp_path, Leg(1, STEPS + 5), STEPS + 3, 2)
    assert result.trained == whole[STEPS : STEPS + 2]  # instead of steps 3 and 4 of the epoch


def test_accelerate_reads_only_what_is_of_rank_0(dataset: str, tmp_path: Path) -> None:
    results = run_leg("hugging_face_runs.accelerate_prepares", dataset, tmp_path, Leg(2, None), 0, 1)
    assert results[1].delivered == []
    assert set(trained(results)) == set(delivered(results))
    assert len(set(trained(results))) == SAMPLES // 2


def test_accelerate_divides_what_is_divided(dataset: str, tmp_path: Path) -> None:
    results = run_leg("hugging_face_runs.accelerate_divides", dataset, tmp_path, Leg(2, None), 0, 1)
    assert delivered(results) == list(range(SAMPLES))
    assert len(set(trained(results))) == SAMPLES // 2


def test_accelerate_skips_by_reading(dataset: str, tmp_path: Path) -> None:
    [result] = run_leg("hugging_face_runs.accelerate_skips", dataset, tmp_path, Leg(1, None), 0, 1)
    assert len(trained([result])) == SAMPLES - 150
    assert len(delivered([result])) == SAMPLES
    [result] = run_leg("hugging_face_runs.accelerate_skips_steps", dataset, tmp_path, Leg(1, None), 0, 1)
    assert result.trained == result.delivered[: len(result.trained)] == reference(dataset, 1)[5:]


def test_trainer_resumes_by_reading(dataset: str, tmp_path: Path) -> None:
    run_leg("hugging_face_runs.trainer_with_dataset", dataset, tmp_path, Leg(1, 15), 0, 1)
    [result] = run_leg("hugging_face_runs.trainer_with_dataset", dataset, tmp_path, Leg(1, None), 15, 1)
    assert len(trained([result])) == SAMPLES - 150
    assert len(delivered([result])) == SAMPLES


def test_a_loader_resumes_without_reading_the_past(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "dataset")
    random = np.random.default_rng(0)
    with sk.Writer(path, {"blob": "bytes"}, block_size="64KiB") as writer:
        for i in range(8000):
            writer.write(f"{i}", blob=random.bytes(4000))
    loader = sk.Loader(path, 80, seed=1, shuffle_buffer_bytes="1MiB", memory_bytes="4MiB")
    for i, step in enumerate((1, 50, 98)):
        before = loader.report()
        loader.seek(step)
        next(iter(loader))
        report = loader.report()
        assert (loader.steps_left, report.batches) == (99 - step, i + 1)
        read = report.bytes_read + report.bytes_from_cache - before.bytes_read - before.bytes_from_cache
        assert read < 4 << 20  # of 32 MB
