"""Writes the manual page: a frame written by hand, into which it puts what shardctl --help says of each command.

    page.py FRAME OUTPUT COMMAND...

COMMAND runs shardctl, perhaps by an emulator.
"""
import itertools
import re
import subprocess
import sys

OPTION = re.compile(r"^  (?=-\w, --|    --)", re.MULTILINE)
ROFF = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "~": "\\(ti", "^": "\\(ha", "…": "..."}


def roff(text):
    """Text in which roff finds neither an escape nor a request."""
    return re.sub(r"^\.", "\\\\&.", re.sub("[\\\\'`~^…-]", lambda match: ROFF[match[0]], text), flags=re.MULTILINE)


def run(shardctl, *words):
    return subprocess.run([*shardctl, *words], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


class Command:
    """The parts of a command's help."""

    def __init__(self, shardctl, *words):
        head, _, body = run(shardctl, *words, "--help").partition("\n\nOptions:\n")
        title, usage, *kinds = head.split("\n\n")
        self.name, _, self.summary = title.partition(" - ")
        self.usage = usage.removeprefix("Usage: ").splitlines()
        options, *rest = body.split("\n\n")
        self.options = []  # ("-o, --output OUT", what it means)
        for option in OPTION.split(options)[1:]:
            name, meaning = re.fullmatch(r"(.*?)(?:  +|\n)(.*)", option.strip(), re.DOTALL).groups()
            self.options.append((name, " ".join(meaning.split())))
        self.notes = kinds + [part.rstrip() for part in rest]


def commands(shardctl):
    """All commands, as "synth", "synth sa1b", "synth files"."""
    def words(*before):
        return [line.partition("\t")[0] for line in run(shardctl, "complete", *before, "").splitlines() if line[0].isalpha()]

    for verb in words():
        yield Command(shardctl, verb)
        for second in words(verb):
            command = Command(shardctl, verb, second)
            if command.name == f"shardctl {verb} {second}":
                yield command


def usage_lines(command):
    return "".join(roff(line.strip()) + "\n" for line in command.usage)


def option_name(name):
    """Names bold, what stands for a value italic."""
    name, space, placeholder = re.fullmatch(r"((?:-\w, )?\S+)( ?)(.*)", name).groups()
    return roff(name).join(("\\fB", "\\fR")) + (f" \\fI{roff(placeholder)}\\fR" if space else "")


def option_rows(options):
    return "".join(f".TP\n{option_name(name)}\n{roff(meaning)}\n" for name, meaning in options)


def section(command, sections):
    """`sections` has all options before: those that mean the same are only named."""
    text = f'.SH "{command.name.removeprefix("shardctl ").upper()}"\n{roff(command.summary)}\n.PP\n.nf\n{usage_lines(command)}.fi\n'
    repeated = {}  # section: names of its options
    for option in command.options:
        if option[0] == "-h, --help":
            continue
        if option in sections:
            repeated.setdefault(sections[option], []).append(option[0])
        else:
            sections[option] = command.name
            text += option_rows([option])
    for other, names in repeated.items():
        text += f".TP\n{', '.join(map(option_name, names))}\nas for\n.B {roff(other)}\n"
    for paragraph in command.notes:
        text += ".PP\n"
        for indented, lines in itertools.groupby(paragraph.splitlines(), lambda line: line.startswith("  ")):
            lines = roff("\n".join(lines)) + "\n"
            text += f".nf\n{lines}.fi\n" if indented else lines
    return text


def main(frame, output, *shardctl):
    whole = Command(shardctl)
    sections = {}
    parts = {"SYNOPSIS": "", "OPTIONS": option_rows(whole.options), "COMMANDS": ""}
    for command in commands(shardctl):
        parts["SYNOPSIS"] += usage_lines(command)
        parts["COMMANDS"] += section(command, sections)
    with open(frame, encoding="utf-8") as file:
        page = re.sub(r"^@(\w+)@\n", lambda match: parts[match[1]], file.read(), flags=re.MULTILINE)
    with open(output, "w", encoding="utf-8") as file:
        file.write(page)


if __name__ == "__main__":
    main(*sys.argv[1:])
