"""The verbs of shardctl as functions."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast

from shardkit import _core, reports, sources
from shardkit._options import (
    ConvertOptions,
    CopyOptions,
    DiffOptions,
    PackOptions,
    RepairOptions,
    ReshardOptions,
    Unpack,
    UnpackOptions,
    ValidateOptions,
    checked,
    column_names,
    parsed,
    path_text,
    refuse,
    shown,
)
from shardkit._progress import Progress, shown_progress
from shardkit._rows import is_rows, is_table, pack_rows

_log = logging.getLogger("shardkit")
_Reported = TypeVar("_Reported", reports.Packed, reports.TaskReport, reports.Unpacked)


def _paths(inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    if isinstance(inputs, (str, os.PathLike)):
        inputs = [inputs]
    if not isinstance(inputs, Sequence) or not all(isinstance(path, (str, os.PathLike)) for path in inputs):
        raise TypeError(f"inputs={shown(inputs)}: give a path, a list of paths, or rows")
    return [path_text(path) for path in inputs]


def _note(report: _Reported) -> _Reported:
    for warning in report.warnings:
        _log.warning("%s", warning)
    for skipped in report.skipped:
        _log.warning("skipped %s: %s", skipped.key, skipped.reason)
    return report


@checked
def pack(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Iterable[Mapping[str, Any]] | Any,
    output: str | os.PathLike[str],
    *,
    kind: str = "auto",
    types: Mapping[str, str] | None = None,
    group_by: str | None = None,
    order: str | None = None,
    skip_errors: bool = False,
    dry_run: bool = False,
    progress: Progress = None,
    **options: Unpack[PackOptions],
) -> reports.Packed:
    """Pack directories of files, tars, or rows from Python into a new dataset.

    Parameters
    ----------
    inputs : path, sequence of paths, or rows
        Directories, tars, zips, tables or files of lines of JSON, taken in this order. An annotation file of COCO and
        the place of its images, for panoptic segmentation also that of its PNGs. Or dicts from column to value: any
        iterable, `rows` that a function makes, or a map-style dataset, whose rows are then fetched by ``threads``
        threads. Or a dataset of Hugging Face's `datasets` (`shardkit.sources.hugging_face`); of a ``DatasetDict``,
        each split goes to ``output/SPLIT``, and its report is in `splits` of the report. Or a table or a stream of
        Arrow, as `sources.arrow` takes it.
    output : path
        The directory of the dataset, or its URL in ``s3://`` or ``gs://``; must not hold one, but for ``append``.
    kind : str
        ``"auto"``, ``"files"``, ``"imagefolder"``, ``"sa1b"``, ``"coco"``, ``"jsonl"``, ``"table"``, ``"webdataset"``
        or ``"mds"``.
    types : mapping of str to str
        Types of columns by name, whatever their values look like.
    group_by : str
        For files: where a name is divided into key and column: ``"first-dot"``, ``"last-dot"``, ``"none"``.
    order : str
        Of class folders: ``"random"``, the default, mixes the classes, always in the same way; ``"path"`` stores one
        class after the other.
    skip_errors : bool
        Report and skip samples that cannot be loaded, instead of failing.
    dry_run : bool
        Write nothing; count samples and bytes, and find what would be skipped.
    progress : bool or callable
        None: a bar of tqdm where that is installed and stderr is a terminal; else whether to show it, or what is called
        with samples done and in all (0: not known).
    **options
        For rows: ``columns`` (from name to type, as for `Writer`; by default inferred from the first 256 rows) and
        ``key`` (the column of the keys, ``"key"``; rows without it are numbered). With ``resume`` the rows have to come
        in the same order again; other first rows are refused. Of files, names and sizes of what was packed are
        compared.
        For lines of JSON and tables: ``key``, the column that is the key. For tables: ``file``, the columns that name
        files, as ``"image_path"``, or ``"image_path=image"`` for a further column with the files' bytes; ``root``, the
        folder, zip or tar of these files, by default the table's folder.
        ``names``, the encoding of names of files that are not UTF-8, as ``"gbk"``; ``"escape"`` keeps such bytes as
        ``%XX``.
        ``include`` and ``exclude`` choose files by patterns as in ``.gitignore``, ``files`` names them, relative to the
        one input and in this order; ``limit`` stops after so many samples, to try.
        Those of `WriterOptions`; ``resume``, ``keep_on_cancel``, ``allow_empty``; ``keep_hidden``, to pack also what
        macOS, Windows and notebooks leave, and in image folders names that begin with a dot;
        ``follow_links=False``, to refuse symbolic links, which are otherwise followed, wherever they lead;
        ``stream_above``, ``max_decompression``, ``verify_listed_hashes``, ``pending_pair_bytes`` of the input.

    Raises
    ------
    FileNotFoundError
        When an input is missing.
    FileExistsError
        When there is a dataset at `output`; with ``append`` and ``existing_keys="refuse"``, the default, when it has
        keys of the samples, of which some are named. The dataset is then as it was, as after any other error.
    KeyboardInterrupt
        On Ctrl-C; nothing is left behind unless ``keep_on_cancel``.
    """
    if sources.is_hugging_face(inputs) and isinstance(inputs, Mapping):
        given_to_all: Any = {"kind": kind, "types": types, "group_by": group_by, "order": order, "dry_run": dry_run}
        given_to_all |= {"skip_errors": skip_errors, "progress": progress, **options}
        folder = os.fspath(output).rstrip("/")
        return reports.Packed.of_splits(
            {name: pack(split, f"{folder}/{name}", **given_to_all) for name, split in inputs.items()}
        )
    if sources.is_hugging_face(inputs):
        inputs = sources.hugging_face(inputs)
    inputs = sources.arrow(inputs) if is_table(inputs) else inputs
    if is_rows(inputs):
        if kind != "auto" or types is not None or group_by is not None or order is not None or dry_run:
            raise ValueError("kind, types, group_by, order and dry_run are for files; rows take columns={...}")
        with shown_progress(progress, "pack", "samples") as show:
            rows: dict[str, Any] = {**options, "skip_errors": skip_errors, "progress": show}
            report = pack_rows(inputs, path_text(output), **rows)
            return _note(report)
    files = {"kind": kind, "types": types, "group_by": group_by, "order": order, "dry_run": dry_run}
    given = parsed({**options, **files, "skip_errors": skip_errors})
    with shown_progress(progress, "pack", "samples") as show:
        return _note(reports.Packed(**_core.pack(_paths(cast(Any, inputs)), path_text(output), given, show)))


@checked
def plan_pack(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    kind: str = "auto",
    types: Mapping[str, str] | None = None,
    group_by: str | None = None,
    order: str | None = None,
    skip_errors: bool = False,
    progress: Progress = None,
    **options: Unpack[PackOptions],
) -> reports.PackPlan:
    """Divide packing into tasks, for any number of processes and machines that see inputs and output by these paths.

    `pack_task` then packs a part, in any order, at the same time, again, or twice at once, and `finish_pack` makes the
    dataset, which is the one that `pack` makes, byte for byte, whatever the number of tasks.

    Parameters
    ----------
    inputs, output, kind, types, group_by, order, skip_errors, progress, **options
        As for `pack`; ``threads`` ask for the sizes of files. Relative paths are those of this process.

    Raises
    ------
    FileExistsError
        When there is a plan or a dataset at `output`.
    """
    files = {"kind": kind, "types": types, "group_by": group_by, "order": order, "skip_errors": skip_errors}
    with shown_progress(progress, "plan", "samples") as show:
        plan = _core.plan_pack(_paths(inputs), path_text(output), parsed({**options, **files}), show)
    for warning in plan.warnings:
        _log.warning("%s", warning)
    return plan


@checked
def read_pack_plan(output: str | os.PathLike[str]) -> reports.PackPlan:
    """Return the plan at `output` that `plan_pack` has made.

    Raises
    ------
    FileNotFoundError
        When there is none.
    """
    return _core.read_pack_plan(path_text(output))


@checked
def pack_task(
    output: str | os.PathLike[str], task: int, tasks: int, *, threads: int = 1, progress: Progress = None
) -> reports.TaskReport:
    """Pack part `task`, from 0, of `tasks` parts of the plan at `output`.

    Parameters
    ----------
    output : path
        As for `plan_pack`.
    task, tasks : int
        The part, and how many there are; any number divides the same units.
    threads : int
        Threads that read, check and compress.
    progress : bool or callable
        As for `pack`.
    """
    with shown_progress(progress, "pack", "samples") as show:
        return _note(_core.pack_task(path_text(output), task, tasks, threads, show))


@checked
def finish_pack(output: str | os.PathLike[str], *, threads: int = 1) -> reports.Packed:
    """Make the dataset when all tasks have ended, and remove the plan.

    Parameters
    ----------
    output : path
        As for `plan_pack`.
    threads : int
        Threads that read the indexes of shards.

    Raises
    ------
    ValueError
        When units are missing: the message names them, and their tasks are to be run again. When two samples have one
        key, unless errors are skipped.
    """
    return _note(reports.Packed(**_core.finish_pack(path_text(output), threads)))


def _convert_options(columns: Sequence[str] | None, options: ConvertOptions) -> dict[str, Any]:
    _check_container("shard", options)
    return parsed({**options, "to": "shard", "columns": column_names(columns)})


# Options of `convert` that are for some containers alone; of the others, those of `WriterOptions` are for all.
_CONTAINERS = {"compression": "mds", "hashes": "mds", "encodings": "mds", "index": "webdataset"} | dict.fromkeys(
    (
        *("block_size", "max_block_samples", "alignment", "zstd_levels", "dictionaries", "storage", "codecs"),
        *("metadata", "sha256", "append", "existing_keys", "keep_blocks"),
    ),
    "shard",
)


def _check_container(to: str, options: Mapping[str, Any]) -> None:
    refuse(
        (name for name in options if _CONTAINERS.get(name, to) != to and options[name] is not None),
        f"does nothing to {to}: leave it out",
    )


@checked
def convert_task(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    task: int,
    tasks: int,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress = None,
    **options: Unpack[ConvertOptions],
) -> reports.TaskReport:
    """Convert part `task`, from 0, of `tasks` parts of a dataset to Shardkit's container.

    There is no plan: all tasks, and `finish_convert`, get the same input and options.

    Parameters
    ----------
    input, output, columns, progress, **options
        As for `convert`.
    task, tasks : int
        As for `pack_task`.
    """
    with shown_progress(progress, "convert", "samples") as show:
        arguments = (path_text(input), path_text(output), task, tasks, _convert_options(columns, options))
        return _note(_core.convert_task(*arguments, show))


@checked
def finish_convert(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    **options: Unpack[ConvertOptions],
) -> reports.Packed:
    """Make the dataset when all tasks of `convert_task` have ended; see `finish_pack`."""
    given = _convert_options(columns, options)
    return _note(reports.Packed(**_core.finish_convert(path_text(input), path_text(output), given)))


@checked
def convert(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    to: str = "shard",
    columns: Sequence[str] | None = None,
    key_column: str | None = None,
    lossy: bool = False,
    skip_errors: bool = False,
    dry_run: bool = False,
    progress: Progress = None,
    **options: Unpack[ConvertOptions],
) -> reports.Packed:
    """Write the samples of a dataset as a new dataset, also of another container.

    Parameters
    ----------
    input, output : path
        The dataset, and the directory of the new one; URLs, too.
    to : str
        ``"shard"``, ``"mds"`` or ``"webdataset"``.
    columns : sequence of str
        Columns to convert; all by default.
    key_column : str
        The utf8 column that becomes the key; ``""`` for none.
    lossy : bool
        Convert values that have no exact mapping, instead of failing.
    skip_errors, dry_run, progress
        As for `pack`.
    **options
        Those of `WriterOptions`; ``keep_blocks``, as for `filter`; ``compression``, ``hashes``, ``encodings`` of MDS;
        ``index`` of WebDataset.
    """
    _check_container(to, options)
    own = {"to": to, "columns": column_names(columns), "key_column": key_column, "lossy": lossy}
    given = parsed({**options, **own, "skip_errors": skip_errors, "dry_run": dry_run})
    with shown_progress(progress, "convert", "samples") as show:
        return _note(reports.Packed(**_core.convert(path_text(input), path_text(output), given, show)))


@checked
def validate(
    path: str | os.PathLike[str],
    *,
    deep: bool = False,
    threads: int = 1,
    progress: Progress = None,
    **options: Unpack[ValidateOptions],
) -> reports.Validated:
    """Check every byte and every rule of a dataset or a shard.

    Parameters
    ----------
    path : path
        The dataset.
    deep : bool
        Also decode every value, and compare the size of masks with that of their image.
    threads : int
        Threads that check.
    progress : bool or callable
        As for `pack`, with bytes.
    **options
        ``mode``, ``max_problems``, ``max_decompression``, ``max_image_memory``; ``task`` and ``tasks``, to check one of
        several parts of the shards: part 0 also checks what there is once, the segments.

    Returns
    -------
    Validated
        True when there is no problem. Damage is in the report, not an exception.
    """
    given = parsed({**options, "deep": deep, "threads": threads})
    with shown_progress(progress, "validate", "B") as show:
        return _core.validate(path_text(path), given, show)


@checked
def unpack(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    threads: int = 1,
    skip_errors: bool = False,
    progress: Progress = None,
    **options: Unpack[UnpackOptions],
) -> reports.Unpacked:
    """Write the files that a dataset was packed from.

    Parameters
    ----------
    path, output : path
        The dataset, and a directory that is empty or missing.
    columns : sequence of str
        The columns whose files are written. None: all.
    threads : int
        Threads that write.
    skip_errors : bool
        Report and skip samples that cannot be read, or whose files an earlier sample has.
    progress : bool or callable
        As for `pack`.
    **options
        ``first_sample``, ``end_sample``, ``max_decompression``, ``verify_listed_hashes``, ``generation``;
        ``by_shard`` writes the files of each shard into a folder of their own.
    """
    given = parsed({**options, "threads": threads, "skip_errors": skip_errors, "columns": column_names(columns)})
    with shown_progress(progress, "unpack", "samples") as show:
        return _note(_core.unpack(path_text(path), path_text(output), given, show))


@checked
def repair(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    keep_samples: bool = False,
    progress: Progress = None,
    **options: Unpack[RepairOptions],
) -> reports.Repaired:
    """Write what is undamaged of a dataset, or of a shard.

    Parameters
    ----------
    path, output : path
        The dataset and the directory of the new one; or two shards.
    keep_samples : bool
        Keep the undamaged samples of damaged blocks, too.
    progress : bool or callable
        As for `pack`, with bytes.
    **options
        ``schema_from``, ``max_keys``, ``max_decompression``, ``sync``.
    """
    given = parsed({**options, "keep_samples": keep_samples})
    with shown_progress(progress, "repair", "B") as show:
        return _core.repair(path_text(path), path_text(output), given, show)


@checked
def index(path: str | os.PathLike[str]) -> reports.Published:
    """Rebuild the segment and the manifest of a dataset from its shards.

    Parameters
    ----------
    path : path
        The dataset's directory, or its URL.
    """
    return reports.Published(**_core.index(path_text(path)))


@checked
def compact(
    path: str | os.PathLike[str],
    *,
    lost: float = 0.2,
    fold: bool = False,
    purge: bool = False,
    grace_minutes: int = 0,
    threads: int = 1,
    progress: Progress = None,
) -> reports.Compacted:
    """Rewrite the shards of a dataset that removed samples have left hollow, and make its segments one.

    Parameters
    ----------
    path : path
        The dataset's directory, or its URL.
    lost : float
        Rewrite shards that lost at least this share of their bytes.
    fold : bool
        Write all columns into the shards under their names, where columns were added, renamed or dropped.
    purge : bool
        Rewrite all that hold a removed sample, then delete the files of earlier generations: nothing of it is left.
    grace_minutes : int
        With `purge`, wait so long before deleting, for readers that have the dataset open.
    threads : int
        Shards rewritten at once.
    progress : bool or callable
        As for `pack`.
    """
    if not purge:
        refuse(["grace_minutes"] if grace_minutes else [], "is for purge=True, which deletes files")
    given = {"lost": lost, "fold": fold, "purge": purge, "grace_minutes": grace_minutes, "threads": threads}
    with shown_progress(progress, "compact", "samples") as show:
        return reports.Compacted(**_core.compact(path_text(path), given, show))


@checked
def diff(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    threads: int = 1,
    max_examples: int = 10,
    progress: Progress = None,
    **options: Unpack[DiffOptions],
) -> reports.Diff:
    """Say in which samples, columns and values two datasets differ.

    Samples are matched by key, the i-th that has it with the i-th, or where neither dataset has keys by ordinal. How
    they are stored and in which order is no difference; shards that both have are not read.

    Parameters
    ----------
    a, b : path
        Datasets of any container, or their URLs.
    columns : sequence of str
        Compare the values of these alone.
    threads : int
        Threads that read.
    max_examples : int
        Samples to name of each difference; all are counted.
    progress : bool or callable
        As for `pack`.
    **options
        ``generation_a``, ``generation_b``: read one as it was in this generation (see `history`).
    """
    own = {"columns": column_names(columns), "threads": threads, "max_examples": max_examples}
    with shown_progress(progress, "diff", "samples") as show:
        return _core.diff(path_text(a), path_text(b), parsed({**options, **own}), show)


@checked
def history(path: str | os.PathLike[str]) -> list[reports.Generation]:
    """List the generations of a dataset whose manifests are kept, and what each did.

    Parameters
    ----------
    path : path
        The dataset's directory, or its URL.
    """
    return _core.history(path_text(path))


@checked
def merge(
    parts: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    keep_repeated_keys: bool = False,
    copy: bool = False,
    by_reference: bool = False,
    progress: Progress = None,
    **options: Unpack[CopyOptions],
) -> reports.Published:
    """Make one dataset of the samples of several, in this order, by linking their shards, or in a store copying them.

    Parameters
    ----------
    parts : sequence of paths
        The datasets.
    output : path
        The directory of the new one.
    keep_repeated_keys : bool
        Take samples of one key, and equal shards, from several datasets; by its key the first is found.
    copy : bool
        Store the samples in new shards: then datasets of any container are taken, and those with other codecs.
    by_reference : bool
        Refer to the shards, which stay, and must stay, where they are. So a dataset that cannot be written to gets
        columns of one's own: merge it alone, and add columns to the new dataset.
    progress : bool or callable
        As for `pack`.
    **options
        With `copy`: those of `WriterOptions`; ``keep_on_cancel``, ``keep_blocks``, ``max_decompression``,
        ``verify_listed_hashes``, as for `filter`.

    Raises
    ------
    ValueError
        When samples of several datasets have one key, or the columns do not fit together.
    """
    if not copy:
        refuse(options, "is for copy=True; without it shards stay as they are")
    given = parsed({**options, "keep_repeated_keys": keep_repeated_keys, "copy": copy, "by_reference": by_reference})
    with shown_progress(progress, "merge", "samples") as show:
        return reports.Published(**_core.merge(_paths(parts), path_text(output), given, show))


@checked
def reshard(
    dataset: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    shuffle: Annotated[int | None, "a seed"] = None,
    progress: Progress = None,
    **options: Unpack[ReshardOptions],
) -> reports.Packed:
    """Put the samples of a dataset into other shards and blocks, or into random order.

    Parameters
    ----------
    dataset, output : path
        A dataset of any container, and the directory of the new one; URLs, too.
    shuffle : int
        A seed: the samples are stored in the random order that docs/reshape.md describes. By default they keep theirs.
    progress : bool or callable
        As for `pack`.
    **options
        Those of `WriterOptions`, as ``shard_size``, ``shard_samples`` and ``block_size``; ``shuffle_memory``, a size,
        and ``scratch``, a directory for temporary files; ``keep_on_cancel``, ``keep_blocks``, ``max_decompression``,
        ``verify_listed_hashes``, as for `filter`.
    """
    given: dict[str, Any] = {**options}
    if shuffle is None:
        refuse((name for name in ("shuffle_memory", "scratch") if name in options), "is for a shuffle")
    else:
        if isinstance(shuffle, bool):
            raise ValueError(f"shuffle={shuffle}: give a seed, a whole number, or None for the order that there is")
        given |= {"shuffle": shuffle}
    with shown_progress(progress, "reshard", "samples") as show:
        return reports.Packed(**_core.reshard(path_text(dataset), path_text(output), parsed(given), show))
