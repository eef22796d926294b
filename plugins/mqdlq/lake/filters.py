"""Filters, each a model of the query string of a page: one meaning of a name everywhere."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from functools import partial
from itertools import chain
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    model_validator,
)

from mqdlq.causes import CAUSE_COLUMNS, find_cause
from mqdlq.constants import ALL_NAMES
from mqdlq.errors import MqDlqError
from mqdlq.lake import row_masks, row_search
from mqdlq.ledger.reading.message_facts import KEY_DIGITS, MessageState
from mqdlq.model import InWords, Outcome

ID_DIGITS: Final = 48
LEAST_DIGITS: Final = 6
"""How many digits an identifier has at least that is the beginning of several."""
_CAUSE_DIGITS: Final = 12
_LONGEST: Final = 200
_DIGITS: Final = re.compile("[0-9a-fA-F]+")
_LARGEST: Final = 2**31 - 1
_MOST_PAGES: Final = 1_000_000
_DAY: Final = timedelta(days=1)


class FilterError(MqDlqError, ValueError):
    """A parameter of a filter is not valid; `parameter` is its name."""

    def __init__(self, parameter: str, fault: str, expected: str) -> None:
        super().__init__("MQDLQ-975", f"{parameter}: {fault}; expected {expected}")
        self.parameter, self.fault, self.expected = parameter, fault, expected


class _ParameterError(ValueError):
    """Why a parameter is not valid, and what would be."""

    def __init__(self, fault: str, expected: str) -> None:
        super().__init__(fault)
        self.expected = expected


class Query(BaseModel):
    """The query parameters of a page; an empty one narrows nothing, all others apply together."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def parse(
        cls, parameters: Mapping[str, str] | Iterable[tuple[str, str]], others: Collection[str] = ()
    ) -> Self:
        """Parse the parameters of a query string; blank values narrow nothing.

        `others` are parameters of the page, which are skipped. Raises `FilterError` for an unknown
        or repeated parameter, because a filter that is read too widely would act on more messages,
        and for a value that is not valid.
        """
        given: dict[str, str] = {}
        for name, text in parameters.items() if isinstance(parameters, Mapping) else parameters:
            if name in others or not text.strip():
                continue
            if name in given:
                raise FilterError(name, "it is given twice", "one value")
            given[name] = text
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise cls._named(error) from None

    @classmethod
    def _named(cls, error: ValidationError) -> FilterError:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "until"
        if first["type"] == "extra_forbidden":
            expected = f"one of {', '.join(cls.model_fields)}"
            return FilterError(_shortened(name), "no filter has this name", expected)
        fault = first["ctx"]["error"]
        return FilterError(name, str(fault), fault.expected)

    @property
    def is_empty(self) -> bool:
        return not self.parameters()

    def parameters(self, **more: str | int) -> dict[str, str | int]:
        """Return the query parameters that `parse` reads, without page and download, and others."""
        chosen = self.model_dump(exclude={"page", "download"}, exclude_defaults=True)
        given = {name: _rendered(name, value) for name, value in chosen.items()}
        return {name: text for name, text in given.items() if text} | more


class Presence(InWords):
    """States of messages that are not outcomes, with the words for people."""

    ON_QUEUE = "on_queue", "on the queue"
    DEPARTED = "departed", "departed"
    NO_OUTCOME = "no_outcome", "without an outcome"


State = Outcome | Presence


def _read_by(parse: Callable[[str], Any], expected: str) -> BeforeValidator:
    """Return the validator of a parameter whose text is parsed: ValueError or None is a fault."""

    def validate(given: Any) -> Any:
        text = given.strip() if isinstance(given, str) else ""
        if not text:
            return given
        try:
            found = parse(text)
        except (ValueError, OverflowError):
            found = None
        if found is None:
            raise _ParameterError(f"found {_shortened(text)!r}", expected)
        return found

    return BeforeValidator(validate)


