"""The steps of bench/compare: the contenders, their workloads, the order, and the figures."""
import collections
import importlib
import os
import subprocess
import sys
import time

import cold
import compare_ours
from harness import Harness, lines, warm
from peers import client
from peers.client import NotMeasured
from peers.common import RANDOM_READS

Step = collections.namedtuple("Step", ["workload", "label", "workers"])

STEPS = [Step("pack", "small4k", 1), Step("pack", "small4k", 2), Step("pack", "jpeg500", 1),
         Step("sequential", "small4k", 1), Step("sequential", "small4k", 2), Step("sequential", "jpeg500", 1),
         Step("sequential", "jpeg500", 2), Step("shuffled", "small4k", 1), Step("shuffled", "small4k", 2), Step("random", "small4k", 1),
         Step("decode", "jpeg500", 1), Step("decode", "jpeg500", 2), Step("tars", "small4k", 1), Step("tars", "small4k", 2),
         Step("tars", "small4k", 4)]
COLD = [Step("sequential", "small4k", 1), Step("shuffled", "small4k", 1)]
MEMORY = [Step("sequential", "small4k", 1), Step("sequential", "small4k", 2), Step("decode", "jpeg500", 2)]
WORKLOADS = [*dict.fromkeys(step.workload for step in STEPS), "cold", "memory"]


def what(step):
    return f"{step.workload} {step.label}, {step.workers} worker{'s' if step.workers > 1 else ''}"


def rounds_for(seconds):
    """The number of rounds for a measurement of this length. Short measurements need more rounds."""
    return 1 if seconds > 15 else 2 if seconds > 5 else 1 << 30


