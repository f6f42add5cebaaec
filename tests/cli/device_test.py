"""shardctl bench --device, on the emulated device: its counts, output and errors. Speed is not tested here."""
import json
import signal
import time

import support
from support import CliTest

SMALL = ["--device", "emulated", "--device-sizes", "1MiB"]
TOO_LARGE = "1000000GiB"


class DeviceTest(CliTest):
    def bench(self, *words, code=0):
        return self.shardctl("bench", *words, "--json", code=code).json()

    def pack_many(self, count=200, size=100):
        self.many_files(count=count, size=size)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "1KiB", "--shard-samples", "64")

    def test_device_alone(self):
        document = self.bench(*SMALL)
        self.assertEqual((set(document), document["datasets"]), ({"datasets", "device"}, []))
        device = document["device"]
        self.assertEqual(set(device), {"name", "description", "memory_bytes", "driver", "runtime", "copies", "ring", "overlap",
                                       "epoch"})
        self.assertEqual((device["name"], device["driver"], device["runtime"], device["epoch"]), ("emulated", None, None, None))
        self.assertGreater(device["memory_bytes"], 0)
        self.assertEqual([(copy["bytes"], copy["direction"], copy["memory"]) for copy in device["copies"]],
                         [(1 << 20, "h2d", "pageable"), (1 << 20, "h2d", "pinned"), (1 << 20, "d2h", "pageable"), (1 << 20, "d2h", "pinned")])
        self.assertEqual(set(device["copies"][0]), {"bytes", "direction", "memory", "bytes_per_second", "skipped"})
        ring, overlap = device["ring"][0], device["overlap"][0]
        self.assertEqual(set(ring), {"bytes", "bytes_per_second", "plain", "ratio", "skipped"})
        self.assertEqual(set(overlap), {"bytes", "transfer_seconds", "work_seconds", "both_seconds", "score", "skipped"})
        for name, figures in [("copy", copy) for copy in device["copies"]] + [("ring", ring), ("overlap", overlap)]:
            self.assertIsNone(figures["skipped"])
            for key, value in figures.items():
                if key == "score":
                    self.assertTrue(0 <= value <= 1, value)
                elif key not in ("skipped", "direction", "memory"):
                    self.assertGreater(value, 0, (name, key))

    def test_sizes(self):
        device = self.bench("--device", "emulated", "--device-sizes", f"16KiB,{TOO_LARGE}", "--device-sizes", "64KiB")["device"]
        sizes = [16384, 1000000 << 30, 65536]
        for key in ("ring", "overlap"):
            self.assertEqual([figure["bytes"] for figure in device[key]], sizes)
        self.assertEqual([copy["bytes"] for copy in device["copies"]], [size for size in sizes for _ in range(4)])
        for figures in device["copies"] + device["ring"] + device["overlap"]:
            skipped = figures["bytes"] == sizes[1]
            self.assertEqual(figures["skipped"] is not None, skipped)
            self.assertEqual(figures.get("bytes_per_second", figures.get("score")) is None, skipped)
            if skipped:
                self.assertRegex(figures["skipped"], r"more than half of the \d+ MiB that this process may have")

    def test_device_text(self):
        text = self.shardctl("bench", *SMALL, "--device-sizes", TOO_LARGE).stdout
        rate = r" +[0-9.]+ GB/s"
        self.assertRegex(text, r"^emulated: host memory\n\n +size +h2d pageable +h2d pinned +d2h pageable +d2h pinned +h2d ring +ring / pinned\n"
                               rf" +1\.0 MiB(?:{rate}){{5}} +[0-9.]+\n")
        self.assertRegex(text, r"\n +overlap +transfer +work +both +score\n +1\.0 MiB(?: +[0-9.]+ ms){3} +[01]\.\d{3}\n")
        self.assertRegex(text, r"(?m)^ *\S+ TiB(?: +skipped){6}$")
        self.assertRegex(text, r"(?m)^\S+ TiB skipped: emulated: it would take ")
        self.assertTrue(text.splitlines()[-1].startswith("overlap of ") or "skipped: " in text.splitlines()[-1], text)
        self.assertNotIn("samples", text)

    def test_dataset(self):
        self.pack_many()
        plain = self.bench("out", "--epochs", "2")
        document = self.bench("out", *SMALL, "--epochs", "2")
        self.assertEqual(set(document), set(plain) | {"device"})
        for key in ("samples", "batches", "bytes", "samples_per_epoch", "skipped"):
            self.assertEqual(document[key], plain[key], key)
        epoch = document["device"]["epoch"]
        self.assertEqual(set(epoch), {"uploaded_bytes", "bytes_per_sample", "staged_bytes", "copy_seconds", "kernel_seconds",
                                      "arrival_seconds", "upload", "pinned_budget", "peak_pinned", "peak_device"})
        self.assertEqual(set(epoch["upload"]), {"threads", "busy", "starved", "blocked"})
        self.assertGreaterEqual(epoch["uploaded_bytes"], document["bytes"])
        self.assertAlmostEqual(epoch["bytes_per_sample"], epoch["uploaded_bytes"] / document["samples"])
        self.assertEqual(epoch["pinned_budget"], 512 << 20)
        self.assertLessEqual(epoch["peak_pinned"], 512 << 20)
        self.assertGreater(epoch["peak_device"], 0)
        self.assertEqual(self.bench("out", *SMALL, "--pinned", "32MiB")["device"]["epoch"]["pinned_budget"], 32 << 20)
        self.assertEqual(self.bench("out", *SMALL, "--steps", "3")["batches"], 3)

    def test_dataset_text(self):
        self.pack_many()
        text = self.shardctl("bench", "out", *SMALL, "--simulate-step", "5").stdout
        self.assertRegex(text, r"(?s)^emulated: host memory\n.*\n200 samples in 4 batches, 19\.5 KiB delivered, ")
        for line in (r"upload( +[0-9.]+){2} %( +[0-9.]+ %){2}", r"to the device: [0-9.]+ \S+ per sample, [0-9.]+ \S+ in all, .*",
                     r"on the device: copies [0-9.]+ s, kernels [0-9.]+ s; page-locked memory at most .*, device memory at most .*",
                     r"consumer waits [0-9.]+ % of step time, [0-9.]+ ms per step", r"bounded by: .*", r"storage .*"):
            self.assertRegex(text, rf"(?m)^{line}$")

    def test_pixels(self):
        self.small_sa1b()
        self.shardctl("pack", "sa1b", "-o", "out")
        options = [*SMALL, "--batch-size", "2", "--columns", "image"]
        for words, size in (([], 1), (["--pixels", "u8"], 1), (["--pixels", "f32"], 4), (["--pixels", "f16"], 2),
                            (["--pixels", "bf16"], 2), (["--device-geometry"], 1), (["--device-geometry", "--pixels", "f32"], 4)):
            with self.subTest(words=words):
                document = self.bench("out", *options, "--decode", "image:4", *words)
                self.assertEqual((document["samples"], document["bytes"]), (3, 3 * 3 * 16 * size))
                # Pixels are always copied as u8.
                pixels = 3 * 3 * (24 * 16 if "--device-geometry" in words else 16)
                self.assertLess(document["device"]["epoch"]["uploaded_bytes"] - pixels, 4096)
        masks = self.bench("out", *SMALL, "--decode", "masks", "--columns", "masks")
        self.assertEqual(masks["bytes"], 6 * 24 * 16)

    def test_bad_samples(self):
        for i in range(8):
            self.write(f"in/{i}.jpg", support.tiny_jpeg())
        self.write("in/3.jpg", support.tiny_jpeg()[:60])
        self.shardctl("pack", "in", "-o", "out")
        run = self.shardctl("bench", "out", *SMALL, "--decode", "image:4", code=1)
        self.assertEqual(run.stdout, "")
        self.assertRegex(run.stderr, r"^shardctl: .*out: sample 3 ")
        run = self.shardctl("bench", "out", *SMALL, "--decode", "image:4", "--on-error", "skip", "--json", code=4)
        self.assertEqual((run.json()["samples"], run.json()["skipped"]), (7, 1))

    def test_trace(self):
        self.pack_many()
        self.shardctl("bench", "out", *SMALL, "--trace", "trace.json")
        with open(self.path("trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        self.assertLessEqual({"emulated copy", "emulated kernels"}, set(lanes.values()))
        for name in ("copy", "kernels"):
            mine = [event for event in events if event["name"] == name]
            self.assertEqual(len(mine), 4)
            self.assertEqual({lanes[event["tid"]] for event in mine}, {f"emulated {name}"})

    def test_usage(self):
        self.pack_many(count=3)
        for words, says in ((["--device", "gpu"], 'device "gpu"'), (["--device", "cuda:"], 'device "cuda:"'),
                            (["--device", "cuda:x"], 'device "cuda:x"'), (["--device", "cuda:-1"], 'device "cuda:-1"'),
                            (["--device", ""], "must not be empty"), ([*SMALL, "--device-sizes", "big"], "--device-sizes: "),
                            ([*SMALL, "--device-sizes", "1KiB"], "give at least 4KiB"),
                            ([*SMALL, "--device-sizes", "1MiB,"], "--device-sizes: "),
                            ([*SMALL, "--epochs", "2"], "--epochs: goes with a DATASET"),
                            ([*SMALL, "--trace=t.json"], "--trace: goes with a DATASET"),
                            ([*SMALL, "--pinned", "64MiB"], "--pinned: goes with a DATASET"), ([], "DATASET is missing"),
                            (["out", "--device-sizes", "1MiB"], "--device-sizes: goes with --device"),
                            (["out", "--pinned", "64MiB"], "--pinned: goes with --device"),
                            (["out", "--device-geometry"], "--device-geometry: goes with --device"),
                            (["out", "--pixels", "f32"], "no images are decoded"),
                            (["out", *SMALL, "--pixels", "f64"], "not one of u8, f32, f16, bf16"),
                            (["out", *SMALL, "--pixels", "f32"], "no images are decoded"),
                            (["out", *SMALL, "--pixels", "f32", "--decode", "image"], "stay u8"),
                            (["out", *SMALL, "--device-geometry", "--decode", "image"], "there is no geometry"),
                            (["out", *SMALL, "--pinned", "1KiB"], "pinned_bytes")):
            with self.subTest(words=words):
                run = self.shardctl("bench", *words, code=2)
                self.assertIn(says, run.stderr)
                self.assertEqual(run.stdout, "")

    def test_no_such_device(self):
        # The same for a build without CUDA, a machine without a driver, and a missing device.
        run = self.shardctl("bench", "--device", "cuda:4096", code=3)
        self.assertEqual(run.stdout, "")
        self.assertRegex(run.stderr, r"\Ashardctl: (CUDA|cuda:4096): [^\n]+\n\Z")

    def test_pinned_memory_beyond_the_limit(self):
        self.pack_many(count=3)
        run = self.shardctl("bench", "out", *SMALL, "--pinned", TOO_LARGE, code=3)
        self.assertRegex(run.stderr, r"\Ashardctl: pinned memory: .*; lower pinned_bytes\n\Z")

    def test_interrupt(self):
        self.pack_many()
        for options in (["--device", "emulated"], ["out", *SMALL, "--epochs", "1000000"], ["out", *SMALL, "--simulate-step", "600000"]):
            with self.subTest(options=options):
                process = self.start("bench", *options)
                self.wait_for_handler(process)
                time.sleep(0.1)  # whatever it is doing by then
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=60)
                self.check_no_crash(support.Run(["bench"], process.returncode, out, err))
                self.assertEqual((process.returncode, out, err),
                                 (3, b"", b"shardctl: interrupted; the measurement is not complete\n"))
