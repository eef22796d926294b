"""The effect of each reason code of each MQ call on execution and restoring, as data and as a page.

`test_reasons.py` proves each line; ``python -m tests.faults.table`` writes
docs/reference/mq-failures.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mqdlq.constants import TRANSIENT, reason_text
from tests.support.moving_tasks import MovingTask

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mq-failures.md"
REASONS = (
    2003, 2009, 2016, 2024, 2030, 2031, 2033, 2035, 2051, 2053, 2063, 2071, 2085, 2087, 2102, 2109,
    2124, 2161, 2162, 2195, 2549,
)  # fmt: skip


@dataclass(frozen=True)
class Effect:
    """The effect of a failed call, in words and as the test observes it after the pass.

    Of four messages to one queue the third meets the failure, in a unit of work with the second.
    The pass still moves the messages `moved` and counts `charged` failed attempts. With `ends`, it
    ends by an error that names call and reason.
    """

    does: str
    outcome: str
    todo: str
    moved: str = ""
    charged: int = 0
    ends: bool = False
    says: str = ""


AGAIN = "as the next pass books"
ENDS = Effect(
    "the pass ends; the open unit of work is backed out",
    AGAIN,
    "remove the cause",
    moved="0",
    ends=True,
)
BEFORE_ANYTHING = Effect(
    "the pass ends before it touches a message", AGAIN, "remove the cause", ends=True
)
AFTER_ALL = Effect(
    "the pass has finished its work; the error is reported",
    "as booked",
    "nothing, unless it recurs",
    moved="0123",
    ends=True,
)
UNNOTICED = Effect("none", "as booked", "nothing", moved="0123")
LEFT_TO_THE_PUT = Effect(
    "the state of the destination is unknown, so the first put decides",
    "that of the put",
    "grant `+inq` on the destination, which avoids unnecessary gets",
    moved="0123",
)
BLOCKED_BY_INQUIRY = Effect(
    "every message to the destination is charged an attempt in this pass without a get",
    "`retry_pending` until its rules are exhausted, then `exhausted`",
    "define the destination",
    charged=4,
    says="AMQ8722",
)
CHARGED = Effect(
    "the unit of work is backed out; the message is charged an attempt, and the other messages of"
    " the unit are moved",
    "`retry_pending` until its rules are exhausted, then `exhausted`, with the reason",
    "correct the message or the destination, as the reason indicates",
    moved="013",
    charged=1,
    says="AMQ8722",
)
BLOCKED = Effect(
    "the same, and later messages to that destination are charged without a get",
    "`retry_pending` until its rules are exhausted, then `exhausted`, with the reason",
    "open, empty or define the destination, or the stream queue that the log names;"
    " `hold_while_blocked` keeps the attempts",
    moved="01",
    charged=2,
    says="AMQ8722",
)
NOT_OURS = Effect(
    "the same; later messages under PUTAUT(DEF) are charged without a get, and those under"
    " PUTAUT(CTX) are tried",
    "`retry_pending` until its rules are exhausted, then `exhausted`, with the reason",
    "grant `+put +passall` on the destination to the handler's user; under PUTAUT(CTX) grant"
    " `+passall` to the handler's user and `+put` to the message's user",
    moved="01",
    charged=2,
    says="AMQ8722",
)
REFUSED = Effect(
    "the unit of work is backed out; the message is charged an attempt, and the other messages of"
    " the unit are moved",
    "`retry_pending` until its rules are exhausted, then `exhausted`, with the policy's name",
    "check the Advanced Message Security policy of the destination's name (`dspmqspl -m QMGR -p"
    " QUEUE`; policies are stored on `SYSTEM.PROTECTION.POLICY.QUEUE`), and the error log",
    moved="013",
    charged=1,
    says="MQRC_SECURITY_ERROR (2063): the Advanced Message Security policy PAYMENTS",
)
ALONE = Effect(
    "the unit of work is backed out, and each message is moved in a separate unit",
    "`delivered`",
    "nothing; if it recurs, raise MAXUMSGS or lower `max_messages_per_unit`",
    moved="0123",
)
PASSED_BY = Effect(
    "another program has the message: it is skipped",
    "`taken` or `expired`, if it does not return",
    "find out who reads the dead-letter queue",
    moved="013",
)
END_OF_QUEUE = Effect(
    "the pass treats it as the end of the queue",
    "messages not reached are `retry_pending`, `taken` or `expired`, as the final browse finds",
    "nothing",
    moved="01",
)
NO_MARKERS = Effect(
    "none: without markers there is nothing to settle", "as booked", "nothing", "0123"
)
MARKER_TELLS = Effect(
    "the pass ends; it is not known whether the unit of work took effect",
    "the next pass reads the marker: `delivered`, or backed out and tried again without a count;"
    " `unknown` if it cannot decide within a minute",
    "nothing; if it is `unknown`, look for a unit of work in doubt",
    moved="0",
    ends=True,
)
NOT_DISCONNECTED = Effect(
    "the pass ends without MQDISC, which would commit; the queue manager backs out the unit when"
    " the process ends",
    AGAIN,
    "nothing; end the process if it hangs",
    moved="0",
    ends=True,
)


@dataclass(frozen=True)
class Call:
    """A call that moves messages, the fault that strikes the third message, and what follows.

    In `fault`, {unit} is the number of the marker and of the commit of the second unit of work that
    moves messages, {settled} that of the MQGET by which it removes a marker, and {inquiry} that of
    the first MQINQ of the queue manager. `otherwise` has the reasons with a different effect.
    `when` states whether the call takes effect before it fails.
    """

    title: str
    fault: str
    effect: Effect
    otherwise: dict[int, Effect] = field(default_factory=dict)
    when: str = "before"
    besides: str = ""
    never: tuple[int, ...] = ()
    """Reasons that are impossible for this call."""
    made_by: tuple[str, ...] = ("execution", "restoration", "lanes")

    def effect_of(self, reason: int) -> Effect:
        return self.otherwise.get(reason, self.effect)

    def faults(self, reason: int, moving: MovingTask) -> str:
        unit = moving.nth(2)
        fault = self.fault.format(
            unit=unit,
            settled=moving.looks_for_markers + unit - 1,
            inquiry=moving.inquiries_before + 1,
        )
        return ",".join(filter(None, [f"{fault}:{reason}:{self.when}", self.besides]))


CALLS = (
    Call("MQCONN", "MQCONNX:1", BEFORE_ANYTHING),
    Call(
        "MQOPEN of the state queue",
        "MQOPEN[MQDLQ.STATE]:1",
        BEFORE_ANYTHING,
        {
            2085: Effect(
                "the handler works without it: one message in each unit of work, and a warning",
                "as booked; after a crash possibly `unknown`",
                "`DEFINE QLOCAL(MQDLQ.STATE) DEFPSIST(YES)`",
                moved="0123",
                says="the state queue MQDLQ.STATE is not defined",
            )
        },
    ),
    Call(
        "MQOPEN of the dead-letter queue", "MQOPEN[DLQ]:1", BEFORE_ANYTHING, made_by=("execution",)
    ),
    Call("MQINQ of the queue manager", "MQINQ:{inquiry}", BEFORE_ANYTHING),
    Call(
        "MQGET (browse) of the state queue",
        "MQGET[MQDLQ.STATE]:1",
        BEFORE_ANYTHING,
        {2033: NO_MARKERS},
    ),
    Call(
        "MQGET (browse) of the dead-letter queue",
        "MQGET[DLQ]:5",
        ENDS,
        {2033: END_OF_QUEUE},
        made_by=("execution",),
    ),
    Call(
        "MQOPEN of a destination, to inquire",
        "MQOPEN[PAYMENTS]:2",
        LEFT_TO_THE_PUT,
        {2085: BLOCKED_BY_INQUIRY, 2009: BEFORE_ANYTHING},
    ),
    Call(
        "MQINQ of a destination",
        "MQINQ[PAYMENTS]:2",
        LEFT_TO_THE_PUT,
        {2085: BLOCKED_BY_INQUIRY, 2009: BEFORE_ANYTHING},
    ),
    Call(
        "MQGET of the message",
        "MQGET[DLQ]:6",
        ENDS,
        {2033: PASSED_BY, 2024: ALONE, 2003: ALONE},
        made_by=("execution",),
    ),
    Call(
        "MQPUT1 to the destination",
        "MQPUT1[PAYMENTS]:3",
        CHARGED,
        dict.fromkeys((2051, 2053, 2085, 2087), BLOCKED)
        | dict.fromkeys((2003, 2024), ALONE)
        | {2035: NOT_OURS, 2063: REFUSED}
        | dict.fromkeys((2009, 2161, 2162, 2549), ENDS),
    ),
    Call("MQPUT1 of the marker", "MQPUT1[MQDLQ.STATE]:{unit}", ENDS, {2024: ALONE, 2003: ALONE}),
    Call(
        "MQGET of the marker of a settled unit",
        "MQGET[MQDLQ.STATE]:{settled}",
        ENDS,
        {2033: UNNOTICED, 2024: ALONE, 2003: ALONE},
        made_by=("execution", "restoration"),
    ),
    Call(
        "MQGET of the marker of a settled unit, with several `connections`",
        "MQGET[MQDLQ.STATE]:{settled}",
        AFTER_ALL,
        dict.fromkeys((2033, 2024, 2003), UNNOTICED),
        made_by=("lanes",),
    ),
    Call("MQCMIT, without effect", "MQCMIT:{unit}", MARKER_TELLS, {2003: ALONE}),
    Call("MQCMIT, with effect", "MQCMIT:{unit}", MARKER_TELLS, when="after", never=(2003,)),
    Call(
        "MQBACK, after a put has failed",
        "MQBACK:1+",  # also the one that begins disconnecting
        NOT_DISCONNECTED,
        besides="MQPUT1[PAYMENTS]:3:2030:before",
    ),
    Call(
        "MQCLOSE of the dead-letter queue",
        "MQCLOSE[DLQ]:2",
        AFTER_ALL,
        {2009: UNNOTICED},
        made_by=("execution",),
    ),
    Call("MQDISC", "MQDISC:1", AFTER_ALL, {2009: UNNOTICED}),
)

INTRODUCTION = """\
# MQ failures

