"""``python -m mqdlq.ledger``: brings the ledger's schema up to date, and says what was applied."""

from __future__ import annotations

import typer
from sqlalchemy.engine import make_url

from mqdlq import home
from mqdlq.ledger import open_ledger
from mqdlq.ledger.schema import applied


def main() -> None:
    """Create the ledger or bring it up to date; to be run once before the services start.

    Whatever opens a ledger does the same, so nothing is lost where it is left out. The ledger is
    the one of MQDLQ_LEDGER_URL or MQDLQ_LEDGER_URL_FILE, else an SQLite file in MQDLQ_HOME.

    Example: MQDLQ_LEDGER_URL_FILE=/run/secrets/ledger_url python -m mqdlq.ledger
    """
    with open_ledger() as ledger:
        names = sorted(applied(ledger.engine))
    # SQLAlchemy shows a URL without its password.
    typer.echo(f"ledger {make_url(home.ledger_url())}: {', '.join(names)}")


if __name__ == "__main__":
    typer.run(main)
