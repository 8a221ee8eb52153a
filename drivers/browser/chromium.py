"""A Chromium without a window, driven over its debugging pipe (the DevTools protocol): no driver
and no package is needed."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
LIMIT_S = 60


class Lost(Exception):
    """The browser does not answer, or refuses a command."""


def find() -> str | None:
    """The browser of `CHROMIUM`, or one on the path."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser that runs. Names given as `hosts` lead to this machine in it."""

    def __init__(self, program: str, hosts: list[str]):
        self._folder = tempfile.mkdtemp(prefix="mongotx-browser-")
        rules = ",".join(f"MAP {host} 127.0.0.1" for host in hosts)
        command = [
            program, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self._folder}", "--no-first-run",
            "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--force-color-profile=srgb",
            f"--host-resolver-rules={rules}", "--window-size=1400,1500", "about:blank",
        ]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()

        def as_browser_wants():
            os.dup2(to_read, 103)
            os.dup2(to_write, 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        self._process = subprocess.Popen(
            command, preexec_fn=as_browser_wants, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        self._bytes = b""
        self._number = 0
        self.events: list[dict] = []

    def call(self, method: str, session: str | None = None, **params) -> dict:
        """Runs a command of the browser."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + LIMIT_S
        while True:
            answer = self._next(deadline, method)
            if answer.get("id") != self._number:
                self.events.append(answer)
            elif "error" in answer:
                raise Lost(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def _next(self, deadline: float, what: str) -> dict:
        while b"\0" not in self._bytes:
            if not select.select([self._from], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise Lost(f"{what}: no answer within {LIMIT_S} s")
            some = os.read(self._from, 1 << 16)
            if not some:
                raise Lost(f"{what}: the browser has ended")
            self._bytes += some
        message, self._bytes = self._bytes.split(b"\0", 1)
        return json.loads(message)

    def open(self, url: str) -> "Tab":
        """A new tab."""
        return Tab(self, url)

    def end(self) -> None:
        """Ends it, with everything that it has left."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class Tab:
    """One page."""

    def __init__(self, browser: Browser, url: str):
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)

    def call(self, method: str, **params) -> dict:
        """Runs a command of the page."""
        return self._browser.call(method, self.session, **params)

    def eval(self, script: str):
        """The value of an expression, a promise's included."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise Lost(f"{script}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def wait(self, script: str, limit_s: float = 30):
        """The value of an expression, as soon as it is true."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            try:
                # What it is about may not be there yet.
                value = self.eval(script)
            except Lost:
                value = None
            if value:
                return value
            time.sleep(0.1)
        raise Lost(f"not within {limit_s} s: {script}\nThe page says: {self.eval('document.body.innerText')}")

    def events(self, method: str) -> list[dict]:
        """Its events so far."""
        self.eval("1")
        named = [event for event in self._browser.events if event.get("method") == method]
        return [event["params"] for event in named if event.get("sessionId") == self.session]

    def picture(self, file: Path, scheme: str) -> None:
        """A picture of the whole page, in a colour scheme."""
        import base64

        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        file.write_bytes(base64.b64decode(data))
