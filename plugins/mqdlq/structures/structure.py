"""Base classes for IBM MQ structures, declared as annotated classes.

A class lists the fields after StrucId and Version (and StrucLength, if there is one) in IBM's
order, with IBM's names in snake case. The annotation of a field is its form, which defines its
layout. A field with a generic form is text: `str` if text is decoded, `bytes` in the packed
structures of the MQI.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, Self, TypeVar

T = TypeVar("T", bytes, str)


class Kind(StrEnum):
    """The content of a field: a number, text in some CCSID, or bytes that are never text."""

    LONG = "long"
    TEXT = "text"
    BYTES = "bytes"


class Form(NamedTuple):
    """The packed form of a field: its `struct` code and its kind."""

    code: str
    kind: Kind


Long = Annotated[int, Form("i", Kind.LONG)]
Long64 = Annotated[int, Form("q", Kind.LONG)]
Pointer = Annotated[int, Form("P", Kind.LONG)]
Small = Annotated[int, Form("b", Kind.LONG)]
Char1 = Annotated[T, Form("1s", Kind.TEXT)]
Char4 = Annotated[T, Form("4s", Kind.TEXT)]
Char8 = Annotated[T, Form("8s", Kind.TEXT)]
Char12 = Annotated[T, Form("12s", Kind.TEXT)]
Char28 = Annotated[T, Form("28s", Kind.TEXT)]
Char32 = Annotated[T, Form("32s", Kind.TEXT)]
Char48 = Annotated[T, Form("48s", Kind.TEXT)]
Char64 = Annotated[T, Form("64s", Kind.TEXT)]
Char128 = Annotated[T, Form("128s", Kind.TEXT)]
Char256 = Annotated[T, Form("256s", Kind.TEXT)]
Byte1 = Annotated[bytes, Form("1s", Kind.BYTES)]
Byte8 = Annotated[bytes, Form("8s", Kind.BYTES)]
Byte16 = Annotated[bytes, Form("16s", Kind.BYTES)]
Byte24 = Annotated[bytes, Form("24s", Kind.BYTES)]
Byte32 = Annotated[bytes, Form("32s", Kind.BYTES)]
Byte40 = Annotated[bytes, Form("40s", Kind.BYTES)]
VariableString = Annotated[bytes, Form("24s", Kind.BYTES)]
"""An MQCHARV as opaque bytes: its pointer is only valid in the process that created it."""

_ACRONYMS = frozenset({"ads", "ccsid", "mfs", "uow"})


def _ibm_name(name: str) -> str:
    """Return IBM's name of a field: MsgId for msg_id, UOWControl for uow_control."""
    return "".join(
        word.upper() if word in _ACRONYMS else word.capitalize() for word in name.split("_")
    )


@dataclass(frozen=True, slots=True)
class Field:
    """One field: IBM's name and ours, its `struct` code, kind, offset and length in bytes."""

    ibm_name: str
    name: str
    code: str
    kind: Kind
    offset: int
    length: int

    @property
    def place(self) -> slice:
        """Return the slice of the packed structure that holds the field."""
        return slice(self.offset, self.offset + self.length)


def _identity(*, has_struc_length: bool) -> dict[str, Form]:
    """Return the forms of the leading fields: StrucId, Version and possibly StrucLength."""
    struc_length = {"struc_length": Form("i", Kind.LONG)} if has_struc_length else {}
    return {"struc_id": Form("4s", Kind.TEXT), "version": Form("i", Kind.LONG), **struc_length}


