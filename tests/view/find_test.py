#!/usr/bin/env python3
"""Search: by key, by ordinal, by a condition whose matches come one after the other, and at random."""

import json
import os
import unittest

from browser import Keys, ViewTest, shardctl
from inputs import write

SAMPLES = 5000


class FindTest(ViewTest):
    @classmethod
    def make(cls):
        files, dataset = os.path.join(cls.folder, "files"), os.path.join(cls.folder, "texts")
        os.makedirs(files)
        for i in range(SAMPLES):
            write(os.path.join(files, f"text{i:04d}.txt"), f"sample {i}")
        shardctl("pack", files, "-o", dataset, "--block-size", "4KiB")
        rows = os.path.join(cls.folder, "rows.ndjson")
        write(
            rows,
            "".join(json.dumps({"label": i % 7, "score": i / SAMPLES, "odd name": i}) + "\n" for i in range(SAMPLES)),
        )
        shardctl("columns", "add", dataset, "--from", rows)
        return [dataset]

    def search(self, text):
        self.fill("#find-text", text)

    def test_key_and_ordinal(self):
        self.open("#/0/find")
        self.until_equal(lambda: self.focused("id"), "find-text")
        self.search("text0042")
        self.until_equal(lambda: self.ordinals(".results .cell"), [42])
        self.until_hash("#/0/find?where=text0042")
        self.search("1,234")
        self.until_equal(lambda: self.texts(".results .cell-name"), ["text1234"])
        self.expect("status of 400")
        self.search("nothing")
        self.until_text(".problem", "No sample has the key “nothing”, and it is no condition: ")
        self.assertEqual(self.ordinals(".results .cell"), [])

    def test_condition(self):
        self.open("#/0")
        self.fill("#search-text", "label = 3 and score >= 0.5")
        self.arrived("find")
        expected = [i for i in range(SAMPLES) if i % 7 == 3 and i >= SAMPLES / 2]
        # The page pauses when there are many.
        self.until_text(".find-status", "^[2-9].. matches in ")
        if self.js("return document.querySelectorAll('.results > li').length") < len(expected):
            self.button("Go on").click()
        self.until_text(".find-status", f"^{len(expected)} matches in 5,000 of 5,000 samples$")
        self.assertEqual(self.js("return document.querySelectorAll('.results > li').length"), len(expected))
        self.until_equal(lambda: self.ordinals(".results .cell")[:5], expected[:5])
        self.assertEqual(self.find("#find-text").get_attribute("value"), "label = 3 and score >= 0.5")
        # Cells are made as they come into sight.
        made = len(self.ordinals(".results .cell"))
        self.assertLess(made, len(expected))
        self.js("window.scrollTo(0, document.body.scrollHeight)")
        self.until("document.querySelector(`.results [data-ordinal='${arguments[0]}']`) !== null", expected[-1])
        # The link opens the same, and arrows go from match to match.
        self.open(self.js("return location.hash"))
        self.until_equal(lambda: self.ordinals(".results .cell")[:2], expected[:2])
        self.js("document.querySelector('.results .cell').focus()")
        self.press(Keys.ARROW_RIGHT)
        self.until_equal(self.focused, str(expected[1]))
        self.press(Keys.ENTER)
        self.until_hash(f"#/0/sample/{expected[1]}")

    def test_many_matches_wait_to_be_wanted(self):
        # The server answers in parts, of which a person sees the first before the last is there.
        self.open("#/0/find")
        self.js("""
            const fetch = window.fetch;
            window.releases = [];
            window.fetch = async (path, options) => {
              const reply = await fetch(path, options);
              if (!String(path).includes('/find?where=')) return reply;
              const whole = await reply.json();
              const from = Number(new URL(path, location).searchParams.get('from'));
              await new Promise((resolve, reject) => {
                releases.push(resolve);
                options.signal.addEventListener('abort', () => reject(options.signal.reason));
              });
              const matches = whole.matches.slice(0, 150);
              return Response.json({ ...whole, matches, next: from < 4000 ? from + 1000 : null });
            };""")
        # More than fit on a page wait until they are wanted, and so do those of another search.
        for where in ("label < 6", "label < 7"):
            self.js("releases.length = 0")
            self.search(where)
            for matches, scanned in ((150, "1,000"), (300, "2,000")):
                self.until("releases.length === 1")
                self.js("releases.pop()()")
                self.until_text(".find-status", f"^{matches} matches in {scanned} of 5,000 samples$")
            self.button("Go on").click()
            self.until("releases.length === 1")
        self.assertFalse(
            self.js(
                "return [...document.querySelectorAll('.find-progress button')]"
                ".some((each) => each.innerText === 'Go on' && !each.hidden)"
            )
        )
        self.button("Stop").click()
        self.until_text(".find-status", "^300 matches in 2,000 of 5,000 samples, stopped$")

    def test_mistakes_have_a_place(self):
        self.open("#/0/find")
        self.expect("status of 400")
        for text, place in (("label = 3 and nosuch > 1", 14), ("label ==", None), ('txt = "ä😀" and nosuch = 1', 15)):
            self.search(text)
            problem = self.until_text(".problem", ".")
            caret = self.wait(lambda: self.texts(".problem .caret"), "a caret")[0].split("\n")
            self.assertEqual(caret[0], text)
            if place is not None:
                self.assertEqual(caret[1], " " * place + "^")
                self.assertIn("nosuch", problem)
            self.assertEqual(self.find("#find-text").get_attribute("aria-invalid"), "true")
            self.fill("#find-text", "1")
            self.until("document.querySelector('.problem') === null")

    def test_columns_are_inserted(self):
        self.open("#/0/find")
        self.button("Insert odd name").click()
        self.assertEqual(self.find("#find-text").get_attribute("value"), "`odd name`")
        self.assertEqual(self.focused("id"), "find-text")
        self.press(" = 77", Keys.ENTER)
        self.until_text(".find-status", "^1 match in ")
        self.until_equal(lambda: self.ordinals(".results .cell"), [77])

    def test_random_samples_of_a_seed(self):
        def drawn(seed):
            self.fill(".find-main .short", str(seed))
            self.until_text(".find-status", f"^48 random samples of seed {seed}$")
            self.until("document.querySelectorAll('.results .cell').length > 10")
            return self.ordinals(".results .cell")

        self.open("#/0/find")
        first = drawn(5)
        second = drawn(6)
        self.assertNotEqual(first, second)
        self.assertEqual(drawn(5), first)
        self.assertEqual(first, self.get_json("api/0/random?seed=5&count=48")["ordinals"][: len(first)])
        self.assertEqual(len(set(first)), len(first))
        self.open("#/0/find?seed=5")
        self.until_equal(lambda: self.ordinals(".results .cell")[:10], first[:10])


if __name__ == "__main__":
    unittest.main()
