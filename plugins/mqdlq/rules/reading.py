"""Parse the text of a rules table, or report all its faults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from mqdlq.constants import ALL_NAMES, PLATFORM_DEPENDENT, family_of
from mqdlq.model import Action, PutAuthority, QueueKind
from mqdlq.rules.diagnostics import Diagnostic, Place, Report, RulesError, listed, quoted, shortened
from mqdlq.rules.extensions import ConditionError, canonical_condition
from mqdlq.rules.grammar import Entry, Parameter, entries, read_statement
from mqdlq.rules.keywords import EXTENSIONS, KEYWORDS, KNOWN, MAX_NUMBER, Keyword, Kind, Part
from mqdlq.rules.table import ControlData, Pattern, Rule, RulesTable
from mqdlq.rules.wildcards import canonical

_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_FOREIGN_LINE_ENDS = {
    "\r": "CR",
    "\x85": "NEL (U+0085)",
    "\udc85": "NEL (X'85')",
    "\u2028": "U+2028",
    "\u2029": "U+2029",
}


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """A rule as written: the first line of its entry, and its keywords in order."""

    line: int
    keywords: Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A table, or None if it is rejected, with all its diagnostics.

    `control` and `rules` have the written keywords only: text without quotation marks and in its
    final case, symbolic names as numbers. They are empty if the table is rejected.
    """

    table: RulesTable | None
    diagnostics: tuple[Diagnostic, ...]
    control: Mapping[str, str | int] = field(default_factory=dict)
    rules: tuple[WrittenRule, ...] = ()

    def valid_table(self) -> RulesTable:
        """Return the table; raise RulesError with all faults if it is rejected."""
        if self.table is None:
            raise RulesError(self.diagnostics)
        return self.table


def check(
    text: str | bytes,
    source: str = "<rules>",
    queue_kind: QueueKind = QueueKind.DEAD_LETTER,
    *,
    frozen: bool = False,
) -> CheckResult:
    """Parse a table and report all its faults; a table with any error is rejected as a whole.

    Bytes are UTF-8 or ASCII. Diagnostics call the table `source`. The table is for queues of
    `queue_kind`. Only a `frozen` text, which mqdlq itself has written, has extensions.
    """
    report, start = Report(source), Place(1, 1, 1, "")
    builder = _Builder(report, KNOWN if frozen else KEYWORDS, queue_kind)
    if isinstance(text, bytes) and (encoding := _other_encoding(text)):
        message = f"the file is {encoding} text; save it as UTF-8 or ASCII"
        report.error("not-utf8", start, message)
    elif line_end := _foreign_line_end(decoded(text)):
        message = f"the lines end in {line_end}; save the file with LF or CR LF line ends"
        report.error("line-ends", start, message)
    else:
        builder.read(decoded(text))
    if report.has_errors:
        return CheckResult(None, report.diagnostics())
    table = RulesTable(builder.control, tuple(builder.rules), queue_kind)
    written = builder.written_control, tuple(builder.written_rules)
    return CheckResult(table, report.diagnostics(), *written)


def treatment_changes(frozen_text: str) -> bool:
    """Whether rules can treat an unchanged message differently in a later run: `changes`."""
    names = (name for name, keyword in EXTENSIONS.items() if keyword.changes)
    return any(table_with(frozen_text, name) for name in names)


def table_with(frozen_text: str, name: str) -> RulesTable | None:
    """Return a frozen table if a rule has the extension of this name, such as AGE, else None."""
    # Most tables have no extension and need not be parsed.
    if f"{name}(" not in frozen_text:
        return None
    table = parse(frozen_text, frozen=True)
    return table if EXTENSIONS[name] in table.extensions.values() else None


def find_unstored(frozen_text: str, stored_texts: Iterable[str]) -> list[str]:
    """Return what a frozen table compares and some snapshots do not have, such as "attempts".

    `stored_texts` are the frozen tables of the snapshots, which have what their own tables compare.
    """
    compared = _stored_for(frozen_text)
    unstored = {what for text in set(stored_texts) for what in compared - _stored_for(text)}
    return sorted(unstored)


def _stored_for(frozen_text: str) -> set[str]:
    found = {"attempts"} if table_with(frozen_text, "ATTEMPTS") else set()
    table = table_with(frozen_text, "PROPERTY")
    conditions = table.property_conditions if table else ()
    return found | {f"property {condition}" for condition in conditions}


