"""What a process that was forked must know: what was made before the fork belongs to the parent."""

from __future__ import annotations

import os
import weakref

from shardkit import _core

generation = 0
_made: weakref.WeakSet[object] = weakref.WeakSet()


def belongs_here(made: object) -> None:
    """Remember an object of the library that has threads or locks.

    In the child of a fork it is never destroyed: its threads are only in the parent, which may also hold its locks.
    """
    _made.add(made)


def _after_fork() -> None:
    global generation
    generation += 1
    for made in list(_made):
        _core.keep_forever(made)
    _made.clear()


os.register_at_fork(after_in_child=_after_fork)