Why a pass ended or a message was charged an attempt, by the MQ call that failed and its reason code, and what to do.
`tests/faults/test_reasons.py` proves each line; `python -m tests.faults.table` generates this page from its table.

No failure loses or duplicates a message: it is on the dead-letter queue, or on the target of its rule.
If a pass ends by an error, no attempt of its open unit of work is charged, and its task fails with a line that names call, object and reason, such as `MQGET of queue DLQ failed: MQRC_GET_INHIBITED (2016)`.
Airflow's next step depends on the reason:

- After a **transient** reason, which passes without intervention, Airflow runs the task again, as often and at the times that [`task_retries`](handler.md#keys) says. The task continues where the failed attempt ended. Transient reasons are {transient}. An unavailable ledger or lake, another executor on the same queue, and the death of a worker are treated in the same way.
- After **any other** reason the task fails at once, because someone must remove the cause. Then clear the task, or let the next run continue.

A restoration moves messages by the same units of work, without calls to the dead-letter queue. A copy whose put fails is `failed`, and a copy whose destination is known to be blocked is `not_attempted`. The next attempt at the restoration tries both again.

A failed put of an execution is logged as `AMQ8722`: as a warning once for a queue and reason, and at level DEBUG if the MQDLH already had the same reason.
"""  # noqa: E501 (Markdown has a line to a paragraph)


def _rows(call: Call) -> Iterator[str]:
    """Yield the rows of a call's table: its special reasons, then all others."""
    for effect in dict.fromkeys([*call.otherwise.values(), call.effect]):
        reasons = [r for r in REASONS if call.effect_of(r) == effect and r not in call.never]
        named = "any other" if effect == call.effect and call.otherwise else ""
        if not call.otherwise:
            named = "any"
        told = named or ", ".join(map(reason_text, reasons))
        yield f"| {told} | {effect.does} | {effect.outcome} | {effect.todo} |"


def page() -> str:
    """Return docs/reference/mq-failures.md."""
    transient = ", ".join(map(reason_text, sorted(TRANSIENT)))
    lines = [INTRODUCTION.format(transient=transient), ""]
    titles: dict[tuple[str, ...], list[str]] = {}
    for call in CALLS:
        titles.setdefault(tuple(_rows(call)), []).append(call.title)
    for rows, calls in titles.items():
        lines += [f"## {'; '.join(calls)}", ""]
        lines += ["| reason | effect | outcome | what to do |", "|---|---|---|---|", *rows, ""]
    tried = ", ".join(map(reason_text, REASONS))
    return "\n".join([*lines, f"Reason codes tested at every call: {tried}.", ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
