#!/usr/bin/python3
"""Runs the tests of a build and counts them one by one; tests/run calls it.

    tests/report.py BUILD_DIR [--filter PATTERN] [--compiled-only] [--interop PYTHON] [--python PYTHON] [--patience FACTOR]
                            [--clusters PYTHON]
    tests/report.py BUILD_DIR --frameworks PYTHON [--output FILE] [--filter PATTERN]
    tests/report.py BUILD_DIR --cross NATIVE_BUILD_DIR [--filter PATTERN] [--patience FACTOR]

The compiled tests are those that Meson knows (`test(...)`). With protocol 'gtest' each case counts, otherwise the
program. The other tests are tests/layering.py, formatting.py and tools/mutate --check, and the scripts *_test.py of the folders SCRIPTS (unittest; each method
counts). These find the command in the variable SHARDCTL and the build folder in SHARDKIT_BUILD_DIR. They run in the system's Python, or in the Python of --interop, which has other programs'
packages (tests/interop/make_environment). With --interop, a test that skips because a package is missing is a
failure. The tests of the Python package (python/tests, pytest; each case counts), mypy and ruff run in the Python of --python, with the
package of the build folder; without it they are skipped. With --clusters the tests of Ray run, too, in that Python. With --frameworks only tests/frameworks runs (pytest), in that Python, and
--output writes its table of results. With --cross, BUILD_DIR is a build of tools/cross: the compiled tests that were built and the scripts CROSS_SCRIPTS
run under qemu, and some compare it with this machine's build. A program that crashes, hangs or prints nothing counts as a failure.
"""
import argparse
import concurrent.futures
import fnmatch
import glob
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON_TIMEOUT = 900  # seconds, per script
WITHOUT_PACKAGE = "needs the package"  # the beginning of a reason to skip, in tests/interop
SCRIPTS = ["cli", "golden", "kill", "loader", "gpu", "interop", "remote", "examples", "bench", "docs", "view"]  # of tests/
LONG = ["loader", "fault", "dataset", "tests/remote/faults_test.py", "tests/cli/bench_test.py", "tests/cli/device_test.py",
        "tests/kill/kill_test.py", "tests/kill/tasks_test.py", "tests/interop/upload_test.py", "tests/interop/mds_read_test.py",
        *(f"python/tests/test_{name}.py" for name in ("examples", "torch", "arguments", "made"))]
LINTED = ["python", "examples", "tests/clusters", "tests/frameworks"]  # by ruff
# Without what counts system calls, sends signals or limits memory, which are qemu's own there.
CROSS_SCRIPTS = ["cli/platforms_test.py"]
TAIL = 20000  # characters of output shown for a failure


class Result:
    """The results of one program."""

    def __init__(self, name):
        self.name = name
        self.passed = 0
        self.skipped = 0
        self.reasons = []  # why tests were skipped, each once
        self.failures = []  # (test, output)
        self.seconds = 0.0

    def fail(self, test, output):
        self.failures.append((test, output))


