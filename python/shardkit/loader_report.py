"""What a loader has done, and what limits its speed."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

from shardkit._ahead import Waits
from shardkit._workers import Workers

_MUCH = 0.1  # of step time
_NO_WAIT = 0.01  # of step time; below it the consumer is what bounds


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
    upload: Stage  # queues copies and kernels of a device; without threads on the host
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
    balance_notes: list[str]  # what `balance` found: how many values, of how many samples
    threads_note: str
    # What bounds it: "consumer", "functions", "decode", "read", "memory", "overhead", "none"; of a device also "copy",
    # "kernel" and "upload".
    stage: str
    reason: str
    advice: str

    # Of functions of Python, by name: of columns, transform, and batch_function.
    python_seconds: dict[str, float] = field(default_factory=dict)
    # The threads on which these run ahead of the loop; None where they run in it, or where there are none.
    functions: Stage | None = None

    # Of a device: what was done there; 0 on the host.
    memory_wait_seconds: float = 0.0  # of the upload thread, for device memory
    uploaded_bytes: int = 0
    staged_bytes: int = 0  # part of them: copied once more for want of page-locked memory
    copy_seconds: float = 0.0  # of the device
    kernel_seconds: float = 0.0
    pinned_memory: int = 0
    peak_pinned_memory: int = 0
    device_memory: int = 0
    peak_device_memory: int = 0

    @classmethod
    def of(
        cls, numbers: dict[str, Any], python_seconds: dict[str, float], workers: Workers | None, waits: Waits
    ) -> LoaderReport:
        """Make it of the library's numbers, and of what functions have done."""
        stages: dict[str, Any] = {name: Stage(**numbers[name]) for name in ("read", "decode", "upload")}
        if workers is not None:
            stages["functions"] = Stage(workers.busy, workers.starved, workers.blocked, workers.count)
            numbers |= _ahead(numbers, python_seconds, workers, waits)
        elif python_seconds and numbers["batches"] > 1 and numbers["step_seconds"] > 0:
            step_seconds = numbers["step_seconds"]
            share = min(1.0, sum(python_seconds.values()) / step_seconds)
            if share > max(numbers["wait_share"], _MUCH):
                numbers |= {
                    "stage": "functions",
                    "reason": f"functions take {100 * share:.1f} % of the loop's time; {_slowest(python_seconds)} of "
                    f"{step_seconds:.2f} s",
                    "advice": "workers, which call functions ahead of the loop",
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
        lines += [f"balanced:   {note}" for note in self.balance_notes]
        for column in self.clumped_columns:
            lines.append(
                f"to change:  equal values of column {column!r} stand together, and the shuffle buffer mixes few; "
                "sk.reshard(..., shuffle=0) mixes all, once for good"
            )
        return "\n".join(lines)

    def metrics(self) -> dict[str, float]:
        """Return the numbers of the report in one flat dict, for loggers such as W&B and TensorBoard."""
        made = {"samples_per_second": self.samples / self.seconds if self.seconds > 0 else 0.0}
        for name, value in vars(self).items():
            if isinstance(value, Stage):
                made |= {f"{name}_{part}": float(seconds) for part, seconds in vars(value).items()}
            elif isinstance(value, (int, float)):
                made[name] = float(value)
        return made

    def _repr_html_(self) -> str:
        """Return a small picture of the stages for notebooks."""
        rows = []
        for name in ("read", "decode", "upload", "functions"):
            stage = getattr(self, name)
            if stage is None or stage.threads == 0:
                continue
            total = stage.busy + stage.starved + stage.blocked or 1.0
            shares = {part: 100 * getattr(stage, part) / total for part in _COLOURS}
            bars = "".join(
                f'<span style="display:inline-block;height:1em;width:{2 * share:.0f}px;'
                f'background:{_COLOURS[part]}"></span>'
                for part, share in shares.items()
            )
            words = ", ".join(f"{part} {share:.0f} %" for part, share in shares.items())
            rows.append(f"<tr><td>{name}</td><td>{stage.threads}</td><td>{bars}</td><td>{words}</td></tr>")
        lines = "<br>".join(map(html.escape, str(self).splitlines()))
        return f"<table><tr><th>stage</th><th>threads</th><th></th><th></th></tr>{''.join(rows)}</table><p>{lines}</p>"


_COLOURS = {"busy": "#2a7ab8", "starved": "#d9d9d9", "blocked": "#e0a03c"}


def _slowest(python_seconds: dict[str, float]) -> str:
    if not python_seconds:
        return "none has run"
    name, seconds = max(python_seconds.items(), key=lambda item: item[1])
    return f"{name} {seconds:.2f} s"


def _ahead(numbers: dict[str, Any], python_seconds: dict[str, float], workers: Workers, waits: Waits) -> dict[str, Any]:
    """Return the numbers of the loop, which differ from the library's, whose consumer is what calls functions."""
    wait_share = waits.consumer_wait_seconds / waits.step_seconds if waits.step_seconds > 0 else 0.0
    made: dict[str, Any] = {
        "batches": waits.batches,
        "samples": waits.samples,
        "seconds": waits.seconds,
        "consumer_wait_seconds": waits.consumer_wait_seconds,
        "first_batch_seconds": waits.first_batch_seconds,
        "step_seconds": waits.step_seconds,
        "wait_share": wait_share,
    }
    waiting = f"the consumer waits for {100 * wait_share:.1f} % of the time"
    if waits.batches < 2:
        made |= {
            "stage": "none",
            "reason": "fewer than two batches have been delivered",
            "advice": "go on, and ask again",
        }
    elif wait_share < _NO_WAIT:
        made |= {
            "stage": "consumer",
            "reason": f"it waits for {100 * wait_share:.1f} % of the time; batches lie ready",
            "advice": "nothing to change here: the time is spent in the loop",
        }
    elif numbers["wait_share"] < wait_share and workers.busy > workers.starved:
        holds = workers.count > 1 and workers.processor_seconds < 1.2 * workers.busy / workers.count
        spent = workers.processor_seconds > 0.5 * workers.busy / workers.count
        if holds and spent:
            advice = 'worker_kind="process": the functions hold Python\'s lock, so that one runs at a time'
        else:
            advice = f"more workers than {workers.count}, or faster functions; sk.Image and the like, which need none"
        made |= {
            "stage": "functions",
            "reason": f"{waiting}; {workers.count} workers call functions: {_slowest(python_seconds)}",
            "advice": advice,
        }
    return made
