"""Parse a rules table in YAML into the same table as from runmqdlq's syntax.

    table:
      control: {input_q: DLQ, retryint: 30, wait: no}
      rules:
        - match:
            DESTQ: PAYMENTS.*
            MQDLH.Reason: [MQRC_Q_FULL, MQRC_PUT_INHIBITED]
          action: RETRY
          retry: 3
        - extensions: {age: ">= 2h"}
          action: FWD
          fwdq: PARKED

This module does not know the allowed values. It writes every rule as an entry of a rules table,
with one keyword and value on a line, and assigns each diagnostic of a line to the YAML node of that
line. Values are therefore read as written, without YAML's conversions: ``no`` is NO. Letters keep
their case, as within quotation marks. A list of alternatives makes one rule for each, and several
lists make one for each combination; the last list varies first.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice, product
from typing import Final, get_args

from mqdlq.handlers.documents import Document, Node, ScalarNode, SequenceNode
from mqdlq.model import Action, QueueKind
from mqdlq.rules import CheckResult, Diagnostic, Severity, WrittenRule
from mqdlq.rules import check as check_table
from mqdlq.rules.diagnostics import Place, Report, listed, shortened
from mqdlq.rules.keywords import EXTENSIONS, KEYWORDS, KNOWN, Keyword, Part
from mqdlq.rules.lint import WARNING_CODES, Level, lint, promote

MOST_RULES: Final = 100_000
"""The most rules that the lists of one rule may make."""

_CONTROL: Final = {"input_q": "INPUTQ", "input_q_mgr": "INPUTQM"} | {
    k.name.lower(): k.name for k in KEYWORDS.values() if k.part is Part.CONTROL
}
_ACTIONS: Final = {"match": "match", "extensions": "extensions"} | {
    k.name.lower(): k.name for k in KEYWORDS.values() if k.part is Part.RULE and not k.is_pattern
}
_CODES: Final = {code: code for code in sorted(WARNING_CODES)}
_LEVELS: Final[Mapping[str, Level]] = {level: level for level in get_args(Level)}
_LAYOUT: Final = ("long-line",)
_OF_THE_TABLE: Final = ("no-rule", "missing-inputq")
_MISSING: Final = ("missing-action", "missing-fwdq", *_OF_THE_TABLE)


def _patterns_on(queue_kind: QueueKind) -> dict[str, str]:
    """Return each spelling of a pattern and its keyword.

    Patterns that need an MQDLH are among them on a backout queue too, and are rejected later.
    """
    return {
        spelling: k.name
        for k in KEYWORDS.values()
        if k.is_pattern
        for spelling in (k.name, k.field, f"{_structure(k, queue_kind)}.{k.field}")
    }


def _structure(keyword: Keyword, queue_kind: QueueKind) -> str:
    column = keyword.column_on(queue_kind) or keyword.column
    return "MQDLH" if column.startswith("dlh_") else "MQMD"


_PATTERNS: Final = {queue_kind: _patterns_on(queue_kind) for queue_kind in QueueKind}
_EXTENSIONS: Final = {name.lower(): name for name in EXTENSIONS}
KEYS_OF_TABLE: Final = {
    key.upper(): name
    for keys in (_CONTROL, _PATTERNS[QueueKind.DEAD_LETTER], _ACTIONS, _EXTENSIONS)
    for key, name in keys.items()
    if name in KNOWN
}
"""Every key of a table in YAML, in upper case, that is a keyword or an extension: its name."""
_UNDER_EXTENSIONS: Final = dict.fromkeys(_EXTENSIONS, "under 'extensions:'")
_UNDER_MATCH: Final = dict.fromkeys(_PATTERNS[QueueKind.DEAD_LETTER], "under 'match:'")
_BESIDE_MATCH: Final = dict.fromkeys(_ACTIONS, "to the rule, beside 'match:'")
_PARTS: Final = {
    queue_kind: {
        "match": (
            patterns,
            "'APPLNAME:' or 'MQMD.PutApplName:'",
            _BESIDE_MATCH | _UNDER_EXTENSIONS,
        ),
        "extensions": (_EXTENSIONS, "'age:' or 'expires_in:'", _BESIDE_MATCH | _UNDER_MATCH),
    }
    for queue_kind, patterns in _PATTERNS.items()
}
"""The keys of each mapping of alternatives, an example, and where other keys belong."""


_Line = tuple[str, Node]
_Parameter = tuple[_Line, _Line]
"""The lines of a keyword and of one of its values, each with its node."""


def check(
    data: str | bytes, source: str, queue_kind: QueueKind = QueueKind.DEAD_LETTER
) -> CheckResult:
    """Check and lint the `table` of a YAML file.

    `line` of a rule is its first line in the YAML file. The key `lint` sets severities, and the key
    `queue_kind` replaces the kind given; other keys are ignored. A table with any error is rejected
    as a whole.
    """
    report = Report(source)
    document = Document(data, report)
    if document.root is None:
        if not report.has_errors:
            report.error("no-rule", Place(1, 1, 1, ""), "expected keys such as 'table:'")
        return CheckResult(None, report.diagnostics())
    nodes: dict[str, Node] = {}
    for written, key, node in document.mapping(document.root, "'table:'"):
        if written.lower() in nodes:
            document.error("repeated-keyword", key, f"{shortened(written)} is repeated")
        nodes[written.lower()] = node
    if "table" in nodes:
        levels, kind = read_levels(nodes, document), read_queue_kind(nodes, document, queue_kind)
        return check_node(nodes["table"], document, levels, kind)
    if not report.has_errors:
        where = nodes["rules"].value if isinstance(nodes.get("rules"), ScalarNode) else ""
        advice = f"; its rules stand in {shortened(where)}" if where else ""
        document.error("no-rule", document.root, f"the file has no key 'table'{advice}")
    return CheckResult(None, report.diagnostics())


def read_levels(nodes: Mapping[str, Node], document: Document) -> dict[str, Level]:
    """Return the severities of the key `lint`, if a file has it."""
    levels: dict[str, Level] = {}
    if "lint" in nodes:
        keys = document.keyed(nodes["lint"], _CODES, "'no-catch-all: error'")
        for code, (_, value) in keys.items():
            if level := _LEVELS.get((document.scalar(value) or "").lower()):
                levels[code] = level
            else:
                document.error("invalid-value", value, f"{code} takes {listed(_LEVELS)}")
    return levels


def read_queue_kind(
    nodes: Mapping[str, Node], document: Document, default: QueueKind = QueueKind.DEAD_LETTER
) -> QueueKind:
    if "queue_kind" not in nodes:
        return default
    written = document.scalar(nodes["queue_kind"])
    kind = next((kind for kind in QueueKind if kind == written), None)
    if kind is None and written is not None:
        message = f"queue_kind takes {listed(QueueKind)}"
        document.error("invalid-value", nodes["queue_kind"], message)
    return kind or QueueKind.DEAD_LETTER


def check_node(
    table: Node, document: Document, levels: Mapping[str, Level], queue_kind: QueueKind
) -> CheckResult:
    """Parse a table from its node; errors that the document already has count too."""
    report, entries = document.report, _Reading(table, document, queue_kind)
    had_faults = report.has_errors
    text = "".join(f"{line}\n" for line in entries.lines)
    result = check_table(text, queue_kind=queue_kind, frozen=True)
    places = [document.place(node) for node in entries.nodes]

    said: set[tuple[str, Place, str]] = set()

    def say(found: Diagnostic, place: Place) -> None:
        """Report a fault once for all rules from one list of alternatives."""
        what = (found.code, place, found.message)
        if what not in said:
            said.add(what)
            (report.error if found.severity is Severity.ERROR else report.warning)(*what)

    for diagnostic in promote(result.diagnostics, levels):
        is_of_table = diagnostic.code in _OF_THE_TABLE
        follows = diagnostic.code in _MISSING and (
            diagnostic.line in entries.damaged or (had_faults and is_of_table)
        )
        if diagnostic.code not in _LAYOUT and not follows:
            place = document.place(table) if is_of_table else places[diagnostic.line - 1]
            say(diagnostic, place)
    if result.table is None or had_faults:
        return CheckResult(None, report.diagnostics())
    at = {rule.line: document.place(entries.starts[rule.line]) for rule in result.table.rules}
    rules = tuple(replace(rule, line=at[rule.line].line) for rule in result.table.rules)
    found = replace(result.table, rules=rules)
    by_line = {place.line: place for place in at.values()}
    for doubt in promote(lint(found), levels):
        say(doubt, by_line[doubt.line])
    if report.has_errors:
        return CheckResult(None, report.diagnostics())
    written = tuple(WrittenRule(at[rule.line].line, rule.keywords) for rule in result.rules)
    return CheckResult(found, report.diagnostics(), result.control, written)


class _Reading:
    """The table as the text of entries, one line for each keyword and each value, with its nodes.

    `starts` has the nodes of the rules by their first lines, `damaged` the lines of rules that are
    incomplete because of a reported fault.
    """

    def __init__(self, table: Node, document: Document, queue_kind: QueueKind) -> None:
        self._document, self._parts = document, _PARTS[queue_kind]
        self.lines, self.nodes = list[str](), list[Node]()
        self.starts: dict[int, Node] = {}
        self.damaged: set[int] = set()
        self._rules_left = MOST_RULES
        known = {"control": "control", "rules": "rules"}
        parts = document.keyed(table, known, "'control:' and 'rules:'")
        if "control" in parts:
            _, control = parts["control"]
            keys = document.keyed(control, _CONTROL, "'input_q:' or 'retryint:'")
            self._add(control, self._settings(keys), is_damaged=False)
        if "rules" in parts:
            for rule in document.items(parts["rules"][1], "rules"):
                self._rule(rule)

    def _add(self, entry: Node, parameters: Iterable[_Parameter], *, is_damaged: bool) -> None:
        first = len(self.lines) + 1
        self.starts[first] = entry
        for line, node in chain.from_iterable(parameters):
            self.lines.append(line)
            self.nodes.append(node)
        if is_damaged:
            self.damaged.update(range(first, len(self.lines) + 1))
        if self.lines:
            self.lines[-1] = self.lines[-1].removesuffix(" +")

    def _rule(self, rule: Node) -> None:
        faults = self._document.faults
        keys = self._document.keyed(
            rule, _ACTIONS, "'match:' and 'action:'", _UNDER_MATCH | _UNDER_EXTENSIONS
        )
        parts = [(part, keys.pop(part)[1]) for part in self._parts if part in keys]
        alternatives = [found for one in parts for found in self._alternatives(*one)]
        settings = list(self._settings(keys))
        if "ACTION" not in keys and self._document.faults == faults:
            advice = listed(f"'action: {action}'" for action in Action)
            self._document.error("missing-action", rule, f"the rule has no action; add {advice}")
        rules = list(islice(product(*alternatives), self._rules_left + 1))
        if len(rules) > self._rules_left:
            message = f"with this rule and its alternatives there are more than {MOST_RULES} rules"
            self._document.error("too-many-rules", rule, message)
            return
        self._rules_left -= len(rules)
        is_damaged = self._document.faults > faults
        for patterns in rules:
            self._add(rule, [*patterns, *settings], is_damaged=is_damaged)

    def _alternatives(self, part: str, node: Node) -> Iterator[list[_Parameter]]:
        """Yield the value or values of each keyword of `match` or `extensions`."""
        keys = self._document.keyed(node, *self._parts[part])
        for name, (key, given) in keys.items():
            values = given.value if isinstance(given, SequenceNode) else [given]
            if not values:
                self._document.error("empty-value", given, f"{name} has no value; leave it out")
            elif read := list(self._values(name, key, values)):
                yield read

    def _settings(self, keys: Mapping[str, tuple[ScalarNode, Node]]) -> Iterator[_Parameter]:
        for name, (key, node) in keys.items():
            yield from self._values(name, key, [node])

    def _values(self, name: str, key: Node, nodes: Iterable[Node]) -> Iterator[_Parameter]:
        for node in nodes:
            text = self._document.scalar(node)
            if text is not None:
                # Words and symbolic names may be in any case, as in runmqdlq's syntax.
                is_kept = KNOWN[name].takes_text or KNOWN[name].is_extension
                folded = text if is_kept else text.upper()
                doubled = folded.replace("'", "''")
                yield (f" {name} +", key), (f"('{doubled}') +", node)
