"""Ctrl-C, kill -9 and terminals."""
import os
import pty
import select
import signal
import socket
import tempfile
import time

import support
from support import CliTest

OPTIONS = ["--shard-samples", "10", "--block-size", "8KiB"]


class InterruptTest(CliTest):
    @classmethod
    def setUpClass(cls):
        inputs = tempfile.TemporaryDirectory(prefix="shardctl-test-", dir=support.memory())
        cls.addClassCleanup(inputs.cleanup)
        cls.inputs = support.many_files(os.path.join(inputs.name, "many"), count=1500)

    def setUp(self):
        super().setUp()
        os.symlink(self.inputs, self.path("many"))  # tests only read it

    def shards(self, folder):
        try:
            return sum(name.endswith(".shard") for name in os.listdir(self.path(folder)))
        except FileNotFoundError:
            return 0

    def interrupt_pack(self, number, after, *options):
        """Packs many/ to out/ and sends a signal when `after` shards exist."""
        return self.interrupt(["pack", "many", "-o", "out", *OPTIONS, *options], lambda: self.shards("out") >= after, number)

    def test_interrupted_pack_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                run = self.interrupt_pack(number, after=3)
                self.assertEqual(run.code, 3, str(run))
                self.assertEqual(run.stderr, "shardctl: interrupted; nothing was left behind\n")
                self.assertEqual(run.stdout, "")
                self.assertEqual(os.listdir(self.folder), ["many"])

    def test_interrupted_at_once(self):
        for i in range(40):  # seconds of work
            os.truncate(self.write(f"large/{i}.bin", ""), 64 << 20)
        process = self.start("pack", "large", "-o", "out")
        self.wait_for_handler(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.check_no_crash(support.Run(["pack"], process.returncode, out, err))
        self.assertEqual(process.returncode, 3)
        self.assertEqual(sorted(os.listdir(self.folder)), ["large", "many"])

    def test_interrupted_while_a_server_does_not_answer(self):
        convert, select = ["convert", "--to", "shard", "-o", "out"], ["filter", "--where", "a > 1", "-o", "out"]
        for words in (["validate"], convert, select):
            with self.subTest(verb=words[0]), socket.create_server(("127.0.0.1", 0)) as server:
                url = f"http://127.0.0.1:{server.getsockname()[1]}/dataset"
                process = self.start(words[0], url, *words[1:])
                connection, _ = server.accept()
                with connection:
                    connection.recv(1)
                    process.send_signal(signal.SIGINT)
                    out, err = process.communicate(timeout=60)
                self.check_no_crash(support.Run(words, process.returncode, out, err))
                self.assertEqual(process.returncode, 3, err)
                self.assertIn(b"interrupted", err)

    def test_interrupted_pack_with_resume_goes_on(self):
        self.shardctl("pack", "many", "-o", "whole", *OPTIONS)
        run = self.interrupt_pack(signal.SIGINT, 5, "--resume")
        self.assertEqual(run.code, 3, str(run))
        self.assertEqual(run.stderr, "shardctl: interrupted; finished shards are kept, run again with --resume\n")
        self.assertGreaterEqual(self.shards("out"), 5)
        self.shardctl("ls", "out", code=3)  # no dataset yet
        run = self.shardctl("pack", "many", "-o", "out", *OPTIONS, "--resume")
        self.assertIn("packed 1500 samples", run.stdout)
        self.assertIn("in this run", run.stdout)
        self.assertEqual(self.tree("out"), self.tree("whole"))

    def test_killed_pack_resumes_to_the_same_bytes(self):
        self.shardctl("pack", "many", "-o", "whole", *OPTIONS)
        whole = self.tree("whole")
        for after in (0, 1, 20, 70, 140):
            for first in ([], ["--resume"]):
                with self.subTest(after=after, first=first):
                    run = self.interrupt_pack(signal.SIGKILL, after, *first)
                    self.assertEqual(run.code, -signal.SIGKILL, str(run))
                    self.shardctl("pack", "many", "-o", "out", *OPTIONS, "--resume", "-j", "2")
                    self.assertEqual(self.tree("out"), whole)
                    support.shutil.rmtree(self.path("out"))

    def test_killed_twice(self):
        self.shardctl("pack", "many", "-o", "whole", *OPTIONS)
        for after in (10, 60):
            self.interrupt_pack(signal.SIGKILL, after, "--resume")
        self.shardctl("pack", "many", "-o", "out", *OPTIONS, "--resume")
        self.assertEqual(self.tree("out"), self.tree("whole"))

    def test_killed_pack_without_resume_starts_over(self):
        self.shardctl("pack", "many", "-o", "whole", *OPTIONS)
        self.interrupt_pack(signal.SIGKILL, 20)
        self.shardctl("pack", "many", "-o", "out", *OPTIONS)
        self.assertEqual(self.tree("out"), self.tree("whole"))

    def test_resume_with_other_options_is_refused(self):
        self.interrupt_pack(signal.SIGKILL, 10)
        kept = self.shards("out")
        for options in (["--shard-samples", "11"], [*OPTIONS, "--on-error", "skip"],
                        [*OPTIONS, "--codec", "bin=zstd"]):
            with self.subTest(options=options):
                run = self.shardctl("pack", "many", "-o", "out", *options, "--resume", code=2)
                self.assertIn("out", run.stderr)
                self.assertEqual(self.shards("out"), kept)

    def test_two_writers(self):
        process = self.start("pack", "many", "-o", "out", *OPTIONS)
        while self.shards("out") < 3 and process.poll() is None:
            time.sleep(0.0005)
        process.send_signal(signal.SIGSTOP)
        run = self.shardctl("pack", "many", "-o", "out", *OPTIONS, code=3)
        self.assertIn("out", run.stderr)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.shardctl("validate", "out")

    def test_interrupted_unpack_leaves_nothing(self):
        self.shardctl("pack", "many", "-o", "out", *OPTIONS)
        run = self.interrupt(["unpack", "out", "-o", "again"], lambda: os.path.exists(self.path("again")), output="again")
        self.assertEqual((run.code, run.stdout, run.stderr), (3, "", "shardctl: interrupted; nothing was left behind\n"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["many", "out"])

    def test_interrupted_synth(self):
        process = self.start("synth", "files", "-o", "made", "--count", "100000", "--size", "1KiB")
        while not os.path.exists(self.path("made")) and process.poll() is None:
            time.sleep(0.001)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        if process.returncode == 0:
            self.skipTest("done before the signal came")
        self.assertEqual(process.returncode, 3, err)
        self.assertIn(b"interrupted", err)
        self.assertFalse([name for _, _, names in os.walk(self.path("made")) for name in names if "partial" in name])


class TerminalTest(CliTest):
    def pack_in_terminal(self, count):
        """What is drawn while so many samples are packed."""
        self.many_files(count=count)
        ours, theirs = pty.openpty()
        process = self.start("pack", "many", "-o", f"out{count}", "--shard-samples", "5", stderr=theirs)
        os.close(theirs)
        drawn = b""
        while True:
            ready, _, _ = select.select([ours], [], [], 60)
            try:
                piece = os.read(ours, 4096) if ready else b""
            except OSError:  # the other end is closed
                piece = b""
            if not piece:
                break
            drawn += piece
        out, _ = process.communicate(timeout=60)
        os.close(ours)
        self.assertEqual(process.returncode, 0, drawn)
        self.assertNotIn(b"\r", out)
        return drawn

    def test_progress_is_drawn_and_cleared(self):
        # Nothing is drawn of what takes no time, and how long packing takes depends on the machine.
        drawn, count = b"", 2500
        while not drawn and count <= 40000:
            drawn, count = self.pack_in_terminal(count), 2 * count
        self.assertTrue(drawn.endswith(b"\r\x1b[K"), drawn[-100:])
        self.assertRegex(drawn, rb"\d+ samples, [0-9.]+ [KM]iB, [0-9.]+ MB/s")
        self.assertNotIn(b"\n", drawn)
