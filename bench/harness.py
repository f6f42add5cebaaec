"""Shared by all parts of bench/run: paths, timing of programs, and the table of results."""
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def lines(command):
    """The figures that a program of bench/ prints, by name."""
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures = {}
    for line in result.stdout.splitlines():
        if line.startswith("{"):
            figure = json.loads(line)
            if "figure" in figure:
                figures[figure["figure"]] = figure["value"]
    return figures


class Measured:
    """A whole process: wall seconds, processor seconds, peak resident MiB, and its stdout."""

    def __init__(self, command):
        with tempfile.TemporaryFile() as output:
            begin = time.perf_counter()
            process = subprocess.Popen(command, stdout=output)
            _, status, usage = os.wait4(process.pid, 0)
            self.seconds = time.perf_counter() - begin
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                sys.exit(f"{sys.argv[0]}: {' '.join(command)} ended with {process.returncode}")
            self.processor = usage.ru_utime + usage.ru_stime
            self.memory = usage.ru_maxrss / 1024
            output.seek(0)
            self.output = output.read()


def timed(command, before=None):
    """Wall seconds and peak resident MiB of a whole process."""
    if before:
        before()
    measured = Measured(command)
    return measured.seconds, measured.memory


def memory_of_tree(ident):
    """Bytes that a process and all that it began take together (Pss), and which of them are pages of files."""
    total = of_files = 0
    try:
        with open(f"/proc/{ident}/smaps_rollup", encoding="ascii") as lines_of:
            for line in lines_of:
                total += 1024 * int(line.split()[1]) if line.startswith("Pss:") else 0
                of_files += 1024 * int(line.split()[1]) if line.startswith("Pss_File:") else 0
        for task in os.listdir(f"/proc/{ident}/task"):
            with open(f"/proc/{ident}/task/{task}/children", encoding="ascii") as children:
                for child in children.read().split():
                    more, more_of_files = memory_of_tree(int(child))
                    total, of_files = total + more, of_files + more_of_files
    except OSError:
        pass
    return total, of_files


def warm(folder):
    """Reads all files below a folder. Some virtual machines give their page cache back to the host within seconds, so that what is measured
    with a warm cache is read right before."""
    memory = memoryview(bytearray(1 << 20))
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb", buffering=0) as file:
                while file.readinto(memory):
                    pass


def ratios(a, b):
    """How many times faster a is than b, as the median over the rounds. Both are in seconds."""
    return statistics.median(y / x for x, y in zip(a, b))


def machine():
    """One sentence about the machine."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine())
    return f"Machine: {model}, {os.cpu_count()} processors, Linux {platform.release().split('-')[0]}."


class Harness:
    def __init__(self, options):
        self.options = options
        self.work = options.work or os.path.join(tempfile.gettempdir(), "shardkit-bench")
        os.makedirs(self.work, exist_ok=True)
        self.build = os.path.abspath(options.build_dir)
        self.rows = []

    def tool(self, name):
        return os.path.join(self.build, "bench", name)

    @property
    def shardctl(self):
        return os.path.join(self.build, "tools", "shardctl")

    def path(self, *names):
        return os.path.join(self.work, *names)

    def row(self, what, value, target=""):
        self.rows.append((what, value, target))
        print(f"{what:78} {value:>14} {target}", flush=True)

    def make(self, name, command):
        """A directory that `command` makes; {} stands for its path. Removes the leftovers of an interrupted run."""
        if not os.path.isdir(self.path(name)):
            partial = self.path(name + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            subprocess.run([partial if word == "{}" else word for word in command], check=True,
                           stdout=subprocess.DEVNULL)
            os.rename(partial, self.path(name))
        return self.path(name)

    def synth(self, name, *arguments):
        return self.make(name, [self.shardctl, "synth", *arguments, "-o", "{}"])

    def pack(self, source, kind, name):
        return self.make(name, [self.shardctl, "pack", "--from", kind, source, "-o", "{}"])

    def table(self):
        out = ["# Beside the limits of the machine", "", machine(), "",
               f"Command: `bench/run{' --peers PYTHON' if self.options.peers else ''}`", "",
               "| What | Measured | Target |", "|---|---|---|"]
        out += [f"| {what} | {value} | {target} |" for what, value, target in self.rows]
        return "\n".join(out) + "\n"


class Server:
    """bench/object_server on the folder, with a context that ends it."""

    def __init__(self, harness, folder, latency, *stalls):
        self._process = subprocess.Popen([harness.tool("object_server"), folder, *map(str, (latency, *stalls))], text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.origin = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def counts(self):
        """Requests and bytes since the last call."""
        with urllib.request.urlopen(self.origin + "/-/counts", timeout=30) as answer:
            return json.load(answer)


def shards_of(dataset):
    return sorted(os.path.join(dataset, name) for name in os.listdir(dataset) if name.endswith(".shard"))
