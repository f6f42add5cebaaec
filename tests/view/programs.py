"""The command, its server and the browser that the tests of this folder need.

SHARDCTL names the command. The browser is Chromium with its driver, moved by Selenium, as the distribution has them.
"""

import glob
import http.client
import os
import shutil
import signal
import subprocess
import unittest
import urllib.parse

try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
except ImportError:
    webdriver = None

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("SHARDKIT_BUILD_DIR", os.path.join(ROOT, "build"))
SHARDCTL = os.path.abspath(os.environ.get("SHARDCTL", os.path.join(BUILD, "tools", "shardctl")))
CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
SECONDS = 60  # nothing that is waited for takes longer, however busy the machine is


def shardctl(*arguments):
    """stdout of a command that must succeed."""
    done = subprocess.run(
        [SHARDCTL, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(
            f"shardctl {arguments} ended with {done.returncode}: {done.stderr.decode(errors='replace')}"
        )
    return done.stdout


def why_not():
    """Why there can be no browser, or None."""
    if webdriver is None:
        return "needs python3-selenium"
    if CHROMIUM is None or DRIVER is None:
        return "needs chromium and chromium-driver"
    return None


def axe_source():
    """The program that looks for obstacles to people with disabilities; python/requirements.txt names its package."""
    found = glob.glob(
        os.path.join(BUILD, "python-venv", "lib", "python3*", "site-packages", "axe_core_python", "axe.min.js")
    )
    if not found:
        return None
    with open(found[0], encoding="utf-8") as file:
        return file.read()


class Server:
    """A running `shardctl view`. `url` has the token, `base` is the page that it leads to."""

    def __init__(self, *paths):
        self.process = subprocess.Popen(
            [SHARDCTL, "view", "--no-open", *paths],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            self.process.wait()
            self.process.stdout.close()
            raise AssertionError("shardctl view does not start")
        parts = urllib.parse.urlsplit(self.url)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        connection = http.client.HTTPConnection(parts.netloc, timeout=SECONDS)
        connection.request("GET", "/?" + parts.query)
        self.base = self.origin + connection.getresponse().getheader("Location")
        connection.close()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


def start_browser():
    options = Options()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--force-device-scale-factor=1",
        "--autoplay-policy=no-user-gesture-required",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # The driver is on this machine, whatever proxy there is.
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost"
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_PERTURB_"}
    try:
        return webdriver.Chrome(service=Service(DRIVER, env=environment), options=options)
    except WebDriverException as error:
        raise unittest.SkipTest(f"Chromium does not start here: {error.msg}") from error
