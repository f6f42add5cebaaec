"""The progress of a long job, on a terminal or as its caller wants it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = bool | Callable[[int, int], None] | None


@contextmanager
def shown_progress(progress: Progress, verb: str, unit: str) -> Iterator[Callable[[int, int], None] | None]:
    """Give what is called with (done, total): tqdm's bar on a terminal unless something else is wanted."""
    if callable(progress):
        yield progress
        return
    wanted = sys.stderr.isatty() if progress is None else progress
    try:
        from tqdm import tqdm
    except ImportError:
        wanted = False
    if not wanted:
        yield None
        return
    with tqdm(desc=verb, unit=unit, unit_scale=True) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total or None
            bar.update(done - bar.n)

        yield show
