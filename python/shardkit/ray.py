"""Packing, converting, validating and reading with Ray, which places the tasks, and runs those of dead workers again.

All processes have to see inputs and outputs by the same paths: on a shared file system, or URLs.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import ray
from ray.data import Datasink, Datasource, ReadTask
from ray.data.block import BlockAccessor, BlockMetadata

from shardkit import _tables, jobs, reports
from shardkit._options import OpenOptions, Unpack, checked, located
from shardkit._progress import Progress, shown_progress
from shardkit.dataset import Dataset
from shardkit.dataset import open as open_dataset

Path = str | os.PathLike[str]

# Errors of a network, perhaps of one machine. What is wrong with the data would be so again.
_TRANSIENT = [ConnectionError, TimeoutError]


def _tasks(num_tasks: int | None, most: int) -> int:
    """Four for each processor, so that a slow one does not keep the others waiting at the end."""
    wanted = num_tasks if num_tasks is not None else 4 * int(ray.cluster_resources().get("CPU", 1))
    return max(1, wanted if num_tasks is not None else min(wanted, most))


def _run(
    function: Callable[[int], Any], count: int, threads: int, max_retries: int, progress: Progress, verb: str
) -> list[Any]:
    """Run function(0), …, function(count - 1) as tasks of Ray; return what they return."""
    remote = ray.remote(function).options(
        num_cpus=threads, max_retries=max_retries, retry_exceptions=_TRANSIENT, name=f"shardkit.{verb}"
    )
    # Not all at once, so that an error leaves few behind: Ray 2.60 ends the process when a task that is about to end is
    # cancelled.
    at_once = max(1, 2 * int(ray.cluster_resources().get("CPU", 1)) // threads)
    left = iter(range(count))
    waiting = {remote.remote(task): task for task in itertools.islice(left, at_once)}
    results: list[Any] = [None] * count
    done = 0
    try:
        with shown_progress(progress, verb, "tasks") as show:
            while waiting:
                ready, _ = ray.wait(list(waiting), num_returns=1, timeout=None)
                for reference in ready:
                    results[waiting.pop(reference)] = ray.get(reference)
                    done += 1
                    waiting |= {remote.remote(task): task for task in itertools.islice(left, 1)}
                if show is not None:
                    show(done, count)
    except Exception:
        if waiting:
            ray.wait(list(waiting), num_returns=len(waiting), timeout=None)
        raise
    return results


@checked
def pack(
    inputs: Path | Sequence[Path] | None,
    output: Path,
    *,
    num_tasks: int | None = None,
    threads: int = 1,
    max_retries: int = 3,
    progress: Progress = None,
    **options: Any,
) -> reports.Packed:
    """Pack files and tars into a new dataset by tasks of Ray: the one that `shardkit.pack` makes, byte for byte.

    This process lists the inputs and publishes the dataset; the tasks do all else.

    Parameters
    ----------
    inputs : path, sequence of paths, or None
        As for `shardkit.pack`. None: those of the plan at `output`, to go on after this process was killed.
    output : path
        As for `shardkit.pack`.
    num_tasks : int
        Four for each processor of the cluster by default. A task packs about the same number of bytes as the others, in
        whole shards.
    threads : int
        Threads, and processors (``num_cpus``), of each task.
    max_retries : int
        How often Ray runs a task again whose worker has died.
    progress : bool or callable
        As for `shardkit.pack`, of tasks.
    **options
        As for `shardkit.plan_pack`.

    Raises
    ------
    FileExistsError
        When there is a plan or a dataset at `output`.
    """
    path = located(output)
    if inputs is None:
        plan = jobs.read_pack_plan(path)
    else:
        given = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs
        plan = jobs.plan_pack([located(each) for each in given], path, progress=False, threads=threads, **options)
    count = _tasks(num_tasks, plan.units)

    def task(number: int) -> reports.TaskReport:
        return jobs.pack_task(path, number, count, threads=threads, progress=False)

    done = _run(task, count, threads, max_retries, progress, "pack")
    return _with_warnings(jobs.finish_pack(path, threads=threads), done)


@checked
def convert(
    input: Path,
    output: Path,
    *,
    num_tasks: int | None = None,
    threads: int = 1,
    max_retries: int = 3,
    progress: Progress = None,
    **options: Any,
) -> reports.Packed:
    """Convert a dataset of any container to Shardkit's by tasks of Ray: the dataset that `shardkit.convert` makes.

    Parameters
    ----------
    input, output, **options
        As for `shardkit.convert_task`.
    num_tasks, threads, max_retries, progress
        As for `pack`. After this process was killed, the same call goes on.
    """
    source, path = located(input), located(output)
    count = _tasks(num_tasks, open_dataset(source).shard_count)

    def task(number: int) -> reports.TaskReport:
        return jobs.convert_task(source, path, number, count, threads=threads, progress=False, **options)

    done = _run(task, count, threads, max_retries, progress, "convert")
    return _with_warnings(jobs.finish_convert(source, path, threads=threads, **options), done)


def _with_warnings(report: reports.Packed, tasks: Iterable[reports.TaskReport]) -> reports.Packed:
    report.warnings.extend(warning for task in tasks for warning in task.warnings)
    return report


@checked
def validate(
    path: Path,
    *,
    num_tasks: int | None = None,
    threads: int = 1,
    max_retries: int = 3,
    progress: Progress = None,
    **options: Any,
) -> reports.Validated:
    """Check a dataset by tasks of Ray, each some of the shards, and the first also the segments.

    Parameters
    ----------
    path, **options
        As for `shardkit.validate`.
    num_tasks, threads, max_retries, progress
        As for `pack`.
    """
    where = located(path)
    count = _tasks(num_tasks, open_dataset(where).shard_count)

    def task(number: int) -> reports.Validated:
        return jobs.validate(where, threads=threads, task=number, tasks=count, progress=False, **options)

    return reports.joined(_run(task, count, threads, max_retries, progress, "validate"))


class _Source(Datasource):
    """The samples of a dataset, a run of them for each task."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        first = next(_tables.tables(dataset, 0, min(len(dataset), 256), _tensors), None)
        self._bytes = 0 if first is None else first.nbytes * len(dataset) // max(len(first), 1)

    def get_name(self) -> str:
        return "Shardkit"

    def estimate_inmemory_data_size(self) -> int | None:
        return self._bytes

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        dataset, samples = self._dataset, len(self._dataset)
        tasks = []
        for first, end in _tables.ranges(samples, parallelism):
            size = self._bytes * (end - first) // max(samples, 1)
            metadata = BlockMetadata(num_rows=end - first, size_bytes=size, input_files=None, exec_stats=None)
            tasks.append(ReadTask(_Read(dataset, first, end), metadata, per_task_row_limit=per_task_row_limit))
        return tasks


