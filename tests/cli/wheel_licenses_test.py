"""tools/wheel_licenses: a wheel gets the licence text of each library that it holds, and is refused without one."""
import os
import shutil
import subprocess
import sys
import unittest
import zipfile

from support import CliTest

try:
    from wheel.wheelfile import WheelFile
except ImportError:
    WheelFile = None

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "wheel_licenses")
NINJA = """rule compile
  command = g++ -isystem SYSROOT/usr/include -isystem TOOLKIT/include -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
rule link
  command = g++ $in SYSROOT/usr/lib/libarchived.a -o $out
build program.o: compile program.cc
build program: link program.o
"""


@unittest.skipUnless(shutil.which("dpkg") and shutil.which("ninja") and shutil.which("g++") and WheelFile,
                     "is for Debian, with a compiler and the package wheel")
class WheelLicensesTest(CliTest):
    def setUp(self):
        super().setUp()
        self.sysroot = self.path("sysroot")
        self.write("sysroot/usr/include/header_only.h", "inline int Header() { return 0; }\n")
        source = self.write("archived.cc", "int Archived() { return 0; }\n")
        os.makedirs(self.path("sysroot/usr/lib"))
        subprocess.run(["g++", "-c", source, "-o", self.path("archived.o")], check=True)
        subprocess.run(["ar", "rc", self.path("sysroot/usr/lib/libarchived.a"), self.path("archived.o")], check=True)
        self.write("sysroot/owners", "libarchived-dev /usr/lib/libarchived.a\nheader-only /usr/include/header_only.h\nunused-dev /usr/lib/unused.a\n")
        for package in ("libarchived-dev", "header-only", "unused-dev"):
            self.write(f"sysroot/usr/share/doc/{package}/copyright", f"Copyright of {package}. See /usr/share/common-licenses/Apache-2.0.\n")
        self.write("toolkit/include/runtime.h", "")
        self.write("toolkit/bin/nvcc", "")
        self.write("toolkit/EULA.txt", "Licence of a toolkit.\n")
        self.write("build/program.cc", "#include <header_only.h>\n#include <runtime.h>\nint Archived();\nint main() { return Header() + Archived(); }\n")
        self.write("build/build.ninja", NINJA.replace("SYSROOT", self.sysroot).replace("TOOLKIT", self.path("toolkit")))
        subprocess.run(["ninja", "-C", self.path("build")], check=True, stdout=subprocess.DEVNULL)
        self.wheel = self.path("some-1-py3-none-any.whl")
        with WheelFile(self.wheel, "w") as wheel:
            wheel.writestr("some/__init__.py", "")
            wheel.write(shutil.which("true"), "some-1.data/scripts/command")
            wheel.writestr("some-1.dist-info/licenses/LICENSE", "its own\n")
            wheel.writestr("some-1.dist-info/METADATA", "Metadata-Version: 2.4\nName: some\nVersion: 1\nLicense-File: LICENSE\n\nText.\n")
            wheel.writestr("some-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")

    def run_tool(self):
        return subprocess.run([sys.executable, TOOL, self.wheel, self.path("build"), self.sysroot], capture_output=True, text=True, check=False)

    def test_each_library_has_its_text(self):
        done = self.run_tool()
        self.assertEqual(done.returncode, 0, done.stderr)
        folder = "some-1.dist-info/licenses/"
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
            self.assertEqual(wheel.getinfo("some-1.data/scripts/command").external_attr >> 16 & 0o777, 0o755)
            texts = {name.removeprefix(folder) for name in names if name.startswith(folder)}
            metadata = wheel.read("some-1.dist-info/METADATA").decode()
            record = wheel.read("some-1.dist-info/RECORD").decode().splitlines()
            self.assertIn("Copyright of header-only.", wheel.read(folder + "libraries/header-only.txt").decode())
            self.assertEqual(wheel.read(folder + "libraries/cuda.txt").decode(), "Licence of a toolkit.\n")
            self.assertIn("Apache License", wheel.read(folder + "libraries/common/Apache-2.0.txt").decode())
        self.assertLessEqual({"LICENSE", "libraries/libarchived-dev.txt"}, texts)
        self.assertTrue(any(name.startswith("libraries/libstdc++") for name in texts), texts)
        self.assertNotIn("libraries/unused-dev.txt", texts)
        head, _, text = metadata.partition("\n\n")
        self.assertEqual(sorted(line.partition(": ")[2] for line in head.splitlines() if line.startswith("License-File: ")), sorted(texts))
        self.assertEqual(text, "Text.\n")
        self.assertEqual(sorted(line.split(",")[0] for line in record), sorted(names))

    def test_a_library_without_a_text_is_refused(self):
        before = self.read(self.wheel)
        os.remove(self.path("sysroot/usr/share/doc/header-only/copyright"))
        done = self.run_tool()
        self.assertEqual(done.returncode, 3)
        self.assertIn("header-only: it has no licence text", done.stderr)
        self.write("sysroot/usr/share/doc/header-only/copyright", "back\n")
        self.write("sysroot/owners", "header-only /usr/include/header_only.h\n")
        done = self.run_tool()
        self.assertEqual(done.returncode, 3)
        self.assertIn("libarchived.a: no package has this file", done.stderr)
        self.assertEqual(self.read(self.wheel), before)


if __name__ == "__main__":
    unittest.main()
