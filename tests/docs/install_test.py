#!/usr/bin/python3
"""The library is installed, found by pkg-config, and README.md's reading example runs with it. Or it is a subproject of a user's
build.

The variable SHARDKIT_BUILD_DIR names the build to install, SHARDCTL the command that makes the dataset. Standard library only.
"""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import documents
from documents import ROOT

BUILD = os.path.abspath(os.environ["SHARDKIT_BUILD_DIR"])
SHARDCTL = os.path.abspath(os.environ["SHARDCTL"])
COMPILER = os.environ.get("CXX", "c++").split()
SAMPLES = 5
MAIN = """
#include <cstdio>
int main(int, char** arguments) {
  const absl::Status status = Read(arguments[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\\n", std::string(status.message()).c_str());
  else std::printf("%zu\\n", trained_values);
  return status.ok() ? 0 : 1;
}
"""


def run(*command, **keywords):
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, **keywords)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{(done.stdout + done.stderr).decode(errors='replace')[-4000:]}")
    return done.stdout.decode()


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="install-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        meson = run(os.path.join(ROOT, "tools", "install_dependencies"), "--meson").strip()
        run(meson, "install", "-C", BUILD, "--no-rebuild", "--destdir", cls.folder)
        cls.search = next(folder for folder, _, names in os.walk(cls.folder) if "shardkit.pc" in names)
        found = os.path.join(cls.search, "shardkit.pc")
        with open(found, encoding="utf-8") as file:
            cls.description = file.read()
        # The folder stands for the root of the file system.
        with open(found, "w", encoding="utf-8") as file:
            file.write(re.sub(r"^prefix=", f"prefix={cls.folder}", cls.description, flags=re.MULTILINE))
        example = next(text for _, text in documents.blocks("README.md", "cpp") if "absl::Status Read(" in text)
        cls.source = cls.path("program.cc")
        with open(cls.source, "w", encoding="utf-8") as file:
            file.write(example + MAIN)
        run(*COMPILER, "-c", cls.source, "-o", cls.path("program.o"), *cls.pkg_config("--cflags"),
            "-include", os.path.join(ROOT, "tests", "docs", "prelude.h"))
        run(SHARDCTL, "synth", "sa1b", "-o", cls.path("pairs"), "--count", str(SAMPLES), "--width", "96",
            "--height", "72")
        run(SHARDCTL, "pack", cls.path("pairs"), "-o", cls.path("dataset"))

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def pkg_config(cls, *words):
        return run("pkg-config", *words, "shardkit", env=dict(os.environ, PKG_CONFIG_PATH=cls.search)).split()

    def reads(self, name, **environment):
        output = run(self.path(name), self.path("dataset"), env=dict(os.environ, **environment))
        self.assertEqual(output.strip(), str(2 * SAMPLES))
        return run("ldd", self.path(name), env=dict(os.environ, **environment))

    def test_shared(self):
        run(*COMPILER, self.path("program.o"), "-o", self.path("shared"), *self.pkg_config("--libs"))
        libraries = self.reads("shared", LD_LIBRARY_PATH=os.path.dirname(self.search))
        self.assertIn(f"{os.path.dirname(self.search)}/libshardkit.so", libraries)

    def test_static(self):
        # The list of --static is enough when the linker must not use the shared library.
        words = self.pkg_config("--static", "--libs")
        self.assertIn("-lshardkit", words)
        words = ["-l:libshardkit.a" if word == "-lshardkit" else word for word in words]
        run(*COMPILER, self.path("program.o"), "-o", self.path("static"), *words)
        self.assertNotIn("libshardkit", self.reads("static"))

    def test_paths_begin_with_the_prefix(self):
        for line in self.description.splitlines():
            if not line.startswith("prefix="):
                self.assertNotRegex(line, r"(?<![\w}])/|-[LI]/")

    def test_manual_page_is_where_man_looks(self):
        [folder] = [folder for folder, _, names in os.walk(self.folder) if "shardctl.1" in names]
        self.assertTrue(folder.endswith("/man/man1"), folder)


class SubprojectTest(unittest.TestCase):
    def test_without_tests_below_another_project(self):
        with tempfile.TemporaryDirectory(prefix="install-test-") as folder:
            os.makedirs(os.path.join(folder, "subprojects"))
            os.symlink(ROOT, os.path.join(folder, "subprojects", "shardkit"))
            with open(os.path.join(folder, "meson.build"), "w", encoding="utf-8") as file:
                file.write("project('trainer', 'cpp', default_options: ['cpp_std=c++20'])\n"
                           "shardkit = subproject('shardkit', default_options: ['tests=disabled', 'cuda=disabled'])\n"
                           "executable('trainer', 'trainer.cc', dependencies: shardkit.get_variable('shardkit_dep'))\n")
            with open(os.path.join(folder, "trainer.cc"), "w", encoding="utf-8") as file:
                file.write("int main() {}\n")
            meson = run(os.path.join(ROOT, "tools", "install_dependencies"), "--meson").strip()
            build = os.path.join(folder, "build")
            run(meson, "setup", build, folder)
            # One file of the lowest layer. It uses the precompiled header of all layers.
            run("ninja", "-C", build, "subprojects/shardkit/lib/base/libshardkit_base.a.p/utf8.cc.o")


if __name__ == "__main__":
    unittest.main()
