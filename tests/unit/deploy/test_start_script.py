"""Test deploy/start.sh, which starts the containers that need more than one command."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from mqdlq import directories

SCRIPT = directories.PROJECT / "deploy" / "start.sh"


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    """Make programs that record how they are called; `airflow db` fails where a file says so."""
    for program in ("airflow", "python"):
        file = tmp_path / program
        file.write_text(
            f'#!/bin/sh\necho {program} "$@" >>{tmp_path}/asked\n'
            f'[ ! -e {tmp_path}/broken ] || [ "$1" != db ]\n',
            encoding="utf-8",
        )
        file.chmod(0o755)
    (tmp_path / "asked").touch()
    return tmp_path


def start(place: Path, *words: str) -> tuple[int, list[str], str]:
    """Run the script; return its exit code, the calls of the programs, and standard error."""
    done = subprocess.run(
        ["/bin/bash", SCRIPT, *words],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": f"{place}:/usr/bin:/bin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": f"{place}/copy",
        },
    )
    return done.returncode, (place / "asked").read_text().splitlines(), done.stderr


def test_both_schemas_are_migrated_airflows_first(place: Path) -> None:
    assert start(place, "init") == (0, ["airflow db migrate", "python -m mqdlq.ledger"], "")


def test_the_ledger_stays_as_it_is_where_airflows_migration_fails(place: Path) -> None:
    (place / "broken").touch()

    assert start(place, "init") == (1, ["airflow db migrate"], "")


def test_the_api_server_writes_to_a_private_copy_of_the_passwords(place: Path) -> None:
    (place / "secret").write_text("{}", encoding="utf-8")
    (place / "secret").chmod(0o444)

    done = start(place, "api-server", f"{place}/secret", "--workers", "1")

    assert done == (0, ["airflow api-server --workers 1"], "")
    assert (place / "copy").read_text() == "{}"
    assert stat.S_IMODE((place / "copy").stat().st_mode) == 0o600


@pytest.mark.parametrize("words", [(), ("init", "more"), ("api-server",), ("scheduler",)])
def test_other_words_are_answered_with_the_usage(place: Path, words: tuple[str, ...]) -> None:
    usage = "usage: deploy/start.sh init | api-server FILE [OPTION…]\n"

    assert start(place, *words) == (2, [], usage)
