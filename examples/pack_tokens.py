"""Packs documents into rows of tokens, and trains a tiny language model that looks at one document at a time.

    python examples/pack_tokens.py TEXTS DATASET [--steps 60] [--checkpoint FILE] [--stop-after N]

TEXTS is a folder of text files, whose bytes are the tokens. DATASET is made of it unless it is there: a sample is a row
of tokens, and where the documents in it end. Prints the loss of each step. With a checkpoint that exists, it goes on
from there: the losses are those of a run that was never stopped.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import shardkit as sk
from shardkit.torch import Loader

CONTEXT = 128
END = 256  # the token behind each document
WIDTH = 64


def rows(texts: Path) -> Iterator[dict[str, Any]]:
    """Yield full rows: one document after another, cut where a row ends. What is left for the last row is left out."""
    row, filled, ends = np.zeros(CONTEXT, np.uint16), 0, []
    for path in sorted(path for path in texts.rglob("*") if path.is_file()):
        document = np.append(np.frombuffer(path.read_bytes(), np.uint8), np.uint16(END))
        while len(document):
            piece, document = np.split(document, [CONTEXT - filled])
            row[filled : filled + len(piece)] = piece
            filled += len(piece)
            ends.append(filled)
            if filled == CONTEXT:
                yield {"tokens": row.copy(), "document_ends": np.array(ends, np.int32)}
                filled, ends = 0, []


def boundaries(ends: sk.Ragged) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return positions within documents and numbers of documents, both [rows, CONTEXT], and cu_seqlens.

    cu_seqlens has where documents begin and end when the rows stand one after another, as kernels for attention over
    sequences of different lengths take it.
    """
    row = np.repeat(np.arange(len(ends)), np.diff(ends.offsets))
    edges = np.concatenate([[0], row * CONTEXT + ends.values])
    lengths = np.diff(edges)
    positions = np.arange(edges[-1]) - np.repeat(edges[:-1], lengths)
    documents = np.repeat(np.arange(len(lengths)), lengths)
    shape = (len(ends), CONTEXT)
    tensors = (positions.reshape(shape), documents.reshape(shape), edges.astype(np.int32))
    return tuple(map(torch.from_numpy, tensors))  # type: ignore[return-value]


class Model(torch.nn.Module):
    """One layer of attention, within documents and to earlier tokens only, and one of neurons."""

    def __init__(self) -> None:
        super().__init__()
        self.token = torch.nn.Embedding(END + 1, WIDTH)
        self.position = torch.nn.Embedding(CONTEXT, WIDTH)
        self.attention = torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 3 * WIDTH))
        neurons = [torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH)]
        self.neurons = torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), *neurons)
        self.head = torch.nn.Linear(WIDTH, END + 1)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
        """Return for each token what comes next: [rows, CONTEXT, END + 1]."""
        hidden = self.token(tokens) + self.position(positions)
        query, key, value = self.attention(hidden).chunk(3, dim=-1)
        visible = (documents[:, :, None] == documents[:, None, :]).tril()
        scores = (query @ key.transpose(1, 2) / WIDTH**0.5).masked_fill(~visible, -torch.inf)
        hidden = hidden + scores.softmax(dim=-1) @ value
        return self.head(hidden + self.neurons(hidden))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--checkpoint")
    parser.add_argument("--stop-after", type=int, default=None, help="steps of this run")
    arguments = parser.parse_args()

    if not os.path.exists(arguments.dataset):
        columns = {"tokens": f"u16[{CONTEXT}]", "document_ends": "i32[]"}
        sk.pack(rows(arguments.texts), arguments.dataset, columns=columns, codecs=dict.fromkeys(columns, "zstd"))

    torch.manual_seed(1)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    loader = Loader(arguments.dataset, batch_size=16, seed=1)
    step = 0
    if arguments.checkpoint and os.path.exists(arguments.checkpoint):
        # A checkpoint of somebody else must not run code. What torch 1 reads so has no numbers.
        state = torch.load(arguments.checkpoint, weights_only=torch.__version__[0] != "1")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        step = state["step"]

    end = arguments.steps if arguments.stop_after is None else min(arguments.steps, step + arguments.stop_after)
    while step < end:
        for batch in loader:
            tokens = batch["tokens"].long()
            positions, documents, _ = boundaries(batch["document_ends"])
            scores = model(tokens, positions, documents)[:, :-1]
            # The first token of a document does not follow from the one before it.
            follows = documents[:, 1:] == documents[:, :-1]
            loss = torch.nn.functional.cross_entropy(scores[follows], tokens[:, 1:][follows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step}: loss {loss.item():.9f}", flush=True)
            if step == end:
                break
    if arguments.checkpoint:
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "loader": loader.state_dict(),
            "step": step,
        }
        torch.save(state, arguments.checkpoint)


if __name__ == "__main__":
    main()
