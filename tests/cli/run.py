#!/usr/bin/python3
"""Tests of shardctl as its users see it: output, exit codes, files left on disk.

    tests/cli/run.py [--shardctl PATH] [--data DIR] [--update] [--filter PATTERN] [--part I/N] [-v]

The command comes from --shardctl or the variable SHARDCTL. Real data comes from --data, SHARDKIT_TEST_DATA or ../shared/data
beside the repository; tests that need it are skipped when there is none. --update rewrites the golden files (golden/*.txt) from
the command's present output: read the difference before you commit it. --part 1/2 and --part 2/2 run half of the files each.
Standard library only.
"""
import argparse
import fnmatch
import os
import signal
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import support  # noqa: E402  (needs the path above)

MODULES = ["usage_test", "mistakes_test", "golden_test", "json_test", "pack_test", "append_test", "columns_test", "convert_test", "filter_test", "remove_test", "reshape_test", "view_test", "read_test", "plan_test",
           "simulate_test",
           "bench_test", "device_test", "damage_test", "hashes_test", "sha256_test", "skip_test", "limits_test", "repair_test",
           "foreign_index_test",
           "interrupt_test", "system_calls_test", "documentation_test", "real_data_test"]


def flatten(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flatten(test)
        else:
            yield test


def part_of(text):
    """The modules of part I of N, as I/N."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts <= len(MODULES):
        raise ValueError
    return MODULES[part - 1::parts]


def main():
    # In the background, or under nohup, these signals are ignored. shardctl would inherit that and keep ignoring them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    parser = argparse.ArgumentParser(description="Tests of shardctl.")
    parser.add_argument("--shardctl", default=os.environ.get("SHARDCTL"), help="the command to test")
    parser.add_argument("--data", default=os.environ.get("SHARDKIT_TEST_DATA"), help="folder of real data")
    parser.add_argument("--update", action="store_true", help="rewrite the golden files")
    parser.add_argument("--filter", default="*", help="only tests whose name matches, * and ? allowed")
    parser.add_argument("--part", type=part_of, default="1/1", metavar="I/N", help="only the I-th of N parts")
    parser.add_argument("-v", "--verbose", action="store_true", help="name every test")
    options = parser.parse_args()
    if not options.shardctl or not os.path.isfile(options.shardctl):
        parser.error(f"no command to test: {options.shardctl!r}: give --shardctl PATH, or build first")
    beside = os.path.join(support.ROOT, "..", "shared", "data")
    support.SHARDCTL = os.path.abspath(options.shardctl)
    support.DATA = os.path.abspath(options.data or beside)
    support.UPDATE = options.update

    tests = [test for test in flatten(unittest.defaultTestLoader.loadTestsFromNames(options.part))
             if fnmatch.fnmatchcase(test.id(), f"*{options.filter}*")]
    outcome = unittest.TextTestRunner(stream=sys.stdout, verbosity=2 if options.verbose else 1).run(
        unittest.TestSuite(tests))
    failed = {getattr(test, "test_case", test).id() for test, _ in outcome.failures + outcome.errors}
    skipped = {getattr(test, "test_case", test).id() for test, _ in outcome.skipped} - failed
    for test, reason in outcome.skipped:
        print(f"skipped {test.id()}: {reason}")
    # tests/report.py reads this line.
    print(f"{max(outcome.testsRun - len(failed) - len(skipped), 0)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or not outcome.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
