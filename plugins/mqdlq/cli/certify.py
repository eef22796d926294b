"""The command `mqdlq certify` and its record.

The record holds neither messages nor user ids, hosts, and names of queues and queue managers.
"""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click

from mqdlq.cli.connections import ConnectionId
from mqdlq.cli.output import attributes, now, refusal, refusing
from mqdlq.errors import MqDlqError
from mqdlq.local.environment import find_settings
from mqdlq.mqi.connect import connect
from mqdlq.mqi.connection_settings import ConnectionSettings
from mqdlq.tools.certify import certification
from mqdlq.tools.certify.behaviours import DEFAULT_PREFIX, administrator_commands, check_prefix
from mqdlq.tools.certify.certification import Certification, Finding, Verdict

VERSION: Final = 1
INTERRUPTED: Final = 130
_INDENT: Final = " " * 9


class Interruption:
    """Whether Ctrl-C or SIGTERM has come; the run ends at its next check.

    An exception at any call would leave units of work open, whose messages keep a scratch queue
    from being deleted, or Python would drop it, in a destructor. So only a second Ctrl-C or SIGTERM
    raises KeyboardInterrupt at once, for a call that does not return.
    """

    def __init__(self) -> None:
        self._came = False

    def come(self, _number: int, _frame: FrameType | None) -> None:
        """Take note of an interruption; the handler of SIGINT and SIGTERM."""
        if self._came:
            raise KeyboardInterrupt
        self._came = True

    def check(self) -> None:
        if self._came:
            raise KeyboardInterrupt

    def sleep(self, seconds: float) -> None:
        """Sleep, and raise KeyboardInterrupt if an interruption has come by then."""
        time.sleep(seconds)
        self.check()


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Let Ctrl-C and SIGTERM interrupt the block, so that the scratch queues are removed."""
    interruption = Interruption()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, interruption.come) for number in numbers}
    try:
        yield interruption
        interruption.check()
    finally:
        for number in numbers:
            signal.signal(number, before[number])


def _record(found: Certification, settings: ConnectionSettings) -> dict[str, Any]:
    one = found.versions
    return {
        "record": "mqdlq certify",
        "version": VERSION,
        "at": found.at.isoformat(timespec="seconds"),
        "command_level": one["command_level"],
        "platform": one["platform"],
        "transport": settings.transport,
        **{name: one[name] for name in ("client", "client_version", "mqdlq")},
        **{str(verdict): found.count(verdict) for verdict in Verdict},
        "behaviours": [_finding_as_json(finding) for finding in found.findings],
    }


def _finding_as_json(finding: Finding) -> dict[str, str]:
    names = ("behaviour.name", "behaviour.statement", "result=verdict", "expected", "seen")
    shown = attributes(finding, *names, "remark")
    if finding.verdict is Verdict.DIFFERS:
        shown["means"] = finding.behaviour.consequence
    return {name: text for name, text in shown.items() if text}


def certify(
    connection: ConnectionId,
    *,
    prefix: str = DEFAULT_PREFIX,
    record: Path | None = None,
    mqsc: bool = False,
    wait_for_quiesce: float = 0.0,
) -> None:
    """Implement `mqdlq certify`.

    Defines eight scratch queues through the command server of the queue manager, tries on them each
    behaviour that the handler relies on, and deletes them, also after an interruption. No other
    queue is opened. If the user may not define queues, an administrator defines them with the
    commands of --mqsc; they are then emptied and kept.

    It reports of each behaviour whether the queue manager agrees, and what a difference means for
    the handler. The record has the same, and the versions: no name of a queue or queue manager, no
    message, no user id and no host, so that you can share it.

    Exit code 0 if no behaviour differs; 1 if one does; 2 if the behaviours could not be tried.

    Takes:
      --scratch-prefix PREFIX: How the names of the scratch queues begin.
      --record FILE: Also write a record to a file, as JSON.
      --mqsc: Print the MQSC commands for an administrator, and do not connect.
      --wait-for-quiesce SECONDS: At the end, wait for someone to quiesce the queue manager, and
        observe it.

    For example:
      mqdlq certify mq_demo --mqsc
    """
    with refusing(MqDlqError):
        check_prefix(prefix)
        settings = find_settings(connection)
        if mqsc:
            click.echo("\n".join(administrator_commands(prefix, settings.user)))
            return
        try:
            with interruptible() as interruption:
                found = _certify(settings, prefix, interruption, wait_for_quiesce=wait_for_quiesce)
        except KeyboardInterrupt:
            text = "mqdlq: interrupted; the scratch queues are removed or empty"
            raise refusal(text, INTERRUPTED) from None
        if record is not None:
            written = json.dumps(_record(found, settings), indent=2)
            record.write_text(f"{written}\n", encoding="utf-8")
            click.echo(f"record: {record}")
    raise SystemExit(int(found.count(Verdict.DIFFERS) > 0))


def _certify(
    settings: ConnectionSettings,
    prefix: str,
    interruption: Interruption,
    *,
    wait_for_quiesce: float,
) -> Certification:
    def begin(begun: Certification) -> None:
        one = begun.versions
        name, level = one["queue_manager"], one["command_level"]
        click.echo(
            f"queue manager {name}, command level {level} on {one['platform']},"
            f" through {one['client']} {one['client_version']}; mqdlq {one['mqdlq']}"
        )

    def show(finding: Finding) -> None:
        interruption.check()
        remark = f" ({finding.remark})" if finding.remark else ""
        click.echo(f"{finding.verdict:9}{finding.behaviour.statement}{remark}")
        if finding.verdict is Verdict.DIFFERS:
            click.echo(f"{_INDENT}expected: {finding.expected}")
            click.echo(f"{_INDENT}seen:     {finding.seen}")
            click.echo(f"{_INDENT}means:    {finding.behaviour.consequence}")

    again = partial(connect, settings)
    found = certification.certify(
        again, prefix, user=settings.user, clock=now, begin=begin, progress=show
    )
    if wait_for_quiesce:
        click.echo(f"waiting {wait_for_quiesce:.0f} s for the queue manager to be quiesced")
    quiesced = certification.observe_quiescing(again, wait_for_quiesce, interruption.sleep)
    found.findings.append(quiesced)
    show(quiesced)
    agree, differ, skipped = (found.count(verdict) for verdict in Verdict)
    differs = "differs" if differ == 1 else "differ"
    click.echo(f"{agree} agree, {differ} {differs}, {skipped} skipped.")
    return found
