"""What is read is what was given, or it was refused: every type, of numbers of every kind."""

from __future__ import annotations

import datetime
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk
from shardkit import _numbers

INTEGERS = [f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)]
# Of each floating-point type: its largest number, its smallest, and its numbers of one unit in the last place at 1.
FLOATS = {
    "f16": (65504.0, 2.0**-24, 2.0**-10),
    "f32": (float(np.finfo("f4").max), 2.0**-149, 2.0**-23),
    "f64": (float(np.finfo("f8").max), 2.0**-1074, 2.0**-52),
    "bf16": (3.3895313892515355e38, 2.0**-133, 2.0**-7),
    "f8e4m3": (448.0, 2.0**-9, 2.0**-3),
    "f8e5m2": (57344.0, 2.0**-16, 2.0**-2),
}
COMPLEX = {"complex64": "f32", "complex128": "f64"}
TYPES = [*INTEGERS, *FLOATS, *COMPLEX, "bool"]


def limits() -> list[int]:
    """Integers at the limits of all types."""
    powers = [1 << bits for bits in (0, 7, 8, 9, 11, 12, 15, 16, 24, 25, 31, 32, 53, 54, 63, 64)]
    near = {sign * power + step for power in powers for sign in (1, -1) for step in (-1, 0, 1)}
    return sorted(near | {0, 65504, 65505, 448, 449, 57344, 57345, 16320})


def reals() -> list[float]:
    found = [float(each) for each in limits()] + [0.1, -1.5, 2.5, 0.0, -0.0, float("nan"), float("inf"), -float("inf")]
    for largest, smallest, _ in FLOATS.values():
        found += [largest, -largest, smallest, smallest / 2, largest * 1.001, 1e300]
    return found


def numpy_sources() -> Iterator[Any]:
    for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i8", ">u2", "?"):
        dtype = np.dtype(kind)
        low, high = (0, 1) if kind == "?" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        yield from (np.array(each).astype(dtype) for each in limits() if low <= each <= high)
    with np.errstate(all="ignore"):
        for kind in ("f2", "f4", "f8", ">f4", "g"):
            yield from (np.array(each).astype(kind) for each in reals())
        yield np.array(10, "g") ** 400
        for kind in ("c8", "c16"):
            yield from (np.array(complex(each, 0)).astype(kind) for each in reals())
            yield from (np.array(complex(0, each)).astype(kind) for each in reals())


def torch_sources() -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        if hasattr(torch, name):
            dtype = np.dtype(name)
            there = [each for each in limits() if np.iinfo(dtype).min <= each <= np.iinfo(dtype).max]
            yield from torch.from_numpy(np.array(there, dtype))
    for name in ("float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64"):
        if hasattr(torch, name):
            yield from torch.tensor(reals(), dtype=torch.float64).to(getattr(torch, name))
    yield torch.tensor([1.5], requires_grad=True)[0]
    yield torch.tensor([1 + 2j]).conj()[0]
    yield torch.tensor(True)


def number(given: Any) -> Any:
    """The number as Python's, exactly."""
    if isinstance(given, (int, float, complex)) and not isinstance(given, np.generic):
        return given
    if type(given).__module__ == "torch":
        wide = given.detach().resolve_conj()
        if wide.dtype.is_floating_point:
            wide = wide.double()
        return wide.item() if not str(wide.dtype).startswith("torch.uint") else int(wide.numpy())
    array = np.asarray(given)
    if array.dtype.kind in "iub":
        return int(array)
    if array.dtype == np.longdouble:
        if not np.isfinite(array) or array == 0:
            return float(array)
        over, under = array[()].as_integer_ratio()
        return Fraction(over, under)
    return complex(array) if array.dtype.kind == "c" else float(array.astype(np.float64))


def holds(name: str, given: Any) -> Any:
    """The number that the type holds for one, or None: it has none. By exact arithmetic alone."""
    if name in COMPLEX:
        parts = (given.real, given.imag) if isinstance(given, complex) else (given, 0)
        held = [holds(COMPLEX[name], part) for part in parts]
        return None if None in held else complex(*held)
    if isinstance(given, complex):
        if given.imag != 0:
            return None
        given = given.real
    if given != given:
        return given if name in FLOATS else None
    if given in (float("inf"), -float("inf")):
        return given if name in FLOATS and name != "f8e4m3" else None
    if name == "bool":
        return int(given) if given in (0, 1) else None
    if name in INTEGERS:
        bits = int(name[1:])
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if name[0] == "i" else (0, (1 << bits) - 1)
        return int(given) if given == int(given) and low <= given <= high else None
    largest, smallest, unit = FLOATS[name]
    exact = abs(Fraction(given))
    near = exact.numerator.bit_length() - exact.denominator.bit_length()
    quantum = max(Fraction(smallest), Fraction(2) ** (near - 2) * Fraction(unit))
    while exact >= quantum * 2 / Fraction(unit):
        quantum *= 2
    rounded = round(exact / quantum) * quantum  # of two as near, the even one
    if rounded > Fraction(largest) or (isinstance(given, int) and rounded != exact):
        return None
    negative = given < 0 or (given == 0 and isinstance(given, float) and np.signbit(given))
    return -float(rounded) if negative else float(rounded)


