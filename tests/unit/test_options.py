"""Options in section `mqdlq` of Airflow's configuration stand for variables that are not set."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mqdlq import directories
from mqdlq.directories import OPTIONS, adopt_options


@pytest.fixture(autouse=True)
def _airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let airflow.cfg have a lake and a handlers' directory; no variable is set."""
    monkeypatch.setattr(os, "environ", {"AIRFLOW_HOME": str(tmp_path)})
    (tmp_path / "rules").mkdir()
    (tmp_path / "airflow.cfg").write_text(
        "[core]\nparallelism = 4\n[mqdlq]\n# home = \nlake = s3://lake/50%\n"
        f"rules_dir = {tmp_path}/rules\n"
    )


def test_an_option_of_airflow_cfg_is_where_state_and_handlers_are(tmp_path: Path) -> None:
    adopt_options()

    assert directories.lake() == "s3://lake/50%"
    assert directories.rules_directory() == tmp_path / "rules"
    assert "MQDLQ_HOME" not in os.environ


def test_a_variable_counts_before_airflows_variable_and_that_before_airflow_cfg() -> None:
    os.environ |= {"MQDLQ_LAKE": "/own", "AIRFLOW__MQDLQ__RULES_DIR": "/of/airflow"}

    adopt_options()

    assert os.environ["MQDLQ_LAKE"] == "/own"
    assert os.environ["MQDLQ_RULES_DIR"] == "/of/airflow"


def test_a_broken_configuration_is_left_to_airflow(tmp_path: Path) -> None:
    (tmp_path / "airflow.cfg").write_text("no section\n")

    adopt_options()

    assert not [name for name in os.environ if name.startswith("MQDLQ_")]


def test_every_option_stands_for_a_variable_of_the_reference() -> None:
    page = (directories.PROJECT / "docs" / "reference" / "environment.md").read_text("utf-8")

    assert [name for name in OPTIONS if f"| `MQDLQ_{name.upper()}` |" not in page] == []
