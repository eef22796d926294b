"""The values and the conditions of extensions, such as the age of a message.

An extension is a pattern of mqdlq's own. Its value is not a field of the message: it follows from
columns of the snapshot alone, so that equal snapshots have equal values. Values are whole numbers,
`UNKNOWN` or `NEVER`, text for a chain of headers, "" if it is unknown, and for properties the
conditions that are met. No condition matches an unknown value.
"""

import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from mqdlq.rules.diagnostics import listed, quoted, shortened
from mqdlq.rules.keywords import MAX_NUMBER, Keyword, Kind, Measure
from mqdlq.rules.wildcards import canonical, fits

UNKNOWN: Final = -(1 << 62)
NEVER: Final = 1 << 62

HEADER_NAMES: Final = (
    "MQDLH", "MQXQH", "MQMDE", "MQRFH", "MQRFH2", "MQCIH", "MQIIH", "MQTM", "PDMQ",
)  # fmt: skip
"""The names that a chain of headers consists of; `mqdlq.headers.chain` reads these headers."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_COMPARISON: Final = re.compile(r"(<=|>=|<|>) *([0-9]+) *([a-z]*)", re.IGNORECASE | re.ASCII)
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_UNITS: Final = {
    Kind.TIME: {"s": 1, "min": 60, "h": 3_600, "d": 86_400},
    Kind.SIZE: {
        "B": 1, "kB": 10**3, "KiB": 1 << 10, "MB": 10**6, "MiB": 1 << 20, "GB": 10**9,
        "GiB": 1 << 30,
    },
    Kind.COUNT: {"": 1},
}  # fmt: skip
_EXAMPLES: Final = {
    Kind.TIME: "a comparison with a time such as '>= 2h'",
    Kind.SIZE: "a comparison with a number of bytes such as '> 1MB'",
    Kind.COUNT: "a comparison with a number such as '>= 3'",
}


class ConditionError(ValueError):
    """A condition that is not accepted; the text follows the keyword."""

    def __init__(self, message: str, code: str = "invalid-value") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a value with a number; without a `sign`, the value must be `NEVER`."""

    sign: str = ""
    number: int = 0

    def matches(self, value: int) -> bool:
        if not self.sign:
            return value == NEVER
        return UNKNOWN < value < NEVER and _OPERATORS[self.sign](value, self.number)


def canonical_condition(keyword: Keyword, text: str) -> str:
    """Return the condition of an extension in the form that equal conditions share.

    Raises ConditionError.
    """
    if keyword.kind is Kind.CHAIN:
        return _canonical_chain(" ".join(text.upper().split()))
    if keyword.kind is Kind.PROPERTY:
        return str(read_condition(text))
    condition = condition_of(keyword, text)
    if not condition.sign:
        return text.strip().lower()
    return f"{condition.sign} {_in_units(condition.number, keyword.kind)}"


@lru_cache(maxsize=8192)
def condition_of(keyword: Keyword, text: str) -> Condition:
    if text.strip().lower() in keyword.words:
        return Condition()
    units = _UNITS[keyword.kind]
    found = _COMPARISON.fullmatch(text.strip())
    by_name = {name.lower(): factor for name, factor in units.items()}
    default = 1 if keyword.kind is Kind.SIZE else None
    factor = by_name.get(found[3].lower(), None if found[3] else default) if found else None
    if found is None or factor is None:
        names = f" ({listed(units)})" if len(units) > 1 else ""
        words = "".join(f", or {quoted(word)}" for word in keyword.words)
        raise ConditionError(f"takes {_EXAMPLES[keyword.kind]}{names}{words}, found {quoted(text)}")
    if len(found[2].lstrip("0")) > len(str(MAX_NUMBER)):
        raise ConditionError(
            f"takes a number from 0 to {MAX_NUMBER}, found {shortened(found[2])}", "out-of-range"
        )
    return Condition(found[1], int(found[2]) * factor)


def _canonical_chain(text: str) -> str:
    example = "'MQDLH MQRFH2*'"
    if not text.replace("*", "").strip():
        raise ConditionError(f"takes the names of headers such as {example}, found {quoted(text)}")
    first, *_ = re.split(r"[*?]", text, maxsplit=1)
    if not (f"{HEADER_NAMES[0]} ".startswith(first) or first.startswith(f"{HEADER_NAMES[0]} ")):
        raise ConditionError(
            f"begins with {HEADER_NAMES[0]}, as the chain of every dead letter does:"
            f" {example}; found {quoted(text)}"
        )
    for word in text.split():
        if not re.search(r"[*?]", word) and word not in HEADER_NAMES:
            raise ConditionError(
                f"takes the names {listed(HEADER_NAMES, 'and')}, found {quoted(word)}"
            )
    return text


def _in_units(number: int, kind: Kind) -> str:
    """Return a number in the largest unit that needs no fraction."""
    units = ((factor, name) for name, factor in _UNITS[kind].items() if not number % factor)
    factor, name = max(units) if number else (1, next(iter(_UNITS[kind])))
    return f"{number // factor}{name}"


def value_of(keyword: Keyword, values: Mapping[str, Any]) -> int | str:
    if keyword.kind is Kind.PROPERTY:
        return SEPARATOR.join(values.get("properties_met") or ())  # the conditions that are met
    if keyword.measure is None:
        chain, whole = values.get("header_chain"), values.get("chain_is_whole")
        return " ".join(chain) if chain and whole else ""
    return _measured(keyword.measure, values)


