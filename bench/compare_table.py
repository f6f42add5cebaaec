"""The Markdown of bench/compare: the targets, all figures, and the versions and settings of the measurement."""
import collections
import importlib
import statistics

import compare_ours as ours
from compare_workloads import COLD, MEMORY, STEPS, WORKLOADS, Step, what
from harness import machine
from peers import client, ffcv_loader, lit_data, shardkit_python, spdl_loader, streaming_dataset, web_dataset

# A larger `measured` is better, unless `less`.
TargetRow = collections.namedtuple("TargetRow", ["what", "peer", "target", "measured", "less"])

MDS, TARS, FFCV = streaming_dataset.NAME, web_dataset.NAME, ffcv_loader.NAME
_SEQUENTIAL, _PHOTOS = Step("sequential", "small4k", 1), Step("sequential", "jpeg500", 1)
_SHUFFLED, _DECODE = Step("shuffled", "small4k", 1), Step("decode", "jpeg500", 2)
_PACK, _PACK_ALONE = Step("pack", "small4k", 2), Step("pack", "small4k", 1)
# What; ours; theirs; the target ratio.
TARGETS = [
    ("sequential, small4k", (_SEQUENTIAL, ours.SCAN), (_SEQUENTIAL, MDS), 100),
    ("sequential, small4k", (_SEQUENTIAL, ours.SCAN), (_SEQUENTIAL, TARS), 60),
    ("sequential, small4k", (_SEQUENTIAL, ours.SCAN), (_SEQUENTIAL, FFCV), 1.2),
    ("sequential, jpeg500", (_PHOTOS, ours.SCAN), (_PHOTOS, MDS), 12),
    ("sequential, jpeg500", (_PHOTOS, ours.SCAN), (_PHOTOS, TARS), 8),
    ("sequential, jpeg500", (_PHOTOS, ours.SCAN), (_PHOTOS, FFCV), 1.2),
    ("shuffled, small4k", (_SHUFFLED, ours.LOADER), (_SHUFFLED, MDS), 80),
    ("shuffled, small4k", (_SHUFFLED, ours.LOADER), (_SHUFFLED, TARS), 40),
    ("shuffled, small4k, memory map", (_SHUFFLED, ours.MAPPED), (_SHUFFLED, FFCV), 1.2),
    ("their files read by us, small4k", (_SEQUENTIAL, ours.THEIR_MDS), (_SEQUENTIAL, MDS), 60),
    ("their files read by us, small4k", (_SEQUENTIAL, ours.THEIR_TARS), (_SEQUENTIAL, TARS), 30),
    ("images decoded, 2 workers", (_DECODE, ours.LOADER), (_DECODE, MDS), 4.5),
    ("images decoded, 2 workers", (_DECODE, ours.LOADER), (_DECODE, TARS), 4.2),
    ("images decoded, crop 224, 2 workers", (_DECODE, ours.CROP), (_DECODE, FFCV), 2.2),
    ("packing small4k, 2 threads", (_PACK, ours.PACK), (_PACK_ALONE, MDS), 12),
    ("packing small4k, 2 threads", (_PACK, ours.PACK), (_PACK_ALONE, TARS), 15),
    ("packing small4k, 2 threads", (_PACK, ours.PACK), (_PACK, FFCV), 20),
]
# The loops of Python side by side, with 2 workers.
PYTHON, LIT, SPDL = shardkit_python.NAME, lit_data.NAME, spdl_loader.NAME
_SHUFFLED_2 = Step("shuffled", "small4k", 2)
TARGETS += [
    ("Python: shuffled, small4k, 2 workers", (_SHUFFLED_2, PYTHON), (_SHUFFLED_2, ours.LOADER), 0.95),
    ("Python: shuffled, small4k, 2 workers", (_SHUFFLED_2, PYTHON), (_SHUFFLED_2, MDS), 100),
    ("Python: shuffled, small4k, 2 workers", (_SHUFFLED_2, PYTHON), (_SHUFFLED_2, LIT), 20),
    ("Python: images decoded, 2 workers", (_DECODE, PYTHON), (_DECODE, ours.LOADER), 0.98),
    ("Python: images decoded, 2 workers", (_DECODE, PYTHON), (_DECODE, MDS), 2),
    ("Python: images decoded, 2 workers", (_DECODE, PYTHON), (_DECODE, LIT), 2),
    ("Python: images decoded, 2 workers", (_DECODE, PYTHON), (_DECODE, SPDL), 1.5),
]
TARGETS += [(f"Python: {what(step)}", (step, PYTHON), (step, SPDL), 1) for step in STEPS if step.workload == "tars"]
FIRST = [_SHUFFLED_2, _DECODE]
FIRST_TARGET = 0.2
MEMORY_TARGETS = [(MDS, 0.3), (TARS, 0.3), (FFCV, 0.15)]
PYTHON_MEMORY_TARGET = 0.3
PER_BATCH = 20e-6  # seconds


