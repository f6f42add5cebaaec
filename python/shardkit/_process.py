"""What a process that was forked must know: objects made before the fork belong to the parent."""

from __future__ import annotations

import os

generation = 0

# Objects of the parent: their locks may be held by threads that do not exist here, so they are never destroyed.
kept: list[object] = []


def _count_fork() -> None:
    global generation
    generation += 1


os.register_at_fork(after_in_child=_count_fork)
