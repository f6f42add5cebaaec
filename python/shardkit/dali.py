"""Batches for NVIDIA DALI, which decodes images on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import nvidia.dali

from shardkit import loader as _loader
from shardkit._options import checked, column_names
from shardkit.batch import Batch, Ragged


class Source:
    """The batches of a loader for `nvidia.dali.fn.external_source`: each output is a column.

    DALI asks for each step of an epoch by its number. Steps that it asks for in order are read ahead, as in a loop over
    the loader. After DALI has restored a checkpoint, the loader begins at its step, and reads nothing before it.

    Parameters
    ----------
    loader : shardkit.Loader
        Nothing else may iterate it. Its columns are arrays, bytes (without a copy with `Views`) or values of different
        sizes. What becomes of the last batch is its `remainder`.
    columns : sequence of str
        The outputs, in this order; by default the columns of the loader. Needed if it has a `transform`.
    """

    @checked
    def __init__(self, loader: _loader.Loader, columns: Sequence[str] | None = None) -> None:
        recipe = loader._recipe
        if recipe.batch_function is not None or recipe.as_tuple is not None:
            raise ValueError("outputs are columns of batches: leave batch_function and as_tuple of the loader out")
        if columns is None and recipe.functions is not None and recipe.functions.transform is not None:
            raise ValueError("what columns a transform returns is not known before it is called: give columns")
        self._loader = loader
        self._names = column_names(columns) or loader._names

    def __call__(self, info: Any) -> list[Any]:
        """Return the columns of a step.

        Parameters
        ----------
        info : nvidia.dali.types.BatchInfo
            The epoch, and the number of the step in it (``batch_info=True``).

        Raises
        ------
        StopIteration
            At the end of the epoch.
        TypeError
            When DALI has no type for a column: texts, masks, rows of tokens.
        ValueError
            When a sample has no value of a column.
        """
        loader = self._loader
        if info.iteration >= len(loader):
            raise StopIteration
        if info.epoch_idx != loader.epoch:
            loader.set_epoch(info.epoch_idx)
        if info.iteration != len(loader) - loader.steps_left:
            loader.seek(info.iteration)
        batch = next(loader._rest_of_epoch())
        return [_fed(batch, name) for name in self._names]

    def outputs(self) -> list[Any]:
        """Return a `nvidia.dali.data_node.DataNode` for each column, in the definition of a pipeline.

        DALI reads the memory of the batches, without a copy, and holds them until then.
        """
        nodes = nvidia.dali.fn.external_source(
            self, num_outputs=len(self._names), batch=True, batch_info=True, no_copy=True
        )
        return list(nodes)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a loader reads ahead on threads of this process: leave parallel=True out")


def pipeline_def(
    loader: _loader.Loader, columns: Sequence[str] | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a pipeline of a function that gets the columns of a loader; else as `nvidia.dali.pipeline_def`.

    Parameters
    ----------
    loader, columns
        As for `Source`.
    **options
        As for `nvidia.dali.pipeline_def`: ``num_threads``, ``device_id``, ``enable_checkpointing`` and so on. The
        batch size is the loader's.

    Returns
    -------
    callable
        A decorator. The function gets a `nvidia.dali.data_node.DataNode` for each column, and returns the outputs of
        the pipeline. Then a call without arguments makes the pipeline; options such as ``checkpoint`` may be given
        there, too.
    """
    source = Source(loader, columns)

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        def graph() -> Any:
            return function(*source.outputs())

        made: Callable[..., Any] = nvidia.dali.pipeline_def(batch_size=loader.batch_size, **options)(graph)
        return made

    return decorated


def _fed(batch: Batch, name: str) -> Any:
    """Return a column as DALI takes it."""
    column = batch[name]
    if not batch.present(name).all():
        sample = batch.sample_keys[int(np.argmin(batch.present(name)))]
        raise ValueError(f"sample {sample}: column {name}: has no value, and DALI needs one: choose others by where")
    if isinstance(column, np.ndarray):
        return column
    values = list(column) if isinstance(column, (Ragged, list)) else [column]
    if not all(isinstance(value, np.ndarray) for value in values):
        raise TypeError(f"column {name}: DALI takes numbers and bytes: give its bytes with sk.Views(), or leave it out")
    return values
