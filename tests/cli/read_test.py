"""Reading values back: cat, unpack, the read modes, and standard output that fails."""
import json
import os
import pty
import subprocess
import tarfile

import support
from support import CliTest, annotation, tiny_jpeg


class CatTest(CliTest):
    def test_values_are_the_files(self):
        self.pack_small_files()
        for key, column in [("apple", "txt"), ("apple", "json"), ("sub/cherry", "jpg"), ("sub/date", "bin"),
                            ("zucchini", "txt")]:
            with self.subTest(key=key, column=column):
                file = self.read("in", f"{key}.{column}")
                self.assertEqual(self.shardctl("cat", "out", "--key", key, "--column", column).out, file)
                self.shardctl("cat", "out", "--key", key, "-c", column, "-o", "value")
                self.assertEqual(self.read("value"), file)
        self.assertFalse([name for name in os.listdir(self.folder) if "tmp" in name])

    def test_ways_of_reading_agree(self):
        self.many_files(count=40)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "20000")
        listing = self.shardctl("ls", "out", "--values-xxh3").stdout
        for mode in ("buffered", "mmap", "direct"):
            with self.subTest(mode=mode):
                run = self.shardctl("ls", "out", "--values-xxh3", "--io", mode)
                self.assertEqual(run.stdout, listing)
                # Only one note is allowed.
                self.assertRegex(run.stderr, r"\A(shardctl: note: .*\n)?\Z")
                self.assertEqual(self.shardctl("cat", "out", "--sample", "17", "-c", "bin", "--io", mode).out,
                                 self.read("many", "000017.bin"))
                self.shardctl("validate", "out", "--io", mode)

    def test_absent_value(self):
        self.pack_small_files()
        run = self.shardctl("cat", "out", "--key", "banana", "--column", "json", code=1)
        self.assertIn("no value", run.stderr)
        self.assertEqual(run.out, b"")
        self.shardctl("cat", "out", "--key", "banana", "--column", "json", "-o", "value", code=1)
        self.assertEqual(sorted(os.listdir(self.folder)), ["in", "out"])

    def test_what_is_not_there(self):
        self.pack_small_files()
        self.assertIn("plum", self.shardctl("cat", "out", "--key", "plum", "-c", "txt", code=1).stderr)
        self.assertIn("sample 5", self.shardctl("cat", "out", "--sample", "5", "-c", "txt", code=1).stderr)
        run = self.shardctl("cat", "out", "--sample", "0", "-c", "nosuch", code=1)
        self.assertIn("nosuch", run.stderr)
        self.assertIn("txt", run.stderr)  # the existing columns

    def test_output_file_is_replaced_whole(self):
        self.pack_small_files()
        self.write("value", "old")
        os.symlink("value", self.path("link"))
        self.shardctl("cat", "out", "--key", "apple", "-c", "txt", "-o", "link")
        self.assertEqual(self.read("value"), b"An apple.\n")
        self.assertTrue(os.path.islink(self.path("link")))
        self.shardctl("cat", "out", "--key", "plum", "-c", "txt", "-o", "value", code=1)
        self.assertEqual(self.read("value"), b"An apple.\n")
        self.shardctl("cat", "out", "--key", "apple", "-c", "txt", "-o", "in", code=2)
        self.shardctl("cat", "out", "--key", "apple", "-c", "txt", "-o", "no/such/folder", code=3)

    def test_output_to_a_device_leaves_the_device(self):
        self.pack_small_files()
        self.shardctl("cat", "out", "--key", "apple", "-c", "txt", "-o", "/dev/null")
        self.assertFalse(os.path.isfile("/dev/null"))
        self.assertIn("No space", self.shardctl("cat", "out", "--key", "apple", "-c", "txt", "-o", "/dev/full", code=3).stderr)

    def test_decode(self):
        self.small_sa1b()
        self.shardctl("pack", "sa1b", "-o", "out")
        masks = self.shardctl("cat", "out", "--key", "sa_2", "-c", "masks", "--decode").json()
        self.assertEqual(masks, [annotation(0, 16, 24, k, 2 * k, 3 + k, 4)["segmentation"] for k in range(3)])
        bbox = self.shardctl("cat", "out", "--key", "sa_2", "-c", "bbox", "--decode").json()
        self.assertEqual((bbox["shape"], bbox["data"]), ([3, 4], [0, 0, 3, 4, 1, 2, 4, 4, 2, 4, 5, 4]))
        self.assertEqual(self.shardctl("cat", "out", "--key", "sa_3", "-c", "image_id", "--decode").stdout, "3\n")
        self.assertEqual(self.shardctl("cat", "out", "--key", "sa_3", "-c", "image", "--decode").out, tiny_jpeg())
        self.shardctl("cat", "out", "--key", "sa_2", "-c", "masks", "--decode", "-o", "masks.json")
        self.assertEqual(json.loads(self.read("masks.json")), masks)

    def test_large_value(self):
        value = os.urandom(1 << 20) * 40
        self.write("in/large.bin", value)
        self.write("in/small.bin", "x")
        self.shardctl("pack", "in", "-o", "out")
        self.assertEqual(self.shardctl("cat", "out", "--key", "large", "-c", "bin").out, value)
        self.shardctl("unpack", "out", "-o", "again")
        self.assertEqual(self.tree("in"), self.tree("again"))

    def test_binary_is_kept_from_terminals(self):
        self.pack_small_files()
        for column, options, code in [("jpg", [], 2), ("jpg", ["--force"], 0), ("json", [], 0)]:
            with self.subTest(column=column, options=options):
                ours, theirs = pty.openpty()
                done = subprocess.run([support.SHARDCTL, "cat", "out", "--key", "sub/cherry", "-c", column, *options],
                                      cwd=self.folder, stdout=theirs, stderr=subprocess.PIPE, check=False, timeout=60)
                os.close(theirs)
                os.close(ours)
                self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(b"", done.stderr)


