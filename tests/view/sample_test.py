#!/usr/bin/env python3
"""The view of a sample: each value as what it is, moving from sample to sample, and damage."""

import json
import os
import unittest
import urllib.parse

import numpy

from browser import Keys, ViewTest, shardctl
from inputs import picture, sound, write

NESTED = {"name": "first", "sizes": [1, 2, 3], "inner": {"deep": {"deeper": True}}, "long": list(range(300))}
BYTES = bytes(range(48)) + b"Shardkit" + bytes(600)


class SampleTest(ViewTest):
    @classmethod
    def make(cls):
        files, dataset = os.path.join(cls.folder, "files"), os.path.join(cls.folder, "many")
        os.makedirs(files)
        cls.images = [picture(("red", "lime", "blue", ("white", "black", "gray", "yellow")[i]), 64) for i in range(4)]
        for i in range(4):
            start = os.path.join(files, f"sample{i}")
            write(start + ".jpg", cls.images[i])
            write(start + ".png", picture(("red", "lime"), 10, "PNG"))
            write(start + ".json", json.dumps(NESTED))
            write(start + ".txt", f"A text of sample {i}.")
            write(start + ".bin", BYTES)
            write(start + ".wav", sound())
        shardctl("pack", files, "-o", dataset, "--storage", "jpg=blob")
        shardctl("columns", "set", dataset, "wav", "media_type=audio/wav")
        rows = os.path.join(cls.folder, "rows.ndjson")
        write(rows, "".join(json.dumps({"label": i % 2, "score": i / 4, "good": i > 1}) + "\n" for i in range(4)))
        shardctl("columns", "add", dataset, "--from", rows, "--type", "label=i64")
        shardctl("columns", "set", dataset, "label", "--class-names", "cat,dog")
        cls.curve = numpy.sin(numpy.arange(4 * 100, dtype=numpy.float32) / 9).reshape(4, 100)
        cls.curve[1, 7] = numpy.nan
        cls.matrix = numpy.arange(4 * 30 * 5, dtype=numpy.int16).reshape(4, 30, 5)
        for name, array in (("curve", cls.curve), ("matrix", cls.matrix), ("short", cls.matrix[:, 0])):
            path = os.path.join(cls.folder, name + ".npy")
            numpy.save(path, array)
            shardctl("columns", "add", dataset, "--from", path)
        cls.damage(os.path.join(dataset, "00000000.shard"), cls.images[2])
        return [dataset]

    @staticmethod
    def damage(path, value):
        """Changes a byte in the middle of a stored value."""
        with open(path, "r+b") as file:
            place = file.read().index(value) + len(value) // 2
            file.seek(place)
            file.write(bytes([value[len(value) // 2] ^ 1]))

    def value(self, name):
        """The row of a value."""
        return self.find(f"article.value[aria-label='{name}']")

    def until_value(self, name, text):
        self.until_equal(lambda: text in self.js("return arguments[0].innerText", self.value(name)), True)

    def open_sample(self, ordinal=0):
        self.open(f"#/0/sample/{ordinal}")
        self.until("document.querySelector('#stage-frame:not(.waiting) canvas').width > 300")

    def scale(self):
        return float(self.text(".stage-scale").rstrip(" %"))

    def shown(self, x, y):
        """The colour in the canvas at a share of its width and height."""
        self.expect("willReadFrequently")
        return self.js(
            """
            const canvas = document.querySelector('#stage-frame canvas');
            const [x, y] = [canvas.width * arguments[0], canvas.height * arguments[1]];
            return [...canvas.getContext('2d').getImageData(x, y, 1, 1).data];""",
            x,
            y,
        )

    def test_image_is_zoomed_and_moved(self):
        self.open_sample()
        fitted = self.scale()
        red, green, blue, _ = self.shown(0.375, 0.5)
        self.assertTrue(green > 240 and red < 20 and blue < 20, (red, green, blue))
        self.wheel("#stage-frame", -240)
        self.until("parseFloat(document.querySelector('.stage-scale').textContent) > arguments[0] * 1.4", fitted)
        # No smaller than one pixel each.
        for _ in range(10):
            self.wheel("#stage-frame", 240)
        self.until_equal(self.scale, 100)
        # With the keys: in, to the right, and back to the whole image.
        self.js("document.getElementById('stage-frame').focus()")
        self.press("0")
        self.until_equal(self.scale, fitted)
        self.press("+", "+", "+")
        self.until("parseFloat(document.querySelector('.stage-scale').textContent) > arguments[0] * 3", fitted)
        self.press(*[Keys.ARROW_RIGHT] * 60)
        self.until_equal(lambda: self.shown(0.5, 0.5)[:3] > [240, 240, 240], True)
        self.press("-")
        self.press("0")
        self.until_equal(self.scale, fitted)
        self.button("One pixel each").click()
        self.until_equal(self.scale, 100)
        self.button("Fit (0)").click()
        self.until_equal(self.scale, fitted)

    def unfold(self, name):
        # What is inside another is made after the click that unfolds it.
        self.until(
            "[...document.querySelectorAll('.json summary')].find((each) => each.innerText.startsWith(arguments[0]))",
            name,
        ).click()

    def test_json_unfolds(self):
        self.open_sample()
        self.until_value("json", 'name: "first"')
        self.assertNotIn("deeper", self.text("article[aria-label=json] .json").replace("deep: {", ""))
        self.unfold("inner")
        self.unfold("deep")
        self.until_value("json", "deeper: true")
        self.unfold("long")
        self.until_value("json", "199: 199")
        self.button("100 more").click()
        self.until_value("json", "299: 299")
        self.js("return document.querySelector('article[aria-label=json] summary')").click()
        self.until_equal(lambda: "name" in self.text("article[aria-label=json] .json").split("\n")[1:], False)

    def test_numbers_texts_and_bytes(self):
        self.open_sample(1)
        self.until_value("label", "dog")
        self.until_value("score", "0.25")
        self.until_value("good", "false")
        self.until_value("txt", "A text of sample 1.")
        self.until_value("bin", "000000  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  ················")
        self.until_value("bin", "000030  53 68 61 72 64 6b 69 74")
        self.until_value("bin", "Shardkit········")
        self.until_value("bin", f"The first 512 bytes of {len(BYTES)} B.")
        facts = {column["name"]: column for column in self.get_json("api/0/sample/1")["columns"]}
        self.until_value("jpg", "256 × 64 pixels")
        self.until_value("jpg", facts["jpg"]["checksum"])
        self.assertEqual(self.text("h1"), "sample1")
        self.assertIn("sample 1 of 4 · 00000000.shard, its sample 1 · block 0", self.text(".sample-head .path"))

    def test_arrays(self):
        self.open_sample(1)
        self.until_value("short", "int16 [5]" if "int16 [5]" in self.text("article[aria-label=short]") else "i16 [5]")
        self.until_value("short", ", ".join(map(str, self.matrix[1, 0])))
        self.js("return document.querySelector('article[aria-label=curve] summary')").click()
        curve = self.find("article[aria-label=curve] svg.curve")
        self.assertIn(f"maximum {float(numpy.nanmax(self.curve[1])):.6g}", curve.get_attribute("aria-label"))
        self.until_value("curve", "1 NaN")
        # The line is broken at the value that is none.
        self.assertEqual(self.find("article[aria-label=curve] svg.curve path").get_attribute("d").count("M"), 2)
        self.js("return document.querySelector('article[aria-label=matrix] summary')").click()
        self.find("article[aria-label=matrix] table.matrix")
        cells = self.texts("article[aria-label=matrix] tbody tr:nth-child(3) td")
        self.assertEqual(cells, [str(value) for value in self.matrix[1, 2]])
        self.until_value("matrix", "20 of 30 rows, 5 of 5 columns.")

    def test_download(self):
        self.open_sample(1)
        link = self.js("return document.querySelector('article[aria-label=bin] a.download')")
        # The browser stores it, as a click on it does.
        path = urllib.parse.urlsplit(link.get_attribute("href"))
        got = self.promise(
            """fetch(parameters[0]).then(async (reply) => [reply.headers.get('content-disposition'),
            [...new Uint8Array(await reply.arrayBuffer())]])""",
            f"{path.path}?{path.query}",
        )
        self.assertTrue(got[0].startswith("attachment"), got[0])
        self.assertEqual(bytes(got[1]), BYTES)
        folder = os.path.join(self.folder, "downloads")
        os.makedirs(folder)
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
        link.click()
        self.wait(lambda: [name for name in os.listdir(folder) if name.endswith(".bin")], "the stored file")
        with open(os.path.join(folder, os.listdir(folder)[0]), "rb") as file:
            self.assertEqual(file.read(), BYTES)

    def test_sound_is_played(self):
        self.open_sample()
        self.until("document.querySelector('article[aria-label=wav] audio').readyState > 0")
        self.assertAlmostEqual(self.js("return document.querySelector('audio').duration"), 0.1, places=3)
        self.assertTrue(self.find("audio").get_attribute("controls"))

    def test_other_samples_and_images(self):
        self.open_sample(1)
        self.press("j")
        self.until_hash("#/0/sample/2")
        self.until_text("h1", "^sample2$")
        self.press("]")
        self.until_text("h1", "^sample3$")
        self.press("]")
        self.press("k")
        self.until_text("h1", "^sample2$")
        self.press("[")
        self.until_text("h1", "^sample1$")
        self.button("← Previous").click()
        self.until_text("h1", "^sample0$")
        self.assertEqual(self.text(".steps [aria-disabled=true]"), "← Previous")
        self.button("Show above").click()
        self.until_text(".choices [aria-current=true]", "^png$")
        self.until("document.querySelector('#stage-frame canvas').getAttribute('aria-label').startsWith('Image png ')")
        self.open("#/0/sample/4")
        self.expect("status of 404")
        self.until_text("main", "There is no sample 4.")

    def test_damage(self):
        self.open("#/0/sample/2")
        self.until_value("jpg", "damaged: ")
        self.assertRegex(self.text("article[aria-label=jpg]"), "checksum")
        self.until_value("txt", "A text of sample 2.")
        # The other image takes its place.
        self.until("document.querySelector('#stage-frame canvas').getAttribute('aria-label').startsWith('Image png ')")
        # The grid says so, too.
        self.expect("status of 422")
        self.open("#/0/grid")
        self.until_text("[data-ordinal='2']", "damaged")
        self.until("document.querySelectorAll('.grid .cell img').length === 3")
        self.assertIn("checksum", self.find("[data-ordinal='2']").get_attribute("title"))
        # What was damaged on the disk is damaged in the library, too.
        with self.assertRaises(AssertionError):
            shardctl("cat", os.path.join(self.folder, "many"), "--sample", 2, "--column", "jpg")


if __name__ == "__main__":
    unittest.main()
