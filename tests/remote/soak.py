#!/usr/bin/env python3
"""Reads a dataset through random faults with several processes at once, until the time is over; tests/soak remote starts it.

    soak.py --seconds N --seed S [--rounds R] [--processes P] [--report FILE]

Each round draws a mixture of faults from its seed, and lets all processes read the same dataset through the same proxy, each with another
verb. What they print must be what the local dataset gives. Exit status: 0 no contradiction, 1 there is one (the last line has its seed).
"""
import argparse
import concurrent.futures
import random
import subprocess
import sys
import time

import servers
from fault_proxy import FaultProxy, Faults, KINDS
from support import RemoteTest, SECONDS, shardctl

VERBS = (["ls", "--values-xxh3"], ["bench", "--memory", "1MiB", "--json"], ["ls", "--values-xxh3", "--io", "direct"],
         ["bench", "--order", "sequential", "--json"])


def draw(seed):
    """The faults of a round: few or many, fast or slow."""
    chances = random.Random(seed)
    share = chances.choice([0.002, 0.02, 0.05])
    return Faults(seed=seed, latency=chances.choice([0, 0, 0.005, 0.05]), bandwidth=chances.choice([0, 0, 0, 5e6]),
                  shares={kind: share * chances.random() for kind in KINDS}, stall=chances.choice([0.1, 1, 5]))


def read(url, verb):
    """What contradicts the local dataset, or nothing."""
    try:
        done = shardctl(verb[0], url, *verb[1:])
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
    rounds = requests = faults = 0

    def say(line):
        print(line, flush=True)
        if options.report is not None:
            with open(options.report, "a", encoding="utf-8") as file:
                file.write(line + "\n")

    RemoteTest.setUpClass()
    try:
        with servers.plain(RemoteTest.bucket) as origin, concurrent.futures.ThreadPoolExecutor(options.processes) as pool:
            while time.monotonic() - begin < options.seconds and (options.rounds is None or rounds < options.rounds):
                seed = options.seed + rounds
                with FaultProxy(origin, draw(seed)) as proxy:
                    reads = [pool.submit(read, proxy.origin + "/data", VERBS[i % len(VERBS)]) for i in range(options.processes)]
                    problems = [problem for one in reads if (problem := one.result()) is not None]
                rounds += 1
                requests += len(proxy.requests)
                faults += sum(request.kind is not None for request in proxy.requests)
                if problems:
                    say("\n".join([*problems, f"seed {seed} contradicts: {draw(seed)}"]))
                    return 1
                if time.monotonic() - said > options.every:
                    said = time.monotonic()
                    say(f"{said - begin:.0f} s: {rounds} rounds, {requests} requests, {faults} faults, nothing contradicts")
    finally:
        RemoteTest.doClassCleanups()
    say(f"{rounds} rounds, {requests} requests, {faults} faults, nothing contradicts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
