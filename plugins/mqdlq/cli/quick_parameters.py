"""Parse the arguments of commands without pydantic, which typer asks even for text.

Importing pydantic doubles the time that a command takes. Typer has no public way around it; this
module needs a typer whose parameters are converted by `typer._coercion`.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import typer
from typer._coercion import FileRuntimeParam, RuntimeParam, build_runtime_param
from typer.core import TyperArgument, TyperOption

from mqdlq.directories import check_input


class _Argument(TyperArgument):
    """An argument in upper case, without its Python type, such as list[FileBinaryRead]."""

    @property
    def display_name_raw(self) -> str:
        """Return the name that the help shows."""
        return self.metavar or self.name.upper()

    def display_type_rich(self, ctx: Any) -> str | None:  # noqa: ARG002 (typer's signature)
        """Return no type."""
        return None


def quick(parameters: list[Any]) -> list[Any]:
    """Return the parameters, changed so that they take text, defaults and choices as they are."""
    for parameter in parameters:
        parameter._runtime_param = _conversion(parameter)  # noqa: SLF001 (typer has no public way)
        if isinstance(parameter, TyperArgument):
            parameter.__class__ = _Argument
    return parameters


def _conversion(parameter: TyperArgument | TyperOption) -> RuntimeParam:
    """Return what converts a parameter's text into its value."""
    kind = parameter.type_descriptor
    if kind.file_annotation is not None:
        return _File(kind.parameter_info, kind.annotation, kind.file_annotation)
    return _Conversion(kind.parameter_info, kind.annotation)


class _File(FileRuntimeParam):
    """Opens files, but no device or named pipe: reading it might never end."""

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(one, str) and one != "-":
                try:
                    check_input(Path(one))
                except FileNotFoundError:  # typer reports it
                    continue
                except OSError as error:
                    raise typer.BadParameter(f"'{one}': {error.strerror}") from None
        return super()._coerce_value(value, param, ctx)


class _Conversion(RuntimeParam):
    """Takes text, defaults and choices as they are; typer converts or refuses everything else."""

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        kind = self.annotation
        if type(value) is kind or kind == list[str]:
            return value
        if isinstance(kind, type) and issubclass(kind, StrEnum) and value in set(kind):
            return kind(value)
        return build_runtime_param(param.type_descriptor)._coerce_value(value, param, ctx)  # noqa: SLF001
