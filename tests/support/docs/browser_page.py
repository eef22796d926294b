"""The files of the site's page that tries a rules table in the browser: Python, and our commands.

Python for the browser is a package of npm's, which `make docs` fetches; without it there are none.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from mqdlq.headers import DeadLetterHeader, MessageDescriptor
from tests.support.paths import ROOT
from tests.support.wire.pasted_messages import print_amqsbcg

PYODIDE: Final = ROOT / ".tools" / "pyodide" / "node_modules" / "pyodide"
_OF_PYODIDE: Final = (
    *("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip"),
    "pyodide-lock.json",
)
_COMMANDS: Final = ("mqdlq.cli.rules", "mqdlq.cli.decode", "mqdlq.cli.explain", "click.testing")
PACKAGES: Final = ("click", "mqdlq")
_SHOW_IMPORTED: Final = f"""
import json, sys
import {", ".join(_COMMANDS)}
print(json.dumps({{name: module.__file__ for name, module in sys.modules.items()
                  if getattr(module, "__file__", None)}}))
"""


def page_files() -> Iterator[tuple[str, bytes | Path]]:
    """Yield the files beside the page, by their names there: contents, or where they are."""
    if PYODIDE.is_dir():
        yield from ((f"pyodide/{name}", PYODIDE / name) for name in _OF_PYODIDE)
        yield "mqdlq.zip", commands()
        yield "example.rules", ROOT / "include" / "rules" / "demo.rules"
        yield "example.txt", example_dump().encode()


@cache
def imported() -> Mapping[str, str]:
    """Return what the commands import, by the names of modules: files."""
    done = subprocess.run(
        [sys.executable, "-c", _SHOW_IMPORTED], check=True, capture_output=True, text=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def commands() -> bytes:
    """Return an archive of click, and of what the commands import of mqdlq, with its data files."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(_needed()):
            place = Path(_place(name.partition("/")[0])).parent / name
            archive.writestr(zipfile.ZipInfo(name), place.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _needed() -> Iterator[str]:
    for module, file in imported().items():
        package = module.partition(".")[0]
        if package in PACKAGES:
            path = Path(file).relative_to(_place(package).parent)
            yield path.as_posix()
            if path.name == "__init__.py":
                data = (one for kind in ("*.txt", "*.toml") for one in Path(file).parent.glob(kind))
                yield from (one.relative_to(_place(package).parent).as_posix() for one in data)


def _place(package: str) -> Path:
    return Path(imported()[package]).parent


def example_dump() -> str:
    """Return dead letters for the demo's rules, as amqsbcg prints them."""
    written = [
        (2053, "PAYMENTS.DOMESTIC", "payments-app", 8, b""),
        (2051, "PAYMENTS.INTL", "payments-app", 8, b""),
        (2085, "ORDERS.NEW", "legal-hold-2026", 8, b""),
        (2085, "ORDERS.NEW", "orders-app", 8, b""),
        (2085, "CRM.REPLY.7", "crm", 2, b"CRM.REPLIES"),
        (2030, "STATEMENTS", "archive", 8, b""),
    ]
    messages = []
    for number, (reason, queue, application, kind, reply) in enumerate(written, start=1):
        md = MessageDescriptor(
            format="MQDEAD",
            msg_type=kind,
            encoding=546,
            coded_char_set_id=819,
            priority=0,
            persistence=1,
            msg_id=b"AMQ QM1         " + number.to_bytes(8, "big"),
            put_appl_name=application,
            put_appl_type=6,
            put_date="20261121",
            put_time=f"0915300{number}",
            reply_to_q=reply.decode(),
        )
        header = DeadLetterHeader(
            *(reason, queue, "QM1", 546, 819, "MQSTR", 6, "amqrmppa", "20261121", "09153042")
        )
        body = header.encode(encoding=546, ccsid=819) + b"the message itself"
        messages.append((md, body))
    stray = MessageDescriptor(format="MQSTR", encoding=546, coded_char_set_id=819)
    return print_amqsbcg([*messages, (stray, b"no dead-letter header")])
