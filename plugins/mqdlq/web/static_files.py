"""The page's own files: what the browser loads, by name, version, licence and digest."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from mqdlq.reading.report.rendering.components import COMPONENTS

DIRECTORY: Final = Path(__file__).with_name("static")
STYLES: Final = COMPONENTS / "components.css"
"""The styles of the components that the HTML report and the page share."""
TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Vendored:
    """A file of another project: where it is from, its licence, its SHA-256 and the full notice."""

    file: str
    name: str
    version: str
    licence: str
    home: str
    sha256: str
    notice: str


@cache
def vendored() -> tuple[Vendored, ...]:
    """Return the files of other projects, as the manifest lists them."""
    text = (DIRECTORY / "vendored.toml").read_text(encoding="utf-8")
    return tuple(Vendored(file, **values) for file, values in tomllib.loads(text).items())


@cache
def names() -> frozenset[str]:
    """Return the files that a browser may load."""
    own = (file.name for file in DIRECTORY.iterdir() if file.suffix in TYPES)
    return frozenset({*own, STYLES.name})


def path_of(name: str) -> Path:
    """Return the location of a file that a browser may load."""
    return STYLES if name == STYLES.name else DIRECTORY / name


@cache
def version_of(name: str) -> str:
    """Return the beginning of a file's SHA-256, which its URL has so that it can be cached."""
    return hashlib.sha256(path_of(name).read_bytes()).hexdigest()[:16]
