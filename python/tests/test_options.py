"""Every option changes something, or is refused where it would not."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Twelve images of 40 x 30 pixels, with two masks each and the EXIF orientation 6."""
    image = pytest.importorskip("PIL.Image")
    import io

    path = os.fspath(tmp_path_factory.mktemp("data") / "images")
    with sk.Writer(
        path, {"image": "jpeg", "masks": "rle", "tokens": "i32[]", "label": "i64"}, max_block_samples=4
    ) as w:
        for i in range(12):
            pixels = np.random.default_rng(i).integers(0, 255, (5, 4, 3), np.uint8)
            exif = image.Exif()
            exif[0x0112] = 6
            buffer = io.BytesIO()
            image.fromarray(pixels).resize((30, 40)).save(buffer, "JPEG", quality=95, exif=exif)
            masks = np.zeros((1 + i % 2, 40, 30), bool)
            masks[:, 5:20, 3:9] = True
            w.write(f"k{i:02}", image=buffer.getvalue(), masks=masks, tokens=np.arange(i + 1), label=i)
    return path


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Forty samples, a block each."""
    path = os.fspath(tmp_path_factory.mktemp("data") / "blocks")
    with sk.Writer(path, {"label": "i64"}, max_block_samples=1) as w:
        for i in range(40):
            w.write(f"k{i:02}", label=i)
    return path


def batches(path: str, **options: Any) -> list[dict[str, Any]]:
    """What two epochs give."""
    made = []
    loader = sk.Loader(path, options.pop("batch_size", 4), **{"seed": 1, **options})
    for batch in [*loader, *loader]:
        columns = {name: batch[name] for name in batch.columns}
        flat = {}
        for name, column in columns.items():
            for part in ("values", "offsets", "shapes", "pieces"):
                if hasattr(column, part):
                    flat[f"{name} {part}"] = np.asarray(getattr(column, part)).tolist()
            if isinstance(column, np.ndarray):
                flat[name] = column.tolist()
            flat[f"{name} geometries"] = batch.geometries(name).tolist()
        made.append(flat | {"keys": batch.sample_keys, "samples": batch.samples.tolist()})
    return made


# What each option is compared with, and given as.
IMAGE: dict[str, tuple[dict[str, Any], Any]] = {
    "crop": ({"size": 8}, "random"),
    "size": ({"crop": "center", "size": 8}, 10),
    "resize": ({"crop": "center", "size": 8}, 20),
    "flip": ({}, 0.5),
    "vertical_flip": ({}, 1.0),
    "rotate90": ({}, True),
    "scale": ({"crop": "random", "size": 8}, (0.1, 0.2)),
    "ratio": ({"crop": "random", "size": 8}, (2.0, 3.0)),
    "padding": ({"crop": "window", "size": 8}, 7),
    "zoom": ({"crop": "window", "size": 8}, (0.2, 0.3)),
    "interpolation": ({"size": 8}, "bicubic"),
    "jitter": ({"size": 8}, (0.4, 0.4, 0.4, 0.1)),
    "jitter_probability": ({"size": 8, "jitter": (0.9, 0.9, 0.9, 0.5)}, 0.0),
    "grayscale": ({"size": 8}, 1.0),
    "erasing": ({"size": 8}, 1.0),
    "apply_orientation": ({}, True),
    "channels": ({}, 1),
    "scaled_decode": ({"size": 4}, False),
    "fill": ({"crop": "longest", "size": 32}, (7, 8, 9)),
    "deferred": ({"size": 8}, True),
    "dtype": ({"size": 8}, "f32"),
    "layout": ({"size": 8}, "chw"),
    "mean": ({"size": 8, "dtype": "f32"}, (0.5, 0.25, 0.125)),
    "std": ({"size": 8, "dtype": "f32"}, (0.5, 0.25, 0.125)),
}
GEOMETRY: dict[str, tuple[dict[str, Any], Any]] = {
    "kind": ({"kind": "resize", "width": 8}, "longest_side"),
    "width": ({"kind": "resize", "width": 8}, 9),
    "height": ({"kind": "resize", "width": 8}, 9),
    "resize": ({"kind": "center_crop", "width": 8}, 20),
    "min_scale": ({"kind": "random_resized_crop", "width": 8}, 0.9),
    "max_scale": ({"kind": "random_resized_crop", "width": 8}, 0.1),
    "min_ratio": ({"kind": "random_resized_crop", "width": 8}, 1.3),
    "max_ratio": ({"kind": "random_resized_crop", "width": 8}, 0.8),
    "padding": ({"kind": "random_crop", "width": 8}, 7),
    "min_zoom": ({"kind": "random_crop", "width": 8}, 0.1),
    "max_zoom": ({"kind": "random_crop", "width": 8}, 9.0),
    "flip_probability": ({}, 1.0),
    "vertical_flip_probability": ({}, 1.0),
    "rotate90": ({}, True),
    "apply_orientation": ({}, True),
}
MASKS: dict[str, tuple[dict[str, Any], Any]] = {"pad_masks": ({}, True), "deferred": ({}, True)}
TOKENS: dict[str, tuple[dict[str, Any], Any]] = {
    "context": ({"context": 16}, 20),
    "mode": ({"context": 16}, "concat"),
    "padding_token": ({"context": 16}, -1),
}


@pytest.mark.parametrize("name", IMAGE)
def test_options_of_images(images: str, name: str) -> None:
    base, value = IMAGE[name]
    columns = [{"image": sk.Image(**given)} for given in (base, base | {name: value})]
    assert batches(images, columns=columns[0]) == batches(images, columns=columns[0])
    assert batches(images, columns=columns[0]) != batches(images, columns=columns[1])


# Gray would hide a palette's indices, and 8 bits most values of 16.
@pytest.mark.parametrize("size", [None, 4])
def test_pngs_that_an_image_does_not_tell(tmp_path: Path, size: int | None) -> None:
    image = pytest.importorskip("PIL.Image")
    import io

    depth = image.fromarray(np.arange(48, dtype=np.uint16).reshape(6, 8) * 1000)
    labels = image.fromarray(np.arange(48, dtype=np.uint8).reshape(6, 8) % 3, "P")
    labels.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0])
    files = {}
    for name, picture in (("depth", depth), ("labels", labels)):
        buffer = io.BytesIO()
        picture.save(buffer, "PNG")
        files[name] = buffer.getvalue()
    path = os.fspath(tmp_path / "data")
    with sk.Writer(path, {"depth": "png", "labels": "png"}) as w:
        w.write("a", **files)
    resized = {} if size is None else {"size": (size, size)}
    for name, options, hint in (
        ("depth", {"channels": 1}, "reduce_depth"),
        ("depth", {"channels": 3}, "reduce_depth"),
        ("labels", {"channels": 1}, "palette"),
    ):
        with pytest.raises(ValueError, match=hint):
            batches(path, columns={name: sk.Image(size=size, **options)}, batch_size=1)
        with pytest.raises(ValueError, match=hint):
            sk.decode_image(files[name], **resized, **options)
    colors = sk.decode_image(files["labels"])
    assert colors[0, 1].tolist() == [128, 0, 0]
    gray = sk.decode_image(files["depth"], channels=1, reduce_depth=True)
    assert gray[:, :, 0].tolist() == (np.asarray(depth) >> 8).tolist()
    assert len(batches(path, columns={"depth": sk.Image(channels=1, size=size, reduce_depth=True)}, batch_size=1)) == 2


def test_what_libjpeg_warns_of_is_decoded_and_counted(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    import io

    buffer = io.BytesIO()
    image.fromarray(np.arange(40 * 30 * 3, dtype=np.uint8).reshape(30, 40, 3)).save(buffer, "JPEG")
    whole = buffer.getvalue()
    assert whole.endswith(b"\xff\xd9")
    files = {"whole": whole, "bytes": whole[:-2] + b"x" * 85 + whole[-2:], "cut": whole[:-100]}
    path = os.fspath(tmp_path / "data")
    with sk.Writer(path, {"image": "jpeg"}) as w:
        for key, file in files.items():
            w.write(key, image=file)
    pixels = {"whole": sk.decode_image(whole)}
    for key, words in (("bytes", "extraneous bytes before marker 0xd9"), ("cut", "remature end")):
        with pytest.warns(UserWarning, match=words):
            pixels[key] = sk.decode_image(files[key])
        with pytest.raises(sk.DataLossError, match=words):
            sk.decode_image(files[key], strict=True)
    np.testing.assert_array_equal(pixels["bytes"], pixels["whole"])
    np.testing.assert_array_equal(pixels["cut"][:8], pixels["whole"][:8])
    loader = sk.Loader(path, 3, columns={"image": sk.Image()}, shuffle_buffer_bytes=0, order="sequential")
    (batch,) = loader
    for key, found in zip(batch.sample_keys, batch["image"], strict=True):
        np.testing.assert_array_equal(found, pixels[key])
    assert loader.report().warned_images == 2
    assert "2 images decoded with a warning of libjpeg" in str(loader.report())
    strict = {"columns": {"image": sk.Image(strict=True)}, "order": "sequential"}
    with pytest.raises(sk.DataLossError, match="extraneous"):
        list(sk.Loader(path, 3, **strict))  # type: ignore[arg-type]
    loader = sk.Loader(path, 3, bad_samples="skip", **strict)  # type: ignore[arg-type]
    assert [len(batch) for batch in loader] == [1]
    assert (loader.report().skipped, loader.report().warned_images) == (2, 0)
    report = sk.validate(path, deep=True, progress=False)
    assert report.ok
    assert report.warned_images == 2
    assert ["sample 1" in warning.message and "extraneous" in warning.message for warning in report.warnings] == [True]


@pytest.mark.parametrize("name", GEOMETRY)
def test_options_of_the_geometry(images: str, name: str) -> None:
    base, value = GEOMETRY[name]
    columns = {"image": sk.Image()}
    made = [batches(images, columns=columns, geometry=sk.Geometry(**given)) for given in (base, base | {name: value})]
    assert made[0] != made[1]


@pytest.mark.parametrize("kind", [sk.DenseMasks, sk.PackedMasks])
@pytest.mark.parametrize("name", MASKS)
def test_options_of_masks(images: str, kind: Any, name: str) -> None:
    base, value = MASKS[name]
    both = [{"image": sk.Image(size=8), "masks": kind(**given)} for given in (base, base | {name: value})]
    if name == "deferred":
        both = [{"masks": each["masks"]} for each in both]
    assert batches(images, columns=both[0]) != batches(images, columns=both[1])


@pytest.mark.parametrize("name", TOKENS)
def test_options_of_tokens(images: str, name: str) -> None:
    base, value = TOKENS[name]
    both = [{"tokens": sk.Tokens(**given)} for given in (base, base | {name: value})]
    assert batches(images, columns=both[0]) != batches(images, columns=both[1])


@pytest.mark.parametrize(
    ("name", "base", "value"),
    [
        ("batch_size", {}, 3),
        ("columns", {"columns": ["label"]}, ["tokens"]),
        ("seed", {"columns": ["label"]}, 2),
        ("global_batch_size", {"batch_size": None, "global_batch_size": 2}, 3),
        ("rank", {"rank": 0, "world_size": 2}, 1),
        ("world_size", {"rank": 0, "world_size": 2}, 4),
        ("uneven", {"rank": 0, "world_size": 3, "batch_size": None, "global_batch_size": 4}, True),
        ("keys", {}, False),
        ("order", {}, "sequential"),
        ("remainder", {"batch_size": 5}, "drop"),
        ("epoch_samples", {"datasets": "mixed"}, 16),
        ("shuffle_buffer_bytes", {"datasets": "blocks"}, 1),
        ("lanes", {"datasets": "blocks"}, 2),
        ("expected_world_size", {"datasets": "blocks"}, 5),
        ("locality", {"datasets": "blocks", "lanes": 4}, True),
        ("empty_batches", {"rank": 0, "world_size": 8, "batch_size": 1}, True),
    ],
)
def test_options_of_the_loader(images: str, blocks: str, name: str, base: dict[str, Any], value: Any) -> None:
    def made(options: dict[str, Any]) -> Any:
        given: Any = blocks if options.get("datasets") == "blocks" else images
        if options.pop("datasets", None) == "mixed":
            given = [sk.LoaderDataset(images, proportion=1), sk.LoaderDataset(images, proportion=3)]
        try:
            return batches(given, **options)
        except ValueError as error:
            return str(error)

    assert made(dict(base)) != made({**base, name: value})


def test_options_do_not_change_and_can_be_derived_from() -> None:
    @dataclasses.dataclass(frozen=True)
    class Named(sk.Image):
        name: str = ""

    class Counted(sk.Map):
        def __init__(self, count: int) -> None:
            super().__init__(len)
            self.count = count

    assert Named(size=224, name="a") != Named(size=224)
    assert Counted(3).count == 3
    assert hash(sk.Image(size=3)) == hash(sk.Image(size=3))
    assert repr(sk.Image(size=3)) == repr(dataclasses.replace(sk.Image(), size=3))
    choice = sk.Choice()
    for change in (lambda: setattr(sk.Image(), "size", 3), lambda: setattr(choice, "function", print)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()


def test_the_tables_are_whole() -> None:
    for kind, table in ((sk.Image, IMAGE), (sk.Geometry, GEOMETRY), (sk.DenseMasks, MASKS), (sk.Tokens, TOKENS)):
        # max_memory is a limit, which other tests reach; test_views.py has columns of other names, and views;
        # test_tokens.py tokens in bytes; test_items.py what is chosen.
        assert {field.name for field in dataclasses.fields(kind)} - {
            *(("dtype",) if kind is sk.Tokens else ("most", "choose", "with_columns", "along")),
            "max_memory",
            "reduce_depth",
            "strict",
            "source",
            "of",
            "own_geometry",
        } == table.keys(), kind  # type: ignore[arg-type]
    assert issubclass(sk.PackedMasks, sk.DenseMasks)


# What would do nothing, and what the message says.
REFUSED: list[tuple[Callable[[str], Any], str]] = [
    (lambda d: sk.Image(flip=True), "flip=True: give a probability"),
    (lambda d: sk.Image(flip=1.5), "flip=1.5: give a probability"),
    (lambda d: sk.Image(resize=64), "resize is what the shorter side becomes"),
    (lambda d: sk.Image(crop="random", size=8, resize=64), "resize is what the shorter side becomes"),
    (lambda d: sk.Image(crop="center", size=8, ratio=(1, 2)), "ratio is for crop"),
    (lambda d: sk.Image(crop="longest", size=8, scale=(0.5, 1)), "scale is for crop"),
    (lambda d: sk.Image(scale=0.5), "scale=0.5: give the least and the most"),
    (lambda d: sk.Image(size=8, fill=(1, 2, 3)), "fill is for the padding"),
    (lambda d: sk.Image(crop="randm", size=8), "crop: give random"),
    (lambda d: sk.Image(crop="random"), "needs a size"),
    (lambda d: sk.Image(size=True), "size=True: give pixels"),
    (lambda d: sk.Image(size=(224,)), "size=(224,): give pixels"),
    (lambda d: sk.Image(size="224"), "size='224': give pixels"),
    (lambda d: sk.Loader(d, "2"), "batch_size='2': give a whole number"),
    (lambda d: sk.Loader(d, 64.0), "batch_size=64.0: give a whole number"),
    (lambda d: sk.Loader(d, 0), "batch_size=0"),
    (lambda d: sk.Loader(d, 4, seed=-1), "seed=-1"),
    (lambda d: sk.Loader([], 4), "datasets: the list is empty"),
    (lambda d: sk.Loader(4, d), "give a path, a URL or a LoaderDataset"),
    (lambda d: sk.Loader(None, 4), "give a path, a URL or a LoaderDataset"),
    (lambda d: sk.Loader(d, 4, columns={"image": sk.Image}), "give Image(...), not the class"),
    (lambda d: sk.open(None), "give a path or URL"),  # type: ignore[arg-type]
    (lambda d: sk.Writer(None, {"a": "i64"}), "give a path or URL"),  # type: ignore[arg-type]
    (lambda d: sk.Loader(d, 4, shuffle=True), 'there is no option shuffle: give order="shuffled"'),
    (lambda d: sk.Loader(d, 4, drop_last=True), 'there is no option drop_last: give remainder="drop"'),
    (lambda d: sk.Loader(d, 4, num_workers=2), "workers of Python's functions"),
    *(
        (lambda d, name=name, value=value: sk.Loader(d, 4, **{name: value}), f"no option {name}: give shardkit.torch")
        for name, value in (("device", "cpu"), ("device_geometry", True), ("device_bytes", 3), ("device_batches", 3))
    ),
    (lambda d: sk.Loader(d, 4, device="cuda"), "shardkit.torch.Loader"),
    *(
        (lambda d, kind=kind: sk.Writer(d + ".new", {"a": kind}), f'"{meant}"')
        for kind, meant in {
            "int": "i64",
            "float32": "f32",
            "float32[3]?": "f32[3]?",
            "str": "utf8",
            int: "i64",
            np.float32: "f32",
        }.items()
    ),
    (lambda d: sk.Image(size=0), "size=0: give pixels"),
    (lambda d: sk.Image(mean=(0.5, 0.5, 0.5)), "mean and std are for the float types"),
    (lambda d: sk.Image(dtype="f64"), "pixels become u8, f32, f16 or bf16"),
    (lambda d: sk.Image(dtype="f32", layout="hwc"), 'floats have the layout "chw"'),
    (lambda d: sk.Image(layout="nchw"), 'give "hwc" or "chw"'),
    (lambda d: sk.Image(dtype="f32", std=(0.0, 1.0, 1.0)), "a std that is not 0"),
    (lambda d: sk.Image(dtype="f32", mean=(float("inf"), 1.0, 1.0)), "give numbers"),
    (lambda d: sk.Image(dtype="f32", mean=(float("nan"), 1.0, 1.0)), "give (a number"),
    (lambda d: sk.Image(layout="chw", deferred=True), "deferred images come as stored"),
    (lambda d: sk.Geometry(width=8), "native images are as stored"),
    (lambda d: sk.Geometry(kind="rezise", width=8), "kind: give one of native"),
    (lambda d: sk.Geometry(kind="resize", width=8, resize=9), "resize is for center_crop"),
    (lambda d: sk.Geometry(kind="resize", width=8, min_scale=0.5), "scale and ratio are for random_resized_crop"),
    (lambda d: sk.Geometry(flip_probability=True), "flip_probability=True"),
    (lambda d: sk.DenseMasks(pad_masks=True, deferred=True), "pad_masks is for masks that are decoded"),
    (lambda d: sk.PackedMasks(pad_masks=True, deferred=True), "pad_masks is for masks that are decoded"),
    (
        lambda d: sk.Loader(d, 4, geometry=sk.Geometry(kind="resize", width=8), columns=["label"]),
        "no column is decoded",
    ),
    (
        lambda d: sk.Loader(d, 4, geometry=sk.Geometry(), columns={"image": sk.Image(size=8)}),
        "geometry takes the place of that of Image",
    ),
    *(
        (lambda d, f=f: f(d, ["label", "label"]), "'label' occurs twice")
        for f in (
            lambda d, names: sk.open(d, names),
            lambda d, names: sk.Loader(d, 4, columns=names),
            lambda d, names: sk.convert(d, d + ".new", columns=names),
            lambda d, names: sk.unpack(d, d + ".new", columns=names),
            lambda d, names: sk.diff(d, d, columns=names),
        )
    ),
    (lambda d: sk.open(d, "label"), "also of one"),
    (lambda d: sk.open(d, []), "the list is empty"),
    (lambda d: sk.Loader(d, 4, columns="label"), "also of one"),
    (lambda d: sk.unpack(d, d + ".new", columns="label"), "also of one"),
    (lambda d: sk.convert(d, d + ".new", columns="label"), "also of one"),
    (lambda d: sk.diff(d, d, columns="label"), "also of one"),
    (lambda d: sk.Loader(d, 4, columns=[]), "the list is empty"),
    (lambda d: sk.Loader(d, 4, order=""), "order='': give 'shuffled', 'sequential' or 'window'"),
    (lambda d: sk.Loader(d, True), "batch_size=True"),
    (lambda d: sk.Loader(d, 4, seed=True), "seed=True"),
    (lambda d: sk.Loader(d, 4, memory_bytes=1.5), "memory_bytes=1.5: give bytes, or 256MiB"),
    (lambda d: sk.Loader(sk.LoaderDataset(d, repeat=True), 4), "repeat=True"),
    (lambda d: sk.Loader(sk.LoaderDataset(d, proportion=1, repeat=2), 4), "more than one of proportion"),
    (lambda d: sk.reshard(d, d + ".new", shuffle=False), "shuffle=False: give a seed"),
    (lambda d: sk.reshard(d, d + ".new", shuffle=True), "shuffle=True: give a seed"),
    (lambda d: sk.reshard(d, d + ".new", shuffle_memory="1MiB"), "shuffle_memory is for a shuffle"),
    (lambda d: sk.convert(d, d + ".new", compression="zstd"), "compression does nothing to shard"),
    (lambda d: sk.convert(d, d + ".new", to="mds", index=False), "index does nothing to mds"),
    (
        lambda d: sk.convert(d, d + ".new", to="webdataset", codecs={"label": "zstd"}),
        "codecs does nothing to webdataset",
    ),
    (lambda d: sk.merge([d], d + ".new", shard_size=100), "shard_size is for copy=True"),
    (lambda d: sk.compact(d, grace_minutes=5), "grace_minutes is for purge=True"),
    (lambda d: sk.filter(d, d + ".new", where=""), "the condition is empty"),
    (lambda d: sk.filter(d, d + ".new", sample=True), "sample=True"),
    (lambda d: sk.filter(d, d + ".new", where="label > 3", seed=5), "seed=5: only with sample"),
    (lambda d: sk.count(d, seed=5), "seed=5: only with sample"),
    (lambda d: sk.count(d, ranges=[(False, 3)]), "ranges=[(False, 3)]: give a list"),
    (lambda d: sk.split(d, d + ".new", {"a": True}), "into={'a': True}: give a dict"),
    (lambda d: sk.open(d, max_open_shards=True), "max_open_shards=True: give a whole number"),
    (lambda d: sk.open(d, generation=True), "generation=True: give a whole number"),
    (lambda d: list(sk.open(d).scan(threads=True)), "threads=True: give a whole number"),
    (lambda d: list(sk.open(d).scan(end_sample=False)), "end_sample=False: give a whole number"),
    (lambda d: list(sk.plan(d, 4).epoch(rank=False)), "rank=False: give a whole number"),
    (lambda d: sk.plan(d, 4).read_amplification(True), "epoch=True: give a whole number"),
    (lambda d: sk.pack_task(d, False, 2), "task=False: give a whole number"),
    (lambda d: sk.finish_pack(d, threads=True), "threads=True: give a whole number"),
    (lambda d: sk.convert_task(d, d + ".new", 0, True), "tasks=True: give a whole number"),
    (lambda d: sk.add_columns(d, {"x": np.arange(12)}, threads=True), "threads=True: give a whole number"),
    (lambda d: sk.decode_image(sk.open(d)[0]["image"], channels=True), "channels=True: give a whole number"),
    (lambda d: sk.Writer(d + ".new", {"a": "i64"}, zstd_levels={"a": True}), "a=True: give a whole number"),
    (lambda d: sk.split(d, d + ".new", {"a": 1}, seed=True), "seed=True"),
    (lambda d: sk.remove(d, ranges=[(0, 1)], seed=1), "there is no option seed"),
    (lambda d: sk.remove(d, where=" "), "the condition is empty"),
    (lambda d: sk.Writer(d + ".new", {"a": "i64"}, codecs={"b": "zstd"}), "codecs: there is no column 'b'"),
    (lambda d: sk.Writer(d + ".new", {"a": "i64"}, storage={"b": "blob"}), "storage: there is no column 'b'"),
    (lambda d: sk.Writer(d + ".new", {"a": "bytes"}, zstd_levels={"a": 3}), "column 'a' is not compressed"),
    (lambda d: sk.Writer(d + ".new", {"a": "i64"}, existing_keys="skip"), "existing_keys is for append=True"),
    (lambda d: sk.pack([{"a": 1}], d + ".new", types={"a": "i8"}), "are for files"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_would_do_nothing(images: str, tmp_path: Path, call: Callable[[str], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        call(images)
    assert message in str(caught.value)
    assert len(sk.open(images)) == 12


# What users of other loaders write first, and what they read.
@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda loader: next(iter(loader))["labels"], "there is no column 'labels'; the batch has image, label"),
        (lambda loader: [0 for images, labels in loader], "write batch['image']"),
        (lambda loader: next(iter(loader)).to("cuda"), "shardkit.torch.Loader(device="),
        (lambda loader: next(iter(loader)).label, "write batch['label']"),
        (lambda loader: next(iter(loader))["image"].float(), "shardkit.Image(size="),
    ],
)
def test_what_is_written_first(images: str, write: Callable[[Any], Any], message: str) -> None:
    with pytest.raises((KeyError, TypeError, AttributeError)) as caught:
        write(sk.Loader(images, 4, columns=["image", "label"]))
    assert message in str(caught.value)
    with pytest.raises(KeyError, match="which is a column"):
        sk.open(images)["image"]
    assert sk.Image(size=np.int64(8)).geometry() == sk.Image(size=(8, np.uint8(8))).geometry()


def test_batches_are_not_put_together_again(images: str) -> None:
    skt = pytest.importorskip("shardkit.torch")
    import torch.utils.data

    loader = skt.Loader(images, 4, columns=["label"])
    with pytest.raises(TypeError, match="batch_size=None"):
        list(torch.utils.data.DataLoader(loader, batch_size=32))
    assert [len(batch) for batch in torch.utils.data.DataLoader(loader, batch_size=None)] == [4, 4, 4]


def test_of_devices(images: str) -> None:
    skt = pytest.importorskip("shardkit.torch")
    columns = {"image": sk.Image(size=8)}
    for options in ({"device_bytes": 1 << 20}, {"device_batches": 3}, {"device_geometry": True}):
        with pytest.raises(ValueError, match="are for device="):
            skt.Loader(images, 4, columns=columns, **options)
    with pytest.raises(ValueError, match="pinned_bytes is for"):
        skt.Loader(images, 4, columns=columns, pinned_bytes="8MiB")
    with pytest.raises(ValueError, match="pin_memory is for batches on the host"):
        skt.Loader(images, 4, columns=columns, device="emulated", pin_memory=True)


@pytest.mark.parametrize("size", [None, 20])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_as_models_take_them(images: str, size: int | None, channels: int) -> None:
    torch = pytest.importorskip("torch")
    import shardkit.torch as skt

    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

    def column(name: str) -> str:
        return next(each.name for each in sk.open(images).schema if each.type in ("jpeg", "png", "image"))

    name = column(images)

    def loaded(**options: Any) -> list[Any]:
        image = sk.Image(size=size, channels=channels, **options)
        (batch,) = skt.Loader(images, len(sk.open(images)), columns={name: image}, order="sequential")
        made = batch[name]
        if size is not None:
            assert isinstance(made, torch.Tensor)
        return [torch.as_tensor(np.asarray(each)) if size is None else each for each in made]

    bytes_ = loaded()
    for planar in (loaded(layout="chw"), loaded(dtype="u8", layout="chw")):
        assert all(torch.equal(a.permute(2, 0, 1), b) for a, b in zip(bytes_, planar, strict=True))
    floats = loaded(dtype="f32", mean=mean, std=std)
    plain = loaded(dtype="f32")
    for a, b, c in zip(bytes_, floats, plain, strict=True):
        scaled = a.permute(2, 0, 1).to(torch.float64) / 255
        reference = (scaled - torch.tensor(mean[:channels]).view(-1, 1, 1)) / torch.tensor(std[:channels]).view(
            -1, 1, 1
        )
        assert b.dtype == c.dtype == torch.float32
        assert torch.allclose(b.to(torch.float64), reference, atol=1e-6)
        assert torch.allclose(c.to(torch.float64), scaled, atol=1e-7)
    if size is not None:
        for dtype, kind in (("f16", torch.float16), ("bf16", torch.bfloat16)):
            halves = loaded(dtype=dtype, mean=mean, std=std)
            assert all(a.dtype == kind and torch.equal(a, b.to(kind)) for a, b in zip(halves, floats, strict=True))
