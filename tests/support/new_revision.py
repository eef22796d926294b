"""``python -m tests.support.new_revision "Add …"``: write the revision of a changed declaration.

It holds what `mqdlq.ledger.tables` declares and a ledger of the newest revision lacks, as Alembic
finds it. Read it before you commit it.
"""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO

import click
from alembic import command
from alembic.script import Script

from mqdlq.ledger.database import connect_to, to_migrate
from mqdlq.ledger.migrations import alembic_config, migrate, revisions


@click.command()
@click.argument("message")
def main(message: str) -> None:
    """Write the next revision into `versions`; MESSAGE says what it does, as a commit would."""
    engine = connect_to("sqlite://")
    migrate(engine)
    with to_migrate(engine) as connection, redirect_stdout(StringIO()):
        number = f"{int(revisions()[-1]) + 1:04}"
        config = alembic_config(connection)
        written = command.revision(config, message, autogenerate=True, rev_id=number)
    assert isinstance(written, Script)  # it is a list only where there are branches
    click.echo(written.path)


if __name__ == "__main__":
    main()
