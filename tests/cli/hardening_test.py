"""How the programs and libraries were compiled: what a mistake in the parsing of a hostile file could do stays small."""
import glob
import json
import os
import re
import subprocess
import unittest

import support

BUILD = os.path.dirname(os.path.dirname(support.SHARDCTL))


def readelf(option, path):
    return subprocess.run(["readelf", "--wide", option, path], capture_output=True, text=True, check=True).stdout


def optimized_without_sanitizer():
    with open(os.path.join(BUILD, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as file:
        options = {option["name"]: option["value"] for option in json.load(file)}
    return options["optimization"] in "123s" and options["b_sanitize"] in ([], "none")


@unittest.skipUnless(optimized_without_sanitizer(), "a build with a sanitizer or without optimization")
class HardeningTest(unittest.TestCase):
    def check(self, path):
        self.assertRegex(readelf("--file-header", path), r"Type:\s+DYN ")  # the loader chooses the address
        segments = readelf("--segments", path)
        self.assertIn("GNU_RELRO", segments)
        self.assertRegex(segments, r"GNU_STACK.* RW ", "the stack is not executable")
        self.assertNotRegex(segments, r"LOAD.* RWE ")
        self.assertRegex(readelf("--dynamic", path), r"\(FLAGS\).*BIND_NOW|\(BIND_NOW\)|\(FLAGS_1\).*\bNOW\b")
        symbols = readelf("--dyn-syms", path)
        self.assertIn("__stack_chk_fail", symbols)
        self.assertTrue(re.search(r" __\w+_chk@", symbols), "no call is fortified")

    def test_command(self):
        self.check(support.SHARDCTL)
        self.assertRegex(readelf("--dynamic", support.SHARDCTL), r"\(FLAGS_1\).*\bPIE\b")

    def test_libraries(self):
        libraries = glob.glob(os.path.join(BUILD, "lib", "libshardkit.so")) + \
            glob.glob(os.path.join(BUILD, "python", "shardkit", "_core*.so"))
        self.assertTrue(libraries)
        for path in libraries:
            with self.subTest(path=os.path.basename(path)):
                self.check(path)
