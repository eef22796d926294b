"""The command `mqdlq causes`: why the messages of a dump are dead letters."""

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from mqdlq import words
from mqdlq.causes import CountedCause, count_causes
from mqdlq.cli.output import Output, attributes, refusing, write_json
from mqdlq.cli.rules import name_of
from mqdlq.errors import MalformedHeaderError, PasteError
from mqdlq.stages.snapshot.properties import PropertyMatches
from mqdlq.tools.dumps import as_text, read_pasted
from mqdlq.tools.pasted_rows import pasted_values


def causes(pastes: tuple[BinaryIO, ...], output: Output = "text") -> Iterator[str]:
    """Implement `mqdlq causes`.

    The messages of dumps are counted by cause, the most frequent first. Each cause says what the
    reason means, where the messages were to go, when they became dead letters, and what helps.
    Queues with generated names are one destination, such as `AMQ.*`. Nothing is connected to.

    Takes:
      PASTE: Output of amqsbcg or a file of dmpmqmsg; - is standard input.

    For example:
      mqdlq causes dump.txt
      mqdlq qm browse QM1 SYSTEM.DEAD.LETTER.QUEUE --format json | mqdlq causes -
    """
    with refusing(PasteError, code=1, prefix=""):
        found = count_causes(pasted_rows(pastes))
    if output == "json":
        write_json({"causes": causes_as_json(found)})
        return
    yield f"{words.count(sum(one.messages for one in found), 'message')}"
    for one in found:
        cause = one.cause
        yield f"{one.messages:>7,}  {words.cause_in_words(cause, one.queues)}"
        when = words.period(one.first_at, one.last_at)
        what = [cause.meaning if cause.is_of_dead_letters else "", cause.kind.words, cause.advice]
        yield from (f"{'':9}{text}" for text in ("; ".join(filter(None, what)), when) if text)


def pasted_rows(pastes: Sequence[BinaryIO]) -> Iterator[dict[str, Any]]:
    """Yield what causes are counted by of each message in dumps; raise PasteError."""
    matches = PropertyMatches(None)
    for paste in pastes:
        name = name_of(paste)
        for number, message in enumerate(read_pasted(as_text(paste.read()), name), start=1):
            try:
                cls, values = pasted_values(number, message, matches)
            except MalformedHeaderError as error:
                raise PasteError(message.line, str(error), name) from None
            yield values | {"class": cls}


def causes_as_json(causes: Sequence[CountedCause]) -> list[dict[str, Any]]:
    names = (
        *("cause.cause_id", "class=cause.cls", "cause.reason", "cause.reason_text", "cause.kind"),
        *("cause.dest_q_name", "cause.dest_q_mgr_name", "queues", "messages"),
        *("first_at", "last_at"),
    )
    return [attributes(counted, *names) for counted in causes]
