#!/usr/bin/env python3
"""Stops every verb that writes, at random moments and by every signal, and runs it where it cannot write: a full disk, a limit on the
length of files, a read-only directory. No unfinished file has a final name, and a later run gives the same bytes.

SHARDCTL names the program. SHARDKIT_KILL_ROUNDS (4) is the number of moments for each verb and signal.
"""

import errno
import fcntl
import hashlib
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SHARDCTL = os.path.abspath(os.environ.get("SHARDCTL", "shardctl"))
ROUNDS = int(os.environ.get("SHARDKIT_KILL_ROUNDS", "4"))
SEED = 20251104
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def make_tree(directory):
    generator = random.Random(SEED)
    directory.mkdir()
    for i in range(400):
        (directory / f"s{i:05}.bin").write_bytes(generator.randbytes(generator.randrange(500, 6000)))
        (directory / f"s{i:05}.txt").write_text(f"sample {i}\n" * generator.randrange(1, 50))


def tree(directory):
    if directory.is_file():
        return {"": hashlib.sha256(directory.read_bytes()).hexdigest()}
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


class Verb:
    """A command, its output path, and its output when nothing stops it."""

    def __init__(self, name, arguments, output, resumes=False, code=0, prepare=None):
        self.name, self.arguments, self.output = name, arguments, output
        self.resumes, self.code, self.prepare = resumes, code, prepare
        self.expected, self.duration = None, 0.0


class VerbsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = os.environ.get("SHARDKIT_KILL_DIR") or ("/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="shardkit-verbs-", dir=place))
        make_tree(cls.folder / "in")
        cls.run_command(cls.pack("data"))
        cls.run_command(["convert", "data", "-o", "mds", "--to", "mds"])
        cls.run_command(["convert", "data", "-o", "tars", "--to", "webdataset"])
        shutil.copytree(cls.folder / "data", cls.folder / "damaged")
        shard = cls.folder / "damaged" / "00000001.shard"
        os.truncate(shard, shard.stat().st_size * 2 // 3)
        tar = sorted((cls.folder / "tars").glob("*.tar"))[0].name

        def fresh_copy(name):
            def copy():
                shutil.rmtree(cls.folder / "copy", ignore_errors=True)
                shutil.copytree(cls.folder / name, cls.folder / "copy")

            return copy

        cls.verbs = [
            Verb("pack", cls.pack("out"), "out", resumes=True),
            Verb("convert to mds", ["convert", "data", "-o", "out", "--to", "mds", "--shard-samples", "40"], "out", resumes=True),
            Verb("convert to tars", ["convert", "mds", "-o", "out", "--to", "webdataset", "--shard-samples", "40"], "out", resumes=True),
            Verb("unpack", ["unpack", "data", "-o", "out"], "out"),
            Verb("repair", ["repair", "damaged", "-o", "out"], "out", code=4),
            Verb("index", ["index", "copy"], "copy", prepare=fresh_copy("data")),
            Verb("index of a tar", ["index", f"copy/{tar}"], "copy", prepare=fresh_copy("tars")),
            Verb("filter", ["filter", "mds", "-o", "out", "--range", "7:", "--shard-size", "64KiB"], "out", resumes=True),
            Verb("filter by reference", ["filter", "data", "-o", "out", "--range", "7:", "--by-reference"], "out"),
            Verb("split by reference", ["split", "data", "-o", "out", "--into", "a=20%,b=80%", "--by-reference"], "out"),
            Verb("split", ["split", "data", "-o", "out", "--into", "a=20%,b=80%", "--shard-size", "64KiB"], "out", resumes=True),
        ]
        for verb in cls.verbs:
            cls.clear(verb)
            begin = time.monotonic()
            cls.run_command(verb.arguments, code=verb.code)
            verb.duration = time.monotonic() - begin
            verb.expected = tree(cls.folder / verb.output)
            cls.clear(verb)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @staticmethod
    def pack(output):
        return ["pack", "--from", "files", "in", "-o", output, "--shard-samples", "40", "--block-size", "16KiB", "-j", "2"]

    @classmethod
    def run_command(cls, arguments, code=0, **keywords):
        result = subprocess.run([SHARDCTL, *arguments], cwd=cls.folder, capture_output=True, text=True, timeout=120, check=False, **keywords)
        if code is not None and result.returncode != code:
            raise AssertionError(f"{arguments}: exit {result.returncode}: {result.stderr}")
        return result

    @classmethod
    def clear(cls, verb):
        shutil.rmtree(cls.folder / "out", ignore_errors=True)
        if verb.prepare:
            verb.prepare()

    def check_left(self, verb, before):
        """Each file is as before, as after, or missing. Temporary files have other names."""
        output = self.folder / verb.output
        for name, digest in (tree(output) if output.exists() else {}).items():
            if name.endswith((".tmp", ".partial")) or ".shardkit/" in name:
                continue
            # unpack needs an empty directory, and a later run refuses the leftovers: nobody can mistake them for a whole output.
            if verb.name == "unpack":
                self.assertIn(name, verb.expected)
                continue
            self.assertIn(digest, (before.get(name), verb.expected.get(name)), f"{verb.name}: {name} is neither old nor new")

    def finish(self, verb):
        """A later run completes the output, or starts again after the leftovers are removed."""
        if verb.resumes:
            self.run_command([*verb.arguments, "--resume"])
        else:
            result = self.run_command(verb.arguments, code=None)
            if result.returncode != verb.code:
                self.assertIn(verb.output, result.stderr)
                self.clear(verb)
                self.run_command(verb.arguments, code=verb.code)
        self.assertEqual(tree(self.folder / verb.output), verb.expected)

    def test_signals_at_random_moments(self):
        generator = random.Random(SEED)
        stopped = 0
        for verb in self.verbs:
            for number in SIGNALS:
                for i in range(ROUNDS):
                    delay = (i + generator.random()) / ROUNDS * verb.duration
                    with self.subTest(verb=verb.name, signal=number.name, delay=delay):
                        self.clear(verb)
                        output = self.folder / verb.output
                        before = tree(output) if output.exists() else {}
                        process = subprocess.Popen(
                            [SHARDCTL, *verb.arguments], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
                        )
                        time.sleep(delay)
                        process.send_signal(number)
                        _, errors = process.communicate(timeout=60)
                        self.assertIn(process.returncode, (verb.code, 3, -number), errors)
                        if process.returncode == verb.code:
                            self.assertEqual(tree(output), verb.expected)
                            continue
                        stopped += 1
                        self.check_left(verb, before)
                        self.finish(verb)
        self.assertGreater(stopped, len(self.verbs))

    def test_two_runs_on_one_output(self):
        for verb in self.verbs[:3]:
            with self.subTest(verb=verb.name):
                self.check_refusal(verb, "another run", "out")

    def test_two_repairs_on_one_output(self):
        self.check_refusal(self.verbs[4], "another", "out")

    def check_refusal(self, verb, said, place):
        """The first process is stopped in the middle, while it holds the lock, so that it cannot finish."""
        for _ in range(100):
            self.clear(verb)
            first = subprocess.Popen([SHARDCTL, *verb.arguments], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            while not self.lock_of(self.folder / "out").exists() and first.poll() is None:
                time.sleep(0.0002)
            first.send_signal(signal.SIGSTOP)
            try:
                # The signal takes effect with a delay. The process surely keeps its lock only after it is seen to be stopped.
                stopped = first.returncode is None and (
                    os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT).si_code == os.CLD_STOPPED
                )
                if stopped and self.is_locked(self.lock_of(self.folder / "out")):
                    second = self.run_command(verb.arguments, code=3)
                    self.assertIn(said, second.stderr)
                    self.assertIn(place, second.stderr)
                    return
            finally:
                first.send_signal(signal.SIGCONT)
                first.communicate(timeout=60)
                if first.returncode == verb.code:
                    self.assertEqual(tree(self.folder / "out"), verb.expected)
        self.fail("the first run is always done before it can be stopped")

    @staticmethod
    def lock_of(directory):
        return directory / ".shardkit/lock"

    @staticmethod
    def is_locked(path):
        try:
            with open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def check_failure(self, verb, result, *said):
        """An error of the environment that names the failed operation. The files that exist are whole."""
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertRegex(result.stderr, r"(?m)^shardctl: \S+: cannot ")
        for text in said:
            self.assertIn(text, result.stderr)

    def test_a_limit_on_the_length_of_files(self):
        """SIGXFSZ must not end the program. Its default action would do so silently."""
        for verb in self.verbs:
            self.clear(verb)
            output = self.folder / verb.output
            before = tree(output) if output.exists() else {}
            limit = 2000 if verb.name.startswith("index") or verb.name.endswith("by reference") else 20000
            if verb.name in ("unpack",):
                limit = 1000
            result = self.run_command(
                verb.arguments, code=None, preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            )
            with self.subTest(verb=verb.name):
                self.check_failure(verb, result, os.strerror(errno.EFBIG), "ulimit -f")
                self.check_left(verb, before)

    def mounted(self, command, options):
        """Runs `command` in a shell with a small file system at ./mount. Skips the test when mounting is not allowed."""
        (self.folder / "mount").mkdir(exist_ok=True)
        script = f"mount -t tmpfs -o size=300k none mount || exit 77\n{options}\n{command}"
        isolated = ["unshare", "-rm"] if os.geteuid() != 0 else ["unshare", "-m"]
        if shutil.which("unshare") is None:
            self.skipTest("no file system can be mounted: there is no unshare")
        result = subprocess.run(
            [*isolated, "sh", "-c", script], cwd=self.folder, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "SHARDCTL": SHARDCTL}
        )
        if result.returncode == 77 or "unshare" in result.stderr:
            self.skipTest(f"no file system can be mounted: {result.stderr.strip()}")
        return result

    def test_a_full_disk(self):
        for verb in self.verbs[:5]:
            arguments = " ".join("mount/out" if argument == "out" else argument for argument in verb.arguments)
            result = self.mounted(f'"$SHARDCTL" {arguments}; code=$?; ls -A mount/out mount >&2; exit $code', "")
            with self.subTest(verb=verb.name):
                self.check_failure(verb, result, os.strerror(errno.ENOSPC), "free some space", "mount/out")
                self.assertNotIn("dataset.json", result.stderr)
                self.assertNotIn(".tmp", result.stderr.replace(".tmp: cannot", ""))

    def test_a_directory_that_is_read_only(self):
        for verb in self.verbs[:5]:
            arguments = " ".join("mount/out" if argument == "out" else argument for argument in verb.arguments)
            result = self.mounted(f'"$SHARDCTL" {arguments}', "mount -o remount,ro mount || exit 77")
            with self.subTest(verb=verb.name):
                self.check_failure(verb, result, os.strerror(errno.EROFS), "mount/out")
        (self.folder / "few").mkdir()
        shutil.copy(self.folder / "in" / "s00000.bin", self.folder / "few")
        result = self.mounted('"$SHARDCTL" index mount/data',
                              '"$SHARDCTL" pack --from files few -o mount/data >&2; mount -o remount,ro mount || exit 77')
        self.check_failure(None, result, os.strerror(errno.EROFS), "mount/data")

    def test_standard_output_that_is_full(self):
        for arguments in (["ls", "data"], ["inspect", "data"], ["cat", "data", "--sample", "3", "--column", "bin"],
                          ["validate", "data", "--json"]):
            with self.subTest(arguments=arguments), open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([SHARDCTL, *arguments], cwd=self.folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
                self.assertEqual(result.returncode, 3, result.stderr)
                self.assertIn(os.strerror(errno.ENOSPC), result.stderr)


if __name__ == "__main__":
    if shutil.which(SHARDCTL) is None:
        sys.exit(f"{SHARDCTL} is no program; set SHARDCTL")
    unittest.main(verbosity=2)
