"""shardctl when system calls do less than asked, are interrupted, or fail one after the other.

tests/support/faulty_calls.cc, loaded before the C library, causes that. SHARDKIT_CALL_SEEDS (default 2) is the number of
random runs. Of all calls, every SHARDKIT_CALL_STEPth (default 7) is made to fail.
"""
import contextlib
import errno
import os
import random
import shutil
import subprocess
import unittest

import support

SEEDS = int(os.environ.get("SHARDKIT_CALL_SEEDS", "2"))
STEP = int(os.environ.get("SHARDKIT_CALL_STEP", "7"))
ERRORS = (errno.EIO, errno.ENOSPC, errno.EAGAIN)


def library():
    """The shared library beside the tested command, or the reason why it cannot be used."""
    build = os.path.dirname(os.path.dirname(support.SHARDCTL))
    path = os.path.join(build, "tests", "support", "libfaulty_calls.so")
    if not os.path.exists(path):
        return None, f"{path} was not built"
    linked = subprocess.run(["ldd", support.SHARDCTL], capture_output=True, text=True, check=False).stdout
    with open(support.SHARDCTL, "rb") as file:
        if "libasan" in linked or "libtsan" in linked or b"__asan_init" in file.read():
            return None, "a sanitizer wants to be loaded first itself"
    return path, None


class SystemCallsTest(support.CliTest):
    def setUp(self):
        super().setUp()
        self.library, reason = library()
        if self.library is None:
            self.skipTest(reason)
        generator = random.Random(11)
        for i in range(8):
            self.write(f"in/s{i:02}.bin", generator.randbytes(generator.randrange(100, 30000)))
            self.write(f"in/s{i:02}.txt", f"sample {i}\n" * generator.randrange(1, 400))
        self.shardctl(*self.pack("data"))
        self.shardctl("convert", "data", "-o", "mds", "--to", "mds")
        self.shardctl("convert", "data", "-o", "tars", "--to", "webdataset")
        shutil.copytree(self.path("data"), self.path("damaged"))
        shard = self.path("damaged", "00000000.shard")
        os.truncate(shard, os.path.getsize(shard) - 1000)
        # The words of each command and its output path. Without a path, the result is the printed text.
        self.commands = {
            "pack": (self.pack("out"), "out"),
            "validate": (["validate", "data"], None),
            "validate mds": (["validate", "mds"], None),
            "validate tars": (["validate", "tars"], None),
            "cat": (["cat", "data", "--sample", "5", "--column", "bin"], None),
            "ls": (["ls", "data", "--values-xxh3"], None),
            "ls tars": (["ls", "tars", "--values-xxh3"], None),
            "unpack": (["unpack", "data", "-o", "out", "-j", "1"], "out"),
            "convert to mds": (["convert", "data", "-o", "out", "--to", "mds", "-j", "1"], "out"),
            "convert to tars": (["convert", "data", "-o", "out", "--to", "webdataset", "-j", "1"], "out"),
            "convert from mds": (["convert", "mds", "-o", "out", "--to", "shard", "-j", "1"], "out"),
            "repair": (["repair", "damaged", "-o", "out"], "out"),
        }

    @staticmethod
    def pack(output):
        return ["pack", "--from", "files", "in", "-o", output, "--shard-samples", "4", "--block-size", "16KiB", "-j", "1"]

    def run_with(self, arguments, **settings):
        environment = dict(os.environ, LC_ALL="C.UTF-8", LD_PRELOAD=self.library,
                           **{f"SHARDKIT_CALLS_{name.upper()}": str(value) for name, value in settings.items()})
        done = subprocess.run([support.SHARDCTL, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=support.TIMEOUT, check=False)
        run = support.Run(arguments, done.returncode, done.stdout, done.stderr)
        self.check_no_crash(run)
        return run

    def outcome(self, output, run):
        """The result of a command: its files, or its printed text."""
        return self.tree(output) if output else run.out

    def undisturbed(self, arguments, output):
        run = self.shardctl(*arguments, code=None)
        self.assertIn(run.code, (0, 4), str(run))
        expected = self.outcome(output, run)
        self.assertTrue(expected)
        self.clear(output)
        return run.code, expected

    def clear(self, output):
        if output:
            shutil.rmtree(self.path(output), ignore_errors=True)

    @contextlib.contextmanager
    def cleared(self, output):
        try:
            yield
        finally:
            self.clear(output)

    def check_left(self, name, arguments, output, code, expected, run):
        """After a failure there is no dataset, or a whole one if only the cleanup failed. A new attempt is possible."""
        left = self.tree(output)
        if any(path in left for path in ("dataset.json", "index.json", "shardkit.json")):
            self.assertEqual({path: left[path] for path in left if path in expected or not path.startswith(".shardkit/")}, expected, run)
        elif name not in ("unpack", "repair"):
            self.shardctl(*arguments, code=code)
            self.assertEqual(self.tree(output), expected)

    def test_short_and_interrupted_calls(self):
        for name, (arguments, output) in self.commands.items():
            code, expected = self.undisturbed(arguments, output)
            for seed in range(1, SEEDS + 1):
                with self.subTest(command=name, seed=seed):
                    run = self.run_with(arguments, seed=seed)
                    self.assertEqual(run.code, code, str(run))
                    self.assertEqual(self.outcome(output, run), expected)
                    self.clear(output)

    def fail_each_call(self, name, error_of, step=STEP):
        arguments, output = self.commands[name]
        code, expected = self.undisturbed(arguments, output)
        log = self.path("log")
        failures = 0
        for number in range(1, 2000, step):
            error = error_of(number)
            if os.path.exists(log):
                os.remove(log)
            run = self.run_with(arguments, fail=f"{number}:{error}", log=log)
            with open(log, encoding="utf-8") as file:
                lines = file.read().splitlines()
            hit = [line for line in lines if not line.startswith("counted")]
            with self.subTest(command=name, call=number, hit=hit, error=error), self.cleared(output):
                self.assertIn(run.code, (code, 1, 3), str(run))
                if run.code == code:
                    self.assertEqual(self.outcome(output, run), expected, str(run))
                else:
                    failures += 1
                    self.assertRegex(run.stderr, r"(?m)^shardctl: \S+: ", str(run))
                    if error != "end":
                        self.assertRegex(run.stderr, rf"(?m)^shardctl: \S+: cannot [a-z ]+.*{os.strerror(error)}", str(run))
                    if output:
                        self.check_left(name, arguments, output, code, expected, str(run))
            if not hit:
                self.assertGreater(failures, 0)
                return
        self.fail("it makes calls without end")

    def test_each_call_of_packing_fails(self):
        self.fail_each_call("pack", lambda number: ERRORS[number % 3])

    def test_each_call_of_unpacking_fails(self):
        self.fail_each_call("unpack", lambda number: ERRORS[number % 3])

    def test_each_call_of_converting_fails(self):
        self.fail_each_call("convert to mds", lambda number: ERRORS[number % 3])
        self.fail_each_call("convert to tars", lambda number: ERRORS[number % 3])

    def test_each_call_of_reading_fails(self):
        for name in ("validate", "cat", "ls tars"):
            self.fail_each_call(name, lambda number: ERRORS[number % 3])

    def test_files_that_end_too_early(self):
        for name in ("cat", "validate mds", "convert from mds"):
            self.fail_each_call(name, lambda number: "end", step=1)  # few calls of them are reads


if __name__ == "__main__":
    unittest.main()
