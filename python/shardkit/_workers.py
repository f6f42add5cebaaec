"""Threads that call functions of Python, each by itself or in a process of its own."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from shardkit import _core
from shardkit.functions import Functions, Results

if TYPE_CHECKING:
    from shardkit._processes import Process

# Shorter tasks cost more to pass on, to a thread and to a process, than to do.
_TASK_SECONDS = {"thread": 0.002, "process": 0.02}


def worker_count(workers: int | str) -> int:
    """Return how many workers an option means."""
    if isinstance(workers, str) and workers != "auto":
        raise ValueError(f'workers={workers!r}: give a number, or "auto"')
    return _core.available_processors() if isinstance(workers, str) else int(workers)


# Threads that were told to end, and that nobody waits for until the program ends.
_ending: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def end_later(threads: Sequence[threading.Thread]) -> None:
    """Wait for threads that were told to end at the end of the program, not here.

    A collection of garbage may run anywhere, also where this thread holds a lock that such a thread takes before it
    ends: one of `threading`'s own, or of a loader's.
    """
    if threading.main_thread().is_alive():
        _ending.update(threads)
    elif threading.current_thread() is threading.main_thread():
        _wait(threads)


def _wait(threads: Iterable[threading.Thread]) -> None:
    for thread in threads:
        thread.join()


# A thread must not return to the interpreter from the library when there is no interpreter.
atexit.register(lambda: _wait(list(_ending)))

Call = Callable[[dict[str, list[Any]], int, Sequence[tuple[int, int, int]]], Results]
Task = Callable[[Call], None]


class Workers:
    """Threads that do tasks in their order.

    Parameters
    ----------
    functions : Functions or None
        What tasks call, if they call something; with processes, in the process of their thread.
    count : int
        Of threads.
    kind : str
        "thread" or "process".
    """

    def __init__(self, functions: Functions | None, count: int, kind: str) -> None:
        self.count = count
        self._functions, self._kind = functions, kind
        if kind == "process" and functions is not None:
            from shardkit import _processes  # which imports much

            _processes.check_passable(functions)
            self._new_process = _processes.Process
        # Again for the thread that has it: a collection of garbage in its midst may find the loader, and close this.
        self._lock = threading.RLock()
        self._added = threading.Condition(self._lock)
        self._tasks: deque[Task] = deque()
        self._closed = False
        self._processes: set[Process] = set()
        self.busy = self.starved = self.blocked = self.processor_seconds = 0.0
        self.full = False  # whether those who add tasks wait for room
        self._seconds_each = 0.0
        self._threads = [
            threading.Thread(target=self._work, name=f"shardkit functions {i}", daemon=True) for i in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def part(self, samples: int) -> int:
        """Return how many of the samples of a batch a task should have."""
        if self._seconds_each == 0:
            return max(1, samples // (4 * self.count))
        return max(1, min(samples, int(_TASK_SECONDS[self._kind] / self._seconds_each)))

    def took(self, seconds: float, samples: int, processor_seconds: float) -> None:
        """Take notice of the time of a task."""
        each = seconds / samples
        with self._lock:
            self._seconds_each = each if self._seconds_each == 0 else 0.8 * self._seconds_each + 0.2 * each
            self.processor_seconds += processor_seconds

    def add(self, tasks: Sequence[Task]) -> None:
        """Add tasks after all others."""
        with self._lock:
            self._tasks.extend(tasks)
            self._added.notify(len(tasks))

    def _next(self) -> Task | None:
        begin = time.perf_counter()
        with self._lock:
            while not self._tasks and not self._closed:
                self._added.wait()
            waited = time.perf_counter() - begin
            if self.full:
                self.blocked += waited
            else:
                self.starved += waited
            return None if self._closed else self._tasks.popleft()

    def _work(self) -> None:
        process: Process | None = None
        while (task := self._next()) is not None:
            begin = time.perf_counter()

            def call(*samples: Any) -> Results:
                nonlocal process
                assert self._functions is not None
                if self._kind == "thread":
                    return self._functions(*samples)
                try:
                    if process is None:
                        process = self._new_process(self._functions)
                        with self._lock:
                            self._processes.add(process)
                    return process(*samples)
                except BaseException:  # the next call has a new one
                    if process is not None:
                        self._end(process)
                        process = None
                    raise

            task(call)
            del task
            with self._lock:
                self.busy += time.perf_counter() - begin
        if process is not None:
            self._end(process)

    def _end(self, process: Process) -> None:
        with self._lock:
            self._processes.discard(process)
        process.close()

    def end(self) -> list[threading.Thread]:
        """Tell the threads to end, each after the function that it calls, and end processes at once."""
        with self._lock:
            self._closed = True
            self._tasks.clear()
            self._added.notify_all()
            for process in self._processes:
                process.kill()
        return self._threads
