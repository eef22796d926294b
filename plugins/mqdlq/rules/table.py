"""A valid rules table: its records, how they match a message, canonical print and digest.

Records with the same meaning are equal: the line of a rule and the written order of its keywords
are not compared.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from mqdlq.constants import name_of
from mqdlq.model import Action, MessageClass, PutAuthority, QueueKind
from mqdlq.rules.diagnostics import Place, Report, RulesError, listed
from mqdlq.rules.extensions import (
    SEPARATOR,
    PropertyCondition,
    collapsed,
    condition_of,
    read_condition,
    shown_value,
    value_of,
)
from mqdlq.rules.grammar import COLUMNS
from mqdlq.rules.keywords import EXTENSIONS, KNOWN, Keyword, Kind
from mqdlq.rules.wildcards import PlainText, compiled, plain

Values = Mapping[str, Any]
"""The row of a message: its values by column."""


@dataclass(frozen=True)
class Pattern:
    """The value that a rule requires of one column: canonical text ("" for blank) or a number.

    The value of an extension is its canonical condition. `place` is the position among the keywords
    of the rule as written.
    """

    keyword: str
    column: str
    value: str | int
    place: int = field(default=0, compare=False)

    @property
    def is_extension(self) -> bool:
        return KNOWN[self.keyword].is_extension

    def value_in(self, values: Values) -> str | int | None:
        keyword = KNOWN[self.keyword]
        return value_of(keyword, values) if keyword.is_extension else values.get(self.column)

    def matches(self, actual: str | int | None) -> bool:
        """Whether a message's value matches; None is a field of blanks, or 0."""
        if isinstance(self.value, int):
            return (actual or 0) == self.value
        keyword = KNOWN[self.keyword]
        if keyword.kind is Kind.PROPERTY:
            return self.value in str(actual or "").split(SEPARATOR)
        if keyword.is_extension and keyword.kind is not Kind.CHAIN:
            return condition_of(keyword, self.value).matches(int(actual or 0))
        field = str(actual or "").ljust(keyword.length)
        return bool(self._matcher.match(field))

    @cached_property
    def _matcher(self) -> PlainText | re.Pattern[str]:
        return plain(str(self.value)) or compiled(str(self.value))


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `ordinal` counts from 1, and `line` is the first line of its entry.

    `patterns` are in the order of the keyword table, without single ``*`` patterns, which match
    every message. `fwd_q` is a queue name, ``&DESTQ`` or ``&REPLYQ``; `fwd_q_mgr` is a queue
    manager name, ``&DESTQM``, ``&REPLYQM``, or "" for the local queue manager. Keywords that the
    action does not use have their defaults: PUTAUT with DISCARD, for example, or RETRY with IGNORE.
    """

    ordinal: int
    line: int = field(compare=False)
    patterns: tuple[Pattern, ...]
    action: Action
    fwd_q: str = ""
    fwd_q_mgr: str = ""
    header: bool = True
    put_authority: PutAuthority = PutAuthority.DEF
    retry: int = 1

    @property
    def extensions(self) -> tuple[str, ...]:
        """The names of the rule's extensions as the YAML form has them."""
        return tuple(each.keyword.lower() for each in self.patterns if each.is_extension)

    @property
    def cannot_fail(self) -> bool:
        """Whether no later rule is tried on a message that matches this one."""
        return self.action in (Action.IGNORE, Action.DISCARD)


class ControlData(NamedTuple):
    """The control data; `wait_s` is None for WAIT(YES), without limit, and 0 for WAIT(NO)."""

    input_q: str = ""
    input_q_mgr: str = ""
    retry_interval_s: int = 60
    wait_s: int | None = None


