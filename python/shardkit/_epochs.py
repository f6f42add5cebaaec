"""Which epoch an iteration in several processes is of."""

from __future__ import annotations

import fcntl
import json
import multiprocessing.context
import multiprocessing.reduction
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Epochs:
    """Which epoch each iteration of a dataset is of, for all processes that iterate it: they share a file in memory.

    The workers of a DataLoader are new processes, or begin again, and nobody tells them which iteration this is. The
    first worker of an iteration takes the next epoch for all of its workers.
    """

    # Iterations that late workers may still ask for.
    _REMEMBERED = 16

    def __init__(self, following: int = 0) -> None:
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("shardkit-epochs")
        else:
            descriptor, path = tempfile.mkstemp()
            os.unlink(path)
        self._open(descriptor)
        os.pwrite(self._file.fileno(), json.dumps({"next": following, "iterations": []}).encode(), 0)

    def _open(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        self._lock = (os.getpid(), threading.Lock())

    @contextmanager
    def _shared(self) -> Iterator[dict[str, Any]]:
        """Give what is shared, which may be changed, and which no other process or thread reads meanwhile."""
        if self._lock[0] != os.getpid():  # that of the parent may be held there
            self._lock = (os.getpid(), threading.Lock())
        with self._lock[1]:
            descriptor = self._file.fileno()
            fcntl.lockf(descriptor, fcntl.LOCK_EX)
            try:
                shared = json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
                yield shared
                text = json.dumps(shared).encode()
                os.ftruncate(descriptor, len(text))
                os.pwrite(descriptor, text, 0)
            finally:
                fcntl.lockf(descriptor, fcntl.LOCK_UN)

    @property
    def following(self) -> int:
        """The epoch of the next iteration."""
        with self._shared() as shared:
            return int(shared["next"])

    @following.setter
    def following(self, epoch: int) -> None:
        with self._shared() as shared:
            shared["next"] = epoch

    def begin(self, iteration: list[int], worker: int, epoch: int | None = None) -> int:
        """Return the epoch of an iteration, in which each worker takes part once; `epoch` where a state says it."""
        with self._shared() as shared:
            known = [each for each in shared["iterations"] if each["iteration"] == iteration]
            if known and worker not in known[-1]["workers"] and epoch in (None, known[-1]["epoch"]):
                known[-1]["workers"].append(worker)
                return int(known[-1]["epoch"])
            begun = shared["next"] if epoch is None else epoch
            shared["iterations"].append({"iteration": iteration, "workers": [worker], "epoch": begun})
            del shared["iterations"][: -self._REMEMBERED]
            shared["next"] = begun + 1
            return int(begun)

    def copied(self) -> Epochs:
        """Return the same for a process that is being started, and else a copy, which goes on by itself."""
        return self if multiprocessing.context.get_spawning_popen() is not None else Epochs(self.following)

    def __getstate__(self) -> Any:
        return multiprocessing.reduction.DupFd(self._file.fileno())  # refuses all but a process that is being started

    def __setstate__(self, state: Any) -> None:
        self._open(state.detach())
