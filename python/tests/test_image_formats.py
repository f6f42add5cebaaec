"""Formats of image files: their pixels are those of Pillow, and their orientation is applied where that is asked."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

import shardkit as sk

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("PIL.features")

Pixels = npt.NDArray[np.uint8]


def _picture(mode: str = "RGB", height: int = 29, width: int = 37) -> Any:
    """Make an image of smooth colors, which lossy formats keep, and some noise."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(5).integers(0, 20, (height, width, 3))
    pixels = np.stack([x * 6, y * 7, x + y], -1) % 230 + noise
    return Image.fromarray(pixels.astype(np.uint8), "RGB").convert(mode)


def _file(image: Any, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def _as_pillow(data: bytes, mode: str = "RGB") -> Pixels:
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert(mode))
    return pixels[:, :, None] if mode == "L" else pixels


def _transparent() -> Any:
    image = _picture("RGBA")
    image.putalpha(Image.fromarray(np.arange(29 * 37, dtype=np.uint8).reshape(29, 37), "L"))
    return image


FILES = {
    "webp-lossless": lambda: _file(_picture(), "WEBP", lossless=True),
    "webp-lossy": lambda: _file(_picture(), "WEBP", quality=70),
    "webp-alpha": lambda: _file(_transparent(), "WEBP", lossless=True, exact=True),
    "webp-lossy-alpha": lambda: _file(_transparent(), "WEBP", quality=50),
    "webp-animation": lambda: _file(
        _picture(), "WEBP", save_all=True, append_images=[_picture().transpose(0)], lossless=True
    ),
    "gif": lambda: _file(_picture("P"), "GIF"),
    "gif-gray": lambda: _file(_picture("L"), "GIF"),
    "gif-interlaced": lambda: _file(_picture("P"), "GIF", interlace=1),
    "gif-animation": lambda: _file(
        _picture("P"), "GIF", save_all=True, append_images=[_picture("P").transpose(0)], transparency=3
    ),
    "bmp": lambda: _file(_picture(), "BMP"),
    "bmp-gray": lambda: _file(_picture("L"), "BMP"),
    "bmp-palette": lambda: _file(_picture("P"), "BMP"),
    "bmp-bilevel": lambda: _file(_picture("1"), "BMP"),
    "tiff": lambda: _file(_picture(), "TIFF"),
    "tiff-lzw": lambda: _file(_picture(), "TIFF", compression="tiff_lzw"),
    "tiff-deflate": lambda: _file(_picture("L"), "TIFF", compression="tiff_adobe_deflate"),
    "tiff-packbits": lambda: _file(_picture(), "TIFF", compression="packbits"),
    "tiff-alpha": lambda: _file(_transparent(), "TIFF"),
    "tiff-gray-alpha": lambda: _file(_transparent().convert("LA"), "TIFF"),
    "tiff-palette": lambda: _file(_picture("P"), "TIFF"),
    "tiff-bilevel": lambda: _file(_picture("1"), "TIFF", compression="group4"),
}
Image.init()
if "AVIF" in Image.SAVE:  # since Pillow 11.3
    FILES |= {
        "avif": lambda: _file(_picture(), "AVIF", quality=80),
        "avif-gray": lambda: _file(_picture("L"), "AVIF"),
        "avif-exact": lambda: _file(_picture(), "AVIF", quality=100, subsampling="4:4:4"),
        "avif-alpha": lambda: _file(_transparent(), "AVIF"),
        "avif-premultiplied": lambda: _file(_transparent(), "AVIF", alpha_premultiplied=True),
    }