class StandardOutputTest(CliTest):
    def test_full_disk(self):
        self.pack_small_files()
        for words in (["ls", "out"], ["inspect", "out"], ["--help"], ["ls", "--json", "out"], ["--version"],
                      ["cat", "out", "--sample", "0", "-c", "txt"], ["validate", "out"], ["pack", "in", "-o", "more"]):
            with self.subTest(words=words), open("/dev/full", "wb") as full:
                done = subprocess.run([support.SHARDCTL, *words], cwd=self.folder, stdout=full, stderr=subprocess.PIPE,
                                      check=False, timeout=60)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(b"standard output: write failed: No space left", done.stderr)
        self.shardctl("validate", "more")

    def test_reader_that_leaves(self):
        self.many_files(count=3000, size=10)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "1KiB")
        for words in (["ls", "out"], ["ls", "--values-xxh3", "out"], ["ls", "--json", "out"]):
            with self.subTest(words=words):
                process = self.start(*words)
                process.stdout.read(10)
                process.stdout.close()
                self.assertEqual(process.wait(60), 0)
                self.assertEqual(process.stderr.read(), b"")

    def test_closed(self):
        self.pack_small_files()
        done = subprocess.run(f"exec '{support.SHARDCTL}' ls out >&-", shell=True, cwd=self.folder, check=False,
                              stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 3, done.stderr)


class UnpackTest(CliTest):
    def test_directory_that_is_not_empty(self):
        self.pack_small_files()
        self.write("again/precious", "keep me")
        run = self.shardctl("unpack", "out", "-o", "again", code=None)
        self.assertIn(run.code, (2, 3), str(run))
        self.assertIn("again", run.stderr)
        self.assertEqual(self.tree("again"), {"precious": self.tree("again")["precious"]})

    def test_outputs_that_are_no_directory(self):
        self.pack_small_files()
        os.mkfifo(self.path("pipe"))
        os.symlink("nowhere", self.path("dangling"))
        for output in ("/dev/null", "/dev/null/x", "pipe", "dangling"):
            with self.subTest(output=output):
                run = self.shardctl("unpack", "out", "-o", output, code=2)
                self.assertIn(output.removesuffix("/x"), run.stderr)
        self.assertFalse(os.path.exists(self.path("nowhere")))

    def test_names_that_leave_the_directory(self):
        for name in ("../up.txt", "/absolute.txt", "a/../../up.txt", "a//b.txt"):
            with self.subTest(name=name), tarfile.open(self.path("in.tar"), "w") as tar:
                for member in ("good.txt", name):
                    tar.addfile(tarfile.TarInfo(member))
            run = self.shardctl("unpack", "in.tar", "-o", "deep/again", code=1)
            self.assertIn("sample 1: will not be unpacked", run.stderr)
            self.assertEqual([found for found in self.tree(".") if "up" in found or "good" in found], [])

    def test_names_longer_than_file_systems_take(self):
        with tarfile.open(self.path("in.tar"), "w", format=tarfile.GNU_FORMAT) as tar:
            tar.addfile(tarfile.TarInfo("x" * 300 + ".txt"))
        run = self.shardctl("unpack", "in.tar", "-o", "again", code=3)
        self.assertIn("at most 255", run.stderr)
        self.assertFalse(os.path.exists(self.path("again")))

    def test_ranges(self):
        self.pack_small_files()
        keys = [line.split()[1] for line in self.shardctl("ls", "out").stdout.splitlines()]
        for text, chosen in [(":", keys), ("0:5", keys), (":2", keys[:2]), ("3:", keys[3:]), ("1:3", keys[1:3]), ("2:2", []),
                             ("4:1000", keys[4:])]:
            with self.subTest(range=text):
                folder = "range-" + text.replace(":", "-")
                self.shardctl("unpack", "out", "-o", folder, "--samples", text)
                found = {name.split(".")[0] for name in (self.tree(folder) if os.path.exists(self.path(folder)) else ())}
                self.assertEqual(found, set(chosen))
