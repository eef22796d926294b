"""Handler files are checked once for each content."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqdlq.reading.fleet import HandlerFiles

RULES = "DESTQ(A.*) ACTION(RETRY)\nACTION(FWD) FWDQ(PARKED)\n"


@pytest.fixture(name="folder")
def folder_fixture(tmp_path: Path) -> Path:
    (tmp_path / "good.yaml").write_text("connection: mq\nrules: good.rules\n")
    (tmp_path / "good.rules").write_text(RULES)
    return tmp_path


def test_a_valid_handler_has_its_configuration_and_no_errors(folder: Path) -> None:
    (file,) = HandlerFiles().read(folder).values()

    assert file.handler is not None
    assert (file.name, file.handler.rules, file.errors) == ("good", "good.rules", ())


def test_a_rejected_handler_file_has_its_fault_with_its_place(folder: Path) -> None:
    (folder / "bad.yaml").write_text("connection: mq\nruels: good.rules\n")

    file = HandlerFiles().read(folder)["bad"]

    assert file.handler is None
    assert file.errors == (f"{folder}/bad.yaml:2:1: unknown key ruels; did you mean rules?",)


def test_a_rejected_table_is_an_error_of_its_handler(folder: Path) -> None:
    (folder / "good.rules").write_text("ACTION(RETRI)\n")

    (file,) = HandlerFiles().read(folder).values()

    assert file.handler is not None
    assert [error.split(": ")[0] for error in file.errors] == [f"{folder}/good.rules:1:8"]


def test_rules_with_a_warning_have_no_errors(folder: Path) -> None:
    (folder / "good.rules").write_text("ACTION(IGNORE)\nACTION(RETRY)\n")

    (file,) = HandlerFiles().read(folder).values()

    assert file.warnings is not None
    assert file.errors == ()
    assert len(file.warnings) == 1


def test_a_changed_file_is_read_again(folder: Path) -> None:
    files = HandlerFiles()
    files.read(folder)
    (folder / "good.rules").write_text("ACTION(RETRI)\n")

    assert files.read(folder)["good"].errors

    (folder / "good.rules").write_text(RULES)
    assert not files.read(folder)["good"].errors


def test_an_unchanged_table_is_checked_once(folder: Path) -> None:
    (folder / "good.rules").write_text("ACTION(IGNORE)\nACTION(RETRY)\n")
    files = HandlerFiles()
    before = files.read(folder)["good"].warnings

    assert before
    assert files.read(folder)["good"].warnings is before


def test_rules_that_are_not_shown_are_checked_as_long_as_there_is_time(folder: Path) -> None:
    (folder / "other.yaml").write_text("connection: mq\nrules: good.rules\n")
    files = HandlerFiles()

    first = files.read(folder, shown={"other"}, check_for_s=0)
    later = files.read(folder)

    assert (first["good"].warnings, first["good"].errors) == (None, ())
    assert first["other"].warnings is not None
    assert later["good"].warnings is not None


def test_a_directory_that_does_not_exist_has_no_files(tmp_path: Path) -> None:
    assert HandlerFiles().read(tmp_path / "missing") == {}
