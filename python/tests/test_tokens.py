"""Rows of tokens: every token once, in steps of one shape, and what models take with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk
from shardkit.batch import TokenRows

CONTEXT = 32


@pytest.fixture(scope="module")
def documents() -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(4)
    return [random.integers(1, 60000, int(random.integers(0, 90))).astype(np.uint16) for _ in range(300)]


@pytest.fixture(scope="module")
def path(documents: list[np.ndarray[Any, Any]], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("tokens") / "data")
    rows = ({"tokens": tokens, "raw": tokens.tobytes(), "number": i} for i, tokens in enumerate(documents))
    sk.pack(rows, path, columns={"tokens": "u16[]", "raw": "bytes", "number": "i64"}, max_block_samples=16)
    return path


def of_pieces(rows: TokenRows, first: Any, padding: int) -> list[list[int]]:
    """Return [rows, context] of what `first(piece)` counts on from, in a simple way."""
    made = [[padding] * CONTEXT for _ in range(len(rows.values))]
    for row, begin, length, offset in rows.pieces.tolist():
        for i in range(length):
            made[row][begin + i] = first(row, begin, offset, i)
    return made


@pytest.mark.parametrize("mode", ["best_fit", "concat"])
@pytest.mark.parametrize("order", ["shuffled", "sequential"])
def test_every_token_once(documents: list[np.ndarray[Any, Any]], path: str, mode: str, order: str) -> None:
    columns = {"tokens": sk.Tokens(CONTEXT, mode, padding_token=0), "number": None}
    loader = sk.Loader(path, batch_size=5, columns=columns, order=order, remainder="pad")
    seen = [np.zeros(len(tokens), int) for tokens in documents]
    steps = 0
    for batch in loader:
        rows = batch["tokens"]
        assert rows.values.shape == (5, CONTEXT)
        assert rows.values.dtype == np.uint16
        assert len(rows.pieces) == len(batch) == len(batch["number"])
        assert batch["number"].tolist() == batch.ordinals.tolist()
        padded = np.zeros_like(rows.values)
        for (row, begin, length, offset), number, again in zip(
            rows.pieces.tolist(), batch["number"].tolist(), batch.padding.tolist(), strict=True
        ):
            padded[row, begin : begin + length] = documents[number][offset : offset + length]
            if not again:
                seen[number][offset : offset + length] += 1
        assert np.array_equal(rows.values, padded)
        steps += 1
    assert steps == len(loader) == -(-loader.samples_per_epoch // 5)
    assert all((counts == 1).all() for counts in seen)


def test_what_models_take(path: str) -> None:
    for mode in ("best_fit", "concat"):
        for batch in sk.Loader(path, batch_size=3, columns={"tokens": sk.Tokens(CONTEXT, mode, padding_token=65535)}):
            rows = batch["tokens"]
            tokens = rows.input_ids.tolist()
            assert tokens == rows.values.tolist()
            assert rows.input_ids.dtype == np.int64
            assert rows.position_ids.tolist() == of_pieces(rows, lambda row, begin, offset, i: i, 0)
            begins = rows.pieces[:, :2].tolist()
            numbers = {(row, begin): sum(r == row and b < begin for r, b in begins) for row, begin in begins}
            assert rows.document_ids.tolist() == of_pieces(
                rows, lambda row, begin, offset, i, numbers=numbers: numbers[row, begin], -1
            )
            labels = of_pieces(
                rows, lambda row, begin, offset, i, tokens=tokens: tokens[row][begin + i] if i else -7, -7
            )
            assert rows.labels(-7).tolist() == labels
            assert rows.labels(-7, shifted=True).tolist() == [[*row[1:], -7] for row in labels]
            edges = sorted(
                {row * CONTEXT + begin + end for row, begin, length, _ in rows.pieces.tolist() for end in (0, length)}
                | {row * CONTEXT for row in range(len(tokens) + 1)}
            )
            assert rows.cu_seqlens.tolist() == edges
            assert rows.cu_seqlens.dtype == np.int32
            assert rows.max_seqlen == max(np.diff(edges))


def test_tokens_in_bytes(path: str) -> None:
    def shown(kind: Any) -> list[Any]:
        loader = sk.Loader(path, batch_size=3, columns={"tokens": kind})
        return [batch["tokens"].values.tolist() for batch in loader]

    assert shown(sk.Tokens(CONTEXT, source="raw", dtype="u16")) == shown(sk.Tokens(CONTEXT))
    with pytest.raises(ValueError, match="a dtype is for tokens stored as bytes, and these are u16"):
        shown(sk.Tokens(CONTEXT, dtype="i32"))
    with pytest.raises(ValueError, match="tokens are whole numbers, not f32"):
        shown(sk.Tokens(CONTEXT, source="raw", dtype="f32"))
    with pytest.raises(ValueError, match="cannot be decoded as tokens, only one-dimensional arrays and bytes"):
        shown(sk.Tokens(CONTEXT, source="number"))


def rows_of(batch: sk.Batch) -> list[Any]:
    """Return each row: its position in the epoch, its tokens, and where its pieces come from."""
    rows = batch["tokens"]
    made: dict[int, Any] = {}
    samples = batch.samples.tolist()
    for (row, begin, length, offset), (_, _, ordinal, position, _) in zip(rows.pieces.tolist(), samples, strict=True):
        place = made.setdefault(row, (position, rows.values[row].tolist(), []))
        assert place[0] == position
        place[2].append((ordinal, begin, length, offset))
    return [made[row] for row in sorted(made)]


@pytest.mark.parametrize("mode", ["best_fit", "concat"])
@pytest.mark.parametrize("where", [None, "number % 3 != 0"])
def test_other_ranks_and_threads_go_on_where_others_stopped(path: str, mode: str, where: str | None) -> None:
    def run(world_size: int, steps: int, state: Any, threads: int) -> tuple[list[Any], Any]:
        made, states = [], []
        for rank in range(world_size):
            loader = sk.Loader(
                path, global_batch_size=12, rank=rank, world_size=world_size, decode_threads=threads, seed=5,
                columns={"tokens": sk.Tokens(CONTEXT, mode)}, where=where, remainder="drop",
            )  # fmt: skip
            if state is not None:
                loader.load_state_dict(state)
            for _, batch in zip(range(steps), loader, strict=False):
                assert batch["tokens"].values.shape == (12 // world_size, CONTEXT)
                made += rows_of(batch)
            states.append(loader.state_dict())
        return made, states[0]

    whole, _ = run(1, 10_000, None, 1)
    parts, state = [], None
    for world_size, steps, threads in ((2, 3, 1), (3, 1, 4), (1, 4, 2), (6, 10_000, 1)):
        made, state = run(world_size, steps, state, threads)
        parts += made
    assert sorted(parts) == sorted(whole)
    if where is not None:
        assert all(ordinal % 3 != 0 for *_, pieces in whole for ordinal, *_ in pieces)


def test_balance_is_not_for_rows(path: str) -> None:
    with pytest.raises(ValueError, match='column "tokens" packs several into a row'):
        sk.Loader(path, columns={"tokens": sk.Tokens(CONTEXT)}, balance="number")
    with pytest.raises(ValueError, match='its context and packing are not those of "tokens"'):
        sk.Loader(path, columns={"tokens": sk.Tokens(CONTEXT), "b": sk.Tokens(8, source="tokens")})
    with pytest.raises(ValueError, match="mode='first_fit': give 'best_fit' or 'concat'"):
        sk.Tokens(CONTEXT, "first_fit")  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["host", "emulated", "cpu"])
def test_tensors(path: str, device: str) -> None:
    torch = pytest.importorskip("torch")
    import shardkit.torch as skt

    if device == "emulated" and not hasattr(torch, "uint16"):
        pytest.skip("this torch takes no u16 of DLPack")
    columns = {"tokens": sk.Tokens(CONTEXT)}
    arrays = sk.Loader(path, batch_size=4, columns=columns)
    tensors = skt.Loader(path, batch_size=4, columns=columns, device=device)
    for ours, theirs in zip(arrays, tensors, strict=True):
        rows, tensor = ours["tokens"], theirs["tokens"]
        for name in ("values", "input_ids", "position_ids", "document_ids", "cu_seqlens"):
            made = getattr(tensor, name)
            assert isinstance(made, torch.Tensor)
            assert made.tolist() == getattr(rows, name).tolist()
        for shifted in (False, True):
            assert tensor.labels(shifted=shifted).tolist() == rows.labels(shifted=shifted).tolist()
        assert tensor.max_seqlen == rows.max_seqlen


def test_block_mask(path: str) -> None:
    pytest.importorskip("torch.nn.attention.flex_attention")
    import shardkit.torch as skt

    rows = next(iter(skt.Loader(path, batch_size=2, columns={"tokens": sk.Tokens(CONTEXT)})))["tokens"]
    mask = rows.block_mask()
    documents = rows.document_ids.tolist()
    for row in range(2):
        for query in range(CONTEXT):
            for key in range(CONTEXT):
                seen = bool(mask.mask_mod(row, 0, query, key))
                assert seen == (query >= key and documents[row][query] == documents[row][key])


def tokens_of(batch: sk.Batch) -> list[int]:
    """Return the tokens that do not repeat others of the epoch."""
    rows = batch["tokens"]
    made: list[int] = []
    for (row, begin, length, _), again in zip(rows.pieces.tolist(), batch.padding.tolist(), strict=True):
        made += [] if again else rows.values[row, begin : begin + length].tolist()
    return made


@pytest.mark.parametrize("mode", ["best_fit", "concat"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_documents_and_many_ranks(count: int, mode: str, tmp_path: Path) -> None:
    sk.pack(
        ({"tokens": np.arange(40 * i, 40 * i + 40, dtype=np.uint16)} for i in range(count)),
        tmp_path / "data",
        columns={"tokens": "u16[]"},
    )
    for world_size in (1, 2, 3):
        for remainder in ("keep", "pad", "drop"):
            seen: list[int] = []
            shapes = set()
            for rank in range(world_size):
                options = {"remainder": remainder, "empty_batches": True, "rank": rank, "world_size": world_size}
                columns = {"tokens": sk.Tokens(CONTEXT, mode)}
                if remainder == "drop" and -(-40 * count // CONTEXT) < 2 * world_size:  # an epoch would have no step
                    with pytest.raises(ValueError, match="fewer than one batch"):
                        sk.Loader(tmp_path / "data", 2, columns=columns, **options)
                    continue
                for batch in sk.Loader(tmp_path / "data", 2, columns=columns, **options):
                    seen += tokens_of(batch)
                    shapes.add(batch["tokens"].values.shape)
            assert len(seen) == len(set(seen))
            if remainder != "drop":
                assert sorted(seen) == list(range(40 * count))
            if remainder != "keep":
                assert shapes <= {(2, CONTEXT)}


def test_no_documents(tmp_path: Path) -> None:
    sk.pack(({"tokens": np.zeros(0, np.uint16)} for _ in range(3)), tmp_path / "data", columns={"tokens": "u16[]"})
    with pytest.raises(ValueError, match='no sample chosen has a token in column "tokens"'):
        sk.Loader(tmp_path / "data", columns={"tokens": sk.Tokens(CONTEXT)})


def test_seek_and_another_container(path: str, tmp_path: Path) -> None:
    def steps(where: str, begin: int) -> list[Any]:
        loader = sk.Loader(where, 4, columns={"raw": sk.Tokens(CONTEXT, dtype="u16")}, order="sequential")
        if begin:
            loader.seek(begin)
        return [batch["raw"].values.tolist() for batch in loader]

    whole = steps(path, 0)
    assert steps(path, 7) == whole[7:]
    sk.convert(path, tmp_path / "mds", to="mds", columns=["raw"])
    seen = sorted(token for step in steps(str(tmp_path / "mds"), 0) for row in step for token in row if token)
    assert seen == sorted(token for step in whole for row in step for token in row if token)


def test_following_packs_what_was_appended(tmp_path: Path) -> None:
    def write(first: int, **options: Any) -> None:
        rows = (
            {"key": str(i), "tokens": np.arange(50 * i, 50 * i + 50, dtype=np.uint16)} for i in range(first, first + 6)
        )
        sk.pack(rows, tmp_path / "data", columns={"tokens": "u16[]"}, **options)

    write(0)
    loader = sk.Loader(tmp_path / "data", 2, columns={"tokens": sk.Tokens(CONTEXT)}, follow=True)
    seen = []
    for step, batch in enumerate(loader):
        seen += tokens_of(batch)
        if step == 0:
            write(6, append=True)  # for the next epoch
    assert sorted(seen) == list(range(300))
    assert sorted(token for batch in loader for token in tokens_of(batch)) == list(range(600))
    state = loader.state_dict()
    again = sk.Loader(tmp_path / "data", 2, columns={"tokens": sk.Tokens(CONTEXT)}, follow=True)
    again.load_state_dict(state)
    assert sorted(token for batch in again for token in tokens_of(batch)) == list(range(600))
