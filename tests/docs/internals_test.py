#!/usr/bin/python3
"""The classes and functions that docs/internals.md names are those of lib/. (Its links are followed in examples_test.py.)"""
import glob
import os
import re
import unittest

import documents
from documents import ROOT

PAGE = "docs/internals.md"
NOT_OURS = ("absl", "std")


def definitions():
    """The types, and the functions and values of enums, that each file of lib/ defines or declares."""
    for ending in ("h", "cc"):
        for path in glob.glob(os.path.join(ROOT, "lib", "**", f"*.{ending}"), recursive=True):
            with open(path, encoding="utf-8") as file:
                text = re.sub(r"(?m)(^|\s)//.*", "", file.read())
            types = set(re.findall(r"\b(?:class|struct) (\w+)\b(?! *;)", text)) | set(re.findall(r"\busing (\w+) =", text))
            # Behind a type: a call is none.
            functions = {name for before, name in re.findall(r"(\w+|[>&*]) (?:\w+::)*([A-Z]\w*)\(", text) if before != "return"}
            yield types, functions | set(re.findall(r"\b(k[A-Z]\w*)(?: = [^,;]*)?[,\s]", text))


def names(text):
    """The names of C++ in a document: of what is in backticks, `Name`, `Name()` and `Name::Name`."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for code in re.findall(r"`([^`]+)`", text):
        name = code.removesuffix("()")
        if re.fullmatch(r"(\w+::)*(~?[A-Z]\w*[a-z]\w*|k[A-Z]\w*)", name) and name.split("::")[0] not in NOT_OURS:
            yield name


def is_defined(name, files):
    *outer, last = name.split("::")
    if not outer:
        return any(last in types or last in others for types, others in files)
    # A member is declared where its class is defined.
    return any(outer[-1] in types and (last in types or last in others) for types, others in files)


class InternalsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = list(definitions())

    def test_names_are_those_of_the_library(self):
        found = sorted(set(names(documents.read(PAGE))))
        self.assertLess(50, len(found))
        for name in found:
            with self.subTest(name=name):
                self.assertTrue(is_defined(name, self.files), f"{PAGE}: `{name}` is not in lib/")

    def test_a_wrong_name_is_noticed(self):
        text = "`Engine`, `BlockTable::Nothing`, `NoSuchClass`, `JobKind::kNone`, `NoSuchFunction()`, `lib/base`, `absl::Status`, `done`"
        wrong = [name for name in names(text) if not is_defined(name, self.files)]
        self.assertEqual(wrong, ["BlockTable::Nothing", "NoSuchClass", "JobKind::kNone", "NoSuchFunction"])


if __name__ == "__main__":
    unittest.main()
