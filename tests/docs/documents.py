"""README.md and docs/, and the fenced blocks in them."""
import glob
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAMES = ["README.md", *sorted(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "docs", "*.md")))]


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def blocks(name, language):
    """(number of the first line, text) of each block of a language."""
    text = read(name)
    for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, found.start(1)) + 1, found[1]


def commands(name):
    """(line, command) that a reader would type: lines after "$ " of console blocks, all lines of sh blocks."""
    for language, prompt in (("console", "$ "), ("sh", "")):
        for line, block in blocks(name, language):
            whole = ""
            for number, text in enumerate(block.split("\n"), line):
                if whole or text.startswith(prompt) and text.strip():
                    whole += text if whole else text[len(prompt):]
                    if whole.endswith("\\"):
                        whole = whole[:-1]
                        continue
                    yield number, re.sub(r"\s#\s.*", "", whole)
                    whole = ""
