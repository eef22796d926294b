"""Copy ledger and lake into one directory, and restore them from it.

    python deploy/backup.py backup /backups/2026-11-21
    python deploy/backup.py restore /backups/2026-11-21

The ledger is copied first. It only names what is in the lake already, so a copy of the lake taken
later holds everything it names; the other way round it would not. Handlers may run meanwhile. A
restore goes into an empty ledger and an empty lake, at the place where they were: stop Airflow
first. The restored ledger is taken on at once, since it lost what was done after the copy. Needs
pg_dump and pg_restore of the server's version where the ledger is on PostgreSQL, and a lake that is
a directory; a lake in an object store is copied with the store's own means.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tarfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import click
from sqlalchemy import create_engine, inspect
from sqlalchemy.engine import URL, make_url

from mqdlq import directories
from mqdlq.errors import MqDlqError
from mqdlq.ledger import open_ledger
from mqdlq.stages.older_ledger import take_on

LEDGER, LAKE = "ledger", "lake.tar"


class BackupError(MqDlqError):
    """A copy cannot be made, or cannot replace an existing ledger or lake."""


def backup(directory: Path) -> None:
    """Copy ledger and lake into a new directory; an unfinished copy has another name."""
    if directory.exists():
        raise BackupError("MQDLQ-920", f"{directory} exists; name a new directory")
    lake = _lake()
    url = make_url(directories.ledger_url())
    if not lake.is_dir():
        raise BackupError("MQDLQ-921", f"there is no lake {lake}; correct MQDLQ_LAKE")
    if not _has_tables(url):
        raise BackupError("MQDLQ-922", f"the ledger {url} is empty; correct MQDLQ_LEDGER_URL")
    os.umask(0o077)  # the archive holds customers' messages
    building = directory.with_name(f"{directory.name}.part")
    shutil.rmtree(building, ignore_errors=True)
    directories.make_private_directory(building)
    if url.drivername.startswith("sqlite"):
        with (
            sqlite3.connect(str(url.database)) as source,
            sqlite3.connect(building / LEDGER) as copy,
        ):
            source.backup(copy)
    else:
        _run(url, "pg_dump", "--format=custom", "--no-owner", f"--file={building / LEDGER}")
    with tarfile.open(building / LAKE, "w") as archive:
        archive.add(lake, arcname=".", recursive=False)
        for parent, subdirectories, files in os.walk(lake):
            for name in (*subdirectories, *files):
                _add(archive, Path(parent, name), lake)
    building.rename(directory)


def restore(directory: Path) -> None:
    """Put a copy in the place of an empty ledger and an empty lake."""
    lake = _lake()
    if lake.exists() and any(lake.iterdir()):
        raise BackupError("MQDLQ-923", f"the lake {lake} is not empty; move it away first")
    url = make_url(directories.ledger_url())
    if _has_tables(url):
        raise BackupError(
            "MQDLQ-924", f"the ledger {url} is not empty; name or create an empty database"
        )
    if url.drivername.startswith("sqlite"):
        with sqlite3.connect(directory / LEDGER) as copy, sqlite3.connect(str(url.database)) as new:
            copy.backup(new)
        Path(str(url.database)).chmod(0o600)
    else:
        options = ("--single-transaction", "--exit-on-error", "--no-owner")
        _run(url, "pg_restore", *options, f"--dbname={url.database}", str(directory / LEDGER))
    directories.make_private_directory(lake)
    with tarfile.open(directory / LAKE) as archive:
        archive.extractall(lake, filter="data")
    with open_ledger() as ledger:
        take_on(
            ledger,
            directories.lake(),
            who=directories.account(),
            why=f"restored from {directory}",
            clock=lambda: datetime.now(UTC),  # noqa: TID251 (an entry point)
        )


def _add(archive: tarfile.TarFile, path: Path, lake: Path) -> None:
    """Add a file or a directory, unless it was renamed or pruned meanwhile.

    The copy of the ledger is older and does not name unfinished files; a pruned snapshot is missing
    as after any pruning.
    """
    with suppress(FileNotFoundError):
        archive.add(path, arcname=f"./{path.relative_to(lake)}", recursive=False)


def _lake() -> Path:
    location = directories.lake().removeprefix("file://")
    if "://" in location:
        raise BackupError(
            "MQDLQ-925",
            f"the lake {location} is in an object store; copy it with the store's own tools",
        )
    return Path(location)


def _has_tables(url: URL) -> bool:
    if url.drivername.startswith("sqlite") and not Path(str(url.database)).exists():
        return False
    engine = create_engine(url)
    try:
        return bool(inspect(engine).get_table_names())
    finally:
        engine.dispose()


def _run(url: URL, program: str, *arguments: str) -> None:
    """Run a program of PostgreSQL's; the password goes by its environment, not its arguments."""
    given = {
        "PGHOST": url.host or url.query.get("host"),
        "PGPORT": url.port,
        "PGUSER": url.username,
        "PGPASSWORD": url.password,
        "PGDATABASE": url.database,
        "PGOPTIONS": url.query.get("options"),
    }
    environment = {name: str(value) for name, value in given.items() if value}
    done = subprocess.run(
        [program, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BackupError("MQDLQ-926", f"{program} failed: {done.stderr.strip()}")


@click.group(help=__doc__)
def app() -> None:
    """Copy ledger and lake, or put a copy in their place."""


@app.command(name="backup")
@click.argument("directory", type=click.Path(path_type=Path))
def backup_command(directory: Path) -> None:
    """Copy ledger and lake into a new DIRECTORY."""
    backup(directory)
    click.echo(f"ledger and lake are copied to {directory}")


@app.command(name="restore")
@click.argument("directory", type=click.Path(path_type=Path))
def restore_command(directory: Path) -> None:
    """Put the copy in DIRECTORY in the place of an empty ledger and lake."""
    restore(directory)
    click.echo(f"ledger and lake are those of {directory} again")


if __name__ == "__main__":
    try:
        app()
    except (BackupError, OSError) as error:
        click.echo(f"deploy/backup.py: {error}", err=True)
        raise SystemExit(1) from None
