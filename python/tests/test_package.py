import json
import os
import subprocess
import sys

import shardkit


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=os.environ
    ).stdout.strip()


def test_the_version_is_that_of_the_command() -> None:
    command = os.environ.get("SHARDCTL", "shardctl")
    output = subprocess.run([command, "--version"], check=True, capture_output=True, text=True).stdout
    assert output.splitlines()[0] == f"shardctl {shardkit.__version__}"


def test_importing_it_imports_no_framework() -> None:
    modules = json.loads(run("import json, sys, shardkit; print(json.dumps(sorted(sys.modules)))"))
    assert "shardkit" in modules
    assert not {"torch", "PIL", "nvidia", "pandas", "pyarrow", "tqdm"} & set(modules)


def test_every_public_name_exists() -> None:
    assert sorted(set(shardkit.__all__)) == sorted(shardkit.__all__)
    for name in shardkit.__all__:
        assert getattr(shardkit, name) is not None
