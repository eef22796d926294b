"""Report doubtful rules of a valid table as warnings."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import Final, Literal

from mqdlq.constants import MQRC, reason_text
from mqdlq.model import Action, Destination, QueueKind
from mqdlq.rules.diagnostics import Diagnostic, Place, Report, Severity, listed, shortened
from mqdlq.rules.grammar import Entry, entries, read_statement
from mqdlq.rules.keywords import KEYWORDS
from mqdlq.rules.reading import CheckResult, check, decoded
from mqdlq.rules.table import Pattern, Rule, RulesTable
from mqdlq.rules.wildcards import compiled


class Code(StrEnum):
    """The linter's codes; `docs/reference/rules.md` has a section for each."""

    UNREACHABLE_RULE = "unreachable-rule"
    SHADOWED_RULE = "shadowed-rule"
    EARLY_IGNORE = "early-ignore"
    NO_CATCH_ALL = "no-catch-all"
    FORWARD_TO_INPUT_QUEUE = "forward-to-input-queue"
    FORWARD_LOOP = "forward-loop"
    DISCARD_EVERYTHING = "discard-everything"
    HOPELESS_RETRY = "hopeless-retry"
    POISON_RETRY = "poison-retry"
    UNGUARDED_REPLY_QUEUE = "unguarded-reply-queue"
    DROPPED_QUEUE_MANAGER = "dropped-queue-manager"


Finding = tuple[Code, Rule, str, str]
"""A code, a rule, the keyword that is the subject, or "" for the whole rule, and the message."""


class Effort:
    """The remaining work allowed, so that hostile tables cannot delay the linter.

    A unit of work takes a few microseconds.
    """

    def __init__(self, allowed: int = 400_000) -> None:
        self._left = allowed

    def spend(self) -> bool:
        self._left -= 1
        return self._left >= 0


_PARSER_WARNINGS: Final = (
    *("byte-order-mark", "comment-in-entry", "crlf", "indented-asterisk", "inexact-substitution"),
    *("long-line", "no-effect", "no-final-newline", "no-separator", "non-ascii", "other-family"),
    "tab",
)

WARNING_CODES: Final = frozenset({*_PARSER_WARNINGS, *(code.value for code in Code)})
"""Every code of a warning; `promote` accepts these."""

Level = Literal["error", "warning", "off"]
"""The severity that a handler assigns to a warning."""


def lint(
    table: RulesTable,
    *,
    queue: str = "",
    queue_manager: str = "",
    text: str | bytes = "",
    source: str = "<rules>",
) -> tuple[Diagnostic, ...]:
    """Return warnings about a table, in the table's order.

    `queue` is the dead-letter queue and `queue_manager` its queue manager; by default, INPUTQ and
    INPUTQM. `text` is the table's source, used to locate keywords; without it a warning is at
    column 1 of its rule's line.
    """
    control, report = table.control, Report(source)
    input_queue = queue or control.input_q, queue_manager or control.input_q_mgr
    findings = list(_findings(table, input_queue))
    # Faults of the text were already reported when it was checked.
    found = entries(decoded(text), Report("")) if findings else ()
    by_line = {entry.line: entry for entry in found}
    for code, rule, keyword, message in findings:
        report.warning(code.value, _place(rule, keyword, by_line), message)
    # The alternatives of a rule in YAML share a line, so equal warnings are reported once.
    return tuple(dict.fromkeys(report.diagnostics()))


def review(
    text: str | bytes,
    source: str = "<rules>",
    queue_kind: QueueKind = QueueKind.DEAD_LETTER,
    *,
    queue: str = "",
    queue_manager: str = "",
    frozen: bool = False,
) -> CheckResult:
    """Check a table, and lint it if it is valid; return all findings in one order."""
    result = check(text, source, queue_kind, frozen=frozen)
    if result.table is None:
        return result
    doubts = lint(result.table, queue=queue, queue_manager=queue_manager, text=text, source=source)
    found = sorted((*result.diagnostics, *doubts), key=lambda d: (d.line, d.column))
    return replace(result, diagnostics=tuple(found))


