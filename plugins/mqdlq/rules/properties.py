"""Conditions on named message properties, such as ``usr.orderType = REFUND*``.

Conditions are asked of a message while it is browsed, and a snapshot has the conditions that it
meets, never the values: properties are customers' data. Text is compared as patterns compare text,
without a fixed length. A property whose name has no folder belongs to the folder ``usr`` (IBM MQ
docs, "Property names").
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from mqdlq.rules.diagnostics import quoted
from mqdlq.rules.wildcards import canonical, fits

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
_OPERATORS: Final[dict[str, Callable[[Decimal, Decimal], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_EXAMPLES: Final = "such as 'usr.orderType = REFUND*' or 'usr.amount > 100'"


class PropertyConditionError(ValueError):
    """A condition that is not accepted; the text says what would be right."""


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
        """Whether the value of the property, as text, meets the condition."""
        if self.sign == "=":
            return fits(self.text, value)
        found = _NUMBER.fullmatch(value)
        return found is not None and _OPERATORS[self.sign](Decimal(found[1]), Decimal(self.text))


def read_condition(text: str) -> PropertyCondition:
    """Parse a condition; raise PropertyConditionError, whose text follows the keyword."""
    found = _CONDITION.fullmatch(text.strip())
    if found is None or _CONTROL.search(text):
        raise PropertyConditionError(
            f"takes a comparison of a property {_EXAMPLES}, found {quoted(text)}"
        )
    name, sign, compared = found[1], found[2], found[3].strip(" ")
    full = _full_name(name)
    if sign == "=":
        if not compared:
            raise PropertyConditionError(
                f"takes text after '=', with wildcards such as '{name} = REFUND*', found nothing"
            )
        if compared.startswith("="):
            raise PropertyConditionError(
                f"takes one '=', such as '{name} = REFUND*', found {quoted(f'={compared}')}; for"
                f" text that begins with '=' write '{name} = ?…'"
            )
        return PropertyCondition(full, sign, canonical(compared))
    if not _LIMIT.fullmatch(compared):
        raise PropertyConditionError(
            f"takes a number after '{sign}', such as '{name} {sign} 100', found {quoted(compared)}"
        )
    return PropertyCondition(full, sign, f"{Decimal(compared).normalize() + 0:f}")


def _full_name(name: str) -> str:
    """Return the name of a property with its folder; raise PropertyConditionError."""
    if name.startswith(_OF_THE_MQMD):
        raise PropertyConditionError(
            f"compares message properties, not fields of the MQMD; {quoted(name)} is a field, for"
            " which 'match:' has patterns"
        )
    if not _NAME.fullmatch(name):
        raise PropertyConditionError(
            "takes the name of a property in letters, digits, _ and $, with its folder such as"
            f" usr.orderType, found {quoted(name)}"
        )
    full = name if "." in name else f"usr.{name}"
    if len(full) > _LONGEST_NAME:
        raise PropertyConditionError(
            f"takes the name of a property with at most {_LONGEST_NAME:,} characters, folder"
            f" included, found {len(full):,}"
        )
    return full


def met_by(conditions: Mapping[str, Any]) -> str:
    """Return the conditions that a message is known to meet, from the columns of its row."""
    return SEPARATOR.join(conditions.get("properties_met") or ())