def rates(figures):
    return [figure["samples"] / figure["seconds"] for figure in figures]


def target_rows(comparison):
    """The target ratios. `measured` is the median over the rounds, None where one side is missing."""
    rows = []
    for title, mine, theirs, target in TARGETS:
        pairs = list(zip(rates(comparison.figures[mine]), rates(comparison.figures[theirs])))
        measured = statistics.median(a / b for a, b in pairs) if pairs else None
        rows.append(TargetRow(title, theirs[1], target, measured, False))
    for peer, target in MEMORY_TARGETS:
        theirs = comparison.memory.get((MEMORY[0], peer))
        measured = comparison.memory[MEMORY[0], ours.LOADER]["memory"] / theirs["memory"] if theirs else None
        rows.append(TargetRow("peak memory of a reading process, small4k", peer, target, measured, True))
    for step in MEMORY[1:]:
        rows.append(_python_memory(comparison, step))
    seconds = [figure["per_batch"] for figure in comparison.figures[_SHUFFLED_2, PYTHON] if "per_batch" in figure]
    rows.append(TargetRow(f"Python: the loop's thread for one batch, {what(_SHUFFLED_2)}", f"{1e6 * PER_BATCH:.0f} µs", 1,
                          statistics.median(seconds) / PER_BATCH if seconds else None, True))
    for step in FIRST:
        found = _first_seconds(comparison, step)
        mine = found.pop(PYTHON, None)
        quickest = min(found, key=found.get, default=None)
        measured = mine / found[quickest] if mine is not None and quickest else None
        rows.append(TargetRow(f"Python: time to the first batch, {step.workload} {step.label}, 2 workers",
                              f"the quickest: {quickest}" if quickest else "the quickest", FIRST_TARGET, measured, True))
    return rows


def _python_memory(comparison, step):
    """Beside the smallest of those whose workers are processes."""
    theirs = {name: comparison.memory[step, name]["memory"] for name in _with_processes() if (step, name) in comparison.memory}
    smallest = min(theirs, key=theirs.get, default=None)
    mine = comparison.memory.get((step, PYTHON))
    return TargetRow(f"Python: peak memory, {what(step)}", f"the smallest with processes: {smallest}" if smallest else "those with processes",
                     PYTHON_MEMORY_TARGET, mine["memory"] / theirs[smallest] if mine and smallest else None, True)


def _with_processes():
    modules = [importlib.import_module("peers." + name) for name in client.MODULES]
    return [module.NAME for module in modules if getattr(module, "WORKER_PROCESSES", False)]


def _first_seconds(comparison, step):
    """Contender -> median of the seconds to the first batch."""
    found = {}
    for (other, name), figures in comparison.figures.items():
        seconds = [figure["first"] for figure in figures if figure.get("first") is not None]
        if other == step and seconds:
            found[name] = statistics.median(seconds)
    return found


def _first(comparison):
    out = ["### milliseconds to the first batch, opening included, 2 workers", "",
           "| | " + " | ".join(f"{step.workload} {step.label}" for step in FIRST) + " |", "|---|" + "---|" * len(FIRST)]
    found = [_first_seconds(comparison, step) for step in FIRST]
    for name in dict.fromkeys(name for seconds in found for name in seconds):
        cells = [f"{1e3 * seconds[name]:,.1f}" if name in seconds else "" for seconds in found]
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    return out + [""]


