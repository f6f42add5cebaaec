#!/usr/bin/env python3
"""No view has obstacles that axe-core finds, in neither theme, on a wide and on a narrow screen."""

import json
import os
import unittest

import numpy

from browser import ViewTest, axe_source, shardctl
from inputs import make_pairs, sound, write

# What must be there before the look.
READY = {
    "#/0": "document.querySelector('.statistics-status').textContent.endsWith('.')",
    "#/0/grid": "document.querySelector('.cell img') && document.querySelector('.cell-damaged')",
    "#/0/sample/1": "document.querySelector('.mask-sorter') && document.querySelector('.stage-scale').textContent",
    "#/0/sample/0": "document.querySelector('.value .damaged')",
    "#/0/find": "document.getElementById('find-text')",
    "#/0/find?where=width+%3E+3+and+nosuch": "document.querySelector('.problem .caret')",
    "#/0/find?where=label+%3D+1": "document.querySelector('.results .cell img')",
    "#/0/find?where=label+%3D+7": "document.querySelector('.find-results .state')",
    "#/0/order": "document.querySelector('.score-number') && document.querySelector('.results .cell')",
    "#/1": "document.querySelector('.statistics-status').textContent.endsWith('.')",
    "#/1/grid": "document.querySelector('.cell-name')",
    "#/1/sample/0": "document.querySelector('audio') && document.querySelector('.json')",
    "#/2": "document.querySelector('.state-failed')",
    "#/0/sample/99": "document.querySelector('.state-title')",
}


class ObstaclesTest(ViewTest):
    @classmethod
    def make(cls):
        cls.axe = axe_source()
        if cls.axe is None:
            raise unittest.SkipTest("needs axe-core-python of python/requirements.txt, which tests/run installs")
        pairs, dataset = os.path.join(cls.folder, "pairs"), os.path.join(cls.folder, "pictures")
        make_pairs(pairs, 6, (160, 120), (5, 9))
        with open(os.path.join(pairs, "sa_1.jpg"), "rb") as file:
            image = file.read()
        shardctl("pack", pairs, "-o", dataset, "--storage", "image=blob")
        rows = os.path.join(cls.folder, "rows.ndjson")
        write(rows, "".join(json.dumps({"label": i % 2}) + "\n" for i in range(6)))
        shardctl("columns", "add", dataset, "--from", rows)
        shardctl("columns", "set", dataset, "label", "--class-names", "cat,dog")
        with open(os.path.join(dataset, "00000000.shard"), "r+b") as file:
            file.seek(file.read().index(image) + len(image) // 2)
            file.write(b"damaged")
        files, values = os.path.join(cls.folder, "files"), os.path.join(cls.folder, "values")
        os.makedirs(files)
        for name, content in (
            ("txt", "words " * 100),
            ("json", '{"a": [1, {"b": null}]}'),
            ("bin", bytes(600)),
            ("wav", sound()),
        ):
            write(os.path.join(files, f"one.{name}"), content)
        shardctl("pack", files, "-o", values)
        shardctl("columns", "set", values, "wav", "media_type=audio/wav")
        for name, shape in (("curve", (1, 50)), ("matrix", (1, 30, 30))):
            path = os.path.join(cls.folder, f"{name}.npy")
            numpy.save(path, numpy.ones(shape))
            shardctl("columns", "add", values, "--from", path)
        broken = os.path.join(cls.folder, "broken.shard")
        write(broken, "no shard")
        return [dataset, values, broken]

    def assert_no_obstacles(self, scheme, width):
        self.resize(width, 900)
        self.emulate(scheme)
        self.expect("status of 4(00|04|22)")
        self.open("#/9")
        self.js(self.axe)
        for fragment, ready in READY.items():
            with self.subTest(view=fragment):
                self.go(fragment)
                self.until(ready)
                for summary in self.all(".value details:not([open]) > summary"):
                    self.js("arguments[0].click()", summary)
                self.until(
                    "[...document.querySelectorAll('.array')].every((each) => !/Reading/.test(each.textContent))"
                )
                self.assert_clean()
                if fragment == "#/0/grid":
                    self.button("Display").click()
                    self.assert_clean()
        self.press("?")
        self.find("dialog[open]")
        self.assert_clean()

    def assert_clean(self):
        found = self.promise(
            "axe.run(document, { preload: false, resultTypes: ['violations'] }).then(({ violations }) => "
            "violations.map((each) => [each.id, each.nodes.map((node) => "
            "node.html.slice(0, 150) + ' ' + node.failureSummary.slice(0, 300))]))"
        )
        self.assertEqual(found, [])

    def test_light(self):
        self.assert_no_obstacles("light", 1280)

    def test_dark_and_narrow(self):
        self.assert_no_obstacles("dark", 400)


if __name__ == "__main__":
    unittest.main()