def promote(
    diagnostics: Iterable[Diagnostic], levels: Mapping[str, Level]
) -> tuple[Diagnostic, ...]:
    """Apply `levels`, by code, to warnings: make them errors, keep them, or omit them.

    Errors stay errors, and a code without a level keeps its severity.
    """
    promoted = []
    for diagnostic in diagnostics:
        level = levels.get(diagnostic.code, "warning")
        if diagnostic.severity is Severity.ERROR or level == "warning":
            promoted.append(diagnostic)
        elif level == "error":
            promoted.append(replace(diagnostic, severity=Severity.ERROR))
    return tuple(promoted)


def _findings(table: RulesTable, input_queue: Destination) -> Iterator[Finding]:
    yield from find_unreached(table, Effort())
    yield from find_uncaught(table)
    yield from find_loops(table, input_queue, Effort())
    for rule in table.rules:
        for find in _OF_A_RULE:
            yield from find(rule, input_queue)


def _place(rule: Rule, keyword: str, by_line: Mapping[int, Entry]) -> Place:
    """Return the place of a keyword, or of the whole rule; `by_line` has the rules' entries."""
    entry = by_line.get(rule.line)
    if entry is None:
        return Place(rule.line, 1, 1, "")
    written, _ = read_statement(entry, Report("")) if keyword else ((), True)
    places = {one.keyword: (one.start, one.end) for one in written}
    return entry.place(*places.get(keyword, (0, len(entry.text))))


# Decide whether one pattern matches every value that another one matches.
#
# "Yes" is always correct. "No" may be wrong, and then a warning is missing.
#
# The wide pattern is matched against the narrow one as if that were a field. In this field, a
# character that no pattern contains replaces each ``?``, and another one, which only an asterisk of
# the wide pattern matches, replaces each ``*``.

# No rules table contains lone surrogates.
_ANY_CHARACTER: Final = "\ud800"
_ANY_TEXT: Final = "\ud801"
_ONE: Final = rf"(?![ {_ANY_TEXT}]*+\Z)[^{_ANY_TEXT}]"
"""The regular expression for ``?``: any character except a blank that may be padding."""

_WILDCARDS: Final = re.compile(r"[*?]{2,}")


def rule_covers(wide: Rule, narrow: Rule) -> bool:
    """Whether `wide` matches every message that `narrow` matches.

    Columns are independent and every pattern matches some value, so this holds exactly if each
    pattern of `wide` covers the one of the same column.
    """
    patterns = {pattern.column: pattern for pattern in narrow.patterns}
    return all(
        pattern.column in patterns and covers(pattern, patterns[pattern.column])
        for pattern in wide.patterns
    )


def covers(wide: Pattern, narrow: Pattern) -> bool:
    """Whether `wide` matches every value that `narrow` matches; both are for one column."""
    if wide.value == narrow.value:
        return True
    if isinstance(wide.value, int) or isinstance(narrow.value, int) or wide.is_extension:
        return False
    return includes(wide.value, narrow.value, KEYWORDS[wide.keyword].length)


def includes(wide: str, narrow: str, length: int) -> bool:
    """Whether `wide` matches every field of this length that `narrow` matches.

    Both are canonical. `narrow` fits the field, not counting asterisks.
    """
    if set(wide) == {"*", "?"}:  # a minimum number of characters
        return len(narrow.replace("*", "").rstrip(" ")) >= wide.count("?")
    field = _field(narrow, length)
    return any(matcher.match(field) for matcher in _matchers(wide))


@lru_cache(maxsize=8192)
def _matchers(pattern: str) -> tuple[re.Pattern[str], ...]:
    """Return matchers for the pattern with each ``?`` before, and after, its ``*``."""
    forms = {pattern, _WILDCARDS.sub(_questions_first, pattern)}
    forms.add(_WILDCARDS.sub(lambda run: _questions_first(run)[::-1], pattern))
    return tuple(compiled(form, _ONE) for form in forms)


@lru_cache(maxsize=8192)
def _field(pattern: str, length: int) -> str:
    """Return a field that represents all values that a pattern matches."""
    text = pattern.replace("*", "")
    if "*" not in pattern or len(text) == length:  # a full field leaves no room for asterisks
        return text.replace("?", _ANY_CHARACTER).ljust(length)
    return pattern.replace("?", _ANY_CHARACTER).replace("*", _ANY_TEXT)


