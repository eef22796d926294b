"""How execution and restoring react to each reason code of each MQ call, and the page of it.

`test_reasons.py` proves each line; ``python -m tests.faults.table`` writes
docs/reference/mq-failures.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mqdlq.constants import TRANSIENT, reason_text
from tests.support.moving_tasks import Moving

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mq-failures.md"
REASONS = (
    2003, 2009, 2016, 2024, 2030, 2031, 2033, 2035, 2051, 2053, 2063, 2071, 2085, 2087, 2102, 2109,
    2124, 2161, 2162, 2195, 2549,
)  # fmt: skip


@dataclass(frozen=True)
class Effect:
    """What a failed call leads to, in words, and as the test finds it after the pass.

    Of four messages to one queue the third meets the failure, in a unit of work with the second.
    `moved` are those the pass brings there all the same, `charged` how many attempts it counts
    as failed; with `ends` the pass ends by an error that names call and reason.
    """

    does: str
    outcome: str
    todo: str
    moved: str = ""
    charged: int = 0
    ends: bool = False
    says: str = ""


AGAIN = "the task's next attempt, or the next run, continues; the message is charged no attempt"
ENDS = Effect(
    "the pass ends; what was in the open unit of work is backed out",
    AGAIN,
    "remove the cause; nothing else",
    moved="0",
    ends=True,
)
BEFORE_ANYTHING = Effect(
    "the pass ends before it has touched a message", AGAIN, "remove the cause", ends=True
)
AFTER_ALL = Effect(
    "the pass has done its work; the error is told",
    "as booked",
    "nothing, unless it comes again",
    moved="0123",
    ends=True,
)
UNNOTICED = Effect("it has no consequence", "as booked", "nothing", moved="0123")
LEFT_TO_THE_PUT = Effect(
    "nothing is known of the destination, so the first put will tell",
    "as the put ends",
    "grant `+inq` on the destination, which saves gets that come to nothing",
    moved="0123",
)
BLOCKED_BY_INQUIRY = Effect(
    "every message to the destination is charged an attempt in this pass; none is got",
    "`retry_pending` until its rules are exhausted, then `exhausted`",
    "define the destination",
    charged=4,
    says="AMQ8722",
)
CHARGED = Effect(
    "the unit of work is backed out; the message is charged an attempt, its neighbours are moved",
    "`retry_pending` until its rules are exhausted, then `exhausted`, with the reason",
    "the reason says what: the message, or its destination, needs a hand",
    moved="013",
    charged=1,
    says="AMQ8722",
)
BLOCKED = Effect(
    "the same, and the messages behind it to that destination are charged without a get",
    "`retry_pending` until its rules are exhausted, then `exhausted`, with the reason",
    "open, empty, or define the destination, or the stream queue that the log names;"
    " `hold_while_blocked` would keep the attempts",
    moved="01",
    charged=2,
    says="AMQ8722",
)
NOT_OURS = Effect(
    "the same; the messages behind it that are put by our own authority, PUTAUT(DEF), are charged"
    " without a get, those under PUTAUT(CTX) are tried",
    "`retry_pending` until its rules are exhausted, then `exhausted`, with the reason",
    "grant `+put +passall` on the destination to the user the handler runs as; under PUTAUT(CTX)"
    " `+passall` to that user and `+put` to the message's",
    moved="01",
    charged=2,
    says="AMQ8722",
)
REFUSED = Effect(
    "the unit of work is backed out; the message is charged an attempt, its neighbours are moved",
    "`retry_pending` until its rules are exhausted, then `exhausted`, with the policy's name",
    "see the Advanced Message Security policy that has the destination's name (`dspmqspl -m QMGR -p"
    " QUEUE`; policies are kept on `SYSTEM.PROTECTION.POLICY.QUEUE`), and the error log",
    moved="013",
    charged=1,
    says="MQRC_SECURITY_ERROR (2063): the Advanced Message Security policy PAYMENTS",
)
ALONE = Effect(
    "the unit of work is backed out, and each of its messages moved in one of its own",
    "`delivered`",
    "nothing; if it comes often: a greater MAXUMSGS, a smaller `messages_in_a_unit`",
    moved="0123",
)
PASSED_BY = Effect(
    "somebody else has the message: it is passed by",
    "`taken` or `expired`, if it does not come back",
    "find out who reads the dead-letter queue",
    moved="013",
)
END_OF_QUEUE = Effect(
    "this is the end of the queue",
    "what was not met is `retry_pending`, `taken` or `expired`, by what the last browse finds",
    "nothing",
    moved="01",
)
NO_MARKERS = Effect(
    "there are no markers: nothing is to be settled", "as booked", "nothing", "0123"
)
MARKER_TELLS = Effect(
    "the pass ends; nobody knows whether the unit of work took effect",
    "the next pass reads the marker: `delivered`, or backed out and tried again, uncounted; where"
    " it can tell neither within a minute, `unknown`",
    "nothing, unless it is `unknown`: then look for a unit of work in doubt",
    moved="0",
    ends=True,
)
NOT_DISCONNECTED = Effect(
    "the pass ends without MQDISC, which would commit; the queue manager backs out what the"
    " process leaves",
    AGAIN,
    "nothing; end the process if it does not end by itself",
    moved="0",
    ends=True,
)


@dataclass(frozen=True)
class Call:
    """A call that moves messages, the fault that strikes the third message, and what follows.

    {unit} in `fault` is the number of the
    marker and of the commit of the second unit of work that moves messages. `otherwise` are the
    reasons with an effect of their own. `when` says that the call had its effect before the
    failure is told.
    """

    title: str
    fault: str
    effect: Effect
    otherwise: dict[int, Effect] = field(default_factory=dict)
    when: str = "before"
    besides: str = ""
    never: tuple[int, ...] = ()
    """Reasons that contradict themselves here."""
    made_by: tuple[str, ...] = ("execution", "restoration")

    def effect_of(self, reason: int) -> Effect:
        return self.otherwise.get(reason, self.effect)

    def faults(self, reason: int, moving: Moving) -> str:
        fault = self.fault.format(unit=moving.nth(2))
        return ",".join(filter(None, [f"{fault}:{reason}:{self.when}", self.besides]))


CALLS = (
    Call("MQCONN", "MQCONNX:1", BEFORE_ANYTHING),
    Call(
        "MQOPEN of the state queue",
        "MQOPEN[MQDLQ.STATE]:1",
        BEFORE_ANYTHING,
        {
            2085: Effect(
                "the handler does without: one message to a unit of work, and a warning",
                "as booked; what a crash interrupts may be `unknown`",
                "`DEFINE QLOCAL(MQDLQ.STATE) DEFPSIST(YES)`",
                moved="0123",
                says="the state queue MQDLQ.STATE is not defined",
            )
        },
    ),
    Call(
        "MQOPEN of the dead-letter queue", "MQOPEN[DLQ]:1", BEFORE_ANYTHING, made_by=("execution",)
    ),
    Call("MQINQ of the queue manager", "MQINQ:1", BEFORE_ANYTHING),
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
        "MQOPEN[PAYMENTS]:1",
        LEFT_TO_THE_PUT,
        {2085: BLOCKED_BY_INQUIRY, 2009: BEFORE_ANYTHING},
    ),
    Call(
        "MQINQ of a destination",
        "MQINQ[PAYMENTS]:1",
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
        "MQGET of a marker that has done its duty",
        "MQGET[MQDLQ.STATE]:{unit}",
        ENDS,
        {2033: UNNOTICED, 2024: ALONE, 2003: ALONE},
    ),
    Call("MQCMIT, without effect", "MQCMIT:{unit}", MARKER_TELLS, {2003: ALONE}),
    Call("MQCMIT, with effect", "MQCMIT:{unit}", MARKER_TELLS, when="after", never=(2003,)),
    Call(
        "MQBACK, after a put has failed",
        "MQBACK:1+",  # also the one with which leaving the connection begins
        NOT_DISCONNECTED,
        besides="MQPUT1[PAYMENTS]:3:2030:before",
    ),
    Call(
        "MQCLOSE of the dead-letter queue",
        "MQCLOSE[DLQ]:1",
        AFTER_ALL,
        {2009: UNNOTICED},
        made_by=("execution",),
    ),
    Call("MQDISC", "MQDISC:1", AFTER_ALL, {2009: UNNOTICED}),
)

INTRODUCTION = """\
# Failures

