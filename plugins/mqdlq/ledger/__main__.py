"""``python -m mqdlq.ledger``: brings the ledger's schema up to date and prints its revision."""

import click

from mqdlq.errors import MqDlqError
from mqdlq.ledger import open_ledger
from mqdlq.ledger.migrations import revision_of


@click.command()
def main() -> None:
    """Create the ledger or bring it up to date; run this once before the services start.

    Every command and task that opens a ledger does the same. The ledger is the one of
    MQDLQ_LEDGER_URL or MQDLQ_LEDGER_URL_FILE, else an SQLite file in MQDLQ_HOME.

    Example: MQDLQ_LEDGER_URL_FILE=/run/secrets/ledger_url python -m mqdlq.ledger
    """
    try:
        with open_ledger() as ledger:
            click.echo(f"ledger {ledger}: revision {revision_of(ledger.engine)}")
    except MqDlqError as error:
        click.echo(f"mqdlq: {error}", err=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