def same(read: Any, expected: Any) -> bool:
    if isinstance(expected, complex):
        return same(read.real, expected.real) and same(read.imag, expected.imag)
    if isinstance(expected, float):
        read = float(read)
        return (read != read and expected != expected) or (
            read == expected and bool(np.signbit(read)) == bool(np.signbit(expected))
        )
    return bool(int(read) == expected)


def check(name: str, sources: list[Any], tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "numbers")
    expected = []
    with sk.Writer(path, {"one": name, "some": f"{name}[2]"}) as writer:
        for given in sources:
            held = holds(name, number(given))
            if held is not None:
                writer.write(str(len(expected)), one=given, some=[given, given])
                expected.append((given, held))
                continue
            with pytest.raises(ValueError, match=r"sample 'bad', column one: .*(does not fit|number is wanted)"):
                writer.write("bad", one=given, some=[0, 0])
            with pytest.raises(ValueError, match=r"sample 'bad', column some: "):
                writer.write("bad", one=0, some=[0, given])
    for sample, (given, held) in zip(sk.open(path), expected, strict=True):
        for read in (sample["one"], *sample["some"]):
            assert same(read, held), (name, given, read, held)
    if expected:
        (batch,) = sk.Loader(path, len(expected), order="sequential")
        (block,) = sk.open(path).scan()
        for made in (batch, block):
            for i, (given, held) in enumerate(expected):
                assert same(made["one"][i], held), (name, given, made["one"][i], held)


@pytest.mark.parametrize("name", TYPES)
def test_of_python(name: str, tmp_path: Path) -> None:
    largest: list[Any] = [True, False, 2**70, 10**400, *limits(), *reals()]
    check(name, [*largest, *(complex(each, 0) for each in (1.0, 300.0)), 1j], tmp_path)


@pytest.mark.parametrize("name", TYPES)
def test_of_numpy(name: str, tmp_path: Path) -> None:
    check(name, list(numpy_sources()), tmp_path)


@pytest.mark.parametrize("name", TYPES)
def test_of_torch(name: str, tmp_path: Path) -> None:
    check(name, list(torch_sources()), tmp_path)


@pytest.mark.parametrize("name", ["bf16", "f8e4m3", "f8e5m2"])
def test_every_number_that_numpy_lacks(name: str) -> None:
    """All bits are read as the number that they are, and each number is written as its bits."""
    dtype = _numbers.stored_dtype(name)
    bits = np.arange(1 << 8 * dtype.itemsize, dtype=np.uint32).astype(dtype)
    read = np.asarray(_numbers.numbers(bits, name)).astype(np.float32)
    held = [holds(name, float(each)) for each in read[:: 1 if len(read) < 1000 else 251]]
    assert all(map(same, read[:: 1 if len(read) < 1000 else 251], held))
    there = ~np.isnan(read)
    assert np.count_nonzero(there) >= len(bits) - (256 if name == "bf16" else 8)
    np.testing.assert_array_equal(_numbers.stored(read, name, None)[there], bits[there])
    ml_dtypes = pytest.importorskip("ml_dtypes")
    theirs = bits.view(getattr(ml_dtypes, _numbers._SMALL[name].ml_dtypes))
    np.testing.assert_array_equal(theirs.astype(np.float32), _numbers._widened(bits, name))
    np.testing.assert_array_equal(_numbers.stored(theirs, name, None), bits)


def test_two_machines_write_the_same(tmp_path: Path) -> None:
    """With ml_dtypes and without it."""
    code = """
import sys, importlib.util
if sys.argv[2] == "without":
    found = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *rest: None if name == "ml_dtypes" else found(name, *rest)
import numpy as np, shardkit as sk
with sk.Writer(sys.argv[1], {"a": "bf16[3]", "b": "f8e4m3", "c": "f8e5m2[]"}) as writer:
    writer.write("k", a=np.array([1.0, 18.0, 3]), b=1.0, c=[0.3, 2])
print([np.asarray(each, "f4").tolist() for name, each in sk.open(sys.argv[1])[0].items() if name != "key"])
"""
    printed = []
    for how in ("with", "without"):
        run = subprocess.run([sys.executable, "-c", code, tmp_path / how, how], check=True, capture_output=True)
        printed.append(run.stdout.decode())
    assert printed == ["[[1.0, 18.0, 3.0], 1.0, [0.3125, 2.0]]\n"] * 2
    first, second = (next((tmp_path / how).glob("*.shard")).read_bytes() for how in ("with", "without"))
    assert first == second


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("i64", "5", "a number is wanted, not '5', which is str"),
        ("i64", b"5", "a number is wanted"),
        ("f32", object(), "a number is wanted"),
        ("f32[2]", [1.0, None], "a number is wanted"),
        ("timestamp_s", "2024-01-01", "a number is wanted"),
        ("timestamp_s", 1.5, "no time"),
        ("timestamp_s", True, "no time"),
        ("i64", np.datetime64("2024"), "no number"),
        ("i64", np.timedelta64(5, "s"), "a number is wanted"),
        ("u8[2]", np.ma.masked_array([1, 2], [True, False]), "masked array"),
        ("u64[2]", [-1, 3], r"-1 at \[0\] does not fit u64"),
        ("i64[2]", [2**63, -1], "does not fit"),
        ("f64[2]", [2**63 + 1, 0.5], "does not fit"),
        ("u64[2]", [2**63 + 1, -1], "does not fit"),
        ("timestamp_s[2]", [np.datetime64(1, "s"), None], "(time|number) is wanted"),
        ("timestamp_ns", np.datetime64("3000-01-01", "s"), "does not fit"),
        ("timestamp_s", np.datetime64(1500, "ms"), "does not fit"),
        ("timestamp_s", -(2**63), "does not fit"),
        ("timestamp_s", np.uint64(2**63), "does not fit"),
    ],
)
def test_what_is_no_number_of_the_type(tmp_path: Path, kind: str, given: object, message: str) -> None:
    with (
        sk.Writer(os.fspath(tmp_path / "out"), {"value": kind}) as writer,
        pytest.raises(ValueError, match=rf"sample 'a', column value: .*({message})"),
    ):
        writer.write("a", value=given)