@dataclass(frozen=True)
class RulesTable:
    """A valid table for queues of one kind: the control data and at least one rule, in order."""

    control: ControlData
    rules: tuple[Rule, ...]
    queue_kind: QueueKind = QueueKind.DEAD_LETTER

    def acts_on(self, message_class: MessageClass | str) -> bool:
        return message_class == self.queue_kind.acts_on

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of a snapshot that the patterns use, sorted."""
        found = {name for name in self.compared if name not in self.extensions}
        found.update(name for each in self.extensions.values() for name in each.sources)
        return tuple(sorted(found))

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """The columns of the patterns, sorted; those of extensions exist in the table only."""
        return tuple(sorted({pattern.column for pattern in self._patterns}))

    @cached_property
    def extensions(self) -> Mapping[str, Keyword]:
        found = {each.column: KNOWN[each.keyword] for each in self._patterns if each.is_extension}
        return dict(sorted(found.items()))

    @cached_property
    def limits(self) -> Mapping[str, Sequence[int]]:
        """The numbers that the rules compare an extension with, sorted, by its column."""
        found: dict[str, set[int]] = {}
        for pattern in self._patterns:
            keyword = self.extensions.get(pattern.column)
            if keyword and keyword.measure:
                condition = condition_of(keyword, str(pattern.value))
                found.setdefault(pattern.column, set()).update(
                    [condition.number] if condition.sign else ()
                )
        return {column: sorted(numbers) for column, numbers in found.items()}

    @cached_property
    def property_conditions(self) -> tuple[PropertyCondition, ...]:
        found = {
            str(each.value)
            for each in self._patterns
            if self.extensions.get(each.column) is EXTENSIONS["PROPERTY"]
        }
        return tuple(map(read_condition, sorted(found)))

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the canonical print: equal for tables with the same meaning.

        The same print has another meaning on a backout queue, and therefore another digest.
        """
        is_default = self.queue_kind is QueueKind.DEAD_LETTER
        meaning = freeze(self) + ("" if is_default else f"* {self.queue_kind}\n")
        return hashlib.sha256(meaning.encode()).hexdigest()

    def key_of(self, values: Values) -> tuple[Any, ...]:
        """Return the values of a row that decide which rules match, for use as a key."""
        return tuple(self._compared_value(name, values) for name in self.compared)

    def _compared_value(self, column: str, values: Values) -> Any:
        keyword = self.extensions.get(column)
        if keyword is None:
            return values.get(column)
        value = value_of(keyword, values)
        return collapsed(value, self.limits[column]) if isinstance(value, int) else value

    @property
    def _patterns(self) -> tuple[Pattern, ...]:
        return tuple(pattern for rule in self.rules for pattern in rule.patterns)


def freeze(table: RulesTable) -> str:
    """Return the canonical text with extensions, which `parse` reads as the same table.

    It is ``parse(freeze(table), queue_kind=table.queue_kind, frozen=True) == table``.
    """
    return print_entries(table.control, table.rules)


def print_table(table: RulesTable, source: str = "<rules>") -> str:
    """Return the canonical text: ``parse(print_table(table)) == table``.

    Raises RulesError for a table with extensions, which runmqdlq's syntax does not have.
    """
    report = Report(source)
    for rule in table.rules:
        if rule.extensions:
            noun = "extension" if len(rule.extensions) == 1 else "extensions"
            report.error(
                "extension",
                Place(rule.line, 1, 1, ""),
                f"rule {rule.ordinal} has the {noun} {listed(rule.extensions, 'and')}, which no"
                " table of runmqdlq has; keep the table in YAML",
            )
    if report.has_errors:
        raise RulesError(report.diagnostics())
    return freeze(table)


# Print control data and rules canonically: tables with the same meaning have the same text.
#
# Defaults are omitted, keywords are in the order of the keyword table, and numbers are printed as
# symbolic names if the keyword's family has one.

_INDENT: Final = "    "
_UNQUOTED: Final = re.compile(r"&?[A-Z0-9./_%*?]+")


def print_entries(control: ControlData, rules: Iterable[Rule]) -> str:
    entries = [list(control_parameters(control))] if control != ControlData() else []
    entries.extend(list(rule_parameters(rule)) for rule in rules)
    return "".join(f"{line}\n" for parameters in entries for line in _lines(parameters))


def control_parameters(control: ControlData) -> Iterator[str]:
    default = ControlData()
    if control.input_q:
        yield _parameter("INPUTQ", control.input_q)
    if control.input_q_mgr:
        yield _parameter("INPUTQM", control.input_q_mgr)
    if control.retry_interval_s != default.retry_interval_s:
        yield f"RETRYINT({control.retry_interval_s})"
    if control.wait_s is not None:
        yield f"WAIT({control.wait_s or 'NO'})"


def rule_parameters(rule: Rule) -> Iterator[str]:
    yield from map(_pattern, rule.patterns)
    yield f"ACTION({rule.action})"
    if rule.fwd_q:
        yield _parameter("FWDQ", rule.fwd_q)
    if rule.fwd_q_mgr:
        yield _parameter("FWDQM", rule.fwd_q_mgr)
    if not rule.header:
        yield "HEADER(NO)"
    if rule.put_authority is not PutAuthority.DEF:
        yield f"PUTAUT({rule.put_authority})"
    if rule.retry != 1:
        yield f"RETRY({rule.retry})"


def _pattern(pattern: Pattern) -> str:
    if isinstance(pattern.value, str):
        return _parameter(pattern.keyword, pattern.value)
    name = name_of(pattern.value, KNOWN[pattern.keyword].families)
    return f"{pattern.keyword}({name or pattern.value})"


def _parameter(keyword: str, text: str) -> str:
    if _UNQUOTED.fullmatch(text):
        return f"{keyword}({text})"
    doubled = text.replace("'", "''")
    return f"{keyword}('{doubled or ' '}')"


