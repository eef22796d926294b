"""Test which files a handler's rules are read from."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqdlq.cli import app
from mqdlq.directories import MOST_BYTES
from mqdlq.errors import HandlerError
from mqdlq.handlers import load_handler
from mqdlq.reading.fleet import HandlerFiles

OTHERS = "root:x:0:0"


def link(table: Path) -> None:
    other = table.parent.parent / "secret.txt"
    other.write_text(OTHERS, encoding="utf-8")
    table.symlink_to(other)


def make_long(table: Path) -> None:
    with table.open("wb") as file:
        file.truncate(MOST_BYTES + 1)


OUTSIDE = "it is not in the directory {folder}; move it there"
STREAM = "it is a directory, a device or a pipe; name a regular file"
REFUSED = [
    pytest.param(link, "t.rules", OUTSIDE, id="a link to a file elsewhere"),
    pytest.param(Path.exists, "/dev/zero", OUTSIDE, id="a device"),
    pytest.param(Path.exists, "../secret.txt", OUTSIDE, id="a file beside the directory"),
    pytest.param(os.mkfifo, "t.rules", STREAM, id="a pipe"),
    pytest.param(Path.mkdir, "t.rules", STREAM, id="a directory"),
    pytest.param(
        make_long,
        "t.rules",
        "it has 16777217 bytes, at most 16777216 (16 MiB) are read; divide it",
        id="a file that is too long",
    ),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "rules"
    place.mkdir()
    return place


@pytest.mark.parametrize(("make", "name", "why"), REFUSED)
def test_a_table_is_a_regular_file_in_the_rules_directory(
    folder: Path, make: Callable[[Path], object], name: str, why: str
) -> None:
    make(folder / "t.rules")
    (folder / "demo.yaml").write_text(f"connection: mq\nrules: {name}\n", encoding="utf-8")

    with pytest.raises(HandlerError) as refused:
        load_handler("demo", folder).rules_text()

    said = f"{folder / name}: the rules table cannot be read: {why.format(folder=folder)}"
    assert str(refused.value) == f"{said} [MQDLQ-305]"
    result = CliRunner().invoke(app, ["rules", "check", str(folder / "demo.yaml")])
    assert result.exit_code == 1
    assert f"{folder}/demo.yaml:2:8: {said}\n" in result.output
    assert OTHERS not in result.output
    assert HandlerFiles().read(folder)["demo"].errors


def test_a_handler_is_a_regular_file_in_the_rules_directory(folder: Path) -> None:
    elsewhere = folder.parent / "demo.yaml"
    elsewhere.write_text("connection: mq\nrules: t.rules\n", encoding="utf-8")
    (folder / "demo.yaml").symlink_to(elsewhere)
    os.mkfifo(folder / "pipe.yaml")

    for name, why in (("demo", OUTSIDE.format(folder=folder)), ("pipe", STREAM)):
        with pytest.raises(HandlerError) as refused:
            load_handler(name, folder)
        assert str(refused.value) == f"{folder}/{name}.yaml: cannot be read: {why} [MQDLQ-304]"


def test_a_link_within_the_rules_directory_is_followed(folder: Path) -> None:
    """Kubernetes mounts the files of a ConfigMap as such links."""
    (folder / "..data").mkdir()
    (folder / "..data" / "t.rules").write_text("ACTION(RETRY)\n", encoding="utf-8")
    (folder / "t.rules").symlink_to("..data/t.rules")
    (folder / "demo.yaml").write_text("connection: mq\nrules: t.rules\n", encoding="utf-8")

    assert load_handler("demo", folder).rules_text()[1] == "ACTION(RETRY)\n"


@pytest.mark.parametrize(
    "command",
    [
        ["rules", "check", "{path}"],
        ["rules", "format", "{path}"],
        ["explain", "--rules", "{path}", "messages.json"],
        ["decode", "{path}"],
    ],
)
@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
def test_a_command_waits_for_no_device_or_pipe(
    tmp_path: Path, command: list[str], name: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = str(tmp_path / name)

    result = CliRunner().invoke(app, [part.format(path=path) for part in command])

    assert result.exit_code == 2
    assert STREAM in " ".join(result.output.split())


def test_a_command_reads_a_pipe_of_the_shell() -> None:
    """As in `mqdlq rules check <(generate)`."""
    reading, writing = os.pipe()
    os.write(writing, b"DESTQ(A) ACTION(RETRY)\nACTION(FWD) FWDQ(B)\n")
    os.close(writing)
    try:
        result = CliRunner().invoke(app, ["rules", "check", f"/dev/fd/{reading}"])
    finally:
        os.close(reading)

    assert result.output == f"/dev/fd/{reading}: 2 rules\n"
