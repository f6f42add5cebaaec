"""The calls that Composer's trainer makes on the data, after core/state.py and trainer/trainer.py of Composer 0.32."""

from __future__ import annotations

import itertools

import torch
from harness import Run
from torch.utils.data import DataLoader


def composer_contract(run: Run) -> None:
    run.join_gloo()
    dataloader = DataLoader(run.loader(), batch_size=None)
    epoch = batches = samples = 0
    if run.resumes:
        saved = run.saved()
        dataloader.dataset.load_state_dict(saved["train"])
        epoch, batches, samples = saved["epoch"], saved["batch_in_epoch"], saved["sample_in_epoch"]

    def stop() -> None:
        train = dataloader.dataset.state_dict(samples, True)
        run.stop_with({"train": train, "epoch": epoch, "batch_in_epoch": batches, "sample_in_epoch": samples})

    while epoch < run.epochs:
        # It never asks for a batch beyond the length, and ends the epoch of all ranks with that of the first to end.
        iterator = itertools.islice(dataloader, len(dataloader))
        while True:
            batch = next(iterator, None)
            if _sum(run, int(batch is None)):
                break
            run.train(batch)
            batches += 1
            samples += _sum(run, len(batch["label"]))
            if run.stops("in the loop"):
                stop()
        epoch, batches, samples = epoch + 1, 0, 0
        if run.stops("between epochs"):
            stop()


def _sum(run: Run, value: int) -> int:
    if run.world_size == 1:
        return value
    tensor = torch.tensor([value])
    torch.distributed.all_reduce(tensor)
    return int(tensor.item())
