#!/usr/bin/env python3
"""What all views have: the header, several datasets, the theme, the keyboard, a server that goes away."""

import os
import unittest

from browser import Keys, Server, ViewTest, shardctl
from inputs import make_pairs, picture, write, write_tar

VIEWS = ("#/0", "#/0/grid", "#/0/sample/0", "#/0/find?seed=1", "#/0/order")


class ShellTest(ViewTest):
    @classmethod
    def make(cls):
        pairs, dataset = os.path.join(cls.folder, "pairs"), os.path.join(cls.folder, "pictures")
        make_pairs(pairs, 12, (160, 120), (5, 9))
        shardctl("pack", pairs, "-o", dataset)
        files, texts = os.path.join(cls.folder, "files"), os.path.join(cls.folder, "texts")
        os.makedirs(files)
        write(os.path.join(files, "only.txt"), "the only text")
        shardctl("pack", files, "-o", texts)
        tar = os.path.join(cls.folder, "tars.tar")
        write_tar(tar, [(f"{i}.jpg", picture(("red", "blue"))) for i in range(3)])
        damaged = os.path.join(cls.folder, "damaged")
        shardctl("pack", files, "-o", damaged)
        write(os.path.join(damaged, "dataset.json"), "{")
        cls.paths = [dataset, texts, tar, damaged, os.path.join(cls.folder, "missing")]
        return cls.paths

    def test_token_becomes_a_cookie(self):
        self.driver.get(self.server.url + "#/0/grid/3")
        self.arrived("grid")
        self.assertEqual(self.js("return location.href"), self.server.base + "#/0/grid/3")
        cookies = self.driver.get_cookies()
        self.assertEqual({(cookie["httpOnly"], cookie["sameSite"]) for cookie in cookies}, {(True, "Lax")})
        self.assertEqual({self.server.origin + cookie["path"] for cookie in cookies}, {self.server.base})
        # Who has none is told what to do.
        self.driver.delete_all_cookies()
        self.addCleanup(self.driver.get, self.server.url)
        self.expect("status of 403")
        self.driver.get("about:blank")
        self.driver.get(self.server.base + "#/0")
        self.assertIn("shardctl view", self.driver.find_element("css selector", "body").text)

    def test_a_browser_that_is_started_with_a_file_arrives(self):
        """As view starts it: the token is in a file that leads on."""
        self.driver.delete_all_cookies()
        path = os.path.join(self.folder, "open.html")
        write(path, f'<meta http-equiv="refresh" content="0;url={self.server.url}">')
        self.driver.get(f"file://{path}")
        self.until("location.protocol === 'http:' && document.querySelector('h1') !== null")

    def test_datasets(self):
        self.open("#/0")
        names = self.js("return [...document.getElementById('picker-select').options].map((option) => option.text)")
        self.assertEqual(
            [os.path.basename(name) for name in names],
            ["pictures", "texts", "tars.tar", "damaged (cannot be opened)", "missing (cannot be opened)"],
        )
        for number, (samples, container) in enumerate(((12, "shard"), (1, "shard"), (3, "webdataset"))):
            self.js(
                """const select = document.getElementById('picker-select'); select.value = arguments[0];
                select.dispatchEvent(new Event('change'));""",
                str(number),
            )
            self.until_text("h1", f"^{names[number]}$")
            self.until_equal(lambda: self.texts(".facts dd")[0], str(samples))
            self.assertEqual(self.get_json(f"api/{number}/overview")["container"], container)
        # A view of texts alone has cards.
        self.open("#/1/grid")
        self.until_text(".cell", "the only text")
        self.assertEqual(len(self.all(".cell-picture")), 0)

    def test_what_cannot_be_opened_says_why(self):
        for number, reason in ((3, "dataset.json"), (4, "No such file or directory")):
            self.driver.get("about:blank")
            self.driver.get(f"{self.server.base}#/{number}")
            self.assertIn(reason, self.until_text(".state-failed", "This dataset cannot be opened."))

    def test_theme(self):
        self.open("#/0")

        def background():
            return sum(
                int(part)
                for part in self.js("return getComputedStyle(document.body).backgroundColor")
                .strip("rgb()")
                .split(",")[:3]
            )

        self.assertGreater(background(), 600)
        self.emulate("dark")
        self.until_equal(lambda: background() < 200, True)
        # Once more than the system says, and it stays.
        self.click("#theme")
        self.until_equal(lambda: self.find("#theme").get_attribute("aria-label"), "Theme: light")
        self.assertGreater(background(), 600)
        self.open("#/0/grid")
        self.assertGreater(background(), 600)
        self.emulate("light")
        self.click("#theme")
        self.until_equal(lambda: background() < 200, True)
        self.open("#/0/order")
        self.until_equal(lambda: self.find("#theme").get_attribute("aria-label"), "Theme: dark")
        self.assertLess(background(), 200)

    def test_keyboard_reaches_everything(self):
        for fragment in VIEWS:
            with self.subTest(view=fragment):
                self.open(fragment)
                self.wait_for_content(fragment)
                if fragment not in ("#/0", "#/0/sample/0"):
                    self.until("document.querySelectorAll('.cell img').length === 12")
                self.walk()

    def wait_for_content(self, fragment):
        ready = {
            "#/0": "document.querySelector('.statistics-status').textContent.endsWith('.')",
            "#/0/grid": "document.querySelector('.cell img')",
            "#/0/sample/0": "document.querySelector('[data-mask]') && document.querySelectorAll('.mask-sorter option').length > 3",
            "#/0/find?seed=1": "document.querySelector('.cell img')",
            "#/0/order": "document.querySelector('.cell img') && document.querySelector('.score-number')",
        }
        self.until(ready[fragment])

    def walk(self):
        """Tab goes through all that can be used, in the order of the document, and each is seen to have the focus."""
        expected = self.js("""
            const kinds = 'a[href], button, input, select, summary, audio, [tabindex="0"]';
            window.reachable = [...document.querySelectorAll(kinds)].filter((each) => each.tabIndex >= 0 &&
              !each.disabled && each.checkVisibility({ visibilityProperty: true }) && !each.closest('[inert]'));
            document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex');
            return window.reachable.length;""")
        places = []
        for _ in range(expected):
            self.press(Keys.TAB)
            place, seen, name = self.js("""
                const own = document.activeElement;
                const style = getComputedStyle(own);
                const box = own.getBoundingClientRect();
                const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1 &&
                  box.right > 0 && box.bottom > 0 && box.left < innerWidth && box.top < innerHeight;
                return [window.reachable.indexOf(own), seen, own.outerHTML.slice(0, 120)];""")
            self.assertTrue(seen, f"the focus is not seen: {name}; it was at {places} of {expected}")
            places.append(place)
        self.assertEqual(places, list(range(expected)))

    def press_until_at(self, keys, fragment):
        """Presses keys that belong together. On a busy machine they can come too late after another: then once more."""

        def presses():
            self.press(*keys)
            return self.js("return location.hash.split(/[?/]/).slice(0, 3).join('/') === arguments[0]", fragment)

        self.wait(presses, f"{fragment} after {keys}")

    def test_keys_of_all_views(self):
        self.open("#/0")
        self.press_until_at("gg", "#/0/grid")
        self.arrived("grid")
        self.press_until_at("gf", "#/0/find")
        self.arrived("find")
        self.js("document.activeElement.blur()")
        self.press_until_at("gr", "#/0/order")
        self.arrived("order")
        self.press_until_at("go", "#/0")
        self.arrived("overview")
        self.press("?")
        self.until_text("dialog.keys[open]", "previous and next sample")
        self.press(Keys.ESCAPE)
        self.until("document.querySelector('dialog[open]') === null")
        # The first stop skips the header.
        self.js("document.body.tabIndex = -1; document.body.focus()")
        self.press(Keys.TAB)
        self.assertEqual(self.focused("id"), "skip")
        self.press(Keys.ENTER)
        self.assertEqual(self.focused("id"), "main")

    def test_a_view_that_is_left_does_not_take_the_address(self):
        self.open("#/0/grid")
        # As when the grid's place settles between the change of the fragment and the event that tells of it.
        self.promise(
            "await import(new URL('page/router.js', document.baseURI)).then((router) => {"
            " location.hash = '#/0/find'; router.replaceRoute('#/0/grid/3'); })"
        )
        self.arrived("find")
        self.until_hash("#/0/find")

    def test_nothing_comes_from_elsewhere_and_nothing_overflows(self):
        for width in (400, 1280):
            self.resize(width, 800)
            self.open("#/9")
            for fragment in (*VIEWS, "#/1/grid", "#/1/sample/0", "#/2"):
                with self.subTest(width=width, view=fragment):
                    self.go(fragment)
                    if fragment in VIEWS:
                        self.wait_for_content(fragment)
                    self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), width)
                    names = self.js(
                        "return performance.getEntries()"
                        ".filter((entry) => ['resource', 'navigation'].includes(entry.entryType))"
                        ".map((entry) => entry.name)"
                    )
                    self.assertGreater(len(names), 10)
                    self.assertEqual(
                        [
                            name
                            for name in names
                            if not name.startswith((self.server.origin + "/", f"blob:{self.server.origin}/"))
                        ],
                        [],
                    )

    def test_a_server_that_is_gone_is_waited_for(self):
        other = Server(self.paths[1])
        try:
            self.driver.get(other.url + "#/0/grid")
            self.arrived("grid")
        finally:
            other.process.kill()
            other.stop()
        self.expect("ERR_CONNECTION_REFUSED")
        self.js("location.hash = '#/0/sample/0'")
        self.addCleanup(self.driver.get, self.server.url)
        self.until_text("#banner", "The server does not answer.")
        self.find("#banner button")


if __name__ == "__main__":
    unittest.main()