def _questions_first(run: re.Match[str]) -> str:
    """Return an equivalent run of wildcards in which no ``?`` follows a ``*``."""
    return "?" * run[0].count("?") + "*" * ("*" in run[0])


# Find rules that no message can reach, and messages that no rule catches.

_MOST_LINES: Final = 5


def find_unreached(table: RulesTable, effort: Effort) -> Iterator[Finding]:
    """Find rules whose messages all end at an earlier IGNORE or DISCARD.

    RETRY and FWD do not end a message: when their attempts are used up, later rules are tried.
    """
    finals = _FinalRules(effort)
    after_ignore: dict[Rule, list[Rule]] = {}
    for rule in table.rules:
        final = finals.first_covering(rule)
        if final is None:
            if rule.cannot_fail:
                finals.add(rule)
            continue
        because = (
            f"no message reaches this rule because ACTION({final.action}) at line {final.line}"
        )
        if not final.patterns:
            advice = "matches all messages; move that rule to the end"
            yield Code.UNREACHABLE_RULE, rule, "", f"{because} {advice}"
        elif final.action is Action.IGNORE and rule.action is not Action.IGNORE:
            after_ignore.setdefault(final, []).append(rule)
        else:
            advice = "matches all of its messages; move it before that rule or remove it"
            yield Code.SHADOWED_RULE, rule, "", f"{because} {advice}"
    for final, rules in after_ignore.items():
        yield Code.EARLY_IGNORE, final, "ACTION", _early_ignore([str(rule.line) for rule in rules])


