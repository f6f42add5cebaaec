"""shardctl bench: its counts are exact. Speed is not tested here."""
import json
import os
import signal
import time

import support
from support import CliTest, tiny_jpeg

KEYS = {"datasets", "samples", "batches", "samples_per_epoch", "bytes", "bytes_read", "bytes_from_cache", "blocks_read", "blocks_read_again",
        "read_amplification", "requests",
        "seconds", "samples_per_second", "bytes_per_second", "open_seconds", "first_batch_seconds", "wait", "stages",
        "threads_note", "cache", "memory", "packing", "skipped", "warned_images", "diagnosis", "cold", "cold_problem", "ceilings"}


class BenchTest(CliTest):
    def bench(self, *words, code=0):
        return self.shardctl("bench", *words, "--json", code=code).json()

    def pack_many(self, count=200, size=100):
        self.many_files(count=count, size=size)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "1KiB", "--shard-samples", "64")

    def test_keys(self):
        self.pack_many()
        document = self.bench("out")
        self.assertEqual(set(document), KEYS)
        self.assertEqual(set(document["wait"]), {"share", "seconds", "seconds_per_step"})
        stage = {"threads", "busy", "starved", "blocked"}
        self.assertEqual({name: set(times) for name, times in document["stages"].items()},
                         {"read": stage | {"file_seconds"}, "decode": stage})
        self.assertEqual(set(document["requests"]), {"count", "bytes", "bridged_bytes", "round_trips"})
        self.assertEqual(document["cache"], {"bytes_found": 0, "bytes_fetched": 0})
        self.assertEqual(set(document["memory"]),
                         {"budget", "blocks", "batches", "peak_blocks", "peak_batches", "peak_resident"})
        self.assertEqual(set(document["diagnosis"]), {"stage", "reason", "advice"})
        self.assertEqual(set(document["ceilings"]), {"storage", "memory_copy", "jpeg"})
        self.assertEqual(set(document["ceilings"]["storage"]),
                         {"bytes_per_second", "loader", "ratio", "bytes", "threads", "io", "cold"})
        self.assertIsNone(document["ceilings"]["jpeg"])
        self.assertIsNone(document["packing"])
        self.assertEqual((document["cold"], document["cold_problem"]), (False, None))
        ratio = document["ceilings"]["memory_copy"]
        self.assertAlmostEqual(ratio["ratio"], ratio["loader"] / ratio["bytes_per_second"])

    def test_counts(self):
        self.pack_many()
        for options, samples, batches in (
                ([], 200, 4), (["--epochs", "3"], 600, 12), (["--batch-size", "7"], 200, 29), (["--steps", "2"], 128, 2),
                (["--remainder", "drop"], 192, 3), (["--remainder", "pad"], 256, 4), (["--epochs", "2", "--steps", "5"], 264, 5),
                (["--order", "sequential"], 200, 4), (["--order", "window", "--shuffle-buffer", "2KiB"], 200, 4),
                (["--threads", "1", "--read-threads", "1", "--memory", "4MiB"], 200, 4)):
            with self.subTest(options=options):
                document = self.bench("out", *options)
                self.assertEqual((document["samples"], document["batches"], document["bytes"]),
                                 (samples, batches, 100 * samples))
                self.assertEqual((document["samples_per_epoch"], document["skipped"]), (200, 0))
        ranks = [self.bench("out", "--world-size", "3", "--rank", str(rank)) for rank in range(3)]
        self.assertEqual(sum(document["samples"] for document in ranks), 200)
        for document in ranks:
            self.assertEqual(document["batches"], 4)
            self.assertAlmostEqual(document["samples"], 200 / 3, delta=4 * 2 / 3)
            plan = self.shardctl("plan", "out", "--world-size", "3", "--json").json()
            self.assertEqual(document["read_amplification"], plan["read_amplification"])

    def test_threads_and_modes(self):
        self.pack_many()
        document = self.bench("out", "--threads", "3", "--read-threads", "2", "--io", "mmap", "--memory", "8MiB")
        self.assertEqual((document["stages"]["decode"]["threads"], document["stages"]["read"]["threads"]), (3, 2))
        self.assertIsNone(document["threads_note"])
        self.assertEqual((document["ceilings"]["storage"]["io"], document["ceilings"]["storage"]["threads"]), ("mmap", 2))
        self.assertEqual(document["memory"]["budget"], 8 << 20)
        self.assertIn("found by trying", self.bench("out")["threads_note"])
        self.assertEqual(self.bench("out", "--io", "direct")["samples"], 200)

    def test_several_datasets(self):
        self.pack_many()
        self.assertEqual(self.bench("out", "out", "--repeat", "1,3")["samples"], 800)

    def test_images_and_masks(self):
        self.small_sa1b()
        self.shardctl("pack", "sa1b", "-o", "out")
        pixels = 3 * 24 * 16  # of the three pictures
        for decode, columns, size in (
                ("none", "image", 3 * len(tiny_jpeg(24, 16))), ("image", "image", 3 * pixels), ("image:4", "image", 3 * 3 * 16),
                ("image:6x4", "image", 3 * 3 * 24), ("image:resize:10x5", "image", 3 * 3 * 50),
                ("image:center-crop:4", "image", 3 * 3 * 16), ("image:longest-side:16", "image", 3 * 3 * 256),
                ("image:random-resized-crop:2", "image", 3 * 3 * 4),
                # Six masks of 24 x 16.
                ("masks", "masks", 6 * 24 * 16), ("masks:packed", "masks", 6 * 3 * 16), ("masks:dense", "masks", 6 * 24 * 16)):
            with self.subTest(decode=decode):
                document = self.bench("out", "--decode", decode, "--columns", columns, "--batch-size", "2")
                self.assertEqual((document["samples"], document["batches"], document["bytes"]), (3, 2, size))
                jpeg = document["ceilings"]["jpeg"]
                self.assertEqual(jpeg is not None, decode.startswith("image"))
                if jpeg is not None:
                    self.assertEqual(jpeg["images"], 3)
                    self.assertAlmostEqual(jpeg["loader"], document["samples_per_second"])
        self.assertEqual(self.bench("out", "--columns", "masks,image_id")["bytes"],
                         self.bench("out", "--columns", "masks", "--columns", "image_id", "--decode", "masks:runs")["bytes"])

    def test_everything_decoded_at_once(self):
        self.shardctl("synth", "sa1b", "-o", "sa1b", "--count", "4", "--width", "64", "--height", "48")
        self.shardctl("pack", "sa1b", "-o", "out")
        document = self.bench("out", "--decode", "image:16,masks:packed,tokens", "--context", "512", "--epochs", "2",
                              "--columns", "image,masks,annotation_id")
        masks = document["packing"]["tokens"]  # one number per mask
        self.assertGreater(masks, 2 * 4 * 2)
        self.assertEqual(document["bytes"], 2 * 4 * 16 * 16 * 3 + masks * 16 * 2 + 8 * document["packing"]["positions"])

    def test_token_packing(self):
        self.small_sa1b()
        self.shardctl("pack", "sa1b", "-o", "out")
        # Sequences of 2, 3 and 1 numbers make two rows of 3 or of 4, of which one may be padded.
        for options, positions in ((["--context", "3"], 6), (["--context", "4", "--batch-size", "1"], 8)):
            with self.subTest(options=options):
                document = self.bench("out", "--decode", "tokens", "--columns", "annotation_id", *options)
                self.assertEqual(document["packing"], {"tokens": 6, "positions": positions, "efficiency": 6 / positions})
        text = self.shardctl("bench", "out", "--decode", "tokens", "--columns", "annotation_id", "--context", "3").stdout
        self.assertIn("sequence packing: 100.00 % of 6 positions are filled", text)

    def test_bad_samples(self):
        for i in range(8):
            self.write(f"in/{i}.jpg", tiny_jpeg())
        self.write("in/3.jpg", tiny_jpeg()[:60])
        self.write("in/5.jpg", tiny_jpeg()[:-3])  # libjpeg decodes it
        self.shardctl("pack", "in", "-o", "out")
        self.assertEqual(self.bench("out")["samples"], 8)
        run = self.shardctl("bench", "out", "--decode", "image", code=1)
        self.assertEqual(run.stdout, "")
        self.assertRegex(run.stderr, r"^shardctl: out: sample 3 \(shard 0, block 0\): ")
        run = self.shardctl("bench", "out", "--decode", "image", "--on-error", "skip", "--epochs", "2", "--json", code=4)
        document = run.json()
        self.assertEqual((document["samples"], document["skipped"], document["batches"]), (14, 2, 2))
        self.assertEqual(document["ceilings"]["jpeg"]["images"], 6)  # without those of which libjpeg warns
        self.assertEqual(document["warned_images"], 2)
        self.assertIn("shardctl: warning: 2 images decoded with a warning of libjpeg\n", run.stderr)
        self.assertIn("shardctl: out: skipped sample 3 (epoch 1): ", run.stderr)
        self.assertTrue(run.stderr.endswith("shardctl: 2 samples skipped\n"), run.stderr)

    def test_damaged_shard(self):
        self.pack_many()
        name = sorted(name for name in os.listdir(self.path("out")) if name.endswith(".shard"))[1]
        with open(self.path("out", name), "r+b") as file:
            file.seek(5000)
            byte = file.read(1)
            file.seek(5000)
            file.write(bytes([byte[0] ^ 1]))
        run = self.shardctl("bench", "out", code=1)
        self.assertIn(name, run.stderr)
        self.shardctl("bench", "missing", code=3)

    def test_trace(self):
        self.pack_many()
        self.shardctl("bench", "out", "--trace", "trace.json")
        with open(self.path("trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        names = {event["name"] for event in events}
        self.assertLessEqual({"read block", "wait"}, names)
        self.assertEqual(len([event for event in events if event["name"] == "wait"]), 4)
        self.shardctl("bench", "out", "--trace", "no/such/folder/trace.json", code=3)
        self.shardctl("bench", "missing", "--trace", "other.json", code=3)
        self.assertEqual([name for name in os.listdir(self.folder) if "other" in name], [])

    def test_cold(self):
        self.pack_many()
        run = self.shardctl("bench", "out", "--cold", "--json")
        document = run.json()
        if document["cold"]:
            self.assertEqual((document["cold_problem"], run.stderr), (None, ""))
        else:
            self.assertIn(document["cold_problem"], run.stderr)
            self.assertTrue(run.stderr.startswith("shardctl: note: --cold: "), run.stderr)

    def test_simulated_steps_take_their_time(self):
        self.pack_many()
        self.assertGreaterEqual(self.bench("out", "--simulate-step", "30.5", "--steps", "3")["seconds"], 0.0915)

    def test_simulated_latency(self):
        self.pack_many()
        near = self.bench("out", "--read-threads", "1")
        far = self.bench("out", "--read-threads", "1", "--simulate-latency", "3ms,10MB")
        self.assertEqual((far["samples"], far["bytes"]), (near["samples"], near["bytes"]))
        # Nothing is mapped, so the index is among what is requested; and each round trip takes its time.
        self.assertGreater(far["requests"]["bytes"], near["requests"]["bytes"])
        self.assertGreaterEqual(far["requests"]["count"], far["requests"]["round_trips"])
        self.assertGreaterEqual(far["open_seconds"] + far["seconds"], 0.003 * far["requests"]["round_trips"])

    def test_text(self):
        self.pack_many()
        text = self.shardctl("bench", "out").stdout
        self.assertRegex(text, r"^200 samples in 4 batches, 19\.5 KiB delivered, [0-9.]+ KiB read, in [0-9.]+ s\n"
                               r"[0-9.]+ samples/s, [0-9.]+ MB/s\nfirst batch after [0-9.]+ ms, of which opening took [0-9.]+ ms\n"
                               r"consumer waits [0-9.]+ % of step time, [0-9.]+ ms per step\n"
                               r"[0-9]+ requests for [0-9.]+ [KM]iB, [0-9]+ round trips one after the other\n\nstage +threads +busy +starved +blocked\n")
        for line in (r"read( +[0-9.]+){2} %( +[0-9.]+ %){2}", r"memory: blocks at most .*", r"threads: .*",
                     r"bounded by: (consumer|decode|read|memory|overhead) \(.*\)", r"to change:  .*", r"storage( +[0-9.]+ MB/s){2} .*",
                     r"memory copy( +[0-9.]+ MB/s){2} .*"):
            self.assertRegex(text, rf"(?m)^{line}$")

    def test_usage(self):
        self.pack_many(count=3)
        for words, says in ((["--decode", "masks:sparse"], "not one of dense, packed, runs"), (["--decode", "png"], '"png"'),
                            (["--decode", "image:0"], "not a size in pixels"), (["--decode", "image:big"], "not a size"),
                            (["--decode", "image:4x"], "not a size"), (["--decode", "image:stretch:4"], "is not one of random"),
                            (["--decode", "image:center-crop:4x5"], "makes squares"), (["--decode", "image,image"], "twice"),
                            (["--decode", "none,image"], "none"), (["--decode", "image"], "no column loaded is of type jpeg"),
                            (["--decode", "masks"], "no column loaded is of type rle"), (["--decode", "tokens"], "arrays of integers"),
                            (["--columns", "bin,"], "a name is empty"),
                            (["--columns", "bin,bin"], "named twice"), (["--simulate-step", "-1"], "--simulate-step"),
                            (["--simulate-step", "fast"], "a number from 0"), (["--simulate-latency", "50"], "a time with its unit"),
                            (["--simulate-latency", "xms"], "--simulate-latency"), (["--simulate-latency", "5ms,"], "--simulate-latency"),
                            (["--simulate-latency", "5ms,0"], "no byte would ever arrive"), (["--threads", "0"], "--threads"),
                            (["--memory", "1KiB"], "--memory"), (["--epochs", "0"], "--epochs"), (["--steps", "0"], "--steps"),
                            (["--rank", "3"], "not below --world-size"), (["--io", "fast"], "--io"), (["--on-error", "x"], "--on-error"),
                            (["--batch-size", "5", "--remainder", "drop"], "fewer than one batch")):
            with self.subTest(words=words):
                run = self.shardctl("bench", "out", *words, code=2)
                self.assertIn(says, run.stderr)
                self.assertEqual(run.stdout, "")

    def test_interrupt(self):
        self.pack_many()
        for number, options in ((signal.SIGINT, ["--epochs", "1000000"]), (signal.SIGTERM, ["--simulate-step", "600000"])):
            with self.subTest(signal=number.name):
                process = self.start("bench", "out", *options)
                self.wait_for_handler(process, number)
                time.sleep(0.1)  # whatever it is doing by then
                process.send_signal(number)
                out, err = process.communicate(timeout=60)
                self.check_no_crash(support.Run(["bench"], process.returncode, out, err))
                self.assertEqual((process.returncode, out, err),
                                 (3, b"", b"shardctl: interrupted; the measurement is not complete\n"))
