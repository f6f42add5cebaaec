#!/usr/bin/env python3
"""Trains a small language model on texts packed into rows of one length. The same command again goes on with it.

    examples/quickstart_text.py [TEXTS] [--out FOLDER] [--steps N] [--every N]

TEXTS is a file of lines of JSON with a member "text"; without it, sentences are made up. FOLDER gets the dataset of
tokens and a checkpoint. A token sees those before it in its own text.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

import shardkit as sk
from shardkit.torch import Loader

CONTEXT, WIDTH, VOCABULARY, ROWS = 128, 64, 256, 8


def tokens_of(text: str) -> np.ndarray:
    """Return the bytes of a text: put your tokenizer here, and its size into VOCABULARY."""
    return np.frombuffer(text.encode(), np.uint8).astype(np.uint16)


def sentences(count: int = 2000) -> Iterator[str]:
    """Make up short texts."""
    for i in range(count):
        random = np.random.default_rng(i)
        words = random.choice(["the loader", "a shard", "one sample", "reads", "gives", "keeps", "and"], 8)
        yield " ".join([*words, f"in step {i}."])


class Model(torch.nn.Module):
    """One layer of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.position = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Embedding(CONTEXT, WIDTH)
        self.layer = torch.nn.TransformerEncoderLayer(WIDTH, 1, 4 * WIDTH, 0.0, batch_first=True, norm_first=True)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, rows: sk.TokenRows) -> torch.Tensor:
        """Return for each token what comes next: [rows, CONTEXT, VOCABULARY]."""
        texts = rows.document_ids  # on a GPU, flex_attention takes rows.block_mask()
        hidden = ~(texts[:, :, None] == texts[:, None, :]).tril()
        return self.head(self.layer(self.token(rows.input_ids) + self.position(rows.position_ids), hidden))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("quickstart-text"))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=20, help="steps from one checkpoint to the next")
    given = parser.parse_args()

    data, saved = given.out / "dataset", given.out / "checkpoint.pt"
    if not (data / "dataset.json").exists():
        texts = (json.loads(line)["text"] for line in given.texts.open()) if given.texts else sentences()
        print(sk.pack(({"tokens": tokens_of(text)} for text in texts), data, columns={"tokens": "u16[]"}))
    loader = Loader(data, ROWS, columns={"tokens": sk.Tokens(CONTEXT, "concat")}, remainder="drop", seed=1)
    torch.manual_seed(1)
    model, begin = Model(), 0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    parts = {"model": model, "optimizer": optimizer, "loader": loader}
    if saved.exists():
        state = torch.load(saved)
        begin = state["step"]
        for name, part in parts.items():
            part.load_state_dict(state[name])

    batches = (batch for epoch in loader.epochs(1 << 30) for batch in epoch)
    start = time.perf_counter()
    for step, batch in zip(range(begin + 1, given.steps + 1), batches, strict=False):
        rows = batch["tokens"]
        loss = torch.nn.functional.cross_entropy(model(rows).mT, rows.labels(shifted=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        speed = (step - begin) * ROWS * CONTEXT / (time.perf_counter() - start)
        print(f"step {step}: loss {loss.item():.6f}, {speed:.0f} tokens/s", flush=True)
        if step % given.every == 0 or step == given.steps:
            torch.save({"step": step, **{name: part.state_dict() for name, part in parts.items()}}, f"{saved}.tmp")
            os.replace(f"{saved}.tmp", saved)  # always a whole one


if __name__ == "__main__":
    main()
