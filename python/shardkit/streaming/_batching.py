"""Orders in which the batches, and not the epoch alone, say how the streams are mixed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardkit.streaming._order import Ids, Order, Orders, Part, Rules


class _OfStreams:
    def __init__(self, parts: Sequence[Part], rules: Rules) -> None:
        self._seed = rules.seed
        self._changes = rules.shuffle and not rules.fixed  # from epoch to epoch
        self._parts = parts
        self._first = np.cumsum([0, *(part.samples for part in parts)])[:-1].tolist()
        self._orders = [Orders([part], rules) for part in parts]

    def _epochs(self, epoch: int) -> list[Order]:
        def order(i: int) -> Order:
            of, begin = self._orders[i].epoch(epoch), self._first[i]
            return lambda first, last: of(first, last) + begin

        return [order(i) for i in range(len(self._parts))]


class Stratified(_OfStreams):
    """Every batch over all ranks has the same number of samples of each stream; what fills no batch is left out."""

    def __init__(self, parts: Sequence[Part], rules: Rules, batch: int) -> None:
        super().__init__(parts, rules)
        total = sum(part.choose for part in parts)
        exact = np.array([batch * part.choose / total for part in parts])
        portions = exact.astype(np.int64)
        portions[np.argsort(exact - portions, kind="stable")[::-1][: batch - int(portions.sum())]] += 1
        for i, portion in enumerate(portions.tolist()):
            if portion == 0:
                raise ValueError(
                    f"Number of samples for stream {i} is 0 in a batch of {batch} over all ranks: give a larger batch "
                    'or share, or batching_method="random"'
                )
        self._portions = portions.tolist()
        self._batch = batch
        self.size = batch * min(part.choose // n for part, n in zip(parts, self._portions, strict=True))

    def epoch(self, epoch: int) -> Order:
        """Return the order of an epoch."""
        orders = self._epochs(epoch)

        def order(first: int, last: int) -> Ids:
            begin, end = first // self._batch, -(-last // self._batch)
            columns = [
                of(begin * n, end * n).reshape(end - begin, n) for of, n in zip(orders, self._portions, strict=True)
            ]
            ids: Ids = np.concatenate(columns, axis=1).ravel()
            return ids[first - begin * self._batch : last - begin * self._batch]

        return order


class OfOneStream(_OfStreams):
    """Runs of `run` samples of one stream each; what fills no run, and no step of `together` runs, is left out.

    The samples of the runs of a step take turns, as ranks take them.
    """

    def __init__(self, parts: Sequence[Part], rules: Rules, run: int, together: int) -> None:
        super().__init__(parts, rules)
        self._run = run
        self._together = together
        runs = [part.choose // run for part in parts]
        for i, part in enumerate(parts):
            if part.choose > 0 and runs[i] == 0:
                raise ValueError(
                    f"stream {i} has {part.choose} samples in an epoch, which do not fill a batch of {run}"
                )
        self._streams = np.repeat(np.arange(len(parts)), runs)
        self.size = len(self._streams) // together * together * run

    def epoch(self, epoch: int) -> Order:
        """Return the order of an epoch."""
        orders = self._epochs(epoch)
        seed = [self._seed, epoch] if self._changes else [self._seed]
        streams = np.random.default_rng(seed).permutation(self._streams)
        numbers = np.zeros(len(streams), np.int64)  # of the run in its stream
        for i in range(len(orders)):
            numbers[streams == i] = np.arange(np.count_nonzero(streams == i))
        step = self._run * self._together

        def of_step(number: int) -> Ids:
            runs = range(number * self._together, (number + 1) * self._together)
            begins = [(orders[streams[i]], int(numbers[i]) * self._run) for i in runs]
            ids: Ids = np.stack([of(begin, begin + self._run) for of, begin in begins], axis=1).ravel()
            return ids

        def order(first: int, last: int) -> Ids:
            if first >= last:
                return np.zeros(0, np.int64)
            begin = first // step
            ids = np.concatenate([of_step(number) for number in range(begin, -(-last // step))])
            return ids[first - begin * step : last - begin * step]

        return order