def choice(*kinds: Iterable[str]) -> BeforeValidator:
    values = {str(one): one for kind in kinds for one in kind}
    return _read_by(values.get, f"one of {', '.join(values)}")


def longest(most: int) -> AfterValidator:

    def parse(text: str) -> str:
        if len(text) > most:
            raise _ParameterError(f"it has {len(text)} characters", f"at most {most}")
        return text

    return AfterValidator(parse)


def _digits(length: int, least: int = 0) -> BeforeValidator:
    def parse(text: str) -> str | None:
        is_long_enough = (least or length) <= len(text) <= length
        return text.lower() if is_long_enough and _DIGITS.fullmatch(text) else None

    or_first = f", or at least the first {least}" if least else ""
    return _read_by(parse, f"{length} hexadecimal digits{or_first}")


def reason_number(text: str) -> int | None:
    """Return the number of a reason code, given as digits or by its name; None for other text."""
    named = text.upper()
    if named.startswith(("MQRC_", "MQFB_")):
        return ALL_NAMES.get(named)
    return _number_within(text, 0, _LARGEST)


def number(least: int, most: int = _MOST_PAGES) -> BeforeValidator:
    expected = f"a number from {least}" + (f" to {most}" if most != _MOST_PAGES else "")
    return _read_by(partial(_number_within, least=least, most=most), expected)


def _number_within(text: str, least: int, most: int) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    return int(text) if is_number and least <= int(text) <= most else None


