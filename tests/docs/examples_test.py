#!/usr/bin/python3
"""The C++ examples of README.md and docs/ compile as printed, with only public headers. Links have targets, and paths files."""
import concurrent.futures
import glob
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

    def test_page_of_the_package(self):
        # A package index shows it without the repository.
        self.assertNotRegex(documents.read("python/README.md"), r"\]\((?!https:)")
        (_, example), = documents.blocks("python/README.md", "python")
        first = re.sub(r" +# pip install \.", "", next(documents.blocks("README.md", "python"))[1])
        self.assertEqual(example, re.sub(r" +#", "  #", first))

    def test_paths_in_the_text(self):
        for name in [*documents.NAMES, "CONTRIBUTING.md", "SECURITY.md"]:
            for path in repository_paths(documents.read(name)):
                with self.subTest(document=name, path=path):
                    self.assertTrue(exists(path))
        found = repository_paths("`lib/gone/*_cuda.*` `lib/x/NAME_source.{h,cc}` `tools/gone DIR` `a/b` lib/x")
        self.assertEqual(found, ["lib/gone/*_cuda.*", "lib/x/NAME_source.{h,cc}", "tools/gone"])
        self.assertEqual([path for path in found if exists(path)], [])
        self.assertTrue(exists("lib/operations/sources/NAME_source.{h,cc}"))

    def test_table_of_headers(self):
        _, _, table = documents.read("docs/train-cpp.md").partition("## The headers")
        headers = sorted(os.listdir(os.path.join(ROOT, "lib", "include", "shardkit")))
        self.assertEqual(sorted(re.findall(r"^\| `(\S+\.h)` \|", table, re.MULTILINE)), headers)

    def test_readme_leads_to_every_guide(self):
        text = documents.read("README.md")
        for name in documents.NAMES[1:]:
            if name != "docs/internals.md":  # is for contributors
                self.assertIn(f"({name})", text)
        self.assertLessEqual(text.count("\n"), 250)

    def test_rows_of_a_table_have_equally_many_cells(self):
        for name in documents.NAMES:
            text = re.sub(r"^```.*?^```$", "", documents.read(name), flags=re.MULTILINE | re.DOTALL)
            for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
                with self.subTest(document=name, table=table.splitlines()[0]):
                    self.assertEqual(len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}), 1)

    def test_the_site_has_every_page(self):
        text = documents.read("docs/index.rst")
        entries = {os.path.normpath(os.path.join("docs", entry)) for entry in re.findall(r"^   ([\w./-]+)$", text, re.MULTILINE)}
        pages = glob.glob(os.path.join(ROOT, "format-spec", "**", "*.md"), recursive=True)
        for name in [*documents.NAMES, *(os.path.relpath(page, ROOT) for page in pages)]:
            self.assertIn(os.path.splitext(name)[0], entries)
        for marker in re.findall(r":(?:start|end)-\w+: (.+)", text):
            self.assertIn(marker, documents.read("README.md"))


def repository_paths(text):
    """The paths of the repository in backticks, without the arguments of a command."""
    return re.findall(r"`((?:bench|docs|examples|format-spec|fuzz|lib|python|tests|tools)/[^\s`]*)[^`\n]*`", text)


def exists(path):
    """Whether there is such a path, or the source of such a program. Words in capitals stand for any name, {a,b} for both endings."""
    head, brace, ending = path.partition("{")
    paths = [head + each for each in ending.rstrip("}").split(",")] if brace else [path]
    patterns = [os.path.join(ROOT, re.sub(r"\b[A-Z]+(?=\b|_)", "*", each)) for each in paths]
    return all(glob.glob(pattern) or os.path.exists(pattern + ".cc") for pattern in patterns)


def anchors(text):
    """The anchors of the headings, as on a repository's web pages."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


if __name__ == "__main__":
    unittest.main()
