"""A real Chromium, driven through its DevTools protocol over a pipe: no port and no driver.

The protocol is JSON, each message ended by a zero byte; the browser reads it from file 3 and
answers on file 4 (https://chromedevtools.github.io/devtools-protocol/).
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium", "google-chrome", "chromium-browser")
WITHIN_S = 600.0
ABOVE = 10  # files 3 and 4 are the browser's


class Browser:
    """One page in one browser; ``requests`` are the addresses that it asked for, ``log`` what it
    complained of."""  # noqa: D205, D209

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out, self._in = to_browser, from_browser
        self._rest, self._number, self._session = b"", 0, ""
        self.requests: list[str] = []
        self.log: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target,
                                  flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> Any:
        """Call one method and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def open(self, page: Path) -> None:
        """Go to a page and wait until all of it is there."""
        self.requests.clear()
        self.log.clear()
        self.send("Page.navigate", url=page.as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def screen(self, width: int, height: int = 844, *, scheme: str = "light") -> None:
        """Set the size of the window in CSS pixels, and light or dark."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.send("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def ask(self, expression: str) -> Any:
        """Evaluate JavaScript in the page; the page's own policy does not hold for it."""
        said = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def click(self, selector: str) -> None:
        """Click into an element as a mouse does."""
        x, y = self.ask(f"""(() => {{ const one = document.querySelector({json.dumps(selector)});
            one.scrollIntoView({{block: 'center'}}); const box = one.getBoundingClientRect();
            return [box.left + 8, box.top + 8]; }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + WITHIN_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser says nothing"
            got = os.read(self._in, 1 << 16)
            assert got, "the browser ended"
            self._rest += got
        raw, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        elif message.get("method") == "Log.entryAdded":
            self.log.append(message["params"]["entry"]["text"])
        return message


def program() -> str | None:
    """Return the browser of this machine."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def started(name: str, profile: Path) -> Iterator[Browser]:
    """Start a browser with an empty profile; it is gone at the end."""
    pipes = [os.pipe(), os.pipe()]
    theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, ABOVE) for fd in (pipes[0][0], pipes[1][1])]

    def hand_over() -> None:
        os.dup2(theirs[0], 3)
        os.dup2(theirs[1], 4)

    child = subprocess.Popen(
        [name, "--headless", "--remote-debugging-pipe", f"--user-data-dir={profile}",
         *(["--no-sandbox"] if os.geteuid() == 0 else []), "--disable-gpu",
         "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"],
        pass_fds=(3, 4), preexec_fn=hand_over, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    for fd in (*theirs, pipes[0][0], pipes[1][1]):
        os.close(fd)
    try:
        yield Browser(pipes[0][1], pipes[1][0])
    finally:
        child.kill()
        child.wait()
        for fd in (pipes[0][1], pipes[1][0]):
            with suppress(OSError):
                os.close(fd)