@pytest.mark.parametrize("name", FILES)
def test_pixels_are_those_of_pillow(name: str, tmp_path: Path) -> None:
    data = FILES[name]()
    expected = _as_pillow(data)
    assert (sk.decode_image(data) == expected).all()
    assert (sk.decode_image(data, channels=4) == _as_pillow(data, "RGBA")).all()
    palette = name in ("gif", "gif-interlaced", "gif-animation", "bmp-palette", "tiff-palette")
    if palette:
        with pytest.raises(ValueError, match="palette"):
            sk.decode_image(data, channels=1)
    else:
        assert (sk.decode_image(data, channels=1) == _as_pillow(data, "L")).all()
    # Through a dataset, at another size, in a batch with a JPEG.
    path = os.fspath(tmp_path / "data")
    with sk.Writer(path, {"image": "image"}) as w:
        w.write("a", image=data)
        w.write("b", image=_file(_picture(), "JPEG"))
    assert sk.validate(path, deep=True).undecoded_images == 0
    (batch,) = sk.Loader(path, 2, columns={"image": sk.Image(crop="resize", size=16)}, order="sequential")
    resized = Image.fromarray(expected).resize((16, 16), Image.Resampling.BILINEAR)
    assert np.abs(batch["image"][0].astype(int) - np.asarray(resized)).max() <= 1


def _straight_tiff(kind: int) -> bytes:
    """Return a TIFF whose fourth sample is transparency of this kind, 1 for premultiplied, or nothing known."""
    data = _file(_transparent(), "TIFF")
    extra = b"\x52\x01\x03\x00\x01\x00\x00\x00"  # ExtraSamples, one
    assert data.count(extra + b"\x02") == 1
    return data.replace(extra + b"\x02", extra + bytes([kind]))


TRANSPARENT = {
    "png": lambda: _file(_transparent(), "PNG"),
    "png-gray": lambda: _file(_transparent().convert("LA"), "PNG"),
    "png-color-key": lambda: _file(_picture(), "PNG", transparency=_picture().getpixel((3, 4))),
    "png-gray-key": lambda: _file(_picture("L"), "PNG", transparency=7),
    "png-palette": lambda: _file(_picture("P"), "PNG", transparency=bytes(range(0, 250, 2))),
    "png-opaque": lambda: _file(_picture(), "PNG"),
    "tiff-premultiplied": lambda: _straight_tiff(1),
    "tiff-unknown": lambda: _straight_tiff(0),
    "jpeg": lambda: _file(_picture(), "JPEG"),
    "jpeg-cmyk": lambda: _file(_picture("CMYK"), "JPEG", quality=95, subsampling=0),
}


@pytest.mark.parametrize("name", TRANSPARENT)
def test_transparency_is_that_of_pillow(name: str) -> None:
    data = TRANSPARENT[name]()
    rgba = sk.decode_image(data, channels=4)
    assert np.abs(rgba.astype(int) - _as_pillow(data, "RGBA")).max() <= (1 if name == "jpeg-cmyk" else 0)
    if name != "tiff-premultiplied":
        assert (sk.decode_image(data) == rgba[:, :, :3]).all()


