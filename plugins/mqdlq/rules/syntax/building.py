"""Build control data and rules from statements, and check keywords against each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from mqdlq.constants import ALL_NAMES, PLATFORM_DEPENDENT, family_of
from mqdlq.model import Action, PutAuthority, QueueKind
from mqdlq.rules.diagnostics import Place, Report, listed, quoted, shortened
from mqdlq.rules.extensions import ConditionError, canonical_condition
from mqdlq.rules.keywords import EXTENSIONS, KEYWORDS, KNOWN, MAX_NUMBER, Keyword, Kind, Part
from mqdlq.rules.records import ControlData, Pattern, Rule
from mqdlq.rules.syntax.grammar import Parameter, Statement, Value
from mqdlq.rules.syntax.lines import Entry
from mqdlq.rules.wildcards import canonical

# Find the parts of a rule that have no meaning for the messages on a backout queue.
#
# These messages have no MQDLH: nothing says why they were backed out, or where they were to go. A
# rule can forward them unchanged to a queue that it names, discard them, or ignore them.

_WHY: Final = "which messages on a backout queue do not have"

MISSING_INPUT_QUEUE: Final = (
    "the table of a backout queue names no INPUTQ; add control data such as INPUTQ(ORDERS.BACKOUT)"
)


def find_needs_of_dlh(values: Mapping[str, str | int | None]) -> Iterator[tuple[str, str]]:
    """Yield each keyword of a rule that needs an MQDLH, with the error; None is a faulty value."""
    for name, value in values.items():
        if needed := _need_of_dlh(name, value):
            yield name, needed


def _need_of_dlh(name: str, value: str | int | None) -> str:
    keyword = KNOWN[name]
    if keyword.is_extension and not keyword.column_on(QueueKind.BACKOUT):
        return f"{name} compares {keyword.field}, for which it needs an MQDLH, {_WHY}; remove it"
    if keyword.is_pattern and not keyword.column_on(QueueKind.BACKOUT):
        return f"{name} compares MQDLH.{keyword.field}, {_WHY}; remove the pattern"
    if name == "ACTION" and value == Action.RETRY:
        return (
            f"ACTION(RETRY) needs the destination in the MQDLH, {_WHY}; use ACTION(FWD) with FWDQ"
        )
    if name == "HEADER":
        return f"HEADER keeps or removes the MQDLH, {_WHY}; remove it"
    if name in ("FWDQ", "FWDQM") and str(value).startswith("&"):
        what = "queue" if name == "FWDQ" else "queue manager"
        return (
            f"{name}({shortened(str(value))}) takes the target from the message, which rules of a"
            f" dead-letter queue do; name a {what}"
        )
    return ""


# Build control data and rules from statements, and check keywords against each other.

_PLACES_IN_PRINT: Final = {name: at for at, name in enumerate(KNOWN)}


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """A rule as written: the first line of its entry, and its keywords in order."""

    line: int
    keywords: Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class _Setting:
    """A keyword of an entry; `value` is None if a fault was reported."""

    parameter: Parameter
    value: str | int | None


class Builder:
    """Builder of a table's control data and rules from its statements.

    Only the keywords `allowed` are accepted: IBM's, or also the extensions.
    """

    def __init__(
        self, report: Report, allowed: Mapping[str, Keyword], queue_kind: QueueKind
    ) -> None:
        self._allowed = allowed
        self.control = ControlData()
        self.written_control: Mapping[str, str | int] = {}
        self.rules: list[Rule] = []
        self.written_rules: list[WrittenRule] = []
        self._report = report
        self._queue_kind = queue_kind
        self._control_line = 0
        self._entry_count = 0
        self._rule_count = 0

    def add(self, statement: Statement) -> None:
        self._entry_count += 1
        part = _part_of(statement)
        reader = _StatementReader(statement, part, self._allowed, self._report)
        settings = reader.settings()
        if part is Part.CONTROL:
            self._add_control(statement, settings)
            return
        self._rule_count += 1
        if part is Part.RULE:
            reader.check_rule(settings)
            if self._queue_kind is QueueKind.BACKOUT:
                reader.check_without_dlh(settings)
            if not self._report.has_errors:
                self._add_rule(statement, settings)

    def check_end(self, text: str) -> None:
        if not self._rule_count:
            last = max(1, text.count("\n") + (not text.endswith("\n")))
            self._report.error("no-rule", Place(last, 1, 1, ""), "the table has no rule")
        is_backout = self._queue_kind is QueueKind.BACKOUT
        if is_backout and not self.control.input_q and not self._report.has_errors:
            self._report.error("missing-inputq", Place(1, 1, 1, ""), MISSING_INPUT_QUEUE)

    def _add_control(self, statement: Statement, settings: Mapping[str, _Setting]) -> None:
        place = statement.entry.place(*_span(statement.parameters[0]))
        if self._control_line:
            self._report.error(
                "repeated-control-data",
                place,
                f"the table already has control data at line {self._control_line};"
                " write it as one entry, continued with + or -",
            )
        elif self._entry_count > 1:
            self._report.error(
                "misplaced-control-data", place, "control data must be the first entry of the table"
            )
        else:
            self.written_control = _written(settings)
            self.control = _control_data(self.written_control)
        self._control_line = self._control_line or statement.entry.line

    def _add_rule(self, statement: Statement, settings: Mapping[str, _Setting]) -> None:
        line = statement.entry.line
        written = _written(settings)
        self.rules.append(_rule(len(self.rules) + 1, line, written, self._queue_kind))
        self.written_rules.append(WrittenRule(line, written))


class _StatementReader:
    """Reader of one statement's settings, which also checks them against each other."""

    def __init__(
        self,
        statement: Statement,
        part: Part | None,
        allowed: Mapping[str, Keyword],
        report: Report,
    ) -> None:
        self._allowed = allowed
        self._statement = statement
        self._entry = statement.entry
        self._part = part
        self._report = report
        self._meant: set[str] = set()

    def settings(self) -> dict[str, _Setting]:
        """Return the keywords that belong to this kind of entry, and report all others."""
        settings: dict[str, _Setting] = {}
        for parameter in self._statement.parameters:
            if self._report.is_full:
                break
            keyword = self._allowed.get(parameter.keyword)
            if keyword is None and parameter.keyword in EXTENSIONS:
                self._report_extension(parameter)
                continue
            if keyword is None:
                self._report_unknown(parameter)
                continue
            if keyword.name in settings:
                first = self._entry.place(settings[keyword.name].parameter.start)
                self._error(
                    "repeated-keyword", parameter, f"{keyword.name} is repeated (first at {first})"
                )
                continue
            if self._part and keyword.part is not self._part:
                self._report_misplaced(parameter)
            value = parameter.value
            settings[keyword.name] = _Setting(
                parameter,
                None if value is None else read_value(keyword, value, self._entry, self._report),
            )
        return settings

    def check_rule(self, settings: Mapping[str, _Setting]) -> None:
        action = settings.get("ACTION")
        if action is None:
            if self._is_missing("ACTION", settings):
                length = len(self._entry.text)
                choices = listed(f"ACTION({action})" for action in Action)
                self._report.error(
                    "missing-action",
                    self._entry.place(0, length),
                    f"the rule has no ACTION; add {choices}",
                )
        elif action.value == Action.FWD:
            self._check_forward(action.parameter, settings)
        elif action.value is not None:
            self._check_other_action(Action(str(action.value)), settings)

    def check_without_dlh(self, settings: Mapping[str, _Setting]) -> None:
        """Report the keywords of a rule that have no meaning for messages without an MQDLH."""
        values = {name: setting.value for name, setting in settings.items()}
        for name, message in find_needs_of_dlh(values):
            self._error("needs-mqdlh", settings[name].parameter, message)

    def _check_forward(self, action: Parameter, settings: Mapping[str, _Setting]) -> None:
        if self._is_missing("FWDQ", settings):
            self._error("missing-fwdq", action, "ACTION(FWD) needs FWDQ, the queue to forward to")
        for name in ("FWDQ", "FWDQM"):
            if name in settings:
                self._check_target(settings[name])

    def _check_target(self, setting: _Setting) -> None:
        target = setting.value
        if not isinstance(target, str):
            return
        name = setting.parameter.keyword
        if name == "FWDQ" and not target.strip(" "):
            self._error("blank-fwdq", setting.parameter, "FWDQ is blank; name a queue")
        elif target.startswith("&") and target != (meant := _target(name, target)):
            self._report.warning(
                "inexact-substitution",
                self._entry.place(*_span(setting.parameter)),
                f"{name}({shortened(target)}) is read as {name}({meant})",
            )

    def _check_other_action(self, action: Action, settings: Mapping[str, _Setting]) -> None:
        for name in ("FWDQ", "FWDQM", "HEADER"):
            if name in settings:
                self._error(
                    "only-with-fwd",
                    settings[name].parameter,
                    f"{name} requires ACTION(FWD), but the rule has ACTION({action})",
                )
        if action is Action.RETRY:
            return
        why = "puts nothing", "tries nothing" if action is Action.IGNORE else "succeeds at once"
        for name, reason in zip(("PUTAUT", "RETRY"), why, strict=True):
            if name in settings:
                self._report.warning(
                    "no-effect",
                    self._entry.place(*_span(settings[name].parameter)),
                    f"{name} has no effect, ACTION({action}) {reason}",
                )

    def _is_missing(self, name: str, settings: Mapping[str, _Setting]) -> bool:
        """Whether a keyword was omitted, rather than lost or misspelt, which is reported."""
        return self._statement.is_whole and name not in settings and name not in self._meant

    def _report_unknown(self, parameter: Parameter) -> None:
        meant = closest(parameter.keyword, KEYWORDS)
        self._meant.add(meant)
        advice = f"; did you mean {meant}?" if meant else ""
        self._error(
            "unknown-keyword", parameter, f"unknown keyword {shortened(parameter.keyword)}{advice}"
        )

    def _report_extension(self, parameter: Parameter) -> None:
        name = parameter.keyword
        self._error(
            "extension",
            parameter,
            f"{name} is an extension of mqdlq, which no table of runmqdlq has; write the rule in"
            f" YAML, with '{name.lower()}:' under 'extensions:'",
        )

    def _report_misplaced(self, parameter: Parameter) -> None:
        if self._part is Part.CONTROL:
            message = (
                f"{parameter.keyword} belongs to a rule, not to control data;"
                " begin each rule on a new line"
            )
        else:
            message = (
                f"{parameter.keyword} belongs to the control data, the first entry of the table"
            )
        self._error("misplaced-keyword", parameter, message)

    def _error(self, code: str, parameter: Parameter, message: str) -> None:
        self._report.error(code, self._entry.place(*_span(parameter)), message)