class Comparison(Harness):
    """Figures: (step, contender) -> one dictionary per round: samples, seconds, perhaps processor and memory."""

    def __init__(self, options):
        super().__init__(options)
        self.figures = collections.defaultdict(list)
        self.cold = {}
        self.memory = {}
        self.missing = {}  # (what, contender) -> why
        self.left_out = {}  # contender -> why
        self.versions = {}
        self.sources = {}
        self.datasets = {}
        # Apart from the inputs of the same names.
        self.packed_by_peers = self.path("packed-by-peers")
        self.modules_chosen = options.peers
        self._begin = time.monotonic()
        self._counts = {}
        self._payloads = {}
        self._read_bench = {}

    def make_inputs(self):
        small = self.options.small
        photos = self.options.photos
        self.sources["small4k"] = self.synth(f"small4k-{small}", "files", "--count", str(small), "--size", "4096")
        self.sources["jpeg500"] = self.make(f"jpeg500-{photos}", [self.tool("make_photos"), "{}", str(photos)])
        self._counts = {"small4k": small, "jpeg500": photos}
        for label, source in self.sources.items():
            self.datasets[label] = self.pack(source, "files", f"{os.path.basename(source)}-dataset")

    def count(self, label):
        return self._counts[label]

    def payload(self, label):
        """Bytes of all files."""
        if label not in self._payloads:
            self._payloads[label] = sum(os.path.getsize(os.path.join(folder, name))
                                        for folder, _, names in os.walk(self.sources[label]) for name in names)
        return self._payloads[label]

    @staticmethod
    def column(label):
        return {"small4k": "bin", "jpeg500": "jpg"}[label]

    def read_bench(self, path, *arguments):
        """Figures of read_bench, which measures one and two threads in one run."""
        key = (path, *arguments)
        if key not in self._read_bench:
            self._read_bench[key] = lines([self.tool("read_bench"), path, "--rounds", "3", *arguments])
        return self._read_bench[key]

    def leave_out(self, module, reason):
        self.left_out[importlib.import_module("peers." + module).NAME] = reason
        self.say(f"left out: {module}: {reason}")

    def say(self, text):
        print(f"{time.monotonic() - self._begin:6.1f} s  {text}", file=sys.stderr, flush=True)

    def contenders(self, step, peers):
        yield from compare_ours.contenders(self, step)
        for name, peer in peers.items():
            module = importlib.import_module("peers." + name)
            ask = lambda workload, peer=peer: lambda: peer.run(workload, step.label, self.sources[step.label], step.workers)
            if step.workload in module.CANNOT:
                self.missing[step.workload, module.NAME] = module.CANNOT[step.workload]
            elif hasattr(module, step.workload) and (step.workload != "pack" or step.workers == 1 or getattr(module, "PACKS_IN_PARALLEL", False)):
                yield module.NAME, ask(step.workload)
            if (f"{step.workload}_reader" in dir(module)) and step.workers == 1:
                yield module.READER, ask(f"{step.workload}_reader")

    def files(self, step, name):
        """The folder of the files that a contender is going to read."""
        theirs = os.path.join(self.packed_by_peers, step.label)
        if step.workload == "tars" or name == compare_ours.THEIR_TARS:
            return os.path.join(theirs, "webdataset")
        if name == compare_ours.THEIR_MDS:
            return os.path.join(theirs, "mds")
        modules = {module.NAME: module for _, module in self.modules()} | {
            module.READER: module for _, module in self.modules() if hasattr(module, "READER")}
        folder = getattr(modules.get(name), "FOLDER", getattr(modules.get(name), "FILES", None))
        if step.workload != "pack" and folder:
            return os.path.join(theirs, folder)
        return self.datasets[step.label] if step.workload != "pack" and name.startswith("Shardkit") else self.sources[step.label]

    def measure(self, step, peers, round_number):
        self._read_bench.clear()
        for name, run in self.contenders(step, peers):
            before = self.figures[step, name]
            if before and len(before) >= rounds_for(before[0]["wall"]) or (what(step), name) in self.missing:
                continue
            warm(self.files(step, name))
            begin = time.monotonic()
            try:
                figure = run()
            except NotMeasured as error:
                self.missing[what(step), name] = str(error)
                self.say(f"{name}: {what(step)}: {error}")
                continue
            figure["wall"] = time.monotonic() - begin
            self.check(step, name, figure)
            before.append(figure)
            self.say(f"round {round_number + 1}: {what(step)}: {name}: "
                     f"{figure['samples'] / figure['seconds']:,.0f} samples/s")

    def check(self, step, name, figure):
        """Checks that all samples were delivered. The time of a workload that skips samples means nothing."""
        wanted = min(self.count(step.label), RANDOM_READS) if step.workload == "random" else self.count(step.label)
        share = wanted / self.count(step.label)
        if figure["samples"] < wanted or figure.get("bytes", 1 << 62) < 0.9 * share * self.payload(step.label):
            sys.exit(f"bench/compare: {name} delivered {figure} of {step}")

    def modules(self):
        for name in self.modules_chosen:
            module = importlib.import_module("peers." + name)
            if module.NAME not in self.left_out:
                yield name, module

    def measure_cold(self, step, python):
        """Measures each contender once with its files out of the page cache. The processes have not mapped the files."""
        self.measure_one_cold(step, compare_ours.LOADER, self.datasets[step.label], lambda: compare_ours.cold(self, step))
        for name, module in self.modules():
            if not hasattr(module, "FOLDER"):
                self.missing["with an empty page cache", module.NAME] = module.NOT_COLD
                continue
            folder = os.path.join(self.packed_by_peers, step.label, module.FOLDER)
            with client.Peer(python, name, self.packed_by_peers) as peer:
                self.measure_one_cold(step, module.NAME, folder, lambda peer=peer: peer.run(
                    step.workload, step.label, self.sources[step.label], step.workers))

    def measure_one_cold(self, step, name, folder, run):
        try:
            os.sync()  # pages not yet written cannot be dropped
            cold.drop(self, folder)
            figure = run()
        except (cold.CachedError, NotMeasured, OSError, subprocess.CalledProcessError) as error:
            self.missing["with an empty page cache", name] = str(error)
            return
        self.cold[step, name] = figure
        self.say(f"cold: {what(step)}: {name}: {figure['samples'] / figure['seconds']:,.0f} samples/s")

    def measure_memory(self, python):
        for step in MEMORY:
            ours = compare_ours.decode(self, step, "image") if step.workload == "decode" else compare_ours.loader(self, step)
            self.memory[step, compare_ours.LOADER] = {"memory": ours["memory"]}
            for name, module in self.modules():
                if step.workload in module.CANNOT:
                    self.missing[step.workload, module.NAME] = module.CANNOT[step.workload]
                    continue
                try:
                    with client.Peer(python, name, self.packed_by_peers) as peer:
                        self.memory[step, module.NAME] = peer.run_watched(step.workload, step.label, self.sources[step.label],
                                                                          step.workers)
                except NotMeasured as error:
                    self.missing[f"memory, {what(step)}", module.NAME] = str(error)
                    continue
                self.say(f"memory: {what(step)}: {module.NAME}: {self.memory[step, module.NAME]['memory']:.0f} MiB")
