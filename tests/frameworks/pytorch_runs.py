"""Training scripts of PyTorch alone."""

from __future__ import annotations

from torchdata.nodes import Loader as NodeLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from harness import STEPS, Run
from shardkit.torch import Node


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
