"""What is kept between processes: found again only as long as nothing that decides has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mqdlq.handlers import Kept, kept


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep values below the test's directory."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path / "home"))


def never() -> int:
    raise AssertionError("it is kept already")


def keep(place: Path, **values: int) -> Path:
    """Keep values by their names; return the only file there is."""
    with Kept("test", place) as found:
        for name, value in values.items():
            assert found.value(name, lambda value=value: value) == value  # type: ignore[misc]
    (file,) = (place / "home" / "kept").iterdir()
    return file


def is_kept(place: Path, name: str) -> bool:
    made = []
    Kept("test", place).value(name, lambda: made.append(name))
    return not made


def test_a_value_is_found_again_for_the_same_thing_only(tmp_path: Path) -> None:
    keep(tmp_path, a=1)

    assert Kept("test", tmp_path).value("a", never) == 1
    assert not is_kept(tmp_path, "b")
    assert not is_kept(tmp_path / "elsewhere", "a")


def test_what_nobody_asked_for_is_forgotten(tmp_path: Path) -> None:
    keep(tmp_path, a=1, b=2)
    keep(tmp_path, b=2)

    assert [is_kept(tmp_path, name) for name in ("a", "b")] == [False, True]


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    file = keep(tmp_path, a=1)

    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(b"\0" * 32 + file.read_bytes()[32:]),
        lambda file: file.write_bytes(b""),
        lambda file: file.chmod(0o666),
        lambda file: (file.unlink(), file.mkdir()),
    ],
    ids=["cut", "other digest", "empty", "others may write it", "a directory"],
)
def test_a_file_that_cannot_be_trusted_is_passed_over(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    damage(keep(tmp_path, a=1))

    assert not is_kept(tmp_path, "a")


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    keep(tmp_path, a=1).write_bytes(b"nonsense")
    keep(tmp_path, a=1)

    assert is_kept(tmp_path, "a")


def test_other_code_finds_nothing_of_what_this_code_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(tmp_path, a=1)
    (tmp_path / "code.py").write_text("")
    monkeypatch.setattr(kept, "_CODE", tmp_path)

    assert not is_kept(tmp_path, "a")


def test_a_value_that_could_not_be_made_is_not_kept(tmp_path: Path) -> None:
    with Kept("test", tmp_path) as found, pytest.raises(AssertionError):
        found.value("a", never)

    assert not is_kept(tmp_path, "a")


def test_after_an_error_the_file_stays_as_it_was(tmp_path: Path) -> None:
    keep(tmp_path, a=1)
    with pytest.raises(AssertionError), Kept("test", tmp_path):
        never()

    assert is_kept(tmp_path, "a")
