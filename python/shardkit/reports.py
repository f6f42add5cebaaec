"""What the verbs return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shardkit._core import (
    AddedColumns,
    Diff,
    Differing,
    Generation,
    Loss,
    PackPlan,
    Problem,
    Removed,
    Repaired,
    RepairedShard,
    Selection,
    Skipped,
    TaskReport,
    Unpacked,
    Validated,
)

__all__ = [
    "AddedColumns",
    "Compacted",
    "Diff",
    "Differing",
    "Filtered",
    "Generation",
    "Loss",
    "PackPlan",
    "Packed",
    "Problem",
    "Published",
    "Removed",
    "Repaired",
    "RepairedShard",
    "Selection",
    "Skipped",
    "TaskReport",
    "Unpacked",
    "Validated",
]


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
class Compacted:
    """What `compact` did; `removed_left` removed samples are still stored, and bytes are those of the shards."""

    samples: int
    removed_left: int
    shards: int
    bytes: int
    bytes_before: int
    generation: int
    shards_rewritten: int
    samples_dropped: int
    files_deleted: int


@dataclass(frozen=True)
class Packed(Published):
    """A dataset that was packed or converted; `packed` samples by this call, the others by those before.

    Of a dict of Hugging Face's datasets, `splits` has the report of each, and the rest their sums.
    """

    packed: int = 0
    input_bytes: int = 0
    warnings: list[str] = field(default_factory=list)
    splits: dict[str, Packed] = field(default_factory=dict)

    @classmethod
    def of_splits(cls, splits: dict[str, Packed]) -> Packed:
        """Make the report of several datasets."""
        names = ("shards", "samples", "blocks", "bytes", "existing", "packed")
        sums = {name: sum(getattr(each, name) for each in splits.values()) for name in names}
        return cls(**sums, skipped=[skipped for each in splits.values() for skipped in each.skipped], splits=splits)


@dataclass(frozen=True)
class Filtered(Packed):
    """A dataset of some samples of another."""

    selection: Selection = field(default_factory=Selection)


def joined(found: Sequence[Validated]) -> Validated:
    """Make the report of a dataset of the reports of the tasks that have checked it, in their order."""
    numbers = "shards blocks samples removed_samples column_files bytes undecoded_images warned_images repeated_keys"
    sums = {name: sum(getattr(report, name) for report in found) for name in [*numbers.split(), "problem_count"]}
    problems = [problem for report in found for problem in report.problems]
    return Validated(**sums, problems=problems, warnings=[warning for report in found for warning in report.warnings])
