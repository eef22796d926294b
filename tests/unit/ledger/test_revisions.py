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
from tests.unit.ledger.described_schemas import another, declared, schema_of

pytestmark = pytest.mark.slow

MIGRATIONS = Path(migrations.__file__).parent
RELEASED = {
    "r0001_create_the_ledger.py": "6d829167494efd1d",
    "r0001_create_the_ledger.sql": "e261a3ca08ad7104",
    "r0002_keep_diagnoses.py": "e4f69de9ea95acd9",
}
"""By file: the first 16 digits of its SHA-256. A new revision is added here when it lands."""


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def test_a_released_revision_is_never_edited() -> None:
    """Ledgers have had it already: what was forgotten goes into a new revision."""
    files = (MIGRATIONS / "versions").glob("r*.*")

    assert {file.name: digest(file) for file in files} == RELEASED


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
