"""The command `mqdlq explain-error`: print the entry of an error id."""

import difflib

import click

from mqdlq.error_catalogue import PREFIX, entries, without_links
from mqdlq.rules.diagnostics import listed


def explain_error(error_id: str) -> None:
    """Implement `mqdlq explain-error`.

    The id is in brackets at the end of an error's first line. The entry has the error's text, with
    … or a name in braces for what varies, where to look, and what to do.

    Takes:
      ID: The error's id: MQDLQ-101, or 101.

    For example:
      mqdlq explain-error MQDLQ-101
    """
    known = entries()
    wanted = PREFIX + error_id.upper().removeprefix(PREFIX)
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, n=3) or [next(iter(known))]
        raise click.BadParameter(
            f"no error has the id {wanted}; the nearest are {listed(near, 'and')}"
        )
    entry = known[wanted]
    for text in entry.texts() or ("an error of a script of the repository, which is not here",):
        click.echo(f"{entry.error_id}: {text}")
    click.echo(f"  look here: {without_links(entry.look)}")
    click.echo(f"  do this:   {without_links(entry.do)}")
    click.echo(f"  page:      docs/reference/errors.md#{entry.anchor}")
