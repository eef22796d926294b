"""Random worlds for controls: what is drawn, and a model of where every message comes in the end.

The model knows no control but `loops`: limits, ramps, breakers and keys delay a message, and do
nothing else. A message that its target returns often enough is quarantined; any other is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.property.handling_model import FAULTS

TARGETS = ("A", "B")
DEFINITIONS = "ALTER QMGR DEADQ(DLQ)\n" + "\n".join(
    f"DEFINE QLOCAL({queue}) DEFPSIST(YES)"
    for queue in ("DLQ", "MQDLQ.STATE", "ACCEPTED", "PARKED", *TARGETS)
)
ALWAYS = 99
RATE, BURST = 0.1, 2
"""Of target A: messages in a second, and at once."""
SMALL, LARGE = 100, 1000
GROUP = 2
"""Messages of a group. No limit is less than that: it would hold a group in every run."""
BYTES_PER_SECOND = 800
"""Of the handler; no group is longer, with its MQDLHs."""
IN_FLIGHT = 2
"""Of target B."""
WINDOW_BEGINS, WINDOW_LASTS = 20, 10
"""In minutes: target A is closed for ten minutes, every twenty minutes."""


@dataclass(frozen=True)
class Letter:
    """A dead letter: its target, reason, key and length, and how often its target returns it.

    `group` such messages have a GroupId in common; 1 is a message without a GroupId.
    """

    target: str
    reason: int
    key: int
    length: int
    returns: int
    group: int = 1


@dataclass(frozen=True)
class Event:
    """Events before a pass, and the faults in it.

    Some targets are closed, and some take no message of more than SMALL bytes.
    """

    closed: frozenset[str] = frozenset()
    small: frozenset[str] = frozenset()
    arrival: Letter | None = None
    faults: tuple[str, ...] = ()


LETTERS = st.builds(
    Letter,
    st.sampled_from(TARGETS),
    st.sampled_from([2053, 2053, 2085]),
    st.sampled_from([0, 1, 1, 2]),
    st.sampled_from([8, 8, 60, 200]),
    st.sampled_from([0, 0, 0, 1, 2, ALWAYS]),
    st.sampled_from([1, 1, GROUP]),
)
EVENTS = st.lists(
    st.builds(
        Event,
        st.frozensets(st.sampled_from(TARGETS), max_size=1),
        st.frozensets(st.sampled_from(TARGETS)),
        st.none() | LETTERS,
        st.lists(FAULTS, max_size=2).map(tuple),
    ),
    max_size=6,
)
_ITEMS: list[dict[str, Any]] = [
    {"queue": "A", "messages_per_second": RATE, "burst": BURST},
    {
        "queue": "A",
        "closed": [{"cron": f"*/{WINDOW_BEGINS} * * * *", "for": 60 * WINDOW_LASTS}],
    },
    {"queue": "B", "in_flight": IN_FLIGHT},
]
DESTINATIONS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.sampled_from(_ITEMS),
    min_size=1,
    max_size=2,
    unique_by=lambda item: item["queue"],
)
RAMPS: list[dict[str, Any]] = [
    {"steps": [1, 2], "watch": 60, "forget_after": 3600},
    {"steps": [2], "watch": 120, "consumed": True, "forget_after": 3600},
]
CONTROLS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "loops": st.fixed_dictionaries(
            {"limit": st.integers(1, 3)},
            optional={"then": st.sampled_from(["leave", {"forward": "PARKED"}])},
        ),
        "sequences": st.sampled_from(
            [
                {"key": "MQMD.CorrelId"},
                {"groups": "all_or_nothing"},
                {"key": "MQMD.CorrelId", "groups": "all_or_nothing"},
            ]
        ),
        "ramp": st.sampled_from(RAMPS),
        "breaker": st.builds(
            lambda returns, failures: {"returns": returns, "failures": failures, "pause": 300},
            st.integers(1, 2),
            st.integers(1, 3),
        ),
        "hold_until_fixed": st.just({"look_every": 90}),
        "limits": st.fixed_dictionaries(
            {},
            optional={
                "messages_per_run": st.integers(GROUP, 6),
                "bytes_per_second": st.just(BYTES_PER_SECOND),
                "destinations": DESTINATIONS,
            },
        ),
    },
).map(lambda keys: {"ramp": RAMPS[0]} | keys if "hold_until_fixed" in keys else keys)


def limit_of(controls: dict[str, Any]) -> int | None:
    """Return after how many round trips a message is quarantined."""
    return controls["loops"]["limit"] if "loops" in controls else None


def returns_of(letter: Letter, controls: dict[str, Any]) -> int:
    """Return how often a message is returned; only `loops` ends a loop without an end."""
    return letter.returns if "loops" in controls or letter.returns != ALWAYS else 1


def find_end(letter: Letter, controls: dict[str, Any]) -> tuple[str, int]:
    """Return where a message comes in the end, and after how many round trips."""
    limit, returns = limit_of(controls), returns_of(letter, controls)
    if limit is None or returns < limit:
        return "ACCEPTED", returns
    is_forwarded = isinstance(controls["loops"].get("then"), dict)
    return "PARKED" if is_forwarded else "DLQ", limit
