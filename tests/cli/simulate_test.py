"""shardctl simulate: what a job would read, of datasets and of numbers alone."""
from support import CliTest

KEYS = {"epochs", "first_batch_seconds", "bound", "busy", "peak_block_memory", "plan_memory", "ranks", "simulated_ranks",
        "lanes", "steps_per_epoch"}
EPOCH = {"steps", "samples", "samples_per_second", "seconds", "wait_share", "requests", "bytes_fetched", "bytes_cached"}
NUMBERS = ["--samples", "20000", "--sample-size", "50KB", "--shards", "10"]


class SimulateTest(CliTest):
    def simulate(self, *words):
        return self.shardctl("simulate", *words, "--json").json()

    def test_a_dataset(self):
        self.many_files(count=403, size=100)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "1KiB", "--shard-samples", "50", "--codec", "key=none",
                      "--codec", "bin=none")
        document = self.simulate("out", "--batch-size", "32", "--latency", "10ms", "--epochs", "2")
        self.assertEqual(set(document), KEYS)
        self.assertEqual([set(epoch) for epoch in document["epochs"]], 2 * [EPOCH])
        self.assertEqual([(epoch["steps"], epoch["samples"]) for epoch in document["epochs"]], 2 * [(13, 403)])
        self.assertEqual((document["ranks"], document["steps_per_epoch"]), (1, 13))
        # As bench reads it: manifest, index, both ends of 9 shards, and each block once.
        read = self.shardctl("bench", "out", "--batch-size", "32", "--simulate-latency", "2ms", "--epochs", "2", "--json").json()
        self.assertEqual(sum(epoch["requests"] for epoch in document["epochs"]), read["requests"]["count"])

    def test_numbers_alone(self):
        document = self.simulate(*NUMBERS, "--world-size", "16", "--expect-world-size", "16", "--batch-size", "512",
                                 "--step-time", "1s", "--latency", "20ms,200ms", "--node-bandwidth", "1GB")
        self.assertEqual((document["ranks"], document["simulated_ranks"], document["lanes"]), (16, 16, 16))
        self.assertEqual(document["epochs"][0]["samples"], 20000)
        self.assertEqual(document["bound"], "training")
        slower = self.simulate(*NUMBERS, "--latency", "20ms", "--bandwidth", "10MB", "--steps", "100")
        self.assertEqual((slower["bound"], slower["epochs"][0]["steps"]), ("bandwidth", 100))
        self.assertGreater(slower["epochs"][0]["wait_share"], 0.9)

    def test_text(self):
        text = self.shardctl("simulate", *NUMBERS, "--latency", "20ms").stdout
        self.assertRegex(text, r"^epoch +steps +samples/s +waiting +requests +fetched +cached\n +0 +313 ")
        self.assertRegex(text, r"\nbound by +latency\n")

    def usage_error(self, *words, says):
        run = self.shardctl(*words, code=2)
        self.assertEqual(run.stdout, "", str(run))
        self.assertIn(says, run.stderr, str(run))

    def test_mistakes(self):
        self.usage_error("simulate", says="give a DATASET, or --samples and --sample-size")
        self.usage_error("simulate", "out", *NUMBERS, says="in place of DATASET")
        self.usage_error("simulate", *NUMBERS, "--latency", "20", says="--latency: give a time with its unit")
        self.usage_error("simulate", *NUMBERS, "--latency", "20ms,10ms", says="cannot end sooner")
        self.usage_error("simulate", *NUMBERS, "--world-size", "12", "--ranks-per-node", "8", says="does not divide")
        self.usage_error("simulate", *NUMBERS, "--step-time", "fast", says="--step-time: give a time")
        self.shardctl("simulate", "--samples", "3", "--sample-size", "1", "--shards", "4", code=2)
