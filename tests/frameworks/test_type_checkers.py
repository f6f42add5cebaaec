"""Programs that use the package under pyright; python/tests/test_typing.py has them, and mypy."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shardkit as sk

PROGRAMS = runpy.run_path(os.fspath(Path(__file__).resolve().parents[2] / "python" / "tests" / "test_typing.py"))


def found(folder: Path, program: str) -> list[dict[str, Any]]:
    """Return what pyright finds in a program, strictly."""
    pytest.importorskip("pyright")
    (folder / "program.py").write_text(program)
    settings = {"typeCheckingMode": "strict", "extraPaths": [os.fspath(Path(sk.__file__).parents[1])]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "program.py"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, timeout=300)
    problems: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    return problems


def test_a_program_that_is_right(tmp_path: Path) -> None:
    assert found(tmp_path, PROGRAMS["RIGHT"]) == []


def test_programs_that_are_wrong(tmp_path: Path) -> None:
    problems = found(tmp_path, "import shardkit as sk\n" + "\n".join(PROGRAMS["WRONG"]) + "\n")
    assert {each["range"]["start"]["line"] for each in problems} == set(range(1, 1 + len(PROGRAMS["WRONG"])))
