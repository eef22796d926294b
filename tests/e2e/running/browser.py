"""A headless Chromium, driven over its DevTools protocol: pages are opened, read and pictured."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

INSTALL = "apt-get install chromium"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
LIMIT_S = 90


class Page:
    """The one page of a browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return what the browser answers."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv(timeout=LIMIT_S))
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                found: dict[str, Any] = answer["result"]
                return found

    def log_in(self, address: str, token: str) -> None:
        self.ask("Network.setCookie", name="_token", value=token, url=address)

    def open(self, url: str, *texts: str) -> None:
        """Open a page and wait until it shows all the texts."""
        self.ask("Page.navigate", url=url)
        self.wait_for(*texts)

    def emulate(self, *, width: int = 1280, dark: bool = False) -> None:
        """Show pages in a window of this width, in light or dark colours."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def wait_until(self, condition: str, limit_s: float = LIMIT_S) -> None:
        """Wait until an expression is true in the page."""
        deadline = time.monotonic() + limit_s
        while not self.run(f"!!({condition})"):
            assert time.monotonic() < deadline, f"not {condition}:\n{self.text()[:3000]}"
            time.sleep(0.1)

    def wait_for(self, *texts: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while missing := [text for text in texts if text not in self.text()]:
            if time.monotonic() > deadline:
                pytest.fail(f"the page does not show {missing}:\n{self.text()[:3000]}")
            time.sleep(0.5)

    def text(self) -> str:
        return str(self.run("document.body ? document.body.innerText : ''"))

    def run(self, script: str) -> Any:
        """Return the value of an expression, and of the promise that it may be."""
        asked = {"expression": script, "awaitPromise": True, "returnByValue": True}
        return self.ask("Runtime.evaluate", **asked)["result"].get("value")

    def click(self, text: str) -> None:
        """Click the button that says this, or is called this."""
        script = (
            "(() => { const b = [...document.querySelectorAll('button, a')].find(e =>"
            f" e.innerText.trim() === {text!r} || e.getAttribute('aria-label') === {text!r});"
            " if (b) b.click(); return !!b; })()"
        )
        deadline = time.monotonic() + LIMIT_S
        while not self.run(script):
            assert time.monotonic() < deadline, f"no button says {text}"
            time.sleep(0.5)

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Write what is shown, or the whole page, as WebP or PNG by the name of the file."""
        time.sleep(0.5 if whole else 2)  # what moves comes to rest
        kind: dict[str, Any] = {"format": "png"}
        if file.suffix == ".webp":
            kind = {"format": "webp", "quality": 75}
        data = self.ask("Page.captureScreenshot", captureBeyondViewport=whole, **kind)["data"]
        file.write_bytes(base64.b64decode(data))


@contextmanager
def browser(directory: Path) -> Iterator[Page]:
    """Run a browser with one page; skip the test without a browser."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"Chromium is not installed: {INSTALL}")
    arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1280,900",
        "--remote-debugging-port=0",
        f"--user-data-dir={directory}",
        "about:blank",
    ]
    with subprocess.Popen(
        [program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        try:
            with connect(_page_of(directory), max_size=None) as socket:
                yield Page(socket)
        finally:
            running.terminate()


def _page_of(directory: Path) -> str:
    """Return the address at which the browser's page takes commands."""
    file, deadline = directory / "DevToolsActivePort", time.monotonic() + LIMIT_S
    while not (file.exists() and file.read_text().strip()):
        assert time.monotonic() < deadline, "Chromium did not come up"
        time.sleep(0.2)
    port = file.read_text().splitlines()[0]
    while True:
        pages = httpx.get(f"http://127.0.0.1:{port}/json").json()
        found = [page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page"]
        if found:
            return str(found[0])
        time.sleep(0.2)
