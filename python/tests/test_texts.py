"""Texts and JSON: str and objects, whichever way they are read; one of a list of captions."""

from __future__ import annotations

import collections
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk

TEXTS = ["", "one", "zwei ½", "\U0001f600" * 3, None]
OBJECTS = [{"a": [1, 2.5, None]}, [], ["ä", {"b": "\u2028"}], 7, None]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("texts") / "data")
    with sk.Writer(path, {"text": "utf8?", "meta": "json?", "number": "i64"}, max_block_samples=2) as writer:
        for i, (text, meta) in enumerate(zip(TEXTS, OBJECTS, strict=True)):
            writer.write(f"k{i}", text=text, meta=meta, number=i)
    return path


def test_every_way_to_read(path: str) -> None:
    dataset = sk.open(path)
    assert [(sample["text"], sample["meta"]) for sample in dataset] == list(zip(TEXTS, OBJECTS, strict=True))
    assert [text for block in dataset.scan() for text in block["text"]] == TEXTS
    assert [meta for block in dataset.scan() for meta in block["meta"]] == OBJECTS
    assert list(dataset.column("meta")) == OBJECTS
    for columns in (None, {"text": sk.Stored(), "meta": None}, ["meta", "text"]):
        batches = list(sk.Loader(path, batch_size=2, columns=columns, order="sequential"))
        assert [text for batch in batches for text in batch["text"]] == TEXTS
        assert [meta for batch in batches for meta in batch["meta"]] == OBJECTS
        assert batches[-1].present("text").tolist() == [False]
    assert "text utf8, meta json" in repr(next(iter(sk.Loader(path, 2))))


def test_functions_get_objects(path: str) -> None:
    seen = []

    def note(meta: Any) -> int:
        seen.append(meta)
        return 0

    loader = sk.Loader(path, 2, columns={"meta": note, "text": sk.Raw(lambda stored: stored)}, order="sequential")
    stored = [text for batch in loader for text in batch["text"]]
    assert stored == [None if text is None else text.encode() for text in TEXTS]
    assert set(map(repr, seen)) == set(map(repr, OBJECTS))  # of the next epoch, too
    samples = sk.Loader(path, 5, transform=lambda sample: sample, order="sequential", collate="list")
    (batch,) = samples
    assert (batch["text"], batch["meta"]) == (TEXTS, OBJECTS)


def refuse_2(number: int) -> int:
    if number == 2:
        raise ValueError("no 2")
    return number


def test_what_is_left_of_a_batch(path: str) -> None:
    columns = {"text": None, "meta": None, "number": refuse_2}
    (batch,) = sk.Loader(path, 5, columns=columns, order="sequential", bad_samples="skip")
    assert batch["text"] == TEXTS[:2] + TEXTS[3:]
    assert batch["meta"] == OBJECTS[:2] + OBJECTS[3:]


@pytest.mark.parametrize("device", ["host", "emulated"])
def test_beside_tensors(path: str, device: str) -> None:
    torch = pytest.importorskip("torch")
    import shardkit.torch as skt

    batches = list(skt.Loader(path, 2, order="sequential", device=device))
    assert [text for batch in batches for text in batch["text"]] == TEXTS
    assert [meta for batch in batches for meta in batch["meta"]] == OBJECTS
    assert isinstance(batches[0]["number"], torch.Tensor)


CAPTIONS = [[f"{i} {j}" for j in range(1 + i % 5)] for i in range(60)]


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("captions") / "data")
    rows = ({"captions": each, "vectors": np.arange(2 * len(each)).reshape(-1, 2)} for each in CAPTIONS)
    sk.pack(rows, path, columns={"captions": "json", "vectors": "i64[]"})
    return path


def length(text: str | bytes) -> int:
    return len(text)


