"""Test that every command reports a broken home in one sentence and loses no message."""

from __future__ import annotations

import atexit
import hashlib
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import make_url

from mqdlq import directories
from mqdlq.cli import app
from mqdlq.headers import MessageDescriptor
from mqdlq.ledger import database
from mqdlq.local import environment
from tests.support.declared_commands import all_commands, help_examples
from tests.support.postgresql import running_server
from tests.support.wire.pasted_messages import print_amqsbcg

pytestmark = pytest.mark.slow

Command = tuple[str, ...]

OFFLINE = {
    ("causes",),
    ("decode",),
    ("explain-error",),
    ("lsp",),
    ("rules", "check"),
    ("rules", "format"),
    ("rules", "convert"),
    ("rules", "diff"),
}
LEDGER = {
    *(("report",), ("restore", "list"), ("snapshots", "list"), ("snapshots", "prune")),
    *(("prune",), ("hold", "add"), ("hold", "remove"), ("hold", "list")),
    *(("ledger", "status"), ("ledger", "take-on"), ("find",), ("stop",)),
    *(("diagnose",), ("mcp",)),
}
LAKE = {
    *(("report",), ("restore", "list"), ("ledger", "status"), ("ledger", "take-on")),
    ("shadow",),
    ("rules", "suggest"),
    *(("snapshots", name) for name in ("list", "show", "prune", "import", "payload")),
}
CREATING = {("snapshots", "import"), ("qm", "create"), ("ledger", "take-on")}
"""The commands that create a missing home."""
IN_AIRFLOW = {
    *(("run",), ("check",), ("restore", "run"), ("airflow",)),
    *(("connection", "add"), ("connection", "test"), ("init",), ("backfill",)),
}
"""The commands that start an Airflow."""

SECRET = "pass-word"  # noqa: S105 (no secret)


@dataclass(frozen=True)
class Broken:
    """A way in which a home is broken.

    `settings` breaks the home and returns the environment that names it. Each of `commands` prints
    `sentence`, where {} stands for the place, and ends with exit code `code`.
    """

    settings: Callable[[Path], dict[str, str]]
    sentence: str
    commands: set[Command]
    in_airflow: bool = False


def text_file(place: Path) -> str:
    (place / "file").write_text("not a database, and not a directory\n" * 50, encoding="utf-8")
    return str(place / "file")


def database_of_another_program(place: Path) -> str:
    with sqlite3.connect(place / "other.db") as connection:
        connection.execute("CREATE TABLE dag_run (id INTEGER)")
    return f"sqlite:///{place}/other.db"


def locked(place: Path) -> str:
    connection = sqlite3.connect(place / "locked.db", isolation_level=None)
    connection.execute("CREATE TABLE attempts (seq INTEGER)")
    connection.execute("BEGIN EXCLUSIVE")
    _HELD.append(connection)
    return f"sqlite:///{place}/locked.db"


def url_with_wrong_password(_: Path) -> str:
    server = running_server()
    url = make_url(server.new_ledger_url())
    server.ask_for_a_password("guarded", SECRET)
    return url.set(username="guarded", password=f"not-{SECRET}").render_as_string(
        hide_password=False
    )


def broken_metadata(place: Path) -> dict[str, str]:
    (place / "home/airflow").mkdir()
    shutil.copy(text_file(place), place / "home/airflow/airflow.db")
    return {}