@pytest.mark.parametrize("how", ["bilinear", "bicubic"])
def test_transparency_goes_through_the_loader(how: Literal["bilinear", "bicubic"], tmp_path: Path) -> None:
    transparent = _transparent()
    path = os.fspath(tmp_path / "data")
    with sk.Writer(path, {"image": "image", "array": "u8[29,37,4]"}) as w:
        w.write("a", image=_file(transparent, "PNG"), array=np.asarray(transparent))
    method = getattr(Image.Resampling, how.upper())
    expected = np.stack([np.asarray(channel.resize((20, 24), method)) for channel in transparent.split()], -1)
    cases: tuple[dict[str, Any], ...] = (
        {},
        {"dtype": "f32", "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4)},
        {"flip": 1.0},
    )
    for options in cases:
        for source in ("image", "array"):
            image = sk.Image(size=(24, 20), channels=4, interpolation=how, source=source, **options)
            (batch,) = sk.Loader(path, 1, columns={"out": image})
            if "dtype" in options:
                scaled = (expected[:, :, :3] / 255 - options["mean"]) / options["std"]
                scaled = np.concatenate([scaled, expected[:, :, 3:] / 255], -1).transpose(2, 0, 1)
                assert np.abs(batch["out"][0] - scaled).max() < 1e-5
            else:
                assert (batch["out"][0] == (expected[:, ::-1] if "flip" in options else expected)).all()
    (batch,) = sk.Loader(path, 1, columns={"image": sk.Image(crop="letterbox", size=40, channels=4, fill=(1, 2, 3))})
    assert (batch["image"][0][0, :] == (1, 2, 3, 0)).all()
    (batch,) = sk.Loader(path, 1, columns={"image": sk.Image(channels=4, rotate90=True)})
    turned = [np.rot90(np.asarray(transparent), turns) for turns in range(4)]
    assert any(np.array_equal(batch["image"][0], each) for each in turned)
    changes: tuple[dict[str, Any], ...] = ({"jitter": (0.1, 0, 0, 0)}, {"grayscale": 0.5}, {"erasing": 0.5})
    for change in changes:
        with pytest.raises(ValueError, match="RGBA"):
            sk.Image(channels=4, **change)
    with pytest.raises(ValueError, match="RGBA"):
        sk.decode_image(_file(transparent, "PNG"), channels=2)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_ends_too_early_is_damage(name: str) -> None:
    data = FILES[name]()
    for length in (len(data) // 4, len(data) * 2 // 5):  # the first frame of an animation fills almost half of it
        with pytest.raises(sk.DataLossError):
            sk.decode_image(data[:length])


def test_cmyk_jpegs_are_shown_as_pillow_shows_them() -> None:
    data = _file(_picture("CMYK"), "JPEG", quality=95, subsampling=0)
    assert np.abs(sk.decode_image(data).astype(int) - _as_pillow(data)).max() <= 1


def test_cmyk_tiffs_are_shown_as_pillow_shows_them() -> None:
    data = _file(_picture("CMYK"), "TIFF")
    assert np.abs(sk.decode_image(data).astype(int) - _as_pillow(data)).max() <= 1


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_of_exif_is_applied(kind: str, orientation: int) -> None:
    operations = pytest.importorskip("PIL.ImageOps")
    exif = Image.Exif()
    exif[0x0112] = orientation
    options: dict[str, Any] = {"lossless": True} if kind == "WEBP" else {}
    data = _file(_picture(), kind, exif=exif, **options)
    stored = np.asarray(_picture())
    assert (sk.decode_image(data) == stored).all()
    png = _file(_picture(), "PNG", exif=exif)
    upright = operations.exif_transpose(Image.open(io.BytesIO(png)))
    assert (sk.decode_image(data, apply_orientation=True) == np.asarray(upright)).all()


@pytest.mark.skipif("AVIF" not in Image.SAVE, reason="needs Pillow 11.3")
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_of_avif_is_applied(orientation: int) -> None:
    operations = pytest.importorskip("PIL.ImageOps")
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = _file(_picture(), "AVIF", exif=exif)
    upright = operations.exif_transpose(Image.open(io.BytesIO(data)))
    assert (sk.decode_image(data, apply_orientation=True) == np.asarray(upright)).all()


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_are_kept_in_label_maps(kind: str, tmp_path: Path) -> None:
    depths = (np.arange(20 * 30, dtype=np.uint32).reshape(20, 30) * 109 % 65536).astype(np.uint16)
    data = _file(Image.fromarray(depths), kind)
    with pytest.raises(ValueError, match="reduce_depth"):
        sk.decode_image(data)
    assert (sk.decode_image(data, channels=1, reduce_depth=True)[:, :, 0] == depths >> 8).all()
    path = os.fspath(tmp_path / "data")
    with sk.Writer(path, {"depth": "image"}) as w:
        w.write("a", depth=data)
    (batch,) = sk.Loader(path, 1, columns={"depth": sk.LabelMap("u16", fill=0)}, order="sequential")
    assert (batch["depth"][0] == depths).all()
