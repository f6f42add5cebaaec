"""Training runs in real processes that stop, and go on with another number of ranks."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import socket
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import shardkit as sk
import shardkit.torch

SAMPLES = 200  # of an epoch, or rows of tokens
CONTEXT = 16  # tokens of a row
CHOSEN = 190  # samples, where some are left out
BATCH = 30  # divided by 1, 2, 3 and 5 ranks
STEPS = 7  # of an epoch; the last has 20 samples
SEED = 11
TIMEOUT = 180  # seconds, per leg

# Forked from a server that has imported them, so that a process starts in milliseconds.
PRELOADED = [
    "shardkit.torch",
    "torchdata.nodes",
    "torchdata.stateful_dataloader",
    "lightning.pytorch",
    "accelerate",
    "transformers",
]


def as_it_is(value: Any) -> Any:
    return value


def options_of(loads: str, dataset: str) -> dict[str, Any]:
    """Return what a training script gives the loader, for what it loads."""
    chosen = sk.LoaderDataset(dataset, choose=SAMPLES, where=f"label < {CHOSEN}", balance="group")
    return {
        "a column": {"datasets": dataset, "columns": ["label"]},
        "functions": {"datasets": dataset, "columns": {"label": sk.Map(as_it_is)}, "transform": as_it_is, "workers": 2},
        "where and balance": {"datasets": chosen, "columns": ["label"]},
        "rows of tokens": {"datasets": dataset, "columns": {"tokens": sk.Tokens(CONTEXT, "concat")}},
    }[loads]


def numbers(batch: sk.Batch) -> list[int]:
    """Return a number for each sample: its ordinal; of a row, one made of its tokens."""
    if "tokens" in batch:
        return [zlib.crc32(row.tobytes()) for row in np.asarray(batch["tokens"].values)]
    return [int(label) for label in batch["label"]]


class Stopped(Exception):  # noqa: N818 (nothing went wrong)
    """Ends a run after its checkpoint, as a crash would."""


@dataclass
class Run:
    """One rank of one leg of a training run."""

    dataset: str
    loads: str  # of options_of
    folder: Path  # of the checkpoint, which outlives the legs
    rank: int
    world_size: int
    first_step: int  # steps trained in earlier legs
    stop: int | None  # stop when so many steps have been trained in all legs; None: train to the end
    when: str  # stop "in the loop", after that step, or "between epochs"
    epochs: int

    def __post_init__(self) -> None:
        self.trained: list[list[int]] = []
        self.made: list[tuple[int, int, list[int]]] = []
        self.state: Any = None

    @property
    def resumes(self) -> bool:
        return self.first_step > 0

    @property
    def last_checkpoint(self) -> Path:
        """That of the leg before."""
        return self.folder / f"checkpoint-{self.first_step}"

    @property
    def checkpoint(self) -> Path:
        """That of this leg; another path, because slower ranks may still have to read the last."""
        return self.folder / f"checkpoint-{self.stop}"

    def loader(self, **options: Any) -> shardkit.torch.Loader:
        """The loader of a training script: nothing of it depends on the leg."""
        return shardkit.torch.Loader(
            **options_of(self.loads, self.dataset),
            global_batch_size=BATCH,
            seed=SEED,
            batch_function=self._deliver,
            **options,
        )

    def _deliver(self, batch: shardkit.torch.Batch) -> dict[str, torch.Tensor]:
        made = numbers(batch)
        self.made.append((batch.epoch, batch.step, made))  # by threads ahead of the loop, in any order
        return {"label": torch.tensor(made)}

    @property
    def delivered(self) -> list[list[int]]:
        """What the loader has made, step by step."""
        return [made for *_, made in sorted(self.made)]

    def train(self, batch: dict[str, torch.Tensor]) -> None:
        """What a training step does: remembers its samples."""
        self.trained.append(batch["label"].tolist())

    @property
    def steps(self) -> int:
        """Steps trained in all legs."""
        return self.first_step + len(self.trained)

    def stops(self, place: str) -> bool:
        """Whether the run is to write its checkpoint here, and to stop."""
        return self.when == place and self.steps == self.stop

    def barrier(self) -> None:
        if self.world_size > 1:
            torch.distributed.barrier()

    def stop_with(self, state: Any) -> None:
        """Write a checkpoint that is only a state of the data, and stop."""
        self.state = state
        if self.rank == 0:
            self.checkpoint.write_text(json.dumps(state))
        self.barrier()
        raise Stopped

    def saved(self) -> Any:
        """The state that `stop_with` wrote."""
        return json.loads(self.last_checkpoint.read_text())

    def join_gloo(self) -> None:
        """Make the process group, for drivers whose framework does not."""
        if self.world_size > 1:
            torch.distributed.init_process_group("gloo")


@dataclass(frozen=True)
class Result:
    """What a rank did in a leg."""

    trained: list[list[int]]
    delivered: list[list[int]]
    state_bytes: int


@dataclass(frozen=True)
class Leg:
    """A part of a training run, with its own processes."""

    world_size: int
    stop: int | None
    when: str = "in the loop"


def _child(module: str, driver: str, run: Run, port: int, end: Any) -> None:
    log = os.open(run.folder / f"log-{run.rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    torch.set_num_threads(1)
    if run.world_size > 1:
        # As torchrun sets them.
        os.environ |= {
            "RANK": str(run.rank),
            "LOCAL_RANK": str(run.rank),
            "WORLD_SIZE": str(run.world_size),
            "LOCAL_WORLD_SIZE": str(run.world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
    try:
        getattr(importlib.import_module(module), driver)(run)
        assert run.stop is None, f"the run ended after {run.steps} steps; it should have stopped after {run.stop}"
    except Stopped:
        pass
    except BaseException:
        end.abort()
        raise
    state = json.dumps(run.state).encode()
    result = {"trained": run.trained, "delivered": run.delivered, "state_bytes": 0 if run.state is None else len(state)}
    (run.folder / f"result-{run.rank}").write_text(json.dumps(result))
    # Not a barrier of gloo, in which a rank fails when another that is through has closed its connections.
    end.wait(TIMEOUT)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_leg(
    driver: str, dataset: str, folder: Path, leg: Leg, first_step: int, epochs: int, loads: str = "a column"
) -> list[Result]:
    """Run all ranks of a leg; `driver` is MODULE.FUNCTION."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    module, _, function = driver.partition(".")
    port = free_port()
    end = context.Barrier(leg.world_size)
    processes = []
    for rank in range(leg.world_size):
        (folder / f"result-{rank}").unlink(missing_ok=True)
        run = Run(dataset, loads, folder, rank, leg.world_size, first_step, leg.stop, leg.when, epochs)
        processes.append(context.Process(target=_child, args=(module, function, run, port, end)))
        processes[-1].start()
    for process in processes:
        process.join(TIMEOUT)
    failed = [rank for rank, process in enumerate(processes) if process.exitcode != 0]
    for process in processes:
        process.kill()
    if failed:
        logs = [(folder / f"log-{rank}").read_text(errors="replace")[-6000:] for rank in failed]
        raise AssertionError(f"{leg}: ranks {failed} failed\n" + "\n".join(logs))
    return [Result(**json.loads((folder / f"result-{rank}").read_text())) for rank in range(leg.world_size)]


