"""Writing tars of samples, as webdataset does it: equal bytes for equal values."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import os
import pickle
import re
import tarfile
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np

Encoder = Callable[[Any], Any]


def imageencoder(image: Any, format: str = "PNG") -> bytes:
    """Return the file of an image, of PIL or an array: JPEG of quality 100, PNG, TIFF or PPM.

    An array is [height, width] or [height, width, 1 or 3], of uint8, or of float from 0 to 1.
    """
    from PIL import Image

    if isinstance(image, np.ndarray):
        if image.dtype in (np.float32, np.float64):
            if image.size and (image.min() <= -0.001 or image.max() >= 1.001):
                raise ValueError(f"image values out of range {image.min()} {image.max()}: give numbers from 0 to 1")
            image = (np.clip(image, 0.0, 1.0) * 255.0).astype(np.uint8)
        if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] not in (1, 3)):
            raise ValueError(f"an image is [height, width] or [height, width, 1 or 3], not {list(image.shape)}")
        image = Image.fromarray(image)
    elif not isinstance(image, Image.Image):
        raise TypeError(f"an image of PIL or an array is wanted, not {type(image).__name__}")
    format = {"JPG": "JPEG", "IMG": "PPM", "IMAGE": "PPM"}.get(format.upper(), format)
    result = io.BytesIO()
    image.save(result, format=format, **({"quality": 100} if format in ("JPEG", "tiff") else {}))
    return result.getvalue()


def _image_encoder(format: str) -> Encoder:
    return lambda image: imageencoder(image, format)


def numpy_dumps(data: Any) -> bytes:
    """Return an array as a file of NumPy."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, data)  # type: ignore[no-untyped-call]
    return stream.getvalue()


def _npz(data: Mapping[str, Any]) -> bytes:
    if not all(isinstance(name, str) and isinstance(array, np.ndarray) for name, array in data.items()):
        raise ValueError("npz takes a dict of names and arrays")
    stream = io.BytesIO()
    np.savez_compressed(stream, **data)
    return stream.getvalue()


def torch_dumps(data: Any) -> bytes:
    """Return what `torch.save` writes."""
    import torch

    stream = io.BytesIO()
    torch.save(data, stream)
    return stream.getvalue()


def _number(data: Any) -> bytes:
    return str(data).encode("ascii")


def _text(data: Any) -> bytes:
    return bytes(data.encode("utf-8"))


def _json(data: Any) -> bytes:
    return json.dumps(data).encode("utf-8")


def _tenbin(data: Any) -> bytes:
    raise ValueError('tenbin is not written here: use "npy", or encoder={"ten": function}')


def _packed(module: str, name: str) -> Encoder:
    return lambda data: getattr(importlib.import_module(module), name)(data)


default_handlers: dict[str, Encoder] = {
    **dict.fromkeys(("cls", "cls2", "class", "count", "index", "inx", "id"), _number),
    **dict.fromkeys(("txt", "text", "transcript", "html", "htm"), _text),
    **dict.fromkeys(("pyd", "pickle"), pickle.dumps),
    **dict.fromkeys(("ten", "tenbin", "tb"), _tenbin),
    **dict.fromkeys(("json", "jsn"), _json),
    **dict.fromkeys(("mp", "msgpack", "msg"), _packed("msgpack", "packb")),
    **dict.fromkeys(("jpg", "jpeg", "img", "image"), _image_encoder("jpg")),
    **dict.fromkeys(("tif", "tiff"), _image_encoder("tiff")),
    **{name: _image_encoder(name) for name in ("png", "pbm", "pgm", "ppm")},
    "pth": torch_dumps,
    "npy": numpy_dumps,
    "npz": _npz,
    "cbor": _packed("cbor", "dumps"),
}


def _encoded(name: str, value: Any, handlers: Mapping[str, Encoder]) -> Any:
    if name.startswith("_"):
        if not isinstance(value, str):
            raise ValueError(f"{name}: the values of metadata must be of string type")
        return value
    plain = name[:-3] if name.endswith(".gz") else name
    if isinstance(value, str):
        value = value.encode("utf-8")
    elif not isinstance(value, bytes):
        extension = re.sub(r".*\.", "", plain).lower()
        if extension not in handlers:
            raise ValueError(f"no handler found for {extension}: give bytes, or encoder={{{extension!r}: function}}")
        value = handlers[extension](value)
    return value if plain == name else gzip.compress(value)


def make_encoder(spec: bool | Mapping[str, Encoder] | Encoder | None) -> Encoder:
    """Return the function that encodes samples.

    True: by extension; False or None: not at all; a dict from extension to function; or the function itself.
    """
    if spec is False or spec is None:
        return lambda sample: sample
    handlers: Any = default_handlers if spec is True else spec
    if isinstance(handlers, Mapping):
        return lambda sample: {name: _encoded(name, value, handlers) for name, value in sample.items()}
    if not callable(handlers):
        raise ValueError(f"encoder={spec!r}: give a bool, a dict from extension to function, or a function")
    encoder: Encoder = handlers
    return encoder


