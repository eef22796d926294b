"""The command `mqdlq stop`: end a run in progress in an orderly way."""

import click

from mqdlq import directories
from mqdlq.cli.output import now, refusal
from mqdlq.ledger import open_ledger
from mqdlq.stages.stopping import ask_to_stop
from mqdlq.words import stop_in_words


def stop(run: str, *, why: str = "") -> None:
    """Implement `mqdlq stop`.

    The run commits its open unit of work, moves no further message, makes no further pass, and ends
    with its account and its report. Messages that it has not tried stay on the queue for the next
    run. A second request changes nothing. A run that waits for an approval ends when somebody
    answers: reject its plan. The ledger records the user of this computer, the time and the reason.

    Exit code 0 if the run is asked to stop; 1 if it has ended; 2 if no run is meant, or several.

    Takes:
      RUN: The run, or a handler that has one run in progress.
      --why: The reason, or the number of a ticket.

    For example:
      mqdlq stop demo --why "ticket 4711"
    """
    with open_ledger(create=False) as ledger:
        found = ledger.runs.get(run)
        if found is None:
            meant = [one for one in ledger.runs.open_of(run) if now() <= one.limit_at]
            if len(meant) != 1:
                names = ", ".join(one.run_id for one in meant) or "none"
                raise refusal(f"mqdlq: {run}: name one run; in progress: {names}")
            (found,) = meant
        asked = ask_to_stop(found, ledger, directories.account(), why.strip(), now())
    click.echo(f"{found.run_id}: {stop_in_words(asked)}")
