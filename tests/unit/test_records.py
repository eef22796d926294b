"""One model of a thing for all who read it: no two records share most of their fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations
from typing import Final, NamedTuple

from tests.support.paths import ROOT

PRODUCT: Final = ROOT / "plugins/mqdlq"
KINDS: Final = {"BaseModel", "NamedTuple", "TypedDict", "dataclass"}
LEAST: Final = 5
"""A record with fewer fields may share them with another one."""
SHARED: Final = 0.6

OTHER_THINGS: Final = {
    # A message in a state, and that state; a copy in a restoration is no attempt of a run.
    frozenset({"Attempt", "CopyState"}),
    frozenset({"FoundMessage", "MessageState"}),
    # A filter has the names of what it filters.
    frozenset({"AuditEvent", "AuditFilter"}),
    # What the lake says of a snapshot, and what the ledger recorded of it; each can be missing.
    frozenset({"SnapshotManifest", "TakenSnapshot"}),
    # What a ramp is about: a cause at a target, of a queue.
    frozenset({"Candidate", "Subject"}),
    frozenset({"RampRow", "Subject"}),
    frozenset({"Look", "RampState"}),
    frozenset({"KnownDiagnosis", "Subject"}),
    # What a person asks for, and what is recorded of it.
    frozenset({"AskedAction", "Restoration"}),
    # The options of a command, any of which may be missing, and the settings they come to.
    frozenset({"Address", "ConnectionSettings"}),
}
"""Pairs of records that have names of fields in common, and stand for different things."""


class Record(NamedTuple):
    """A record of the product: where it is declared, and the names of the fields it declares."""

    place: str
    name: str
    fields: frozenset[str]


def test_no_two_records_share_most_of_their_fields() -> None:
    found = [record for record in records() if len(record.fields) >= LEAST]
    assert len(found) > 50

    mirrors = [
        f"{one.place} ~ {other.place}: {', '.join(sorted(one.fields & other.fields))}"
        for one, other in combinations(found, 2)
        if frozenset({one.name, other.name}) not in OTHER_THINGS
        and len(one.fields & other.fields) >= SHARED * min(len(one.fields), len(other.fields))
    ]

    assert not mirrors, "use one record, or make one a field or a base of the other"


def records() -> Iterator[Record]:
    # The structures of IBM's headers have the fields that IBM gives them.
    for path in sorted(set(PRODUCT.rglob("*.py")) - set((PRODUCT / "structures").glob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and KINDS & set(names(node)):
                place = f"{path.relative_to(PRODUCT)}:{node.lineno} {node.name}"
                yield Record(place, node.name, frozenset(fields(node)))


def names(node: ast.ClassDef) -> Iterator[str]:
    """Yield the names of a class's decorators and bases."""
    for one in (*node.decorator_list, *node.bases):
        called = one.func if isinstance(one, ast.Call) else one
        yield called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def fields(node: ast.ClassDef) -> Iterator[str]:
    for one in node.body:
        match one:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind):
                if "ClassVar" not in ast.unparse(kind):
                    yield name