def _other_encoding(data: bytes) -> str:
    """Return the name of an encoding other than UTF-8 and ASCII, or ""."""
    if data.startswith(_UTF_16_MARKS):
        return "UTF-16"
    # Letters are the same in every EBCDIC code page, and every rule has an ACTION.
    is_ebcdic = b"ACTION" not in data.upper() and "ACTION" in data.decode("cp500").upper()
    return "EBCDIC" if is_ebcdic else ""


def _foreign_line_end(text: str) -> str:
    """Return the name of a line end other than LF and CR LF, or ""."""
    if "\n" in text:
        return ""
    within = text.rstrip("".join(_FOREIGN_LINE_ENDS))
    return next((name for end, name in _FOREIGN_LINE_ENDS.items() if end in within), "")


def decoded(text: str | bytes) -> str:
    """Decode a table; bytes that are not UTF-8 become lone surrogates.

    A comment may have such bytes. Elsewhere they are reported as errors.
    """
    return text if isinstance(text, str) else text.decode("utf-8", "surrogateescape")


def parse(
    text: str | bytes,
    source: str = "<rules>",
    queue_kind: QueueKind = QueueKind.DEAD_LETTER,
    *,
    frozen: bool = False,
) -> RulesTable:
    """Parse a table, as `check` does; raise RulesError with all faults if it has an error."""
    return check(text, source, queue_kind, frozen=frozen).valid_table()


# Build control data and rules from entries, and check keywords against each other.

_PLACES_IN_PRINT: Final = {name: at for at, name in enumerate(KNOWN)}


class _Builder:
    """Builder of a table's control data and rules from its entries.

    Only the keywords `allowed` are accepted: IBM's, or also the extensions.
    """

    def __init__(
        self, report: Report, allowed: Mapping[str, Keyword], queue_kind: QueueKind
    ) -> None:
        self.control = ControlData()
        self.written_control: Mapping[str, str | int] = {}
        self.rules: list[Rule] = []
        self.written_rules: list[WrittenRule] = []
        self._report = report
        self._allowed = allowed
        self._queue_kind = queue_kind
        self._control_line = 0
        self._entry_count = 0
        self._rule_count = 0

    def read(self, text: str) -> None:
        for entry in entries(text, self._report):
            self._add(entry)
            if self._report.is_full:
                break
        if not self._rule_count:
            last = max(1, text.count("\n") + (not text.endswith("\n")))
            self._report.error("no-rule", Place(last, 1, 1, ""), "the table has no rule")
        is_backout = self._queue_kind is QueueKind.BACKOUT
        if is_backout and not self.control.input_q and not self._report.has_errors:
            self._report.error(
                "missing-inputq",
                Place(1, 1, 1, ""),
                "the table of a backout queue names no INPUTQ; add control data such as"
                " INPUTQ(ORDERS.BACKOUT)",
            )

    def _add(self, entry: Entry) -> None:
        self._entry_count += 1
        read = _EntryReader(entry, self._allowed, self._report)
        if read.part is Part.CONTROL:
            self._add_control(entry, read)
            return
        self._rule_count += 1
        if read.part is Part.RULE:
            read.check_rule()
            if self._queue_kind is QueueKind.BACKOUT:
                read.check_without_dlh()
            if not self._report.has_errors:
                number = len(self.rules) + 1
                self.rules.append(_rule(number, entry.line, read.written, self._queue_kind))
                self.written_rules.append(WrittenRule(entry.line, read.written))

    def _add_control(self, entry: Entry, read: _EntryReader) -> None:
        if self._control_line:
            self._report.error(
                "repeated-control-data",
                read.place,
                f"the table already has control data at line {self._control_line};"
                " write it as one entry, continued with + or -",
            )
        elif self._entry_count > 1:
            message = "control data must be the first entry of the table"
            self._report.error("misplaced-control-data", read.place, message)
        else:
            self.written_control = read.written
            self.control = _control_data(self.written_control)
        self._control_line = self._control_line or entry.line


