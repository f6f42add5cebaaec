"""The command for another processor, under qemu, gives the bytes that this machine's gives (tests/run --cross).

SHARDKIT_NATIVE_BUILD_DIR names this machine's build, with which that of SHARDKIT_BUILD_DIR is compared.
"""
import os
import subprocess
import unittest

import support
from support import CliTest

NATIVE = os.environ.get("SHARDKIT_NATIVE_BUILD_DIR", "")


@unittest.skipUnless(os.path.isfile(os.path.join(NATIVE, "tools", "shardctl")), "is for tests/run --cross, after tests/run")
class PlatformsTest(CliTest):
    def native(self, *arguments):
        done = subprocess.run([os.path.join(NATIVE, "tools", "shardctl"), *map(str, arguments)], cwd=self.folder, env=support.ENVIRONMENT,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=support.TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def pack(self, *options):
        """Packs with both, compares all files, and gives the dataset's name."""
        self.native("pack", *options, "-o", "native")
        self.shardctl("pack", *options, "-o", "cross")
        self.assertEqual(self.dataset("cross"), self.dataset("native"))
        return "native"

    def pairs(self):
        self.native("synth", "sa1b", "-o", "pairs", "--count", "5")

    def test_synthetic_input(self):
        self.pairs()
        self.shardctl("synth", "sa1b", "-o", "cross", "--count", "5")
        self.assertEqual(self.tree("cross"), self.tree("pairs"))

    def test_shards_of_files(self):
        self.native("synth", "files", "-o", "files", "--count", "403", "--size", "3000")
        self.pack("files", "--shard-samples", "50", "--block-size", "16KiB")

    def test_plans(self):
        self.native("synth", "files", "-o", "files", "--count", "2000", "--size", "100")
        self.pack("files", "--shard-samples", "300", "--block-size", "1KiB")
        plans = set()
        for options in (["--order", "shuffled"], ["--order", "window", "--shuffle-buffer", "2KiB"], ["--epoch", "3", "--lanes", "7"],
                        ["--world-size", "3", "--rank", "2", "--seed", "5"], ["--locality", "--epoch", "2"]):
            with self.subTest(options=options):
                plan = self.native("plan", "native", "--json", *options)
                self.assertEqual(self.shardctl("plan", "native", "--json", *options).out, plan)
                plans.add(plan)
        self.assertEqual(len(plans), 5)


if __name__ == "__main__":
    unittest.main()
