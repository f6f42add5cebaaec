"""Every parameter of every public function, given what it does not take: refused in words, or taken for what it is."""

from __future__ import annotations

import inspect
import os
import pathlib
import re
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardkit as sk

# What each is called with; of it one argument after the other is replaced.
CALLS: dict[str, tuple[Any, ...]] = {
    "DenseMasks": (),
    "Encode": ("jpeg",),
    "Geometry": (),
    "Image": (),
    "LabelMap": (),
    "Loader": ("ds", 2),
    "LoaderDataset": ("ds",),
    "PackedMasks": (),
    "Tokens": (8,),
    "Writer": ("new", {"a": "i64"}),
    "add_columns": ("copy", {"n": np.arange(6)}),
    "allow_bases": ("/elsewhere",),
    "column": ("a", "i64"),
    "compact": ("copy",),
    "convert": ("ds", "new"),
    "convert_task": ("ds", "new", 0, 1),
    "count": ("ds",),
    "decode_image": (b"x",),
    "image_list": (bytes(4),),
    "diff": ("ds", "ds"),
    "drop_columns": ("copy", ["text"]),
    "filter": ("ds", "new"),
    "finish_convert": ("ds", "new"),
    "finish_pack": ("new",),
    "history": ("ds",),
    "index": ("copy",),
    "merge": (["ds"], "new"),
    "open": ("ds",),
    "pack": ("files", "new"),
    "pack_task": ("new", 0, 1),
    "plan": ("ds", 2),
    "plan_pack": ("files", "new"),
    "read_pack_plan": ("new",),
    "remove": ("copy",),
    "rename_columns": ("copy", {"text": "t"}),
    "repair": ("ds", "new"),
    "reshard": ("ds", "new"),
    "rows": (print, ["a"]),
    "set_columns": ("copy", "text", {"unit": "m"}),
    "simulate": ("ds",),
    "split": ("ds", "new", {"a": 0.5, "b": 0.5}),
    "unpack": ("ds", "new"),
    "use_cache": (None,),
    "validate": ("ds",),
}
ODD: list[Callable[[], Any]] = [
    lambda: None,
    lambda: 5,
    lambda: -1,
    lambda: 2.5,
    lambda: float("nan"),
    lambda: 2**70,
    lambda: True,
    lambda: "",
    lambda: "nope",
    lambda: b"x",
    list,
    lambda: [None],
    lambda: ["a", "b"],
    dict,
    lambda: {1: 2},
    object,
    lambda: np.int64(3),
    lambda: np.zeros(3),
    lambda: (each for each in range(2)),
    lambda: pathlib.Path("ds"),
    lambda: slice(1, 2),
    lambda: print,
]
# What Python says of a mistake within, and the binding of the types that it wants.
INSIDE = re.compile(
    r"incompatible function|Invoked with|object has no|NoneType. object|not subscriptable|not iterable|not callable|"
    r"std::|bad_cast|unsupported operand|must be (str|real)|cannot be interpreted|expected str|not supported between|"
    r"cannot unpack|unhashable"
)


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    for name in ("SHARDKIT_CACHE", "SHARDKIT_CACHE_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    sk.pack([{"label": i, "text": f"t{i}"} for i in range(6)], "ds", progress=False)
    os.mkdir("files")
    for i in range(3):
        pathlib.Path(f"files/{i}.txt").write_text(str(i))
    return tmp_path


def test_the_table_is_whole() -> None:
    public = {name: getattr(sk, name) for name in sk.__all__}
    functions = {name for name, each in public.items() if inspect.isfunction(each)}
    assert functions <= CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_odd_arguments(folder: pathlib.Path, name: str) -> None:
    function = getattr(sk, name)
    parameters = inspect.signature(function).parameters
    for place, (parameter, described) in enumerate(parameters.items()):
        if described.kind in (described.VAR_KEYWORD, described.VAR_POSITIONAL):
            continue
        for make in ODD:
            for made in ("copy", "new", "nope", "True", "5"):
                shutil.rmtree(folder / made, ignore_errors=True)
            shutil.copytree("ds", "copy")
            arguments = list(CALLS[name])
            options: dict[str, Any] = {}
            value = make()
            if value is print and parameter in ("batch_function", "follow", "progress"):
                continue  # takes functions, and this is one
            if place < len(arguments):
                arguments[place] = value
            else:
                options[parameter] = value
            if name == "pack_task":
                sk.plan_pack("files", "new", progress=False)
            said, result = "none", None
            try:
                result = function(*arguments, **options)
                if isinstance(result, sk.Loader):
                    next(iter(result), None)
            except Exception as error:
                said = str(error)
            where = f"{name}({parameter}={value!r})"
            assert said, where
            assert not INSIDE.search(said), f"{where}: {said}"
            assert "\n" not in said, f"{where}: {said}"
            if isinstance(result, sk.Writer):
                result.__exit__(ValueError, ValueError(), None)
