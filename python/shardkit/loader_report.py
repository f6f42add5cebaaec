"""What a loader has done, and what limits its speed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_MUCH = 0.1  # of step time


@dataclass(frozen=True)
class Stage:
    """Seconds over all threads of a stage."""

    busy: float
    starved: float  # waiting for input
    blocked: float  # waiting for room
    threads: int


@dataclass(frozen=True)
class LoaderReport:
    """Times in seconds, memory in bytes; counted since the first batch was asked for, over all epochs and restarts."""

    read: Stage
    decode: Stage
    file_seconds: float
    seconds: float
    consumer_wait_seconds: float
    first_batch_seconds: float
    step_seconds: float
    wait_share: float
    batches: int
    samples: int
    bytes: int
    bytes_read: int
    bytes_from_cache: int
    blocks_read: int
    blocks_read_again: int
    requests: int  # those that a cache on local disk answered are left out
    bytes_requested: int
    bytes_bridged: int
    round_trips: int
    skipped: int
    warned_images: int  # decoded nevertheless
    block_memory: int
    batch_memory: int
    peak_block_memory: int
    peak_batch_memory: int
    clumped_columns: list[str]  # integers, most blocks having one value alone: the shuffle buffer mixes few of them
    threads_note: str
    stage: str  # what bounds it: "consumer", "python", "decode", "read", "memory", "overhead", "none"
    reason: str
    advice: str

    # Of functions of Python: of columns, and batch_function. They run between batches, in none of the stages.
    python_seconds: dict[str, float] = field(default_factory=dict)

    # Of the GPU stage; 0 without one.
    uploaded_bytes: int = 0
    staged_bytes: int = 0  # part of them: copied once more for want of page-locked memory
    copy_seconds: float = 0.0  # of the device
    kernel_seconds: float = 0.0
    pinned_memory: int = 0
    peak_pinned_memory: int = 0
    device_memory: int = 0
    peak_device_memory: int = 0

    @classmethod
    def of(cls, numbers: dict[str, Any], python_seconds: dict[str, float]) -> LoaderReport:
        """Make it of the library's numbers, and of the seconds of functions."""
        stages = {name: Stage(**numbers[name]) for name in ("read", "decode")}
        step_seconds = numbers["step_seconds"]
        if python_seconds and numbers["batches"] > 1 and step_seconds > 0:
            share = min(1.0, sum(python_seconds.values()) / step_seconds)
            if share > max(numbers["wait_share"], _MUCH):
                name, seconds = max(python_seconds.items(), key=lambda item: item[1])
                numbers |= {
                    "stage": "python",
                    "reason": f"functions of Python take {100 * share:.1f} % of the time; {name} {seconds:.2f} s of "
                    f"{step_seconds:.2f} s",
                    "advice": "decode in the loader (columns={...: sk.Image(...)}), functions of whole batches or on "
                    "the device, or workers: shardkit.torch.IterableDataset(transform=...) in a DataLoader",
                }
        return cls(**{**numbers, **stages}, python_seconds=dict(python_seconds))

    def __str__(self) -> str:
        rate = self.samples / self.seconds if self.seconds > 0 else 0.0
        lines = [
            f"{self.samples} samples in {self.batches} batches, {rate:,.1f} samples/s; "
            f"waits {100 * self.wait_share:.2f} % of step time",
            f"bounded by: {self.stage} ({self.reason})",
            f"to change:  {self.advice}",
        ]
        if self.warned_images:
            lines.append(
                f"{self.warned_images} images decoded with a warning of libjpeg; sk.Image(strict=True) refuses them"
            )
        for column in self.clumped_columns:
            lines.append(
                f"to change:  equal values of column {column!r} stand together, and the shuffle buffer mixes few; "
                "sk.reshard(..., shuffle=0) mixes all, once for good"
            )
        return "\n".join(lines)
