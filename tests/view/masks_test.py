#!/usr/bin/env python3
"""Masks over their image: they are those of the library, pixel for pixel; the panel, the pointer and keys."""

import hashlib
import json
import os
import subprocess
import unittest

import numpy

from browser import BUILD, Keys, shardctl
from inputs import make_pairs, write
from mask_page import FIRST, HEIGHT, WIDTH, MaskPage

MANY = 2003


class MasksTest(MaskPage):
    @classmethod
    def make(cls):
        folder, many = os.path.join(cls.folder, "many-pairs"), os.path.join(cls.folder, "many")
        make_pairs(folder, 1, (64, 48), (10, 10))
        with open(os.path.join(folder, "sa_1.json"), encoding="utf-8") as file:
            pair = json.load(file)
        pair["annotations"] = [pair["annotations"][i % 10] for i in range(MANY)]
        write(os.path.join(folder, "sa_1.json"), json.dumps(pair))
        shardctl("pack", folder, "-o", many)
        return [*super().make(), many]

    def test_the_list_says_once_what_it_leaves_out(self):
        self.open("#/1/sample/0")
        left_out = f"{MANY - 2000} more are reached by keys"
        self.until_text(".mask-panel [role=status]", f"{left_out}$")
        select = self.driver.find_element("css selector", ".mask-sorter select")
        self.until("document.querySelectorAll('.mask-sorter option').length > 3")
        select.send_keys("area")
        self.until("document.querySelector('[data-mask]').dataset.mask !== '0'")
        self.assertEqual(self.text(".mask-panel [role=status]").count(left_out), 1)

    def test_masks_on_their_way_are_not_none(self):
        self.open("#/0/grid")
        self.js(
            "const ask = window.fetch; window.fetch = async (path, ...rest) => { if (String(path).includes('/masks/')) "
            "await new Promise((resolve) => { window.letThrough = resolve; }); return ask(path, ...rest); }"
        )
        self.go("#/0/sample/1")
        self.until("document.querySelector('#stage-frame:not(.waiting)') !== null")
        self.assertEqual(self.text(".mask-panel [role=status]"), "Reading masks…")
        self.assertEqual(self.text(".mask-panel h2"), "Masks")
        self.js("window.letThrough()")
        self.until_text(".mask-panel h2", f"^{len(self.masks[1])} masks$")

    def test_a_failure_stays_when_the_image_arrives(self):
        self.open("#/0/grid")
        self.js(
            "const ask = window.fetch; window.fetch = async (path, ...rest) => { if (String(path).includes('/masks/')) "
            "return new Response(JSON.stringify({ error: { message: 'they are lost' } }), { status: 500 }); "
            "if (String(path).includes('/value/')) await new Promise((resolve) => { window.letThrough = resolve; }); "
            "return ask(path, ...rest); }"
        )
        self.go("#/0/sample/1")
        self.until_text(".mask-panel [role=status] .damaged", "lost|500")
        self.js("window.letThrough()")
        self.until("document.querySelector('#stage-frame:not(.waiting)') !== null")
        self.assertRegex(self.text(".mask-panel [role=status] .damaged"), "lost|500")
        self.assertNotIn("no masks", self.text(".mask-panel"))

    def test_what_arrives_late_leaves_the_focus(self):
        self.open("#/0/sample/1")
        self.go("#/0/sample/2")
        self.until("document.querySelector('.mask-sorter select:enabled') !== null")
        self.js("document.querySelector('.mask-sorter select').focus()")
        self.until("document.querySelectorAll('.mask-sorter option').length > 3")
        self.until("document.querySelector('#stage-frame:not(.waiting)') !== null")
        self.assertTrue(self.js("return document.activeElement === document.querySelector('.mask-sorter select')"))

    def test_pixels_are_those_of_the_library(self):
        self.open("#/0")
        for sample, masks in enumerate(self.masks):
            self.assertGreaterEqual(len(masks), FIRST)
            said = self.promise(
                """(async () => {
                const { parseMasks, rasterize, measure } = await import(new URL('page/masks.js', document.baseURI));
                const masks = parseMasks(await (await fetch(parameters[0])).arrayBuffer());
                return Promise.all(masks.map(async (mask) => {
                  const pixels = rasterize(mask);
                  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', pixels));
                  const { area, box } = measure(mask);
                  return [mask.height, mask.width, pixels.reduce((sum, pixel) => sum + pixel, 0), area, box,
                    [...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('')];
                }));
            })()""",
                f"api/0/masks/{sample}?column=masks",
            )
            self.assertEqual(len(said), len(masks))
            for pixels, (height, width, area, measured, box, digest) in zip(masks, said):
                self.assertEqual((height, width, area, measured), (*pixels.shape, int(pixels.sum()), int(pixels.sum())))
                rows, columns = numpy.flatnonzero(pixels.any(1)), numpy.flatnonzero(pixels.any(0))
                self.assertEqual(box, [columns[0], rows[0], columns[-1] + 1 - columns[0], rows[-1] + 1 - rows[0]])
                self.assertEqual(digest, hashlib.sha256(numpy.ascontiguousarray(pixels).tobytes()).hexdigest())

    def test_decoding_here_is_that_of_the_package(self):
        python = os.path.join(BUILD, "python-venv", "bin", "python")
        script = (
            "import sys, hashlib, shardkit as sk\nfor sample in sk.open(sys.argv[1]):\n"
            "    print(*(hashlib.sha256(mask.tobytes()).hexdigest() for mask in sample['masks'].dense()))"
        )
        environment = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}
        if (
            not os.path.exists(python)
            or subprocess.run(
                [python, "-B", "-c", "import shardkit"], env=environment, stderr=subprocess.DEVNULL, check=False
            ).returncode
            != 0
        ):
            self.skipTest("the Python package is not built")
        done = subprocess.run(
            [python, "-B", "-c", script, self.dataset], env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        self.assertEqual(
            [line.split() for line in done.stdout.splitlines()],
            [
                [hashlib.sha256(numpy.ascontiguousarray(mask).tobytes()).hexdigest() for mask in masks]
                for masks in self.masks
            ],
        )

    def test_painted_pixels(self):
        self.open_masks()
        masks = self.masks[0]
        self.js("document.querySelector('.mask-panel input[type=range]').focus()")
        self.press(Keys.END)
        colours = self.colours(len(masks))
        expected = numpy.zeros((HEIGHT, WIDTH, 4), numpy.uint8)
        # Small masks lie above large ones.
        for i in sorted(range(len(masks)), key=lambda i: (-int(masks[i].sum()), i)):
            expected[masks[i] == 1] = (*colours[i], 255)
        self.until_equal(lambda: bool((self.painted(0) == expected).all()), True)
        self.assertEqual(self.count(0)[0], int((expected[..., 3] > 0).sum()))
        # One at a time: its pixels and no other.
        self.js("document.activeElement.blur()")
        self.press("s")
        self.press(*["."] * 4)
        self.until_equal(lambda: bool(((self.painted(2)[..., 3] > 0) == (masks[4] == 1)).all()), True)
        self.assertFalse(self.painted(0).any())
        # Its outline alone is its inner edge.
        self.press("o")
        inner = numpy.pad(masks[4], 1)
        inner = inner[:-2, 1:-1] & inner[2:, 1:-1] & inner[1:-1, :-2] & inner[1:-1, 2:]
        self.until_equal(lambda: bool(((self.painted(2)[..., 3] > 0) == ((masks[4] == 1) & (inner == 0))).all()), True)

    def test_panel(self):
        self.open_masks()
        masks = self.masks[0]
        self.assertEqual(self.text(".mask-panel h2"), f"{len(masks)} masks")
        self.assertIn(f"{WIDTH} × {HEIGHT} pixels", self.text(".mask-panel"))
        scores = self.attribute("predicted_iou")
        for i, text in enumerate(self.texts("[data-mask]")):
            self.assertEqual(text.split(), [str(i), f"{int(masks[i].sum()):,}", "px", f"{scores[i]:.4f}"])
        self.choose("Sort by", "predicted_iou")
        self.until_equal(
            lambda: [int(text.split()[0]) for text in self.texts("[data-mask]")],
            sorted(range(len(masks)), key=lambda i: (scores[i], i)),
        )
        self.find("[data-mask='3']").click()
        self.until("document.querySelector('[data-mask=\"3\"]').getAttribute('aria-selected') === 'true'")
        self.until_equal(lambda: bool(((self.painted(2)[..., 3] > 0) == (masks[3] == 1)).all()), True)

    def test_pointing_at_a_mask_shows_what_is_known_of_it(self):
        self.open_masks()
        masks = self.masks[0]
        smallest = min(range(len(masks)), key=lambda i: (int(masks[i].sum()), -i))
        y, x = (int(each[len(each) // 2]) for each in numpy.nonzero(masks[smallest]))
        box = self.js(
            "const { left, top, width, height } = document.getElementById('stage-frame').getBoundingClientRect();"
            "return [left, top, width, height];"
        )
        corner = (box[0] + (box[2] - WIDTH) / 2, box[1] + (box[3] - HEIGHT) / 2)
        self.point(corner[0] + x + 0.5, corner[1] + y + 0.5)
        self.until_text(".mask-tip", rf"^mask\s+{smallest}\b")
        facts = dict(zip(self.texts(".mask-tip dt"), self.texts(".mask-tip dd")))
        self.assertEqual(facts["area"], f"{int(masks[smallest].sum()):,}")
        self.assertAlmostEqual(float(facts["predicted_iou"]), self.attribute("predicted_iou")[smallest], places=5)
        self.assertEqual(
            [float(part.replace(",", "")) for part in facts["bbox"].split(", ")],
            [float(f"{value:.6g}") for value in self.attribute("bbox")[smallest]],
        )
        for name in ("stability_score", "point_coords", "crop_box"):
            self.assertIn(name, facts)
        self.point(box[0] + 2, box[1] + 2)
        self.until("document.querySelector('.mask-tip').hidden")

    def test_keys_change_what_is_painted(self):
        self.open_masks()

        def painted():
            return [self.count(i)[0] > 0 for i in range(3)]

        self.assertEqual(painted(), [True, True, False])
        for key, expected in (
            ("o", [False, True, False]),
            ("o", [True, True, False]),
            ("m", [False, False, False]),
            ("m", [True, True, False]),
            ("b", [True, True, True]),
            ("b", [True, True, False]),
            ("p", [True, True, True]),
            ("p", [True, True, False]),
        ):
            self.press(key)
            self.until_equal(painted, expected)
        before = self.count(0)[1]
        self.js("document.querySelector('.mask-panel input[type=range]').focus()")
        self.press(*[Keys.ARROW_LEFT] * 4)
        self.until_equal(lambda: self.count(0)[1] < before - 40, True)
        self.press(Keys.HOME)
        self.until_equal(lambda: self.count(0)[0], 0)
        # Choices last to the next sample.
        self.press("j")
        self.until_text("h1", "^sa_2$")
        self.until("document.querySelectorAll('[data-mask]').length === arguments[0]", len(self.masks[1]))
        self.assertEqual(self.find(".mask-panel input[type=range]").get_attribute("value"), "0")

    def test_boxes_lie_where_the_column_says(self):
        self.open_masks()
        self.js("document.querySelector('[data-mask=\"5\"]').click()")
        self.press("s")
        self.press("b")
        x, y, width, height = (int(value) for value in self.attribute("bbox")[5])

        def box():
            # Without the mask itself: what is painted where no pixel of it is.
            edge = (self.painted(2)[..., 3] > 0) & (self.masks[0][5] == 0)
            rows, columns = numpy.flatnonzero(edge.any(1)), numpy.flatnonzero(edge.any(0))
            return len(rows) > 0 and (
                abs(columns[0] - x) <= 2
                and abs(columns[-1] - (x + width)) <= 2
                and abs(rows[0] - y) <= 2
                and abs(rows[-1] - (y + height)) <= 2
            )

        self.until_equal(box, True)


if __name__ == "__main__":
    unittest.main()
