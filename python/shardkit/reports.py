"""What the verbs return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Skipped:
    """A sample that could not be loaded: its position in the input, its key or file, and why."""

    position: int
    key: str
    reason: str


@dataclass(frozen=True)
class Published:
    """A dataset that was written; `existing` samples were left out by ``existing_keys="skip"``."""

    shards: int
    samples: int
    blocks: int
    bytes: int
    skipped: list[Skipped] = field(default_factory=list)
    existing: int = 0


@dataclass(frozen=True)
class Removed:
    """What `remove` did: samples removed now, given keys of no sample, samples left, and removed ones still stored."""

    removed: int
    keys_missing: int
    samples: int
    removed_in_all: int
    generation: int


@dataclass(frozen=True)
class Compacted:
    """What `compact` did; `removed_left` removed samples are still stored, and bytes are those of the shards."""

    samples: int
    removed_left: int
    shards: int
    bytes: int
    bytes_before: int
    generation: int
    shards_rewritten: int
    layers_rewritten: int
    samples_dropped: int
    files_deleted: int


@dataclass(frozen=True)
class Differing:
    """Samples that one dataset lacks, or whose values differ: how many, and key and ordinals of the first."""

    count: int
    examples: list[tuple[str, int | None, int | None]]


@dataclass(frozen=True)
class Diff:
    """What `diff` found; true when there is a difference.

    `matched` samples are in both, `unread` of them in shards that both have. `types` are columns of both whose types
    differ, `columns` those with values that differ.
    """

    by_key: bool
    matched: int
    unread: int
    only_a: Differing
    only_b: Differing
    columns_only_a: list[str]
    columns_only_b: list[str]
    types: list[str]
    columns: dict[str, Differing]

    def __bool__(self) -> bool:
        samples = self.only_a.count or self.only_b.count
        return bool(samples or self.columns_only_a or self.columns_only_b or self.types or self.columns)


@dataclass(frozen=True)
class Generation:
    """A generation of a dataset.

    `change` is what made it: ``"made"``, ``"appended"``, ``"columns"`` (added, replaced, dropped, renamed or described,
    as the lists of columns say), ``"removed"`` (samples), ``"compacted"`` (shards rewritten), ``"indexed"`` (segments
    joined, or indexes made anew) or ``"unknown"``.
    `samples_added`, `samples_removed` and `shards_added` are since the one before, the other numbers of the whole.
    """

    generation: int
    change: str
    samples: int
    samples_added: int
    shards: int
    shards_added: int
    segments: int
    columns: int
    bytes: int
    readable: bool
    samples_removed: int = 0
    columns_added: list[str] = field(default_factory=list)
    columns_replaced: list[str] = field(default_factory=list)
    columns_dropped: list[str] = field(default_factory=list)
    columns_renamed: list[tuple[str, str]] = field(default_factory=list)
    columns_described: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class AddedColumns:
    """Columns that `add_columns` has added, those that were `replaced` among them.

    Of the dataset's `samples` those `matched` have a row. `unmatched` of the input's `rows` have a key that no sample
    has; `unmatched_keys` are the first of these. `shards` and `bytes` are those that were written.
    """

    generation: int
    columns: list[str]
    replaced: list[str]
    samples: int
    matched: int
    rows: int
    unmatched: int
    unmatched_keys: list[str]
    shards: int
    bytes: int


@dataclass(frozen=True)
class Packed(Published):
    """A dataset that was packed or converted; `packed` samples by this call, the others by those before."""

    packed: int = 0
    input_bytes: int = 0
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Selection:
    """What `filter` has found: samples and blocks of the dataset, and what it took to decide.

    `blocks_skipped` were not read because their smallest and largest numbers exclude all of their samples;
    `keys_missing` of the given keys no sample has.
    """

    samples: int
    selected: int
    blocks: int
    blocks_read: int
    blocks_skipped: int
    keys_missing: int


@dataclass(frozen=True)
class Filtered(Packed):
    """A dataset of some samples of another."""

    selection: Selection = field(default_factory=lambda: Selection(0, 0, 0, 0, 0, 0))


@dataclass(frozen=True)
class PackPlan:
    """What `plan_pack` has divided: bytes of files, tars and blocks; samples where no tar has to be read for them."""

    units: int
    input_bytes: int
    samples: int | None
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TaskReport:
    """What a task has done.

    Of its `units`, `units_before` were there before, from another run of it; the rest is of this run. Positions of
    skipped samples count from the first sample of their unit.
    """

    units: int
    units_before: int
    samples: int
    input_bytes: int
    skipped: list[Skipped] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Problem:
    """What is wrong, and in which file."""

    path: str
    message: str


@dataclass(frozen=True)
class Validated:
    """What `validate` found; true when there is no problem.

    ``samples`` are those that readers see; the shards hold ``removed_samples`` besides. Shards, blocks and bytes do not
    count those of layers.
    """

    shards: int
    blocks: int
    samples: int
    removed_samples: int
    layers: int
    bytes: int
    undecoded_images: int
    warned_images: int
    repeated_keys: int
    problem_count: int
    problems: list[Problem]
    warnings: list[Problem]

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return self.problem_count == 0

    def __bool__(self) -> bool:
        return self.ok


@dataclass(frozen=True)
class Unpacked:
    """The files that were written."""

    samples: int
    files: int
    bytes: int
    skipped: list[Skipped]


@dataclass(frozen=True)
class Loss:
    """Consecutive samples that were lost; ordinals are those of the damaged shard."""

    first_sample: int
    sample_count: int
    reason: str
    columns: list[str]
    keys: list[str]


@dataclass(frozen=True)
class RepairedShard:
    """What became of a shard."""

    path: str
    output: str
    written: bool
    samples_recovered: int
    samples_lost: int
    end_known: bool
    losses: list[Loss]
    problems: list[str]
    notes: list[str]


@dataclass(frozen=True)
class Repaired:
    """What `repair` recovered."""

    written: bool
    shards: list[RepairedShard]
    notes: list[str]

    @property
    def samples_recovered(self) -> int:
        """Samples in the output."""
        return sum(shard.samples_recovered for shard in self.shards)

    @property
    def samples_lost(self) -> int:
        """Samples that are not in the output, as far as known."""
        return sum(shard.samples_lost for shard in self.shards)

    @property
    def lossless(self) -> bool:
        """Whether certainly no sample was lost."""
        return all(shard.samples_lost == 0 and shard.end_known for shard in self.shards)


def _skipped(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, "skipped": [Skipped(*sample) for sample in result.get("skipped", [])]}


def published(result: dict[str, Any]) -> Published:
    """Make the report of a dataset that was written."""
    return Published(**_skipped(result))


def packed(result: dict[str, Any]) -> Packed:
    """Make the report of `pack` and `convert`."""
    return Packed(**_skipped(result))


def filtered(result: dict[str, Any]) -> Filtered:
    """Make the report of `filter`."""
    return Filtered(**{**_skipped(result), "selection": Selection(**result["selection"])})


def task(result: dict[str, Any]) -> TaskReport:
    """Make the report of `pack_task` and `convert_task`."""
    return TaskReport(**_skipped(result))


def difference(result: dict[str, Any]) -> Diff:
    """Make the report of `diff`."""
    counts = {name: Differing(**result[name]) for name in ("only_a", "only_b")}
    columns = {name: Differing(**count) for name, count in result["columns"].items()}
    return Diff(**{**result, **counts, "columns": columns})


def unpacked(result: dict[str, Any]) -> Unpacked:
    """Make the report of `unpack`."""
    return Unpacked(**_skipped(result))


def validated(result: dict[str, Any]) -> Validated:
    """Make the report of `validate`."""
    found = {name: [Problem(*problem) for problem in result[name]] for name in ("problems", "warnings")}
    return Validated(**{**result, **found})


def joined(found: Sequence[Validated]) -> Validated:
    """Make the report of a dataset of the reports of the tasks that have checked it, in their order."""
    sums = {
        name: sum(getattr(report, name) for report in found)
        for name in (
            "shards",
            "blocks",
            "samples",
            "removed_samples",
            "layers",
            "bytes",
            "undecoded_images",
            "warned_images",
            "repeated_keys",
            "problem_count",
        )
    }
    problems = [problem for report in found for problem in report.problems]
    return Validated(**sums, problems=problems, warnings=[warning for report in found for warning in report.warnings])


def repaired(result: dict[str, Any]) -> Repaired:
    """Make the report of `repair`."""
    shards = []
    for path, output, written, recovered, lost, end_known, losses, problems, notes in result["shards"]:
        losses = [Loss(*loss) for loss in losses]
        shards.append(RepairedShard(path, output, written, recovered, lost, end_known, losses, problems, notes))
    return Repaired(result["written"], shards, result["notes"])
