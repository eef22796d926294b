"""The command `mqdlq find`: search in the captured bodies of a handler's messages."""

import sys
from datetime import timedelta
from functools import partial

import click

from mqdlq import directories
from mqdlq.cli.output import Output, now, payload_keys_of, refusing, write_json
from mqdlq.cli.run import HandlerName
from mqdlq.errors import HandlerError
from mqdlq.handlers import load_handler
from mqdlq.lake.filters import FilterError
from mqdlq.ledger import open_ledger
from mqdlq.tools.acting import Sources
from mqdlq.tools.body_search import BodySearch, Progress, Words
from mqdlq.words import count, moment, target, visible


def find(
    handler: HandlerName,
    text: str,
    *,
    hex_digits: bool = False,
    where: str = "",
    seconds: int = 60,
    output: Output = "text",
) -> None:
    """Implement `mqdlq find`.

    Searches the bodies that the handler's `payload` has captured, as the character set of each
    message has the text, and their message properties; case matters. The newest
    snapshot comes first, and the first 50 messages found are listed; no body is shown. The audit
    records the search with its words before a body is read.

    Exit code 0 if all was looked at, or 50 messages were found; 1 if the time was over before; 2 if
    the handler, the words or the condition are not valid.

    Takes:
      TEXT: What to search for; - reads it from standard input, so that no list of processes has it.
      --hex: TEXT is hexadecimal digits, which may be anywhere in a body.
      --where: Only in messages that meet this condition, such as reason=MQRC_Q_FULL.
      --seconds: Stop after this time.

    For example:
      mqdlq find demo PMT-01-000001
      mqdlq find demo 504d54 --hex --where application=pay*
    """
    given = sys.stdin.read().rstrip("\r\n") if text == "-" else text
    with refusing(HandlerError, FilterError), open_ledger(create=False) as ledger:
        keys = partial(payload_keys_of, load_handler(handler).payload_key)
        sources = Sources(handler, ledger, directories.lake(), now)
        search = BodySearch(Words(given, hex_digits), where, sources, keys)
        done, until = search.begin(directories.account()), now() + timedelta(seconds=seconds)
        while not done.is_over and now() < until:
            done = search.go_on(done)
            if not done.is_over:
                click.echo(_looked(done, search.total), err=True)
        messages = search.messages(done)
    if output == "json":
        write_json(
            done.model_dump(include={"looked", "uncaptured", "partly", "unreadable", "is_complete"})
            | {"rows": search.total, "messages": [one.as_record() for one in messages]}
        )
    else:
        for one in messages:
            at = moment(one.since) if one.since else "at an unknown time"
            place = target(one.dest_q_name, one.dest_q_mgr_name)
            click.echo(visible(f"{one.message_key}  {at}  {one.why_dead}  {place}"))
        click.echo(_summary(done, search.total))
    if not done.is_over:
        raise SystemExit(1)


def _looked(done: Progress, total: int) -> str:
    return f"looked at {done.looked:,} of {count(total, 'row')}"


def _summary(done: Progress, total: int) -> str:
    parts = [f"{count(len(done.found), 'message')} found", _looked(done, total)]
    parts += [f"{count(done.uncaptured, 'row')} without a captured body"] * bool(done.uncaptured)
    parts += [f"{count(done.partly, 'body', 'bodies')} captured in part"] * bool(done.partly)
    if done.unreadable:
        parts.append(f"{count(done.unreadable, 'body', 'bodies')} with an unknown CCSID")
    if not done.is_over:
        parts.append("stopped before all was looked at; --seconds gives more time")
    return "; ".join(parts)
