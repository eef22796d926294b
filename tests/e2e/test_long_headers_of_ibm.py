"""IBM's own C headers, which IBM's Node.js client contains, agree with our structures and numbers.

The test fetches and compiles them, and keeps nothing of them. It needs npm, a C compiler and the
network.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from mqdlq import structures
from mqdlq.constants import ALL_NAMES, PLATFORM_DEPENDENT
from mqdlq.structures import headers
from mqdlq.structures.headers import Structure

pytestmark = pytest.mark.long

STRUCTURES: dict[str, type[Structure[bytes]]] = {
    "MQMD1": headers.MQMD1,
    **{
        one.__name__: one
        for module in (headers, structures)
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Structure) and one.structure == one.__name__
    },
}
PADDING = {("MQOD", "Reserved")}
"""Bytes that align the end of a structure: a field of ours, none of IBM's."""


@pytest.fixture(scope="module", name="include")
def _include(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of IBM's headers for this platform."""
    for program in ("npm", "cc"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    place = tmp_path_factory.mktemp("headers")
    packed = subprocess.run(
        ["npm", "pack", "--silent", "ibmmq"],  # noqa: S607 (the npm of PATH)
        cwd=place,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if packed.returncode:
        pytest.skip(f"the package cannot be fetched: {packed.stderr[:200]}")
    with tarfile.open(place / packed.stdout.split()[-1]) as archive:
        archive.extractall(place, filter="data")
    return place / "package" / "src" / "unix"


def computed(include: Path, lines: list[str]) -> list[tuple[str, ...]]:
    """Return the words of each line that a C program with these statements prints."""
    source = include.parent / "witness.c"
    text = "\n".join(lines)
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <cmqc.h>\n"
        f"int main(void) {{\n{text}\nreturn 0;\n}}\n"
    )
    program = source.with_suffix("")
    subprocess.run(
        ["cc", "-I", str(include), "-o", str(program), str(source)],  # noqa: S607 (that of PATH)
        check=True,
        timeout=120,
    )
    printed = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60)
    return [tuple(line.split()) for line in printed.stdout.splitlines()]


def test_every_field_has_the_offset_and_the_length_of_ibms_headers(include: Path) -> None:
    ours = {
        (name, field.ibm_name): (field.offset, field.length)
        for name, kind in STRUCTURES.items()
        for field in kind.layout.values()
        if (name, field.ibm_name) not in PADDING
    }
    statements = [
        f'printf("{name} {field} %zu %zu\\n", offsetof({name}, {field}),'
        f" sizeof((({name} *)0)->{field}));"
        for name, field in ours
    ]

    theirs = {
        (name, field): (int(offset), int(length))
        for name, field, offset, length in computed(include, statements)
    }

    assert len(ours) > 200
    assert {one: (theirs[one], ours[one]) for one in ours if theirs[one] != ours[one]} == {}


def test_every_constant_has_the_value_of_ibms_headers(include: Path) -> None:
    ours = {name: number for name, number in ALL_NAMES.items() if name not in PLATFORM_DEPENDENT}
    statements = [
        f'#ifdef {name}\nprintf("{name} %ld\\n", (long)({name}));\n#endif' for name in ours
    ]

    theirs = {name: int(number) for name, number in computed(include, statements)}

    assert {
        name: (theirs.get(name), ours[name]) for name in ours if theirs.get(name) != ours[name]
    } == {}
    assert len(ours) > 600
