#!/usr/bin/env python3
"""The grid: only what is on the screen is asked for; keys, links, captions, and a tar that is still counted."""

import os
import random
import re
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from browser import Keys, ViewTest, shardctl
from inputs import make_pairs, write_tar

SAMPLES = 400


class Gate(BaseHTTPRequestHandler):
    """Serves a file; what lies behind `server.front` only when `server.opened` is set."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        content = self.server.content if self.path == "/growing.tar" else None
        if content is None:
            return self.answer(404, b"")
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        first, last = map(int, wanted.groups()) if wanted else (0, len(content) - 1)
        last = min(last, len(content) - 1)
        if last >= self.server.front and not self.server.opened.wait(timeout=120):
            return self.answer(500, b"")
        self.answer(206, content[first : last + 1], {"content-range": f"bytes {first}-{last}/{len(content)}"})

    def answer(self, status, body, headers={}):
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body)), "etag": '"1"'}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class GridTest(ViewTest):
    @classmethod
    def make(cls):
        pairs, dataset = os.path.join(cls.folder, "pairs"), os.path.join(cls.folder, "pictures")
        make_pairs(pairs, SAMPLES, (96, 64), (2, 4))
        shardctl("pack", pairs, "-o", dataset, "--block-size", "64KiB")
        tar = os.path.join(cls.folder, "growing.tar")
        noise = random.Random(1)
        # More than the 4 MiB that are looked at first.
        write_tar(tar, [(f"{i:05d}.bin", noise.randbytes(10000)) for i in range(700)])
        cls.store = ThreadingHTTPServer(("127.0.0.1", 0), Gate)
        cls.store.daemon_threads = True
        with open(tar, "rb") as file:
            cls.store.content = file.read()
        cls.store.front, cls.store.opened = 4 << 20, threading.Event()
        threading.Thread(target=cls.store.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.store.server_close)
        cls.addClassCleanup(cls.store.shutdown)
        return [dataset, f"http://127.0.0.1:{cls.store.server_port}/growing.tar"]

    @classmethod
    def tearDownClass(cls):
        cls.store.opened.set()

    def columns(self):
        return int(self.find(".grid").get_attribute("aria-colcount"))

    def seen(self):
        """Ordinals of the cells of which more than half is in the grid's window."""
        return self.js("""
            const view = document.querySelector('.grid').getBoundingClientRect();
            return [...document.querySelectorAll('.grid .cell')].filter((cell) => {
              const box = cell.getBoundingClientRect();
              const middle = (box.top + box.bottom) / 2;
              return middle > view.top && middle < view.bottom;
            }).map((cell) => Number(cell.dataset.ordinal));""")

    def until_pictures(self):
        self.until("""document.querySelector('.cell') && [...document.querySelectorAll('.grid .cell')].every((cell) =>
            cell.querySelector('img')?.complete && cell.querySelector('img').naturalWidth === 96)""")

    def asked(self):
        """Ordinals of the thumbnails that were asked for, and of the first samples of pages of rows."""
        return (
            [int(path.split("/thumbnail/")[1].split("?")[0]) for path in self.requests("/thumbnail/")],
            [int(re.search(r"first=(\d+)", path)[1]) for path in self.requests("/samples?")],
        )

    def test_only_what_is_on_the_screen_is_asked_for(self):
        self.open("#/0/grid")
        self.until_pictures()
        self.assertEqual(self.text(".grid-count"), f"{SAMPLES} samples")
        thumbnails, pages = self.asked()
        self.assertEqual(sorted(thumbnails), self.ordinals(".grid .cell"))
        self.assertLess(max(thumbnails), 100)
        self.assertEqual(set(pages), {0} if max(thumbnails) < 64 else {0, 64})
        # Far down: nothing between is read.
        self.press(Keys.END)
        self.until_equal(self.focused, str(SAMPLES - 1))
        self.until_pictures()
        thumbnails, _ = self.asked()
        self.assertNotIn(SAMPLES // 2, thumbnails)
        self.assertIn(SAMPLES - 1, thumbnails)
        # A thumbnail is that of its sample.
        key = self.text(f"[data-ordinal='{SAMPLES - 1}'] .cell-name")
        self.assertEqual(key, self.get_json(f"api/0/sample/{SAMPLES - 1}")["key"])

    def test_keys(self):
        self.open("#/0/grid")
        self.until_equal(self.focused, "0")
        columns, screen = self.columns(), len(self.seen())
        self.press(Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
        self.until_equal(self.focused, str(columns + 1))
        self.press(Keys.ARROW_UP, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
        self.until_equal(self.focused, "0")
        self.press(Keys.PAGE_DOWN)
        down = int(self.focused())
        self.assertEqual(down % columns, 0)
        self.assertLessEqual(abs(down - screen), columns)
        self.assertIn(down, self.seen())
        self.press(Keys.PAGE_UP)
        self.until_equal(self.focused, "0")
        self.press(Keys.END)
        self.until_equal(self.focused, str(SAMPLES - 1))
        self.assertIn(SAMPLES - 1, self.seen())
        self.press(Keys.HOME)
        self.until_equal(self.focused, "0")
        self.assertIn(0, self.seen())
        self.press(Keys.ARROW_RIGHT, Keys.ENTER)
        self.arrived("sample")
        self.until_hash("#/0/sample/1")
        self.press(Keys.ESCAPE)
        self.arrived("grid")
        self.until_equal(self.focused, "1")

    def test_slash_searches(self):
        self.open("#/0/grid")
        self.until_equal(self.focused, "0")
        self.press("/")
        self.assertEqual(self.focused("id"), "search-text")
        self.press("sa_7", Keys.ENTER)
        self.arrived("find")
        self.until_equal(lambda: self.texts(".results .cell-name"), ["sa_7"])

    def test_go_to_and_links(self):
        self.open("#/0/grid")
        self.fill(".go-to", "321")
        self.until_equal(self.focused, "321")
        self.until_hash("#/0/grid/321")
        self.assertIn(321, self.seen())
        self.fill(".go-to", str(SAMPLES))
        self.until_text("#go-to-problem", f"^0 to {SAMPLES - 1}$")
        # The address opens the same place.
        self.open("#/0/grid/321")
        self.until_equal(self.focused, "321")
        self.until_pictures()
        self.assertIn(321, self.seen())
        self.assertNotIn(0, self.asked()[0])
        # Scrolling moves the address.
        self.wheel(".grid", -100000)
        self.until("/^#\\/0\\/grid\\/\\d{1,2}$/.test(location.hash)")
        self.assertIn(0, self.seen())

    def test_display(self):
        self.open("#/0/grid")
        self.until_pictures()
        self.button("Display").click()
        before = self.texts(".cell-caption")[0]
        self.assertNotIn("masks", before)
        for name in self.texts(".popover .check"):
            if (name == "masks") != self.js(
                """return [...document.querySelectorAll('.popover .check')].find((check) =>
                check.innerText === arguments[0]).firstChild.checked""",
                name,
            ):
                self.button(name).click()
        count = self.get_json("api/0/samples?first=0&count=1&captions=masks")["rows"][0]["captions"][0]["text"]
        self.until_equal(lambda: self.texts(".grid .cell")[0].split("\n")[-1], f"masks {count}")
        columns = self.columns()
        self.choose("Size", "Huge")
        self.until("Number(document.querySelector('.grid').getAttribute('aria-colcount')) < arguments[0]", columns)
        self.wait(lambda: any("size=384" in path for path in self.requests("/thumbnail/")), "larger thumbnails")
        self.choose("Image", "(none)")
        self.until(
            "document.querySelectorAll('.cell').length > 0 && document.querySelectorAll('.cell-picture').length === 0"
        )
        # The choice lasts.
        self.open("#/0/grid")
        self.until_equal(lambda: self.texts(".grid .cell")[0].split("\n")[-1], f"masks {count}")
        self.assertEqual(self.requests("/thumbnail/"), [])

    def test_who_comes_back_tries_again(self):
        self.open("#/0/grid")
        answers = self.promise("""(async () => {
            const { Rows } = await import(new URL('page/rows.js', document.baseURI));
            const fetch = window.fetch;
            const want = (first) => new Promise((resolve) => {
              rows.onRows = () => resolve(rows.get(first).error);
              rows.want(first, first + 1);
            });
            const rows = new Rows(0, new AbortController().signal, () => {});
            rows.choose({ captions: [], image: null });
            window.fetch = async () => Response.json({ error: 'busy' }, { status: 500 });
            const failed = await want(0);
            window.fetch = fetch;
            return [failed, await want(64), await want(0)];
        })()""")
        self.assertEqual(answers, ["busy", None, None])

    def test_a_tar_without_an_index_grows(self):
        self.open("#/1/grid")
        first = self.until_text(".grid-count", r"^\d+ samples so far, counting…$")
        known = int(first.split()[0])
        self.assertGreater(known, 300)
        self.assertLess(known, 450)
        self.press(Keys.END)
        self.until_equal(self.focused, str(known - 1))
        self.store.opened.set()
        self.until_text(".grid-count", "^700 samples$")
        # The place stays.
        self.assertEqual(self.focused(), str(known - 1))
        self.press(Keys.END)
        self.until_equal(self.focused, "699")
        self.until_equal(lambda: self.texts("[data-ordinal='699'] .cell-name"), ["00699"])
        self.open("#/1")
        self.assertEqual(self.texts(".facts dd")[0], "700")


if __name__ == "__main__":
    unittest.main()
