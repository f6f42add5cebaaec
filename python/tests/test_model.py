"""A short run of tests/model: random changes of datasets, compared with a model."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

MODEL = Path(__file__).resolve().parents[2] / "tests" / "model"


@pytest.mark.parametrize("seed", range(16))
def test_changes_give_what_the_model_has(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(os.fspath(MODEL))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import sequence  # type: ignore[import-not-found]

    one = sequence.Sequence(seed, os.fspath(tmp_path))
    try:
        one.run(12)
    except Exception as error:
        changes = "\n  ".join(one.log)
        raise AssertionError(f"tests/model/run --sequences 1 --seed {seed}:\n  {changes}") from error
