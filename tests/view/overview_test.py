#!/usr/bin/env python3
"""The overview: sizes, statistics as they come, histograms, texts, column files and generations."""

import json
import os
import unittest

from browser import ViewTest, shardctl


class OverviewTest(ViewTest):
    @classmethod
    def make(cls):
        files = os.path.join(cls.folder, "files")
        os.makedirs(files)
        for i in range(60):
            with open(os.path.join(files, f"{i:03d}.txt"), "w", encoding="utf-8") as file:
                file.write(("cat", "dog", "bird")[i % 3] if i < 45 else f"text number {i} " * i)
        dataset, changed = os.path.join(cls.folder, "plain"), os.path.join(cls.folder, "changed")
        shardctl("pack", files, "-o", dataset, "--shard-samples", 20, "--block-size", "1KiB")
        shardctl("pack", files, "-o", changed)
        rows = os.path.join(cls.folder, "rows.ndjson")
        with open(rows, "w", encoding="utf-8") as file:
            for i in range(60):
                file.write(json.dumps({"label": i % 3, "score": i / 60}) + "\n")
        shardctl("columns", "add", changed, "--from", rows, "--type", "label=i32", "--type", "score=f32")
        shardctl("columns", "set", changed, "label", "--class-names", "cat,dog,<b>bird</b>", "description=what it is")
        shardctl("rm", changed, "--where", 'key ~ "00*"')
        mds = os.path.join(cls.folder, "mds")
        shardctl("convert", dataset, "-o", mds, "--to", "mds")
        return [dataset, changed, mds]

    def facts(self):
        return dict(zip(self.texts(".facts dt"), self.texts(".facts dd")))

    def row(self, column):
        """The cells of a column's row, when its statistics are there."""
        self.until_text(".statistics-status", r"\.$")
        return next(row for row in self.all("table.columns tbody tr") if row.text.split()[0] == column)

    def test_sizes_and_statistics(self):
        self.open("#/0")
        facts = self.facts()
        self.assertEqual((facts["samples"], facts["shards"], facts["columns"]), ("60", "3", "2"))
        source = self.until_text(".statistics-status", r"\.$")
        self.assertRegex(
            source,
            r"^From the statistics of 3 shards; numbers and texts from a sample of \d+ of \d+ blocks \(seed 1\)\.$",
        )
        said = self.get_json("api/0/statistics")
        self.assertEqual(source.lower(), (said["source"] + ".").lower())
        self.assertIn("60", self.row("txt").text.split("\n"))
        histogram = self.row("txt").find_element("css selector", "svg.histogram")
        lengths = next(column for column in said["columns"] if column["name"] == "txt")["lengths"]
        self.assertEqual(sum(bucket["count"] for bucket in lengths["histogram"]), 60)
        bars = histogram.find_elements("css selector", "rect.bar-fill")
        self.assertEqual(len(bars), len(lengths["histogram"]))
        heights = [float(bar.get_attribute("height")) for bar in bars]
        counts = [bucket["count"] for bucket in lengths["histogram"]]
        self.assertEqual(heights.index(max(heights)), counts.index(max(counts)))
        self.assertIn("Lengths of txt: from ", histogram.get_attribute("aria-label"))

    def test_frequent_texts_lead_to_their_samples(self):
        self.open("#/0")
        self.row("txt").find_element("link text", "cat").click()
        self.arrived("find")
        self.until_text(".find-status", "^15 matches in 60 of 60 samples$")
        self.until_equal(lambda: self.ordinals(".results .cell")[:3], [0, 3, 6])

    def test_numbers_classes_files_and_generations(self):
        self.open("#/1")
        self.assertEqual(self.facts()["samples"], "50")
        score = self.row("score")
        self.assertIn(
            "Values of score: from ",
            score.find_element("css selector", "td:last-child svg.histogram").get_attribute("aria-label"),
        )
        ends = score.find_element("css selector", "td:last-child .chart-ends").text
        self.assertIn("0.983333", ends)
        self.button("3 classes, 1 note").click()
        self.assertEqual(self.text("ol.classes").split("\n"), ["cat", "dog", "<b>bird</b>"])
        self.assertIn("what it is", self.row("label").text)
        self.assertRegex(self.text("[aria-labelledby=files-title]"), "2 columns: label, score")
        history = self.texts("table.generations tbody tr")
        self.assertEqual([text.split()[0] for text in history], [str(i) for i in range(1, len(history) + 1)])
        for i, generation in enumerate(self.get_json("api/1/overview")["generations"]):
            self.assertEqual("can be read" in history[i], generation["readable"])
        self.assertRegex(history[-1], r"remove \(samples 10\)\t50\t")
        self.assertRegex(history[1], "label, score")

    def test_another_container(self):
        self.open("#/2")
        self.assertIn("container mds", self.text(".notes"))
        self.assertEqual(self.facts()["samples"], "60")
        self.assertIn("text number 59", self.get_json("api/2/sample/59")["columns"][-1]["text"])
        self.button("Look at samples").click()
        self.arrived("grid")
        self.until_equal(lambda: self.focused(), "0")


if __name__ == "__main__":
    unittest.main()