_HELD: list[sqlite3.Connection] = []
KINDS = {
    "a server that is down": Broken(
        lambda _: {"MQDLQ_LEDGER_URL": f"postgresql+psycopg://mqdlq:{SECRET}@127.0.0.1:1/ledger"},
        (
            "mqdlq: the ledger postgresql+psycopg://mqdlq:***@127.0.0.1:1/ledger cannot be"
            ' used: connection to server at "127.0.0.1", port 1 failed: Connection refused;'
            " start the database server, or correct the ledger's URL [MQDLQ-205]"
        ),
        LEDGER,
    ),
    "a wrong password": Broken(
        lambda place: {"MQDLQ_LEDGER_URL": url_with_wrong_password(place)},
        'failed: FATAL: password authentication failed for user "guarded"; correct user and'
        " password in the ledger's URL",
        LEDGER,
    ),
    "a file that is no database": Broken(
        lambda place: {"MQDLQ_LEDGER_URL": f"sqlite:///{text_file(place)}"},
        (
            "mqdlq: the ledger sqlite:///{}/file cannot be used: the file is not an SQLite"
            " database; name another file, or restore a backup [MQDLQ-218]"
        ),
        LEDGER,
    ),
    "a directory": Broken(
        lambda place: {"MQDLQ_LEDGER_URL": f"sqlite:///{place}"},
        (
            "mqdlq: the ledger sqlite:///{} cannot be used: {} is a directory; name a file in"
            " it [MQDLQ-222]"
        ),
        LEDGER,
    ),
    "a file below a file": Broken(
        lambda place: {"MQDLQ_LEDGER_URL": f"sqlite:///{text_file(place)}/ledger.db"},
        (
            "mqdlq: the ledger sqlite:///{}/file/ledger.db cannot be used: {}/file is not a"
            " directory; name a file in a directory [MQDLQ-223]"
        ),
        LEDGER,
    ),
    "an unknown driver": Broken(
        lambda _: {"MQDLQ_LEDGER_URL": f"oracle://mqdlq:{SECRET}@db/ledger"},
        (
            "mqdlq: the ledger cannot be kept in a database of the kind 'oracle'; expected"
            " sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE [MQDLQ-202]"
        ),
        LEDGER,
    ),
    "a URL that is none": Broken(
        lambda _: {"MQDLQ_LEDGER_URL": f"postgresql+psycopg://mqdlq:x@{SECRET}@db/ledger"},
        "mqdlq: the ledger's URL cannot be read; expected sqlite:///FILE or"
        " postgresql+psycopg://USER:PASSWORD@HOST/DATABASE, and in a password %40 for @, %3A for :"
        " and %2F for /",
        LEDGER,
    ),
    "another program's database": Broken(
        lambda place: {"MQDLQ_LEDGER_URL": database_of_another_program(place)},
        (
            "mqdlq: the ledger sqlite:///{}/other.db cannot be used: the database belongs to"
            " another program (it has the table dag_run); name an empty database in the"
            " ledger's URL [MQDLQ-224]"
        ),
        LEDGER,
    ),
    "a locked database": Broken(
        lambda place: {"MQDLQ_LEDGER_URL": locked(place)},
        (
            "mqdlq: the ledger sqlite:///{}/locked.db cannot be used: another process keeps"
            " the file locked; end it, and try again [MQDLQ-216]"
        ),
        LEDGER,
    ),
    "no file with the URL": Broken(
        lambda place: {"MQDLQ_LEDGER_URL_FILE": f"{place}/url"},
        (
            "mqdlq: the ledger's URL cannot be read from {}/url (No such file or directory);"
            " write the URL into that file, or correct MQDLQ_LEDGER_URL_FILE [MQDLQ-204]"
        ),
        LEDGER,
    ),
    "a home that is a file": Broken(
        lambda place: {"MQDLQ_HOME": text_file(place)},
        "{}/file is not a directory; correct MQDLQ_HOME [MQDLQ-230]",
        all_commands().keys() - OFFLINE,
        in_airflow=True,
    ),
    "a home where nothing can be written": Broken(
        lambda _: {"MQDLQ_HOME": "/sys/mqdlq"},
        (
            "mqdlq: /sys/mqdlq cannot be used (Operation not permitted); give user id 0 the"
            " rights to read and write it, or name another directory in MQDLQ_HOME"
            " [MQDLQ-232]"
        ),
        {*IN_AIRFLOW, ("qm", "create"), ("snapshots", "import")},
        in_airflow=True,
    ),
    "Airflow's metadata that are no database": Broken(
        broken_metadata,
        (
            "mqdlq: Airflow's metadata {}/home/airflow/airflow.db cannot be read (file is not"
            " a database); restore a backup, or remove {}/home/airflow to start without"
            " earlier runs and connections [MQDLQ-811]"
        ),
        IN_AIRFLOW,
        in_airflow=True,
    ),
    "a lake of an unknown kind": Broken(
        lambda _: {"MQDLQ_LAKE": "nowhere://lake"},
        " is not a location that fsspec can open: Protocol not known: nowhere [MQDLQ-414]",
        LAKE,
    ),
    "a lake that is a file": Broken(
        lambda place: {"MQDLQ_LAKE": text_file(place)},
        "{}/file is not a directory; correct MQDLQ_LAKE [MQDLQ-230]",
        {*LAKE, ("find",), ("prune",), ("mcp",)},
    ),
    "no directory of rules": Broken(
        lambda place: {"MQDLQ_RULES_DIR": f"{place}/none"},
        ("the directory {}/none does not exist; create it, or correct MQDLQ_RULES_DIR [MQDLQ-231]"),
        {
            ("run",),
            ("check",),
            ("restore", "run"),
            ("backfill",),
            ("prune",),
            ("hold", "add"),
            ("backout-advice",),
            ("diagnose",),
            ("find",),
            ("mcp",),
        },
    ),
}


