"""Released revisions stay as they are, and each change of a declared table has one."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, ForeignKeyConstraint, Index, MetaData, String, Table

from mqdlq import directories
from mqdlq.ledger import migrations, open_ledger
from mqdlq.ledger.tables import metadata
from tests.unit.ledger.older_ledgers import another, declared, schema_of

pytestmark = pytest.mark.slow

MIGRATIONS = Path(migrations.__file__).parent
RELEASED = {
    "released/m0001_create_the_ledger.sql": "849a9e0e1e05ec10",
    "released/m0002_park_messages.sql": "2c9177cf9d518601",
    "released/m0003_look_and_approve.sql": "1945fa85cd5cc5e0",
    "released/m0004_know_what_was_pruned.sql": "3ff7fe4e0c0df921",
    "released/m0005_restore_from_the_archive.sql": "9ac8a5a557618e77",
    "released/m0006_learn_what_was_unknown.sql": "a6e5a2fe22af5a64",
    "released/m0007_know_the_age_of_what_stays.sql": "ac18201a6ea6c821",
    "versions/r0001_create_the_ledger.py": "bfc2714dabe960c8",
    "versions/r0002_refer_by_foreign_keys.py": "b2b4314565e7dc5d",
    "versions/r0003_add_who_started_a_run.py": "197f3d3cdbe36de1",
    "versions/r0004_use_one_term_for_one_thing.py": "bbd3619296f1f3c2",
    "versions/r0005_prune_archive_and_ledger.py": "12bcd0d8235167a2",
    "versions/r0006_record_verdicts_and_maxdepth.py": "27f4e9c12d76edc8",
    "versions/r0007_audit_who_acted_and_why.py": "3125bf5fea69f8fc",
    "versions/r0008_tell_causes_by_destination.py": "a41c23fbd98615c1",
    "versions/r0009_record_the_controls_of_runs.py": "5902c5aa10c6491a",
    "versions/r0010_record_the_identities_of_messages.py": "ef0cff155b746ed6",
    "versions/r0011_know_the_kind_of_a_queue.py": "20783ce424662210",
    "versions/r0012_add_the_meters_of_limited_rates.py": "8e8bc8a114d6dc79",
    "versions/r0013_record_states_of_ramps.py": "38ab5f7530a7f26e",
    "versions/r0014_record_when_the_next_pass_is_due.py": "5c5592693c1ca579",
    "versions/r0015_record_repairs.py": "eabdddb27e096db9",
    "versions/r0016_record_checks_by_evidence.py": "fd90fb8548feb35a",
    "versions/r0017_record_epochs_and_their_last_numbers.py": "289038185dd8af71",
    "versions/r0018_record_why_tasks_failed.py": "14bea3d38c803f23",
}
"""By file: the first 16 digits of its SHA-256. A new revision is added here when it lands."""


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def test_a_released_revision_is_never_edited() -> None:
    """Ledgers have had it already: what was forgotten goes into a new revision."""
    files = [*MIGRATIONS.glob("released/*.sql"), *MIGRATIONS.glob("versions/r*.py")]

    assert {f"{file.parent.name}/{file.name}": digest(file) for file in files} == RELEASED


def test_revisions_follow_one_another_and_their_files_bear_their_names() -> None:
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    scripts = ScriptDirectory(str(MIGRATIONS)).walk_revisions()
    found = [(script.revision, script.down_revision) for script in scripts][::-1]

    names = migrations.revisions()
    assert found == list(zip(names, (None, *names[:-1]), strict=True))
    assert names == tuple(f"{number:04}" for number in range(1, len(names) + 1))


def with_another_column(tables: dict[str, Table]) -> None:
    tables["runs"].append_column(Column("new", String(10)))


def with_a_longer_column(tables: dict[str, Table]) -> None:
    tables["runs"].c.handler.type = String(101)


def with_a_column_that_may_be_null(tables: dict[str, Table]) -> None:
    tables["runs"].c.handler.nullable = True


def with_a_default(tables: dict[str, Table]) -> None:
    tables["runs"].append_column(
        Column("handler", String(100), nullable=False, server_default="x"), replace_existing=True
    )


def with_another_index(tables: dict[str, Table]) -> None:
    Index("ix_runs_handler", tables["runs"].c.handler)


def without_a_foreign_key(tables: dict[str, Table]) -> None:
    table = tables["restoration_states"]
    for constraint in [c for c in table.constraints if isinstance(c, ForeignKeyConstraint)]:
        table.constraints.remove(constraint)


def with_another_table(tables: dict[str, Table]) -> None:
    Table("new", tables["runs"].metadata, Column("name", String(10), primary_key=True))


@pytest.mark.parametrize(
    "change",
    [
        with_another_column,
        with_a_longer_column,
        with_a_column_that_may_be_null,
        with_a_default,
        with_another_index,
        without_a_foreign_key,
        with_another_table,
    ],
)
def test_a_changed_declaration_without_a_revision_is_noticed(ledger_url: str, change: Any) -> None:
    """`test_a_new_ledger_has_the_declared_schema` would see a difference."""
    changed = MetaData(naming_convention=metadata.naming_convention)
    for table in metadata.sorted_tables:
        table.to_metadata(changed)
    with open_ledger(ledger_url) as ledger:
        schema = schema_of(ledger.engine)
    change(changed.tables)

    fresh = declared(another(ledger_url), changed)

    assert schema_of(fresh) != schema
    fresh.dispose()


def test_a_ledger_that_is_up_to_date_is_opened_without_alembic(tmp_path: Path) -> None:
    """It takes a quarter of a second to import, which a command that only reads would pay, too."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    open_ledger(url).engine.dispose()
    program = f"""
import sys
from mqdlq.ledger import open_ledger
open_ledger({url!r}).engine.dispose()
sys.exit("alembic" in sys.modules)
"""

    done = subprocess.run([sys.executable, "-c", program], check=False)

    assert done.returncode == 0


def test_an_upgrade_leaves_logging_as_it_is(tmp_path: Path) -> None:
    program = f"""
import logging
from mqdlq.ledger import open_ledger
own = logging.StreamHandler()
logging.basicConfig(level=logging.ERROR, handlers=[own])
known = logging.getLogger("known")
open_ledger({f"sqlite:///{tmp_path}/ledger.db"!r}).engine.dispose()
assert logging.getLogger().handlers == [own]
assert logging.getLogger().level == logging.ERROR
assert not known.disabled
"""

    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_wheel_brings_the_revisions_with_it(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        check=True,
        cwd=directories.PROJECT,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    program = f"""
from mqdlq.ledger import migrations, open_ledger
assert migrations.__file__.startswith({str(tmp_path)!r})
with open_ledger({f"sqlite:///{tmp_path}/ledger.db"!r}) as ledger:
    print(migrations.revision_of(ledger.engine))
"""

    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env={"PYTHONPATH": str(tmp_path / "installed")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert done.stdout == f"{migrations.revisions()[-1]}\n"