def test_choice(captions: str) -> None:
    columns = {"captions": sk.Choice(), "vectors": sk.Choice()}

    def epochs(**options: Any) -> list[Any]:
        loader = sk.Loader(captions, 7, columns=columns, seed=2, **options)
        return [
            {
                ordinal: (text, vector.tolist())
                for batch in loader
                for ordinal, text, vector in zip(
                    batch.ordinals.tolist(), batch["captions"], batch["vectors"], strict=True
                )
            }
            for _ in range(30)
        ]

    taken = epochs()
    for i, texts in enumerate(CAPTIONS):
        counts = collections.Counter(epoch[i][0] for epoch in taken)
        assert set(counts) <= set(texts)
        assert len(counts) >= min(len(texts), 2)  # 30 draws of the same of two: 2^-29
        for epoch in taken:
            assert epoch[i][1] in np.arange(2 * len(texts)).reshape(-1, 2).tolist()
    assert epochs(workers=0) == taken
    assert epochs(workers=3)[:2] == taken[:2]
    assert epochs(worker_kind="process", workers=2)[:2] == taken[:2]
    assert pickle.loads(pickle.dumps(sk.Choice())) == sk.Choice()


def test_choice_before_a_function_and_errors(captions: str, path: str) -> None:
    loader = sk.Loader(captions, 60, columns={"captions": [sk.Choice(), length]}, order="sequential")
    (batch,) = loader
    assert batch["captions"].tolist() == [len(texts[0]) for texts in CAPTIONS]
    for column, message in (("text", "takes one of a list, not of ''"), ("meta", "takes one of a list, not of {'a'")):
        with pytest.raises(sk.FunctionError, match=column) as caught:
            next(iter(sk.Loader(path, columns={column: sk.Choice()}, order="sequential")))
        assert message in str(caught.value.__cause__)
    with pytest.raises(sk.FunctionError) as caught:
        list(sk.Loader(path, columns={"meta": sk.Choice()}, indices=[1], order="sequential"))
    assert "the list is empty" in str(caught.value.__cause__)


def test_texts_that_are_no_json(tmp_path: Path) -> None:
    with sk.Writer(tmp_path / "data", {"meta": "json"}) as writer:
        writer.write("a", meta='{"text": "is a document"}')
        writer.write("b", meta=b"[1]")
        with pytest.raises(ValueError, match="no JSON document"):
            writer.write("c", meta="a plain str")
    assert [sample["meta"] for sample in sk.open(tmp_path / "data")] == [{"text": "is a document"}, [1]]


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    """A dataset of MDS, whose writer does not look at texts: of five samples 1 has no UTF-8, 3 no JSON."""
    rows = ({"text": f"text {i}", "meta": {"number": i}} for i in range(5))
    sk.pack(rows, tmp_path / "own", columns={"text": "utf8", "meta": "json"}, codecs={"text": "none", "meta": "none"})
    sk.convert(tmp_path / "own", tmp_path / "mds", to="mds")
    (shard,) = (tmp_path / "mds").glob("*.mds")
    stored = shard.read_bytes()
    assert stored.count(b"text 1") == stored.count(b'"number": 3}') == 1
    shard.write_bytes(stored.replace(b"text 1", b"text \xff").replace(b'"number": 3}', b'"number": 3 '))
    return str(tmp_path / "mds")


