#!/usr/bin/env python3
"""Texts, names and bytes of a dataset never become markup, in no view."""

import json
import os
import unittest
import urllib.parse

from browser import ViewTest, shardctl
from inputs import picture, write, write_tar

SCRIPT = "<script>window.hostile=1</script>"
IMAGE = '<img src=x onerror="window.hostile=1">'
LINK = "javascript:window.hostile=1"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" onload="window.hostile=1"><script>window.hostile=1</script></svg>'
HTML = f"<!doctype html><html><body>{SCRIPT}{IMAGE}</body></html>"
BREAKS = "\"'`><!--]]>&lt;${window.hostile=1}{{hostile}}\u202e\u2028\ufeff"
TEXTS = [SCRIPT, IMAGE, LINK, SVG, HTML, BREAKS, f"</pre></textarea></title></style>{SCRIPT}", "\x1b[31m\u0001"]


class HostileTest(ViewTest):
    @classmethod
    def make(cls):
        # Names of tars, members and columns are hostile as well.
        members = []
        for i, text in enumerate(TEXTS):
            key = f"{i} {text.replace('/', '|').replace('.', '')}"[:60]
            members += [
                (f"{key}.txt", text.encode()),
                (f"{key}.json", json.dumps({text: [text, {text: text}]}).encode()),
                (f"{key}.svg", SVG.encode()),
                (f"{key}.html", HTML.encode()),
                (f"{key}.jpg", picture(("red", "blue"))),
                (f"{key}.<img src=x onerror=window.hostile=1>", b"column"),
            ]
        tar = os.path.join(cls.folder, "<img src=x onerror=window.hostile=1>.tar")
        write_tar(tar, members)
        cls.packed = os.path.join(cls.folder, "<b onclick=hostile>packed")
        shardctl("pack", tar, "-o", cls.packed, "--from", "webdataset")
        rows = os.path.join(cls.folder, "rows.ndjson")
        write(
            rows, "".join(json.dumps({"<u>label</u>": i % 2, "caption": text}) + "\n" for i, text in enumerate(TEXTS))
        )
        shardctl("columns", "add", cls.packed, "--from", rows)
        shardctl(
            "columns",
            "set",
            cls.packed,
            "<u>label</u>",
            "--class-names",
            f"{IMAGE},{SVG.replace(',', ' ')}",
            f"description={SCRIPT}",
            f"{IMAGE}={HTML}",
        )
        broken = os.path.join(cls.folder, f"{IMAGE.replace('/', '|')} broken.shard")
        write(broken, HTML)
        return [cls.packed, tar, broken]

    def assert_harmless(self):
        """Nothing of the dataset runs, or is an element."""
        self.assertEqual(
            self.js("""
            const strange = [...document.querySelectorAll('*')].filter((each) => each.matches(
              'iframe, object, embed, base, u, b, img[src="x"], body script, style') ||
              [...each.attributes].some((attribute) =>
              /^on/.test(attribute.name) || /^(href|src|action)$/.test(attribute.name) &&
              /^\\s*javascript:/i.test(attribute.value)));
            return [typeof window.hostile, strange.map((each) => each.outerHTML.slice(0, 100))];"""),
            ["undefined", []],
        )

    def test_every_view(self):
        where = urllib.parse.quote(f"caption = {json.dumps(IMAGE)}")
        self.open("#/9")
        for dataset in (0, 1):
            for fragment in (
                "",
                "/grid",
                "/find",
                f"/find?where={urllib.parse.quote(SCRIPT)}",
                f"/find?where={where}",
                "/order",
            ):
                with self.subTest(dataset=dataset, fragment=fragment):
                    self.expect("status of 400")
                    self.go(f"#/{dataset}{fragment}")
                    if not fragment:
                        self.until_text(".statistics-status", r"\.$")
                    elif (
                        fragment == "/find"
                        or SCRIPT in urllib.parse.unquote(fragment)
                        or dataset == 1
                        and "where" in fragment
                    ):
                        self.find("#find-text")
                    else:
                        self.until("document.querySelectorAll('.cell img').length > 0")
                    self.assert_harmless()
        self.open("#/0/grid")
        self.until(
            "[...document.querySelectorAll('.cell-captions')].length > 7"
            " && document.querySelector('main').innerText.includes('window.hostile')"
        )

    def test_every_sample(self):
        self.open("#/9")
        for dataset in (0, 1):
            for i, text in enumerate(TEXTS):
                with self.subTest(dataset=dataset, text=text):
                    self.go(f"#/{dataset}/sample/{i}")
                    self.until("document.querySelector('#stage-frame:not(.waiting)') !== null")
                    for summary in self.all("details:not([open]) > summary"):
                        self.js("arguments[0].click()", summary)
                    self.assert_harmless()
                    if text.isprintable():
                        shown = self.js(
                            "return document.querySelector('article[aria-label=txt] .value-body').textContent"
                        )
                        self.assertEqual(shown, text)

    def test_values_that_a_browser_could_run_are_only_stored(self):
        for column in ("svg", "html"):
            self.open("#/0/sample/0")
            self.assertEqual(len(self.all(f"article[aria-label={column}] img, article[aria-label={column}] iframe")), 0)
            reply = self.promise(
                """fetch(parameters[0]).then((reply) => [reply.headers.get('content-type'),
                reply.headers.get('content-disposition')?.split(';')[0],
                reply.headers.get('x-content-type-options')])""",
                f"api/0/value/0?column={column}",
            )
            self.assertEqual(reply, ["application/octet-stream", "attachment", "nosniff"])
            # Opened by its address, it is stored and not shown.
            self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "deny"})
            self.js("window.location = arguments[0]", f"api/0/value/0?column={column}")
            self.assertEqual(self.js("return [location.hash, typeof window.hostile]"), ["#/0/sample/0", "undefined"])

    def test_names_and_errors(self):
        self.open("#/0")
        names = self.js("return [...document.getElementById('picker-select').options].map((option) => option.text)")
        self.assertEqual(
            [os.path.basename(name) for name in names],
            [
                os.path.basename(self.packed),
                "<img src=x onerror=window.hostile=1>.tar",
                f"{IMAGE.replace('/', '|')} broken.shard (cannot be opened)",
            ],
        )
        self.assertIn("onclick=hostile", self.driver.title)
        self.open("#/2")
        self.assertIn("broken.shard", self.text("main"))
        self.assert_harmless()
        for fragment in (
            f"#/0/find?where={SCRIPT}&seed={IMAGE}",
            f"#/{SCRIPT}",
            f"#/0/{IMAGE}/{SCRIPT}",
            f"#/0/order?seed={SCRIPT}&order={IMAGE}",
            f"#/0/sample/0?column={IMAGE}&masks={SCRIPT}",
            "#/9",
            f"#/0/{urllib.parse.quote(SCRIPT)}?{urllib.parse.quote(IMAGE)}",
        ):
            self.expect("status of 400")
            self.go(fragment)
            self.assert_harmless()


if __name__ == "__main__":
    unittest.main()
