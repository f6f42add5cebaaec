"""shardctl plan: the samples of the steps, for any rank and from any position."""
import os
import subprocess

import support
from support import CliTest

KEYS = {"steps", "shuffle_score", "perfect_score", "webdataset_score", "scored_samples", "read_amplification",
        "better_world_sizes", "datasets", "order", "seed", "epoch", "batch_size", "remainder", "shuffle_buffer",
        "lanes", "world_size", "rank", "samples", "steps_per_epoch", "cursor"}
SAMPLES = 403


class PlanTest(CliTest):
    def setUp(self):
        super().setUp()
        self.many_files(count=SAMPLES, size=100)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "1KiB", "--shard-samples", "50", "--codec", "key=none",
                      "--codec", "bin=none")

    def plan(self, *options, datasets=("out",)):
        return self.shardctl("plan", *datasets, "--json", *options).json()

    def steps(self, *options, **keywords):
        document = self.plan(*options, **keywords)
        return [(step["step"], step["samples"]) for step in document["steps"]]

    def test_keys(self):
        document = self.plan("--steps", "1")
        self.assertEqual(set(document), KEYS)
        self.assertEqual(set(document["steps"][0]), {"step", "samples"})
        self.assertEqual((document["samples"], document["steps_per_epoch"], document["scored_samples"]), (SAMPLES, 7, SAMPLES))
        self.assertEqual(set(self.plan("--label", "key")), KEYS | {"label_clumping", "webdataset_label_clumping"})

    def test_remainder(self):
        shuffled = [sample for _, samples in self.steps("--batch-size", "100") for sample in samples]
        dropped = self.steps("--batch-size", "100", "--remainder", "drop")
        self.assertEqual([samples for _, samples in dropped], [shuffled[i:i + 100] for i in range(0, 400, 100)])
        padded = self.steps("--batch-size", "100", "--remainder", "pad")
        self.assertEqual(padded[:4], dropped)
        self.assertEqual(padded[4], (4, shuffled[400:] + shuffled[:97]))

    def test_ranks_share_the_steps(self):
        whole = self.steps("--batch-size", "30")
        ranks = [self.steps("--batch-size", "30", "--world-size", "7", "--rank", rank) for rank in range(7)]
        self.assertEqual(whole, self.steps("--batch-size", "30", "--world-size", "7"))
        for i, (number, samples) in enumerate(whole):
            self.assertEqual([rank[i][0] for rank in ranks], 7 * [number])
            self.assertEqual(sorted(sample for rank in ranks for sample in rank[i][1]), sorted(samples))

    def test_amplification(self):
        document = self.plan("--lanes", "6")
        self.assertAlmostEqual(document["read_amplification"], 1)
        self.assertEqual(document["better_world_sizes"], [])
        self.assertEqual(self.plan("--lanes", "6", "--world-size", "3")["better_world_sizes"], [])
        document = self.plan("--lanes", "6", "--world-size", "4")
        self.assertEqual(document["better_world_sizes"], [3, 6])
        self.assertGreater(document["read_amplification"], self.plan("--lanes", "6", "--world-size", "3")["read_amplification"])
        self.assertEqual(self.plan("--lanes", "6", "--world-size", "9")["better_world_sizes"], [6])

    def test_part_of_the_steps(self):
        whole = self.steps("--batch-size", "30")
        for first, count in ((0, 1), (3, 5), (13, 9), (14, 1), (99, 3), (2, 0)):
            with self.subTest(first=first, count=count):
                self.assertEqual(self.steps("--batch-size", "30", "--from-step", first, "--steps", count),
                                 whole[first:first + count])

    def test_cursor_goes_on(self):
        whole = self.steps("--batch-size", "30", "--epoch", "4")
        later = self.steps("--batch-size", "30", "--epoch", "5")
        for count in (0, 6, len(whole)):
            with self.subTest(count=count):
                cursor = self.plan("--batch-size", "30", "--epoch", "4", "--steps", count)["cursor"]
                rest = whole[count:] or later
                self.assertEqual(self.steps("--batch-size", "30", "--cursor", cursor), rest)
                parts = [self.steps("--batch-size", "30", "--cursor", cursor, "--world-size", 3, "--rank", r) for r in range(3)]
                self.assertEqual(sorted(sample for part in parts for sample in part[0][1]), sorted(rest[0][1]))
        cursor = self.plan("--batch-size", "30", "--epoch", "4", "--steps", "3")["cursor"]
        # Another batch size: the same sequence in other steps. Step 1 of 64 samples would have begun before the cursor.
        [(number, samples)] = self.steps("--batch-size", "64", "--cursor", cursor, "--steps", "1")
        flat = [sample for _, step in whole for sample in step]
        self.assertEqual((number, samples), (2, flat[90:154]))
        self.assertEqual(self.steps("--batch-size", "30", "--cursor", cursor, "--from-step", "5"), whole[5:])
        self.assertEqual(self.steps("--batch-size", "30", "--cursor", cursor, "--epoch", "4"), whole[3:])

    def test_foreign_cursors_are_refused(self):
        cursor = self.plan("--steps", "1")["cursor"]
        for options, says in ((["--seed", "1"], "another plan"), (["--order", "window"], "another plan"),
                              (["--shuffle-buffer", "1MiB"], "another plan"), (["--lanes", "3"], "another plan"),
                              (["--epoch", "7"], "not in --epoch 7")):
            with self.subTest(options=options):
                self.assertIn(says, self.shardctl("plan", "out", "--cursor", cursor, *options, code=2).stderr)
        for text in ("x", "[]", "{}", cursor[:-1], cursor.replace('"position":64', '"position":404'),
                     cursor.replace('"position":64', '"position":-1')):
            with self.subTest(cursor=text):
                run = self.shardctl("plan", "out", "--cursor", text, code=2)
                self.assertTrue(run.stderr.startswith("shardctl: --cursor: "), str(run))
                self.assertEqual(run.stdout, "")

    def test_earlier_generations(self):
        before = self.plan("--steps", "1")
        self.shardctl("pack", "many", "-o", "out", "--append", "--existing-keys", "add")
        self.assertEqual(self.plan()["samples"], 2 * SAMPLES)
        refused = self.shardctl("plan", "out", "--cursor", before["cursor"], code=2)
        self.assertIn("the cursor is of generation 1 of the dataset, and this is generation 2", refused.stderr)
        self.assertEqual(self.plan("--at", "1", "--steps", "1"), before)
        self.shardctl("plan", "out", "--at", "1", "--cursor", before["cursor"])
        self.assertEqual(self.plan("--at", "1,2", datasets=("out", "out"))["samples"], 3 * SAMPLES)
        self.assertIn("1 value for 2 datasets", self.shardctl("plan", "out", "out", "--at", "1", code=2).stderr)
        self.assertIn("has no generation 3", self.shardctl("plan", "out", "--at", "3", code=3).stderr)
        bench = self.shardctl("bench", "out", "--at", "1", "--json").json()
        self.assertEqual(bench["samples"], SAMPLES)

    def test_no_data_is_read(self):
        before = self.plan()
        for name in os.listdir(self.path("out")):
            if name.endswith(".shard"):
                os.remove(self.path("out", name))
        self.assertEqual(self.plan(), before)
        self.shardctl("plan", "out", "--label", "key", code=3)

    def test_scores(self):
        document = self.plan("--order", "sequential")
        self.assertAlmostEqual(document["shuffle_score"], 3 / (SAMPLES + 1))
        self.assertEqual(document["perfect_score"], 1.0)
        buffered = self.plan("--shuffle-buffer", "4KiB")
        self.assertLess(buffered["webdataset_score"], buffered["shuffle_score"])
        self.assertAlmostEqual(self.plan()["shuffle_score"], 1, delta=0.1)
        # With everything in the buffer both are perfect, apart from random deviations.
        self.assertAlmostEqual(self.plan()["webdataset_score"], 1, delta=0.1)

    def test_label_clumping(self):
        # The two classes alternate: in stored order, no sample follows one of its own class.
        for i in range(100):
            self.write(f"classes/{i:03d}.cls", "ab"[i % 2])
        self.shardctl("pack", "classes", "-o", "alternating", "--block-size", "128")
        document = self.plan("--label", "cls", "--order", "sequential", datasets=["alternating"])
        self.assertEqual(document["label_clumping"], 0)
        for i in range(100):
            self.write(f"sorted/{i:03d}.cls", "ab"[i // 50])
        self.shardctl("pack", "sorted", "-o", "clumped", "--block-size", "128")
        document = self.plan("--label", "cls", "--order", "sequential", datasets=["clumped"])
        # 98 of 99 neighbours have the same class; by chance it would be 49 of 99.
        self.assertAlmostEqual(document["label_clumping"], 2.0)
        self.assertAlmostEqual(self.plan("--label", "cls", datasets=["clumped"])["label_clumping"], 1, delta=0.35)
        both = self.plan("--label", "cls", "--order", "sequential", datasets=["alternating", "clumped"])
        self.assertEqual(both["scored_samples"], 200)

    def test_mixtures(self):
        self.write("few/a.txt", "a")
        self.write("few/b.txt", "b")
        self.shardctl("pack", "few", "-o", "few.shards")
        datasets = ["out", "few.shards"]

        def counts(*options):
            document = self.plan(*options, datasets=datasets)
            seen = [tuple(sample) for step in document["steps"] for sample in step["samples"]]
            found = [sum(dataset == i for dataset, _ in seen) for i in range(2)]
            self.assertEqual(found, [dataset["samples"] for dataset in document["datasets"]])
            self.assertEqual([dataset["path"] for dataset in document["datasets"]], datasets)
            self.assertLess(max(ordinal for dataset, ordinal in seen if dataset == 1), 2)
            return found
        self.assertEqual(counts(), [SAMPLES, 2])
        self.assertEqual(counts("--repeat", "1,10"), [SAMPLES, 20])
        self.assertEqual(counts("--repeat", "0.5,2.5"), [201, 5])
        self.assertEqual(counts("--choose", "all,7"), [SAMPLES, 7])
        self.assertEqual(counts("--choose", "100,all", "--repeat", "1,3"), [100, 6])
        self.assertEqual(counts("--proportion", "3,1", "--epoch-samples", "200"), [150, 50])
        self.assertEqual(counts("--proportion", "1,1"), [203, 202])
        # Most samples come from two adjacent places. Even when well shuffled they are close to each other, and the mean
        # distance is a quarter of that in a shuffle of the whole source. The score takes this into account.
        score = self.plan("--repeat", "1,2000", datasets=datasets)["shuffle_score"]
        self.assertAlmostEqual(score, 1, delta=0.2)

    def test_mixture_errors(self):
        self.shardctl("plan", "out", "out", "--proportion", "1,1")
        for options, says in ((["--proportion", "1"], "1 value for 2 datasets"), (["--repeat", "1,2,3"], "3 values for 2"),
                              (["--repeat", "1,x"], "--repeat: a number"), (["--repeat", "1,-1"], "--repeat: a number"),
                              (["--proportion", "1,0"], "--proportion: a number"), (["--choose", "1,0"], "--choose"),
                              (["--choose", "1,"], "--choose"), (["--repeat", "inf,1"], "--repeat: a number"),
                              (["--repeat", "2,1", "--choose", "1,all"], "more than one of"),
                              (["--epoch-samples", "5"], "epoch_samples")):
            with self.subTest(options=options):
                self.assertIn(says, self.shardctl("plan", "out", "out", *options, code=2).stderr)

    def test_what_a_loader_would_refuse_is_said(self):
        for options, says in ((["--batch-size", "2", "--world-size", "3"], "a loader of 3 ranks refuses this: plan: a batch of 2 over 3"),
                              (["--batch-size", str(SAMPLES - 1), "--world-size", "2"], "the last step of an epoch has 1 sample"),
                              (["--batch-size", str(SAMPLES + 1), "--remainder", "drop"], "fewer samples than a batch"),
                              (["--batch-size", "10", "--world-size", "4", "--remainder", "drop"], "a loader in Python refuses this without uneven=True")):
            with self.subTest(options=options):
                self.assertIn(says, self.shardctl("plan", "out", *options).stderr)
        self.assertEqual(self.shardctl("plan", "out", "--batch-size", "12", "--world-size", "4", "--remainder", "drop").stderr, "")

    def test_usage(self):
        for options, says in ((["--batch-size", "0"], "--batch-size"), (["--rank", "1"], "not below --world-size"),
                              (["--world-size", "0"], "--world-size"), (["--lanes", "65537"], "--lanes"),
                              (["--order", "random"], "is not one of sequential, shuffled, window"),
                              (["--remainder", "fill"], "is not one of keep, drop, pad"), (["--seed", "-1"], "--seed"),
                              (["--lanes", "2", "--order", "window"], "only the shuffled order"),
                              (["--shuffle-buffer", "x"], "is not a size")):
            with self.subTest(options=options):
                self.assertIn(says, self.shardctl("plan", "out", *options, code=2).stderr)

    def test_bad_data_and_missing_files(self):
        self.shardctl("plan", "missing", code=3)
        self.shardctl("plan", "out", "missing", code=3)
        self.write("out/dataset.json", '{"format')
        self.shardctl("plan", "out", code=1)

    def test_empty_dataset(self):
        os.mkdir(self.path("nothing"))
        self.shardctl("pack", "nothing", "-o", "empty", "--allow-empty")
        self.assertIn("no samples", self.shardctl("plan", "empty", code=2).stderr)

    def test_reader_that_leaves(self):
        process = subprocess.Popen([support.SHARDCTL, "plan", self.path("out"), "--batch-size", "1", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        error = process.stderr.read()
        process.stderr.close()
        self.assertEqual((process.wait(timeout=60), error), (0, b""))
