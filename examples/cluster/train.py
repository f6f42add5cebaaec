"""Trains a classifier on all ranks that torchrun starts, and goes on exactly after any of them has died.

    torchrun --nnodes 2:4 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint HOST:29400 --max_restarts 10
        examples/cluster/train.py DATASET CHECKPOINT [--steps 1000] [--batch-size 256] [--checkpoint-every 50]

DATASET has the columns `image` and `label`, as `shardctl pack --from imagefolder` makes of a folder for each class.
When a rank or a node dies, torchrun starts all ranks again, perhaps on fewer nodes, and they go on with CHECKPOINT,
which all nodes have to see: the state of one rank's loader is enough for any number of ranks that divides the batch.
"""

from __future__ import annotations

import argparse
import datetime
import os

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

import shardkit as sk
from shardkit.torch import Loader

SIDE = 64


def network(classes: int) -> torch.nn.Module:
    """Return two convolutions and a classifier."""
    layers = [
        torch.nn.Conv2d(3, 16, 5, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 5, stride=2),
        torch.nn.ReLU(),
    ]
    return torch.nn.Sequential(
        *layers, torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(512, classes)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("checkpoint")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=256, help="of all ranks together")
    parser.add_argument("--checkpoint-every", type=int, default=50, help="steps")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that ranks wait for each other")
    parser.add_argument("--classes", type=int, default=1000)
    arguments = parser.parse_args()

    cuda = torch.cuda.is_available()
    # Ranks that wait for one that died without a word fail after this, and torchrun starts all again.
    timeout = datetime.timedelta(seconds=arguments.timeout)
    torch.distributed.init_process_group("nccl" if cuda else "gloo", timeout=timeout)
    rank = torch.distributed.get_rank()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    torch.manual_seed(1)
    model = network(arguments.classes).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    # Rank and number of ranks are those of torch.distributed.
    columns = {"image": sk.Image(crop="random", size=SIDE, flip=0.5), "label": sk.Stored()}
    loader = Loader(
        arguments.dataset, global_batch_size=arguments.batch_size, seed=1, columns=columns, remainder="drop"
    )
    step = 0
    if os.path.exists(arguments.checkpoint):
        # A checkpoint of somebody else must not run code. What torch 1 reads so has no numbers.
        state = torch.load(arguments.checkpoint, map_location=device, weights_only=torch.__version__[0] != "1")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        step = state["step"]
    parallel = DistributedDataParallel(model)

    while step < arguments.steps:
        for batch in loader:
            images = batch["image"].to(device).float().permute(0, 3, 1, 2) / 255
            loss = torch.nn.functional.cross_entropy(parallel(images), batch["label"].to(device).long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            mean = loss.detach()
            torch.distributed.all_reduce(mean)
            if rank == 0:
                print(f"step {step} loss {float(mean) / torch.distributed.get_world_size():.5f}", flush=True)
            if rank == 0 and (step % arguments.checkpoint_every == 0 or step == arguments.steps):
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                state |= {"loader": loader.state_dict(), "step": step}
                torch.save(state, arguments.checkpoint + ".tmp")
                os.replace(arguments.checkpoint + ".tmp", arguments.checkpoint)  # always a whole one
            if step == arguments.steps:
                break
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
