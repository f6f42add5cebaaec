"""Processes that call functions of Python, each for a thread of this one."""

from __future__ import annotations

import io
import itertools
import mmap
import multiprocessing
import multiprocessing.connection
import multiprocessing.process
import multiprocessing.reduction
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardkit.functions import Failure, Functions, Results

_ALIGNMENT = 64


class Arena:
    """Memory that two processes share, written by one of them. It has no name, so that nothing is left behind."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._file = os.memfd_create("shardkit-samples") if descriptor is None else descriptor
        self._memory: mmap.mmap | None = None

    def __getstate__(self) -> Any:
        return multiprocessing.reduction.DupFd(self._file)  # refuses all but a process that is being started

    def __setstate__(self, state: Any) -> None:
        self.__init__(state.detach())  # type: ignore[misc]

    def _mapped(self, size: int, write: bool) -> mmap.mmap:
        if self._memory is None or len(self._memory) < size:
            if write:
                size = 1 << (size - 1).bit_length()  # so that it is seldom mapped again
                try:
                    # Memory that is short is an error here, and no SIGBUS later.
                    os.posix_fallocate(self._file, 0, size)
                except OSError as error:
                    raise MemoryError(f"{size} bytes to pass samples between processes: {error.strerror}") from None
            # An older map lives as long as arrays lie in it.
            self._memory = mmap.mmap(self._file, 0)
        return self._memory

    def write(self, buffers: Sequence[memoryview]) -> list[tuple[int, int]]:
        """Copy the buffers; returns where each is."""
        places, end = [], 0
        for buffer in buffers:
            places.append((end, buffer.nbytes))
            end += -(-buffer.nbytes // _ALIGNMENT) * _ALIGNMENT
        if end > 0:
            memory = self._mapped(end, True)
            for (begin, size), buffer in zip(places, buffers, strict=True):
                memory[begin : begin + size] = buffer
        return places

    def read(self, places: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return the buffers where they lie, until the next are written."""
        if not any(size for _, size in places):
            return [memoryview(bytearray()) for _ in places]
        memory = memoryview(self._mapped(max(begin + size for begin, size in places), False))
        return [memory[begin : begin + size] for begin, size in places]

    def close(self) -> None:
        """Give the memory back."""
        self._memory = None
        os.close(self._file)


class _Pickler(pickle.Pickler):
    """Puts arrays and tensors apart, to be copied once."""

    def reducer_override(self, value: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and type(value) is torch.Tensor and value.device.type == "cpu" and not value.is_sparse:
            value = value.detach().contiguous()
            if value.dtype == torch.bfloat16:
                return _bfloat16, (value.view(torch.int16).numpy(),)
            return _tensor, (value.numpy(),)
        return NotImplemented


def _tensor(array: Any) -> Any:
    import torch

    return torch.from_numpy(array)


def _bfloat16(array: Any) -> Any:
    import torch

    return torch.from_numpy(array).view(torch.bfloat16)


# Where arrays are in an arena, and all else.
_Packed = tuple[list[tuple[int, int]], bytes]


def _packed(arena: Arena, value: Any) -> _Packed:
    buffers: list[pickle.PickleBuffer] = []
    text = io.BytesIO()
    _Pickler(text, protocol=5, buffer_callback=buffers.append).dump(value)
    return arena.write([buffer.raw() for buffer in buffers]), text.getvalue()


def _unpacked(arena: Arena, packed: _Packed, lasting: bool) -> Any:
    """Return what was packed; unless it shall last, its arrays lie in the arena, where others follow."""
    places, text = packed
    buffers = arena.read(places)
    return pickle.loads(text, buffers=list(map(bytearray, buffers)) if lasting else buffers)


# What holds no arrays but itself.
_PLAIN = (np.ndarray, np.generic, int, float, complex, str, bytes, type(None))


def _is_plain(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return (isinstance(value, _PLAIN) and getattr(getattr(value, "dtype", None), "kind", "") != "O") or (
        torch is not None and isinstance(value, torch.Tensor)
    )


class _ToldError(Exception):
    """What a function raised in another process, as it was printed there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _passable(failure: Failure) -> tuple[Failure, str]:
    """Return the failure with an error that can be sent, and how the error is printed."""
    error = failure.error
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return failure._replace(error=error), text


def _serve(connection: Any, arenas: tuple[Arena, Arena], functions: Functions) -> None:
    """Call functions for another process, until it has no more samples or is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the loop
    _end_with_parent()
    given, made = arenas
    while True:
        try:
            values, epoch, identities = _unpacked(given, connection.recv(), lasting=True)
        except (EOFError, OSError):
            return
        try:
            results = functions(values, epoch, identities)
            failures = {i: _passable(each) for i, each in results.failures.items()}
            plain = all(map(_is_plain, itertools.chain(*results.columns.values())))
            answer = (results.columns, failures, results.seconds, results.processor_seconds)
            connection.send((plain, _packed(made, answer)))
        except BrokenPipeError:
            return
        except BaseException as error:  # of all samples, such as SystemExit, and results that cannot be passed on
            connection.send((None, _passable(Failure(None, "", error))))
            if not isinstance(error, Exception):
                return


def _end_with_parent() -> None:
    parent = multiprocessing.process.parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def watch() -> None:
        multiprocessing.connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Process:
    """A process that calls functions for one thread of this process."""

    def __init__(self, functions: Functions) -> None:
        # No fork: the threads of this process hold locks. Nor one new interpreter for each, which takes seconds.
        context = multiprocessing.get_context("forkserver")
        self._given, self._made = Arena(), Arena()
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, (self._given, self._made), functions), name="shardkit functions", daemon=True
        )
        try:
            self._process.start()
        finally:
            theirs.close()

    def __call__(self, values: dict[str, list[Any]], epoch: int, identities: Sequence[tuple[int, int, int]]) -> Results:
        """Call the functions there; what does not last is overwritten by the next call."""
        try:
            self._connection.send(_packed(self._given, (values, epoch, identities)))
            plain, answer = self._connection.recv()
        except (EOFError, ConnectionError):
            raise self._ended() from None
        if plain is None:
            failure, text = answer
            raise failure.error from _ToldError(text)
        columns, failures, seconds, processor_seconds = _unpacked(self._made, answer, lasting=not plain)
        for failure, text in failures.values():
            failure.error.__cause__ = _ToldError(text)
        failed = {i: failure for i, (failure, _) in failures.items()}
        return Results(columns, failed, seconds, processor_seconds, lasting=not plain)

    def _ended(self) -> RuntimeError:
        self._process.join(5)
        code = self._process.exitcode
        if code is not None and code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                how += ", as the system does when memory is short"
        else:
            how = (
                f"ended with exit status {code}; what it printed says why. A program that is started as a script "
                'begins its work under `if __name__ == "__main__":`, because processes of functions import it'
            )
        return RuntimeError(f'a process of functions (worker_kind="process") {how}')

    def kill(self) -> None:
        """End the process in the midst of a function; a call that waits for it raises."""
        self._process.kill()

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(1)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._given.close()
        self._made.close()


def check_passable(functions: Functions) -> None:
    """Refuse functions that cannot be passed to other processes."""
    for step in functions.steps:
        try:
            multiprocessing.reduction.ForkingPickler.dumps(step.function)
        except Exception as error:
            raise TypeError(
                f'worker_kind="process": {step.name} cannot be passed to other processes ({error}): give a function '
                "that a module defines, or an object of a class that one defines"
            ) from error
