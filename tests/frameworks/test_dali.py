"""DALI on processors: it decodes batches of a loader as it does its own readers', over epochs, ranks, checkpoints."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import nvidia.dali
import PIL.Image
import pytest
from nvidia.dali import fn, types
from nvidia.dali.plugin.base_iterator import LastBatchPolicy

import shardkit as sk
import shardkit.dali

COUNT = 22  # photos, in two classes
COLUMNS = {"image": sk.Views(), "label": None}
CPU = {"num_threads": 2, "device_id": None}


def write_photos(folder: Path, count: int) -> None:
    for i in range(count):
        pixels = np.random.default_rng(i).integers(0, 256, (3, 4, 3), np.uint8)
        path = folder / "ab"[2 * i // count] / f"{i:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.fromarray(pixels).resize((30 + i, 60 - i), PIL.Image.Resampling.BICUBIC).save(path)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dali") / "photos"
    write_photos(folder, COUNT)
    return folder


@pytest.fixture(scope="module")
def packed(photos: Path) -> Path:
    sk.pack(photos, photos.parent / "dataset", max_block_samples=4)
    return photos.parent / "dataset"


def decoded(image: Any, *others: Any) -> Any:
    return (fn.decoders.image(image), *others)


def batches(pipe: Any, steps: int | None = None) -> Iterator[list[list[npt.NDArray[Any]]]]:
    """Yield the outputs of each step, sample by sample, to the end of the epoch."""
    while steps is None or steps > 0:
        try:
            outputs = pipe.run()
        except StopIteration:
            pipe.reset()
            return
        yield [[np.array(output[i]) for i in range(len(output))] for output in outputs]
        steps = None if steps is None else steps - 1


def samples_of(reader: Callable[[], Any], count: int) -> list[list[npt.NDArray[Any]]]:
    """Return the samples that a reader of DALI gives, with the images decoded."""
    pipe = nvidia.dali.pipeline_def(batch_size=count, **CPU)(lambda: decoded(*reader()))()
    return [list(sample) for sample in zip(*next(batches(pipe)), strict=True)]


def check_equal(got: list[Any], expected: list[Any]) -> None:
    """Compare samples by the width of their image, which is another for each."""
    assert len(got) == len(expected)
    for one, other in zip(*(sorted(each, key=lambda s: int(s[0].shape[1])) for each in (got, expected)), strict=True):
        assert len(one) == len(other)
        for value, wanted in zip(one, other, strict=True):
            np.testing.assert_array_equal(np.squeeze(value), np.squeeze(wanted))


@pytest.mark.parametrize("count", [2, 5, COUNT])
@pytest.mark.parametrize("kind", ["views", "ragged"])
def test_samples_are_those_of_the_file_reader(tmp_path: Path, count: int, kind: str) -> None:
    write_photos(tmp_path / "photos", count)
    sk.pack(tmp_path / "photos", tmp_path / "dataset", max_block_samples=4)
    columns = COLUMNS if kind == "views" else ["image", "label"]
    loader = sk.Loader(tmp_path / "dataset", 5, order="sequential", columns=columns)
    pipe = shardkit.dali.pipeline_def(loader, **CPU)(decoded)()
    got = [sample for images, labels in batches(pipe) for sample in zip(images, labels, strict=True)]
    check_equal(got, samples_of(lambda: fn.readers.file(file_root=os.fspath(tmp_path / "photos")), count))


def test_samples_are_those_of_the_webdataset_reader(packed: Path, tmp_path: Path) -> None:
    tars = tmp_path / "tars"
    sk.convert(packed, tars, to="webdataset")
    [tar] = tars.glob("*.tar")
    subprocess.run([os.environ["SHARDCTL"], "index", "--dali", tar], check=True)
    paths = {"paths": [os.fspath(tar)], "index_paths": [os.fspath(tar.with_suffix(".idx"))]}
    image, label = "image.jpg", "class_name.txt"
    loader = sk.Loader(tars, 5, order="sequential", columns={image: sk.Views(), label: sk.Views()})
    pipe = shardkit.dali.pipeline_def(loader, **CPU)(decoded)()
    got = [sample for images, labels in batches(pipe) for sample in zip(images, labels, strict=True)]
    check_equal(got, samples_of(lambda: fn.readers.webdataset(ext=[image, label], **paths), COUNT))


def expected_steps(packed: Path, epochs: int, **options: Any) -> list[list[list[int]]]:
    """Return for each epoch and step the ordinals of a rank."""
    loader = sk.Loader(packed, columns=["label"], **options)
    return [[batch.ordinals.tolist() for batch in loader] for _ in range(epochs)]


def numbered(packed: Path) -> Path:
    """Return the dataset with its ordinals as a column."""
    path = packed.parent / "numbered"
    if not path.exists():
        sk.convert(packed, path)
        sk.add_columns(path, {"ordinal": np.arange(COUNT)})
    return path


def steps_of(pipe: Any, steps: int | None = None) -> list[list[int]]:
    return [[int(value) for value in ordinals] for _, ordinals in batches(pipe, steps)]


NUMBERED = {"image": sk.Views(), "ordinal": None}


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("remainder", ["keep", "drop", "pad"])
def test_epochs_have_the_steps_of_the_loader(packed: Path, world_size: int, remainder: Any) -> None:
    for rank in range(world_size):
        options = {"global_batch_size": 6, "seed": 3, "rank": rank, "world_size": world_size, "remainder": remainder}
        loader = sk.Loader(numbered(packed), columns=NUMBERED, **options)
        pipe = shardkit.dali.pipeline_def(loader, **CPU)(decoded)()
        assert [steps_of(pipe) for _ in range(3)] == expected_steps(numbered(packed), 3, **options)


@pytest.mark.parametrize("step", [0, 1, 3, 4])
@pytest.mark.parametrize("epoch", [0, 2])
def test_a_checkpoint_goes_on_with_another_number_of_ranks(packed: Path, epoch: int, step: int) -> None:
    options = {"global_batch_size": 6, "seed": 3}

    def pipes(world_size: int, **more: Any) -> list[tuple[sk.Loader, Any]]:
        made = []
        for rank in range(world_size):
            loader = sk.Loader(numbered(packed), columns=NUMBERED, rank=rank, world_size=world_size, **options)
            made.append((loader, shardkit.dali.pipeline_def(loader, **CPU, enable_checkpointing=True)(decoded)(**more)))
        return made

    [before, _] = pipes(2)
    for _ in range(epoch):
        steps_of(before[1])
    begun = steps_of(before[1], step)
    checkpoint = before[1].checkpoint()
    whole = expected_steps(numbered(packed), epoch + 2, rank=0, world_size=2, **options)
    assert begun == whole[epoch][:step]

    every = expected_steps(numbered(packed), epoch + 2, **options)  # of all ranks together
    for world_size in (1, 2, 3):
        after = pipes(world_size, checkpoint=checkpoint)
        for i in (epoch, epoch + 1):
            parts = [steps_of(pipe) for _, pipe in after]
            joined = [sorted(itertools.chain(*ranks)) for ranks in zip(*parts, strict=True)]
            assert joined == [sorted(batch) for batch in every[i][step if i == epoch else 0 :]]
        for loader, _ in after:
            # The rest of an epoch, another, and what was read ahead; nothing of what came before.
            assert loader.report().samples <= (2 * COUNT - 6 * step) // world_size + 4 * 6


def test_iterators_of_dali_see_the_end_of_epochs(packed: Path) -> None:
    pytorch = pytest.importorskip("nvidia.dali.plugin.pytorch")
    loader = sk.Loader(numbered(packed), 5, columns=["ordinal"], seed=3)
    pipe = shardkit.dali.pipeline_def(loader, **CPU)(lambda ordinal: ordinal)()
    iterator = pytorch.DALIGenericIterator([pipe], ["ordinal"], auto_reset=True)
    got = [[output[0]["ordinal"].flatten().tolist() for output in iterator] for _ in range(3)]
    assert got == expected_steps(numbered(packed), 3, batch_size=5, seed=3)

    # Full batches alone are a size that DALI can be told.
    loader = sk.Loader(numbered(packed), 5, columns=["ordinal"], seed=3, remainder="drop")
    pipe = shardkit.dali.pipeline_def(loader, **CPU)(lambda ordinal: ordinal)()
    size = len(loader) * loader.batch_size
    with pytest.warns(Warning, match="reader_name"):
        iterator = pytorch.DALIGenericIterator(
            [pipe], ["ordinal"], size=size, last_batch_policy=LastBatchPolicy.DROP, auto_reset=True
        )
    got = [[output[0]["ordinal"].flatten().tolist() for output in iterator] for _ in range(3)]
    assert got == expected_steps(numbered(packed), 3, batch_size=5, seed=3, remainder="drop")


def test_the_checkpoint_of_an_iterator_counts_what_the_loop_has_got(packed: Path) -> None:
    pytorch = pytest.importorskip("nvidia.dali.plugin.pytorch")

    def iterator(**more: Any) -> Any:
        loader = sk.Loader(numbered(packed), 5, columns=["ordinal"], seed=3)
        made = shardkit.dali.pipeline_def(loader, **CPU, enable_checkpointing=True, prefetch_queue_depth=3)
        return pytorch.DALIGenericIterator([made(lambda ordinal: ordinal)(**more)], ["ordinal"])

    whole = [output[0]["ordinal"].flatten().tolist() for output in iterator()]
    for step in range(len(whole)):
        first = iterator()
        for _ in range(step):
            next(first)
        [checkpoint] = first.checkpoints()
        assert [output[0]["ordinal"].flatten().tolist() for output in iterator(checkpoint=checkpoint)] == whole[step:]


def addresses(values: Any) -> list[int]:
    return [np.asarray(value).__array_interface__["data"][0] for value in values]


def test_bytes_and_numbers_are_not_copied(packed: Path) -> None:
    given: list[list[list[int]]] = []
    seen: list[list[list[int]]] = []

    class Watched(shardkit.dali.Source):
        def __call__(self, info: Any) -> list[Any]:
            images, ordinals = super().__call__(info)
            given.append([addresses(images), addresses(ordinals[i : i + 1] for i in range(len(ordinals)))])
            return [images, ordinals]

    def look(images: list[Any], ordinals: list[Any]) -> list[Any]:
        seen.append([addresses(images), addresses(ordinals)])
        return ordinals

    loader = sk.Loader(numbered(packed), 5, columns=NUMBERED)
    source = Watched(loader)

    @nvidia.dali.pipeline_def(batch_size=5, exec_async=False, exec_pipelined=False, **CPU)
    def looking() -> Any:
        return fn.python_function(*source.outputs(), function=look, num_outputs=1, batch_processing=True)

    assert len(list(batches(looking()))) == len(loader)
    assert seen == given


def test_dali_holds_what_is_not_copied_until_it_has_used_it(packed: Path) -> None:
    """`Source.outputs` relies on it: the memory of a batch is used again when its arrays are gone."""

    @nvidia.dali.pipeline_def(batch_size=5, **CPU)
    def fed() -> Any:
        images = fn.external_source(name="images", no_copy=True)
        return fn.decoders.image(images), fn.external_source(name="ordinals", no_copy=True) + 1

    pipe = fed()
    pipe.build()
    source = shardkit.dali.Source(sk.Loader(numbered(packed), 5, columns=NUMBERED))
    held: list[list[weakref.ref[Any]]] = []
    for step in range(4):
        images, ordinals = source(types.BatchInfo(step, 0))
        held.append([weakref.ref(array) for array in (*images, ordinals)])
        pipe.feed_input("images", images)
        pipe.feed_input("ordinals", ordinals)
    del images, ordinals
    assert all(array() is not None for step in held for array in step)
    for _ in range(4):
        pipe.run()
    assert all(array() is None for array in held[0])


@pytest.mark.parametrize("depth", [1, 2, 6])
def test_values_stay_while_batches_are_read_ahead(tmp_path: Path, depth: int) -> None:
    count = 200
    with sk.Writer(tmp_path / "dataset", {"bytes": "bytes", "vector": "i32[500]"}, max_block_samples=10) as writer:
        for i in range(count):
            writer.write(f"key {i}", bytes=bytes([i]) * (2000 + i), vector=np.full(500, i))
    loader = sk.Loader(tmp_path / "dataset", 4, columns={"bytes": sk.Views(), "vector": None}, memory_bytes="8MiB")
    made = shardkit.dali.pipeline_def(loader, prefetch_queue_depth=depth, **CPU)
    pipe = made(lambda data, vector: (data + np.uint8(0), vector * 2))()
    for _ in range(3):
        seen = []
        for several, vectors in batches(pipe):
            for data, vector in zip(several, vectors, strict=True):
                i = len(data) - 2000
                assert (data == i).all()
                assert (vector == 2 * i).all()
                seen.append(i)
        assert sorted(seen) == list(range(count))


def test_one_sample(tmp_path: Path) -> None:
    with sk.Writer(tmp_path / "dataset", {"vector": "i32[3]"}) as writer:
        writer.write("key", vector=np.arange(3))
    loader = sk.Loader(tmp_path / "dataset", 4)
    pipe = shardkit.dali.pipeline_def(loader, **CPU)(lambda vector: vector)()
    for _ in range(2):
        assert [[vector.tolist() for vector in vectors] for [vectors] in batches(pipe)] == [[[0, 1, 2]]]


def test_what_dali_does_not_take_is_refused(tmp_path: Path) -> None:
    with sk.Writer(tmp_path / "dataset", {"text": "utf8", "number": "i64?", "bytes": "bytes?"}) as writer:
        writer.write("first", text="a", number=1, bytes=b"a")
        writer.write("second", text="b")

    def read(columns: Any, *outputs: Any, **options: Any) -> Any:
        loader = sk.Loader(tmp_path / "dataset", 2, columns=columns, **options)
        return shardkit.dali.Source(loader, *outputs)(types.BatchInfo(0, 0))

    with pytest.raises(TypeError, match=r"column text: DALI takes numbers and bytes"):
        read(["text"])
    assert [bytes(value) for value in sorted(read({"text": sk.Views()})[0])] == [b"a", b"b"]
    for name, spec in [("number", None), ("bytes", None), ("bytes", sk.Views())]:
        with pytest.raises(ValueError, match=f"sample second: column {name}: has no value"):
            read({name: spec})
        [values] = read({name: spec}, where=f"{name} is not null")
        assert [np.asarray(value).tolist() for value in values] == [1 if name == "number" else [ord("a")]]

    for wrong in ({"batch_function": dict}, {"as_tuple": ["text"]}):
        with pytest.raises(ValueError, match="leave batch_function and as_tuple"):
            read(["text"], **wrong)
    with pytest.raises(ValueError, match="give columns"):
        read(["text"], transform=lengths)
    assert sorted(read(["text"], ["length"], transform=lengths)[0].tolist()) == [1, 1]
    with pytest.raises(TypeError, match="leave parallel=True out"):
        pickle.dumps(shardkit.dali.Source(sk.Loader(tmp_path / "dataset", 2)))


def lengths(sample: dict[str, Any]) -> dict[str, Any]:
    return {"length": len(sample["text"])}