class _EntryReader:
    """Reader of one entry's keywords, which also checks them against each other.

    `part` is the kind of the entry by its first keyword that is known, or nearly known, if any.
    """

    def __init__(self, entry: Entry, allowed: Mapping[str, Keyword], report: Report) -> None:
        self._entry = entry
        self._report = report
        self._in_order, self._is_whole = read_statement(entry, report)
        names = (each.keyword for each in self._in_order)
        found = (KNOWN.get(name) or KEYWORDS.get(closest(name, KEYWORDS)) for name in names)
        self.part = next((keyword.part for keyword in found if keyword), None)
        self._parameters: dict[str, Parameter] = {}
        self._values: dict[str, str | int | None] = {}  # None: a fault was reported
        self._meant: set[str] = set()
        for parameter in self._in_order:
            if report.is_full:
                break
            self._add(parameter, allowed.get(parameter.keyword))

    @property
    def place(self) -> Place:
        return self._place(self._in_order[0])

    @property
    def written(self) -> dict[str, str | int]:
        return {name: value for name, value in self._values.items() if value is not None}

    def _add(self, parameter: Parameter, keyword: Keyword | None) -> None:
        name = parameter.keyword
        if keyword is None:
            self._report_unknown(parameter)
        elif name in self._parameters:
            first = self._place(self._parameters[name])
            self._error("repeated-keyword", parameter, f"{name} is repeated (first at {first})")
        else:
            if self.part and keyword.part is not self.part:
                self._report_misplaced(parameter)
            self._parameters[name] = parameter
            self._values[name] = _read_value(keyword, parameter, self._entry, self._report)

    def check_rule(self) -> None:
        action = self._values.get("ACTION")
        if action == Action.FWD:
            self._check_forward()
        elif action is not None:
            self._check_other_action(Action(str(action)))
        elif self._is_missing("ACTION"):
            choices = listed(f"ACTION({action})" for action in Action)
            self._report.error(
                "missing-action",
                self._entry.place(0, len(self._entry.text)),
                f"the rule has no ACTION; add {choices}",
            )

    def check_without_dlh(self) -> None:
        for name, value in self._values.items():
            if message := _need_of_dlh(name, value):
                self._error("needs-mqdlh", self._parameters[name], message)

    def _check_forward(self) -> None:
        if self._is_missing("FWDQ"):
            action = self._parameters["ACTION"]
            self._error("missing-fwdq", action, "ACTION(FWD) needs FWDQ, the queue to forward to")
        for name in ("FWDQ", "FWDQM"):
            target = self._values.get(name)
            if not isinstance(target, str):
                continue
            if name == "FWDQ" and not target.strip(" "):
                self._error("blank-fwdq", self._parameters[name], "FWDQ is blank; name a queue")
            elif target.startswith("&") and target != (meant := _target(name, target)):
                self._report.warning(
                    "inexact-substitution",
                    self._place(self._parameters[name]),
                    f"{name}({shortened(target)}) is read as {name}({meant})",
                )

    def _check_other_action(self, action: Action) -> None:
        for name in ("FWDQ", "FWDQM", "HEADER"):
            if name in self._parameters:
                message = f"{name} requires ACTION(FWD), but the rule has ACTION({action})"
                self._error("only-with-fwd", self._parameters[name], message)
        if action is Action.RETRY:
            return
        why = "puts nothing", "tries nothing" if action is Action.IGNORE else "succeeds at once"
        for name, reason in zip(("PUTAUT", "RETRY"), why, strict=True):
            if name in self._parameters:
                message = f"{name} has no effect, ACTION({action}) {reason}"
                self._report.warning("no-effect", self._place(self._parameters[name]), message)

    def _is_missing(self, name: str) -> bool:
        """Whether a keyword was omitted, rather than lost or misspelt, which is reported."""
        return self._is_whole and name not in self._parameters and name not in self._meant

    def _report_unknown(self, parameter: Parameter) -> None:
        name = parameter.keyword
        if name in EXTENSIONS:
            self._error(
                "extension",
                parameter,
                f"{name} is an extension of mqdlq, which no table of runmqdlq has; write the rule"
                f" in YAML, with '{name.lower()}:' under 'extensions:'",
            )
            return
        meant = closest(name, KEYWORDS)
        self._meant.add(meant)
        advice = f"; did you mean {meant}?" if meant else ""
        self._error("unknown-keyword", parameter, f"unknown keyword {shortened(name)}{advice}")

    def _report_misplaced(self, parameter: Parameter) -> None:
        belongs = "belongs to the control data, the first entry of the table"
        if self.part is Part.CONTROL:
            belongs = "belongs to a rule, not to control data; begin each rule on a new line"
        self._error("misplaced-keyword", parameter, f"{parameter.keyword} {belongs}")

    def _error(self, code: str, parameter: Parameter, message: str) -> None:
        self._report.error(code, self._place(parameter), message)

    def _place(self, parameter: Parameter) -> Place:
        return self._entry.place(parameter.start, parameter.end)


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