class TarWriter:
    """Writes samples, dicts with ``"__key__"``, into a tar.

    Parameters
    ----------
    fileobj : path or file
        Where; a file is not closed.
    user, group, mode
        Of each member.
    compress : bool or str
        ``"gz"`` (True), ``"bz2"`` or ``"xz"``; by default as the name ends. Compressed tars cannot be shuffled.
    encoder : bool, dict or callable
        As for `make_encoder`.
    keep_meta : bool
        Whether entries whose names begin with ``_`` are written, too.
    mtime : float
        Of each member, by default now. A fixed one makes equal tars of equal samples.
    format : int or str
        Of the tar, a constant of `tarfile` or its name; ``USTAR_FORMAT`` by default.
    """

    def __init__(
        self,
        fileobj: str | os.PathLike[str] | IO[bytes],
        user: str = "bigdata",
        group: str = "bigdata",
        mode: int = 0o0444,
        compress: bool | str | None = None,
        encoder: bool | Mapping[str, Encoder] | Encoder | None = True,
        keep_meta: bool = False,
        mtime: float | None = None,
        format: int | str | None = None,
    ) -> None:
        name = os.fspath(fileobj) if isinstance(fileobj, (str, os.PathLike)) else ""
        if "://" in name or name.startswith("pipe:"):
            raise ValueError(
                f"{name}: a tar is written to a local path or an open file: use opener=fsspec.open for ShardWriter, or "
                "shardctl convert --to webdataset, which writes to stores"
            )
        kind = getattr(tarfile, format) if isinstance(format, str) else format
        self.encoder = make_encoder(encoder)
        self.user, self.group, self.mode, self.mtime = user, group, mode, mtime
        self.keep_meta = keep_meta
        self.compress = compress
        tar_mode: Any = self.tarmode(name, compress)
        self.own_fileobj: IO[bytes] | None = open(name, "wb") if name else None  # noqa: SIM115
        stream: Any = self.own_fileobj or fileobj
        self.stream = stream
        self.tarstream = tarfile.open(  # noqa: SIM115
            fileobj=stream, mode=tar_mode, format=kind or tarfile.USTAR_FORMAT
        )

    @staticmethod
    def tarmode(fileobj: Any, compress: bool | str | None = None) -> str:
        """Return the mode for `tarfile`."""
        if compress is False:
            return "w|"
        if compress is True:
            return "w|gz"
        for kind in ("gz", "bz2", "xz"):
            if compress == kind or (isinstance(fileobj, str) and fileobj.endswith(kind)):
                return f"w|{kind}"
        if compress is not None:
            raise ValueError(f'compress={compress!r}: give True, False, "gz", "bz2" or "xz"')
        return "w|"

    def write(self, obj: Mapping[str, Any]) -> int:
        """Write a sample; returns the bytes of its values."""
        sample = self.encoder(obj)
        if "__key__" not in sample:
            raise ValueError("object must contain a __key__")
        names = [name for name in sorted(sample) if name != "__key__" and (self.keep_meta or not name.startswith("_"))]
        values: dict[str, Any] = {}
        for name in names:
            value = sample[name]
            value = value.encode("utf-8") if isinstance(value, str) and name.startswith("_") else value
            if not isinstance(value, (bytes, bytearray, memoryview)):
                raise ValueError(f"{name} doesn't map to a bytes after encoding ({type(value)})")
            values[name] = value
        for name, value in values.items():
            info = tarfile.TarInfo(f"{sample['__key__']}.{name}")
            info.size = len(value)
            info.mtime = time.time() if self.mtime is None else self.mtime
            info.mode, info.uname, info.gname = self.mode, self.user, self.group
            self.tarstream.addfile(info, io.BytesIO(value))
        return sum(map(len, values.values()))

    def close(self) -> None:
        """End the tar, and close the file if it was given by name."""
        self.tarstream.close()
        if self.own_fileobj is not None:
            self.own_fileobj.close()
            self.own_fileobj = None

    def __enter__(self) -> TarWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ShardWriter:
    """Writes samples into tars, one after another.

    Parameters
    ----------
    pattern : str
        Their names, with a place for the number: ``"train-%06d.tar"``.
    maxcount, maxsize
        The samples, and bytes of values, after which a tar ends.
    post : callable
        Called with the name of each tar that is written.
    start_shard : int
        The number of the first.
    verbose : int
        Whether a line is printed for each tar, as webdataset prints it.
    opener : callable
        Called with a name, returns the file to write to.
    **kw
        As for `TarWriter`.
    """

    def __init__(
        self,
        pattern: str | os.PathLike[str],
        maxcount: int = 100000,
        maxsize: float = 3e9,
        post: Callable[[str], Any] | None = None,
        start_shard: int = 0,
        verbose: int = 1,
        opener: Callable[[str], Any] | None = None,
        **kw: Any,
    ) -> None:
        self.pattern = os.fspath(pattern)
        self.maxcount, self.maxsize = maxcount, maxsize
        self.post, self.opener = post, opener
        self.shard = start_shard
        self.verbose = verbose
        self.kw = kw
        self.tarstream: TarWriter | None = None
        self.fname = ""
        self.total = self.count = 0
        self.size = 0
        self.next_stream()

    def next_stream(self) -> None:
        """End the tar, and begin the next one."""
        self.finish()
        self.fname = self.pattern % self.shard
        if self.verbose:
            print("# writing", self.fname, self.count, f"{self.size / 1e9:.1f} GB", self.total)
        self.shard += 1
        self.tarstream = TarWriter(self.fname if self.opener is None else self.opener(self.fname), **self.kw)
        self.count = self.size = 0

    def write(self, obj: Mapping[str, Any]) -> None:
        """Write a sample."""
        if self.tarstream is None or self.count >= self.maxcount or self.size >= self.maxsize:
            self.next_stream()
        assert self.tarstream is not None
        self.size += self.tarstream.write(obj)
        self.count += 1
        self.total += 1

    def finish(self) -> None:
        """End the tar."""
        if self.tarstream is None:
            return
        self.tarstream.close()
        if self.opener is not None:
            self.tarstream.stream.close()
        self.tarstream = None
        if self.post is not None:
            self.post(self.fname)

    def close(self) -> None:
        """End the last tar."""
        self.finish()

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
