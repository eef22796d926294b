"""Reasons are codes: each is declared once, and no code depends on its words."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

import mqdlq
from mqdlq.ledger.tables import CopyState, Restoration
from mqdlq.model import RestorationState
from mqdlq.reasons import Reason, Why, code_of, words_of
from mqdlq.stages.restore.restoration import RestorationResult
from mqdlq.stages.restore.selection import explain_no_repeat
from tests.support.reasons import fields_of, reworded

SOURCES = Path(mqdlq.__file__).parent
OF_REASONS = {"why", "refusal", "withheld_reason", "moved_because"}
"""Names of variables, fields, columns and keys that hold a reason."""
OF_TEXTS = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition"),
    *("split", "rsplit", "find", "rfind", "index", "count", "replace"),
    *("like", "ilike", "not_like", "contains", "in_", "not_in", "regexp_match"),
    *("match", "search", "fullmatch"),
}
"""Methods that look into a text, or into a column of texts."""
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@cache
def modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCES.rglob("*.py"))}


@cache
def used() -> frozenset[str]:
    """Return the codes that any module names."""
    return frozenset(
        node.attr
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Why"
    )


@pytest.mark.parametrize("code", Why, ids=str)
def test_a_declared_reason_is_used_and_its_words_have_exactly_its_values(code: Why) -> None:
    assert code.name in used()
    assert fields_of(code.template) == set(code.names)


@pytest.mark.parametrize("code", Why, ids=str)
def test_a_reason_is_read_back_as_it_was_stored(code: Why) -> None:
    reason = code(**dict.fromkeys(code.names, NOON))

    with reworded():
        found = Reason.read(reason.stored)

    assert found == reason
    assert found is not None
    assert (type(found.code), code_of(found)) == (Why, str(code))


def test_codes_and_values_are_those_that_ledgers_have_stored() -> None:
    stored = Path(__file__).with_name("stored_reasons.txt").read_text(encoding="utf-8")
    declared = [" ".join((str(code), *code.names)) for code in Why]

    assert declared == stored.splitlines(), "add a line for a new code; no line ever changes"


def test_a_reason_without_values_is_stored_as_its_code() -> None:
    assert Why.DRY_RUN().stored == '{"code":"dry_run"}'


def test_a_reason_has_values_of_each_kind() -> None:
    step = Why.RAMP_STEP(step=1, steps=2, messages=2_000)
    unmet = Why.TOO_DEEP(depth=1, limit=0)
    reason = Why.STEP_WATCHED(step=step, place="A\ud800 @ QM1", until=NOON, unmet=unmet)

    assert reason.words == (
        "ramp: step 1 of 2 (2,000 messages) has moved,"
        " watching A\ud800 @ QM1 until 2026-11-21 12:00:00 UTC: 1 message on it, 0 allowed"
    )
    assert reason.stored.isascii()
    assert Reason.read(reason.stored) == reason


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Why.PUT_FAILED(target="A", mqrc=2053, advice=""), "to A: MQRC_Q_FULL (2053)"),
        (Why.PUT_FAILED(target="A", mqrc=2053, advice="b"), "to A: MQRC_Q_FULL (2053): b"),
        (Why.REJECTED(who=None), "not approved: rejected"),
        (Why.REJECTED(who="bob"), "not approved: rejected by bob"),
        (Why.TRIPS_AFTER(trips=1, delay="2 s"), "came back once, 2 s after its delivery"),
        (Why.TRIPS_AFTER(trips=3, delay="2 s"), "came back 3 times, 2 s after each delivery"),
        (Why.UNPROCESSABLE(problem="{x} | {}"), "{x} | {}"),
        (None, ""),
    ],
)
def test_words_depend_on_values(reason: Reason | None, words: str) -> None:
    assert words_of(reason) == words


@pytest.mark.parametrize("values", [{}, {"number": 1, "more": 2}, {"more": 2}])
def test_a_reason_takes_exactly_the_values_that_are_declared(values: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="ATTEMPT takes"):
        Why.ATTEMPT(**values)


@pytest.mark.parametrize(
    "stored",
    ["a sentence", "3", "[]", '{"code":"of_a_later_version"}', '{"code":"dry_run","more":1}'],
)
def test_a_reason_of_another_version_is_shown_as_it_is_stored(stored: str) -> None:
    reason = Reason.read(stored)

    assert reason == Why.OTHER(text=stored)
    assert words_of(reason) == stored


def test_no_code_compares_or_parses_the_words_of_a_reason() -> None:
    found = {
        f"{path.relative_to(SOURCES)}: {ast.unparse(node)}"
        for path, tree in modules().items()
        for node in looks_at_words(tree)
    }

    assert not found


@pytest.mark.parametrize(
    "code",
    [
        "fact.why == DRY_RUN",
        "outcomes.c.why == 'dry run'",
        "'dry' in one.why",
        "why in {A, B}",
        "why.startswith(is_there)",
        "outcomes.c.why.like('%dry%')",
        "row['why'] != DRY_RUN",
        "fact.why.words == 'dry run'",
        "re.search('dry', why)",
    ],
)
def test_a_look_at_words_is_found(code: str) -> None:
    assert list(looks_at_words(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "fact.why == Why.DRY_RUN()",
        "fact.why.code is Why.DRY_RUN",
        "why is None",
        "if why: pass",
        "visible(fact.why.words)",
    ],
)
def test_a_look_at_a_code_is_allowed(code: str) -> None:
    assert not list(looks_at_words(ast.parse(code)))


def looks_at_words(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the comparisons and calls that depend on the words of a reason."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(_is_reason, sides)) and not _is_of_reasons(node):
                yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            parts = [node.func.value, *node.args]
            if node.func.attr in OF_TEXTS and any(map(_is_reason, parts)):
                yield node


def _is_reason(node: ast.expr) -> bool:
    """Whether an expression is a variable, a field, a column or an item that holds a reason."""
    if isinstance(node, ast.Name):
        return node.id in OF_REASONS
    if isinstance(node, ast.Attribute):
        return node.attr in OF_REASONS or (node.attr == "words" and _is_reason(node.value))
    if not isinstance(node, ast.Subscript) or ast.unparse(node.value) == "event":
        return False  # the event of a trigger has a code, or why there is work
    index = node.slice
    return isinstance(index, ast.Constant) and index.value in OF_REASONS


def _is_of_reasons(node: ast.Compare) -> bool:
    """Whether a comparison is by identity, with `Why.DRY_RUN()`, or with reasons met before."""
    if all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
        return True
    if isinstance(node.ops[0], ast.In | ast.NotIn):
        return ast.unparse(node.comparators[0]).startswith("self.")
    return any(
        isinstance(side, ast.Call) and ast.unparse(side.func).startswith("Why.")
        for side in (node.left, *node.comparators)
    )


@pytest.mark.parametrize(("queue", "missed"), [("DLQ", 0), ("PARKED", 1)])
def test_a_copy_that_was_restored_to_the_same_queue_is_not_missed(queue: str, missed: int) -> None:
    restoration = Restoration(
        restoration_id="again",
        handler="demo",
        queue_manager="QM1",
        queue="DLQ",
        state_queue="STATE",
        run_id="run-1",
        to_queue="DLQ",
        to_queue_manager="QM1",
        started_at=NOON,
    )
    by = replace(restoration, restoration_id="first", to_queue=queue)
    why = explain_no_repeat(by, CopyState("run-1", 1, RestorationState.RESTORED, NOON))
    refused = RestorationState.REFUSED
    result = RestorationResult(Counter({refused: 1}), Counter({(refused, why): 1}), restoration)

    with reworded():
        assert bool(result.shortfall) == bool(missed)


def test_reasons_can_be_reworded() -> None:
    reason = Why.ATTEMPT(number=3)

    with reworded():
        assert reason.words.startswith("Grund ")

    assert reason.words == "attempt 3"
