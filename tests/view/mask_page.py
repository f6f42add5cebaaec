"""Shared by the tests of masks: a dataset of them, and what is painted on the page."""

import base64
import json
import os

import numpy

from browser import ViewTest, shardctl
from inputs import decode, make_pairs

WIDTH, HEIGHT = 320, 240
FIRST = 20  # masks at least


class MaskPage(ViewTest):
    """Pages of samples with masks, shown at one pixel each."""

    @classmethod
    def make(cls):
        pairs, cls.dataset = os.path.join(cls.folder, "pairs"), os.path.join(cls.folder, "masks")
        make_pairs(pairs, 3, (WIDTH, HEIGHT), (FIRST, 40))
        shardctl("pack", pairs, "-o", cls.dataset)
        cls.masks = [
            [
                decode(mask)
                for mask in json.loads(shardctl("cat", cls.dataset, "--sample", i, "--column", "masks", "--decode"))
            ]
            for i in range(3)
        ]
        return [cls.dataset]

    def setUp(self):
        super().setUp()
        self.expect("willReadFrequently")

    def attribute(self, name, sample=0):
        array = json.loads(shardctl("cat", self.dataset, "--sample", sample, "--column", name, "--decode"))
        return numpy.array(array["data"]).reshape(array["shape"])

    def open_masks(self, sample=0):
        """The sample at one pixel each, when its masks are painted."""
        self.open(f"#/0/sample/{sample}")
        self.until("document.querySelectorAll('[data-mask]').length === arguments[0]", len(self.masks[sample]))
        self.button("One pixel each").click()
        self.until_text(".stage-scale", r"^100\s?%$")
        self.wait(lambda: self.count(0)[0] > 0 and self.count(1)[0] > 0, "painted masks")

    def painted(self, layer):
        """The pixels of a layer that lie on the image: 0 areas, 1 outlines, 2 what is looked at."""
        text = self.js(
            """
            const canvas = document.querySelectorAll('.stage-layer')[arguments[0]];
            const left = Math.round((canvas.width - arguments[1]) / 2);
            const top = Math.round((canvas.height - arguments[2]) / 2);
            const data = canvas.getContext('2d').getImageData(left, top, arguments[1], arguments[2]).data;
            let text = '';
            for (let i = 0; i < data.length; i += 32768) text += String.fromCharCode(...data.subarray(i, i + 32768));
            return btoa(text);""",
            layer,
            WIDTH,
            HEIGHT,
        )
        return numpy.frombuffer(base64.b64decode(text), numpy.uint8).reshape(HEIGHT, WIDTH, 4)

    def count(self, layer):
        """How many pixels of all of a layer are painted, and the strongest opacity."""
        return self.js(
            """
            const canvas = document.querySelectorAll('.stage-layer')[arguments[0]];
            const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            let [painted, most] = [0, 0];
            for (let i = 3; i < data.length; i += 4) if (data[i] > 0) { painted += 1; most = Math.max(most, data[i]); }
            return [painted, most];""",
            layer,
        )

    def colours(self, count):
        return numpy.array(
            self.promise(
                "import(new URL('page/mask_colours.js', document.baseURI)).then(({ maskColour }) => "
                "Array.from({ length: parameters[0] }, (_, i) => maskColour(i)))",
                count,
            ),
            numpy.uint8,
        )