class _Read:
    def __init__(self, dataset: Dataset, first: int, end: int) -> None:
        self._dataset, self._first, self._end = dataset, first, end

    def __call__(self) -> Iterator[Any]:
        return _tables.tables(self._dataset, self._first, self._end, _tensors)


def _tensors(values: Any) -> Any:
    from ray.data.extensions import ArrowTensorArray, ArrowVariableShapedTensorArray

    if not isinstance(values, list):
        return ArrowTensorArray.from_numpy(values)
    return ArrowVariableShapedTensorArray.from_numpy(values)


def read(
    path: Path, columns: Sequence[str] | None = None, *, parallelism: int = -1, **options: Unpack[OpenOptions]
) -> Any:
    """Return the samples of a dataset as a `ray.data.Dataset`.

    Arrays are Ray's tensors, images and other bytes stay encoded, JSON is text, masks are lists of COCO's dicts.

    Parameters
    ----------
    path, columns, **options
        As for `shardkit.open`.
    parallelism : int
        Tasks that read; -1: Ray chooses.
    """
    dataset = open_dataset(located(path), columns, **options)
    return ray.data.read_datasource(_Source(dataset), override_num_blocks=None if parallelism < 0 else parallelism)


class Sink(Datasink[str | None]):
    """Writes a `ray.data.Dataset` as a new dataset: ``ds.write_datasink(Sink("out", columns={…}))``.

    Each task writes shards of its own beside the output, and in the end they become one dataset, in the order of the
    tasks. A task that Ray runs again writes its part again, and only one is taken.

    Parameters
    ----------
    output : path
        The directory of the dataset, or its URL; must not hold one.
    key : str
        The column of the keys; rows without it get a key that no other row has.
    **options
        As for `shardkit.pack` of rows: give ``columns`` unless the first rows of every task show them.
    """

    def __init__(self, output: Path, *, key: str = "key", **options: Any) -> None:
        self._parts = _tables.Parts(output, key, options)
        self.published: reports.Published | None = None

    def write(self, blocks: Iterable[Any], ctx: Any) -> str | None:
        """Write the rows of a task."""

        def rows() -> Iterator[Mapping[str, Any]]:
            for block in blocks:
                yield from BlockAccessor.for_block(block).iter_rows(public_row_format=True)

        return self._parts.write(ctx.task_idx, rows())

    def on_write_complete(self, write_result: Any) -> None:
        """Publish the dataset."""
        self.published = self._parts.join(write_result.write_returns)

    def on_write_failed(self, error: Exception) -> None:
        """Remove what was written."""
        self._parts.remove()
