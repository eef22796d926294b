"""Take a picture of a page with Chromium, to look at it.

``python -m tests.support.web.picture PATH FILE`` opens a path below ``/mqdlq`` of the demo world,
such as ``/dags/mq_dlq_demo/causes``, signed in as ``--role`` (admin), in a window of ``--width``
pixels (1280), light or ``--dark``, and writes the whole page, or with ``--top`` its first screen
of 900 pixels, as PNG or WebP, by the name of FILE.
PATH and FILE may be followed by more pairs. It uses the server on ``--port`` (8099) if one runs
there, and otherwise starts `tests.support.web.serve` for as long as it needs it (20 seconds).
``--axe`` also prints what axe-core finds on each page.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import httpx
import typer

from tests.e2e.running.browser import Page, browser
from tests.support.web import axe
from tests.support.web.serve import PORT

START_S = 180


def main(
    pairs: Annotated[list[str], typer.Argument(help="PATH FILE, and more of them.")],
    *,
    dark: Annotated[bool, typer.Option("--dark", help="In dark colours.")] = False,
    width: Annotated[int, typer.Option(help="Width of the window in pixels.")] = 1280,
    top: Annotated[bool, typer.Option("--top", help="Only the first 900 pixels.")] = False,
    role: Annotated[str, typer.Option(help="viewer, user, op or admin.")] = "admin",
    port: Annotated[int, typer.Option(help="Port of the server.")] = PORT,
    check: Annotated[bool, typer.Option("--axe", help="Print what axe-core finds.")] = False,
) -> None:
    """Take pictures. Example: python -m tests.support.web.picture / overview.png --dark."""
    with (
        server(port) as url,
        tempfile.TemporaryDirectory() as directory,
        browser(Path(directory)) as page,
    ):
        page.emulate(width=width, dark=dark)
        page.ask("Emulation.setScrollbarsHidden", hidden=True)
        for path, file in zip(pairs[::2], pairs[1::2], strict=True):
            visit(page, url, path, role)
            page.picture(Path(file), whole=not top)
            for found in axe.findings(page) if check else ():
                typer.echo(f"{path}: {found}")


def visit(page: Page, url: str, path: str, role: str) -> None:
    """Open a path below /mqdlq as a role, and wait until the browser has loaded it."""
    target = httpx.QueryParams({"next": f"/mqdlq{path}"})
    page.open(f"{url}/as/{role}?{target}")
    page.wait_until("document.readyState === 'complete' && location.pathname.startsWith('/mqdlq')")


@contextmanager
def server(port: int) -> Iterator[str]:
    """Give the address of a server on a port, which is started if none runs there."""
    url = f"http://127.0.0.1:{port}"
    if _answers(url):
        yield url
        return
    command = [sys.executable, "-m", "tests.support.web.serve", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        try:
            deadline = time.monotonic() + START_S
            while not _answers(url):
                assert running.poll() is None, "the server ended"
                assert time.monotonic() < deadline, "the server did not start"
                time.sleep(0.5)
            yield url
        finally:
            running.terminate()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/as/admin").status_code == httpx.codes.FOUND
    except httpx.TransportError:
        return False


if __name__ == "__main__":
    typer.run(main)
