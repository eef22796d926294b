"""The file OWNERS says who owns a cause; `rules check` refuses an owner that does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mqdlq.cli import app
from mqdlq.handlers.owners import NOBODY, Owner, check_owners, read_owners
from mqdlq.handlers.owners import Owners as OwnersFile

VALID = """\
owners:
  payments: {users: [ann, bob]}
  crm: {role: Crm}
causes:
  - {destination: "PAY*", owner: payments}
  - {application: "crm*", owner: crm}
  - {destination: "PAY*", queue_manager: "QMTEST*", owner: crm}
"""


def owners() -> OwnersFile:
    found, diagnostics = check_owners(VALID.encode(), "OWNERS")
    assert diagnostics == ()
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (("PAYMENTS", ["web"], ["QM1"]), "payments"),
        (("PAYMENTS", ["crm-in", "web"], ["QM1"]), "crm"),
        (("PAYMENTS", ["web"], ["QMTEST1"]), "crm"),
        (("ORDERS", ["web"], ["QM1"]), ""),
        (("ORDERS", [], []), ""),
    ],
)
def test_the_last_entry_that_fits_a_cause_names_its_owner(
    cause: tuple[str, list[str], list[str]], expected: str
) -> None:
    assert owners().of(*cause) == expected


def test_an_owner_is_a_user_by_name_or_a_person_of_its_role() -> None:
    assert owners().owners["payments"].has(["bob"], [])
    assert not owners().owners["payments"].has(["eve"], ["Crm", ""])
    assert owners().owners["crm"].has(["eve"], ["Viewer", "Crm"])
    assert not Owner(users=("ann",)).has([], [""])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("causes: [{owner: nobody}]", "no owner is called 'nobody'; declared are: none"),
        ("owners: {crm: {}}", "owner 'crm' is nobody; give it a role or users"),
        ("owners: {crm: {rule: Crm}}", "owners.crm.rule: Extra inputs are not permitted"),
        ("causes: [{destination: A}]", "causes.0.owner: Field required"),
        ("owners: [", "not YAML"),
    ],
)
def test_a_file_that_is_not_valid_is_refused_by_rules_check(
    tmp_path: Path, text: str, fault: str
) -> None:
    (tmp_path / "OWNERS").write_text(text)

    answer = CliRunner().invoke(app, ["rules", "check", str(tmp_path)])

    assert answer.exit_code == 1
    assert fault in answer.output
    assert read_owners(tmp_path) == NOBODY


def test_rules_check_counts_the_owners_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "OWNERS").write_text(VALID)

    answer = CliRunner().invoke(app, ["rules", "check", str(tmp_path)])

    assert answer.exit_code == 0
    assert "2 owners" in answer.output
    assert read_owners(tmp_path).owners.keys() == {"payments", "crm"}
    assert read_owners(tmp_path / "elsewhere") == NOBODY