def _span(parameter: Parameter) -> tuple[int, int]:
    return parameter.start, parameter.end


def _part_of(statement: Statement) -> Part | None:
    """Classify an entry by its first keyword that is known, or nearly known."""
    for parameter in statement.parameters:
        keyword = KNOWN.get(parameter.keyword) or KEYWORDS.get(closest(parameter.keyword, KEYWORDS))
        if keyword:
            return keyword.part
    return None


def _written(settings: Mapping[str, _Setting]) -> dict[str, str | int]:
    return {name: s.value for name, s in settings.items() if s.value is not None}


def _control_data(written: Mapping[str, str | int]) -> ControlData:
    wait = written.get("WAIT", "YES")
    waits = {"YES": None, "NO": 0}
    return ControlData(
        input_q=str(written.get("INPUTQ", "")).rstrip(" "),
        input_q_mgr=str(written.get("INPUTQM", "")).rstrip(" "),
        retry_interval_s=int(written.get("RETRYINT", ControlData().retry_interval_s)),
        wait_s=waits[wait] if isinstance(wait, str) else wait,
    )


def _rule(ordinal: int, line: int, written: Mapping[str, str | int], queue_kind: QueueKind) -> Rule:
    action = Action(str(written["ACTION"]))
    is_put = action in (Action.RETRY, Action.FWD)
    return Rule(
        ordinal=ordinal,
        line=line,
        patterns=_patterns(written, queue_kind),
        action=action,
        fwd_q=_target("FWDQ", str(written.get("FWDQ", ""))),
        fwd_q_mgr=_target("FWDQM", str(written.get("FWDQM", ""))),
        header=written.get("HEADER", "YES") == "YES",
        put_authority=PutAuthority(str(written.get("PUTAUT", "DEF")) if is_put else "DEF"),
        retry=int(written.get("RETRY", 1)) if action is not Action.IGNORE else 1,
    )


