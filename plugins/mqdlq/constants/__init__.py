"""IBM's symbolic names and their numbers: a name goes in and a number comes out, and the reverse.

Five families are known: MQRC (reason codes), MQFB (feedback codes), MQMT (message types), MQPER
(persistence) and MQAT (application types). `constant_names.txt` beside this module holds them, one
``NAME value`` a line; where several names share a value, the first is the one people are shown. It
is written by ``python -m mqdlq.constants`` from the constants of the client libraries.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

FAMILIES = ("MQRC", "MQFB", "MQMT", "MQPER", "MQAT")
NAMES_FILE = Path(__file__).with_name("constant_names.txt")

PLATFORM_DEPENDENT = frozenset({"MQAT_DEFAULT"})
"""Names whose number differs by platform; a rules table can mean nothing by them."""


def family_of(name: str) -> str:
    """Return the family a symbolic name belongs to: ``MQRC`` for ``MQRC_Q_FULL``."""
    return name.partition("_")[0]


def _read_names() -> dict[str, dict[str, int]]:
    families: dict[str, dict[str, int]] = {family: {} for family in FAMILIES}
    # Not as a file: Spark's workers have this package in an archive.
    names = files("mqdlq").joinpath(NAMES_FILE.name).read_text(encoding="ascii")
    for line in names.splitlines():
        name, _, value = line.partition(" ")
        families[family_of(name)][name] = int(value)
    return families


def _shown_names(names: Mapping[str, int]) -> Mapping[int, str]:
    shown: dict[int, str] = {}
    for name, value in names.items():
        # MQMT_SYSTEM_FIRST and its like bound a range; they do not name the value they stand on.
        if not name.endswith(("_FIRST", "_LAST")):
            shown.setdefault(value, name)
    return MappingProxyType(shown)


_NAMES = _read_names()
_SHOWN = {family: _shown_names(names) for family, names in _NAMES.items()}

MQRC: Mapping[str, int] = MappingProxyType(_NAMES["MQRC"])
MQFB: Mapping[str, int] = MappingProxyType(_NAMES["MQFB"])
MQMT: Mapping[str, int] = MappingProxyType(_NAMES["MQMT"])
MQPER: Mapping[str, int] = MappingProxyType(_NAMES["MQPER"])
MQAT: Mapping[str, int] = MappingProxyType(_NAMES["MQAT"])
ALL_NAMES: Mapping[str, int] = MappingProxyType(
    {name: value for names in _NAMES.values() for name, value in names.items()}
)

TRANSIENT = frozenset(
    MQRC[name]
    for name in (
        "MQRC_CONNECTION_BROKEN",
        "MQRC_MAX_CONNS_LIMIT_REACHED",
        "MQRC_Q_MGR_NOT_AVAILABLE",
        "MQRC_STORAGE_NOT_AVAILABLE",
        "MQRC_RESOURCE_PROBLEM",
        "MQRC_OUTCOME_PENDING",
        "MQRC_Q_MGR_QUIESCING",
        "MQRC_Q_MGR_STOPPING",
        "MQRC_CONNECTION_QUIESCING",
        "MQRC_CONNECTION_STOPPING",
        "MQRC_Q_MGR_NOT_ACTIVE",
        "MQRC_CHANNEL_NOT_AVAILABLE",
        "MQRC_HOST_NOT_AVAILABLE",
        "MQRC_RECONNECT_FAILED",
        "MQRC_CALL_INTERRUPTED",
    )
)
"""Reasons that end by themselves: a queue manager that restarts, a network that comes back."""


def name_of(value: int, families: Iterable[str]) -> str:
    """Return the name of a value in the first of the families that has one, else ""."""
    return next((_SHOWN[family][value] for family in families if value in _SHOWN[family]), "")


def reason_text(reason: int) -> str:
    """Return a reason code as people read it: ``MQRC_Q_FULL (2053)``.

    MQDLH.Reason holds an MQRC or an MQFB value (IBM MQ docs, "MQDLH - Dead-letter header"), so the
    feedback codes are asked second. A number neither family knows reads ``reason 99999``.
    """
    name = name_of(reason, ("MQRC", "MQFB"))
    return f"{name} ({reason})" if name else f"reason {reason}"


def constants_of_the_clients() -> Iterator[tuple[str, int]]:
    """Yield the families' names as pymqi and ibmmq have them, in the order of the names file."""
    ibmmq = _module_of_constants("ibmmq", "_CMQC_linux_x64")
    names = _module_of_constants("pymqi", "CMQC") | ibmmq
    texts = _module_of_constants("ibmmq", "CMQSTRC")
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


def _module_of_constants(package: str, module: str) -> dict[str, Any]:
    """Run one module of constants by itself; importing its package would need IBM's C library."""
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
    NAMES_FILE.write_text(names_text(constants_of_the_clients()), encoding="ascii")
