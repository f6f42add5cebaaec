"""A virtual environment with the peers' packages."""
import os
import shutil
import subprocess
import sys

from harness import ROOT

HERE = os.path.dirname(os.path.abspath(__file__))
LISTS = [os.path.join(HERE, name) for name in ("requirements.txt", "requirements-ffcv.txt", "requirements-more.txt")]


def make(folder):
    """The interpreter of an environment in `folder`. Installs from PyPI unless the requirements are unchanged."""
    stamp = os.path.join(folder, "stamp")
    wanted = sys.version + "".join(open(path, encoding="utf-8").read() for path in LISTS)
    if os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == wanted:
        return os.path.join(folder, "bin", "python")
    print(f"bench/compare: installing the peers in {folder}: some minutes, 6 GB", file=sys.stderr, flush=True)
    subprocess.run([os.path.join(ROOT, "tools", "install_dependencies"), "compare"], check=True, stdout=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    base = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable  # its headers are installed
    subprocess.run([base, "-m", "venv", folder], check=True)
    python = os.path.join(folder, "bin", "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    if subprocess.run([*pip, "-r", LISTS[0]], stdout=sys.stderr, check=False).returncode != 0:
        sys.exit("bench/compare: the peers cannot be installed from PyPI; --python names an interpreter that has them")
    # FFCV is old and is compiled here. If that fails, the results say so, and the other peers are measured.
    with open(os.path.join(folder, "ffcv.log"), "wb") as log:
        subprocess.run([*pip, "-r", LISTS[1]], stdout=log, stderr=log, check=False)
    for line in open(LISTS[2], encoding="utf-8"):
        if not line.startswith("#"):
            subprocess.run([*pip, line.strip()], stdout=sys.stderr, check=False)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(wanted)
    return python


def ffcv_problem(python):
    """The line of pip's output that says why FFCV could not be built, or nothing."""
    try:
        with open(os.path.join(os.path.dirname(os.path.dirname(python)), "ffcv.log"), encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file]
    except OSError:
        return ""
    errors = [line for line in lines if "Error: " in line or "error: " in line]
    return errors[0] if errors else ""