What an execution does when an MQ call fails, by call and reason code. Each line is proven by `tests/faults/test_reasons.py`, from whose table this page is written (`python -m tests.faults.table`).

Whatever fails, no message is lost or doubled: it is on the dead-letter queue, or where a rule wanted it.
A pass that ends by an error fails this attempt of its task with a line that names call, object and reason, as in `MQGET of queue DLQ failed: MQRC_GET_INHIBITED (2016)`.
What Airflow does then depends on the reason:

- After a **transient** reason, one that ends by itself, Airflow runs the task again up to three times (`task_retries` in the handler's file): 20 seconds, one minute and three minutes after the failure. The task continues where the failed attempt ended. Transient are {transient}; a ledger or a store of the lake that cannot be reached, another executor on the same queue, and the death of a worker are treated in the same way.
- After **any other** reason the task fails at once, because somebody has to remove the cause. Then clear the task, or let the next run continue.

A restoration moves its messages by the same units of work. Every table below applies to it, except those of calls to the dead-letter queue. A copy whose put fails is `failed`, and a copy whose destination is already known to be blocked is `not_attempted`; the next attempt at the restoration tries both again.

A failed put of an execution is logged as `AMQ8722`: as a warning once for a queue and reason, and in debug output if the MQDLH already gave the same reason.
"""  # noqa: E501 (Markdown has a line to a paragraph)


def page() -> str:
    """Return docs/reference/mq-failures.md."""
    transient = ", ".join(map(reason_text, sorted(TRANSIENT)))
    lines = [INTRODUCTION.format(transient=transient), ""]
    for call in CALLS:
        lines += [f"## {call.title}", ""]
        lines += ["| reason | what the handler does | outcome | what to do |", "|---|---|---|---|"]
        for effect in dict.fromkeys([*call.otherwise.values(), call.effect]):
            reasons = [r for r in REASONS if call.effect_of(r) == effect and r not in call.never]
            named = "any other" if effect == call.effect and call.otherwise else ""
            if not call.otherwise:
                named = "any"
            told = named or ", ".join(map(reason_text, reasons))
            lines.append(f"| {told} | {effect.does} | {effect.outcome} | {effect.todo} |")
        lines.append("")
    tried = ", ".join(map(reason_text, REASONS))
    return "\n".join([*lines, f"Tried at every call: {tried}.", ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