@cache
def healthy() -> Path:
    """Create a home with the demo's queue manager and a ledger once; tests copy it."""
    place = Path(tempfile.mkdtemp(prefix="mqdlq-healthy-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    settings = {**os.environ, "MQDLQ_HOME": str(place / "home")}
    for module in ("mqdlq.local.demo", "mqdlq.ledger"):
        subprocess.run([sys.executable, "-m", module], env=settings, check=True)
    return place / "home"


@pytest.fixture(name="place")
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Go to a directory with a healthy home and the files that the examples of the help name."""
    shutil.copytree(healthy(), tmp_path / "home")
    shutil.copytree(directories.PROJECT / "include", tmp_path / "include")
    shutil.copy(tmp_path / "include/rules/demo.rules", tmp_path / "old.rules")
    (tmp_path / "dead.jsonl").touch()
    paste = print_amqsbcg([(MessageDescriptor(format="MQSTR"), b"stray")])
    (tmp_path / "dump.txt").write_text(paste, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("AIRFLOW_HOME", raising=False)  # that of other tests in this process
    monkeypatch.setattr(database, "OPEN_WITHIN_S", 0.1)
    monkeypatch.setattr(environment, "wait_for_turn", _start)
    umask, handler = os.umask(0o022), signal.getsignal(signal.SIGTERM)
    yield tmp_path
    os.umask(umask)
    signal.signal(signal.SIGTERM, handler)
    while _HELD:
        _HELD.pop().close()


class AirflowStartsError(Exception):
    """Raised in place of starting an Airflow, whose metadata come first."""


def _start() -> None:
    raise AirflowStartsError


def arguments_of(path: Command) -> list[str]:
    """Return the arguments of a command's first example in its help."""
    begin = f"mqdlq {' '.join(path)}"
    lines = [line for line in help_examples(all_commands()[path]) if begin in line]
    (called,) = (part for part in lines[0].split(" | ") if part.startswith(begin))
    words = shlex.split(called.partition(" > ")[0])[1:]
    return [found for word in words for found in matching(word)]


def matching(word: str) -> list[str]:
    """Return the words into which a shell expands a word."""
    return sorted(map(str, Path().glob(word))) if "*" in word else [word]


def called(path: Command, *, in_airflow: bool) -> tuple[int | None, str]:
    """Call a command; return its exit code, or None if it started an Airflow, and its output."""
    if in_airflow and path in IN_AIRFLOW:
        program = [sys.executable, "-c", "from mqdlq.cli import app; app()", *arguments_of(path)]
        done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr
    before = dict(os.environ)
    result = CliRunner().invoke(app, arguments_of(path), input="")
    os.environ.clear()
    os.environ.update(before)
    if isinstance(result.exception, AirflowStartsError):
        return None, ""
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result.exit_code, result.output


def digests(place: Path) -> dict[str, str]:
    """Return the digests of the files that no command may change."""
    kept = [place / "file", place / "other.db", place / "home/airflow/airflow.db"]
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in kept if file.exists()
    }


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=name, marks=[pytest.mark.airflow] * kind.in_airflow)
        for name, kind in KINDS.items()
    ],
)
def test_every_command_reports_a_broken_home(
    kind: Broken, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in kind.settings(place).items():
        monkeypatch.setenv(name, value)
    before = digests(place)
    sentence = kind.sentence.replace("{}", str(place))
    reporting = {}

    for path in all_commands():
        code, printed = called(path, in_airflow=kind.in_airflow)
        for word in ("Traceback", "sqlalche.me", SECRET):
            assert word not in printed, (path, printed)
        if sentence in printed:
            reporting[path] = code
            assert len(printed.splitlines()) == 1, (path, printed)

    assert set(reporting) == kind.commands
    assert set(reporting.values()) <= {1, 2}
    assert digests(place) == before


def test_a_mistyped_home_is_reported_and_not_created(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_HOME", f"{place}/mistyped")
    reporting = {}

    for path in all_commands().keys() - CREATING:
        code, printed = called(path, in_airflow=False)
        if printed.endswith("[MQDLQ-263]\n"):
            reporting[path] = code, printed
        assert not (place / "mistyped").exists(), path

    assert set(reporting) == LEDGER - CREATING
    assert set(reporting.values()) == {
        (
            1,
            (
                f"mqdlq: the ledger sqlite:///{place}/mistyped/ledger.db cannot be used: the file"
                " does not exist; correct MQDLQ_HOME, or MQDLQ_LEDGER_URL if it is set, or start a"
                " run: `mqdlq run HANDLER` [MQDLQ-263]\n"
            ),
        )
    }


def test_no_message_moves_while_the_ledger_cannot_be_used(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    depth = CliRunner().invoke(app, ["qm", "depth", "QM1", "SYSTEM.DEAD.LETTER.QUEUE"]).output
    monkeypatch.setenv("MQDLQ_LEDGER_URL", f"sqlite:///{text_file(place)}")
    for path in all_commands():
        if (
            path[0] != "qm"
        ):  # these put messages, or end queue managers, which removes nonpersistent messages
            called(path, in_airflow=False)

    after = CliRunner().invoke(app, ["qm", "depth", "QM1", "SYSTEM.DEAD.LETTER.QUEUE"]).output
    assert after == depth