def number(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def _targets(comparison):
    out = ["| What | Against | Ratio | Target | Reached |", "|---|---|---|---|---|"]

    def reached_by(row):
        return row.measured <= row.target if row.less else row.measured >= row.target

    def ahead(row):
        return row.measured <= 1 if row.less else row.measured >= 1

    # First where a peer is ahead, then what is short of its target.
    rows = sorted(target_rows(comparison), key=lambda row: (2, 0) if row.measured is None else (ahead(row), reached_by(row)))
    for row in rows:
        if row.measured is None:
            out.append(f"| {row.what} | {row.peer} | not measured | | |")
            continue
        sign = "≤" if row.less else "≥"
        reached = reached_by(row)
        measured = f"{row.measured:.2f}" if row.measured < 20 else f"{row.measured:.0f}"
        out.append(f"| {row.what} | {row.peer} | {measured} x | {sign} {row.target:g} x | {'yes' if reached else 'no'} |")
    return out


def _names(comparison, workload, label):
    names = {}
    for step in STEPS:
        if (step.workload, step.label) == (workload, label):
            names.update((name, None) for (other, name), figures in comparison.figures.items() if other == step and figures)
    return list(names)


def _cells(comparison, step, name):
    figures = comparison.figures.get((step, name))
    if not figures:
        return ["", "", ""]
    rate = statistics.median(rates(figures))
    megabytes = rate * comparison.payload(step.label) / comparison.count(step.label) / 1e6
    processor = _processor(figures)
    others = [_processor(others) for (other, _), others in comparison.figures.items() if other == step]
    least = processor is not None and processor <= min(seconds for seconds in others if seconds is not None)
    cell = "" if processor is None else number(processor)
    return [number(rate), number(megabytes), f"**{cell}**" if least else cell]


def _processor(figures):
    """Median of the processor seconds for a million samples. None where nothing was measured."""
    seconds = [1e6 * figure["processor"] / figure["samples"] for figure in figures if "processor" in figure]
    return statistics.median(seconds) if seconds else None


def _workload(comparison, workload, label):
    workers = [step.workers for step in STEPS if (step.workload, step.label) == (workload, label)]
    unit = "images" if workload == "decode" else "samples"
    header = "".join(f" {unit}/s, {n} worker{'s' if n > 1 else ''} | MB/s | CPU s per million |" for n in workers)
    out = [f"### {workload}, {label}", "", f"| |{header}", "|---|" + "---|" * 3 * len(workers)]
    for name in _names(comparison, workload, label):
        cells = [cell for n in workers for cell in _cells(comparison, Step(workload, label, n), name)]
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    return out + [""]


def _memory(comparison):
    out = ["### peak memory of a reading process, MiB", "", "| | " + " | ".join(map(what, MEMORY)) + " | packages loaded |",
           "|---|" + "---|" * len(MEMORY) + "---|"]
    for name in dict.fromkeys(name for _, name in comparison.memory):
        found = [comparison.memory.get((step, name), {}) for step in MEMORY]
        cells = [f"{figures['memory']:.0f}" if figures else "" for figures in found]
        cells.append(next((f"{figures['loaded']:.0f}" for figures in found if "loaded" in figures), ""))
        out.append(f"| {name} | {' | '.join(cells)} |")
    packers = []
    for figures in comparison.figures.items():
        (step, name), values = figures
        if step.workload == "pack" and any("memory" in value for value in values):
            packers.append(f"- {name}, packing {step.label}, {step.workers} thread{'s' if step.workers > 1 else ''}: "
                           f"{max(value['memory'] for value in values):.0f} MiB")
    return out + ["", *packers, ""]


def _cold(comparison):
    out = ["### with an empty page cache, small4k, one round", "", "| samples/s | sequential | shuffled |", "|---|---|---|"]
    for name in dict.fromkeys(name for _, name in comparison.cold):
        cells = [number(rates([comparison.cold[step, name]])[0]) if (step, name) in comparison.cold else "" for step in COLD]
        out.append(f"| {name} | {' | '.join(cells)} |")
    if len(out) == 4:
        return ["### with an empty page cache", "", "Not measured: the page cache cannot be emptied here.", ""]
    return out + [""]


def _settings(comparison, settings):
    out = ["## Settings", ""]
    everyone = [("Shardkit", settings)]
    everyone += [(module.NAME, module.SETTINGS) for module in _modules(comparison) if module.NAME not in comparison.left_out]
    for name, lines in everyone:
        out += [f"- **{name}**"] + [f"  - {workload}: {text}" for workload, text in lines.items()]
    return out


def _modules(comparison):
    return [importlib.import_module("peers." + name) for name in comparison.modules_chosen]


def _command(options):
    command = "bench/compare"
    if (options.small, options.photos) != (50000, 2000):
        command += f" --small {options.small} --photos {options.photos}"
    for name, chosen, everything in (("only", options.only, WORKLOADS), ("peers", options.peers, client.MODULES)):
        if chosen != everything:
            command += f" --{name} {','.join(chosen)}"
    return command


def _left_out(comparison):
    out = [f"- {name}, all: {reason}" for name, reason in comparison.left_out.items()]
    return out + [f"- {name}, {workload}: {reason}" for (workload, name), reason in sorted(comparison.missing.items())]


def document(comparison, settings):
    options = comparison.options
    versions = ", ".join(f"{name} {version}" for name, version in sorted(comparison.versions.items()))
    out = ["# Beside MDS, WebDataset and FFCV", "", f"{machine()} {versions}.", "", f"Command: `{_command(options)}`",
           "", f"Medians of {options.rounds} rounds, in which everybody is measured in turn; what takes longer than 5 s is in two of "
           "them, longer than 15 s in one. The page cache is warm but where it says otherwise. One sample is a file: small4k has "
           f"{options.small:,} of 4 KiB random bytes, jpeg500 {options.photos:,} photographs of 500 x 375. CPU s: of all processes and "
           "threads; the least of a column is bold. Workers are processes for the peers (1: none but the process itself; FFCV: threads), threads for us.",
           "", "## What was aimed at", "", *_targets(comparison), "", "## Figures", ""]
    for workload, label in dict.fromkeys((step.workload, step.label) for step in STEPS):
        out += _workload(comparison, workload, label)
    out += _first(comparison) + _memory(comparison) + _cold(comparison)
    out += ["Memory is what a process and its workers have together at most, shared pages counted once; of Shardkit's C++ loader, its resident set.", ""]
    out += ["## Not measured", "", *_left_out(comparison), ""]
    return "\n".join(out + _settings(comparison, settings)) + "\n"
