"""Run-length masks: rle_bench. With the peers' Python, also the same masks through pycocotools."""
import os
import re
import subprocess

from harness import ROOT

PAIR = re.compile(r"^(.+?) +([\d.]+) us/mask +(.+?) +([\d.]+) us/mask +speed ratio ([\d.]+)$")
PEER = re.compile(r"^(.+?) +([\d.]+) us/mask +\d+ masks/s$")


def measure(bench):
    if not bench.options.peers:
        output = subprocess.run([bench.tool("rle_bench")], stdout=subprocess.PIPE, text=True, check=True).stdout
        report(bench, output)
        return
    texts = bench.path("masks.txt")
    with open(texts, "w") as file:
        subprocess.run([bench.tool("rle_bench"), "--texts"], stdout=file, check=True)
    output = subprocess.run(
        [bench.options.peers, os.path.join(ROOT, "bench", "rle_vs_pycocotools.py"), texts, "--bench",
         bench.tool("rle_bench")], stdout=subprocess.PIPE, text=True, check=True).stdout
    report(bench, output)
    report_peers(bench, output)


def pairs_of(output):
    """(what, yardstick) -> the mean of both times (microseconds) and of their ratio, over the runs in `output`."""
    found = {}
    for line in output.splitlines():
        if match := PAIR.match(line):
            found.setdefault((match[1], match[3]), []).append([float(match[i]) for i in (2, 4, 5)])
    return {names: [sum(column) / len(runs) for column in zip(*runs)] for names, runs in found.items()}


def report(bench, output):
    pairs = pairs_of(output)
    memset = "memset of the same bytes"
    bench.row("masks: runs to dense, not in the cache / memset", f"{pairs['runs -> dense, cold', memset][2]:.2f} x", "0.8")
    bench.row("masks: runs to dense, in the cache / memset", f"{pairs['runs -> dense', memset][2]:.2f} x", "0.8")
    bench.row("masks: runs to bit-packed / runs to dense",
              f"{pairs['runs -> bit-packed', 'runs -> dense'][2]:.1f} x", "4")


def report_peers(bench, output):
    pairs = pairs_of(output)
    dense = pairs["runs -> dense", "memset of the same bytes"][0]
    text = pairs["COCO text -> runs", "a character at a time"][0]
    peers = {match[1]: float(match[2]) for line in output.splitlines() if (match := PEER.match(line))}
    from_string = peers["maskApi rleFrString"]
    decode = peers["maskApi rleFrString + rleDecode"] - from_string
    bench.row("masks: runs to dense / maskApi rleDecode", f"{decode / dense:.1f} x", "8")
    bench.row("masks: runs to dense / pycocotools decode", f"{peers['pycocotools.mask.decode'] / dense:.1f} x", "20")
    bench.row("masks: COCO text to runs / maskApi rleFrString", f"{from_string / text:.1f} x", "3")
