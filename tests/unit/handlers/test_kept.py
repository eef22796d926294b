"""What is kept between processes: found again only as long as nothing that decides has changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mqdlq.handlers import Kept, kept


@pytest.fixture(name="file")
def _file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that has not changed for long; values are kept below the test's directory."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path / "home"))
    for directory in ("files", "home"):
        (tmp_path / directory).mkdir()
    file = tmp_path / "files" / "file"
    file.write_text("1")
    return settled(file, monkeypatch)


def settled(file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let every change of a file count as one of long ago."""
    monkeypatch.setattr(kept, "_SETTLED_NS", -3600 * 10**9)
    return file


def keep(file: Path, *others: object) -> Path:
    """Keep what a file says, for these things beside it; return the only file of values."""
    with Kept("test", file.parent) as found:
        for one in others or (None,):
            assert found.value(file, one, int) == int(file.read_text())
    (place,) = (file.parents[1] / "home" / "kept").iterdir()
    return place


def made(file: Path, others: object = None) -> list[bytes]:
    """Return what was read from the file, nothing if its value is kept."""
    read = list[bytes]()
    Kept("test", file.parent).value(file, others, read.append)
    return read


def test_a_value_is_found_again_for_the_same_thing_only(file: Path) -> None:
    keep(file, "a")

    assert made(file, "a") == []
    assert made(file, "b") == [b"1"]
    assert Kept("other", file.parent).value(file, "a", bytes) == b"1"


def test_a_file_that_has_changed_is_read_again(file: Path) -> None:
    keep(file)
    file.write_text("2")

    assert made(file) == [b"2"]


def test_a_file_that_was_only_touched_is_not_parsed_again(file: Path) -> None:
    keep(file)
    os.utime(file)

    assert made(file) == []


def test_a_change_within_the_same_moment_as_another_is_seen(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two changes may leave the same times, so those of a change just now prove nothing."""
    monkeypatch.setattr(kept, "_SETTLED_NS", 3600 * 10**9)
    before = file.stat()
    keep(file)
    with file.open("r+") as written:
        written.write("2")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert made(file) == [b"2"]


def test_a_link_is_followed_each_time(file: Path) -> None:
    link, other = file.with_name("link"), file.with_name("other")
    other.write_text("2")
    link.symlink_to(file)
    keep(link)
    before = link.lstat().st_mtime_ns
    file.unlink()
    other.rename(file)

    assert made(link) == [b"2"]
    assert link.lstat().st_mtime_ns == before


def test_what_nobody_asked_for_is_forgotten(file: Path) -> None:
    keep(file, "a", "b")
    keep(file, "b")

    assert [made(file, one) for one in ("a", "b")] == [[b"1"], []]


def test_only_the_owner_can_read_the_values(file: Path) -> None:
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
        lambda place: (place.unlink(), place.mkdir()),
    ],
    ids=["cut", "other digest", "empty", "others may write it", "a directory"],
)
def test_values_that_cannot_be_trusted_are_passed_over(
    file: Path, damage: Callable[[Path], object]
) -> None:
    damage(keep(file))

    assert made(file) == [b"1"]


def test_damaged_values_are_replaced(file: Path) -> None:
    keep(file).write_bytes(b"nonsense")
    keep(file)

    assert made(file) == []


def test_other_code_finds_nothing_of_what_this_code_has_made(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(file)
    (file.parents[1] / "code.py").write_text("")
    monkeypatch.setattr(kept, "_CODE", file.parents[1])

    assert made(file) == [b"1"]


def test_after_an_error_the_values_stay_as_they_were(file: Path) -> None:
    keep(file, "a")
    file.write_text("x")
    with pytest.raises(ValueError, match="invalid literal"):
        keep(file, "a")
    file.write_text("1")

    assert made(file, "a") == []
