#!/usr/bin/python3
"""The C++ examples of README.md and docs/ compile as printed, with only public headers. Links have targets."""
import concurrent.futures
import os
import re
import subprocess
import tempfile
import unittest

import documents
from documents import ROOT

COMPILER = os.environ.get("CXX", "c++").split()


def compile_example(folder, name, line, text):
    """The compiler's messages about one example, with positions in its document."""
    path = os.path.join(folder, f"{os.path.basename(name)}.{line}.cc")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#line {line} "{name}"\n{text}')
    flags = subprocess.run(["pkg-config", "--cflags", "absl_status", "absl_statusor"], check=True,
                           stdout=subprocess.PIPE).stdout.decode().split()
    done = subprocess.run([*COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Werror", *flags,
                           "-I", os.path.join(ROOT, "lib", "include"),
                           "-include", os.path.join(ROOT, "tests", "docs", "prelude.h"), path],
                          check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    return done.returncode, done.stdout.decode()


class ExamplesTest(unittest.TestCase):
    def test_examples_compile(self):
        examples = [(name, *block) for name in documents.NAMES for block in documents.blocks(name, "cpp")]
        self.assertIn("README.md", [example[0] for example in examples])
        processors = len(os.sched_getaffinity(0))
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(processors) as pool:
            results = pool.map(lambda example: compile_example(folder, *example), examples)
            for example, (code, output) in zip(examples, results):
                with self.subTest(document=example[0], line=example[1]):
                    self.assertEqual(code, 0, output)

    def test_a_broken_example_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            text = "#include <shardkit/dataset_reader.h>\nshardkit::DatasetReeder* reader;\n"
            code, output = compile_example(folder, "x.md", 7, text)
            self.assertNotEqual(code, 0)
            self.assertIn("x.md:8:", output)
            # A missing #include in the example is not hidden either.
            self.assertNotEqual(compile_example(folder, "x.md", 1, "shardkit::DatasetReader* reader;\n")[0], 0)

    def test_links(self):
        for name in documents.NAMES:
            text = re.sub(r"^```.*?^```$", "", documents.read(name), flags=re.MULTILINE | re.DOTALL)
            for link in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"[a-z]+:", link):
                    continue
                with self.subTest(document=name, link=link):
                    path, _, anchor = link.partition("#")
                    path = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
                    self.assertTrue(os.path.exists(os.path.join(ROOT, path)))
                    if anchor:
                        self.assertIn(anchor, anchors(documents.read(path)))

    def test_readme_leads_to_every_guide(self):
        text = documents.read("README.md")
        for name in documents.NAMES[1:]:
            if name != "docs/internals.md":  # is for contributors
                self.assertIn(f"({name})", text)
        self.assertLessEqual(text.count("\n"), 250)


def anchors(text):
    """The anchors of the headings, as on a repository's web pages."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


if __name__ == "__main__":
    unittest.main()
