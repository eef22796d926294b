"""Owners of causes: the file OWNERS beside the handlers, as CODEOWNERS is beside code."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field, ValidationError, model_validator

from mqdlq import directories
from mqdlq.controls import Keys
from mqdlq.handlers.documents import Document
from mqdlq.handlers.operation import Notification
from mqdlq.rules import Diagnostic, Severity
from mqdlq.rules.diagnostics import Report
from mqdlq.rules.wildcards import fits

FILE: Final = "OWNERS"
Pattern = Annotated[str, Field(min_length=1, max_length=100)]


class Owner(Keys):
    """Who owns causes: the people of a role of Airflow, or users by their names or ids."""

    role: str = ""
    users: tuple[str, ...] = ()
    notify: tuple[Notification, ...] = ()

    def has(self, names: Iterable[str], roles: Iterable[str]) -> bool:
        """Whether a person with one of these names, or of one of these roles, is an owner."""
        return bool(set(self.users) & set(names)) or bool(self.role and self.role in set(roles))


class OwnedCauses(Keys):
    """The causes of an owner: what is not given may be anything."""

    destination: Pattern = "*"
    application: Pattern = "*"
    queue_manager: Pattern = "*"
    owner: str


class Owners(Keys):
    """The owners by name, and which causes they own; the last entry that fits a cause counts."""

    owners: Mapping[str, Owner] = {}
    causes: tuple[OwnedCauses, ...] = ()

    @model_validator(mode="after")
    def _are_declared(self) -> Self:
        for one in self.causes:
            if one.owner not in self.owners:
                known = ", ".join(self.owners) or "none"
                raise ValueError(f"no owner is called {one.owner!r}; declared are: {known}")
        for name, owner in self.owners.items():
            if not (owner.role or owner.users):
                raise ValueError(f"owner {name!r} is nobody; give it a role or users")
        return self

    def of(self, destination: str, applications: Iterable[str], managers: Iterable[str]) -> str:
        """Return the name of the owner of a cause, "" for none."""
        for one in reversed(self.causes):
            if (
                fits(one.destination, destination)
                and (one.application == "*" or any(fits(one.application, a) for a in applications))
                and (one.queue_manager == "*" or any(fits(one.queue_manager, m) for m in managers))
            ):
                return one.owner
        return ""


NOBODY: Final = Owners()


def check_owners(data: bytes, path: str) -> tuple[Owners | None, tuple[Diagnostic, ...]]:
    """Return what a file of owners says, None if it is not valid, and its diagnostics.

    Whether Airflow has a role or a user cannot be known here.
    """
    document = Document(data, Report(path))
    owners = None
    if document.root is not None:
        try:
            owners = Owners.model_validate(document.plain(document.root))
        except ValidationError as error:
            for fault in error.errors(include_url=False):
                key = ".".join(map(str, fault["loc"]))
                said = fault["msg"].removeprefix("Value error, ")
                document.error("invalid", document.root, f"{key}: {said}" if key else said)
    found = tuple(document.report.diagnostics())
    is_valid = not any(one.severity is Severity.ERROR for one in found)
    return (owners or NOBODY) if is_valid else None, found


def read_owners(directory: Path | None = None) -> Owners:
    """Return the owners beside the handlers; nobody, if there is no valid file."""
    folder = directory or directories.rules_directory()
    try:
        return _owners_in(directories.read_rules_file(folder / FILE, folder)) or NOBODY
    except OSError:
        return NOBODY


@lru_cache(maxsize=8)
def _owners_in(data: bytes) -> Owners | None:
    return check_owners(data, FILE)[0]
