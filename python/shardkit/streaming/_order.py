"""The order of the samples of an epoch, by position; it does not depend on ranks and workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shardkit import _core
from shardkit._mixture import LoaderDataset, dataset_list
from shardkit._numbers import NDArray

Ids = NDArray[np.int64]
_CHUNK = 8192  # positions that are asked for at once


@dataclass(frozen=True)
class Part:
    """What an epoch takes of a stream: `choose` samples of the `samples` that it has."""

    path: str
    samples: int
    choose: int


@dataclass(frozen=True)
class Rules:
    """What the order is made from."""

    seed: int
    shuffle: bool
    fixed: bool  # the same samples in each epoch, where an epoch takes some
    lanes: int
    buffer_bytes: int


Order = Callable[[int, int], Ids]  # the samples of positions first to last


def _rest(part: Part, seed: Sequence[int]) -> Ids:
    """Return the samples that come once more than the others."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(part.samples, part.choose % part.samples, replace=False)).astype(np.int64)


class Orders:
    """The orders of all epochs of some streams; sample ids count through the streams."""

    def __init__(self, parts: Sequence[Part], rules: Rules) -> None:
        self._parts = parts
        self._rules = rules
        self.size = sum(part.choose for part in parts)
        self._first = np.cumsum([0, *(part.samples for part in parts)])[:-1]
        self._plan: _core.Plan | None = None
        self._first_of: Ids = np.zeros(0, np.int64)  # of the datasets of the plan

    def epoch(self, epoch: int) -> Order:
        """Return the order of an epoch."""
        return self._shuffled(epoch) if self._rules.shuffle else self._stored(epoch)

    def _stored(self, epoch: int) -> Order:
        if all(part.choose == part.samples for part in self._parts):
            return lambda first, last: np.arange(first, last, dtype=np.int64)
        pieces = []
        for i, (part, begin) in enumerate(zip(self._parts, self._first, strict=True)):
            seed = [self._rules.seed, i] if self._rules.fixed else [self._rules.seed, i, epoch]
            pieces += [np.arange(begin, begin + part.samples)] * (part.choose // part.samples)
            pieces.append(begin + _rest(part, seed))
        ids = np.concatenate(pieces).astype(np.int64)
        return lambda first, last: ids[first:last]

    def _shuffled(self, epoch: int) -> Order:
        if self._plan is None:
            self._plan = self._planned()
        plan = _core.PlanEpoch(self._plan, epoch)
        chunks: dict[int, Ids] = {}

        def chunk(number: int) -> Ids:
            if number not in chunks:
                chunks.clear()
                pairs = plan.step(number, 0, 1)
                chunks[number] = self._first_of[pairs[:, 0]] + pairs[:, 1]
            return chunks[number]

        def order(first: int, last: int) -> Ids:
            if first >= last:
                return np.zeros(0, np.int64)
            numbers = range(first // _CHUNK, -(-last // _CHUNK))
            ids = np.concatenate([chunk(number) for number in numbers])
            return ids[first - numbers.start * _CHUNK : last - numbers.start * _CHUNK]

        return order

    def _planned(self) -> _core.Plan:
        datasets, first_of = [], []
        for i, (part, begin) in enumerate(zip(self._parts, self._first, strict=True)):
            if part.choose == 0:
                continue
            if self._rules.fixed and part.choose % part.samples:
                if part.choose > part.samples:
                    datasets.append(LoaderDataset(part.path, choose=part.choose - part.choose % part.samples))
                    first_of.append(begin)
                datasets.append(LoaderDataset(part.path, indices=_rest(part, [self._rules.seed, i])))
            elif part.choose == part.samples:
                datasets.append(LoaderDataset(part.path))
            else:
                datasets.append(LoaderDataset(part.path, choose=part.choose))
            first_of.append(begin)
        self._first_of = np.array(first_of, np.int64)
        options = {
            "batch_size": _CHUNK,
            "seed": self._rules.seed,
            "order": "shuffled",
            "remainder": "keep",
            "shuffle_buffer_bytes": self._rules.buffer_bytes,
            "lanes": self._rules.lanes,
            "expected_world_size": 1,
            "locality": False,
            "epoch_samples": 0,
        }
        return _core.Plan(dataset_list(datasets), options)
