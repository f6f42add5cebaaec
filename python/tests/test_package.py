import ast
import inspect
import json
import os
import subprocess
import sys
import typing

import pytest

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


def test_importing_it_imports_no_module_of_its_own() -> None:
    modules = json.loads(run("import json, sys, shardkit; print(json.dumps(sorted(sys.modules)))"))
    assert [name for name in modules if name.startswith("shardkit")] == ["shardkit", "shardkit._core"]


def test_a_loader_imports_nothing_for_other_processes_or_other_formats() -> None:
    modules = json.loads(run("import json, sys; from shardkit import Loader; print(json.dumps(sorted(sys.modules)))"))
    assert "shardkit.loader" in modules
    rest = {"change", "jobs", "sources", "loader_report", "_processes", "_rows", "_from_arrow", "_to_arrow"}
    assert not {f"shardkit.{name}" for name in rest} & set(modules)
    assert not {"multiprocessing", "logging", "html", "gzip"} & set(modules)


def test_names_are_found_where_type_checkers_find_them() -> None:
    tree = ast.parse(inspect.getsource(shardkit))
    imports = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
    seen = {name.name: each.module for each in imports for name in each.names if name.name in shardkit.__all__}
    assert sorted(seen) == shardkit.__all__
    homes = {name: f"shardkit.{module}" for module, names in shardkit._NAMES.items() for name in names}
    assert homes == {name: module for name, module in seen.items() if module != "shardkit._core"}


def test_names_are_what_their_modules_define() -> None:
    code = (
        "import importlib, shardkit\n"
        "for module, names in shardkit._NAMES.items():\n"
        "    for name in names:\n"
        "        assert getattr(shardkit, name) is getattr(importlib.import_module('shardkit.' + module), name), name\n"
        "from shardkit import *\n"
        "assert {'Loader', 'plan', 'rows', '__version__'} <= globals().keys()\n"
        "assert callable(plan) and callable(rows)\n"
    )
    run(code)


def test_annotations_mean_something_while_the_program_runs() -> None:
    seen = 0
    for public in (getattr(shardkit, name) for name in shardkit.__all__):
        found = [public]
        if inspect.isclass(public):
            members = inspect.getmembers_static(public) if sys.version_info >= (3, 11) else vars(public).items()
            found += [getattr(member, "fget", None) or getattr(member, "__func__", member) for _, member in members]
        for each in found:
            # Those of the extension are compiled.
            if (inspect.isfunction(each) or inspect.isclass(each)) and each.__module__.startswith("shardkit."):
                typing.get_type_hints(each)
                seen += 1
    assert seen > 300


def test_modules_are_attributes_and_other_names_are_none() -> None:
    run("import shardkit; shardkit.sources.parquet, shardkit.columns.Boxes, shardkit.reports.Packed")
    assert {*shardkit.__all__, "__doc__"} <= set(dir(shardkit))
    assert not hasattr(shardkit, "nope")
    with pytest.raises(ImportError, match="nope"):
        exec("from shardkit import nope")
