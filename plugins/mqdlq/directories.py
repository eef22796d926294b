"""Resolve the directories of state, rules and lake, and the ledger's URL, from the environment.

Files that people write, such as rules tables, are read here too: only regular files of limited
size, so that nothing waits for a device or a pipe.
"""

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from configparser import ConfigParser
from configparser import Error as ConfigurationError
from contextlib import contextmanager, suppress
from errno import EFBIG, EINVAL, EPERM
from pathlib import Path
from typing import IO, Final

from mqdlq.errors import HomeError, LedgerError, LedgerUnavailableError

_RUN_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

PROJECT: Final = Path(__file__).resolve().parents[2]
"""The project's directory if the package is in its folder `plugins`: in a checkout or an image."""

IS_INSTALLED: Final = not (PROJECT / "plugins" / "mqdlq").is_dir()
"""Whether the package was installed from a wheel, without the project's other folders."""


MOST_BYTES: Final = 16 << 20
"""The longest handler's file or rules table, in bytes: some 200,000 rules."""

_OPEN_ALREADY: Final = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""The names of files that this process holds open, such as a shell's process substitution."""


OPTIONS: Final = {
    "home": "Directory of the ledger, the lake and reports.",
    "rules_dir": "Directory of handlers and rules tables.",
    "lake": "Location of snapshots, plans and the archive: a path or a URL of fsspec.",
    "ledger_url_file": "File with the URL of the ledger's database.",
    "trace_url": "Address of a trace, with {trace_id} in it, for the page of a message.",
    "ticket_url": "Address of a ticket, with {ticket} in it, for the inbox.",
    "agents": "Whether assistants find tools at /mqdlq/mcp of the api-server: on, or nothing.",
}
"""Options in section `mqdlq` of Airflow's configuration, each in place of a variable MQDLQ_…."""


def adopt_options() -> None:
    """Set the variables MQDLQ_… that are not set from Airflow's configuration.

    AIRFLOW__MQDLQ__HOME counts before `home` in section `mqdlq` of airflow.cfg. Processes that this
    one starts inherit them.
    """
    home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
    file = Path(os.environ.get("AIRFLOW_CONFIG") or home / "airflow.cfg")
    parser = ConfigParser(interpolation=None, strict=False)
    with suppress(OSError, ConfigurationError, UnicodeDecodeError):  # Airflow reports them
        parser.read(file, encoding="utf-8")
    for name in OPTIONS:
        written = parser.get("mqdlq", name, fallback="")
        if value := os.environ.get(f"AIRFLOW__MQDLQ__{name.upper()}") or written:
            os.environ.setdefault(f"MQDLQ_{name.upper()}", value)


def home() -> Path:
    """Return the state directory; it is not created here.

    MQDLQ_HOME names it. The default is `var` in the project's directory, or `mqdlq` in AIRFLOW_HOME
    for an installed package. Raises HomeError if it exists and is not a directory.
    """
    place = _named_home()
    _refuse_files("MQDLQ_HOME", place)
    return place


def _named_home() -> Path:
    if named := os.environ.get("MQDLQ_HOME"):
        return Path(named)
    airflow = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
    return airflow / "mqdlq" if IS_INSTALLED else PROJECT / "var"


