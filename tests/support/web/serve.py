"""Serve the page over the demo world, to look at it in a browser.

``python -m tests.support.web.serve`` makes the demo world of `tests.support.web.demo_world` as of
now in a temporary directory, starts Airflow's api-server with the page on 127.0.0.1 (port 8099, or
``--port N``), and prints an address for each role: opening ``/as/op`` signs in as that role and
leads to the page, ``/as/op?next=/mqdlq/search`` to another path. It ends with Ctrl+C, and loads
templates and style when it starts.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs

import typer

from tests.support.web.airflow_app import ROLES, AirflowApp, airflow_app
from tests.support.web.demo_world import make_demo_world

PORT = 8099


def main(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.")] = PORT,
    scale: Annotated[int, typer.Option(help="Further handlers that only have a file.")] = 0,
) -> None:
    """Serve the page. Example: python -m tests.support.web.serve --port 8100."""
    directory = Path(tempfile.mkdtemp(prefix="mqdlq-page-"))
    os.environ.setdefault("AIRFLOW_HOME", str(directory / "home"))
    try:
        world = make_demo_world(directory, datetime.now(UTC))  # noqa: TID251 (an entry point)
        for number in range(scale):
            file = directory / "handlers" / f"more{number:04}.yaml"
            file.write_text("connection: mq\nrules: never.rules\n", encoding="utf-8")
        with airflow_app(directory / "airflow") as airflow:
            for role in ROLES:
                typer.echo(f"http://127.0.0.1:{port}/as/{role}")
            import uvicorn  # noqa: PLC0415 (comes with Airflow, which reads settings first)

            uvicorn.run(SignIn(airflow), port=port, log_level="warning")
        world.ledger.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class SignIn:
    """Airflow's app with the paths ``/as/ROLE``, which sign a browser in."""

    def __init__(self, airflow: AirflowApp) -> None:
        self._airflow = airflow

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Sign in or answer as Airflow does."""
        role = scope.get("path", "").removeprefix("/as/")
        if scope["type"] != "http" or role not in ROLES:
            await self._airflow.app(scope, receive, send)
            return
        asked = parse_qs(scope["query_string"].decode())
        leads_to = asked.get("next", ["/mqdlq/"])[0]
        cookie = f"_token={self._airflow.token(role)}; Path=/; HttpOnly; SameSite=Lax"
        headers = [(b"location", leads_to.encode()), (b"set-cookie", cookie.encode())]
        await send({"type": "http.response.start", "status": 302, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    typer.run(main)
