"""Between blocks of a dataset and Arrow's tables, and datasets that many processes write part by part."""

from __future__ import annotations

import contextlib
import itertools
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from shardkit import _core, _to_arrow, jobs, reports
from shardkit._options import located
from shardkit._rows import pack_rows
from shardkit.dataset import Dataset


def ranges(samples: int, count: int) -> list[tuple[int, int]]:
    """Divide the samples into at most `count` runs of about the same length: (first, end)."""
    cuts = sorted({samples * i // max(count, 1) for i in range(count + 1)} | {0, samples})
    return list(itertools.pairwise(cuts))


def tables(dataset: Dataset, first: int, end: int, tensors: _to_arrow.Tensors | None = None) -> Iterator[Any]:
    """Yield the samples from `first` to before `end` as Arrow's tables, one for each block.

    With `tensors`, arrays are what that makes of them.
    """
    import pyarrow as pa

    kinds = dataset._arrow_schema()
    for block in dataset._blocks(first_sample=first, end_sample=end, most_held=None):
        begin = max(first - block.first_sample, 0)
        whole = pa.Table.from_batches([_to_arrow.batch(block, dataset.schema, kinds, tensors)])
        yield whole.slice(begin, min(end - block.first_sample, len(block)) - begin)


class Parts:
    """A dataset that many processes write part by part, and one makes of the parts. Pickled with its options."""

    def __init__(self, output: str | os.PathLike[str], key: str, options: Mapping[str, Any]) -> None:
        self.output = located(output)
        self.folder = f"{self.output.rstrip('/')}.parts-{uuid.uuid4().hex[:12]}"
        self.key = key
        self.options = dict(options)

    def write(self, number: int, rows: Iterable[Mapping[str, Any]]) -> str | None:
        """Write the rows of a part; return its name, which sorts by its number, or None when there are no rows.

        May be called again for the same number, and at once: each call writes a part of its own.
        """
        name = f"{number:08d}-{uuid.uuid4().hex[:12]}"
        given = iter(self._with_keys(number, rows))
        first = next(given, None)
        if first is None:
            return None

        def all_rows() -> Iterator[Mapping[str, Any]]:
            yield first
            yield from given

        pack_rows(all_rows(), f"{self.folder}/{name}", key=self.key, **self.options)
        return name

    def _with_keys(self, number: int, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Give rows without a key one that no row of another part has."""
        for position, row in enumerate(rows):
            yield row if row.get(self.key) is not None else {**row, self.key: f"{number:08d}-{position:08d}"}

    def join(self, names: Sequence[str | None]) -> reports.Published:
        """Make the dataset of these parts, in the order of their numbers, and remove everything else."""
        made = sorted(name for name in names if name is not None)
        if not made:
            raise ValueError(f"{self.output}: there are no rows to write")
        published = jobs.merge([f"{self.folder}/{name}" for name in made], self.output, keep_repeated_keys=True)
        self.remove()
        return published

    def remove(self) -> None:
        """Remove all parts, also those of tasks that were killed."""
        with contextlib.suppress(FileNotFoundError):
            _core.remove_tree(self.folder)
