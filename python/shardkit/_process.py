"""What a process that was forked must know: what was made before the fork belongs to the parent."""

from __future__ import annotations

import os
import weakref

from shardkit import _core

generation = 0
_made: weakref.WeakSet[object] = weakref.WeakSet()
_held: list[object] = []  # what there was before a fork, during it


def belongs_here(made: object) -> None:
    """Remember an object of the library that has threads or locks.

    In the child of a fork it is never destroyed: its threads are only in the parent, which may also hold its locks.
    """
    _made.add(made)


def _before_fork() -> None:
    # The child's collector may run before _keep, and would destroy what the parent's has not collected.
    while True:
        try:
            _held.extend(list(_made))
            return
        except RuntimeError:  # another thread has made one meanwhile
            continue


def _keep() -> None:
    global generation
    generation += 1
    for made in _held:
        _core.keep_forever(made)
    _held.clear()
    _made.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_held.clear, after_in_child=_keep)
