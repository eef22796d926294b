"""Explanations as text for people and as JSON for programs."""

from typing import Any, Final

from mqdlq import constants
from mqdlq.model import MessageClass, QueueKind
from mqdlq.rules import Explanation, Failure, RulesTable, Trace
from mqdlq.rules.keywords import KNOWN, Keyword
from mqdlq.rules.table import rule_parameters

RULES_APPLY_TO: Final = {
    QueueKind.DEAD_LETTER: "messages with a valid MQDLH",
    QueueKind.BACKOUT: "messages without an MQDLH",
}
"""The messages that rules match and act on, in words."""


ExplainedRule = dict[str, Any]


def explained_rules(explanation: Explanation) -> list[ExplainedRule]:
    """Return every rule of an explanation in words, in the order of the table.

    Each has its `line` and `text`, whether it `matches` the message, and `why`. `is_tried` says
    that the rule is in the chain of rules that a run tries.
    """
    return [
        {
            "line": trace.rule.line,
            "text": " ".join(rule_parameters(trace.rule)),
            "matches": not trace.failures,
            "is_tried": trace.rule in explanation.chain,
            "why": _trace_as_text(trace),
        }
        for trace in explanation.traces
    ]


_NO_FAILURE: Final = {"keyword": None, "expected": None, "actual": None}


def unasked_as_json(message_class: MessageClass, table: RulesTable) -> dict[str, Any]:
    """Return the result for a message of a class that no rule applies to."""
    traces = [{"line": rule.line, "matched": False, **_NO_FAILURE} for rule in table.rules]
    return {"chain": [], "trace": traces, "class": message_class}


def explanation_as_json(explanation: Explanation) -> dict[str, Any]:
    """Return what `explain` found of a message, without the message."""
    shown: dict[str, Any] = {
        "chain": [rule.line for rule in explanation.chain],
        "trace": [_trace_as_json(trace) for trace in explanation.traces],
    }
    if nearest := explanation.nearest:
        failures = [_failure_as_json(failure) for failure in nearest.failures]
        shown["nearest"] = {"line": nearest.rule.line, "failures": failures}
    return shown


def _failure_as_json(failure: Failure) -> dict[str, Any]:
    pattern = failure.pattern
    shown = {"keyword": pattern.keyword, "expected": pattern.value, "actual": failure.actual}
    return shown | {"only_nuls": True} if failure.only_nuls else shown


def _trace_as_json(trace: Trace) -> dict[str, Any]:
    shown = {"line": trace.rule.line, "matched": not trace.failures}
    first = _failure_as_json(trace.failures[0]) if trace.failures else _NO_FAILURE
    return shown | first


def explanation_as_text(label: str, table: RulesTable, explanation: Explanation) -> str:
    """Return a line with the verdict, and one for each rule."""
    lines = ", ".join(str(rule.line) for rule in explanation.chain)
    verdict = f"rules tried, by line: {lines}" if lines else "no rule matches, the message is left"
    width = len(str(table.rules[-1].line))
    shown = [f"{label}: {verdict}"]
    shown += [f"  line {t.rule.line:>{width}}: {_trace_as_text(t)}" for t in explanation.traces]
    if nearest := explanation.nearest:
        failures = "; and ".join(map(_failure_as_text, nearest.failures))
        shown.append(f"  nearest is the rule at line {nearest.rule.line}: {failures}")
    return "\n".join(shown)


def _trace_as_text(trace: Trace) -> str:
    if not trace.failures:
        return f"matches, ACTION({trace.rule.action})"
    return _failure_as_text(trace.failures[0])


def _failure_as_text(failure: Failure) -> str:
    keyword = KNOWN[failure.pattern.keyword]
    if keyword.is_extension:
        actual = failure.actual or f"unknown ({keyword.unknown})"
        return f"{keyword.name} expects {failure.pattern.value}, {keyword.field} is {actual}"
    expected, actual = _shown(keyword, failure.pattern.value), _shown(keyword, failure.actual)
    nuls = "; only its NULs keep it from matching" if failure.only_nuls else ""
    return f"{keyword.name} expects {expected}, {keyword.field} is {actual}{nuls}"


def _shown(keyword: Keyword, value: str | int | None) -> str:
    if isinstance(value, int):
        return constants.value_text(value, keyword.families)
    return repr(value) if value else "blank"