def reference(dataset: str, epochs: int, loads: str = "a column") -> list[list[int]]:
    """The steps of a run of one process that is never stopped."""
    loader = sk.Loader(**options_of(loads, dataset), batch_size=BATCH, seed=SEED)
    steps = []
    for _ in range(epochs):
        seen: list[int] = []
        for batch in loader:
            steps.append(numbers(batch))
            seen += batch["tokens"].values.reshape(-1).tolist() if "tokens" in batch else steps[-1]
        if loads == "where and balance":
            assert len(seen) == SAMPLES
            assert set(seen) <= set(range(CHOSEN))
            groups = np.bincount([group_of(label) for label in seen])
            assert all(abs(count - SAMPLES / 4) < 12 for count in groups)
        else:
            assert sorted(seen) == list(range(len(seen)))
    return steps


def group_of(label: int) -> int:
    """Return one of four groups, of which some are rare."""
    return min(label % 16, 3)


def check_run(
    driver: str, dataset: str, folder: Path, legs: Sequence[Leg], epochs: int, loads: str = "a column"
) -> None:
    """Train `epochs` in these legs, and check that each sample is trained on once in each epoch, in the one order."""
    whole = reference(dataset, epochs, loads)
    first_step = 0
    for leg in legs:
        results = run_leg(driver, dataset, folder, leg, first_step, epochs, loads)
        end = len(whole) if leg.stop is None else leg.stop
        for result in results:
            # What comes before was skipped by reading the past; what comes behind is made ahead of the loop.
            assert result.delivered[: len(result.trained)] == result.trained
            assert len(result.trained) == end - first_step
            assert result.state_bytes <= 1024
        for step in range(first_step, end):
            parts = [result.trained[step - first_step] for result in results]
            if leg.world_size == 1:
                assert parts[0] == whole[step], f"step {step}"
            sizes = [len(part) for part in parts]
            assert max(sizes) - min(sizes) <= 1, f"step {step}"
            assert sorted(i for part in parts for i in part) == sorted(whole[step]), f"step {step}"
        first_step = end
    assert first_step == epochs * STEPS
