"""What is kept between processes: found again only as long as nothing that decides has changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mqdlq.handlers import kept
from mqdlq.handlers.kept import load_kept


@pytest.fixture(name="file")
def _file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a handler's file that has not changed for long; its table is in a subdirectory."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path / "home"))
    # Every change of a file counts as one of long ago.
    monkeypatch.setattr(kept, "_SETTLED_NS", -3600 * 10**9)
    for directory in ("files", "files/tables", "home"):
        (tmp_path / directory).mkdir()
    file = tmp_path / "files" / "day.yaml"
    write(file, "a")
    (file.parent / "tables" / "any.rules").write_text("INPUTQ(DLQ)\nACTION(IGNORE)\n")
    return file


def write(file: Path, owner: str) -> None:
    file.write_text(f"connection: mq\nrules: tables/any.rules\nowner: {owner}\n")


def place_of(file: Path) -> Path:
    """Return the only file of what is kept."""
    (place,) = (file.parents[1] / "home" / "kept").iterdir()
    return place


def keep(file: Path) -> Path:
    """Load the handlers, which keeps them; return the file of what is kept."""
    load_kept(file.parent)
    return place_of(file)


def is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether the handlers are read again, and check what is kept against the files."""
    calls, load = list[Path](), kept._load

    def reading(folder: Path) -> kept.Loaded:
        calls.append(folder)
        return load(folder)

    with monkeypatch.context() as patched:
        patched.setattr(kept, "_load", reading)
        assert repr(load_kept(file.parent)) == repr(load(file.parent))
    return bool(calls)


def test_handlers_are_kept_with_their_control_data_and_faults(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file.parent / "broken.yaml").write_text("connection: mq\n")
    keep(file)

    assert not is_read(file, monkeypatch)
    handlers, (fault,), controls = load_kept(file.parent)
    assert [one.name for one in handlers] == ["day"]
    assert (fault.error_id, "broken.yaml" in fault.text) == ("MQDLQ-301", True)
    assert (controls["day"] and controls["day"].input_q) == "DLQ"


@pytest.mark.parametrize(
    "change",
    [
        lambda file: write(file, "b"),
        lambda file: write(file.with_name("night.yaml"), "a"),
        lambda file: file.unlink(),
        lambda file: (file.parent / "tables" / "any.rules").write_text("INPUTQ(ELQ)\n"),
        lambda file: (file.parent / "tables" / "any.rules").unlink(),
    ],
    ids=["a file", "a new file", "a removed file", "a table", "a removed table"],
)
def test_after_any_change_the_files_are_read_again(
    file: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    keep(file)
    change(file)

    assert is_read(file, monkeypatch)
    assert not is_read(file, monkeypatch)


def test_a_change_within_the_same_moment_as_another_is_seen(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two changes may leave the same times, so those of a change just now prove nothing."""
    monkeypatch.setattr(kept, "_SETTLED_NS", 3600 * 10**9)
    before = file.stat()
    load_kept(file.parent)
    with file.open("r+") as written:
        written.write("C")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert is_read(file, monkeypatch)


def test_a_link_is_followed_each_time(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link, other = file.with_name("link.yaml"), file.parent / "tables" / "other"
    target = file.rename(other.with_name("target"))
    write(other, "b")
    link.symlink_to(target)
    keep(link)
    before = link.lstat().st_mtime_ns
    other.replace(target)

    assert is_read(link, monkeypatch)
    assert link.lstat().st_mtime_ns == before


def test_only_the_owner_can_read_what_is_kept(file: Path) -> None:
    place = keep(file)

    assert place.stat().st_mode & 0o777 == 0o600
    assert place.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "damage",
    [
        lambda place: place.write_bytes(place.read_bytes()[:-1]),
        lambda place: place.write_bytes(b"\0" * 32 + place.read_bytes()[32:]),
        lambda place: place.write_bytes(b""),
        lambda place: place.chmod(0o666),
    ],
    ids=["cut", "other digest", "empty", "others may write it"],
)
def test_what_cannot_be_trusted_is_replaced(
    file: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], object]
) -> None:
    damage(keep(file))

    assert is_read(file, monkeypatch)
    assert not is_read(file, monkeypatch)


def test_where_nothing_can_be_written_nothing_is_kept(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = keep(file)
    place.unlink()
    place.mkdir()

    assert is_read(file, monkeypatch)
    assert is_read(file, monkeypatch)


def test_other_code_finds_nothing_of_what_this_code_has_kept(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(file)
    (file.parents[1] / "code.py").write_text("")
    monkeypatch.setattr(kept, "_CODE", file.parents[1])

    assert is_read(file, monkeypatch)
