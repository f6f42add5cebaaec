"""Promises of view and report: who is answered, what ends them, and what a report holds."""
import http.client
import json
import os
import re
import signal
import time
import urllib.parse

from support import CliTest, ENVIRONMENT


class ViewTest(CliTest):
    def setUp(self):
        super().setUp()
        for i in range(5):
            self.write(f"in/{i}.txt", f"text {i} <b>&amp;\"'".encode())
        self.write("in/<script>alert(1)<'\">.txt", b"</style><script>alert(2)</script>")
        self.shardctl("pack", "in", "-o", "data")

    def begin(self, *arguments):
        """Starts the server; returns the process, its host and port, and a cookie. `get` asks below the cookie's folder."""
        self.base = ""
        process = self.start("view", "--no-open", *arguments)
        url = process.stdout.readline().decode().strip()
        self.assertRegex(url, r"^http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{32}$")
        parts = urllib.parse.urlsplit(url)
        reply = self.get(parts.netloc, "/?" + parts.query)
        self.assertEqual(reply.status, 303)
        self.base = reply.getheader("Location").rstrip("/")
        return process, parts.netloc, reply.getheader("Set-Cookie").split(";")[0]

    def get(self, host, path, **headers):
        connection = http.client.HTTPConnection(host, timeout=60)
        self.addCleanup(connection.close)
        connection.request("GET", self.base + path, headers=headers)
        return connection.getresponse()

    def test_answers_and_ends_with_ctrl_c(self):
        process, host, cookie = self.begin("data", "missing")
        reply = self.get(host, "/api/datasets", Cookie=cookie)
        datasets = json.loads(reply.read())["datasets"]
        self.assertEqual([each["container"] for each in datasets], ["shard", None])
        self.assertIn("missing", datasets[1]["error"])
        page = self.get(host, "/", Cookie=cookie)
        self.assertEqual(page.getheader("Content-Type"), "text/html; charset=utf-8")
        # Nothing in the page leads elsewhere.
        self.assertNotIn(b"http", page.read().replace(b"http-equiv", b""))
        value = self.get(host, "/api/0/value/0?column=txt", Cookie=cookie)
        self.assertRegex(value.getheader("Content-Disposition"), r"^attachment; filename\*=UTF-8''0\.txt$")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertIn(b"missing", process.stderr.read())

    def test_others_are_not_answered(self):
        _, host, cookie = self.begin("data")
        port = host.split(":")[1]
        for headers in ({}, {"Cookie": cookie[:-1]}, {"Cookie": cookie, "Host": f"evil.example:{port}"},
                        {"Cookie": cookie, "Origin": "https://evil.example"}):
            for path in ("/", "/api/datasets", "/page/main.js", "/api/0/value/0?column=txt"):
                reply = self.get(host, path, **headers)
                self.assertEqual(reply.status, 403, (path, headers))
                self.assertNotIn(b"text 0", reply.read())

    def test_no_other_user_sees_the_token(self):
        # In place of a browser: notes its command line, and reads the page that it was given.
        self.write("bin/xdg-open", b"#!/bin/sh\n{ echo \"$@\"; stat -c %a \"$1\" \"${1%/*}\"; cat \"$1\"; } > seen.tmp; mv seen.tmp seen\n")
        os.chmod(self.path("bin", "xdg-open"), 0o755)
        for runtime in (self.path("run"), ""):
            os.makedirs(self.path("run"), mode=0o700, exist_ok=True)
            process = self.start("view", "data", env={**ENVIRONMENT, "DISPLAY": ":9", "XDG_RUNTIME_DIR": runtime, "PATH": self.path("bin") + ":" + os.environ["PATH"]})
            url = process.stdout.readline().decode().strip()
            while not os.path.exists(self.path("seen")):
                time.sleep(0.01)
            page, mode, folder_mode, text = self.read("seen").decode().splitlines()
            self.assertTrue(page.startswith((runtime or "/tmp") + "/shardkit-view-"), page)
            self.assertEqual((mode, folder_mode), ("600", "700"))
            self.assertIn(f"url={url}\"", text)
            os.remove(self.path("seen"))
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=60), 0)
            self.assertFalse(os.path.exists(os.path.dirname(page)))

    def test_mistakes(self):
        self.assertIn("No such file", self.shardctl("view", "missing", code=3).stderr)
        process, host, _ = self.begin("data")
        port = host.split(":")[1]
        self.assertIn("the port is in use", self.shardctl("view", "data", "--port", port, "--no-open", code=3).stderr)
        self.assertIn("-o FILE is missing", self.shardctl("report", "data", code=2).stderr)
        self.shardctl("report", "missing", "-o", "report.html", code=3)
        self.assertEqual([name for name in self.tree(".") if "report" in name], [])
        self.stop(process)

    def test_report(self):
        run = self.shardctl("report", "data", "-o", "report.html", "--json")
        document = run.json()
        page = self.read("report.html").decode()
        self.assertEqual(document, {"path": "data", "output": "report.html", "bytes": len(page.encode()), "validated": True,
                                    "problem_count": 0})
        self.assertIn("None: each checksum", page)
        self.assertIn("&lt;script&gt;alert(1)&lt;&#39;&quot;&gt;", page)
        # Markup of the dataset is text, and the report loads nothing.
        self.assertNotIn("<script", page)
        self.assertEqual(page.count("</style>"), 1)
        self.assertNotRegex(page, r"(?i)(src|href)=\"(?!data:)")
        self.assertIn("default-src 'none'", page)
        self.shardctl("report", "data", "-o", "again.html")
        self.assertEqual(self.read("again.html").decode(), page)
        self.shardctl("report", "data", "-o", "none.html", "--samples", "0", "--no-validate")
        self.assertIn("Checksums were not compared", self.read("none.html").decode())

    def test_report_of_damage(self):
        shard = bytearray(self.read("data", "00000000.shard"))
        shard[4096 + 300] ^= 1
        self.write("data/00000000.shard", bytes(shard))
        run = self.shardctl("report", "data", "-o", "report.html", code=1)
        self.assertRegex(run.stdout, r"report\.html: .*, \d problem")
        problems = re.search(r'<ul class="problems">(.*?)</ul>', self.read("report.html").decode(), re.DOTALL)
        self.assertIn("checksum", problems.group(1))

    def test_report_has_a_limit(self):
        self.shardctl("synth", "sa1b", "-o", "pairs", "--count", "6")
        self.shardctl("pack", "pairs", "-o", "masks")
        whole = self.shardctl("report", "masks", "-o", "whole.html", "--json").json()["bytes"]
        self.assertEqual(self.read("whole.html").count(b"data:image/jpeg"), 6)
        self.shardctl("report", "masks", "-o", "part.html", "--limit", str(whole - 1000))
        self.assertEqual(self.read("part.html").count(b"data:image/jpeg"), 5)
        self.assertLess(len(self.read("part.html")), whole - 1000)
