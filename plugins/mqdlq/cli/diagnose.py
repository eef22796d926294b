"""The command `mqdlq diagnose`: say why destinations refuse dead letters, and what ends it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import click

from mqdlq.causes import Cause
from mqdlq.cli.output import Output, now, refusal, refusing, write_json
from mqdlq.cli.run import HandlerName
from mqdlq.diagnosis.keeping import Place, known_diagnoses
from mqdlq.diagnosis.obstacles import Subject
from mqdlq.diagnosis.records import Diagnosis, changes
from mqdlq.diagnosis.subjects import read_subjects
from mqdlq.errors import MqDlqError
from mqdlq.handlers import load_handler
from mqdlq.ledger import open_ledger
from mqdlq.local.environment import quieten_airflow, read_settings
from mqdlq.stages.diagnosing import MOST_CAUSES, diagnose_causes, keep_diagnoses
from mqdlq.stages.sense import select_queue_manager
from mqdlq.words import cause_in_words, count, moment, place, visible


def diagnose(
    handler: HandlerName, *, cause: str = "", message: str = "", output: Output = "text"
) -> None:
    """Implement `mqdlq diagnose`.

    Asks the queue manager why the messages of the newest snapshot would be refused now: what is in
    the way of a put to their destination, who lacks which authority, which channel is not running.
    The inquiries only read, and are named in the output. A command that ends the refusal is printed
    with what it changes; nobody runs it but you. Without --cause and --message it is about the five
    causes with the most messages. The ledger keeps what was found, and the next diagnosis says what
    differs.

    Exit code 0 if all that could be asked was answered; 1 if the queue manager cannot be reached; 2
    if the handler has no snapshot, or no message in it is meant.

    Takes:
      --cause ID: Only this cause, or the beginning of its fingerprint.
      --message KEY: Only the message with this message_key, or its beginning.

    For example:
      mqdlq diagnose demo
      mqdlq diagnose demo --cause 1a2b3c4d5e6f --format json
    """
    quieten_airflow()
    configured = load_handler(handler)
    with open_ledger(create=False) as ledger:
        queues = ledger.handled_queues.of_handler(handler)
        newest = queues and ledger.handled_queues.newest_snapshot(handler, *queues[0])
        if not newest:
            raise refusal(f"mqdlq: {handler}: no run has a snapshot; run the handler first")
        where = Place(handler, *queues[0])
        found = read_subjects(
            newest.location, where.queue, cause_id=cause.lower(), message_key=message.lower()
        )
        subjects = dict(islice(found.items(), MOST_CAUSES))
        if not subjects:
            named = {"cause": cause, "key": message}
            meant = " and ".join(f"{what} {value!r}" for what, value in named.items() if value)
            has = f"no message with {meant}" if meant else "no message"
            raise refusal(f"mqdlq: snapshot {newest.snapshot_id} of {handler} has {has}")
        settings = select_queue_manager(read_settings(configured.connection), where.queue_manager)
        with refusing(MqDlqError, code=1):
            diagnoses = diagnose_causes(settings, subjects, now)
        earlier = {
            one: next(known_diagnoses(where, one.cause_id, ledger), None) for one in diagnoses
        }
        if not message:
            keep_diagnoses(where, diagnoses, ledger)
    if output == "json":
        write_json([_as_record(one, subjects, diagnoses[one], earlier[one]) for one in diagnoses])
        return
    click.echo(f"{place(where.queue, where.queue_manager)}, snapshot {newest.snapshot_id}")
    for one, diagnosis in diagnoses.items():
        click.echo("\n".join(_lines(one, subjects[one], diagnosis, earlier[one])))
    if len(found) > len(subjects):
        click.echo(f"{count(len(found) - len(subjects), 'more cause')}; --cause names one")


def _as_record(
    cause: Cause, subjects: Mapping[Cause, Subject], found: Diagnosis, last: Diagnosis | None
) -> dict[str, Any]:
    about = {"cause_id": cause.cause_id, "reason": cause.reason_text}
    differs = list(changes(last.facts, found.facts)) if last else []
    return about | {"messages": subjects[cause].messages, "changed": differs} | found.as_record()


def _lines(
    cause: Cause, subject: Subject, found: Diagnosis, last: Diagnosis | None
) -> Iterator[str]:
    yield ""
    words = visible(cause_in_words(cause))
    yield f"{words}: {count(subject.messages, 'message')} [{cause.cause_id}]"
    yield f"  {found.outlook.words}"
    for one in found.findings:
        yield f"  - {one.text}"
        yield from (f"      {line}" for line in one.commands)
    if last is not None:
        for differing in changes(last.facts, found.facts):
            yield f"  since {moment(last.at)}: {differing}"
    for asked in found.inquiries:
        took = f"{asked.answer}, {asked.milliseconds:.0f} ms"
        yield f"    {asked.at:%H:%M:%S} {asked.command} {visible(asked.about)}: {took}"
