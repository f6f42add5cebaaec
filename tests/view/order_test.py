#!/usr/bin/env python3
"""The order of delivery: the samples of a step are those of shardctl plan, and a picture says how well they mix."""

import json
import os
import unittest

from browser import Keys, ViewTest, shardctl

SAMPLES = 300


class OrderTest(ViewTest):
    @classmethod
    def make(cls):
        files, cls.dataset = os.path.join(cls.folder, "files"), os.path.join(cls.folder, "data")
        shardctl("synth", "files", "-o", files, "--count", SAMPLES, "--size", "1KiB")
        shardctl("pack", files, "-o", cls.dataset, "--shard-samples", 100, "--block-size", "4KiB")
        return [cls.dataset]

    def plan(self, step, batch_size=32, **options):
        arguments = [part for name, value in options.items() for part in ("--" + name.replace("_", "-"), value)]
        plan = json.loads(
            shardctl(
                "plan",
                self.dataset,
                "--json",
                "--batch-size",
                batch_size,
                "--from-step",
                step,
                "--steps",
                1,
                *arguments,
            )
        )
        return plan["steps"][0]["samples"], plan

    def delivered(self):
        """Ordinals of all cells, those below the screen too."""
        self.until("""(() => { const items = [...document.querySelectorAll('.results > li')];
            items.forEach((item) => { item.style.height = '4px'; });
            const said = /: (\\d+) samples/.exec(document.querySelector('.order .find-status').innerText);
            return said && items.length === Number(said[1]) && items.every((item) => item.querySelector('.cell')); })()""")
        return self.ordinals(".results .cell")

    def show(self, **values):
        for name, value in values.items():
            self.fill(f"#order-{name}", str(value), enter=False)
        self.press(Keys.ENTER)
        self.until_text(".order .find-status", f"^step {values['step']} of ")

    def test_steps_are_those_of_plan(self):
        self.open("#/0/order")
        self.until_text(".order .find-status", "^step 0 of 10, rank 0 of 1: 32 samples; 300 an epoch$")
        self.assertEqual(self.delivered(), self.plan(0)[0])
        self.button("Step →").click()
        self.until_text(".order .find-status", "^step 1 of 10")
        self.assertEqual(self.delivered(), self.plan(1)[0])
        self.until_hash("#/0/order?order=shuffled&seed=0&epoch=0&world_size=1&rank=0&batch_size=32&step=1")
        self.show(seed=7, epoch=2, batch_size=20, step=14)
        self.assertEqual(self.delivered(), self.plan(14, 20, seed=7, epoch=2)[0])
        self.assertTrue(
            self.js(
                "return [...document.querySelectorAll('button')].find((each) => each.innerText === 'Step →').disabled"
            )
        )
        self.show(seed=7, epoch=2, batch_size=20, step=3, world_size=2, rank=1)
        self.assertEqual(self.delivered(), self.plan(3, 20, seed=7, epoch=2, world_size=2, rank=1)[0])
        # The link opens the same step.
        self.open(self.js("return location.hash"))
        self.until_text(".order .find-status", "^step 3 of 15, rank 1 of 2: 10 samples")
        self.assertEqual(self.delivered(), self.plan(3, 20, seed=7, epoch=2, world_size=2, rank=1)[0])

    def test_picture_and_score(self):
        self.open("#/0/order?seed=3")
        _, plan = self.plan(0, seed=3)
        self.until_text(".score-number", f"^{plan['shuffle_score']:.3f}$")
        self.expect("willReadFrequently")
        dots = """(() => { const canvas = document.querySelector('canvas.scatter');
            const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            let [count, above] = [0, 0];
            for (let i = 3; i < data.length; i += 4) if (data[i] > 0) {
              count += 1;
              const [x, y] = [(i >> 2) % canvas.width, Math.floor((i >> 2) / canvas.width)];
              if (Math.abs(canvas.height - y - x) < 20) above += 1;
            }
            return count > 0 && [count, above]; })()"""
        count, diagonal = self.until(dots)
        self.assertLess(diagonal, count / 4)
        self.choose("Order", "sequential")
        self.until("parseFloat(document.querySelector('.score-number').textContent) < 0.1")
        self.until_text("figcaption", "this is no shuffle")
        # As stored: all dots lie on the diagonal.
        self.until(f"(({dots}) || [1, 0]).reduce((count, diagonal) => count === diagonal)")
        self.assertEqual(self.delivered(), list(range(32)))

    def test_mistakes(self):
        self.open("#/0/order")
        self.until_text(".order .find-status", "^step 0 of 10")
        self.expect("status of 400")
        self.fill("#order-step", "10")
        self.until_text(".order", "There is no such step.")
        self.fill("#order-step", "many")
        self.until_text(".order", "Step is a whole number.")
        self.assertEqual(self.find("#order-step").get_attribute("aria-invalid"), "true")
        self.fill("#order-step", "9")
        self.until_text(".order .find-status", "^step 9 of 10, rank 0 of 1: 12 samples")
        self.assertEqual(self.delivered(), self.plan(9)[0])


if __name__ == "__main__":
    unittest.main()
