"""Check the parameters of a PCF command.

IBM MQ docs, "How the PCF definitions are shown": the required parameters come first, in their
order. The error response of each fault is that of "PCF reason codes".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import text
from embedded_mq.engine.failures import log
from embedded_mq.engine.objects.attributes import (
    IGNORED_QUEUE_KEYWORDS,
    QUEUE_ATTRIBUTES,
    Attribute,
    Value,
)
from embedded_mq.engine.objects.queue_objects import CommandRefusedError, check_name, matches_name
from embedded_mq.pcf import constants as cf
from embedded_mq.pcf.messages import FILTERS, FORMS, Parameter, PcfError

Types = Mapping[int, int]
"""The MQCFT of each parameter, by its identifier."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parameters of a command, by identifier, and its filter."""

    values: Mapping[int, Any]
    filter: Parameter | None

    def text(self, identifier: int) -> str:
        """Return a string without trailing blanks, or "" if it is not given."""
        return text(self.values.get(identifier, b""))

    def flag(self, identifier: int, reason: str) -> bool:
        """Return whether a parameter is 1 and not 0; other values fail with the reason."""
        value = self.values.get(identifier, 0)
        if value not in {0, 1}:
            raise PcfError.about(reason, identifier)
        return bool(value)

    def selectors(self, identifier: int, known: Mapping[int, Any]) -> frozenset[int]:
        """Return the requested attributes, all of them without such a list."""
        asked = self.values.get(identifier, (cf.MQIACF_ALL,))
        if not asked:
            raise PcfError.about("MQRCCF_CFIL_COUNT_ERROR", identifier)
        for place, selector in enumerate(asked):
            if selector in asked[:place]:
                raise PcfError("MQRCCF_CFIL_DUPLICATE_VALUE", (cf.MQIACF_SELECTOR, selector))
            if selector != cf.MQIACF_ALL and selector not in known:
                log.warning("the PCF selector %s is not emulated", selector)
                raise PcfError("MQRC_SELECTOR_ERROR", (cf.MQIACF_SELECTOR, selector))
        return frozenset(known if cf.MQIACF_ALL in asked else asked)


def check(
    parameters: Sequence[Parameter],
    required: Types,
    optional: Types,
    filtered: Mapping[int, Any] | None = None,
) -> Arguments:
    """Return the checked arguments; `filtered` has the attributes that a filter may test."""
    _check_required(parameters, list(required))
    types = {**required, **optional}
    values: dict[int, Any] = {}
    found = None
    for parameter in parameters:
        identifier = parameter.identifier
        form = FORMS[parameter.type]
        if parameter.type in FILTERS and filtered is not None:
            if found is not None:
                raise PcfError.about("MQRCCF_TOO_MANY_FILTERS", identifier)
            found = _checked_filter(parameter, filtered)
        elif identifier in values:
            name = form.name if form.name in {"CFST", "CFSL", "CFBS"} else "CFIN"
            raise PcfError.about(f"MQRCCF_{name}_DUPLICATE_PARM", identifier)
        elif types.get(identifier) != parameter.type:
            log.warning("the PCF parameter %s is not emulated, or not valid here", identifier)
            raise form.error("PARM_ID_ERROR", identifier)
        else:
            values[identifier] = parameter.value
    return Arguments(values, found)


def _check_required(parameters: Sequence[Parameter], required: Sequence[int]) -> None:
    if len(parameters) < len(required):
        raise PcfError("MQRCCF_PARM_COUNT_TOO_SMALL")
    given = [parameter.identifier for parameter in parameters]
    for place, identifier in enumerate(required):
        if identifier not in given:
            raise PcfError.about("MQRCCF_PARM_MISSING", identifier)
        if given[place] != identifier:
            raise PcfError.about("MQRCCF_PARM_SEQUENCE_ERROR", identifier)


def types_of(attributes: Mapping[str, Attribute]) -> Types:
    """Return the parameters that set these attributes."""
    ignored = (selector for selector in IGNORED_QUEUE_KEYWORDS.values() if selector)
    selectors = [*(attribute.selector for attribute in attributes.values()), *ignored]
    return {selector: type_of(selector) for selector in selectors}


def type_of(selector: int) -> int:
    """Return the MQCFT of an attribute: numbers have the lower selectors."""
    return cf.MQCFT_INTEGER if selector <= mq.MQIA_LAST else cf.MQCFT_STRING


def new_values(arguments: Arguments, queue_type: int) -> dict[str, Value]:
    """Return the attributes that a command sets, by MQSC keyword, with checked values."""
    ignored = {number: word for word, number in IGNORED_QUEUE_KEYWORDS.items()}
    for selector in arguments.values.keys() & ignored.keys():
        log.warning("the attribute %s is ignored", ignored[selector])
    return {
        keyword: _new_value(attribute, arguments)
        for keyword, attribute in QUEUE_ATTRIBUTES[queue_type].items()
        if attribute.selector in arguments.values
    }


def _new_value(attribute: Attribute, arguments: Arguments) -> Value:
    selector = attribute.selector
    if not attribute.length:
        number = int(arguments.values[selector])
        if not attribute.allows(number):
            raise PcfError.about("MQRCCF_ATTR_VALUE_ERROR", selector)
        return number
    value = arguments.text(selector)
    if len(value) > attribute.length:
        raise PcfError.about("MQRCCF_CFST_STRING_LENGTH_ERR", selector)
    if attribute.is_name and value:
        try:
            check_name(value)
        except CommandRefusedError as error:
            raise PcfError.about(error.reason, selector) from None
    return value


_COMPARISONS: Mapping[int, Callable[[Any, Any], bool]] = {
    cf.MQCFOP_LESS: lambda value, limit: bool(value < limit),
    cf.MQCFOP_EQUAL: lambda value, limit: bool(value == limit),
    cf.MQCFOP_GREATER: lambda value, limit: bool(value > limit),
    cf.MQCFOP_NOT_LESS: lambda value, limit: bool(value >= limit),
    cf.MQCFOP_NOT_EQUAL: lambda value, limit: bool(value != limit),
    cf.MQCFOP_NOT_GREATER: lambda value, limit: bool(value <= limit),
    cf.MQCFOP_LIKE: matches_name,
    cf.MQCFOP_NOT_LIKE: lambda value, pattern: not matches_name(value, pattern),
}
_OF_TEXT = frozenset({cf.MQCFOP_LIKE, cf.MQCFOP_NOT_LIKE})


def _checked_filter(parameter: Parameter, filtered: Mapping[int, Any]) -> Parameter:
    form, identifier = FORMS[parameter.type], parameter.identifier
    is_number = parameter.type == cf.MQCFT_INTEGER_FILTER
    fits = type_of(identifier) == (cf.MQCFT_INTEGER if is_number else cf.MQCFT_STRING)
    if not fits or identifier not in filtered or form.name == "CFBF":
        raise form.error("PARM_ID_ERROR", identifier)
    if parameter.operator not in _COMPARISONS or (is_number and parameter.operator in _OF_TEXT):
        raise form.error("OPERATOR_ERROR", identifier)
    return parameter


def matches_filter(values: Mapping[int, Any], wanted: Parameter | None) -> bool:
    """Return whether an object has the attribute of a filter and satisfies it.

    IBM MQ docs, "MQCFIF - PCF integer filter parameter", "MQCFSF - PCF string filter parameter".
    """
    if wanted is None:
        return True
    limit = text(wanted.value) if isinstance(wanted.value, bytes) else wanted.value
    compare = _COMPARISONS[wanted.operator]
    return wanted.identifier in values and compare(values[wanted.identifier], limit)