def test_times(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "times")
    zone = datetime.timezone(datetime.timedelta(hours=2))
    given: list[Any] = [
        np.datetime64("2024-02-03", "D"),
        np.datetime64("NaT"),
        datetime.datetime(2024, 2, 3, 4, 5, 6),
        datetime.datetime(2024, 2, 3, 4, 5, 6, tzinfo=zone),
        datetime.date(2024, 2, 3),
        7,
    ]
    units = ("s", "ms", "us", "ns")
    with sk.Writer(path, {unit: f"timestamp_{unit}" for unit in units}) as writer:
        for i, each in enumerate(given):
            writer.write(str(i), **dict.fromkeys(units, each))
    for unit, column in itertools.product(units, [0]):
        read = [sample[unit] for sample in sk.open(path)]
        day = np.datetime64("2024-02-03", unit)
        assert read[column] == read[4] == day
        assert np.isnat(read[1])
        assert read[2] == day + np.timedelta64(4 * 3600 + 5 * 60 + 6, "s")
        assert read[3] == read[2] - np.timedelta64(2, "h")
        assert read[5] == np.datetime64(7, unit)


def test_rows_and_columns_of_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    half = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    rows = [{"n": torch.tensor(i), "half": half * i, "x": torch.arange(3) + i} for i in range(4)]
    sk.pack(rows, tmp_path / "rows")
    samples = sk.open(os.fspath(tmp_path / "rows"))
    assert str(samples.schema) == "Schema(key: utf8, n: i64, half: bf16[2], x: i64[3])"
    assert [np.asarray(sample["half"], "f4").tolist() for sample in samples] == [[1.5 * i, -2.0 * i] for i in range(4)]
    sk.add_columns(tmp_path / "rows", [{"more": torch.tensor(float(i))} for i in range(4)])
    assert [sample["more"] for sample in sk.open(os.fspath(tmp_path / "rows"))] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"row 1, column v: .*(number is wanted|masked)"):
        sk.add_columns(tmp_path / "rows", {"v": np.ma.masked_array([1, 2, 3, 4], [0, 1, 0, 0])})


def test_tensors_of_every_type(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    skt = pytest.importorskip("shardkit.torch")
    path = os.fspath(tmp_path / "types")
    with sk.Writer(path, {name: name for name in TYPES} | {f"{name}s": f"{name}[2]" for name in TYPES}) as writer:
        for i in range(4):
            writer.write(str(i), **dict.fromkeys(TYPES, i & 1), **{f"{name}s": [i & 1, 1] for name in TYPES})
    (batch,) = skt.Loader(path, 4, order="sequential")
    for name, tensor in dict(batch).items():
        wide = tensor.to(torch.complex128 if "complex" in name else torch.float64)
        assert wide.tolist() == ([[0, 1], [1, 1]] * 2 if name.endswith("s") else [0, 1, 0, 1]), name
    for name in ("bf16", "f8e4m3", "f8e5m2"):
        wanted = getattr(torch, {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}[name], None)
        assert batch[name].dtype == (wanted or torch.float32)
    unsigned = [] if hasattr(torch, "uint64") else ["u16", "u32", "u64"]  # not in default_collate of that torch
    there = [name for name in TYPES if name not in ("bf16", "f8e4m3", "f8e5m2", *unsigned)]
    for columns in (there, [f"{name}s" for name in there]):
        for made in (skt.Dataset(path, columns), skt.IterableDataset(path, columns=columns, order="sequential")):
            for each in torch.utils.data.DataLoader(made, batch_size=4):
                assert [each[name].shape[0] for name in columns] == [4] * len(columns)
