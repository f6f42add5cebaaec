"""Runs the workloads of one peer in an interpreter that has its packages; bench/peers/client.py starts it.

    python -m peers.serve MODULE WORK

On stdin, one JSON object per line: {"workload", "label", "source", "workers"}. On stdout, one at the start and one per request:
the members of common.Delivered with "seconds" and "processor" (wall and processor seconds, worker processes included), {"ready": versions},
or {"missing": why}. What the packages print goes to stderr.
"""
import importlib
import importlib.metadata
import json
import os
import resource
import sys
import time
import warnings

from peers.common import First, Inputs


BATCH_SIZES = {"sequential": 256, "shuffled": 256, "decode": 64}  # of every peer


def processor_seconds():
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def measure(module, request, work, warm):
    inputs = Inputs(request["label"], request["source"], work)
    function = getattr(module, request["workload"])
    key = (request["workload"], request["label"], request["workers"])
    if getattr(module, "COMPILES", False) and request["workload"] != "pack" and key not in warm:
        function(inputs, request["workers"])  # not counted: compiles the code of each loader at its first use
    warm.add(key)
    if request["workload"] == "pack":
        inputs.paths  # lists the files before the clock starts, because every peer gets the list as input
    processor, begin = processor_seconds(), time.perf_counter()
    First.begin, First.batch_size = begin, BATCH_SIZES.get(request["workload"], 1)
    delivered = function(inputs, request["workers"])
    seconds = time.perf_counter() - begin
    return {**delivered._asdict(), "seconds": seconds, "processor": processor_seconds() - processor}


def main():
    name, work = sys.argv[1:3]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")

    def answer(document):
        print(json.dumps(document), file=answers, flush=True)

    module = importlib.import_module("peers." + name)
    try:
        module.load()
        answer({"ready": {package: importlib.metadata.version(package) for package in module.PACKAGES}})
    except Exception as error:  # of any kind: it is reported, and the other peers are measured
        answer({"missing": f"{type(error).__name__}: {error}"})
        return
    warm = set()
    for line in sys.stdin:
        try:
            answer(measure(module, json.loads(line), work, warm))
        except Exception as error:
            answer({"missing": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