def test_texts_that_are_none(damaged: str) -> None:
    dataset = sk.open(damaged)
    assert (dataset[0]["text"], dataset[0]["meta"]) == ("text 0", {"number": 0})
    for sample, column, what in ((1, "text", "no text of UTF-8"), (3, "meta", "no JSON document")):
        with pytest.raises(
            sk.DataLossError, match=f'sample {sample}: column "{column}": the value is {what}'
        ) as caught:
            dataset[sample]
        assert (caught.value.path, caught.value.sample, caught.value.column) == (damaged, sample, column)
        (batch,) = sk.Loader(damaged, 5, columns=["text", "meta"], order="sequential")
        with pytest.raises(
            sk.DataLossError, match=f'dataset 0: sample {sample}: column "{column}": the value is {what}'
        ):
            batch[column]
    columns = {"text": length, "meta": sk.Map(str)}
    with pytest.raises(sk.FunctionError, match="column 'text': reading failed on sample 1"):
        list(sk.Loader(damaged, 5, columns=columns, order="sequential"))
    for workers in (0, 2):
        (batch,) = sk.Loader(damaged, 5, columns=columns, order="sequential", bad_samples="skip", workers=workers)
        assert batch.ordinals.tolist() == [0, 2, 4]
        assert batch["text"].tolist() == [6, 6, 6]
        assert [ordinal for _, ordinal, _ in batch.skipped] == [1, 3]
    (batch,) = sk.Loader(damaged, 5, columns={"text": sk.Raw(length)}, order="sequential")
    assert batch["text"].tolist() == [6] * 5


def test_mds_has_objects(damaged: str) -> None:
    """Of another container the same comes."""
    (batch,) = sk.Loader(
        damaged, 5, columns={"meta": lambda meta: meta["number"]}, order="sequential", indices=[0, 2, 4]
    )
    assert batch["meta"].tolist() == [0, 2, 4]


LISTS: list[list[str] | None] = [["a dog", 'a "dog", [brown]\\', "\n"], [], ["ä"], None, ["", "]", "[", '",']]


def test_lists_of_texts_are_a_type(tmp_path: Path) -> None:
    path = tmp_path / "captions"
    with sk.Writer(path, {"captions": "utf8[]?", "other": "json"}) as writer:
        for i, texts in enumerate(LISTS):
            writer.write(str(i), captions=texts, other=[])
    dataset = sk.open(path)
    column = dataset.schema["captions"]
    assert (column.type, column.metadata["items"]) == ("json", "utf8")
    assert "captions: utf8[]?" in repr(dataset.schema)
    assert [sample["captions"] for sample in dataset] == LISTS
    (batch,) = sk.Loader(path, 9, columns={"captions": None}, order="sequential")
    assert batch["captions"] == LISTS
    chosen = sk.Loader(path, 9, columns={"captions": sk.Choice(collate="list")}, where="captions is not null")
    with pytest.raises(sk.FunctionError, match=r"on sample 1 .*the list is empty"):
        list(chosen)
    assert sk.validate(path, deep=True)
    copied = tmp_path / "copied"
    sk.filter(path, copied, keys=["0", "2"])
    assert [sample["captions"] for sample in sk.open(copied)] == [LISTS[0], LISTS[2]]
    assert "captions: utf8[]?" in repr(sk.open(copied).schema)


@pytest.mark.parametrize("value", ["a", {"a": "b"}, ["a", 1], [["a"]], [None], 3, b"a", np.arange(3)])
def test_what_is_no_list_of_texts_is_refused(tmp_path: Path, value: Any) -> None:
    with (
        sk.Writer(tmp_path / "captions", {"captions": "utf8[]"}) as writer,
        pytest.raises(ValueError, match="a list of str is wanted"),
    ):
        writer.write("a", captions=value)


def test_lists_of_texts_are_inferred(tmp_path: Path) -> None:
    pack = {
        "utf8[]": [["a"], [], ["b", "c"]],
        "json": [["a"], {"b": 1}, []],
    }
    for kind, values in pack.items():
        path = tmp_path / kind[:4]
        sk.pack([{"texts": value} for value in values], path)
        assert f"texts: {kind}" in repr(sk.open(path).schema)
        assert [sample["texts"] for sample in sk.open(path)] == values
    sk.pack([{"texts": []}], tmp_path / "empty")
    assert "texts: json" in repr(sk.open(tmp_path / "empty").schema)
    with pytest.raises(ValueError, match="i64"):
        sk.pack([{"texts": [1]}, {"texts": ["a"]}], tmp_path / "mixed")
