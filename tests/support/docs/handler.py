"""Tables of docs/reference/handler.md, from the models of a handler's YAML file."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from mqdlq.controls.settings import Controls
from mqdlq.handlers.operation import Event, Operation
from tests.support.docs.tables import table

_NAMES = {
    "boolean": "`yes`, `no`",
    "duration": "duration",
    "number": "number",
    "object": "mapping",
    "string": "text",
}
"""The types of a JSON schema, by format or else by type."""


def keys(model: type[BaseModel], names: Collection[str] = ()) -> str:
    """Return a table of a model's keys, or of those with these names."""
    schema = model.model_json_schema()
    keys = {name: key for name, key in schema["properties"].items() if not names or name in names}
    rows = (
        (
            f"`{name}`",
            _type(key, schema.get("$defs", {})),
            "required" if name in schema.get("required", ()) else _default(key),
            " ".join(key["description"].split()),
        )
        for name, key in sorted(keys.items(), key=lambda item: _place(item[0]))
    )
    return table(("key", "type", "default", "meaning"), rows)


def docstrings_below(declared: type) -> dict[str, str]:
    """Return the docstrings below the names that a class declares in its body."""
    body = ast.parse(textwrap.dedent(inspect.getsource(declared))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for name, after in pairwise(body.body):
        match name, after:
            case (
                ast.AnnAssign(target=ast.Name(id)) | ast.Assign(targets=[ast.Name(id)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[id] = " ".join(text.split())
    return found


def events() -> str:
    """Return a table of the events that alerts tell of."""
    rows = ((f"`{event}`", event.meaning, "yes" if event.lasts else "no") for event in Event)
    return table(("event", "meaning", "followed by `recovery`"), rows)


def _place(name: str) -> int:
    return 1 if name in Operation.model_fields else 2 if name in Controls.model_fields else 0


def _type(key: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    """Return the type of a key in words, from its JSON schema."""
    match key:
        case {"anyOf": [kind, {"type": "null"}]}:
            text = _type(kind, others)
        case {"$ref": reference}:
            text = _type(others[reference.rpartition("/")[2]], others)
        case {"enum": values}:
            text = ", ".join(f"`{value}`" for value in values)
        case {"type": "array", "items": items}:
            text = f"list: {_type(items, others)}"
        case {"type": "integer"}:
            text = f"integer{_range(key)}"
        case _:
            text = _NAMES[key.get("format") or key["type"]]
    return text


def _range(key: Mapping[str, Any]) -> str:
    least, most = key.get("minimum"), key.get("maximum")
    return f", {least} to {most}" if most is not None else f", {least} or more"


def _default(key: Mapping[str, Any]) -> str:
    match key.get("default"):
        case None | [] | {}:
            return "unset"
        case bool() as value:
            return f"`{'yes' if value else 'no'}`"
        case str() | int() as value:
            return f"`{value}`"
        case list() as values:
            return f"`{values}`"
    return "see below"
