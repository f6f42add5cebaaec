"""Training scripts of PyTorch alone."""

from __future__ import annotations

import torch
from harness import SEED, STEPS, Run, Stopped
from torchdata.nodes import Loader as NodeLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from shardkit.torch import IterableDataset, Node


def plain_loop(run: Run) -> None:
    run.join_gloo()
    loader = run.loader()
    if run.resumes:
        loader.load_state_dict(run.saved())
    for batches in loader.epochs(run.epochs):
        for batch in batches:
            run.train(batch)
            if run.stops("in the loop"):
                run.stop_with(loader.state_dict())
        if run.stops("between epochs"):
            run.stop_with(loader.state_dict())


def stateful_dataloader(run: Run) -> None:
    run.join_gloo()
    _train(run, StatefulDataLoader(run.loader(), batch_size=None))


def stateful_dataloader_workers(run: Run) -> None:
    """Samples from workers: each rank has a state of its own, for as many ranks and workers."""
    run.join_gloo()
    part = IterableDataset(run.dataset, columns=["label"], seed=SEED, chunk=8)
    loader = StatefulDataLoader(part, batch_size=6, num_workers=2)
    if run.resumes:
        loader.load_state_dict(torch.load(run.last_checkpoint / str(run.rank), weights_only=False))
    for batch in loader:
        run.train(batch)
        if run.stops("in the loop"):
            run.checkpoint.mkdir(exist_ok=True)
            torch.save(loader.state_dict(), run.checkpoint / str(run.rank))
            run.barrier()
            raise Stopped


def torchdata_nodes(run: Run) -> None:
    run.join_gloo()
    _train(run, NodeLoader(Node(run.loader())))


def _train(run: Run, loader: StatefulDataLoader | NodeLoader) -> None:
    if run.resumes:
        loader.load_state_dict(run.saved())
    while run.steps < run.epochs * STEPS:
        for batch in loader:
            run.train(batch)
            if run.stops("in the loop"):
                run.stop_with(loader.state_dict())
        if run.stops("between epochs"):
            run.stop_with(loader.state_dict())