def _lines(parameters: Iterable[str]) -> Iterator[str]:
    """Fill lines with whole parameters; split a parameter only if it exceeds a line."""
    line = ""
    for parameter in parameters:
        start = f"{line} {parameter}" if line else parameter
        # Two columns are reserved for a continuation sign.
        if len(start) <= COLUMNS - 2:
            line = start
            continue
        if line:
            yield f"{line} +"
        *cut, line = _cut(_INDENT + parameter if line else parameter)
        yield from cut
    yield line


def _cut(text: str) -> Iterator[str]:
    """Split a parameter over lines that continue exactly where the previous line ended."""
    while len(text) > COLUMNS - 2:
        end = min(COLUMNS, len(text)) - 1
        # A line that begins with a blank or an asterisk could be read as a comment: search another
        # place to split. If none exists, the asterisk is indented, within its value.
        good = (at for at in range(end, len(_INDENT) + 1, -1) if text[at] not in " *")
        end = next(good, end)
        if text[end] == "*":
            yield f"{text[:end]}+"
            text = _INDENT + text[end:]
        else:
            yield f"{text[:end]}-"
            text = text[end:]
    yield text


# Match a message with the rules of a table.
#
# Values are those of a snapshot's columns: text without trailing blanks, or numbers. An absent
# value or None counts as a field of blanks, or 0. No extension matches a value that is absent.


def with_nuls_as_blanks(values: Values) -> dict[str, Any]:
    """Replace NULs by blanks, for handlers with `nul_as_blank`; IBM's handler does not."""
    return {
        column: value.replace("\0", " ").rstrip(" ") if isinstance(value, str) else value
        for column, value in values.items()
    }


def matches(rule: Rule, values: Values) -> bool:
    return all(pattern.matches(pattern.value_in(values)) for pattern in rule.patterns)


def matching_rules(table: RulesTable, values: Values) -> tuple[Rule, ...]:
    r"""Return all rules that match the message, in the order of the table.

    >>> from mqdlq.rules import parse
    >>> table = parse("REASON(2053) ACTION(RETRY)\nDESTQ(PAY*) ACTION(IGNORE)\nACTION(DISCARD)\n")
    >>> letter = {"dlh_reason": 2085, "dlh_dest_q_name": "PAYMENTS"}
    >>> [rule.action.name for rule in matching_rules(table, letter)]
    ['IGNORE', 'DISCARD']
    """
    return tuple(rule for rule in table.rules if matches(rule, values))


# Explain for one message which rules match, and why the others do not.

OTHER_VALUE: Final = "another value or not there"
"""The text for a property that does not meet a condition; its value is not stored."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A pattern that did not match, and the value it was compared with.

    The value of an extension is text, "" if it is unknown. With `only_nuls` it would match if the
    field's NULs were blanks.
    """

    pattern: Pattern
    actual: str | int
    only_nuls: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """The result of one rule: `failures` are the patterns that did not match, in written order."""

    rule: Rule
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """The trace of every rule, and the chain of rules to try, in order."""

    chain: tuple[Rule, ...]
    traces: tuple[Trace, ...]

    @property
    def nearest(self) -> Trace | None:
        """The first rule with the fewest failing patterns, if no rule matches."""
        if self.chain:
            return None
        return min(self.traces, key=lambda trace: len(trace.failures))


def explain(table: RulesTable, values: Values) -> Explanation:
    """Trace every rule in order; the chain ends at the first matching rule that cannot fail."""
    traces = tuple(_trace(rule, values) for rule in table.rules)
    chain = []
    for trace in traces:
        if not trace.failures:
            chain.append(trace.rule)
            if trace.rule.cannot_fail:
                break
    return Explanation(tuple(chain), traces)


def _trace(rule: Rule, values: Values) -> Trace:
    failures = []
    for pattern in sorted(rule.patterns, key=lambda pattern: pattern.place):
        actual = pattern.value_in(values)
        if not pattern.matches(actual):
            shown = _present(pattern, actual, values)
            failures.append(Failure(pattern, shown, _only_nuls(pattern, actual)))
    return Trace(rule, tuple(failures))


def _present(pattern: Pattern, actual: str | int | None, values: Values) -> str | int:
    """Return a value as it is compared: an absent one is blank, or 0; "" if it is unknown."""
    keyword = KNOWN[pattern.keyword]
    if keyword.kind is Kind.PROPERTY:
        return OTHER_VALUE if pattern.value in (values.get("properties_unmet") or ()) else ""
    if keyword.is_extension:
        return shown_value(keyword, "" if actual is None else actual)
    return actual or ("" if keyword.kind is Kind.TEXT else 0)


def _only_nuls(pattern: Pattern, actual: str | int | None) -> bool:
    """Whether only NULs prevent a name from matching (IBM's APAR IT31856)."""
    if not isinstance(actual, str) or "\0" not in actual:
        return False
    return pattern.matches(with_nuls_as_blanks({"": actual})[""])
