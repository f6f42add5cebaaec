#!/usr/bin/env python3
"""How bench/compare reports figures: ratios per round, targets, missing figures, and a plot."""
import argparse
import os
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import compare_ours as ours
import compare_plot
import compare_table
from compare_workloads import COLD, MEMORY, WORKLOADS, Comparison, Step
from peers import client


class CompareTest(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        os.mkdir(os.path.join(work.name, "files"))
        with open(os.path.join(work.name, "files", "0.bin"), "wb") as file:
            file.write(bytes(4096))
        options = argparse.Namespace(work=work.name, build_dir="build", small=1, photos=1, rounds=3, only=WORKLOADS,
                                     peers=client.MODULES)
        self.comparison = Comparison(options)
        self.comparison.sources = dict.fromkeys(("small4k", "jpeg500"), os.path.join(work.name, "files"))
        self.comparison._counts = {"small4k": 1, "jpeg500": 1}
        self.comparison.say = lambda text: None

    def figures(self, step, name, rates):
        self.comparison.figures[step, name] = [{"samples": 1, "seconds": 1 / rate, "processor": 0.25} for rate in rates]

    def test_ratios(self):
        step = Step("sequential", "small4k", 1)
        # The ratio of the medians would be 2, but the rounds are compared.
        self.figures(step, ours.SCAN, [200, 600, 400])
        self.figures(step, compare_table.MDS, [100, 2, 200])
        self.comparison.memory[MEMORY[0], ours.LOADER] = {"memory": 50.0}
        self.comparison.memory[MEMORY[0], compare_table.MDS] = {"memory": 200.0, "loaded": 100.0}
        rows = {(row.what, row.peer): row for row in compare_table.target_rows(self.comparison)}
        self.assertEqual(rows["sequential, small4k", compare_table.MDS].measured, 2)
        self.assertIsNone(rows["sequential, small4k", compare_table.TARS].measured)
        memory = rows["peak memory of a reading process, small4k", compare_table.MDS]
        self.assertEqual((memory.measured, memory.target, memory.less), (0.25, 0.3, True))

    def test_python_beside_processes(self):
        shuffled, decode = compare_table.FIRST
        comparison = self.comparison
        for seconds, per_batch in ((0.1, 30e-6), (0.1, 10e-6), (0.4, 15e-6)):
            comparison.figures[shuffled, compare_table.PYTHON].append({"samples": 1, "seconds": 1, "first": seconds, "per_batch": per_batch})
        comparison.figures[shuffled, compare_table.LIT] = [{"samples": 1, "seconds": 1, "first": 0.5}]
        comparison.figures[shuffled, compare_table.MDS] = [{"samples": 1, "seconds": 1, "first": 2}]
        # SPDL has threads, so that its memory is no yardstick.
        for name, memory in ((ours.LOADER, 50), (compare_table.PYTHON, 100), (compare_table.LIT, 400), (compare_table.MDS, 800),
                             (compare_table.SPDL, 150)):
            comparison.memory[decode, name] = {"memory": float(memory)}
        comparison.memory[MEMORY[0], ours.LOADER] = {"memory": 50.0}
        rows = {row.what: row for row in compare_table.target_rows(comparison)}
        memory = rows["Python: peak memory, decode jpeg500, 2 workers"]
        self.assertEqual((memory.peer, memory.measured, memory.less), ("the smallest with processes: litData", 0.25, True))
        self.assertIsNone(rows["Python: peak memory, sequential small4k, 2 workers"].measured)
        per_batch = rows["Python: the loop's thread for one batch, shuffled small4k, 2 workers"]
        self.assertEqual((per_batch.peer, per_batch.target, per_batch.less), ("20 µs", 1, True))
        self.assertAlmostEqual(per_batch.measured, 0.75)
        first = rows["Python: time to the first batch, shuffled small4k, 2 workers"]
        self.assertEqual((first.peer, first.measured), ("the quickest: litData", 0.2))

    def test_memory_leaves_out_what_a_peer_cannot_do(self):
        self.comparison.modules_chosen = ["spdl_loader"]
        asked = []

        class Peer:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

            def run_watched(self, workload, *_):
                asked.append(workload)
                return {"memory": 100.0, "loaded": 60.0}

        with unittest.mock.patch.object(client, "Peer", lambda *_: Peer()), \
                unittest.mock.patch.object(ours, "loader", lambda *_: {"memory": 50.0}), \
                unittest.mock.patch.object(ours, "decode", lambda *_: {"memory": 55.0}):
            self.comparison.measure_memory("python")
        self.assertEqual(asked, ["decode"])
        text = compare_table.document(self.comparison, ours.SETTINGS)
        self.assertIn("| Shardkit, loader | 50 | 50 | 55 |  |", text)
        self.assertIn("| SPDL |  |  | 100 | 60 |", text)

    def test_tars_are_read_by_those_who_can(self):
        step = Step("tars", "small4k", 4)
        names = [name for name, _ in self.comparison.contenders(step, dict.fromkeys(client.MODULES))]
        self.assertEqual(names, [compare_table.PYTHON, compare_table.SPDL])
        self.figures(step, compare_table.PYTHON, [300])
        self.figures(step, compare_table.SPDL, [200])
        self.comparison.memory[MEMORY[0], ours.LOADER] = {"memory": 50.0}
        rows = {row.what: row for row in compare_table.target_rows(self.comparison)}
        self.assertAlmostEqual(rows["Python: tars small4k, 4 workers"].measured, 1.5)
        self.assertIsNone(rows["Python: tars small4k, 1 worker"].measured)

    def test_plot(self):
        self.figures(Step("sequential", "small4k", 1), ours.SCAN, [200])
        self.figures(Step("sequential", "small4k", 1), compare_table.MDS, [100])
        self.figures(Step("sequential", "small4k", 1), compare_table.FFCV, [400])
        self.comparison.memory[MEMORY[0], ours.LOADER] = {"memory": 50.0}
        self.comparison.memory[MEMORY[0], compare_table.TARS] = {"memory": 180.0}
        document = compare_table.document(self.comparison, ours.SETTINGS)
        self.assertEqual(compare_plot.ratios(document),
                         {("Sequential read", compare_table.MDS): 2, ("Sequential read", compare_table.FFCV): 0.5,
                          ("Memory (times less)", compare_table.TARS): 3.6})
        drawing = xml.etree.ElementTree.fromstring(compare_plot.drawing(document))
        name = "{http://www.w3.org/2000/svg}"
        texts = [text.text for text in drawing.iter(name + "text")]
        self.assertEqual([text for text in texts if text.endswith(" x")], ["10 x", "2.0 x", "0.50 x", "3.6 x"])
        self.assertEqual(texts.count("not measured"), 17)
        bars = [bar for bar in drawing.iter(name + "rect") if bar.get("height") == "13"]
        equal = float(next(line for line in drawing.iter(name + "line") if line.get("class") == "equal").get("x1"))
        # Slower results are on the left of the line.
        self.assertEqual([float(bar.get("x")) < equal for bar in bars], [False, True, False])

    def test_committed_plot_shows_the_committed_figures(self):
        results = os.path.join(ROOT, "bench", "results")
        with open(os.path.join(results, "compare.md"), encoding="utf-8") as table, \
                open(os.path.join(results, "compare.svg"), encoding="utf-8") as plot:
            text = table.read()
            self.assertEqual(plot.read(), compare_plot.drawing(text))
        self.assertEqual(len(compare_plot.ratios(text)), sum(len(peers) for _, _, _, peers in compare_plot.ROWS))

    def test_document(self):
        comparison = self.comparison
        comparison.memory[MEMORY[0], ours.LOADER] = {"memory": 50.0}
        comparison.leave_out("ffcv_loader", "ModuleNotFoundError: it was not compiled")
        step = Step("sequential", "small4k", 1)
        self.figures(step, ours.SCAN, [300, 100, 200])
        comparison.figures[step, ours.LOADER] = [{"samples": 2, "seconds": 1, "processor": 1.5}]
        comparison.figures[step, compare_table.MDS] = [{"samples": 1, "seconds": 0.001}]
        comparison.cold[COLD[0], ours.LOADER] = {"samples": 1, "seconds": 0.02}
        text = compare_table.document(comparison, ours.SETTINGS)
        self.assertIn("| samples/s, 1 worker | MB/s | CPU s per million |", text)
        self.assertIn("| Shardkit, scan | 200 | 0.82 | **250,000** |  |  |  |", text)
        self.assertIn("| Shardkit, loader | 2.00 | 0.01 | 750,000 |  |  |  |", text)
        self.assertIn("| sequential, small4k | FFCV | not measured | | |", text)
        first = text.split("|---|---|---|---|---|\n")[1]
        self.assertTrue(first.startswith("| sequential, small4k | StreamingDataset (MDS) | 0.30 x | ≥ 100 x | no |"), first[:200])
        self.assertIn("- FFCV, all: ModuleNotFoundError: it was not compiled", text)
        self.assertIn("| Shardkit, loader | 50 |  |", text)
        for setting in ours.SETTINGS.values():
            self.assertIn(setting, text)

    def test_a_part(self):
        self.comparison.options.only = ["shuffled"]
        self.comparison.modules_chosen = self.comparison.options.peers = ["lit_data"]
        text = compare_table.document(self.comparison, ours.SETTINGS)
        self.assertIn("`bench/compare --small 1 --photos 1 --only shuffled --peers lit_data`", text)
        self.assertIn("- **litData**", text)
        self.assertNotIn("- **FFCV**", text)
        self.assertEqual([name for name, _ in self.comparison.modules()], ["lit_data"])

    def test_a_failure_leaves_out_one_figure(self):
        calls = []

        class Failing:
            def run(self, workload, *_):
                calls.append(workload)
                raise client.NotMeasured("no shared memory")

        step = Step("random", "small4k", 1)
        self.comparison.read_bench = lambda *_: {"random values, memory map, 1 thread": 1e6, "random values, memory map, 1 thread: processor": 1.0}
        self.comparison.datasets["small4k"] = ""
        for round_number in range(2):
            self.comparison.measure(step, {"lit_data": Failing(), "web_dataset": Failing()}, round_number)
        self.assertEqual(calls, ["random"])  # tars have no random access, and a failed peer is not tried again
        self.assertEqual(len(self.comparison.figures[step, ours.RANDOM]), 2)
        self.assertEqual(self.comparison.missing["random small4k, 1 worker", "litData"], "no shared memory")

    def test_who_delivers_too_little_measures_nothing(self):
        step = Step("sequential", "small4k", 1)
        self.comparison.check(step, "ours", {"samples": 1, "bytes": 4096})
        for figure in ({"samples": 0}, {"samples": 1, "bytes": 100}):
            with self.assertRaises(SystemExit):
                self.comparison.check(step, "theirs", figure)

    def test_a_peer_that_is_not_installed_says_so(self):
        # -S: no packages, whatever is installed on this machine.
        program = os.path.join(self.comparison.work, "python")
        with open(program, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {sys.executable} -I -S -c "import sys; sys.path.insert(0, sys.argv.pop(1)); '
                       f"import runpy; sys.argv = sys.argv[3:]; sys.argv.insert(0, ''); "
                       f"runpy.run_module('peers.serve', run_name='__main__')\" {os.path.join(ROOT, 'bench')} \"$@\"\n")
        os.chmod(program, 0o755)
        for module in client.MODULES:
            with self.assertRaisesRegex(client.NotMeasured, "ModuleNotFoundError"):
                client.Peer(program, module, self.comparison.work)


if __name__ == "__main__":
    unittest.main()
