"""Tables of docs/reference/parameters.md, from the schemas of the params."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.support.docs.tables import table


def parameters(schemas: Mapping[str, dict[str, Any]]) -> str:
    """Return a table of parameters."""
    rows = (
        (f"`{name}`", _types(schema), _default(schema), str(schema["description"]))
        for name, schema in schemas.items()
    )
    return table(("param", "type", "default", "meaning"), rows)


def _types(schema: Mapping[str, Any]) -> str:
    kinds = schema["type"]
    names = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"]
    return " or ".join("list of strings" if name == "array" else name for name in names)


def _default(schema: Mapping[str, Any]) -> str:
    if "default" not in schema:
        return "required"
    default = schema["default"]
    return "none" if default in (None, []) else f"`{json.dumps(default)}`"
