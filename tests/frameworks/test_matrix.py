"""Every framework, every place to stop, one rank to five and back: each sample once in each epoch, in the one order."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import Leg, check_run

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
        [
            leg
            for i, ranks in enumerate((1, 2, 3, 5))
            for leg in (Leg(ranks, 7 * i + 2 + i % 3), Leg(ranks, 7 * i + 7))
        ]
        + [Leg(1, 30), Leg(1, None)],
    ),
}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_exactly_once(framework: str, stop: str, dataset: str, tmp_path: Path) -> None:
    epochs, legs = STOPS[stop]
    check_run(FRAMEWORKS[framework], dataset, tmp_path, legs, epochs)
