"""A short run of tests/model: random changes of datasets, compared with a model."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

MODEL = Path(__file__).resolve().parents[2] / "tests" / "model"


@pytest.mark.parametrize("seed", range(100))
def test_changes_give_what_the_model_has(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(os.fspath(MODEL))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import sequence  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory(dir=sequence.MEMORY) as folder:
        one = sequence.Sequence(seed, folder)
        try:
            one.run(12)
        except Exception as error:
            changes = "\n  ".join(one.log)
            raise AssertionError(f"tests/model/run --sequences 1 --seed {seed}:\n  {changes}") from error
