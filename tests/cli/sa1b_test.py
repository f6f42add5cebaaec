"""Pairs of SA-1B that are not as they should be."""
import json
import os
import tarfile

from support import CliTest, tiny_jpeg


class Sa1bTest(CliTest):
    def keys(self, dataset):
        return [entry["key"] for entry in self.shardctl("ls", dataset, "--json").json()["entries"]]

    def test_few_pairs_of_sa1b_are_told(self):
        self.small_sa1b("in", count=3)
        for i in range(4):
            self.write(f"in/{i}.txt", "text")
        run = self.shardctl("pack", "in", "-o", "out", "--json")
        self.assertEqual(run.json()["source"], "files")
        self.assertIn("in: only 3 of the first 7 names are pairs sa_N.jpg and sa_N.json: it is packed as files, without masks; "
                      "--from sa1b --on-error skip packs the pairs with masks", " ".join(run.json()["warnings"]) + run.stderr)
        self.assertEqual(self.shardctl("pack", "in", "-o", "quiet", "--from", "files", "--json").json()["warnings"], [])
        self.shardctl("pack", "in", "-o", "pairs", "--from", "sa1b", "--on-error", "skip", code=4)
        self.assertEqual(self.keys("pairs"), ["sa_1", "sa_2", "sa_3"])

    def test_pairs_without_masks_of_use_are_told(self):
        self.small_sa1b(count=6)
        for number, change in ((2, [[1, 2, 3, 4, 5, 6]]), (3, None)):
            document = json.loads(self.read("sa1b", f"sa_{number}.json"))
            document["annotations"][-1]["segmentation"] = change
            self.write(f"sa1b/sa_{number}.json", json.dumps(document))
        self.write("sa1b/sa_5.jpg", tiny_jpeg(16, 24))
        with tarfile.open(self.path("pairs.tar"), "w") as tar:
            for name in sorted(os.listdir(self.path("sa1b"))):
                tar.add(self.path("sa1b", name), name)
        for source in ("sa1b", "pairs.tar"):
            for jobs in (1, 3):
                run = self.shardctl("pack", source, "-o", f"{source}-{jobs}", "-j", jobs, "--json")
                self.assertEqual(run.json()["warnings"], [
                    "2 samples have annotations without RLE, as polygons or null; column masks is absent there, and source_json "
                    "keeps them",
                    "1 sample has masks of another size than the image; a loader that decodes both refuses such a sample"])
            self.shardctl("unpack", f"{source}-1", "-o", f"{source}-back")
            self.assertEqual(self.tree(f"{source}-back"), self.tree("sa1b"))

    def test_why_annotations_are_no_json(self):
        good = self.read(self.small_sa1b(count=1), "sa_1.json")
        at = good.index(b"0.9")
        for content, what in ((b"\xef\xbb\xbf" + good, "byte 0: begins with a byte order mark"),
                              (good.replace(b"0.9", b"NaN", 1), f"byte {at}: NaN, which is no number of JSON"),
                              (good.replace(b"0.9", b"-Infinity", 1), f"byte {at + 1}: Infinity, which is no number of JSON"),
                              (good[:-9], f"byte {len(good) - 9}: ends within a value: it was cut off"),
                              (good.replace(b"0.9", b"0.9.1", 1), f"byte {at + 3}: not what JSON has there, \".1")):
            with self.subTest(what):
                self.write("sa1b/sa_1.json", content)
                self.assertIn(f"sa1b/sa_1.json: invalid JSON: {what}", self.shardctl("pack", "sa1b", "-o", "no", code=1).stderr)
