"""Every framework, every place to stop, one rank to five and back: each sample once in each epoch, in the one order."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import SAMPLES, Leg, check_run, run_leg

FRAMEWORKS = {
    "plain loop": "pytorch_runs.plain_loop",
    "StatefulDataLoader": "pytorch_runs.stateful_dataloader",
    "torchdata.nodes": "pytorch_runs.torchdata_nodes",
    "Lightning": "lightning_run.lightning_trainer",
    "Composer's contract": "composer_run.composer_contract",
    "Accelerate": "hugging_face_runs.accelerate",
    "Hugging Face Trainer": "hugging_face_runs.hugging_face_trainer",
}
# An epoch has 7 steps. Steps are counted over all epochs and legs.
STOPS = {
    "in the middle of an epoch": (4, [Leg(1, 3), Leg(2, 12), Leg(3, 18), Leg(5, 24), Leg(1, None)]),
    "at the end of an epoch": (
        5,
        [*(Leg(ranks, 7 * (i + 1), "between epochs") for i, ranks in enumerate((1, 2, 3, 5))), Leg(1, None)],
    ),
    # In its middle, and after its last batch while the framework's epoch has not ended.
    "twice in an epoch": (
        5,
        [leg for i, ranks in enumerate((1, 2, 3, 5)) for leg in (Leg(ranks, 7 * i + 2 + i % 3), Leg(ranks, 7 * i + 7))]
        + [Leg(1, 30), Leg(1, None)],
    ),
}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_exactly_once(framework: str, stop: str, dataset: str, tmp_path: Path) -> None:
    epochs, legs = STOPS[stop]
    check_run(FRAMEWORKS[framework], dataset, tmp_path, legs, epochs)


@pytest.mark.parametrize("loads", ["functions", "where and balance", "rows of tokens"])
@pytest.mark.parametrize("stop", list(STOPS)[:1])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_exactly_once_of_what_is_made(framework: str, stop: str, loads: str, dataset: str, tmp_path: Path) -> None:
    epochs, legs = STOPS[stop]
    check_run(FRAMEWORKS[framework], dataset, tmp_path, legs, epochs, loads)


@pytest.mark.parametrize("stop", [1, 7, 12])
def test_workers_of_two_ranks(stop: int, dataset: str, tmp_path: Path) -> None:
    driver = "pytorch_runs.stateful_dataloader_workers"
    [whole, before, after] = (
        run_leg(driver, dataset, tmp_path, leg, first_step, 1)
        for leg, first_step in ((Leg(2, None), 0), (Leg(2, stop), 0), (Leg(2, None), stop))
    )
    assert sorted(i for rank in whole for batch in rank.trained for i in batch) == list(range(SAMPLES))
    for rank in range(2):
        assert before[rank].trained + after[rank].trained == whole[rank].trained