def _patterns(written: Mapping[str, str | int], queue_kind: QueueKind) -> tuple[Pattern, ...]:
    patterns = []
    for place, (name, value) in enumerate(written.items()):
        keyword = KNOWN[name]
        meaning = canonical(value) if isinstance(value, str) else value
        if keyword.is_pattern and meaning != "*":
            patterns.append(Pattern(name, keyword.column_on(queue_kind), meaning, place))
    return tuple(sorted(patterns, key=lambda pattern: _PLACES_IN_PRINT[pattern.keyword]))


def _target(keyword: str, written: str) -> str:
    """Return the target of FWD; only the first letter of a substitution after & counts."""
    target = written.rstrip(" ")
    if not target.startswith("&"):
        return target
    field = "REPLY" if target[1:2].upper() == "R" else "DEST"
    return f"&{field}QM" if keyword == "FWDQM" else f"&{field}Q"


# Parse the value of a keyword, or report its fault.

_NEEDS_QUOTES: Final = re.compile(r"[^A-Za-z0-9./_%*?&]|(?<!^)&")
_UNDECODED: Final = re.compile("[\ud800-\udfff]")
_UNUSUAL: Final = re.compile(r"[^ -~\t]")
_DIGITS: Final = re.compile(r"0*([0-9]+)", re.ASCII)
_CHARACTERS: Final = {" ": "a blank", "\t": "a tab", "'": "a quotation mark"}
_LONGEST_GUESS: Final = 64


