"""Check the attributes in an MQSC command."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from embedded_mq.engine.objects.attributes import Attribute, Value
from embedded_mq.engine.objects.queue_objects import CommandRefusedError, check_name
from embedded_mq.mqsc.syntax import Parameter, ProblemError

# Keywords without a value, and the attribute and number that they set.
FLAGS: Mapping[str, tuple[str, int]] = {
    "SHARE": ("SHARE", 1),
    "NOSHARE": ("SHARE", 0),
    "HARDENBO": ("HARDENBO", 1),
    "NOHARDENBO": ("HARDENBO", 0),
    "TRIGGER": ("TRIGGER", 1),
    "NOTRIGGER": ("TRIGGER", 0),
}
SYNONYMS: Mapping[str, str] = {"TARGQ": "TARGET"}


@dataclass(slots=True)
class CheckedAttributes:
    """The values of a command by keyword, and the keywords that are ignored or have no effect."""

    values: dict[str, Value] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    inert: list[str] = field(default_factory=list)


def check_attributes(
    parameters: tuple[Parameter, ...],
    attributes: Mapping[str, Attribute],
    ignored: Collection[str],
    subject: str,
) -> CheckedAttributes:
    """Check the parameters of a command against the attributes of its object."""
    result = CheckedAttributes()
    for parameter in parameters:
        keyword = SYNONYMS.get(parameter.keyword, parameter.keyword)
        flag, number = FLAGS.get(keyword, ("", 0))
        if flag in attributes:
            _check_no_value(parameter)
            result.values[flag] = number
        elif keyword in attributes:
            result.values[keyword] = _value(attributes[keyword], parameter)
        elif keyword in ignored or keyword.removeprefix("NO") in ignored:
            result.ignored.append(keyword)
            continue
        else:
            raise ProblemError(parameter.line, _unknown(keyword, attributes, subject))
        if attributes[flag if flag in attributes else keyword].has_no_effect:
            result.inert.append(keyword)
    return result


def _check_no_value(parameter: Parameter) -> None:
    if parameter.value is not None:
        raise ProblemError(parameter.line, f"{parameter.keyword} takes no value")


def _unknown(keyword: str, attributes: Mapping[str, Attribute], subject: str) -> str:
    near = get_close_matches(keyword, attributes, n=1)
    advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(attributes))}"
    return f"{subject} has no attribute {keyword}; {advice}"


def _value(attribute: Attribute, parameter: Parameter) -> Value:
    value, keyword = parameter.value, attribute.keyword
    if value is None:
        raise ProblemError(parameter.line, f"{keyword} needs a value: {keyword}(...)")
    if attribute.words:
        if value.upper() not in attribute.words:
            words = " or ".join(attribute.words)
            raise ProblemError(parameter.line, f"{keyword}({value}) is not valid; use {words}")
        return attribute.words[value.upper()]
    if attribute.length:
        return _text(attribute, value.rstrip(" "), parameter.line)
    if not value.isdecimal() or not attribute.lowest <= int(value) <= attribute.limit:
        raise ProblemError(
            parameter.line,
            f"{keyword}({value}) is not valid; use a number from {attribute.lowest} to"
            f" {attribute.limit}",
        )
    return int(value)


def _text(attribute: Attribute, value: str, line: int) -> str:
    if len(value) > attribute.length:
        raise ProblemError(
            line,
            f"{attribute.keyword} has {len(value)} characters; use at most {attribute.length}",
        )
    if attribute.is_name and value:
        try:
            check_name(value)
        except CommandRefusedError as error:
            raise ProblemError(line, str(error)) from None
    return value
