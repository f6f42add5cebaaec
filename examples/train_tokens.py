#!/usr/bin/env python3
"""Trains a small language model on texts packed into rows of one length. A token sees those before it in its text.

    examples/train_tokens.py TEXTS DATASET [--steps N] [--checkpoint FILE] [--stop-after N]

TEXTS is a folder of files, whose bytes are the tokens; DATASET is made of it. With --checkpoint a run goes on.
"""

import argparse
from pathlib import Path

import torch

import shardkit as sk
from shardkit.torch import Loader

CONTEXT, WIDTH = 128, 64


class Model(torch.nn.Module):
    """One layer of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.position = torch.nn.Embedding(256, WIDTH), torch.nn.Embedding(CONTEXT, WIDTH)
        self.layer = torch.nn.TransformerEncoderLayer(WIDTH, 1, 4 * WIDTH, 0.0, batch_first=True, norm_first=True)
        self.head = torch.nn.Linear(WIDTH, 256)

    def forward(self, rows: sk.TokenRows) -> torch.Tensor:
        """Return for each token what comes next: [rows, CONTEXT, 256]."""
        texts = rows.document_ids  # on a GPU, flex_attention takes rows.block_mask()
        hidden = ~(texts[:, :, None] == texts[:, None, :]).tril()
        return self.head(self.layer(self.token(rows.input_ids) + self.position(rows.position_ids), hidden))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--stop-after", type=int, default=1 << 30)
    given = parser.parse_args()
    if not given.dataset.exists():
        texts = (path.read_bytes() for path in sorted(given.texts.rglob("*")) if path.is_file())
        sk.pack(({"text": text} for text in texts), given.dataset, columns={"text": "bytes"})
    loader = Loader(given.dataset, 16, columns={"text": sk.Tokens(CONTEXT, "concat")}, remainder="drop", seed=1)
    torch.manual_seed(1)
    model, begin = Model(), 0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    if given.checkpoint and given.checkpoint.exists():
        begin, weights, state = torch.load(given.checkpoint)
        model.load_state_dict(weights)
        loader.load_state_dict(state)
    batches = (batch for epoch in loader.epochs(1 << 30) for batch in epoch)
    for step, batch in zip(range(begin, end := min(given.steps, begin + given.stop_after)), batches, strict=False):
        rows = batch["text"]
        loss = torch.nn.functional.cross_entropy(model(rows).mT, rows.labels(shifted=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.6f}")
    if given.checkpoint:
        torch.save((end, model.state_dict(), loader.state_dict()), given.checkpoint)


if __name__ == "__main__":
    main()