_WHY: Final = "which messages on a backout queue do not have"


def _need_of_dlh(name: str, value: str | int | None) -> str:
    """Return why a keyword has no meaning for the messages on a backout queue, "" if it has one.

    These messages have no MQDLH: nothing says why they were backed out, or where they were to go. A
    rule can forward them unchanged to a queue that it names, discard them, or ignore them.
    """
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


def _read_value(
    keyword: Keyword, parameter: Parameter, entry: Entry, report: Report
) -> str | int | None:
    """Return the value: text in its final case, or a number, also for a symbolic name.

    A single ``*`` in place of a number is returned unchanged. None means that a fault was reported.
    """
    if parameter.value is None:
        return None
    start, end = parameter.value_start, parameter.value_end
    try:
        text = _unquoted(keyword, parameter.value, is_quoted=parameter.is_quoted)
        if keyword.is_extension:
            return canonical_condition(keyword, text)
        written: str | int = text
        if keyword.takes_text:
            _check_text(keyword, text)
        else:
            written = _word_or_number(keyword, text.rstrip(" "))
    except ConditionError as fault:
        report.error(fault.code, entry.place(start, end), f"{keyword.name} {fault}")
        return None
    except _FaultError as fault:
        if fault.at is not None:
            start += fault.at
            end = start + 1
        report.error(fault.code, entry.place(start, end), str(fault))
        return None
    # With doubled quotation marks, only the place of the value is known.
    _warn(keyword, text, parameter.value, entry.place(start, end), report)
    return written


def closest(word: str, candidates: Iterable[str], likeness: float = 0.6) -> str:
    """Return the candidate that a misspelt word most resembles, or ""."""
    if len(word) > _LONGEST_GUESS:
        return ""
    return next(iter(get_close_matches(word, list(candidates), n=1, cutoff=likeness)), "")


def _unquoted(keyword: Keyword, text: str, *, is_quoted: bool) -> str:
    if is_quoted:
        if not text:
            raise _FaultError(
                "empty-value",
                f"{keyword.name} has no value; for a blank field write {keyword.name}(' ')",
            )
        if _UNDECODED.search(text):
            raise _FaultError("not-utf8", "the value is not UTF-8 text")
        return text
    if keyword.takes_text and (found := _NEEDS_QUOTES.search(text)):
        char = _CHARACTERS.get(found.group()) or quoted(found.group())
        doubled = text.replace("'", "''")
        better = f"{keyword.name}('{shortened(doubled)}')"
        raise _FaultError(
            "needs-quotes", f"{char} requires quotation marks: {better}", found.start()
        )
    # Unquoted letters become capitals: IBM's own example has fwdqm(bbbb.2).
    return text.upper()


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
            name = closest(text, ALL_NAMES, likeness=0.8)
            hint = f"; did you mean {name} ({ALL_NAMES[name]})?" if name else ""
            raise _FaultError("unknown-name", f"unknown symbolic name {shortened(text)}{hint}")
    raise _FaultError(
        "invalid-value",
        f"{keyword.name} takes {choices(keyword)}, found {quoted(text)}{_guess(keyword, text)}",
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


def choices(keyword: Keyword) -> str:
    """Return what a keyword takes that takes no free text, for a sentence."""
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


def _warn(keyword: Keyword, text: str, written: str, place: Place, report: Report) -> None:
    if _UNUSUAL.search(written):
        report.warning(
            "non-ascii",
            place,
            f"{keyword.name} has a character outside printable ASCII, which is compared"
            " according to the message's CCSID",
        )
    if keyword.takes_text or text not in ALL_NAMES or family_of(text) in keyword.families:
        return
    usual = f"is compared with {listed(keyword.families)} names" if keyword.families else "counts"
    message = f"{keyword.name} {usual}; {text} ({ALL_NAMES[text]}) is of another family"
    report.warning("other-family", place, message)
