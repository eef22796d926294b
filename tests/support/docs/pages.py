"""Write the generated pages of the documentation: `make docs-pages`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Final

from mqdlq.lake import schema_document
from tests.support.coverage import mqi_coverage
from tests.support.docs import command_line, errors, handler, metrics, parameters, schemas, versions
from tests.support.paths import ROOT

DIRECTORY: Final = ROOT / "docs" / "reference"
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "command-line.md": command_line.document,
    "errors.md": errors.document,
    "handler.md": handler.document,
    "metrics.md": metrics.document,
    "mqi-coverage.md": mqi_coverage.generated,
    "parameters.md": parameters.document,
    "schemas.md": schemas.document,
    "snapshot-schema.md": schema_document.document,
    "versions.md": versions.document,
}


def main() -> int:
    """Write the pages."""
    for name, document in PAGES.items():
        (DIRECTORY / name).write_text(document(), encoding="utf-8")
        sys.stdout.write(f"wrote docs/reference/{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
