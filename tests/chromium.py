"""A Chromium without a window, driven over its DevTools protocol on a pair of pipes: no server, no further library.

Read `Tab` first. Messages are JSON ended by a zero byte; answers carry the id of their call, all else are events.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]
PATIENCE = 300.0
"""Seconds after which a browser that says nothing counts as hung; says nothing about how fast one is."""


class Browser:
    """One process; as a context it ends with its block."""

    def __init__(self, profile):
        to_browser, self._send = os.pipe()
        self._receive, from_browser = os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        command = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        options = ["--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", command, "browser", PROGRAM, *QUIET, *options],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._waiting, self._number = b"", 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._send)  # the end of its input ends the browser
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._receive)

    def call(self, method, session=None, **parameters):
        """Return the answer to one command; events that come before it are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        text = json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0"
        while text:
            text = text[os.write(self._send, text) :]
        number = self._number
        while True:
            answer = self.message()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def message(self):
        """Return the next answer or event."""
        while b"\0" not in self._waiting:
            ready, _, _ = select.select([self._receive], [], [], PATIENCE)
            assert ready, "the browser says nothing"
            part = os.read(self._receive, 1 << 20)
            assert part, "the browser has ended"
            self._waiting += part
        message, self._waiting = self._waiting.split(b"\0", 1)
        return json.loads(message)

    def tab(self, url, width=1280, height=900, *, dark=False, script=True):
        """Return a page that is open and loaded."""
        return Tab(self, url, width, height, dark, script)


class Tab:
    """A page: `run` evaluates JavaScript in it; `move`, `click`, `press` are what a reader does."""

    def __init__(self, browser, url, width, height, dark, script):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call("Page.navigate", url=url)
        while not self.events("Page.loadEventFired"):
            browser.events.append(browser.message())

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def events(self, *methods):
        """Return the parameters of all events of these names."""
        mine = (event for event in self.browser.events if event.get("sessionId") == self.session)
        return [event["params"] for event in mine if event["method"] in methods]

    def resize(self, width, height):
        """Give the page another size; a phone's, where it is narrow."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def run(self, code):
        """Return the value of an expression, awaited."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True, userGesture=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def place(self, selector, across=0.5, down=0.5):
        """Return where an element is in the window, scrolled into it."""
        return self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            f" return [b.left + b.width * {across}, b.top + b.height * {down}]; }})()"
        )

    def move(self, x, y):
        """Move the mouse."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector, across=0.5, down=0.5):
        """Click on an element."""
        x, y = self.place(selector, across, down)
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def write(self, selector, text):
        """Write into a field."""
        self.click(selector)
        self.call("Input.insertText", text=text)

    def complaints(self):
        """Return what stands on the console, and requests for anything but the page itself and data inside of it."""
        said = self.events("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        asked = [e["request"]["url"] for e in self.events("Network.requestWillBeSent")]
        return said + [url for url in asked[1:] if not url.startswith(("data:", "blob:"))]

    def picture(self, path, *, whole=True):
        """Write a screenshot, of all of the page or of what the window shows."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        """Close the page."""
        self.browser.call("Target.closeTarget", targetId=self.target)
