"""Write the names file: ``python -m tests.support.constant_names``, after a client library changed.

The names and numbers come from the constants of both client libraries.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mqdlq.constants import FAMILIES, PLATFORM_DEPENDENT, family_of
from mqdlq.directories import PROJECT

NAMES_FILE = PROJECT / "plugins/mqdlq/constants/names.txt"


def client_constants() -> Iterator[tuple[str, int]]:
    """Yield the families' names as pymqi and ibmmq have them, in the order of the names file."""
    ibmmq = _load_constants("ibmmq", "_CMQC_linux_x64")
    names = _load_constants("pymqi", "CMQC") | ibmmq
    texts = _load_constants("ibmmq", "CMQSTRC")
    shown = {name for family in FAMILIES for name in texts[f"{family}_DICT"].values()}
    known = [
        (name, value)
        for name, value in names.items()
        if family_of(name) in FAMILIES and name not in PLATFORM_DEPENDENT
    ]

    def place(constant: tuple[str, int]) -> tuple[int, int, bool, str]:
        name, value = constant
        return FAMILIES.index(family_of(name)), value, name not in shown, name

    yield from sorted(known, key=place)


def _load_constants(package: str, module: str) -> dict[str, Any]:
    """Load one module of constants alone; importing its package would need IBM's C library."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        msg = f"the client library {package} is not installed"
        raise ModuleNotFoundError(msg)
    path = Path(found.submodule_search_locations[0]) / f"{module}.py"
    spec = importlib.util.spec_from_file_location(f"_{package}_{module}", path)
    if spec is None or spec.loader is None:
        msg = f"{path} cannot be loaded"
        raise ModuleNotFoundError(msg)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return vars(loaded)


def names_text(constants: Iterable[tuple[str, int]]) -> str:
    """Return the content of the names file."""
    return "".join(f"{name} {value}\n" for name, value in constants)


if __name__ == "__main__":
    NAMES_FILE.write_text(names_text(client_constants()), encoding="ascii")
