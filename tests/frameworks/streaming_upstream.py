#!/usr/bin/env python3
"""Runs the tests of mosaicml-streaming with shardkit.streaming in its place.

    PYTHONPATH=BUILD/python tests/frameworks/streaming_upstream.py CHECKOUT [PYTEST OPTION...]

CHECKOUT is a checkout of https://github.com/mosaicml/streaming; its tests are imported from there, and nothing of it is
changed. The Python needs what these tests import (tests/interop/requirements.txt, pytest). `streaming` and its modules
are stand-ins here: their public names are those of shardkit.streaming, and a test that uses any other is skipped as
"private". Prints how many tests of each file passed, failed and were skipped.
"""

import collections
import importlib.abc
import importlib.machinery
import os
import sys
import types

import pytest

from shardkit import streaming
from shardkit.streaming import _arguments, encodings

FILES = (
    "test_array",
    "test_barrier",
    "test_compression",
    "test_distributed",
    "test_download",
    "test_encodings",
    "test_eviction",
    "test_hashing",
    "test_laziness",
    "test_local",
    "test_mixing",
    "test_partition",
    "test_reader",
    "test_registry",
    "test_sampling",
    "test_shared",
    "test_shuffle",
    "test_spanner",
    "test_stream",
    "test_streaming",
    "test_streaming_remote",
    "test_unsafe_types",
    "test_upload",
    "test_util",
    "test_writer",
)


# Tests that look at the inside by attributes, and those that need what tests/interop/requirements.txt has not.
NOT_HERE = {
    "tests/test_eviction.py::test_eviction_": "private: dataset.shards, evict_shard, and which files a cache has",
    "tests/test_reader.py::test_accidental_shard_delete": "private: which files a cache has",
    "tests/test_compression.py::test_dataset_compression": "private: which files a cache has",
    "tests/test_encodings.py::TestMDSEncodings::test_json_invalid_data": "private: JSON._is_valid",
    "tests/test_registry.py::test_streams_registry_setup": "private: streams_registry",
    "tests/test_util.py::test_merge_index_from_": "needs pyspark",
    "tests/test_upload.py::TestGCSUploader": "needs google-cloud-storage",
}


class Private(type):
    """A name that shardkit.streaming does not have. A test that uses it is of the inside."""

    def __call__(cls, *_, **__):
        pytest.skip(f"private: {cls.__name__}")

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return private(f"{cls.__name__}.{name}")


def private(name):
    return Private(name, (), {"__module__": "private"})


def encode(name, value):
    if isinstance(value, bytes):
        return value
    return known(name).encode(value)


def known(name):
    made = encodings.coder(name)
    if made is None:
        raise ValueError(f"Unsupported encoding: {name}.")
    return made


CLASSES = {
    "Bytes": "bytes",
    "Str": "str",
    "Int": "int",
    "PIL": "pil",
    "JPEG": "jpeg",
    "PNG": "png",
    "JSON": "json",
    "JPEGArray": "jpeg_array",
    "PILList": "list[pil]",
    "JPEGList": "list[jpeg]",
    "PNGList": "list[png]",
    "StrInt": "str_int",
    "StrFloat": "str_float",
    "StrDecimal": "str_decimal",
}
CLASSES |= {
    name: name.lower()
    for name in (
        "UInt8",
        "UInt16",
        "UInt32",
        "UInt64",
        "Int8",
        "Int16",
        "Int32",
        "Int64",
        "Float16",
        "Float32",
        "Float64",
    )
}

PUBLIC = {
    "": {name: getattr(streaming, name) for name in streaming.__all__},
    "base.util": {
        "merge_index": streaming.merge_index,
        "clean_stale_shared_memory": streaming.clean_stale_shared_memory,
        "bytes_to_int": lambda value: _arguments.byte_count(value, "size"),
        "number_abbrev_to_int": lambda value: _arguments.sample_count(value, "number"),
    },
    "base.format.mds.encodings": {
        "mds_encode": encode,
        "mds_decode": lambda name, data: known(name).decode(data),
        "get_mds_encoded_size": lambda name: known(name).size,
        "get_mds_encodings": lambda: set(encodings.known_encodings()),
        "is_mds_encoding": lambda name: encodings.coder(name) is not None,
        **{name: lambda encoding=encoding: known(encoding) for name, encoding in CLASSES.items()},
    },
    "base.distributed": {"barrier": lambda: None},
}


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes the module `streaming` and all that is imported below it."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "streaming":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        below = module.__name__.partition(".")[2]
        names = PUBLIC[""] | PUBLIC.get(below, {})
        module.__dict__.update(names)
        module.__getattr__ = lambda name: missing(module.__name__, name)


def missing(module, name):
    if name.startswith("__"):
        raise AttributeError(name)
    return private(f"{module}.{name}")


class Counts:
    """Counts the tests by file."""

    def __init__(self):
        self.of = collections.defaultdict(collections.Counter)

    def pytest_collection_modifyitems(self, items):
        for item in items:
            for beginning, reason in NOT_HERE.items():
                if item.nodeid.startswith(beginning):
                    item.add_marker(pytest.mark.skip(reason=reason))

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.partition("::")[0]
        if report.failed:
            self.of[name]["failed"] += report.when == "call" or 1
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.of[name]["private" if "private: " in reason else "skipped"] += 1
        elif report.when == "call":
            self.of[name]["passed"] += 1

    def pytest_collectreport(self, report):
        name = report.nodeid.partition("::")[0]
        if report.failed:
            self.of[name]["not collected"] += 1
        elif report.skipped:
            self.of[name]["file private"] += 1


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    checkout = os.path.abspath(sys.argv[1])
    sys.meta_path.insert(0, Finder())
    sys.path.insert(0, checkout)
    os.chdir(checkout)
    counts = Counts()
    files = [os.path.join("tests", f"{name}.py") for name in FILES]
    options = [
        "-q",
        "-o",
        "addopts=",
        "-o",
        "log_cli=false",
        "-m",
        "not daily and not remote",
        "-p",
        "no:cacheprovider",
        "--tb=line",
        "--continue-on-collection-errors",
        *sys.argv[2:],
    ]
    if all(option.startswith("-") for option in sys.argv[2:]):
        options += files
    pytest.main(options, plugins=[counts])
    for name, of in sorted(counts.of.items()):
        if name.endswith(".py"):
            print(name, dict(of))
    together = counts.of.values()
    total = sum(together, collections.Counter())
    print("together", dict(total))


if __name__ == "__main__":
    main()
