"""Look up IBM's symbolic names by their numbers, and the numbers by their names.

Five families are known: MQRC (reason codes), MQFB (feedback codes), MQMT (message types), MQPER
(persistence) and MQAT (application types). `names.txt` beside this module holds them, one
``NAME value`` a line; where several names share a value, people are shown the first.
``python -m tests.support.constant_names`` writes it from the constants of the client libraries.

`embedded_mq.constants` is a symbolic link to this package.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType

FAMILIES = ("MQRC", "MQFB", "MQMT", "MQPER", "MQAT")

PLATFORM_DEPENDENT = frozenset({"MQAT_DEFAULT"})
"""Names whose number differs by platform; a rules table cannot use them."""


def family_of(name: str) -> str:
    """Return the family a symbolic name belongs to: ``MQRC`` for ``MQRC_Q_FULL``."""
    return name.partition("_")[0]


def _read_names() -> dict[str, dict[str, int]]:
    families: dict[str, dict[str, int]] = {family: {} for family in FAMILIES}
    # Not as a file: Spark's workers have this package in an archive.
    names = files(__name__).joinpath("names.txt").read_text(encoding="ascii")
    for line in names.splitlines():
        name, _, value = line.partition(" ")
        families[family_of(name)][name] = int(value)
    return families


def _shown_names(names: Mapping[str, int]) -> Mapping[int, str]:
    shown: dict[int, str] = {}
    for name, value in names.items():
        # MQMT_SYSTEM_FIRST and its like bound a range; they do not name the value they stand on.
        if not name.endswith(("_FIRST", "_LAST")):
            shown.setdefault(value, name)
    return MappingProxyType(shown)


_NAMES = _read_names()
_SHOWN = {family: _shown_names(names) for family, names in _NAMES.items()}

MQRC: Mapping[str, int] = MappingProxyType(_NAMES["MQRC"])
MQFB: Mapping[str, int] = MappingProxyType(_NAMES["MQFB"])
MQMT: Mapping[str, int] = MappingProxyType(_NAMES["MQMT"])
MQPER: Mapping[str, int] = MappingProxyType(_NAMES["MQPER"])
MQAT: Mapping[str, int] = MappingProxyType(_NAMES["MQAT"])
ALL_NAMES: Mapping[str, int] = MappingProxyType(
    {name: value for names in _NAMES.values() for name, value in names.items()}
)

TRANSIENT = frozenset(
    MQRC[name]
    for name in (
        *("MQRC_CONNECTION_BROKEN", "MQRC_CONNECTION_QUIESCING", "MQRC_CONNECTION_STOPPING"),
        *("MQRC_MAX_CONNS_LIMIT_REACHED", "MQRC_STORAGE_NOT_AVAILABLE", "MQRC_RESOURCE_PROBLEM"),
        *("MQRC_Q_MGR_NOT_AVAILABLE", "MQRC_Q_MGR_NOT_ACTIVE", "MQRC_Q_MGR_QUIESCING"),
        *("MQRC_Q_MGR_STOPPING", "MQRC_CHANNEL_NOT_AVAILABLE", "MQRC_HOST_NOT_AVAILABLE"),
        *("MQRC_OUTCOME_PENDING", "MQRC_RECONNECT_FAILED", "MQRC_CALL_INTERRUPTED"),
    )
)
"""Reasons that end by themselves: a queue manager that restarts, a network that comes back."""

FAMILIES_OF_FIELDS: Mapping[str, Sequence[str]] = {
    "Reason": ("MQRC", "MQFB"),
    "Feedback": ("MQFB", "MQRC"),
    "MsgType": ("MQMT",),
    "Persistence": ("MQPER",),
    "PutApplType": ("MQAT",),
    "ApplType": ("MQAT",),
}
"""The families that name the values of fields of the MQMD and of headers."""


def name_of(value: int, families: Iterable[str]) -> str:
    """Return the name of a value in the first of the families that has one, else ""."""
    return next((_SHOWN[family][value] for family in families if value in _SHOWN[family]), "")


def value_text(value: int, families: Iterable[str]) -> str:
    """Return a value as people read it: ``MQMT_REPLY (2)``, or a number that has no name."""
    name = name_of(value, families)
    return f"{name} ({value})" if name else str(value)


def reason_text(reason: int) -> str:
    """Return a reason code as people read it: ``MQRC_Q_FULL (2053)``.

    MQDLH.Reason holds an MQRC or an MQFB value (IBM MQ docs, "MQDLH - Dead-letter header"), so the
    feedback codes are tried second. A number in neither family reads ``reason 99999``.
    """
    name = name_of(reason, ("MQRC", "MQFB"))
    return f"{name} ({reason})" if name else f"reason {reason}"
