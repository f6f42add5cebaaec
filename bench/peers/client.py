"""Starts peers.serve in another interpreter and sends it workloads."""
import json
import os
import subprocess
import threading

from harness import ROOT

# In the order of the tables.
MODULES = ["shardkit_python", "streaming_dataset", "web_dataset", "lit_data", "ffcv_loader", "grain_loader", "lance_dataset", "spdl_loader",
           "plain_files"]


class NotMeasured(Exception):
    """Why a figure is missing."""


class Peer:
    """One process with a peer's packages loaded. Leaving the context ends it."""

    def __init__(self, python, module, work):
        environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else thousands of modules would be parsed every time
        self._log = open(os.path.join(work, f"{module}.log"), "wb")
        self._process = subprocess.Popen([python, "-m", "peers.serve", module, work], cwd=os.path.join(ROOT, "bench"), env=environment,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True)
        try:
            self.versions = self._answer()["ready"]
        except NotMeasured:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise NotMeasured(f"its process ended; see {self._log.name}")
        answer = json.loads(line)
        if "missing" in answer:
            raise NotMeasured(answer["missing"])
        return answer

    def run(self, workload, label, source, workers=1):
        """{"samples", "bytes", "seconds", "processor"}; raises NotMeasured."""
        request = {"workload": workload, "label": label, "source": source, "workers": workers}
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise NotMeasured(f"its process ended; see {self._log.name}") from error
        return self._answer()

    def rate(self, *request):
        """Samples per second of a second run; the first warms up."""
        self.run(*request)
        answer = self.run(*request)
        return answer["samples"] / answer["seconds"]

    def run_watched(self, *request):
        """Like run, with two more members in MiB. "memory" is the peak of the process with its workers (shared pages
        counted once), or the peak of the process alone if that is larger. "loaded" is the memory before the run."""
        done = threading.Event()
        loaded = _kib(f"/proc/{self._process.pid}/smaps_rollup", "Pss:")
        peak = [0]

        def watch():
            while not done.wait(0.02):
                peak[0] = max(peak[0], sum(_kib(f"/proc/{process}/smaps_rollup", "Pss:") for process in _tree(self._process.pid)))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            answer = self.run(*request)
        finally:
            done.set()
            watcher.join()
        # Peaks between two samples are missed, except those of the process itself.
        return {**answer, "loaded": loaded / 1024, "memory": max(peak[0], _kib(f"/proc/{self._process.pid}/status", "VmHWM:")) / 1024}


def _tree(process):
    """A process and its descendants."""
    children = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
        children.setdefault(parent, []).append(int(name))
    found = [process]
    for parent in found:
        found += children.get(parent, [])
    return found


def _kib(path, field):
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(field)), 0)
    except OSError:
        return 0  # it has ended