def _measured(measure: Measure, values: Mapping[str, Any]) -> int:
    if measure.never and (values.get(measure.never) or 0) < 0:
        return NEVER
    found = [as_number(values.get(name)) for name in (measure.of, measure.since) if name]
    if UNKNOWN in found:
        return UNKNOWN
    of, *since = found
    return (of - sum(since) - measure.less) // measure.per


def as_number(value: datetime | int | None) -> int:
    """Return a column's value as a number, a time in microseconds since 1970."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // _MICROSECOND
    return UNKNOWN if value is None else value


def collapsed(value: int, limits: Sequence[int]) -> int:
    """Return a number that fulfils the same conditions as the value.

    `limits` are the numbers of the conditions, sorted. The result is one of few numbers, so that
    messages with different values can be counted together.
    """
    if value in (UNKNOWN, NEVER):
        return value
    if not limits:
        return 0
    at = bisect_left(limits, value)
    if at < len(limits) and limits[at] == value:
        return value
    return limits[at - 1] + 1 if at else limits[0] - 1


def shown_value(keyword: Keyword, value: int | str) -> str:
    """Return a value for people, "" if it is unknown: ``1d 2h 5s``, ``1048576B`` or ``never``."""
    if isinstance(value, str):
        return value
    if value == UNKNOWN:
        return ""
    if value == NEVER:
        return keyword.words[0]
    if keyword.kind is not Kind.TIME:
        return f"{value}{next(iter(_UNITS[keyword.kind]))}"
    rest, parts = abs(value), []
    for name in ("d", "h", "min", "s"):
        number, rest = divmod(rest, _UNITS[Kind.TIME][name])
        if number:
            parts.append(f"{number}{name}")
    return ("-" if value < 0 else "") + (" ".join(parts) or "0s")


# Conditions on named message properties, such as ``usr.orderType = REFUND*``.
#
# Conditions are asked of a message while it is browsed, and a snapshot has the conditions that it
# meets, never the values: properties are customers' data. Text is compared as patterns compare
# text, without a fixed length. A property whose name has no folder belongs to the folder ``usr``
# (IBM MQ docs, "Property names").

SEPARATOR: Final = "\n"
"""The character between conditions in a value, which no condition has."""

_CONDITION: Final = re.compile(r"([^\s=<>]*)\s*(<=|>=|<|>|=)(.*)", re.DOTALL)
_PART: Final = r"[A-Za-z_$][A-Za-z0-9_$]*"
_NAME: Final = re.compile(rf"(?:{_PART}\.)*{_PART}")
_OF_THE_MQMD: Final = "Root."
_LONGEST_NAME: Final = 4095
"""MQ_MAX_PROPERTY_NAME_LENGTH: the maximum length of a property's name, with its folder."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_LIMIT: Final = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,9})?")
_NUMBER: Final = re.compile(r" *([+-]?[0-9]{1,99}(?:\.[0-9]{1,99})?(?:[eE][+-]?[0-9]{1,3})?) *")
_PROPERTY_EXAMPLES: Final = "such as 'usr.orderType = REFUND*' or 'usr.amount > 100'"


@dataclass(frozen=True, slots=True)
class PropertyCondition:
    """A comparison of a property with a pattern of text (``=``) or with a number."""

    name: str
    sign: str
    text: str

    def __str__(self) -> str:
        """Return the form that equal conditions share."""
        return f"{self.name} {self.sign} {self.text}"

    def is_met_by(self, value: str) -> bool:
        if self.sign == "=":
            return fits(self.text, value)
        found = _NUMBER.fullmatch(value)
        return found is not None and _OPERATORS[self.sign](Decimal(found[1]), Decimal(self.text))


def read_condition(text: str) -> PropertyCondition:
    """Parse a condition; raise ConditionError."""
    found = _CONDITION.fullmatch(text.strip())
    if found is None or _CONTROL.search(text):
        raise ConditionError(
            f"takes a comparison of a property {_PROPERTY_EXAMPLES}, found {quoted(text)}"
        )
    name, sign, compared = found[1], found[2], found[3].strip(" ")
    full = _full_name(name)
    if sign == "=":
        if not compared:
            raise ConditionError(
                f"takes text after '=', with wildcards such as '{name} = REFUND*', found nothing"
            )
        if compared.startswith("="):
            raise ConditionError(
                f"takes one '=', such as '{name} = REFUND*', found {quoted(f'={compared}')}; for"
                f" text that begins with '=' write '{name} = ?…'"
            )
        return PropertyCondition(full, sign, canonical(compared))
    if not _LIMIT.fullmatch(compared):
        raise ConditionError(
            f"takes a number after '{sign}', such as '{name} {sign} 100', found {quoted(compared)}"
        )
    return PropertyCondition(full, sign, f"{Decimal(compared).normalize() + 0:f}")


def _full_name(name: str) -> str:
    """Return the name of a property with its folder; raise ConditionError."""
    if name.startswith(_OF_THE_MQMD):
        raise ConditionError(
            f"compares message properties, not fields of the MQMD; {quoted(name)} is a field, for"
            " which 'match:' has patterns"
        )
    if not _NAME.fullmatch(name):
        raise ConditionError(
            f"takes the name of a property in letters, digits, _ and $, with its folder such as"
            f" usr.orderType, found {quoted(name)}"
        )
    full = name if "." in name else f"usr.{name}"
    if len(full) > _LONGEST_NAME:
        raise ConditionError(
            f"takes the name of a property with at most {_LONGEST_NAME:,} characters, folder"
            f" included, found {len(full):,}"
        )
    return full
