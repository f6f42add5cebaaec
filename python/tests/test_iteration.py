"""Iterations: how they end, and what comes after an error."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from test_loader import SAMPLES, ordinals

import shardkit as sk


def test_an_older_iteration_ends(dataset: str) -> None:
    loader = sk.Loader(dataset, 30, seed=3)
    whole = [batch.ordinals.tolist() for batch in loader]
    for begin in (iter, lambda loader: next(loader.epochs(9))):
        older, newer = begin(loader), begin(loader)
        assert next(newer).epoch == loader.epoch
        with pytest.raises(RuntimeError, match="another iteration of this loader"):
            next(older)
        assert len(list(newer)) == len(whole) - 1  # of its own epoch alone
    with pytest.raises(RuntimeError, match="another iteration of this loader"):
        list(zip(loader, loader, strict=True))
    loader.load_state_dict(loader.state_dict())
    left = loader.steps_left
    older, newer = iter(loader), iter(loader)  # neither begins the epoch again
    assert len(list(newer)) == left
    with pytest.raises(RuntimeError, match="another iteration of this loader"):
        next(older)


def test_a_break_begins_the_epoch_anew(dataset: str) -> None:
    loader = sk.Loader(dataset, 32, seed=5)
    whole = ordinals(sk.Loader(dataset, 32, seed=5))
    for batch in loader:
        assert batch.ordinals.tolist() == whole[:32]
        break
    assert ordinals(loader) == whole
    assert loader.epoch == 1
    loader.set_epoch(0)
    assert ordinals(loader) == whole


def test_a_batch_that_its_function_refused_is_not_counted(dataset: str) -> None:
    loader = sk.Loader(dataset, 30, seed=7, batch_function=lambda batch: 1 // 0)
    state = loader.state_dict()
    with pytest.raises(sk.FunctionError, match="failed on step 0 of epoch 0: ZeroDivisionError") as caught:
        next(iter(loader))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert loader.state_dict() == state
    other = sk.Loader(dataset, 30, seed=7)
    other.load_state_dict(state)
    assert [ordinals(epoch) for epoch in other.epochs(1)] == [ordinals(sk.Loader(dataset, 30, seed=7))]


def rest(iterator: Any) -> tuple[list[Any], int]:
    """What an iterator still gives, and how many errors it raises meanwhile."""
    given, errors = [], 0
    while errors < 50:
        try:
            given.append(next(iterator))
        except StopIteration:
            break
        except Exception:
            errors += 1
    return given, errors


def refuses(*numbers: int) -> Any:
    """A function that raises at its calls of these numbers, and otherwise returns what it gets."""
    calls = iter(range(1 << 30))

    def function(given: Any) -> Any:
        if next(calls) in numbers:
            raise ArithmeticError(given)
        return given

    return function


@pytest.mark.parametrize("refused", [[0], [2, 3], [6], [0, 6]])
def test_an_iteration_goes_on_after_an_error_of_its_function(dataset: str, refused: list[int]) -> None:
    whole = [ordinals(epoch) for epoch in sk.Loader(dataset, 30, seed=7).epochs(2)]
    loader = sk.Loader(dataset, 30, seed=7, batch_function=refuses(*refused), workers=1)
    batches, errors = rest(iter(loader))
    left = [i for step in range(7) if step not in refused for i in whole[0][30 * step : 30 * step + 30]]
    assert (ordinals(iter(batches)), errors) == (left, len(refused))
    assert loader.epoch == 1
    assert ordinals(loader) == whole[1]


@pytest.mark.parametrize("where", ["transform", "column"])
@pytest.mark.parametrize("workers", [0, 2])
def test_samples_go_on_after_an_error_of_a_function(dataset: str, where: str, workers: int) -> None:
    torch = pytest.importorskip("torch")
    skt = pytest.importorskip("shardkit.torch")
    function = refuses(40)
    columns = {"label": function} if where == "column" else ["label"]
    samples = skt.IterableDataset(dataset, columns=columns, transform=function if where == "transform" else None)
    loader = torch.utils.data.DataLoader(samples, batch_size=None, num_workers=workers)
    given, errors = rest(iter(loader))
    assert errors == max(1, workers)
    # A function of a column is called for a chunk of 64 samples at once.
    assert len(given) == SAMPLES - errors * (1 if where == "transform" else 64)


def test_what_reads_damage_again_says_it_again(dataset: str, tmp_path: Path) -> None:
    damaged = os.fspath(tmp_path / "damaged")
    shutil.copytree(dataset, damaged)
    shard = Path(damaged) / "00000001.shard"
    content = bytearray(shard.read_bytes())
    content[len(content) // 3] ^= 1
    shard.write_bytes(content)
    samples = sk.open(damaged)
    for iterator in (iter(sk.Loader(damaged, 30)), iter(samples), samples.scan()):
        assert rest(iterator)[1] == 50


def test_a_report_names_functions_of_python(dataset: str) -> None:
    """Their seconds are more than those of the steps in which nothing else happens."""

    def slow(given: Any) -> Any:
        time.sleep(0.002)
        return given

    for workers in (0, 1, 2):
        loader = sk.Loader(dataset, 20, columns={"label": slow, "text": None}, workers=workers)
        for batch in loader:
            batch["label"]
        report = loader.report()
        assert list(report.python_seconds) == ["slow of column 'label'"]
        assert report.python_seconds["slow of column 'label'"] > 0.002 * SAMPLES
        assert report.stage == "functions"
        assert "slow of column 'label'" in str(report)
        assert (report.functions is not None) == (workers > 0)
        if report.functions is not None:
            assert report.functions.threads == workers
            assert report.functions.busy > 0.002 * SAMPLES
        loader = sk.Loader(
            dataset,
            20,
            columns={"label": slow, "text": None},
            batch_function=lambda batch: (slow(0), batch["label"]),
            workers=workers,
        )
        list(loader)
        seconds = loader.report().python_seconds
        assert list(seconds) == ["slow of column 'label'", "batch_function"]
        assert 0 < seconds["batch_function"] < seconds["slow of column 'label'"]
        metrics = loader.metrics()
        assert metrics["batches"] == 10
        assert all(isinstance(number, float) for number in metrics.values())
        assert ("functions_busy" in metrics) == (workers > 0)
        assert "<table>" in loader.report()._repr_html_()


def test_totals_of_a_report_survive_new_starts(dataset: str) -> None:
    loader = sk.Loader(dataset, 20)
    before = loader.report()
    steps = 0

    def run(most: int) -> None:
        nonlocal before, steps
        for _, _ in zip(range(most), loader, strict=False):
            steps += 1
        report = loader.report()
        assert report.batches >= steps
        for name in ("batches", "samples", "bytes", "bytes_read", "blocks_read", "requests", "seconds", "step_seconds"):
            assert getattr(report, name) >= getattr(before, name), name
        for name in ("busy", "starved", "blocked"):
            assert getattr(report.decode, name) >= getattr(before.decode, name)
        before = report

    run(3)  # and break
    run(2)
    loader.load_state_dict(loader.state_dict())
    run(3)
    loader.seek(4)
    run(1)
    loader.set_epoch(3)
    run(20)
    assert before.batches == before.samples // 20
    assert before.stage != "none"


def test_a_dataset_of_keys_alone(tmp_path: Path) -> None:
    sk.pack(({"key": str(i)} for i in range(3)), tmp_path / "keys")
    with pytest.raises(ValueError, match="there is nothing to load: it has no column but the key"):
        sk.Loader(tmp_path / "keys")
