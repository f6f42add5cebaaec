"""Which of the processes of a job this is, and of how many."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

# Where a launcher says which process this is and of how many; the first that is there holds.
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_WORLD_SIZES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def _group() -> tuple[int, int] | None:
    """Return rank and world size of torch.distributed, if that is in use."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _told(names: Sequence[str]) -> tuple[str, int] | None:
    """Return the first of the variables that is set, and its number."""
    for name in names:
        if text := os.environ.get(name, "").strip():
            if not text.isdecimal():
                raise ValueError(f"{name} is {text!r}, and no number; give rank and world_size")
            return name, int(text)
    return None


def _launched() -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
    """Return what the environment says of rank and world size, each with its variable."""
    pairs = list(zip(_RANKS, _WORLD_SIZES, strict=True))
    if "SLURM_JOB_ID" in os.environ and "SLURM_STEP_ID" not in os.environ:
        pairs = [pair for pair in pairs if pair[0] != "SLURM_PROCID"]  # the job's script itself, which is one process
    # Those of one launcher belong together; only RANK and WORLD_SIZE are set by hand, one without the other.
    whole = [pair for pair in pairs[1:] if all(os.environ.get(name, "").strip() for name in pair)]
    names = [pairs[0], *whole]
    return _told([rank for rank, _ in names]), _told([size for _, size in names])


def ranks(rank: int | str, world_size: int | str) -> tuple[int, int]:
    """Return rank and world size.

    "auto" asks torch.distributed, if that is in use, else the first variable that is set of RANK, SLURM_PROCID,
    OMPI_COMM_WORLD_RANK and PMI_RANK, and of WORLD_SIZE, SLURM_NTASKS, OMPI_COMM_WORLD_SIZE and PMI_SIZE; without any
    there is one rank.

    Raises
    ------
    ValueError
        When only one of the two is known, and it is not the only rank.
    """
    for name, given in (("rank", rank), ("world_size", world_size)):
        if isinstance(given, bool) or not (given == "auto" or hasattr(given, "__index__")):
            raise ValueError(f'{name}={given!r}: give a number, or "auto"')
    group = _group()
    said_rank, said_size = (("rank", group[0]), ("world size", group[1])) if group is not None else _launched()
    found_rank = ("rank", int(rank)) if rank != "auto" else said_rank
    found_size = ("world_size", int(world_size)) if world_size != "auto" else said_size
    if found_size is not None and found_size[1] < 1:
        raise ValueError(f"{found_size[0]} is {found_size[1]}, and there is at least one rank")
    if found_rank is None:
        if found_size is not None and found_size[1] != 1:
            raise ValueError(
                f"{found_size[0]} is {found_size[1]}, and nothing says which rank this is: give rank=..., set RANK, "
                "or begin after torch.distributed.init_process_group; all samples on this rank: rank=0, world_size=1"
            )
        return 0, 1
    if found_size is None:
        if found_rank[1] != 0 or rank == "auto":
            raise ValueError(
                f"{found_rank[0]} is {found_rank[1]}, and nothing says of how many: give world_size=..., or set "
                "WORLD_SIZE; all samples on this rank: rank=0, world_size=1"
            )
        return 0, 1
    return found_rank[1], found_size[1]


def check_ranks(world_size: int) -> None:
    """Refuse to begin when torch.distributed has another world size than was found before it was in use."""
    group = _group()
    if group is not None and group[1] != world_size:
        raise RuntimeError(
            f"torch.distributed has {group[1]} ranks, and this was made for {world_size}, before "
            "init_process_group: make it afterwards; all samples on this rank: rank=0, world_size=1"
        )
