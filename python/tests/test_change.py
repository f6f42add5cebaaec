"""Columns of complete datasets, from every kind of value that Python has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk

COUNT = 300


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with sk.Writer(os.fspath(path), {"label": "i32", "text": "utf8?"}, max_block_samples=16) as writer:
        for i in range(COUNT):
            writer.append(f"k{i:04d}", {"label": i % 7, "text": f"text {i}" if i % 3 else None})
    return path


def column(path: Path, name: str) -> list[Any]:
    """All values of a column, as Python's."""
    opened = sk.open(os.fspath(path), columns=[name])
    values: list[Any] = []
    for block in opened.scan():
        present = block.present(name) if opened.schema[name].nullable else [True] * len(block)
        stored = np.array(block[name]) if isinstance(block[name], np.ndarray) else block[name]
        values += [value if there else None for value, there in zip(stored, present, strict=True)]
    return values


def test_arrays_by_order(dataset: Path) -> None:
    before = {file.name: file.read_bytes() for file in dataset.glob("*.shard")}
    score = np.linspace(0, 1, COUNT, dtype=np.float32)
    vectors = np.arange(COUNT * 4, dtype=np.int16).reshape(COUNT, 4)
    calls: list[tuple[int, int]] = []
    report = sk.add_columns(
        dataset,
        {"score": score, "vector": vectors, "name": [f"n{i}" for i in range(COUNT)]},
        progress=lambda done, total: calls.append((done, total)),
    )
    assert (report.generation, report.columns, report.matched, report.rows) == (
        2,
        ["score", "vector", "name"],
        300,
        300,
    )
    assert column(dataset, "score") == score.tolist()
    assert np.array_equal(np.array(column(dataset, "vector")), vectors)
    assert column(dataset, "name") == [f"n{i}" for i in range(COUNT)]
    schema = sk.open(os.fspath(dataset)).schema
    assert repr(schema) == "Schema(key: utf8, label: i32, text: utf8?, score: f32, vector: i16[4], name: utf8?)"
    assert {file.name: file.read_bytes() for file in dataset.glob("*.shard")} == before
    assert calls[-1] == (COUNT, COUNT)
    assert sk.validate(dataset)


def test_rows_by_key(dataset: Path) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        for i in reversed(range(0, COUNT + 4, 2)):
            yield {"id": f"k{i:04d}", "score": i / 4, "tags": ["a", i] if i % 4 else None}

    report = sk.add_columns(dataset, rows(), key="id", columns={"score": "f32", "tags": "json?"})
    assert (report.matched, report.rows, report.unmatched) == (150, 152, 2)
    assert report.unmatched_keys == ["k0302", "k0300"]
    assert column(dataset, "score") == [i / 4 if i % 2 == 0 else None for i in range(COUNT)]
    tags = column(dataset, "tags")
    assert tags == [["a", i] if i % 4 == 2 else None for i in range(COUNT)]


def test_files(dataset: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "score.npy", np.arange(COUNT, dtype=np.float64))
    sk.add_columns(dataset, tmp_path / "score.npy")
    assert column(dataset, "score") == list(range(COUNT))
    (tmp_path / "rows.ndjson").write_text("".join(f'{{"key": "k{i:04d}", "n": {i}}}\n' for i in range(9)))
    report = sk.add_columns(dataset, tmp_path / "rows.ndjson", key="key", types={"n": "u8"}, columns=["n"], threads=2)
    assert report.matched == 9
    assert sk.open(os.fspath(dataset)).schema["n"].type == "u8"
    assert sk.add_columns(dataset, dataset, columns=["label"]).replaced == ["label"]
    assert column(dataset, "label") == [i % 7 for i in range(COUNT)]


def test_tables_of_arrow(dataset: Path, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table(
        {
            "id": [f"k{i:04d}" for i in range(COUNT)],
            "score": pa.array(range(COUNT), pa.float32()),
            "count": pa.array([None if i % 2 else i for i in range(COUNT)], pa.int32()),
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    sk.add_columns(dataset, table, key="id")
    assert column(dataset, "score") == list(range(COUNT))
    assert column(dataset, "count") == [None if i % 2 else i for i in range(COUNT)]
    sk.add_columns(dataset, tmp_path / "rows.parquet", key="id", columns="score")
    with pytest.raises(ValueError, match="there is no column 'none'"):
        sk.add_columns(dataset, tmp_path / "rows.parquet", key="id", columns=["none"])
    assert column(dataset, "score") == list(range(COUNT))
    assert sk.open(os.fspath(dataset)).schema["count"].type == "i32"


def test_nothing_changes_after_an_error(dataset: Path) -> None:
    before = sorted(file.name for file in dataset.iterdir())

    def broken() -> Iterator[dict[str, Any]]:
        for i in range(COUNT):
            if i == 270:
                raise KeyError("gone")
            yield {"score": i}

    with pytest.raises(KeyError, match="gone"):
        sk.add_columns(dataset, broken())
    with pytest.raises(ValueError, match="row 280, column score"):
        sk.add_columns(dataset, ({"score": i if i != 280 else "x"} for i in range(COUNT)))
    with pytest.raises(ValueError, match="samples: 300, rows: 2"):
        sk.add_columns(dataset, {"score": np.zeros(2)})
    with pytest.raises(ValueError, match="both have the key"):
        sk.add_columns(dataset, [{"k": "k0001", "v": 1}, {"k": "k0001", "v": 2}], key="k")
    with pytest.raises(ValueError, match="there is no column 'w'"):
        sk.add_columns(dataset, [{"v": 1}], columns=["w"])
    with pytest.raises(ValueError, match="keys are texts or integers, not float"):
        sk.add_columns(dataset, [{"k": 1.0, "v": 1}], key="k")
    with pytest.raises(TypeError, match="metadata="):
        sk.set_columns(dataset, "label", {"unit": 3})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="no rows"):
        sk.add_columns(dataset, [])
    with pytest.raises(ValueError, match="different lengths"):
        sk.add_columns(dataset, {"a": [1], "b": [1, 2]})
    assert sorted(file.name for file in dataset.iterdir()) == before
    assert len(sk.history(dataset)) == 1


def test_drop_rename_set(dataset: Path) -> None:
    assert sk.rename_columns(dataset, {"text": "caption"}) == 2
    assert sk.set_columns(dataset, "label", {"class_names": ["cat", "dog"], "unit": "one"}) == 3
    assert sk.open(os.fspath(dataset)).schema["label"].metadata == {"class_names": '["cat", "dog"]', "unit": "one"}
    assert sk.set_columns(dataset, "label", {"unit": None}) == 4
    assert sk.drop_columns(dataset, "caption") == 5
    assert sk.open(os.fspath(dataset)).schema.names == ["key", "label"]
    assert sk.open(os.fspath(dataset), generation=2).schema.names == ["key", "label", "caption"]
    history = sk.history(dataset)
    assert [each.operation for each in history] == ["create"] + ["columns"] * 4
    assert history[1].arguments == {"rename": ["text"], "to": ["caption"]}
    assert history[4].arguments == {"drop": ["caption"]}
    with pytest.raises(IndexError, match="caption"):
        sk.drop_columns(dataset, ["caption"])
    with pytest.raises(ValueError, match="key of the samples"):
        sk.drop_columns(dataset, "key")
