"""The plot of bench/compare, drawn from compare.md: seven rows, with a bar for each of the peers that the row is about.

    python3 bench/compare_plot.py [DIR]     draws compare.svg of DIR (default: bench/results) from its compare.md
"""
import math
import os
import re
import sys
from xml.sax.saxutils import escape

PEERS = [("StreamingDataset (MDS)", "mds"), ("WebDataset", "tar"), ("FFCV", "ffcv"), ("litData", "lit"), ("SPDL", "spdl")]
MDS, TARS, FFCV, LIT, SPDL = (peer for peer, _ in PEERS)
# Each row's name, its small print, the beginning of the rows that it shows from the table "What was aimed at", and its peers.
ROWS = [("Sequential read", "values of 4 KiB, 1 worker", "sequential, small4k", [MDS, TARS, FFCV]),
        ("Shuffled read", "values of 4 KiB, 1 worker", "shuffled, small4k", [MDS, TARS, FFCV]),
        ("Shuffled, in Python", "values of 4 KiB, 2 workers", "Python: shuffled, small4k", [MDS, LIT]),
        ("Decoded images", "JPEGs of 500 x 375, 2 workers", "images decoded", [MDS, TARS, FFCV]),
        ("Decoded, in Python", "JPEGs of 500 x 375, 2 workers", "Python: images decoded", [MDS, LIT, SPDL]),
        ("Packing", "files of 4 KiB, 2 threads", "packing small4k", [MDS, TARS, FFCV]),
        ("Memory (times less)", "while reading values of 4 KiB", "peak memory", [MDS, TARS, FFCV])]
OURS = "Shardkit, loader"  # in the table of memory
WIDTH, LEFT, RIGHT, TOP, BAR, GAP = 900, 220, 70, 76, 16, 16
LEAST_HEIGHT = 3 * BAR  # of a row: its name and its small print
LOWEST = 0.5  # where the scale begins
STYLE = """<style>
text { font: 12px sans-serif; fill: #3d444d; }
.title { font-size: 15px; font-weight: bold; } .row { font-size: 13px; font-weight: bold; }
.mds { fill: #0969da; } .tar { fill: #2da44e; } .ffcv { fill: #bc6c1c; } .lit { fill: #8250df; } .spdl { fill: #bf3989; }
.grid { stroke: #8c959f; stroke-opacity: .35; } .equal { stroke: #3d444d; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) { text { fill: #d1d7e0; } .equal { stroke: #d1d7e0; } }
</style>"""


def ratios(document):
    """(row, peer) -> how many times faster Shardkit is, or how many times less memory it needs."""
    found = {}
    for what, peer, ratio in re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([\d.]+) x \|", document, re.MULTILINE):
        for name, _, beginning, peers in ROWS:
            if what.startswith(beginning) and peer in peers:
                found[name, peer] = float(ratio)
    # The memory ratios have only two decimal places, too few to invert them.
    table = document.partition("### peak memory")[2].partition("\n#")[0]
    memory = {name: float(amount) for name, amount in re.findall(r"^\| ([^|]+) \| (\d+) \|", table, re.MULTILINE)}
    for peer in ROWS[-1][3]:
        if peer in memory and OURS in memory:
            found[ROWS[-1][0], peer] = memory[peer] / memory[OURS]
    return found


def drawing(document):
    """SVG of a compare.md."""
    found = ratios(document)
    decades = max(1, math.ceil(math.log10(max(found.values(), default=10))))
    scale = (WIDTH - LEFT - RIGHT) / (decades - math.log10(LOWEST))
    place = lambda ratio: LEFT + scale * (math.log10(max(ratio, LOWEST)) - math.log10(LOWEST))
    tops = [TOP]
    for _, _, _, peers in ROWS:
        tops.append(tops[-1] + max(LEAST_HEIGHT, len(peers) * BAR) + GAP)
    bottom = tops[-1] - GAP + 6
    styles = dict(PEERS)
    size = f'viewBox="0 0 {WIDTH} {bottom + 10}" width="{WIDTH}" height="{bottom + 10}"'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">', STYLE,
           '<text class="title" x="10" y="22">How many times as fast as others Shardkit is</text>']
    for i, (peer, style) in enumerate(PEERS):
        x = 10 + (190 if i > 0 else 0) + 120 * max(0, i - 1)
        out.append(f'<rect class="{style}" x="{x}" y="32" width="12" height="12" rx="2"/>')
        out.append(f'<text x="{x + 18}" y="42">{escape(peer)}</text>')
    for decade in range(decades + 1):
        x = place(10**decade)
        style, text = ("grid", f"{10**decade} x") if decade else ("equal", "equal")
        out.append(f'<line class="{style}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{bottom}"/>')
        out.append(f'<text x="{x:.1f}" y="{TOP - 14}" text-anchor="middle">{text}</text>')
    for y, (row, note, _, peers) in zip(tops, ROWS):
        out.append(f'<text class="row" x="10" y="{y + 20}">{escape(row)}</text>')
        out.append(f'<text x="10" y="{y + 36}">{escape(note)}</text>')
        for k, peer in enumerate(peers):
            bar = y + BAR * k
            if (row, peer) not in found:
                out.append(f'<text x="{place(1) + 6:.1f}" y="{bar + 11}">not measured</text>')
                continue
            value = found[row, peer]
            left, right = sorted((place(1), place(value)))
            place_of_bar = f'x="{left:.1f}" y="{bar}" width="{right - left:.1f}" height="{BAR - 3}"'
            digits = 0 if value >= 20 else 1 if value >= 1 else 2
            out.append(f'<rect class="{styles[peer]}" {place_of_bar} rx="2"/>')
            out.append(f'<text x="{right + 6:.1f}" y="{bar + 11}">{value:.{digits}f} x</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def draw(folder):
    with open(os.path.join(folder, "compare.md"), encoding="utf-8") as file:
        document = file.read()
    with open(os.path.join(folder, "compare.svg"), "w", encoding="utf-8") as file:
        file.write(drawing(document))


if __name__ == "__main__":
    draw(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "results"))
