"""The README's lines for one's own queue, run as they stand on an embedded queue manager."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.docs.console import checkout, commands, run_in_one_shell
from tests.support.paths import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.long]

CONNECTION = """"host": "mq1.example.com", "port": 1414,
    "login": "dlq", "password": "…",
    "extra": {"queue_manager": "QM1", "channel": "DLQ.SVRCONN", """
EMBEDDED = '"extra": {"queue_manager": "QM1", "transport": "embedded", '
TABLE = """\
WAIT(NO) RETRYINT(5)
DESTQ(ORDERS.IN) ACTION(FWD) FWDQ(&DESTQ) HEADER(NO)
ACTION(FWD) FWDQ(PARKED) HEADER(YES)
"""
QUEUE_MANAGER = """\
mqdlq qm create QM1 --mqsc - <<'END'
DEFINE QLOCAL(DLQ)
ALTER QMGR DEADQ(DLQ)
DEFINE QLOCAL(MQDLQ.STATE) DEFPSIST(YES)
DEFINE QLOCAL(ORDERS.IN)
DEFINE QLOCAL(PARKED)
END"""


def test_the_readmes_lines_handle_ones_own_queue(tmp_path: Path) -> None:
    place = checkout(tmp_path / "mqdlq")
    (tmp_path / "your.rules").write_text(TABLE)
    lines = [c.text for c in commands(ROOT / "README.md") if c.program not in {"git", "make"}]
    swapped = [
        line.replace(CONNECTION, EMBEDDED).replace("/path/to", str(tmp_path)) for line in lines
    ]
    assert sum(given != line for given, line in zip(swapped, lines, strict=True)) == 2
    activate, *swapped = swapped

    printed = run_in_one_shell(
        [
            activate,
            QUEUE_MANAGER,
            "mqdlq qm load QM1 DLQ docs/tutorial/shop.jsonl",
            *swapped,
            "mqdlq qm depth QM1 ORDERS.IN; mqdlq qm depth QM1 PARKED; mqdlq qm depth QM1 DLQ",
        ],
        place,
    )

    checked, authorities, dry_run, run, depths = printed[-5:]
    assert "handler, connection mq_qm1, rules orders.rules" in checked
    assert "execution: no authority is missing" in authorities
    assert "8 would be acted on. The account adds up." in dry_run
    assert "8 messages: 8 handled. The account adds up." in run
    assert depths.split() == ["3", "5", "0"]