def make_private_directory(directory: Path) -> None:
    """Create a missing directory and its parents, accessible to their owner only."""
    for missing in (*reversed(directory.parents), directory):
        missing.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def new_file(final: Path) -> Iterator[IO[bytes]]:
    """Write a file that appears complete under its name, for its owner only, or not at all."""
    handle, temporary = tempfile.mkstemp(dir=final.parent, prefix=f".{final.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(final)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def shown(path: Path | str) -> str:
    """Return a path for a message: relative if it is below the current directory."""
    place = Path(path)
    return str(place.relative_to(Path.cwd())) if place.is_relative_to(Path.cwd()) else str(path)


def account() -> str:
    """Return the name of this process's user in the operating system, or its number."""
    import pwd  # noqa: PLC0415 (a browser, where tables can be tried, has no such module)

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in a container that runs under any number
        return str(os.getuid())


def queue_managers() -> Path:
    return home() / "queue_managers"


def lake_location() -> str:
    """Return the lake's location as `lake` does, also if it cannot be used."""
    return os.environ.get("MQDLQ_LAKE") or str(home() / "lake")


def lake() -> str:
    """Return the lake's location, an fsspec URL or a path (MQDLQ_LAKE overrides it).

    Raises HomeError if it is a path that exists and is not a directory.
    """
    place = lake_location()
    _refuse_files("MQDLQ_LAKE", Path(place.removeprefix("file://")))
    return place


def rules_directory() -> Path:
    """Return the directory of handlers and rules tables.

    MQDLQ_RULES_DIR names it. The default is `include/rules` in the project's directory, or
    `handlers` in the state directory for an installed package. Raises HomeError if there is no such
    directory.
    """
    default = home() / "handlers" if IS_INSTALLED else PROJECT / "include" / "rules"
    place = Path(os.environ.get("MQDLQ_RULES_DIR") or default)
    _refuse_files("MQDLQ_RULES_DIR", place)
    if not place.exists():
        raise HomeError(
            "MQDLQ-231",
            f"the directory {place} does not exist; create it, or correct MQDLQ_RULES_DIR",
        )
    return place


def read_rules_file(path: Path, folder: Path | None = None) -> bytes:
    """Return the bytes of a handler's file or a rules table, at most `MOST_BYTES`.

    With a `folder`, the file must be in it or below it, also if it is a link. Raises OSError for
    such a file and for anything but a regular file; it waits for no device or pipe.
    """
    # Nearly all files are no links: to read one takes a fifth of the time that resolving it takes.
    is_within = path.parent == folder and stat.S_ISREG(path.lstat().st_mode)
    place = path if is_within else path.resolve()
    if folder is not None and not is_within and not place.is_relative_to(folder.resolve()):
        raise OSError(EPERM, f"it is not in the directory {folder}; move it there", str(path))
    options = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    found = place.stat()
    _refuse(found, path, MOST_BYTES)
    # A pipe or a device that took its place since then does not block, and is read to a limit. This
    # is not asked for at once: Python reserves the memory, which takes longer than reading a file.
    with os.fdopen(os.open(place, options), "rb") as file:
        data = file.read(found.st_size + 1)
        return data if len(data) <= found.st_size else data + file.read(MOST_BYTES - len(data))


def check_input(path: Path) -> None:
    """Raise OSError for a file that a command cannot read to its end.

    A pipe that this process holds open already can be read.
    """
    found = path.stat()
    if not (stat.S_ISFIFO(found.st_mode) and str(path).startswith(_OPEN_ALREADY)):
        _refuse(found, path)


def _refuse(found: os.stat_result, path: Path, most: int | None = None) -> None:
    if not stat.S_ISREG(found.st_mode):
        why = "it is a directory, a device or a pipe; name a regular file"
        raise OSError(EINVAL, why, str(path))
    if most is not None and found.st_size > most:
        why = f"it has {found.st_size} bytes, at most {most} (16 MiB) are read; divide it"
        raise OSError(EFBIG, why, str(path))


def explain(error: OSError) -> str:
    """Return the failure and its file, and the setting that names the place, if any."""
    if not error.filename:
        return str(error)
    file = Path(os.fsdecode(error.filename))
    if not file.absolute().is_relative_to(_named_home().absolute()):
        return f"{file}: {error.strerror} [MQDLQ-233]"
    return (
        f"{file} cannot be used ({error.strerror}); give user id {os.geteuid()} the rights to read"
        " and write it, or name another directory in MQDLQ_HOME [MQDLQ-232]"
    )


def _refuse_files(setting: str, place: Path) -> None:
    with suppress(OSError):  # a fault that its user meets, and reports
        if place.exists() and not place.is_dir():
            raise HomeError("MQDLQ-230", f"{place} is not a directory; correct {setting}")


def ledger_url() -> str:
    """Return the ledger's database as SQLAlchemy names it; an SQLite file in the state directory.

    MQDLQ_LEDGER_URL overrides it. Because the URL may contain a password, MQDLQ_LEDGER_URL_FILE can
    name a file with the URL as its only line. Raises LedgerUnavailableError if the file has none.
    """
    if url := os.environ.get("MQDLQ_LEDGER_URL"):
        return url
    file = os.environ.get("MQDLQ_LEDGER_URL_FILE")
    return _line_of(Path(file)) if file else f"sqlite:///{home() / 'ledger.db'}"


def _line_of(file: Path) -> str:
    try:
        line = file.read_text(encoding="utf-8").strip()
        why = "it is empty"
    except (OSError, UnicodeDecodeError) as error:
        line, why = "", getattr(error, "strerror", "it is not text")
    if not line:
        raise LedgerUnavailableError(
            "MQDLQ-204",
            f"the ledger's URL cannot be read from {file} ({why}); write the URL into that file,"
            " or correct MQDLQ_LEDGER_URL_FILE",
        )
    return line


def report_directory(run_id: str) -> Path:
    """Return where a run's report stands; raise LedgerError for an id unfit for a directory."""
    if not _RUN_ID.fullmatch(run_id):
        raise LedgerError(
            "MQDLQ-241",
            f"run id {run_id!r} cannot name a directory; expected letters, digits, '_', '-', '.'",
        )
    return home() / "reports" / run_id
