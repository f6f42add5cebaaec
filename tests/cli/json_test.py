"""Every reporting command prints one JSON document. Its keys do not change."""
import os
import shutil

from support import ROOT, CliTest

COLUMN = {"name", "type", "codec", "nullable", "key"}
VARYING = {"bytes", "utf8", "json", "jpeg", "png", "image", "rle"}
INSPECT_COLUMN = COLUMN | {"dictionary", "pages", "present", "absent", "value_bytes", "stored_bytes", "length", "range"}


def of_type(column):
    """The keys that some types have."""
    keys = {"dtype", "shape"} if column["type"] == "ndarray" else set()
    return keys | (set() if column["type"] in VARYING or column.get("shape", "none") is None else {"value_size"})


class JsonTest(CliTest):
    def keys(self, document, *expected):
        self.assertEqual(set(document), set(expected))

    def test_pack(self):
        self.small_sa1b()
        document = self.shardctl("pack", "sa1b", "-o", "out", "--json").json()
        self.keys(document, "source", "output", "dry_run", "samples", "samples_this_run", "input_bytes", "bytes", "shards",
                  "warnings", "blocks", "columns", "skipped", "seconds")
        self.assertEqual((document["source"], document["samples"], document["skipped"]), ("sa1b", 3, []))
        on_disk = sum(os.path.getsize(self.path("out", name)) for name in os.listdir(self.path("out"))
                      if name.endswith(".shard"))
        self.assertEqual(document["bytes"], on_disk)
        for column in document["columns"]:
            self.assertEqual(set(column), COLUMN | of_type(column))

    def test_pack_dry_run(self):
        self.small_files()
        document = self.shardctl("pack", "in", "-o", "out", "--dry-run", "--json").json()
        self.assertEqual((document["samples"], document["dry_run"]), (5, True))
        self.assertEqual(sorted(os.listdir(self.folder)), ["in"])

    def test_pack_skips(self):
        self.small_sa1b()
        self.write("sa1b/sa_2.json", "{broken")
        document = self.shardctl("pack", "sa1b", "-o", "out", "--json", "--on-error", "skip", code=4).json()
        self.assertEqual(document["samples"], 2)
        [skipped] = document["skipped"]
        self.keys(skipped, "position", "key", "reason", "kind")
        self.assertEqual(skipped["kind"], "damaged")
        self.assertEqual(skipped["position"], 1)
        self.assertIn("sa_2", skipped["key"])

    def test_inspect(self):
        self.small_sa1b()
        self.shardctl("pack", "sa1b", "-o", "out")
        document = self.shardctl("inspect", "out", "--json").json()
        self.keys(document, "path", "kind", "samples", "removed_samples", "bytes", "shards", "blocks", "shards_with_sha256", "columns",
                  "metadata", "bases", "index")
        self.assertEqual((document["samples"], document["shards"], document["blocks"]), (3, 1, 1))
        self.assertIsInstance(document["bytes"], int)
        self.assertEqual(document["index"], {"used": True, "problem": None})
        self.assertEqual(document["metadata"]["shardkit.source"], "sa1b")
        for column in document["columns"]:
            self.assertEqual(set(column), INSPECT_COLUMN | of_type(column))
            self.keys(column["length"], "min", "median", "p95", "max")
        columns = {column["name"]: column for column in document["columns"]}
        self.assertEqual(columns["image_id"]["range"], {"min": 1, "max": 3})
        self.assertIsNone(columns["image"]["range"])
        self.assertTrue(columns["key"]["key"])
        os.remove(self.path("out", "dataset.segment"))
        index = self.shardctl("inspect", "out", "--json").json()["index"]
        self.assertFalse(index["used"])
        self.assertIn("shardctl index", index["problem"])

    def test_inspect_shard(self):
        self.pack_small_files()
        shard = next(name for name in os.listdir(self.path("out")) if name.endswith(".shard"))
        document = self.shardctl("inspect", f"out/{shard}", "--json").json()
        self.assertEqual((document["kind"], document["shards"], document["index"]), ("shard", 1, None))
        self.assertEqual(document["bytes"], os.path.getsize(self.path("out", shard)))

    def test_inspect_sample(self):
        self.small_sa1b()
        self.shardctl("pack", "sa1b", "-o", "out")
        document = self.shardctl("inspect", "out", "--key", "sa_2", "--json").json()
        self.keys(document, "path", "sample", "shard", "sample_in_shard", "columns")
        columns = {column["name"]: column for column in document["columns"]}
        both = {"name", "type", "present", "length"}
        self.keys(columns["image"], *both, "width", "height", "components", "bits", "process", "arithmetic",
                  "exif_orientation")
        self.keys(columns["masks"], *both, "masks", "width", "height", "runs", "area")
        self.assertEqual(columns["masks"]["area"], {"min": 12, "median": 16, "max": 20})
        self.keys(columns["bbox"], *both, "dtype", "shape", "front")
        self.assertEqual(columns["bbox"]["shape"], [3, 4])
        self.assertEqual(columns["image_id"]["value"], 2)
        self.keys(columns["file_name"], *both, "text", "truncated")

    def test_inspect_block(self):
        self.pack_small_files()
        document = self.shardctl("inspect", "out", "--block", "0", "--json").json()
        self.keys(document, "path", "shard", "block", "offset", "length", "front_length", "first_sample", "samples",
                  "header_checksum", "columns")
        self.assertEqual(document["samples"], 5)
        for column in document["columns"]:
            self.keys(column, "name", "present", "value_bytes", "min_length", "max_length")

    def test_inspect_block_shows_the_ranges_of_numbers(self):
        self.small_sa1b()
        self.shardctl("pack", "sa1b", "-o", "out")
        document = self.shardctl("inspect", "out", "--block", "0", "--json").json()
        columns = {column["name"]: column for column in document["columns"]}
        lengths = ("name", "present", "value_bytes", "min_length", "max_length")
        self.keys(columns["image_id"], *lengths, "minimum", "maximum")
        self.assertEqual((columns["image_id"]["minimum"], columns["image_id"]["maximum"]), (1, 3))
        self.keys(columns["image"], *lengths)
        rows = {line.split()[0]: line.split() for line in self.shardctl("inspect", "out", "--block", "0").stdout.splitlines()[3:]}
        self.assertEqual(rows["column"][-2:], ["minimum", "maximum"])
        self.assertEqual(rows["image_id"][-2:], ["1", "3"])
        self.assertEqual(rows["image"][-2:], ["-", "-"])

    def test_ls(self):
        self.pack_small_files()
        document = self.shardctl("ls", "out", "--json", "--long").json()
        self.keys(document, "path", "samples", "entries")
        self.assertEqual([entry["sample"] for entry in document["entries"]], list(range(5)))
        lengths = document["entries"][0]["lengths"]
        self.assertEqual((lengths["txt"], lengths["jpg"]), (10, None))
        shards = self.shardctl("ls", "out", "--json", "--shards").json()["shards"]
        self.keys(shards[0], "name", "bytes", "samples", "blocks", "content_hash", "sha256")

    def test_validate(self):
        self.pack_small_files()
        document = self.shardctl("validate", "out", "missing", "--json", code=3).json()
        self.assertFalse(document["ok"])
        good, missing = document["reports"]
        self.keys(good, "path", "ok", "shards", "blocks", "samples", "removed_samples", "column_files", "bytes", "undecoded_images", "warned_images",
                  "problem_count", "problems", "repeated_keys", "warnings")
        self.assertTrue(good["ok"])
        self.keys(missing, "path", "ok", "error")

    def test_unpack_and_synth_and_index(self):
        self.pack_small_files()
        self.keys(self.shardctl("unpack", "out", "-o", "again", "--json").json(), "path", "output", "samples", "files",
                  "bytes", "warnings", "skipped")
        document = self.shardctl("synth", "files", "-o", "made", "--count", "2", "--json").json()
        self.assertEqual(document, {"output": "made", "samples": 2, "bytes": 2 * 102400})
        [dataset] = self.shardctl("index", "out", "--json").json()["datasets"]
        self.keys(dataset, "path", "samples", "bytes", "shards", "blocks", "segments", "generation")

    def test_compact(self):
        shutil.copytree(os.path.join(ROOT, "format-spec", "golden", "valid", "segments"), self.path("parts"))
        listing = self.shardctl("ls", "parts", "--values-xxh3").stdout
        [dataset] = self.shardctl("compact", "parts", "--json").json()["datasets"]
        self.assertEqual((dataset["segments"], dataset["generation"], dataset["shards"]), (1, 3, 2))
        self.keys(dataset, "path", "samples", "removed_left", "shards", "bytes", "bytes_before", "segments", "generation",
                  "shards_rewritten", "samples_dropped", "files_deleted")
        self.assertEqual(self.shardctl("ls", "parts", "--values-xxh3").stdout, listing)
        self.shardctl("validate", "parts")
        self.assertTrue(self.shardctl("inspect", "parts", "--json").json()["index"]["used"])
        before = self.tree("parts")
        self.assertIn("parts: 3 samples in 2 shards", self.shardctl("compact", "parts").stdout)
        self.assertEqual(self.tree("parts"), before)
        self.assertEqual(sorted(name for name in before if name.endswith(".segment")),
                         ["dataset-2.segment", "dataset-3.segment", "dataset.segment"])
        self.shardctl("compact", "missing", code=3)
        self.shardctl("compact", "parts", "--grace", "5", code=2)
        self.shardctl("compact", "parts", "--lost", "2", code=2)
