"""The datasets of a loader, and which of their samples it takes."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

import numpy as np

from shardkit._options import checked, path_text, shown
from shardkit._options import located as _located
from shardkit.dataset import chosen


@checked
@dataclass(frozen=True)
class LoaderDataset:
    """A dataset of a loader, and its part of an epoch; at most one of `proportion`, `repeat` and `choose` is set.

    Parameters
    ----------
    path : str
        A dataset's directory or a shard.
    proportion : float or mapping
        Its share of an epoch; all datasets have one, or none has. A mapping changes it over epochs: of ``{0: 0.9, 5:
        0.5}`` it is 0.9 from epoch 0 on, and 0.5 from epoch 5 on; a share may be 0. All epochs have as many samples.
    repeat : float
        Samples per epoch as a multiple of the dataset's.
    choose : int
        Samples per epoch.
    generation : int
        The generation to read; 0 is the newest.
    where, indices, balance, weights, replacement
        Which samples, as for `Loader`.
    """

    path: str | os.PathLike[str]
    proportion: Annotated[float | Mapping[int, float], "a number, or {epoch: number}"] = 0
    repeat: float = 0
    choose: int = 0
    generation: int = 0
    where: str | None = None
    indices: Any = None
    balance: str | None = None
    weights: Any = None
    replacement: bool = True


Datasets = Annotated[
    str | os.PathLike[str] | LoaderDataset | Sequence[str | os.PathLike[str] | LoaderDataset],
    "a path, a URL or a LoaderDataset, or a list of these",
]


def located(datasets: Datasets) -> list[LoaderDataset]:
    """Return the datasets with paths that hold in other processes."""
    if isinstance(datasets, (str, os.PathLike, LoaderDataset)):
        datasets = [datasets]
    made: list[LoaderDataset] = []
    for each in datasets if isinstance(datasets, Iterable) else [datasets]:
        if not isinstance(each, (str, os.PathLike, LoaderDataset)):
            raise TypeError(f"datasets: give a path, a URL or a LoaderDataset, or a list of these, not {each!r}")
        given = each if isinstance(each, LoaderDataset) else LoaderDataset(each)
        made.append(replace(given, path=_located(given.path)))
    if not made:
        raise ValueError("datasets: the list is empty")
    return made


def dataset_list(datasets: Datasets) -> list[dict[str, Any]]:
    """Return the datasets as the library takes them."""
    return [_given(each) for each in located(datasets)]


def _given(dataset: LoaderDataset) -> dict[str, Any]:
    path = path_text(dataset.path)
    schedule = [(0, dataset.proportion)]
    if isinstance(dataset.proportion, Mapping):
        try:
            schedule = sorted((operator.index(epoch), float(share)) for epoch, share in dataset.proportion.items())
        except (TypeError, ValueError):
            schedule = []
        if not schedule or schedule[0][0] != 0 or not any(share for _, share in schedule):
            raise ValueError(
                f"proportion={dataset.proportion!r}: give shares and the epochs from which on they hold, the first "
                "from 0 on, as {0: 0.9, 5: 0.5}"
            )
    made: dict[str, Any] = {
        "path": path,
        "proportion": schedule[0][1],
        "changes": schedule[1:],
        "repeat": dataset.repeat,
        "choose": dataset.choose,
        "generation": dataset.generation,
        "replacement": dataset.replacement,
    }
    if dataset.balance is not None:
        made["balance"] = dataset.balance
    if dataset.weights is not None:
        weights = np.asarray(dataset.weights, np.float64)
        if weights.ndim != 1 or len(weights) == 0:
            raise ValueError(f"weights={shown(dataset.weights)}: give a number for each sample")
        made["weights"] = weights.tobytes()
    return made | chosen(path, dataset.where, dataset.indices, dataset.generation)


def with_choice(datasets: list[LoaderDataset], choice: dict[str, Any]) -> list[LoaderDataset]:
    """Return the datasets with what the loader's own options choose of the only one of them."""
    choice = {name: value for name, value in choice.items() if value is not None}
    if not choice:
        return datasets
    defaults = {each.name: each.default for each in fields(LoaderDataset)}
    names = " and ".join(choice)
    if len(datasets) > 1:
        raise ValueError(f"{names}: of which dataset? With several, give LoaderDataset(path, {next(iter(choice))}=...)")
    for name in choice:
        if getattr(datasets[0], name) is not defaults[name]:
            raise ValueError(f"{name}: the LoaderDataset has one, too; give one of the two")
    return [replace(datasets[0], **choice)]
