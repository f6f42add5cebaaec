"""Damaged files: exit code 1, a message with the place, and never a crash or a wrong value."""
import os
import shutil

from support import CliTest, tiny_jpeg


class DamageTest(CliTest):
    def setUp(self):
        super().setUp()
        self.many_files("in", count=60)
        self.shardctl("pack", "in", "-o", "out", "--shard-samples", "30", "--block-size", "16KiB")
        self.shards = sorted(name for name in os.listdir(self.path("out")) if name.endswith(".shard"))

    def flip(self, name, offset, mask=1):
        with open(self.path(name), "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ mask]))

    def find(self, name, content):
        return self.read(name).index(content)

    def test_flipped_byte_of_a_value(self):
        shard = f"out/{self.shards[1]}"
        block = next(i for i in range(100) if self.block_holds(shard, i, 10))
        self.flip(shard, self.find(shard, self.read("in", "000040.bin")) + 77)
        run = self.shardctl("validate", "out", code=1)
        self.assertIn(self.shards[1], run.stderr)
        self.assertIn(f"block {block}", run.stderr)
        self.assertNotIn(self.shards[0], run.stderr)
        self.assertRegex(run.stdout, r"1 problem")
        self.assertEqual(self.shardctl("cat", "out", "--key", "000039", "-c", "bin").out, self.read("in", "000039.bin"))
        self.assertIn(f"block {block}", self.shardctl("cat", "out", "--key", "000040", "-c", "bin", code=1).stderr)
        self.assertIn(f"block {block}", self.shardctl("ls", "out", "--long", code=1).stderr)
        self.shardctl("ls", "out")  # reads only keys
        self.shardctl("unpack", "out", "-o", "again", code=1)
        self.shardctl("cat", "out", "--key", "000040", "-c", "bin", "-o", "value", code=1)
        self.assertFalse(os.path.exists(self.path("value")))
        self.assertFalse([name for name in os.listdir(self.folder) if "tmp" in name])

    def block_holds(self, shard, block, sample):
        document = self.shardctl("inspect", shard, "--block", str(block), "--json").json()
        return document["first_sample"] <= sample < document["first_sample"] + document["samples"]

    def test_every_region_of_a_shard(self):
        shard = f"out/{self.shards[0]}"
        whole = self.read(shard)
        size = len(whole)
        # In the header, between header and first block, in blocks, footer and trailer.
        offsets = [0, 9, 17, 21, 41, 60, 4096, 4104, 4160, 4300, size // 3, size // 2, size - 3000, size - 400, size - 104,
                   size - 96, size - 64, size - 40, size - 20, size - 12, size - 1]
        for offset in offsets:
            with self.subTest(offset=offset):
                self.flip(shard, offset, 0x10)
                run = self.shardctl("validate", shard, code=None)
                # A shard that seems to have a later version cannot be checked. That is not a success either.
                self.assertIn(run.code, (1, 3), str(run))
                self.assertIn(self.shards[0], run.stderr)
                self.write(shard, whole)
        self.shardctl("validate", shard)

    def test_truncated(self):
        shard = f"out/{self.shards[0]}"
        whole = self.read(shard)
        for length in (0, 1, 8, 100, 4096, len(whole) // 2, len(whole) - 104, len(whole) - 1):
            with self.subTest(length=length):
                self.write(shard, whole[:length])
                for words in (["validate", shard], ["validate", "out"], ["ls", shard], ["inspect", shard]):
                    run = self.shardctl(*words, code=1)
                    self.assertIn(self.shards[0], run.stderr)
        self.write(shard, whole + b"\0")
        self.shardctl("validate", shard, code=1)

    def test_shard_missing_or_swapped(self):
        first, second = (self.path("out", name) for name in self.shards[:2])
        os.rename(first, first + ".away")
        run = self.shardctl("validate", "out", code=None)
        self.assertIn(run.code, (1, 3), str(run))
        self.assertIn(self.shards[0], run.stderr)
        os.rename(second, first)
        os.rename(first + ".away", second)
        self.assertIn(self.shards[0], self.shardctl("validate", "out", code=1).stderr)

    def test_damaged_segment_is_found_and_rebuilt(self):
        key = "000033"
        before = self.read("out", "dataset.segment")
        root = len(before) - 64 - int.from_bytes(before[-56:-48], "little")  # where it begins
        in_index, in_list_or_keys = (9, 40, 190, 300), (root // 2, root - 200)
        in_keys_or_root = (3, root - 9, root + 5, root + 40, len(before) - 90, len(before) - 1)
        for offset in (*in_index, *in_list_or_keys, *in_keys_or_root):
            with self.subTest(offset=offset):
                self.flip("out/dataset.segment", offset)
                self.assertIn("dataset.segment", self.shardctl("validate", "out", code=1).stderr)
                if offset in in_keys_or_root:  # the keys, or else all of it, are then not used
                    self.assertEqual(self.shardctl("cat", "out", "--key", key, "-c", "bin").out, self.read("in", key + ".bin"))
                self.shardctl("index", "out")
                self.shardctl("validate", "out")
                self.assertEqual(self.read("out", "dataset.segment"), before)

    def test_damaged_page_of_the_index(self):
        """Verbs that list the blocks from it say what to do. With --on-error skip, the shards tell the same."""
        self.flip("out/dataset.segment", 300)
        damaged = self.tree("out")
        advice = "shardctl: out/dataset.segment: offset index at byte 0: page 0: checksum is wrong; run shardctl index out to make it again\n"
        for words in (["filter", "out", "--where", "key > '3'", "-o", "new"], ["filter", "out", "--range", "0:5", "--count"],
                      ["filter", "out", "--range", "0:5", "--by-reference", "-o", "new"], ["rm", "out", "--range", "0:5"],
                      ["split", "out", "--into", "a=50%", "-o", "new"], ["reshard", "out", "-o", "new"],
                      ["merge", "--copy", "out", "-o", "new"], ["convert", "out", "--to", "shard", "-o", "new"],
                      ["bench", "out"], ["plan", "out"]):
            with self.subTest(words=words):
                self.assertEqual(self.shardctl(*words, code=1).stderr, advice)
                self.assertEqual(self.tree("out"), damaged)
                self.assertFalse(os.path.exists(self.path("new")))
        converted = self.shardctl("convert", "out", "--to", "shard", "-o", "new", "--on-error", "skip")
        self.assertIn("converted 60 samples", converted.stdout)
        self.shardctl("index", "out")
        self.assertIn("removed 5 samples", self.shardctl("rm", "out", "--range", "0:5").stdout)

    def test_only_the_segment_lists_many_shards(self):
        for i in range(1025):
            self.write(f"small/{i:04}.txt", b"%d" % i)
        self.shardctl("pack", "small", "-o", "many", "--shard-samples", "1")
        self.assertNotIn(b'"shards": [', self.read("many", "dataset.json"))
        rows = self.shardctl("ls", "--shards", "many", "--json").json()["shards"]
        self.assertEqual([row["name"] for row in rows], [f"{i:08}.shard" for i in range(1025)])
        self.assertEqual(self.shardctl("inspect", "many", "--json").json()["shards"], 1025)
        before = self.read("many", "dataset.segment")
        for offset in (3, 40, len(before) // 2, len(before) - 90):
            with self.subTest(offset=offset):
                self.flip("many/dataset.segment", offset)
                if offset == 40:  # in the index alone, which can be made again
                    self.assertIn("run shardctl index many", self.shardctl("rm", "many", "--range", "0:3", code=1).stderr)
                    self.shardctl("index", "many")
                    self.assertEqual(self.read("many", "dataset.segment"), before)
                    self.flip("many/dataset.segment", offset)
                self.assertIn("many/dataset.segment", self.shardctl("validate", "many", code=1).stderr)
                self.write("many/dataset.segment", before)
        # Of a dataset that was changed it is not known which shards are of which generation.
        shutil.copytree(self.path("many"), self.path("fewer"))
        self.shardctl("rm", "fewer", "--range", "0:3")
        os.remove(self.path("fewer", "dataset.segment"))
        self.assertIn("nothing tells which of the shards", self.shardctl("repair", "fewer", "-o", "none", code=2).stderr)
        os.remove(self.path("many", "dataset.segment"))
        self.assertIn("many/dataset.segment: the segment is missing", self.shardctl("ls", "many", code=3).stderr)
        refused = self.shardctl("index", "many", code=1).stderr
        self.assertIn("cannot make it again", refused)
        self.assertIn("shardctl repair many -o OUT takes them by their names", refused)
        self.assertIn("they were taken by their names", self.shardctl("repair", "many", "-o", "mended").stderr)
        self.shardctl("validate", "mended")
        entries = self.shardctl("ls", "mended", "--json").json()["entries"]
        self.assertEqual([entry["key"] for entry in entries], [f"{i:04}" for i in range(1025)])
        os.remove(self.path("many", "dataset.json"))
        self.shardctl("index", "many")
        self.shardctl("validate", "many")
        self.assertEqual(self.shardctl("ls", "--shards", "many", "--json").json()["shards"], rows)

    def test_lost_segment_and_manifest_are_rebuilt(self):
        before = self.tree("out")
        os.remove(self.path("out", "dataset.segment"))
        os.remove(self.path("out", "dataset.json"))
        self.shardctl("ls", "out", code=3)
        self.shardctl("index", "out")
        self.assertEqual(self.tree("out"), before)

    def test_works_without_segment(self):
        listing = self.shardctl("ls", "out", "--values-xxh3").stdout
        os.remove(self.path("out", "dataset.segment"))
        self.assertEqual(self.shardctl("ls", "out", "--values-xxh3").stdout, listing)
        self.assertEqual(self.shardctl("cat", "out", "--sample", "33", "-c", "bin").out, self.read("in", "000033.bin"))
        self.assertIn("shardctl index", self.shardctl("inspect", "out").stdout)

    def test_damaged_manifest(self):
        text = self.read("out", "dataset.json")
        for content in (b"", b"{", text.replace(b'"samples": 60', b'"samples": 61'), text[:-20],
                        text.replace(b".shard", b".shrad", 1)):
            with self.subTest(content=content[-40:]):
                self.write("out/dataset.json", content)
                self.assertIn("dataset.json", self.shardctl("ls", "out", code=1).stderr)
                self.assertIn("dataset.json", self.shardctl("validate", "out", code=1).stderr)

    def test_deep_finds_what_checksums_do_not(self):
        self.write("bad/a.json", '{"open": ')
        self.write("bad/b.json", '{"fine": 1}')
        self.shardctl("pack", "bad", "-o", "json", "--from", "files")
        self.shardctl("validate", "json")
        columns = self.shardctl("inspect", "json", "--json").json()["columns"]
        if {column["name"]: column["type"] for column in columns}["json"] == "json":
            self.assertIn("sample 0", self.shardctl("validate", "--deep", "json", code=1).stderr)

    def test_deep_compares_masks_with_their_images(self):
        self.small_sa1b(count=4)
        self.write("sa1b/sa_3.jpg", tiny_jpeg(16, 24))
        self.shardctl("pack", "sa1b", "-o", "pairs")
        self.shardctl("validate", "pairs")
        what = "sample 2: mask 0 is of 24 x 16 pixels, its image of 16 x 24"
        for dataset in ("pairs", "pairs/00000000.shard"):
            run = self.shardctl("validate", "--deep", dataset, "--json", code=1)
            [report] = run.json()["reports"]
            self.assertEqual(report["problem_count"], 1)
            self.assertIn(what, report["problems"][0]["message"])
            self.assertIn('"masks"', report["problems"][0]["message"])
        # What readers see: without removed samples.
        self.shardctl("rm", "pairs", "--range", "0:1")
        [report] = self.shardctl("validate", "--deep", "pairs", "--json", code=1).json()["reports"]
        self.assertEqual([problem["message"] for problem in report["problems"]],
                         ['pairs: sample 1, column "masks": mask 0 is of 24 x 16 pixels, its image of 16 x 24'])
        self.shardctl("rm", "pairs", "--range", "1:2")
        self.shardctl("validate", "--deep", "pairs")

    def test_json_report_names_the_problem(self):
        shard = f"out/{self.shards[0]}"
        self.flip(shard, self.find(shard, self.read("in", "000003.bin")))
        run = self.shardctl("validate", "out", "--json", code=1)
        document = run.json()
        self.assertFalse(document["ok"])
        [report] = document["reports"]
        self.assertEqual(report["problem_count"], len(report["problems"]))
        self.assertIn(self.shards[0], report["problems"][0]["path"])
        self.assertIn("block", report["problems"][0]["message"])
