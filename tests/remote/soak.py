#!/usr/bin/env python3
"""Reads a dataset through random faults with several processes at once, until the time is over; tests/soak remote starts it.

    soak.py --seconds N --seed S [--rounds R] [--processes P] [--report FILE]

Each round draws a mixture of faults from its seed, and lets all processes read the same dataset through the same proxy, each with another
verb. What they print must be what the local dataset gives. In two rounds of three they share a cache of a size that holds a part of the
dataset, which stays from round to round, and are killed now and then: its limit is kept all the time, no piece in it is damaged, and
clearing it leaves nothing. Exit status: 0 no contradiction, 1 there is one (the last line has its seed).
"""
import argparse
import concurrent.futures
import contextlib
import random
import subprocess
import sys
import tempfile
import threading
import time

import servers
from fault_proxy import FaultProxy, Faults, KINDS
from support import ENVIRONMENT, RemoteTest, SECONDS, SHARDCTL, shardctl, taken

VERBS = (["ls", "--values-xxh3"], ["bench", "--memory", "1MiB", "--json"], ["ls", "--values-xxh3", "--io", "direct"],
         ["bench", "--order", "sequential", "--json"])
LIMIT = 400 << 10  # bytes of the cache: a fifth of the dataset


def draw(seed):
    """The faults of a round: few or many, fast or slow."""
    chances = random.Random(seed)
    share = chances.choice([0.002, 0.02, 0.05])
    return Faults(seed=seed, latency=chances.choice([0, 0, 0.005, 0.05]), bandwidth=chances.choice([0, 0, 0, 5e6]),
                  shares={kind: share * chances.random() for kind in KINDS}, stall=chances.choice([0.1, 1, 5]))


def kill_some(chances, command):
    """Starts the command and kills it, as often as the dice say."""
    while chances.random() < 0.6:
        with subprocess.Popen([SHARDCTL, *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=ENVIRONMENT) as process:
            try:
                process.wait(chances.expovariate(5))
            except subprocess.TimeoutExpired:
                process.kill()
                yield


class Watch:
    """A cache of a limit, looked at all the time."""

    def __init__(self, folder, limit):
        self.folder, self.limit, self.most, self.kills = folder, limit, 0, 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def options(self):
        return ["--cache", self.folder, "--cache-limit", str(self.limit)]

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _look(self):
        while not self._over.wait(0.02):
            with contextlib.suppress(FileNotFoundError):  # nobody has used it yet
                self.most = max(self.most, taken(self.folder))

    def problems(self):
        """What contradicts what is said of caches, now that nobody uses it."""
        self.most = max(self.most, taken(self.folder))
        if self.most > self.limit:
            yield f"the cache took {self.most} bytes, and its limit is {self.limit}"
        for verb in ("verify", "list"):
            done = shardctl("cache", verb, "--cache", self.folder, "--json")
            if done.returncode != 0:
                yield f"cache {verb}: {done.stdout}{done.stderr}"


def read(url, verb, seed, cache):
    """What contradicts the local dataset, or nothing."""
    command = [verb[0], url, *verb[1:]]
    if cache is not None:
        command += cache.options()
        for _ in kill_some(random.Random(seed), command):
            cache.kills += 1
    try:
        done = shardctl(*command)
    except subprocess.TimeoutExpired:
        return f"{verb}: ran past {SECONDS} s"
    if done.returncode != 0:
        return f"{verb}: {done.stderr}"
    if verb[0] == "ls" and done.stdout != RemoteTest.local:
        return f"{verb}: other values than the local dataset"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--every", type=float, default=60)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--report")
    options = parser.parse_args()
    begin = said = time.monotonic()
    rounds = requests = faults = kills = 0

    def say(line):
        print(line, flush=True)
        if options.report is not None:
            with open(options.report, "a", encoding="utf-8") as file:
                file.write(line + "\n")

    RemoteTest.setUpClass()
    try:
        with (servers.plain(RemoteTest.bucket) as origin, concurrent.futures.ThreadPoolExecutor(options.processes) as pool,
              tempfile.TemporaryDirectory(prefix="shardkit-cache-") as folder):
            while time.monotonic() - begin < options.seconds and (options.rounds is None or rounds < options.rounds):
                seed = options.seed + rounds
                cache = Watch(folder, LIMIT) if seed % 3 else None
                with FaultProxy(origin, draw(seed)) as proxy, cache or contextlib.nullcontext():
                    reads = [pool.submit(read, proxy.origin + "/data", VERBS[i % len(VERBS)], seed * options.processes + i, cache)
                             for i in range(options.processes)]
                    problems = [problem for one in reads if (problem := one.result()) is not None]
                if cache is not None:
                    problems += cache.problems()
                    kills += cache.kills
                rounds += 1
                requests += len(proxy.requests)
                faults += sum(request.kind is not None for request in proxy.requests)
                if problems:
                    say("\n".join([*problems, f"seed {seed} contradicts: {draw(seed)}"]))
                    return 1
                if time.monotonic() - said > options.every:
                    said = time.monotonic()
                    say(f"{said - begin:.0f} s: {rounds} rounds, {requests} requests, {faults} faults, {kills} killed, nothing contradicts")
            problems = shardctl("cache", "clear", "--cache", folder).stderr
            if problems or taken(folder) != 0:
                say(f"cache clear leaves {taken(folder)} bytes: {problems}")
                return 1
    finally:
        RemoteTest.doClassCleanups()
    say(f"{rounds} rounds, {requests} requests, {faults} faults, {kills} killed, nothing contradicts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
