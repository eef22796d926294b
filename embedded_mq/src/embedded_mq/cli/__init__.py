"""The command `embedded-mq`, which needs the extra `cli`."""

import sys


def main() -> None:
    """Run the command."""
    try:
        from embedded_mq.cli.app import app  # noqa: PLC0415 (typer may be missing)
    except ModuleNotFoundError as error:
        sys.exit(
            f"embedded-mq: the Python package {error.name} is not installed;"
            " `pip install 'embedded-mq[cli]'` installs it"
        )
    app()