class _FaultError(Exception):
    """A value that is not accepted; caught by the function that knows its place."""

    def __init__(self, code: str, message: str, at: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.at = at


def read_value(keyword: Keyword, value: Value, entry: Entry, report: Report) -> str | int | None:
    """Return the value: text in its final case, or a number, also for a symbolic name.

    A single ``*`` in place of a number is returned unchanged. None means that a fault was reported.
    """
    try:
        text = _unquoted(keyword, value)
        if keyword.kind in (Kind.TEXT, Kind.NAME):
            _check_text(keyword, text)
            written: str | int = text
        elif keyword.is_extension:
            return canonical_condition(keyword, text)
        else:
            written = _word_or_number(keyword, text.rstrip(" "))
    except ConditionError as fault:
        message = f"{keyword.name} {fault}"
        report.error(fault.code, entry.place(value.start, value.end), message)
        return None
    except _FaultError as fault:
        start = value.start if fault.at is None else value.start + fault.at
        end = value.end if fault.at is None else start + 1
        report.error(fault.code, entry.place(start, end), str(fault))
        return None
    _warn(keyword, text, value, entry, report)
    return written


def closest(word: str, candidates: Iterable[str], likeness: float = 0.6) -> str:
    """Return the candidate that a misspelt word most resembles, or ""."""
    if len(word) > _LONGEST_GUESS:
        return ""
    return next(iter(get_close_matches(word, list(candidates), n=1, cutoff=likeness)), "")


def _unquoted(keyword: Keyword, value: Value) -> str:
    if value.is_quoted:
        if not value.text:
            raise _FaultError(
                "empty-value",
                f"{keyword.name} has no value; for a blank field write {keyword.name}(' ')",
            )
        if _UNDECODED.search(value.text):
            raise _FaultError("not-utf8", "the value is not UTF-8 text")
        return value.text
    if not keyword.takes_text:
        return value.text.upper()
    found = _NEEDS_QUOTES.search(value.text)
    if found:
        char = _CHARACTERS.get(found.group()) or quoted(found.group())
        doubled = value.text.replace("'", "''")
        better = f"{keyword.name}('{shortened(doubled)}')"
        raise _FaultError(
            "needs-quotes", f"{char} requires quotation marks: {better}", found.start()
        )
    # Unquoted letters become capitals: IBM's own example has fwdqm(bbbb.2).
    return value.text.upper()


def _check_text(keyword: Keyword, text: str) -> None:
    if keyword.kind is Kind.NAME:
        _refuse_wildcards(keyword, text)
    # Trailing blanks are not significant, and asterisks do not count ("any other
    # characters", IBM MQ docs, "Rules table conventions").
    length = len(text.rstrip(" ")) - text.count("*")
    if length > keyword.length:
        not_counted = " without asterisks" if "*" in text else ""
        raise _FaultError(
            "too-long",
            f"{keyword.name} has {length} characters{not_counted}, MQ allows {keyword.length}",
        )


def _word_or_number(keyword: Keyword, text: str) -> str | int:
    if text in keyword.words:
        return text
    if keyword.kind is Kind.PATTERN_NUMBER:
        if text == "*":
            return text
        if "*" in text or "?" in text:
            raise _FaultError(
                "wildcard", f"{keyword.name} takes a number or a single '*', found {quoted(text)}"
            )
    else:
        _refuse_wildcards(keyword, text)
    return _number(keyword, text)


def _number(keyword: Keyword, text: str) -> int:
    if keyword.least is not None:
        digits = _DIGITS.fullmatch(text)
        if digits:
            # Check the length first: Python does not convert thousands of digits.
            too_large = len(digits.group(1)) > len(str(MAX_NUMBER))
            return _in_range(keyword, MAX_NUMBER + 1 if too_large else int(text), shortened(text))
        if text in ALL_NAMES:
            return _in_range(keyword, ALL_NAMES[text], f"{text} ({ALL_NAMES[text]})")
        if text in PLATFORM_DEPENDENT:
            raise _FaultError(
                "unknown-name",
                f"{text} has a different number on each platform; name the platform's own",
            )
        if text.startswith("-") and _DIGITS.fullmatch(text[1:]):
            raise _FaultError("out-of-range", _range_text(keyword, shortened(text)))
        if text.startswith("MQ"):
            raise _FaultError(
                "unknown-name", f"unknown symbolic name {shortened(text)}{_guess_name(text)}"
            )
    raise _FaultError(
        "invalid-value",
        f"{keyword.name} takes {_choices(keyword)}, found {quoted(text)}{_guess(keyword, text)}",
    )


def _in_range(keyword: Keyword, number: int, shown: str) -> int:
    if keyword.least is None or not keyword.least <= number <= MAX_NUMBER:
        raise _FaultError("out-of-range", _range_text(keyword, shown))
    return number


def _range_text(keyword: Keyword, shown: str) -> str:
    return f"{keyword.name} takes a number from {keyword.least} to {MAX_NUMBER}, found {shown}"


def _refuse_wildcards(keyword: Keyword, text: str) -> None:
    if "*" in text or "?" in text:
        raise _FaultError("wildcard", f"{keyword.name} takes no wildcards, found {quoted(text)}")


def _choices(keyword: Keyword) -> str:
    choices = list(keyword.words)
    if keyword.least is not None:
        choices.append(f"a number from {keyword.least} to {MAX_NUMBER}")
    if keyword.families:
        choices.append(f"an {' or '.join(keyword.families)} name")
    if keyword.kind is Kind.PATTERN_NUMBER:
        choices.append("'*'")
    return listed(choices)


def _guess(keyword: Keyword, text: str) -> str:
    for family in keyword.families:
        if f"{family}_{text}" in ALL_NAMES:
            name = f"{family}_{text}"
            return f"; did you mean {name} ({ALL_NAMES[name]})?"
    word = closest(text.upper(), keyword.words) if keyword.words else ""
    return f"; did you mean {word}?" if word else ""


def _guess_name(text: str) -> str:
    name = closest(text, ALL_NAMES, likeness=0.8)
    return f"; did you mean {name} ({ALL_NAMES[name]})?" if name else ""


def _warn(keyword: Keyword, text: str, value: Value, entry: Entry, report: Report) -> None:
    unusual = _UNUSUAL.search(value.text)
    if unusual:
        # With doubled quotation marks, only the place of the value is known.
        report.warning(
            "non-ascii",
            entry.place(value.start, value.end),
            f"{keyword.name} has a character outside printable ASCII, which is compared"
            " according to the message's CCSID",
        )
    if keyword.takes_text or text not in ALL_NAMES or family_of(text) in keyword.families:
        return
    usual = f"is compared with {listed(keyword.families)} names" if keyword.families else "counts"
    report.warning(
        "other-family",
        entry.place(value.start, value.end),
        f"{keyword.name} {usual}; {text} ({ALL_NAMES[text]}) is of another family",
    )