def _moment(of_day: timedelta) -> BeforeValidator:
    """Return the validator of a time in UTC, or of a day, which is `of_day` longer."""

    def parse(text: str) -> datetime:
        at = datetime.fromisoformat(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        return at + of_day if _IS_DAY.fullmatch(text) else at

    expected = "a day or a time in UTC, such as 2026-11-21 or 2026-11-21T09:30"
    return _read_by(parse, expected)


_IS_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_ENDS: Final = frozenset({"until", "expires_before"})
"""The parameters that are ends: a day is included."""

# A name may begin with a blank, and never ends with one.
Text = Annotated[str, longest(_LONGEST), AfterValidator(lambda text: text.rstrip(" "))]
Reason = Annotated[
    int | None,
    _read_by(reason_number, "a reason code such as 2053, or its name such as MQRC_Q_FULL"),
]
Start = Annotated[datetime | None, _moment(timedelta())]
End = Annotated[datetime | None, _moment(_DAY)]
Ordinal = Annotated[int | None, number(0)]
PageNumber = Annotated[int, number(1)]
MsgId = Annotated[str, _digits(ID_DIGITS, LEAST_DIGITS)]
MessageKey = Annotated[str, _digits(KEY_DIGITS, LEAST_DIGITS)]


class Period(Query):
    """A time: `since` is included and `until` is not; days are included, and end at midnight UTC.

    Each filter says what of its things is in this time.
    """

    since: Start = None
    until: End = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.since and self.until and self.since >= self.until:
            raise _ParameterError("it is not after since", "a later day or time")
        return self


class RowFilter(Period):
    """Messages by what they are, on every page that lists messages.

    Identifiers are hexadecimal digits, all of them or the first. In names, ``*`` and ``?`` are
    wildcards as in rules, and case matters. `text` is a key, a MsgId or CorrelId, a reason, or
    words, each of which occurs in a name, whatever its case, or begins a key. The time is when the
    message was dead-lettered, or put if its MQDLH does not say. `expires_before` selects messages
    that expire before a time.
    """

    text: Text = ""
    msg_id: MsgId = ""
    correl_id: MsgId = ""
    message_key: MessageKey = ""
    application: Text = ""
    user: Text = ""
    dest_q_name: Text = ""
    dest_q_mgr_name: Text = ""
    format: Text = ""
    reason: Reason = None
    cause_id: Annotated[str, _digits(_CAUSE_DIGITS)] = ""
    expires_before: End = None


class Where(RowFilter):
    """The messages of one queue; `state` is the last outcome, or a presence."""

    state: Annotated[State | None, choice(Presence, Outcome)] = None

    @property
    def text_of_where(self) -> str:
        """The condition as `parse_where` reads it."""
        return " and ".join(
            f"{name}={_quoted(str(value))}"
            for name, value in self.parameters().items()
            if name in Where.model_fields
        )

    def is_met_by(self, state: MessageState) -> bool:
        """Whether a message in this state has the wanted one."""
        if self.state is Presence.ON_QUEUE:
            return not state.has_departed
        if self.state is Presence.DEPARTED:
            return state.has_departed
        wanted = None if self.state is Presence.NO_OUTCOME else self.state
        return self.state is None or state.outcome is wanted


class MessageFilter(Where):
    """The messages to find on the queues of handlers.

    The names of queue manager and queue may have wildcards, too.
    """

    queue_manager: Text = ""
    queue: Text = ""


_TERM: Final = re.compile(
    r"\s*(?P<name>\w+)\s*=\s*(?:'(?P<quoted>(?:[^']|'')*)'|(?P<bare>[^'=\s][^=]*?)?)"
    r"(?:(?<!\sand)\s*\Z|\s+and\s+)",
    re.DOTALL,
)


def parse_where(text: str) -> Where:
    """Parse a condition: parameters such as `application=payd*`, joined by `and`.

    `cause` is short for cause_id. A value with an `and` or `=` is in single quotes, which are
    doubled within it. Raises FilterError, also for an empty value, because a condition that is read
    too widely would act on more messages.
    """
    given, at = list[tuple[str, str]](), 0
    while at < len(text) or not given:
        if (term := _TERM.match(text, at)) is None:
            found = _shortened(text[at:].strip())
            expected = "conditions such as cause=14e0cdf53d6f and application='a b*'"
            raise FilterError("where", f"found {found!r}", expected)
        bare, quoted = term["bare"] or "", term["quoted"]
        value = bare if quoted is None else quoted.replace("''", "'")
        name = "cause_id" if term["name"] == "cause" else term["name"]
        if not value.strip():
            raise FilterError(f"where: {_shortened(name)}", "it is empty", "a value")
        given.append((name, value))
        at = term.end()
    try:
        return Where.parse(given)
    except FilterError as error:
        raise FilterError(f"where: {error.parameter}", error.fault, error.expected) from None


def _quoted(value: str) -> str:
    is_plain = not ({"'", "="} & set(value) or any(map(str.isspace, value)))
    return value if is_plain else "'{}'".format(value.replace("'", "''"))


class RunMessageFilter(RowFilter):
    """Messages of one run, by what became of them in it.

    `outcome` is that of this run, `rule` the ordinal of the rule that decided, 0 for none.
    """

    outcome: Annotated[
        State | None,
        choice([Presence.NO_OUTCOME], [one for one in Outcome if one is not Outcome.NOT_SELECTED]),
    ] = None
    rule: Ordinal = None

    def rows(self) -> RowFilter:
        """Return what it says of the messages alone."""
        return RowFilter.model_construct(**{n: getattr(self, n) for n in RowFilter.model_fields})


def _shortened(text: str) -> str:
    return text if len(text) <= KEY_DIGITS else text[:KEY_DIGITS] + "…"


def _rendered(name: str, value: Any) -> str:
    """Render a value as `parse` reads it: a day rather than a time, where it is one."""
    if not isinstance(value, datetime):
        return "" if value is None else str(value)
    at = value.astimezone(UTC)
    if at.time() == time():
        with suppress(OverflowError):
            return (at - _DAY if name in _ENDS else at).date().isoformat()
    return at.isoformat().replace("+00:00", "Z")


PARAMETERS: Final = tuple(MessageFilter.model_fields)
"""The names of the query parameters of a search."""


# Translate a filter into conditions on the rows of snapshots, in SQL or on columns of Arrow.

_MOST_DESTINATIONS: Final = 200_000
_HEXADECIMAL: Final = frozenset("0123456789abcdef")


_OF_IDENTIFIERS: Final = {"msg_id": ID_DIGITS, "correl_id": ID_DIGITS, "message_key": KEY_DIGITS}
"""The length of each identifier; its column has the name of the parameter."""
_OF_PATTERNS: Final = {
    "application": ("put_appl_name",),
    "user": ("user_identifier",),
    "dest_q_name": ("dlh_dest_q_name",),
    "dest_q_mgr_name": ("dlh_dest_q_mgr_name",),
    # An MQDLH keeps the Format of the message in its own, and MQMD.Format is then MQDEAD.
    "format": ("dlh_format", "format"),
}
"""The columns that each parameter with a pattern is compared with."""


def conditions_of(chosen: RowFilter, snapshots: row_search.Snapshots) -> list[row_search.Condition]:
    """Return the conditions of a filter in SQL, all of which a row must meet.

    The `snapshots` say which destinations belong to a cause.
    """
    found = [*_described(chosen, row_search)]
    if chosen.cause_id:
        found.append(_of_cause(chosen.cause_id, snapshots, found))
    return found


def mask_of(chosen: RowFilter) -> row_masks.Mask:
    """Return the condition of a filter, with the same meaning, on columns of Arrow."""
    found = [*_described(chosen, row_masks)]
    if chosen.cause_id:

        def is_of_cause(*values: Any) -> bool:
            return find_cause(*values).cause_id == chosen.cause_id

        found.append(row_masks.has_values(is_of_cause, *CAUSE_COLUMNS))
    return row_masks.all_of(found)


def _described(chosen: RowFilter, words: Any) -> Iterator[Any]:
    """Yield the conditions of a filter, but for the cause, in the words of one of two modules."""
    yield from _of_text(chosen.text, words)
    for name, length in _OF_IDENTIFIERS.items():
        if digits := getattr(chosen, name):
            yield words.begins_with(digits, length, name)
    for name, columns in _OF_PATTERNS.items():
        if pattern := getattr(chosen, name):
            yield words.is_like(pattern, *columns)
    if chosen.reason is not None:
        yield words.equals(chosen.reason, "dlh_reason")
    if chosen.since or chosen.until:
        yield words.is_between(chosen.since, chosen.until, "dead_lettered_at", "put_at")
    if chosen.expires_before:
        yield words.is_between(None, chosen.expires_before, "expires_at")


def _of_text(text: str, words: Any) -> Iterator[Any]:
    digits = text.strip().lower()
    if set(digits) <= _HEXADECIMAL and len(digits) in {ID_DIGITS, KEY_DIGITS}:
        columns = ("msg_id", "correl_id") if len(digits) == ID_DIGITS else ("message_key",)
        yield words.equals(bytes.fromhex(digits), *columns)
        return
    for word in text.split():
        found = [words.contains(word, *chain(*_OF_PATTERNS.values()))]
        if (reason := reason_number(word)) is not None:
            found.append(words.equals(reason, "dlh_reason"))
        if LEAST_DIGITS <= len(word) < KEY_DIGITS and set(word.lower()) <= _HEXADECIMAL:
            found.append(words.begins_with(word.lower(), KEY_DIGITS, "message_key"))
        yield words.any_of(found)


def _of_cause(
    cause_id: str, snapshots: row_search.Snapshots, others: Sequence[row_search.Condition]
) -> row_search.Condition:
    """Return the condition that a row's cause has this id; generated names are one cause."""
    known = row_search.distinct_rows(snapshots, others, CAUSE_COLUMNS, _MOST_DESTINATIONS)
    rows = [(cls, reason or 0, name or "", q_mgr or "") for cls, reason, name, q_mgr in known]
    of_it = [row for row in rows if find_cause(*row).cause_id == cause_id]
    return row_search.is_one_of(of_it, *CAUSE_COLUMNS)