class Structure(Generic[T]):
    """A structure with a StrucId, a Version and the annotated fields of its class, in that order.

    A subclass states the StrucId and the Version; `has_struc_length` adds a StrucLength after them.
    `name` is IBM's name if the class has another one. StrucId, Version and StrucLength are
    attributes but not dataclass fields: they follow from the class.
    """

    structure: ClassVar[str] = ""
    length: ClassVar[int] = 0
    layout: ClassVar[Mapping[str, Field]] = {}
    """All fields by our names, in their order."""
    fields: ClassVar[tuple[Field, ...]] = ()
    """The fields after StrucId and Version."""
    codes: ClassVar[str] = ""
    """The `struct` codes of all fields."""
    values_of: ClassVar[Callable[[Any], tuple[Any, ...]]]
    struc_id: Any
    version: int
    struc_length: int

    def __init_subclass__(
        cls, *, struc_id: str = "", version: int = 0, has_struc_length: bool = False, name: str = ""
    ) -> None:
        declared = {
            name: hint.__metadata__[0]
            for name, hint in inspect.get_annotations(cls, eval_str=True).items()
            if hasattr(hint, "__metadata__")
        }
        if declared or struc_id:
            inherited = {name: Form(each.code, each.kind) for name, each in cls.layout.items()}
            cls._lay_out((inherited or _identity(has_struc_length=has_struc_length)) | declared)
        if struc_id:
            cls.structure = name or cls.__name__
            cls.struc_id, cls.version, cls.struc_length = struc_id, version, cls.length

    @classmethod
    def _lay_out(cls, forms: Mapping[str, Form]) -> None:
        fields, codes = [], ""
        for name, form in forms.items():
            length = struct.calcsize(form.code)
            codes += form.code
            place = struct.calcsize(codes) - length
            fields.append(Field(_ibm_name(name), name, *form, place, length))
        cls.layout = {each.name: each for each in fields}
        cls.fields = tuple(fields[2:])
        cls.codes, cls.length = codes, struct.calcsize(codes)
        cls.values_of = attrgetter(*forms)

    @classmethod
    def offset_of(cls, field: str) -> int:
        """Return the offset of a field in the packed structure, in bytes."""
        return cls.layout[field].offset

    @classmethod
    def slice_of(cls, first: str, last: str = "") -> slice:
        """Return the slice of the packed structure from one field to another, or of one field."""
        return slice(cls.layout[first].offset, cls.layout[last or first].place.stop)

    @classmethod
    def reader(cls, first: str, last: str = "") -> struct.Struct:
        """Return a `struct.Struct` whose `unpack_from` reads adjacent fields, or one field."""
        names = [*cls.layout]
        chosen = names[names.index(first) : names.index(last or first) + 1]
        codes = "".join(cls.layout[name].code for name in chosen)
        return struct.Struct(f"={cls.offset_of(first)}x{codes}")

    @classmethod
    def from_values(cls, values: Iterable[Any]) -> Self:
        """Return a structure from the values of all its fields, including StrucId and Version."""
        struc_id, version, *rest = values
        if "struc_length" in cls.layout:
            struc_length, *rest = rest
            made = cls(*rest)
            made.struc_length = struc_length
        else:
            made = cls(*rest)
        made.struc_id, made.version = struc_id, version
        return made

    def copy(self) -> Self:
        """Return a copy of the structure."""
        return self.from_values(type(self).values_of(self))


class Packed(Structure[bytes]):
    """A structure as the MQI takes it: text as bytes, numbers in the machine's byte order."""

    _native: ClassVar[struct.Struct]
    struc_id: bytes

    def __init_subclass__(cls, *, struc_id: str = "", **identity: Any) -> None:
        super().__init_subclass__(struc_id=struc_id, **identity)
        declared: Any = cls.struc_id
        cls.struc_id = declared if isinstance(declared, bytes) else declared.encode()
        cls._native = struct.Struct(cls.codes)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Read the structure from exactly `length` bytes."""
        return cls.from_values(cls._native.unpack(data))

    @classmethod
    def blank(cls) -> Self:
        """Return a structure of zeros and NULs."""
        return cls.unpack(bytes(cls.length))

    def pack(self) -> bytes:
        """Pack the structure; shorter text is padded with NULs."""
        return self._native.pack(*type(self).values_of(self))
