"""DuckDB, polars, pandas, Lance and datasets of Hugging Face read a dataset by Arrow, and it is made of theirs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk
from shardkit import sources
from shardkit.schema import describe

pa = pytest.importorskip("pyarrow")
COUNT = 5000
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c6360060000050004ebd3a5660000000049454e44ae426082"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Several shards and blocks, some samples removed, a column added."""
    path = os.fspath(tmp_path_factory.mktemp("arrow") / "dataset")
    columns = {
        "label": sk.column("label", "i64", metadata={"class_names": '["cat", "dog", "owl"]'}),
        "score": "f32?",
        "vector": "f32[4]",
        "tokens": "i32[]",
        "captions": "utf8[]",
        "when": "timestamp_us",
        "flag": "bool",
        "image": "image",
    }
    rows = (
        {
            "key": f"k{i:05}",
            "label": i % 3,
            "score": None if i % 7 == 0 else i / 2,
            "vector": np.arange(4) + i,
            "tokens": np.arange(i % 5),
            "captions": [f"ü {i}"] * (i % 3),
            "when": np.datetime64(i, "s"),
            "flag": i % 2 == 0,
            "image": PNG,
        }
        for i in range(COUNT + 50)
    )
    sk.pack(rows, path, columns=columns, max_block_samples=300, shard_samples=1111)
    sk.remove(path, where=f"label == 0 and score >= {COUNT // 2}")
    sk.remove(path, keys=[f"k{i:05}" for i in range(COUNT, COUNT + 50) if i % 3])
    sk.add_columns(path, {"later": np.arange(len(sk.open(path)), dtype=np.int16)})
    return path


@pytest.fixture(scope="module")
def rows(path: str) -> list[dict[str, Any]]:
    """What every program has to find."""
    made = []
    for sample in sk.open(path):
        del sample["image"]
        sample["when"] = sample["when"].item()
        made.append({name: plain(value) for name, value in sample.items()})
    return made


