"""Functions of Python in a loader: what they get, where and when they run, what becomes of their results."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from conftest import EVERY_TYPE, identical, value

import shardkit as sk
from shardkit import functions
from shardkit._ahead import Waits
from shardkit.loader_report import LoaderReport

SAMPLES = 200
PLACES = [{"workers": 0}, {"workers": 1}, {"workers": 3}, {"workers": 2, "worker_kind": "process"}]
Options = dict[str, Any]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Images of several sizes, of which some samples have none, with their masks and classes."""
    path = os.fspath(tmp_path_factory.mktemp("data") / "pictures")
    columns = {"image": sk.Encode("jpeg?"), "masks": "rle", "label": "i32", "text": "utf8?", "sizes": "u8[]"}
    with sk.Writer(path, columns, shard_samples=13) as writer:
        for i in range(30):
            random = np.random.default_rng(i)
            pixels = np.full((20 + i, 40 - i, 3), 8 * i, np.uint8)
            writer.write(
                f"k{i}",
                image=None if i % 7 == 3 else pixels,
                masks=random.random((i % 3, 20 + i, 40 - i)) > 0.5,
                label=i,
                text=None if i % 4 == 0 else f"text {i}",
                sizes=np.arange(i % 5, dtype=np.uint8),
            )
    return path


# Functions that processes find by their names.


def doubled(number: Any) -> Any:
    return 2 * number


def noisy(number: Any, rng: np.random.Generator) -> Any:
    return number + rng.integers(1 << 40)


def mean(pixels: Any) -> float:
    return -1.0 if pixels is None else float(pixels.mean())