class Settings:
    def __init__(self, build_dir, pattern, patience, interop, package_python, native_build_dir=None):
        self.patience = patience  # a factor on each test's time limit
        self.package_python = package_python
        self.interop = interop is not None
        self.python = interop or "/usr/bin/python3"
        self.build_dir = os.path.abspath(build_dir)
        self.pattern = pattern
        self.environment = dict(os.environ)
        # Fills fresh memory, so that it does not contain zeros by chance.
        self.environment.setdefault("MALLOC_PERTURB_", "165")
        self.environment.setdefault("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:malloc_context_size=8:quarantine_size_mb=32:"
                                    "allocator_release_to_os_interval_ms=-1")
        self.environment.setdefault("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
        self.environment.setdefault("TSAN_OPTIONS", "halt_on_error=1:second_deadlock_stack=1")
        self.environment["SHARDKIT_BUILD_DIR"] = self.build_dir
        self.environment["SHARDCTL"] = os.path.join(self.build_dir, "tools", "shardctl")
        self.environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self.cross = native_build_dir is not None
        if native_build_dir is not None:
            self.environment["SHARDCTL"] = os.path.join(self.build_dir, "shardctl")
            self.environment["SHARDKIT_NATIVE_BUILD_DIR"] = os.path.abspath(native_build_dir)
        if interop is not None:
            self.environment["SHARDKIT_INTEROP_PYTHON"] = self.python

    def program_matches(self, name):
        return self.pattern is None or fnmatch.fnmatchcase(name, self.pattern)

    def case_matches(self, name):
        """`name` is Suite.Test or module.Class.test. The pattern may match from any position."""
        return self.pattern is None or fnmatch.fnmatchcase(name, f"*{self.pattern}*")


def run(command, settings, timeout, extra=None, folder=None):
    """Exit status (None: the program hung; negative: a signal) and output of a program."""
    environment = {**settings.environment, **(extra or {})}
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(command, cwd=folder or ROOT, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            return 127, str(error)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            # Also ends its children: the program has its own session.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
        output.seek(0)
        return status, output.read().decode(errors="replace")


def ending(status, timeout):
    if status is None:
        return f"ran past {timeout:g} s"
    return f"ended by signal {-status}" if status < 0 else f"exit status {status}"


def run_gtest(test, settings):
    name = test["name"]
    result = Result(name)
    environment = dict(test["env"])
    if settings.pattern is not None and not settings.program_matches(name):
        environment["GTEST_FILTER"] = f"*{settings.pattern}*"
    timeout = (test["timeout"] or 1e6) * settings.patience
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.json")
        status, output = run([*test["cmd"], f"--gtest_output=json:{path}"], settings, timeout, environment,
                             test["workdir"])
        try:
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        except (OSError, ValueError):
            report = None
    if report is None:
        # The program crashed or hung: count the finished cases, and name the running one.
        result.passed = len(re.findall(r"^\[       OK \]", output, re.MULTILINE))
        result.skipped = len(re.findall(r"^\[  SKIPPED \] \S+ \(", output, re.MULTILINE))
        started = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
        for case in re.findall(r"^\[  FAILED  \] (\S+?),? .*\(\d+ ms\)", output, re.MULTILINE):
            result.fail(f"{name}: {case}", "")
        result.fail(f"{name}: {started[-1] if started else 'start'}", f"{ending(status, timeout)}\n{output}")
        return result
    for suite in report["testsuites"]:
        for case in suite["testsuite"]:
            if case["result"] == "SKIPPED" or case["status"] == "NOTRUN":
                result.skipped += 1
            elif case.get("failures"):
                text = "\n".join(failure["failure"] for failure in case["failures"])
                result.fail(f"{name}: {suite['name']}.{case['name']}", text)
            else:
                result.passed += 1
    if status != 0 and not result.failures:
        result.fail(name, f"{ending(status, timeout)} though no test failed\n{output}")
    return result


def run_program(test, settings):
    result = Result(test["name"])
    timeout = (test["timeout"] or 1e6) * settings.patience
    status, output = run(test["cmd"], settings, timeout, test["env"], test["workdir"])
    if status == 0:
        result.passed = 1
    elif status == 77 and test["protocol"] == "exitcode":
        result.skipped = 1
    else:
        result.fail(test["name"], f"{ending(status, timeout)}\n{output}")
    return result


def run_unittest(path, settings):
    """The test methods of one file, in a separate interpreter."""
    name = os.path.relpath(path, ROOT)
    result = Result(name)
    pattern = None if settings.program_matches(name) else settings.pattern
    status, output = run([settings.python, os.path.abspath(__file__), "--unittest", path, pattern or ""], settings,
                         PYTHON_TIMEOUT)
    head, _, last = output.rstrip("\n").rpartition("\n")
    try:
        counts = json.loads(last)
        result.passed, result.skipped, result.reasons = counts["passed"], counts["skipped"], counts["reasons"]
        result.failures = [(f"{name}: {test}", text) for test, text in counts["failures"]]
    except (ValueError, KeyError, TypeError):
        result.fail(name, f"{ending(status, PYTHON_TIMEOUT)}\n{output}")
        return result
    if status != 0:
        result.fail(name, f"{ending(status, PYTHON_TIMEOUT)}\n{head}")
    if settings.interop:
        for reason in result.reasons:
            if reason.startswith(WITHOUT_PACKAGE):
                result.fail(name, f"skipped: {reason}")
    return result


def unittest_main(path, pattern):
    """Runs in the child process of run_unittest. The last line on stdout is the result as JSON."""
    folder, name = os.path.split(os.path.abspath(path))
    sys.path.insert(0, folder)

    def flatten(suite):
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                yield from flatten(test)
            else:
                yield test

    loaded = unittest.defaultTestLoader.loadTestsFromName(name[:-len(".py")])
    suite = unittest.TestSuite(test for test in flatten(loaded)
                               if not pattern or fnmatch.fnmatchcase(test.id(), f"*{pattern}*"))
    ids = {test.id() for test in flatten(suite)}  # collected before the run, because the run empties the suite
    outcome = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)
    failures = {}  # a method counts once, however many of its subtests fail
    for test, text in outcome.failures + outcome.errors:
        test = getattr(test, "test_case", test)
        failures[test.id()] = failures.get(test.id(), "") + text
    for test in outcome.unexpectedSuccesses:
        failures[test.id()] = "passed, though it is marked as an expected failure"
    skipped = {getattr(test, "test_case", test).id() for test, _ in outcome.skipped} - set(failures)
    # A class or module whose setup fails or skips reports itself instead of its tests. It is not among the ids.
    passed = max(outcome.testsRun - len(skipped & ids) - len(set(failures) & ids), 0)
    print()
    reasons = sorted({reason for _, reason in outcome.skipped})
    print(json.dumps({"passed": passed, "skipped": len(skipped), "reasons": reasons, "failures": list(failures.items())}),
          flush=True)
    return 0


def run_pytest(path, settings, options=(), python=None):
    """The cases of one file, or folder, of tests of the Python package; `python` is another than the package's."""
    name = os.path.relpath(path, ROOT)
    result = Result(name)
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        command = [python or settings.package_python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", path, *options]
        if settings.pattern is not None and not settings.program_matches(name):
            command += ["-k", settings.pattern.replace("*", "")]
        status, output = run(command, settings, PYTHON_TIMEOUT, {"PYTHONPATH": os.path.join(settings.build_dir, "python")})
        try:
            cases = list(xml.etree.ElementTree.parse(report).getroot().iter("testcase"))
        except (OSError, xml.etree.ElementTree.ParseError):
            result.fail(name, f"{ending(status, PYTHON_TIMEOUT)}\n{output}")
            return result
    for case in cases:
        bad = [child for child in case if child.tag in ("failure", "error")]
        skipped = [child.get("message") for child in case if child.tag == "skipped"]
        if bad:
            result.fail(f"{name}: {case.get('name')}", "\n".join(child.text or "" for child in bad))
        elif skipped:
            result.skipped += 1
            result.reasons = sorted({*result.reasons, *skipped})
        else:
            result.passed += 1
    # 5: no case was selected.
    if status not in (0, 5) and not result.failures:
        result.fail(name, f"{ending(status, PYTHON_TIMEOUT)}\n{output}")
    return result


def package_jobs(settings):
    """The tests and checks of the Python package."""
    if settings.package_python is None:
        result = Result("python")
        result.skipped = 1
        result.reasons = ["the Python package: its requirements are not installed (python/requirements.txt)"]
        yield result.name, lambda: result
        return
    for path in sorted(glob.glob(os.path.join(ROOT, "python", "tests", "test_*.py"))):
        yield os.path.relpath(path, ROOT), lambda path=path: run_pytest(path, settings)
    # The build folder also has the stub of the extension.
    for check in (["mypy", "--no-error-summary", os.path.join(settings.build_dir, "python", "shardkit")], ["ruff", "check", "--no-cache", *LINTED],
                  ["ruff", "format", "--no-cache", "--check", "--quiet", *LINTED]):
        name = " ".join(check[:2]) if check[0] == "ruff" else check[0]
        if settings.case_matches(name):
            yield name, lambda name=name, check=check: run_script(name, [settings.package_python, "-m", *check], settings)


def run_script(name, command, settings):
    """A script whose last line has the counts, or a script that counts as a single test."""
    result = Result(name)
    status, output = run(command, settings, PYTHON_TIMEOUT)
    lines = output.strip().splitlines()
    counts = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", lines[-1]) if lines else None
    if counts is None:
        if status == 0:
            result.passed = 1
        else:
            result.fail(name, f"{ending(status, PYTHON_TIMEOUT)}\n{output}")
        return result
    result.passed, failed, result.skipped = map(int, counts.groups())
    named = re.findall(r"^(?:FAIL|ERROR): (.*)$", output, re.MULTILINE)  # as unittest heads each traceback
    for i in range(failed):
        # The script's output names and shows all failures, so it is printed only once.
        result.fail(f"{name}: {named[i] if len(named) == failed else f'failure {i + 1}'}", output if i == 0 else "")
    if status != 0 and failed == 0 and (result.passed + result.skipped > 0 or settings.pattern is None):
        result.fail(name, f"{ending(status, PYTHON_TIMEOUT)}\n{output}")
    return result


def jobs(settings, compiled_only):
    """(name, function) of all programs to run."""
    with open(os.path.join(settings.build_dir, "meson-info", "intro-tests.json"), encoding="utf-8") as file:
        compiled = json.load(file)
    if settings.cross:
        compiled = [test for test in compiled if os.path.exists(test["cmd"][0])]
        for test in compiled:
            test["cmd"].insert(0, os.path.join(settings.build_dir, "run"))
    for test in compiled:
        if test["protocol"] == "gtest":
            yield test["name"], lambda test=test: run_gtest(test, settings)
        elif settings.case_matches(test["name"]):
            yield test["name"], lambda test=test: run_program(test, settings)
    if compiled_only:
        return
    if settings.cross:
        for name in CROSS_SCRIPTS:
            path = os.path.join(ROOT, "tests", name)
            yield os.path.relpath(path, ROOT), lambda path=path: run_unittest(path, settings)
        return
    for path in sorted(path for folder in SCRIPTS for path in glob.glob(os.path.join(ROOT, "tests", folder, "*_test.py"))):
        yield os.path.relpath(path, ROOT), lambda path=path: run_unittest(path, settings)
    yield from package_jobs(settings)
    scripts = [("tests/layering.py", []), ("tests/layering.py", ["--self-test"]), ("tests/formatting.py", []),
               ("tools/mutate", ["--check"])]
    scripts = [script for script in scripts if settings.case_matches(" ".join([script[0], *script[1]]))]
    for script, arguments in scripts:
        path = os.path.join(ROOT, script)
        if os.path.exists(path):
            name = " ".join([script, *arguments])
            command = ["/usr/bin/python3", path, *arguments]
            yield name, lambda name=name, command=command: run_script(name, command, settings)


def main():
    if sys.argv[1:2] == ["--unittest"]:
        return unittest_main(sys.argv[2], sys.argv[3])
    # In the background, or under nohup, these signals are ignored. The programs that are tested would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build_dir")
    parser.add_argument("--filter", dest="pattern")
    parser.add_argument("--compiled-only", action="store_true")
    parser.add_argument("--interop", metavar="PYTHON", help="an interpreter that has other programs' packages")
    parser.add_argument("--python", metavar="PYTHON", help="an interpreter that has the packages of python/requirements.txt")
    parser.add_argument("--clusters", metavar="PYTHON", help="an interpreter that has tests/clusters/requirements.txt")
    parser.add_argument("--frameworks", metavar="PYTHON", help="an interpreter that has tests/frameworks/requirements.txt")
    parser.add_argument("--cross", metavar="NATIVE_BUILD_DIR", help="BUILD_DIR is for another processor; this is for this machine's")
    parser.add_argument("--output", metavar="FILE", help="where to write the table of results of --frameworks")
    parser.add_argument("--patience", type=float, default=1, help="multiplies each test's time limit")
    arguments = parser.parse_args()
    settings = Settings(arguments.build_dir, arguments.pattern, arguments.patience, arguments.interop,
                        arguments.frameworks or arguments.python, arguments.cross)
    if arguments.frameworks is None:
        selected = list(jobs(settings, arguments.compiled_only))
        # Long programs of a single process, which would otherwise run alone at the end.
        selected.sort(key=lambda job: job[0] not in LONG)
        if arguments.clusters is not None:
            path = os.path.join(ROOT, "tests", "clusters", "test_ray.py")
            # First, as they wait more than they work.
            selected.insert(0, (os.path.relpath(path, ROOT), lambda: run_pytest(path, settings, python=arguments.clusters)))
    else:
        # The matrix, whose table it is, takes longest.
        table = [] if arguments.output is None else [f"--table={arguments.output}"]
        paths = sorted(glob.glob(os.path.join(ROOT, "tests", "frameworks", "test_*.py")), key=lambda path: not path.endswith("_matrix.py"))
        selected = [(os.path.relpath(path, ROOT), lambda path=path, options=table if path is paths[0] else (): run_pytest(path, settings, options))
                    for path in paths]

    def timed(job):
        start = time.monotonic()
        result = job()
        result.seconds = time.monotonic() - start
        return result

    passed = failed = skipped = 0
    # One more than there are processors, because some programs wait more than they work.
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)) + 1) as pool:
        pending = [pool.submit(timed, job) for _, job in selected]
        for future in concurrent.futures.as_completed(pending):
            result = future.result()
            passed += result.passed
            failed += len(result.failures)
            skipped += result.skipped
            if result.passed + len(result.failures) + result.skipped == 0:
                if settings.pattern is None:
                    failed += 1
                    result.fail(result.name, "ran no tests at all")
                else:
                    continue
            for test, output in result.failures:
                print(f"FAILED {test}")
                if output:
                    print("    " + output[-TAIL:].strip().replace("\n", "\n    "))
            print(f"{'FAILED' if result.failures else 'ok':6}  {result.name}: {result.passed} passed"
                  + (f", {len(result.failures)} failed" if result.failures else "")
                  + (f", {result.skipped} skipped" if result.skipped else "") + f" ({result.seconds:.1f} s)"
                  + "".join(f"\n        skipped: {reason}" for reason in result.reasons), flush=True)
    if passed + failed == 0:
        print("no test ran")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
