"""Shared by the tests of this folder: a browser at the server, what a person does, and waiting for the page."""

import json
import re
import shutil
import tempfile
import time
import unittest

try:
    from selenium.common.exceptions import JavascriptException, NoSuchElementException, StaleElementReferenceException
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
    from selenium.webdriver.common.keys import Keys
except ImportError:
    Keys = None  # why_not() says so

from programs import BUILD, SECONDS, Server, axe_source, shardctl, start_browser, why_not

PAUSE = 0.02  # seconds between two looks at what is waited for
SEEN = "[...document.querySelectorAll(arguments[0])]"

__all__ = ["BUILD", "Keys", "SECONDS", "Server", "ViewTest", "axe_source", "shardctl", "start_browser", "why_not"]


class ViewTest(unittest.TestCase):
    """A server on the datasets of make(), and a browser that it has let in. Each test begins with a fresh page
    and without settings, and fails when the browser reports an error that it did not announce with expect()."""

    maxDiff = 4000

    @classmethod
    def make(cls):
        """Makes datasets in cls.folder and returns their paths."""
        raise NotImplementedError

    @classmethod
    def setUpClass(cls):
        reason = why_not()
        if reason:
            raise unittest.SkipTest(reason)
        cls.folder = tempfile.mkdtemp(prefix="shardkit-view-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.server = Server(*cls.make())
        cls.addClassCleanup(cls.server.stop)
        cls.driver = start_browser()
        cls.addClassCleanup(cls.driver.quit)
        cls.driver.set_script_timeout(SECONDS)
        # Nothing moves by itself while a test looks.
        cls.features = {"prefers-reduced-motion": "reduce"}
        cls.driver.get(cls.server.url)

    def setUp(self):
        self.expected = []
        self.driver.get("about:blank")
        storage = {"origin": self.server.origin, "storageTypes": "local_storage"}
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", storage)
        self.emulate("light")
        self.resize(1280, 900)

    def tearDown(self):
        log = self.driver.get_log("browser")
        problems = [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]
        unexpected = [text for text in problems if not any(re.search(pattern, text) for pattern in self.expected)]
        self.assertEqual(unexpected, [], "errors in the browser's console")

    # ---- the browser ----

    def expect(self, pattern):
        """Announces an error in the console, such as that of a reply with status 422."""
        self.expected.append(pattern)

    def resize(self, width, height):
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def emulate(self, scheme):
        """Light or dark, as the system says."""
        features = {**self.features, "prefers-color-scheme": scheme}
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": name, "value": value} for name, value in features.items()]},
        )

    def open(self, fragment, view=None):
        """A new page at a fragment, when its view is there."""
        self.driver.get("about:blank")
        self.driver.get(self.server.base + fragment)
        self.arrived(view or (re.findall(r"^#/\d+/(\w+)", fragment) or ["overview"])[0])

    def go(self, fragment):
        """Another view on the same page, as a link does it."""
        self.js(
            "document.querySelectorAll('main > *').forEach((child) => { child.dataset.left = ''; });"
            "location.hash = arguments[0]",
            fragment,
        )
        self.until(
            "document.querySelector('main > [data-left]') === null && !document.querySelector('main[aria-busy]')"
        )

    def arrived(self, view):
        self.until(
            "document.body.dataset.view === arguments[0] && !document.getElementById('main').hasAttribute('aria-busy')",
            view,
        )

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def promise(self, script, *arguments):
        """What the promise of an expression becomes."""
        value = self.driver.execute_async_script(
            "const [done, ...rest] = [arguments[arguments.length - 1], ...arguments]; Promise.resolve().then(() => "
            f"(async (...parameters) => ({script}))(...rest))"
            ".then((value) => done([value]), (error) => done(String(error)))",
            *arguments,
        )
        self.assertIsInstance(value, list, value)
        return value[0]

    # ---- waiting ----

    def wait(self, condition, what):
        """What `condition` returns, as soon as that is something."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                value = condition()
            except (StaleElementReferenceException, NoSuchElementException):
                value = None
            except JavascriptException:
                # What the script looks at may be on its way.
                if time.monotonic() > deadline:
                    raise
                value = None
            if value:
                return value
            if time.monotonic() > deadline:
                page = self.js("return location.hash + ' ' + document.getElementById('main')?.innerText")
                self.fail(f"waited in vain for {what}; the page shows {page[:1500]}")
            time.sleep(PAUSE)

    def until(self, expression, *arguments):
        """The value of an expression of JavaScript, as soon as it is true."""
        return self.wait(lambda: self.js(f"return {expression}", *arguments), f"{expression} {arguments or ''}")

    def until_equal(self, look, expected):
        seen = []

        def looks():
            seen[:] = [look()]
            return seen[0] == expected

        try:
            self.wait(looks, repr(expected))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{seen} is not [{expected!r}]") from None

    def until_hash(self, expected):
        self.until_equal(lambda: self.js("return location.hash"), expected)

    # ---- what a person sees and does ----

    def find(self, selector):
        """The first element that is seen."""
        return self.until(SEEN + ".find((each) => each.checkVisibility({ visibilityProperty: true }))", selector)

    def all(self, selector):
        return self.js("return [...document.querySelectorAll(arguments[0])]", selector)

    def text(self, selector):
        return self.js("return arguments[0].innerText", self.find(selector))

    def texts(self, selector):
        return self.js(f"return {SEEN}.map((each) => each.innerText)", selector)

    def until_text(self, selector, pattern):
        """The text of an element, as soon as it matches."""
        return self.wait(
            lambda: re.search(pattern, self.text(selector)) and self.text(selector), f"{pattern!r} in {selector}"
        )

    def click(self, selector):
        self.find(selector).click()

    def button(self, name):
        """A button, a link or a summary by its text or label."""
        script = """[...document.querySelectorAll('button, a, summary, label.check')].find((each) =>
            each.checkVisibility({ visibilityProperty: true }) &&
            [each.innerText.trim(), each.getAttribute('aria-label')].includes(arguments[0]))"""
        return self.until(script, name)

    def press(self, *keys):
        for key in keys:
            ActionChains(self.driver, duration=0).send_keys(key).perform()

    def fill(self, selector, text, enter=True):
        """Types into an empty field."""
        field = self.find(selector)
        field.clear()
        field.send_keys(text + (Keys.ENTER if enter else ""))

    def choose(self, label, text):
        """Chooses in a select with this label."""
        script = """
            const field = [...document.querySelectorAll('label.field')].find((each) =>
              each.firstChild.textContent === arguments[0]);
            const select = field.querySelector('select');
            const option = [...select.options].find((each) => each.textContent === arguments[1]);
            if (!option || select.offsetParent === null) return false;
            select.focus(); option.selected = true; select.dispatchEvent(new Event('change', { bubbles: true }));
            return true;"""
        self.wait(lambda: self.js(script, label, text), f"choice {text!r} of {label!r}")

    def wheel(self, selector, delta, x=0, y=0):
        """Turns the wheel, x and y pixels from the middle of an element."""
        origin = ScrollOrigin.from_element(self.find(selector), x, y)
        ActionChains(self.driver, duration=0).scroll_from_origin(origin, 0, delta).perform()

    def point(self, x, y):
        """Moves the pointer to a place of the window."""
        chain = ActionChains(self.driver, duration=0)
        chain.w3c_actions.pointer_action.move_to_location(round(x), round(y))
        chain.perform()

    def focused(self, attribute="data-ordinal"):
        return self.js("return document.activeElement?.getAttribute(arguments[0])", attribute)

    def ordinals(self, selector=".cell"):
        """Those of the cells, in their order."""
        return self.js(
            "return [...document.querySelectorAll(arguments[0])].map((cell) => Number(cell.dataset.ordinal))", selector
        )

    def requests(self, part):
        """The paths below the page that were asked for, and contain a part."""
        names = self.js("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        return [name[len(self.server.base) - 1 :] for name in names if part in name]

    def get_json(self, path):
        """The reply of the server."""
        return json.loads(self.promise("await (await fetch(parameters[0])).text()", path))