def _early_ignore(lines: list[str]) -> str:
    where, belongs = f"rule at line {lines[0]}", "it belongs"
    if len(lines) > 1:
        more = [f"{len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
        where = f"rules at lines {listed([*lines[:_MOST_LINES], *more], 'and')}"
        belongs = "they belong"
    return (
        f"no message reaches the {where} because this ACTION(IGNORE) matches those messages first;"
        f" {belongs} before this one"
    )


def find_uncaught(table: RulesTable) -> Iterator[Finding]:
    """Find out whether messages can stay on the queue although no rule ignores them.

    They can if no rule matches every message, or if only a RETRY does, whose attempts may all fail.
    Several rules that match every message only together are not recognised.
    """
    catch_all = [rule for rule in table.rules if not rule.patterns]
    if any(rule.action is not Action.RETRY for rule in catch_all):
        return
    code, example = Code.NO_CATCH_ALL, "without patterns, such as ACTION(FWD) FWDQ(PARKED)"
    if catch_all:
        stays = "a message stays on the queue if every attempt of this ACTION(RETRY) fails"
        advice = f"end the table with another rule {example}"
        yield code, catch_all[-1], "ACTION", f"{stays}; {advice}"
    else:
        stays = "a message that no rule matches stays on the queue"
        yield code, table.rules[-1], "", f"{stays}; end the table with a rule {example}"


class _FinalRules:
    """The IGNORE and DISCARD rules so far, indexed by their exact patterns."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._by_columns: dict[tuple[str, ...], dict[tuple[str | int, ...], list[Rule]]] = {}

    def add(self, rule: Rule) -> None:
        exact = [pattern for pattern in rule.patterns if _is_exact(pattern)]
        rules = self._by_columns.setdefault(tuple(pattern.column for pattern in exact), {})
        rules.setdefault(tuple(pattern.value for pattern in exact), []).append(rule)

    def first_covering(self, rule: Rule) -> Rule | None:
        return min(self._covering(rule), key=lambda final: final.ordinal, default=None)

    def _covering(self, rule: Rule) -> Iterator[Rule]:
        values = {pattern.column: pattern.value for pattern in rule.patterns}
        for columns, rules in self._by_columns.items():
            if not self._effort.spend():
                return
            asked = tuple(values[column] for column in columns if column in values)
            for final in rules.get(asked, ()):
                if self._effort.spend() and rule_covers(final, rule):
                    yield final
                    break


def _is_exact(pattern: Pattern) -> bool:
    return isinstance(pattern.value, int) or not ("*" in pattern.value or "?" in pattern.value)


# Find rules that forward messages in a loop.

_SOURCE_KEYWORDS: Final = ("DESTQ", "DESTQM")


def find_loops(table: RulesTable, input_queue: Destination, effort: Effort) -> Iterator[Finding]:
    """Find two rules that forward to each other's source queues.

    Only literal names of queues on the local queue manager count. A rule whose target is among
    its own sources, such as DESTQ(A.*) FWDQ(A.PARKED), parks messages beside their queue and is
    skipped.
    """
    earlier: list[Rule] = []
    for rule in table.rules:
        if not _is_forward(rule, input_queue) or _is_source(rule, rule.fwd_q, input_queue):
            continue
        for first in earlier:
            if not effort.spend():
                return
            if _is_source(first, rule.fwd_q, input_queue) and _is_source(
                rule, first.fwd_q, input_queue
            ):
                message = (
                    f"the rule at line {first.line} forwards messages for {shortened(rule.fwd_q)}"
                    f" to {shortened(first.fwd_q)} and this rule sends them back;"
                    " forward them to a queue that neither rule forwards from"
                )
                yield Code.FORWARD_LOOP, rule, "FWDQ", message
                break
        earlier.append(rule)


def _is_local(rule: Rule, input_queue: Destination) -> bool:
    return rule.fwd_q_mgr in ("", input_queue[1])


def _is_forward(rule: Rule, input_queue: Destination) -> bool:
    has_source = any(pattern.keyword == "DESTQ" for pattern in rule.patterns)
    is_literal = rule.action is Action.FWD and not rule.fwd_q.startswith("&")
    return has_source and is_literal and _is_local(rule, input_queue)


def _is_source(rule: Rule, queue: str, input_queue: Destination) -> bool:
    """Whether the rule matches messages for this queue of the local queue manager."""
    names = {"DESTQ": queue, "DESTQM": input_queue[1]}
    return all(
        bool(names[pattern.keyword]) and pattern.matches(names[pattern.keyword])
        for pattern in rule.patterns
        if pattern.keyword in _SOURCE_KEYWORDS
    )


# Find doubtful actions: discarding everything, hopeless retries, incomplete targets.

_POISON: Final = MQRC["MQRC_BACKOUT_THRESHOLD_REACHED"]

_CURES: Final = {
    "someone must define the missing object": (
        *("MQRC_Q_DELETED", "MQRC_UNKNOWN_ALIAS_BASE_Q", "MQRC_UNKNOWN_OBJECT_NAME"),
        *("MQRC_UNKNOWN_OBJECT_Q_MGR", "MQRC_UNKNOWN_REMOTE_Q_MGR", "MQRC_UNKNOWN_XMIT_Q"),
        "MQRC_UNKNOWN_DEF_XMIT_Q",
    ),
    "someone must correct the definition": (
        *("MQRC_ALIAS_BASE_Q_TYPE_ERROR", "MQRC_Q_TYPE_ERROR", "MQRC_XMIT_Q_TYPE_ERROR"),
        *("MQRC_XMIT_Q_USAGE_ERROR", "MQRC_DEF_XMIT_Q_TYPE_ERROR", "MQRC_DEF_XMIT_Q_USAGE_ERROR"),
        *("MQRC_OBJECT_NAME_ERROR", "MQRC_OBJECT_Q_MGR_NAME_ERROR", "MQRC_REMOTE_Q_NAME_ERROR"),
        "MQRC_NAME_NOT_VALID_FOR_TYPE",
    ),
    "someone must grant the authority": ("MQRC_NOT_AUTHORIZED",),
    "the message does not change": (
        *("MQRC_MSG_TOO_BIG_FOR_Q", "MQRC_MSG_TOO_BIG_FOR_Q_MGR", "MQRC_MSG_TOO_BIG_FOR_CHANNEL"),
        *("MQRC_PERSISTENT_NOT_ALLOWED", "MQRC_PROPERTIES_TOO_BIG"),
    ),
}

HOPELESS_REASONS: Final = {MQRC[name]: cure for cure, names in _CURES.items() for name in names}
"""Reasons that do not pass by themselves, with their remedies; not full or inhibited queues."""

_FIELDS: Final = {"&DESTQ": ("DESTQM", "&DESTQM"), "&REPLYQ": ("REPLYQM", "&REPLYQM")}


def _find_forward_to_input_queue(rule: Rule, input_queue: Destination) -> Iterator[Finding]:
    """Find a FWDQ that is the dead-letter queue itself, on which IBM's handler loops."""
    if rule.fwd_q and rule.fwd_q == input_queue[0] and _is_local(rule, input_queue):
        message = (
            f"FWDQ({shortened(rule.fwd_q)}) is the queue that the messages come from, so each would"
            " return at once; forward them to another queue"
        )
        yield Code.FORWARD_TO_INPUT_QUEUE, rule, "FWDQ", message


def _find_discarded(rule: Rule, _input_queue: Destination) -> Iterator[Finding]:
    """Find a DISCARD that matches every message; ``DESTQ(*)`` does not count as a pattern."""
    if rule.action is Action.DISCARD and not rule.patterns:
        message = (
            "ACTION(DISCARD) without patterns discards every message that no earlier rule handles;"
            " name the messages by a pattern, or forward them"
        )
        yield Code.DISCARD_EVERYTHING, rule, "ACTION", message


def _find_hopeless_retry(rule: Rule, _input_queue: Destination) -> Iterator[Finding]:
    """Find a RETRY whose reason does not pass, or that returns a message its reader backs out."""
    reason = _value(rule, "REASON")
    if rule.action is not Action.RETRY or not isinstance(reason, int):
        return
    if reason == _POISON:
        message = (
            f"{reason_text(reason)} means that the message's reader backed it out repeatedly, and"
            " ACTION(RETRY) returns it to that reader; forward it to a queue that someone monitors"
        )
        yield Code.POISON_RETRY, rule, "REASON", message
    elif reason in HOPELESS_REASONS:
        message = (
            f"{reason_text(reason)} does not pass by itself ({HOPELESS_REASONS[reason]}), so every"
            " ACTION(RETRY) fails; forward the message to a queue that someone monitors"
        )
        yield Code.HOPELESS_RETRY, rule, "REASON", message


def _find_unguarded_reply(rule: Rule, _input_queue: Destination) -> Iterator[Finding]:
    """Find a FWDQ(&REPLYQ) that also matches messages without ReplyToQ (IBM uses REPLYQ(?*))."""
    if rule.fwd_q != "&REPLYQ":
        return
    guard = _pattern(rule, "REPLYQ")
    if guard is None or guard.matches(""):
        message = "FWDQ(&REPLYQ) names no queue if ReplyToQ is blank; add REPLYQ(?*)"
        yield Code.UNGUARDED_REPLY_QUEUE, rule, "FWDQ", message


def _find_dropped_queue_manager(rule: Rule, input_queue: Destination) -> Iterator[Finding]:
    """Find a put to a field's queue that drops the queue manager of the rule's own pattern.

    A literal queue name may be intended as local, unless it is the one in DESTQ.
    """
    if rule.fwd_q_mgr:
        return
    destination = _value(rule, "DESTQ")
    target = "&DESTQ" if rule.fwd_q and rule.fwd_q == destination else rule.fwd_q
    keyword, substitution = _FIELDS.get(target, ("", ""))
    asked = _value(rule, keyword)
    if asked and asked != input_queue[1]:
        message = (
            f"FWDQ({shortened(rule.fwd_q)}) without FWDQM is a queue of the local queue manager,"
            f" but the rule requires {keyword}({shortened(str(asked))}); add FWDQM({substitution})"
        )
        yield Code.DROPPED_QUEUE_MANAGER, rule, "FWDQ", message


_OF_A_RULE: Final[tuple[Callable[[Rule, Destination], Iterator[Finding]], ...]] = (
    _find_discarded,
    _find_hopeless_retry,
    _find_unguarded_reply,
    _find_dropped_queue_manager,
    _find_forward_to_input_queue,
)


def _pattern(rule: Rule, keyword: str) -> Pattern | None:
    return next((pattern for pattern in rule.patterns if pattern.keyword == keyword), None)


def _value(rule: Rule, keyword: str) -> str | int | None:
    pattern = _pattern(rule, keyword)
    return None if pattern is None else pattern.value
