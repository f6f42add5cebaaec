"""Decoding by extension, as webdataset does it: equal values for equal bytes."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

Handler = Callable[[str, Any], Any]

# fmt: off
IMAGE_EXTENSIONS = frozenset((
    *("blp", "bmp", "dib", "bufr", "cur", "pcx", "dcx", "dds", "ps", "eps", "fit", "fits", "fli", "flc", "ftc", "ftu"),
    *("gbr", "gif", "grib", "h5", "hdf", "png", "apng", "jp2", "j2k", "jpc", "jpf", "jpx", "j2c", "icns", "ico", "im"),
    *("iim", "tif", "tiff", "jfif", "jpe", "jpg", "jpeg", "mpg", "mpeg", "msp", "pcd", "pxr", "pbm", "pgm", "ppm"),
    *("pnm", "psd", "bw", "rgb", "rgba", "sgi", "ras", "tga", "icb", "vda", "vst", "webp", "wmf", "emf", "xbm", "xpm"),
))
# fmt: on


def _image_specs() -> dict[str, tuple[str, bool, str]]:
    """Return for each name what an image becomes, whether of uint8 in place of float, and its mode."""
    specs: dict[str, tuple[str, bool, str]] = {}
    for kind, prefix in (("numpy", ""), ("torch", "torch")):
        for mode in ("l", "rgb", "rgba"):
            specs |= {f"{prefix}{mode}8": (kind, True, mode.upper()), prefix + mode: (kind, False, mode.upper())}
    specs |= {f"pil{mode}": ("pil", True, mode.upper()) for mode in ("l", "rgb", "rgba")}
    specs |= {"torch": specs["torchrgb"], "pil": specs["pilrgb"]}
    return specs


imagespecs = _image_specs()


class DecodingError(Exception):
    """A value that could not be decoded: its URL, key and extension; the cause says why."""

    def __init__(self, url: Any = None, key: Any = None, k: Any = None, sample: Any = None) -> None:
        super().__init__(url, key, k)
        self.url = url
        self.key = key
        self.k = k
        self.sample = sample

    def __str__(self) -> str:
        cause = "" if self.__cause__ is None else f": {type(self.__cause__).__name__}: {self.__cause__}"
        return f"{self.url}: sample {self.key!r}: {self.k!r} cannot be decoded{cause}"


class Continue:
    """What a handler returns to have the handlers after it decode something else: data that it decompressed."""

    def __init__(self, key: str, data: Any) -> None:
        self.key = key
        self.data = data


def gzfilter(key: str, data: bytes) -> Continue | None:
    """Decompress values whose extension ends in ``.gz``, and go on with what is before it."""
    return Continue(key[:-3], gzip.decompress(data)) if key.endswith(".gz") else None


def _npy(data: bytes) -> Any:
    return np.lib.format.read_array(io.BytesIO(data))  # type: ignore[no-untyped-call]


def _npz(data: bytes) -> dict[str, Any]:
    return dict(np.load(io.BytesIO(data)))


def torch_loads(data: bytes) -> Any:
    """Return what `torch.save` wrote: tensors and containers of them, not objects of classes."""
    import torch

    return torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")


def _refused(what: str, instead: str, data: bytes) -> Any:
    raise ValueError(f"{what}: give decode() a handler, such as {instead}")


def _text(data: bytes) -> str:
    return data.decode("utf-8")


def _msgpack(data: bytes) -> Any:
    return importlib.import_module("msgpack").unpackb(data)


def _cbor(data: bytes) -> Any:
    return importlib.import_module("cbor").loads(data)


_unpickled = partial(
    _refused, "a pickle runs the code that is in it", 'wds.handle_extension("pkl pickle pyd", pickle.loads)'
)
_tenbin = partial(_refused, "tenbin is not decoded here", 'wds.handle_extension("ten tb", decode)')

decoders: dict[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(("txt", "text", "transcript"), _text),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), int),
    **dict.fromkeys(("json", "jsn"), json.loads),
    **dict.fromkeys(("pkl", "pickle", "pyd"), _unpickled),
    **dict.fromkeys(("ten", "tb"), _tenbin),
    **dict.fromkeys(("mp", "msg"), _msgpack),
    "pth": torch_loads,
    "npy": _npy,
    "npz": _npz,
    "cbor": _cbor,
}


def _last(key: str) -> str:
    return re.sub(r".*[.]", "", key)


def basichandlers(key: str, data: bytes) -> Any:
    """Decode what the last extension names: texts, numbers, JSON, arrays."""
    decoder = decoders.get(_last(key))
    return None if decoder is None else decoder(data)


def _call_extension_handler(key: str, data: Any, f: Callable[[Any], Any], extensions: Sequence[str]) -> Any:
    parts = key.lower().split(".")
    for target in extensions:
        wanted = target.split(".")
        if len(wanted) <= len(parts) and parts[-len(wanted) :] == wanted:
            return f(data)
    return None


def handle_extension(extensions: str, f: Callable[[Any], Any]) -> Handler:
    """Return a handler that calls a function with the values of these extensions, which spaces separate."""
    return partial(_call_extension_handler, f=f, extensions=extensions.lower().split())


class ImageHandler:
    """Decodes images with Pillow.

    Parameters
    ----------
    imagespec : str
        ``"pil"``, ``"pilrgb"``, ``"torchrgb"``, ``"rgb8"`` and so on: PIL's image, an array of NumPy [height, width,
        channels], or a tensor [channels, height, width]; float32 from 0 to 1, or with ``8`` uint8; gray (``l``), colors
        (``rgb``), or also opacity (``rgba``).
    extensions : collection of str
        Which values are images.
    """

    def __init__(self, imagespec: str, extensions: Collection[str] = IMAGE_EXTENSIONS) -> None:
        if imagespec not in imagespecs:
            raise ValueError(f"Unknown imagespec: {imagespec}: there are {', '.join(imagespecs)}")
        self.imagespec = imagespec
        self.extensions = set(extensions)

    def __call__(self, key: str, data: bytes) -> Any:
        if _last(key).lower() not in self.extensions:
            return None
        from PIL import Image

        kind, as_bytes, mode = imagespecs[self.imagespec]
        image = Image.open(io.BytesIO(data)).convert(mode)
        if kind == "pil":
            return image
        pixels: Any = np.asarray(image)
        if not as_bytes:
            pixels = pixels.astype(np.float32) / 255.0
        if kind == "numpy":
            return pixels
        import torch

        return torch.from_numpy(pixels.transpose(2, 0, 1).copy() if pixels.ndim == 3 else pixels.copy())


imagehandler = ImageHandler


class Decoder:
    """Decodes the values of a sample: of the handlers, the first that returns something other than None decides.

    Parameters
    ----------
    handlers : sequence of callable
        Called with ``"."`` and the extension, and the bytes.
    pre, post : sequence of callable
        Called before and after them: by default `gzfilter` and `basichandlers`.
    only : str or collection of str
        The extensions that are decoded; others stay bytes.
    partial : bool
        Whether values that are no bytes any more are passed over, in place of an error.
    """

    def __init__(
        self,
        handlers: Sequence[Handler],
        pre: Sequence[Handler] | None = None,
        post: Sequence[Handler] | None = None,
        only: str | Collection[str] | None = None,
        partial: bool = False,
    ) -> None:
        names = only.split() if isinstance(only, str) else only
        self.only = None if names is None else set(names)
        before = [gzfilter] if pre is None else list(pre)
        after = [basichandlers] if post is None else list(post)
        self.handlers: list[Handler] = [*before, *handlers, *after]
        for handler in self.handlers:
            if not callable(handler):
                raise TypeError(f"decode: {handler!r} is no handler: give the name of an image type or a function")
        self.partial = partial

    def decode1(self, key: str, data: Any) -> Any:
        """Return what a value of this extension becomes."""
        key = "." + key
        for handler in self.handlers:
            result = handler(key, data)
            if isinstance(result, Continue):
                key, data = result.key, result.data
            elif result is not None:
                return result
        return data

    def decode(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """Return the sample with its values decoded; `DecodingError` where one cannot be."""
        result: dict[str, Any] = {}
        for name, value in sample.items():
            if name.startswith("__") or (self.only is not None and name not in self.only):
                result[name] = value
                continue
            try:
                if isinstance(value, bytes):
                    value = self.decode1(name, value)
                elif not self.partial:
                    raise TypeError(f"bytes are decoded, not {type(value).__name__}; partial=True passes it over")
            except Exception as error:
                url, key = sample.get("__url__"), sample.get("__key__")
                raise DecodingError(url, key, name, sample) from error
            result[name] = value
        return result

    __call__ = decode
