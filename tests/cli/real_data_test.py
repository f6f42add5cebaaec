"""Real photographs and annotations, if available: the same files come back, and a second reader agrees."""
import glob
import json
import os
import re
import shutil
import subprocess
import tarfile

import support
from support import CliTest

REFERENCE = os.path.join(support.ROOT, "format-spec", "reference_reader.py")


class RoundTrip(CliTest):
    def round_trip(self, source, *options, dataset="out", original=None, code=0):
        """Packs, checks with both readers, unpacks and compares."""
        self.shardctl("pack", source, "-o", dataset, *options, code=code)
        self.shardctl("validate", dataset)
        self.check_against_reference(dataset)
        self.shardctl("unpack", dataset, "-o", f"{dataset}.again")
        if original is not None:
            shutil.copytree(original, self.path("original"), dirs_exist_ok=True)
            self.assertEqual(self.tree("original"), self.tree(f"{dataset}.again"))

    def check_against_reference(self, dataset):
        if not os.path.exists(REFERENCE):
            return
        done = subprocess.run(["/usr/bin/python3", "-B", REFERENCE, "--values-xxh3", self.path(dataset)], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
        if b"No module named" in done.stderr:
            return  # python3-xxhash or python3-zstandard is not installed; the golden tests report that
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        theirs = [json.loads(line) for line in done.stdout.splitlines()]
        ours = [json.loads(line) for line in self.shardctl("ls", dataset, "--values-xxh3").out.splitlines()]
        self.assertEqual(ours, theirs)


class RealDataTest(RoundTrip):
    def data(self, name):
        path = os.path.join(support.DATA, name)
        if not os.path.isdir(path):
            self.skipTest(f"no real data: {path} is missing")
        return path

    def test_sa1b_directory(self):
        pairs = self.data("sa1b")
        self.round_trip(pairs, "--block-size", "1MiB", original=pairs)
        self.shardctl("validate", "--deep", "out")
        self.assertIn("from sa1b", self.shardctl("pack", pairs, "-o", "again").stdout)
        for sample in range(len(glob.glob(f"{pairs}/*.json"))):
            key = self.shardctl("inspect", "out", "--sample", sample, "--json").json()["columns"][0]["text"]
            with open(f"{pairs}/{key}.json", encoding="utf-8") as file:
                annotations = json.load(file)["annotations"]
            masks = self.shardctl("cat", "out", "--sample", sample, "-c", "masks", "--decode").json()
            self.assertEqual(masks, [each["segmentation"] for each in annotations])

    def test_sa1b_tar(self):
        pairs = self.data("sa1b")
        with tarfile.open(self.path("sa_000000.tar"), "w") as tar:
            for name in sorted(os.listdir(pairs)):
                tar.add(os.path.join(pairs, name), arcname=f"./{name}")
        self.round_trip("sa_000000.tar", original=pairs)
        self.shardctl("validate", "--deep", "out")

    def test_sa1b_with_dictionaries_and_levels(self):
        pairs = self.data("sa1b")
        self.round_trip(pairs, "--dictionary", "masks", "--codec", "masks=zstd:9", "--dictionary", "bbox=8KiB", original=pairs)

    def test_photographs_as_files(self):
        photos = self.data("photos")
        self.round_trip(photos, "--from", "files", "--shard-size", "4MiB", "--block-size", "512KiB", original=photos)
        self.shardctl("validate", "--deep", "out")

    def test_photographs_as_image_folder(self):
        photos = self.data("photos")
        for name in os.listdir(photos):
            match = re.match(r"n\d{8}", name)
            if match:
                os.makedirs(self.path("classes", match[0]), exist_ok=True)
                shutil.copy(os.path.join(photos, name), self.path("classes", match[0], name))
        if not os.path.isdir(self.path("classes")):
            self.skipTest("no photographs named by class")
        self.round_trip("classes", "--shard-size", "4MiB", original=self.path("classes"))
        document = self.shardctl("inspect", "out", "--json").json()
        self.assertEqual(document["metadata"]["shardkit.source"], "imagefolder")
        self.shardctl("validate", "--deep", "out")

    def test_nasty_photographs(self):
        nasty = self.path("nasty")
        shutil.copytree(self.data("nasty_jpeg"), nasty)
        # Files that do not even begin like an image are named. With the right options they are packed.
        run = self.shardctl("pack", nasty, "-o", "skipped", "--from", "files", "--on-error", "skip", code=4)
        strangers = re.findall(r"(\S+): (?:is named \.jpg and is no image|an empty file is not an image)", run.stderr)
        self.assertGreaterEqual(len(strangers), 1)
        self.round_trip(nasty, "--from", "files", "--type", "jpg=bytes", dataset="bytes", original=nasty)
        for stranger in strangers:
            os.remove(stranger)
        shutil.rmtree(self.path("original"))
        self.round_trip(nasty, "--from", "files", original=nasty)
        # Some files do not decode, and --deep must say which. The dataset itself is not damaged.
        run = self.shardctl("validate", "--deep", "out", code=1)
        self.assertRegex(run.stderr, r'block 0 .*"jpg".*sample \d')
        for sample in range(self.shardctl("inspect", "out", "--json").json()["samples"]):
            self.shardctl("inspect", "out", "--sample", sample)


class ReferenceReaderTest(RoundTrip):
    """The same comparison for datasets made here, so that it runs without real data too."""

    def setUp(self):
        super().setUp()
        if not os.path.exists(REFERENCE):
            self.skipTest("format-spec/reference_reader.py is missing")

    def test_small_files(self):
        self.small_files()
        self.round_trip("in", "--shard-samples", "2", original=self.path("in"))

    def test_synthetic_sa1b(self):
        self.shardctl("synth", "sa1b", "-o", "pairs", "--count", "7", "--width", "200", "--height", "150", "--min-objects",
                      "0", "--max-objects", "5")
        self.round_trip("pairs", "--shard-samples", "3", "--dictionary", "masks", original=self.path("pairs"))
