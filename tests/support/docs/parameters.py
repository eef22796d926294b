"""Write docs/reference/parameters.md from the schemas of the params."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mqdlq.airflow import params
from mqdlq.airflow.params import SCHEMAS
from tests.support.docs.tables import table

_HEAD = """\
# Run parameters

The params of a run change what it does, for that run only. Set them in the trigger form of the DAG
in Airflow, or as JSON on the command line. A param that is not valid is rejected before the run
starts.

"""
_RUN = """\
## Params of a handler's run

The DAG is `mq_dlq_<handler>`; the command is `mqdlq run`:

```console
$ mqdlq run demo --conf '{"dry_run": true}'
```

"""
_RESTORATION = """
## Params of a restoration

The DAG is `mq_dlq_restore`; the options of [`mqdlq restore run`](command-line.md#mqdlq-restore-run)
have the same meanings. [Restore discarded messages](../how-to/restore.md) shows how to use them.

"""


def document() -> str:
    """Return the page."""
    restoration = params.schemas(handlers=())
    return "".join((_HEAD, _RUN, *_table(SCHEMAS), _RESTORATION, *_table(restoration)))


def _table(schemas: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    rows = (
        (f"`{name}`", _types(schema), _default(schema), str(schema["description"]))
        for name, schema in schemas.items()
    )
    yield table(("param", "type", "default", "meaning"), rows)


def _types(schema: Mapping[str, Any]) -> str:
    kinds = schema["type"]
    names = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"]
    return " or ".join("list of strings" if name == "array" else name for name in names)


def _default(schema: Mapping[str, Any]) -> str:
    if "default" not in schema:
        return "required"
    default = schema["default"]
    return "none" if default in (None, []) else f"`{json.dumps(default)}`"