def length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def whole(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    vector = sample["vector"] + rng.random(dtype=np.float32)
    return {"vector": vector, "sum": float(sample["label"] + len(sample["text"])), "text": sample["text"][::-1]}


class Kept:
    """A function that keeps what it got before."""

    def __init__(self) -> None:
        self.before: Any = None

    def __call__(self, array: Any) -> Any:
        before, self.before = self.before, array
        return np.array([array[0], array[0] if before is None else before[0]])


def fails(label: Any) -> Any:
    if label % 10 == 3:
        raise ArithmeticError(f"no {label}")
    return label


def same(a: Any, b: Any) -> bool:
    """Tell whether two batches are the same, to the bit."""
    return (
        a.columns == b.columns
        and a.sample_keys == b.sample_keys
        and a.skipped == b.skipped
        and a.samples.tolist() == b.samples.tolist()
        and all(
            identical(a[name], b[name])
            if isinstance(a[name], (np.ndarray, list))
            else all(map(identical, a[name], b[name]))
            for name in a.columns
        )
    )


def batches(*arguments: Any, epochs: int = 1, **options: Any) -> list[Any]:
    return [batch for each in sk.Loader(*arguments, **options).epochs(epochs) for batch in each]


@pytest.mark.parametrize("where", PLACES)
def test_what_functions_give_does_not_depend_on_where_they_run(dataset: str, where: Options) -> None:
    columns = {"label": [noisy, doubled], "vector": sk.Map(noisy, collate="list"), "blob": sk.Raw(length), "text": None}
    made = batches(dataset, 16, seed=3, columns=columns, epochs=2, **where)
    assert len(made) == 2 * 13
    for batch in made:
        assert batch["label"].dtype == np.int64
        for i, ordinal in enumerate(batch.ordinals.tolist()):
            given = value(ordinal)
            rng = functions.generator(3, batch.epoch, 0, ordinal, 0, "label")
            assert batch["label"][i] == 2 * (ordinal + rng.integers(1 << 40))
            rng = functions.generator(3, batch.epoch, 0, ordinal, 0, "vector")
            assert identical(batch["vector"][i], given["vector"] + rng.integers(1 << 40))  # type: ignore[operator]
            assert batch["blob"][i] == (-1 if given["blob"] is None else len(given["blob"]))  # type: ignore[arg-type]
            assert batch["text"][i] == given["text"]
    transformed = batches(dataset, 16, seed=3, transform=whole, columns=["label", "text", "vector"], **where)
    for batch in transformed:
        assert batch.columns == ["vector", "sum", "text"]
        assert batch["vector"].shape == (len(batch), 4)
        assert batch["vector"].dtype == np.float32
        for i, ordinal in enumerate(batch.ordinals.tolist()):
            rng = functions.generator(3, 0, 0, ordinal, 0, "")
            assert identical(
                batch["vector"][i], np.arange(4, dtype=np.float32) + ordinal + rng.random(dtype=np.float32)
            )
            assert batch["sum"][i] == ordinal + len(f"text {ordinal}")
            assert batch["text"][i] == f"text {ordinal}"[::-1]
        assert batch.present("sum").all()


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("size", [1, 2, 5, 64, 300])
def test_any_size_of_batches_and_any_place_to_resume(dataset: str, where: Options, size: int) -> None:
    options: Options = {"seed": 5, "columns": {"label": noisy}}
    reference = [batch["label"].tolist() for batch in batches(dataset, size, epochs=2, workers=0, **options)]
    loader = sk.Loader(dataset, size, **options, **where)
    steps = len(loader)
    taken = min(steps - 1, 3)
    assert [batch["label"].tolist() for batch in itertools.islice(loader, taken)] == reference[:taken]
    state = loader.state_dict()
    del loader
    resumed = sk.Loader(dataset, size, **options, **where)
    resumed.load_state_dict(state)
    rest = [batch["label"].tolist() for each in resumed.epochs(2) for batch in each]
    assert rest == reference[taken:]
    resumed.seek(0) if steps == 1 else resumed.set_epoch(1)
    if steps > 1:
        assert [batch["label"].tolist() for batch in resumed] == reference[steps:]


def test_random_numbers_are_those_of_the_sample(dataset: str) -> None:
    def numbers(**options: Any) -> dict[int, int]:
        columns = options.pop("columns", {"label": noisy})
        world_size = options.get("world_size", 1)
        made: dict[int, int] = {}
        for rank in range(world_size):
            loader = sk.Loader(
                dataset, global_batch_size=12, columns=columns, rank=rank, **{"world_size": 1, "seed": 1, **options}
            )
            if "epoch" in options:
                loader.set_epoch(options["epoch"])
            made |= {int(i): int(n) for batch in loader for i, n in zip(batch.ordinals, batch["label"], strict=True)}
        return made

    first = numbers()
    assert len(set(first.values())) == SAMPLES
    assert numbers(world_size=3) == numbers(world_size=2, workers=0) == numbers(order="sequential") == first
    assert numbers(seed=2) != first
    others = sk.Loader(dataset, 12, columns={"label": noisy}, seed=1)
    others.set_epoch(1)
    assert all(first[int(i)] != n for batch in others for i, n in zip(batch.ordinals, batch["label"], strict=True))
    both = batches(
        dataset, 12, columns={"label": noisy, "vector": sk.Map(lambda v, rng: rng.integers(1 << 40))}, seed=1
    )
    assert all((batch["label"] - batch.ordinals != batch["vector"]).all() for batch in both)


def test_functions_get_what_columns_are_decoded_to(pictures: str) -> None:
    stored = sk.open(pictures)
    seen: dict[str, list[Any]] = {}

    def keep(name: str) -> Callable[[Any], Any]:
        def function(given: Any) -> int:
            seen.setdefault(name, []).append(given.copy() if isinstance(given, np.ndarray) else given)
            return 0

        return function

    columns: dict[str, Any] = {
        "image": [sk.Image(), keep("image")],
        "masks": [sk.DenseMasks(), keep("masks")],
        "text": keep("text"),
        "sizes": [sk.Stored(), keep("sizes")],
        "label": [sk.Views(), keep("label")],
    }
    plain = batches(pictures, 7, order="sequential", columns={"image": sk.Image(), "masks": sk.DenseMasks()})
    made = batches(pictures, 7, order="sequential", columns=columns, workers=1)
    assert all(batch[name].tolist() == [0] * len(batch) for batch in made for name in columns)
    images = [image for batch in plain for image in batch["image"]]
    masks = [of_sample for batch in plain for of_sample in batch["masks"]]
    for i in range(30):
        sample = stored[i]
        assert (images[i] is None) == (seen["image"][i] is None) == (sample["image"] is None)
        assert images[i] is None or np.array_equal(images[i], seen["image"][i])
        assert len(seen["masks"][i]) == i % 3
        assert all(np.array_equal(a, b) for a, b in zip(seen["masks"][i], masks[i], strict=True))
        assert seen["text"][i] == sample["text"]
        assert identical(seen["sizes"][i], sample["sizes"])
        assert seen["label"][i].tobytes() == np.int32(i).tobytes()
    cropped = batches(pictures, 7, order="sequential", columns={"image": [sk.Image(size=8), mean], "label": None})
    for batch in cropped:
        expected = [-1 if i % 7 == 3 else 8 * i for i in batch["label"]]
        assert np.allclose(batch["image"], expected, atol=2)


@pytest.mark.parametrize("where", PLACES)
def test_transforms_get_values_of_every_type(every_type: str, where: Options) -> None:
    samples = sk.open(every_type)
    names = [f"{kind}{end}" for kind in EVERY_TYPE for end in ("", "?")]
    made = batches(every_type, 3, columns=names, transform=dict, collate="list", **where)
    for batch in made:
        for i, ordinal in enumerate(batch.ordinals.tolist()):
            for name in names:
                expected, given = samples[ordinal][name], batch[name][i]
                if isinstance(expected, sk.Masks):
                    assert expected.to_stored() == given.to_stored(), name
                else:
                    assert identical(given, expected), name


@pytest.mark.parametrize("where", PLACES)
def test_a_function_may_keep_what_it_got(dataset: str, where: Options) -> None:
    made = batches(
        dataset, 50, order="sequential", columns={"vector": Kept()}, **(where | {"workers": where["workers"] and 1})
    )
    rows = np.concatenate([batch["vector"] for batch in made])
    assert rows[:, 0].tolist() == list(range(SAMPLES))
    assert rows[1:, 1].tolist() == list(range(SAMPLES - 1))


def test_results_become_arrays_lists_or_are_padded(dataset: str) -> None:
    def rows(label: Any) -> Any:
        return np.full((label % 3, 2), label, np.int16)

    stacked = batches(dataset, 8, columns={"label": sk.Map(lambda label: np.full((2, 3), label))}, order="sequential")
    assert [batch["label"].shape for batch in stacked] == [(8, 2, 3)] * 25
    assert all((batch["label"] == batch.ordinals[:, None, None]).all() for batch in stacked)
    padded = batches(dataset, 8, columns={"label": sk.Map(rows, collate="pad")}, order="sequential")
    for batch in padded:
        sizes = batch.sizes("label")
        assert sizes.tolist() == [[i % 3, 2] for i in batch.ordinals]
        assert (batch["label"].dtype, batch["label"].shape) == (np.int16, (8, 2, 2))
        for row, (height, width), i in zip(batch["label"], sizes, batch.ordinals, strict=True):
            assert (row[:height, :width] == i).all()
            assert (row[height:] == 0).all()
    with pytest.raises(ValueError, match="not padded"):
        stacked[0].sizes("label")
    listed = batches(dataset, 8, columns={"label": sk.Map(rows, collate="list")}, order="sequential")
    assert all([row.shape for row in batch["label"]] == [(i % 3, 2) for i in batch.ordinals] for batch in listed)
    assert isinstance(batches(dataset, 8, columns={"label": doubled}, collate="list")[0]["label"], list)
    # What a batch is does not depend on chance: where results differ, that is said.
    for function, message in (
        (rows, r"int16\[0, 2\] and int16\[1, 2\]"),
        (lambda label: label if label % 2 else 0.5, "float64 and int64"),
        (lambda label: label if label % 2 else None, "int64 and None"),
        (lambda label: np.arange(3) if label % 2 else "x", r"int64\[3\] and 'x'"),
        (lambda label: np.zeros(2, "f4" if label % 2 else "f8"), r"float64\[2\] and float32\[2\]"),
    ):
        with pytest.raises(ValueError, match=rf"column 'label': the results of a batch differ, as {message}"):
            batches(dataset, 8, columns={"label": function}, order="sequential")  # type: ignore[dict-item]
    assert batches(dataset, 8, columns={"label": str}, order="sequential")[0]["label"] == [str(i) for i in range(8)]


def test_which_part_of_a_batch_comes_first_decides_nothing() -> None:
    def collected(kept: list[int], *results: Any) -> Any:
        """Collect the results, the last first."""
        parts = functions.Collected("c", len(results), "stack")
        for i in reversed(range(len(results))):
            parts.put(i, [results[i]], {}, lasting=False)
        return parts.value(kept)

    single, double = np.ones(2, "f4"), np.ones(2, "f8")
    for kept in ([0, 1], [0, 1, 2]):
        with pytest.raises(ValueError, match=r"differ, as float32\[2\] and float64\[2\]"):
            collected(kept, single, double, double)
    with pytest.raises(ValueError, match=r"differ, as float32\[2\] and 'x'"):
        collected([0, 1], "x", single)
    # A sample that is not kept has no say.
    alike = collected([0, 1], single, single, double)
    assert (alike.dtype, alike.tolist()) == (np.float32, [[1, 1], [1, 1]])
    assert collected([0, 1], 1, 2, double).tolist() == [1, 2]
    assert collected([0, 1], "a", "b", double) == ["a", "b"]


@pytest.mark.parametrize("where", PLACES)
def test_a_failure_names_its_sample(dataset: str, where: Options) -> None:
    loader = sk.Loader(dataset, 8, seed=2, columns={"label": fails}, **where)
    reference = batches(dataset, 8, seed=2, columns=["label"])
    batches_, good, bad = iter(loader), [], []
    for _ in range(len(loader)):
        try:
            good.append(next(batches_)["label"].tolist())
        except sk.FunctionError as error:
            bad.append(error)
    assert next(batches_, None) is None
    expected = [batch["label"].tolist() for batch in reference]
    assert good == [labels for labels in expected if all(label % 10 != 3 for label in labels)]
    firsts = [
        next(label for label in labels if label % 10 == 3) for labels in expected if any(i % 10 == 3 for i in labels)
    ]
    assert [error.sample for error in bad] == firsts
    for error in bad:
        assert (error.function, error.column, error.path, error.key) == (
            "fails",
            "label",
            dataset,
            f"key {error.sample}",
        )
        assert isinstance(error.__cause__, ArithmeticError)
        assert str(error) == (
            f"column 'label': fails failed on sample {error.sample} (key {error.sample}) of {dataset}: "
            f"ArithmeticError: no {error.sample}"
        )
        if "worker_kind" in where:
            assert "in fails" in str(error.__cause__.__cause__)  # where it was raised, in the other process


@pytest.mark.parametrize("where", PLACES)
def test_bad_samples_of_functions_are_left_out(pictures: str, where: Options) -> None:
    columns = {"label": fails, "image": sk.Image(), "masks": sk.DenseMasks(), "text": None, "sizes": sk.Views()}
    plain = {**columns, "label": None}
    runs = {"masks": sk.DenseMasks(deferred=True), "image": sk.Image(size=8, deferred=True)}
    for changed in ({}, runs, {"image": sk.Image(size=8), "masks": sk.Stored()}):
        made = batches(pictures, 7, seed=1, bad_samples="skip", columns=columns | changed, **where)
        for expected, batch in zip(batches(pictures, 7, seed=1, columns=plain | changed), made, strict=True):
            kept = [i for i, label in enumerate(expected["label"]) if label % 10 != 3]
            left_out = [label for label in expected["label"] if label % 10 == 3]
            assert (len(batch), batch["label"].tolist()) == (len(kept), [expected["label"][i] for i in kept])
            assert batch.sample_keys == [expected.sample_keys[i] for i in kept]
            assert batch.samples.tolist() == [expected.samples[i].tolist() for i in kept]
            assert len(batch.padding) == len(kept)
            assert [ordinal for _, ordinal, _ in batch.skipped] == left_out
            assert all(f"ArithmeticError: no {ordinal}" in reason for _, ordinal, reason in batch.skipped)
            for name in ("image", "masks", "text", "sizes"):
                assert batch.present(name).tolist() == expected.present(name)[kept].tolist()
                for got, i in zip(batch[name], kept, strict=True):
                    there = expected[name][i]
                    if isinstance(there, sk.Masks):
                        assert got.to_stored() == there.to_stored()
                    elif isinstance(there, list):
                        assert len(got) == len(there)
                        assert all(map(np.array_equal, got, there))
                    else:
                        assert (got is None) == (there is None)
                        assert got is None or np.array_equal(got, there)
            if changed is runs:
                sizes = [expected.geometries("image")[i]["output_width"] for i in kept]
                assert batch.geometries("image")["output_width"].tolist() == sizes
                assert len(batch.geometries("masks")) == sum(len(each) for each in batch["masks"])
    none = batches(pictures, 7, bad_samples="skip", columns={"label": lambda label: 1 // 0}, workers=1)
    assert [len(batch) for batch in none] == [0] * 5
    assert sum(len(batch.skipped) for batch in none) == 30


def test_nothing_is_called_with_what_failed_before(dataset: str) -> None:
    called: list[Any] = []

    def after(label: Any) -> Any:
        called.append(label)
        return np.full((2, 2), label)

    made = batches(dataset, 20, columns={"label": [fails, after]}, bad_samples="skip", order="sequential", workers=1)
    kept = [i for i in range(SAMPLES) if i % 10 != 3]
    assert called[: len(kept)] == kept  # the rest is of the next epoch
    assert [len(batch["label"]) for batch in made] == [18] * 10
    assert np.concatenate([batch["label"][:, 1, 1] for batch in made]).tolist() == kept


def test_the_loop_may_get_tuples(dataset: str) -> None:
    expected = batches(dataset, 16, seed=1, columns=["label", "vector"])
    for options in ({}, {"columns": {"label": None, "vector": doubled}}, {"transform": dict}):
        made = list(
            sk.Loader(dataset, 16, seed=1, as_tuple=("vector", "label"), **{"columns": ["label", "vector"], **options})
        )
        for batch, (vector, label) in zip(expected, made, strict=True):
            assert identical(label, batch["label"])
            assert identical(vector, batch["vector"] * (2 if "columns" in options else 1))
    for refused, message in (
        ({"as_tuple": ["lable"]}, "there is no column 'lable'"),
        ({"as_tuple": ["label", "label"]}, "occurs twice"),
        ({"as_tuple": []}, "the list is empty"),
        ({"as_tuple": ["label"], "batch_function": len}, "give one of the two"),
    ):
        with pytest.raises(ValueError, match=message):
            sk.Loader(dataset, 16, columns=["label"], **refused)  # type: ignore[arg-type]


def test_what_a_transform_returns_is_a_dict_of_the_same_columns(dataset: str) -> None:
    for function, message in (
        (lambda sample: sample["label"], r"TypeError: it returned .*0\)?: return a dict"),
        (
            lambda sample: {"a": 1} if sample["label"] % 2 else {"b": 1},
            r"TypeError: it returned columns \['a'\], and \['b'\]",
        ),
        (lambda sample: {"a": 1} if sample["label"] % 40 < 20 else {"b": 1}, r"returned columns|it returned columns"),
    ):
        with pytest.raises(sk.FunctionError, match=message):
            batches(dataset, 40, columns=["label"], order="sequential", transform=function, workers=1)  # type: ignore[arg-type]
    kept = batches(
        dataset,
        10,
        columns=["label"],
        order="sequential",
        bad_samples="skip",
        transform=lambda sample: None if sample["label"] % 5 == 2 else sample,  # type: ignore[arg-type]
    )
    assert [i for batch in kept for i in batch["label"].tolist()] == [i for i in range(SAMPLES) if i % 5 != 2]


def test_functions_run_ahead_of_the_loop(dataset: str) -> None:
    """While the loop has a batch, functions are called for the next ones, though not for the whole epoch."""
    called: list[int] = []
    loader = sk.Loader(dataset, 10, columns={"label": called.append}, workers=2)
    next(iter(loader))
    end = time.monotonic() + 20
    while len(called) < 30:
        assert time.monotonic() < end, len(called)
        time.sleep(0.01)
    time.sleep(0.1)
    assert len(called) <= 50
    del loader
    together = threading.Barrier(3)
    threads: set[int] = set()

    def where(label: Any) -> Any:
        if threading.get_ident() not in threads:
            threads.add(threading.get_ident())
            if threading.current_thread() is not threading.main_thread():
                together.wait(20)
        return label

    batches(dataset, 20, columns={"label": where}, workers=3)
    assert len(threads) == 3
    assert threading.get_ident() not in threads
    threads.clear()
    batches(dataset, 20, columns={"label": where}, workers=0)
    assert threads == {threading.get_ident()}


def test_tensors_of_torch(dataset: str) -> None:
    torch = pytest.importorskip("torch")
    skt = pytest.importorskip("shardkit.torch")
    for where in PLACES:
        for loaders in (sk.Loader, skt.Loader):
            columns = {"label": as_tensor, "vector": sk.Map(as_ragged, collate="pad")}
            for batch in loaders(dataset, 10, columns=columns, order="sequential", **where):
                assert batch["label"].dtype == torch.bfloat16
                assert batch["label"].shape == (10, 2)
                assert batch["label"][:, 1].tolist() == [float(i % 100) for i in batch.ordinals]
                assert batch["vector"].shape[0] == 10
                assert batch.sizes("vector")[:, 0].tolist() == [i % 4 for i in batch.ordinals]
    batch = next(iter(skt.Loader(dataset, 10, transform=lambda sample: {"a": sample["vector"]}, columns=["vector"])))
    assert isinstance(batch["a"], torch.Tensor)
    on_host = skt.Loader(
        dataset, 10, columns=["label"], device="emulated", batch_function=lambda batch: threading.get_ident()
    )
    assert set(on_host) == {threading.get_ident()}


def as_tensor(label: Any) -> Any:
    import torch

    return torch.full((2,), int(label) % 100, dtype=torch.bfloat16)


def as_ragged(vector: Any) -> Any:
    import torch

    return torch.ones(int(vector[0]) % 4)


def test_functions_that_hold_the_lock_are_told(dataset: str) -> None:
    report = sk.Loader(dataset, 20).report()
    stages = {name: vars(getattr(report, name)) for name in ("read", "decode", "upload")}
    numbers = {**vars(report), **stages, "wait_share": 0.05}
    numbers = {name: number for name, number in numbers.items() if name not in ("functions", "python_seconds")}
    waits = Waits(batches=10, samples=200, seconds=10, consumer_wait_seconds=8, step_seconds=10)
    # Two threads are busy for ten seconds each: with ten seconds of a processor altogether, one at a time.
    for processor_seconds, advice in (
        (10, 'worker_kind="process"'),
        (20, "more workers than 2"),
        (0.1, "more workers than 2"),  # they sleep, or wait for others
    ):
        workers = SimpleNamespace(count=2, busy=20.0, starved=0.0, blocked=0.0, processor_seconds=processor_seconds)
        made = LoaderReport.of(dict(numbers), {"f of column 'a'": 19.0}, cast(Any, workers), waits)
        assert made.stage == "functions"
        assert advice in made.advice
        assert made.wait_share == 0.8
    waits.consumer_wait_seconds = 0.01
    assert LoaderReport.of(dict(numbers), {}, cast(Any, workers), waits).stage == "consumer"


def test_what_is_refused(dataset: str) -> None:
    local = lambda label: label  # noqa: E731
    for options, message in (
        ({"columns": {"label": [local, sk.Image()]}}, "comes before the functions"),
        ({"columns": {"label": [sk.Map, sk.Stored()]}}, r"give Map\(...\), not the class"),
        ({"columns": {"label": [None, sk.Raw(length)]}}, None),
        ({"columns": {"label": [doubled, sk.Raw(length)]}}, "Raw gets the stored bytes"),
        ({"columns": {"label": [sk.Map(doubled, collate="pad"), doubled]}}, "collate is for the last"),
        ({"columns": {"label": 3}}, "no way to decode"),
        ({"columns": {"array": [sk.Tokens(), doubled]}}, "rows of tokens"),
        ({"columns": {"array": sk.Tokens()}, "transform": dict}, "rows of tokens"),
        ({"columns": {"label": doubled}, "collate": "pile"}, "collate='pile': give 'stack', 'pad' or 'list'"),
        ({"columns": {"label": doubled}, "workers": "many"}, 'give a number, or "auto"'),
        ({"columns": {"label": doubled}, "workers": -1}, "workers=-1"),
        ({"columns": {"label": doubled}, "worker_kind": "fibre"}, "give 'thread' or 'process'"),
        ({"worker_kind": "process"}, "there are none"),
        ({"columns": {"label": doubled}, "worker_kind": "process", "workers": 0}, "needs workers"),
        ({"columns": {"label": local}, "worker_kind": "process"}, "<lambda> cannot be passed to other processes"),
        ({"transform": local, "worker_kind": "process"}, "<lambda> cannot be passed to other processes"),
    ):
        if message is None:
            sk.Loader(dataset, 10, **options)  # type: ignore[arg-type]
            continue
        with pytest.raises((TypeError, ValueError), match=message):
            sk.Loader(dataset, 10, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="collate='pile'"):
        sk.Map(doubled, collate="pile")
    with pytest.raises(TypeError, match="give a function"):
        sk.Map(3)  # type: ignore[arg-type]


def test_functions_get_nothing_that_a_state_passes_over(dataset: str) -> None:
    seen: list[int] = []

    def note(label: Any) -> int:
        seen.append(int(label))
        return int(label)

    def loader() -> sk.Loader:
        return sk.Loader(dataset, 20, columns={"label": note}, seed=3, workers=2)

    first = loader()
    time.sleep(0.05)
    assert seen == []  # nothing has been asked for
    passed: list[int] = []
    for _, batch in zip(range(4), first, strict=False):
        passed += batch["label"].tolist()
        state = first.state_dict()
    del first
    seen.clear()
    second = loader()
    second.load_state_dict(state)
    assert seen == []
    assert not set(next(iter(second))["label"].tolist()) & set(passed)
    assert not set(seen) & set(passed)
