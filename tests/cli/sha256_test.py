"""pack --sha256 and convert --sha256: the digest of each shard in dataset.json, and who compares it."""
import hashlib
import json
import os
import re

from support import CliTest


class Sha256Test(CliTest):
    def setUp(self):
        super().setUp()
        self.small_files()
        run = self.shardctl("pack", "in", "-o", "out", "--sha256", "--shard-samples", "2", code=None)
        if "no OpenSSL" in run.stderr:
            self.skipTest("built without OpenSSL")
        self.assertEqual(run.code, 0, str(run))

    def digests(self, dataset):
        """Of the files, by name."""
        return {name: hashlib.sha256(self.read(dataset, name)).hexdigest() for name in sorted(os.listdir(self.path(dataset)))
                if name.endswith(".shard")}

    def listed(self, dataset):
        shards = self.shardctl("ls", dataset, "--shards", "--json").json()["shards"]
        return {shard["name"]: shard["sha256"] for shard in shards}

    def test_is_listed_and_shown(self):
        digests = self.digests("out")
        self.assertEqual(len(digests), 3)
        self.assertEqual(self.listed("out"), digests)
        manifest = json.loads(self.read("out", "dataset.json"))
        self.assertEqual({shard["name"]: shard["sha256"] for shard in manifest["shards"]}, digests)
        table = self.shardctl("ls", "out", "--shards").stdout.splitlines()
        self.assertTrue(table[0].endswith("  sha256"), table[0])
        self.assertEqual([line.split()[-1] for line in table[1:]], list(digests.values()))
        self.assertEqual(self.shardctl("inspect", "out", "--json").json()["shards_with_sha256"], 3)
        self.shardctl("validate", "out")
        # Without the option nothing is listed, and nothing about it is shown.
        self.shardctl("pack", "in", "-o", "without", "--shard-samples", "2")
        self.assertEqual(self.digests("without"), digests)
        self.assertEqual(set(self.listed("without").values()), {None})
        self.assertNotIn("sha256", self.shardctl("ls", "without", "--shards").stdout)
        self.assertEqual(self.shardctl("inspect", "without", "--json").json()["shards_with_sha256"], 0)

    def test_convert(self):
        self.shardctl("convert", "out", "-o", "again", "--to", "shard", "--sha256", "--shard-samples", "3")
        self.assertEqual(self.listed("again"), self.digests("again"))
        for container, says in (("mds", "--hash sha256"), ("webdataset", "only for --to shard")):
            run = self.shardctl("convert", "out", "-o", "other", "--to", container, "--sha256", code=2)
            self.assertIn(says, run.stderr)
            self.assertFalse(os.path.exists(self.path("other")))

    def test_merging_and_indexing_keep_it(self):
        self.small_files("more/x")
        self.shardctl("pack", "more", "-o", "plain")
        self.shardctl("merge", "plain", "out", "-o", "merged", "--repeated-keys", "keep")
        self.assertEqual(list(self.listed("merged").values()), [None, *self.digests("out").values()])
        before = self.tree("merged")
        os.remove(self.path("merged", "dataset.segment"))
        self.shardctl("index", "merged")
        self.assertEqual(self.tree("merged"), before)

    def test_repair_says_that_none_is_left(self):
        run = self.shardctl("repair", "out", "-o", "mended")
        self.assertIn("sha256", run.stderr)
        self.assertEqual(set(self.listed("mended").values()), {None})

    def test_resume_needs_the_same_option(self):
        run = self.shardctl("pack", "--resume", "in", "-o", "out", "--shard-samples", "2", code=2)
        self.assertIn("another job", run.stderr)
        self.shardctl("pack", "--resume", "in", "-o", "out", "--shard-samples", "2", "--sha256")

    def test_another_sound_dataset_under_the_digests_that_were_published(self):
        try:
            import xxhash
        except ImportError:
            self.skipTest("python3-xxhash is not installed")
        self.write("in/apple.txt", "A pear!!!\n")
        self.shardctl("pack", "in", "-o", "forged", "--sha256", "--shard-samples", "2")
        self.shardctl("validate", "forged")
        # Every XXH3 checksum of the forged dataset is right. Only its digests are those of the one that was published.
        published, forged = self.digests("out"), self.digests("forged")
        changed = [name for name in published if published[name] != forged[name]]
        self.assertEqual(changed, ["00000000.shard"])
        text = self.read("forged", "dataset.json").decode()
        text = text.replace(forged[changed[0]], published[changed[0]])
        body = text[:text.rindex('  "checksum"')]
        self.write("forged/dataset.json", re.sub('[0-9a-f]{16}"\n}\n$', xxhash.xxh3_64_hexdigest(body.encode()) + '"\n}\n', text))

        run = self.shardctl("validate", "forged", code=1)
        self.assertIn(f"shardctl: forged/00000000.shard: sha256 is {forged[changed[0]]}, but dataset.json lists "
                      f"{published[changed[0]]}: the content differs although every XXH3 checksum fits: not the file that "
                      "was published\n", run.stderr)
        self.assertIn("2 problems", run.stdout)
        self.assertEqual(self.shardctl("cat", "forged", "--sample", "0", "--column", "txt").out, b"A pear!!!\n")
        manifest = self.read("forged", "dataset.json")
        run = self.shardctl("index", "forged", code=1)
        self.assertIn("not the file that was published; copy it again", run.stderr)
        self.assertEqual(self.read("forged", "dataset.json"), manifest)
        os.remove(self.path("forged", "dataset.json"))
        self.shardctl("index", "forged")
        self.assertEqual(set(self.listed("forged").values()), {None})