def plain(value: Any) -> Any:
    """Values of NumPy and frames as Python's."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def test_duckdb(path: str, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    dataset = sk.open(path)  # found by its name
    assert len(dataset) == len(rows)
    counts = duckdb.sql("SELECT label, count(*), sum(later) FROM dataset GROUP BY label ORDER BY label").fetchall()
    for label, count, total in counts:
        assert (count, total) == (
            sum(row["label"] == label for row in rows),
            sum(row["later"] for row in rows if row["label"] == label),
        )
    found = duckdb.sql("SELECT * FROM dataset ORDER BY key")
    assert [
        {name: plain(value) for name, value in zip(found.columns, row, strict=True)} for row in found.fetchall()
    ] == rows
    assert duckdb.sql("SELECT vector[2] FROM dataset WHERE key = 'k00004'").fetchall() == [(5.0,)]
    # Read in place, and what comes of it is packed.
    result = duckdb.sql("SELECT key, label, tokens, captions FROM dataset WHERE flag ORDER BY key")
    sk.pack(result, tmp_path / "out")
    again = sk.open(tmp_path / "out")
    assert [describe(each) for each in again.schema] == ["utf8", "i64?", "i32[]?", "utf8[]?"]
    assert list(again.keys()) == [row["key"] for row in rows if row["flag"]]
    assert [plain(sample["tokens"]) for sample in again] == [row["tokens"] for row in rows if row["flag"]]
    # Parquet that it has written.
    target = os.fspath(tmp_path / "a.parquet")
    duckdb.sql(f"COPY (SELECT key, score, vector FROM dataset) TO '{target}'")
    assert [plain(row["score"]) for row in sources.parquet(target)] == [row["score"] for row in rows]


def test_parquet_of_arrays_with_absent_values(tmp_path: Path) -> None:
    """pyarrow 22 writes none of lists of a fixed size, and does not read what DuckDB makes of them."""
    duckdb, pl = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    import pyarrow.parquet as pq

    sk.pack([{"v": [1, 2]}, {"v": None}, {"v": [3, 4]}], tmp_path / "in", columns={"v": "f32[2]?"})
    dataset = sk.open(tmp_path / "in", ["v"])
    target = os.fspath(tmp_path / "a.parquet")
    pq.write_table(dataset.to_arrow(), target)
    for _ in range(2):
        assert [plain(row["v"]) for row in sources.parquet(target)] == [[1, 2], None, [3, 4]]
        assert [v for (v,) in duckdb.sql(f"SELECT v FROM '{target}'").fetchall()] == [[1, 2], None, [3, 4]]
        assert pl.read_parquet(target)["v"].to_list() == [[1, 2], None, [3, 4]]
        target = os.fspath(tmp_path / "b.parquet")
        duckdb.sql(f"COPY (FROM dataset) TO '{target}'")


@pytest.mark.parametrize("made", ["to_arrow", "stream"])
def test_polars(path: str, rows: list[dict[str, Any]], tmp_path: Path, made: str) -> None:
    pl = pytest.importorskip("polars")
    dataset = sk.open(path)
    frame = pl.from_arrow(dataset.to_arrow() if made == "to_arrow" else pa.RecordBatchReader.from_stream(dataset))
    assert [{name: plain(value) for name, value in row.items()} for row in frame.to_dicts()] == rows
    assert frame.schema["vector"] == pl.Array(pl.Float32, 4)
    sk.pack(frame.filter(pl.col("label") == 1), tmp_path / "out")
    again = sk.open(tmp_path / "out")
    kinds = ["utf8", "i64?", "f32?", "f32[4]?", "i32[]?", "utf8[]?", "timestamp_us?", "bool?", "i16?"]
    assert [describe(each) for each in again.schema] == kinds
    assert list(again.keys()) == [row["key"] for row in rows if row["label"] == 1]
    sk.pack(pa.table(frame), tmp_path / "known")
    known = {column.name: describe(column) for column in sk.open(tmp_path / "known").schema}
    assert known == {**{name: kind.rstrip("?") for name, kind in zip(known, kinds, strict=True)}, "score": "f32?"}
    odd = pl.DataFrame({"kind": pl.Series(["a", "b", "a"], dtype=pl.Categorical), "money": ["1.50", "2", "3"]})
    sk.pack(odd.with_columns(pl.col("money").cast(pl.Decimal(5, 2))), tmp_path / "odd")
    assert [(s["kind"], s["money"]) for s in sk.open(tmp_path / "odd")] == [("a", "1.50"), ("b", "2.00"), ("a", "3.00")]


def test_pandas(path: str, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    for frame in (sk.open(path).to_arrow().to_pandas(), pd.DataFrame.from_arrow(sk.open(path))):
        found = frame.assign(when=frame["when"].dt.to_pydatetime()).to_dict("records")
        assert [{name: plain(value) for name, value in row.items()} for row in found] == rows
    small = frame[["key", "label", "later"]][frame["label"] == 2]
    sk.pack(small, tmp_path / "out")
    again = sk.open(tmp_path / "out")
    assert [(s["key"], s["later"]) for s in again] == [(r["key"], r["later"]) for r in rows if r["label"] == 2]


def test_hugging_face(path: str, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset(sk.open(path).to_arrow())
    assert made.features["label"] == datasets.ClassLabel(names=["cat", "dog", "owl"])
    assert [{name: plain(value) for name, value in row.items()} for row in made] == rows
    pictures = datasets.Dataset(sk.open(path, ["key", "image"]).to_arrow()).cast_column("image", datasets.Image())
    assert pictures[0]["image"].size == (1, 1)
    # And back, by the types of its features: exact of a dataset, nullable of a stream.
    empty = (
        made.select(range(20))
        .add_column("empty", [[]] * 20)
        .cast_column("empty", datasets.Sequence(made.features["score"]))
    )
    packs: list[tuple[Callable[[], Any], str]] = [(lambda: empty, ""), (lambda: empty.to_iterable_dataset(), "?")]
    for number, (given, end) in enumerate(packs):
        sk.pack(sources.hugging_face(given()), tmp_path / f"out{number}")
        again = sk.open(tmp_path / f"out{number}")
        assert again.classes == ["cat", "dog", "owl"]
        kinds = {column.name: describe(column) for column in again.schema}
        assert kinds["empty"] == "f32[]" + end
        assert kinds["vector"] == "f32[4]" + end
        assert kinds["score"] == "f32?"
        assert [{name: plain(v) for name, v in s.items() if name not in ("empty", "when")} for s in again] == [
            {name: value for name, value in row.items() if name != "when"} for row in rows[:20]
        ]
    sk.pack(sources.hugging_face(pictures.select(range(5))), tmp_path / "pictures")
    assert describe(sk.open(tmp_path / "pictures").schema["image"]) == "image"
    assert sk.open(tmp_path / "pictures")[4]["image"] == PNG


def test_lance(path: str, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    names = [*sk.open(path).to_arrow().schema.names, "image"]
    folder = os.fspath(tmp_path / "a.lance")
    written = lance.write_dataset(pa.RecordBatchReader.from_stream(sk.open(path, names)), folder)
    found = written.to_table(sk.open(path).to_arrow().schema.names).to_pylist()
    assert [{name: plain(value) for name, value in row.items()} for row in found] == rows
    # And back, with the types of Lance's own schema.
    with pytest.raises(Exception, match=r"lance\.dataset\(FOLDER\)\.scanner\(\)\.to_reader\(\)"):
        sk.open(folder)
    sk.pack(lance.dataset(folder).scanner().to_reader(), tmp_path / "out")
    again = sk.open(tmp_path / "out")
    assert again.classes == ["cat", "dog", "owl"]
    kinds = {column.name: describe(column).rstrip("?") for column in again.schema}
    assert kinds == {column.name: describe(column).rstrip("?") for column in sk.open(path).schema}
    for number, sample in enumerate(again):
        assert sample.pop("image") == PNG
        sample["when"] = sample["when"].item()
        assert {name: plain(value) for name, value in sample.items()} == rows[number]
    # Some of it: a condition of Lance's, in an order of its own.
    chosen = lance.dataset(folder).scanner(columns=["key", "later"], filter="label = 1")
    sk.pack(chosen.to_reader(), tmp_path / "some")
    assert [(s["key"], s["later"]) for s in sk.open(tmp_path / "some")] == [
        (row["key"], row["later"]) for row in rows if row["label"] == 1
    ]


def test_datasets_of_one_another(path: str, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    """A condition of each program chooses the same samples."""
    duckdb, pl = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    where = "label == 1 and score > 100"
    mine = sk.open(path).to_arrow(["key"], where=where)["key"].to_pylist()
    dataset = sk.open(path, ["key", "label", "score"])
    theirs = duckdb.sql("SELECT key FROM dataset WHERE label = 1 AND score > 100 ORDER BY key").fetchall()
    frame = pl.from_arrow(dataset.to_arrow()).filter((pl.col("label") == 1) & (pl.col("score") > 100))
    assert mine == [key for (key,) in theirs] == frame["key"].to_list()
    assert len(mine) > 100
    assert dataset.schema.names == ["key", "label", "score"]
