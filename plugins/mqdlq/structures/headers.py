"""Structures of IBM MQ: their base class, and the declarations of descriptor and headers.

A class lists the fields after StrucId and Version (and StrucLength, if there is one) in IBM's
order, with IBM's names in snake case, and is a dataclass of them. The annotation of a field is its
form, which defines its layout. A field with a generic form is text: `str` if text is decoded,
`bytes` in the packed structures of the MQI. The defaults are IBM's initial values with text
decoded, for example MQMD_DEFAULT.
"""

import inspect
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar, dataclass_transform

T = TypeVar("T", bytes, str)


class Kind(StrEnum):
    """The content of a field: a number, text in some CCSID, or bytes that are never text."""

    LONG = "long"
    TEXT = "text"
    BYTES = "bytes"


# The forms of fields: a type, the `struct` code, and the kind.
Long = Annotated[int, "i", Kind.LONG]
Long64 = Annotated[int, "q", Kind.LONG]
Pointer = Annotated[int, "P", Kind.LONG]
Small = Annotated[int, "b", Kind.LONG]
Char1 = Annotated[T, "1s", Kind.TEXT]
Char4 = Annotated[T, "4s", Kind.TEXT]
Char8 = Annotated[T, "8s", Kind.TEXT]
Char12 = Annotated[T, "12s", Kind.TEXT]
Char28 = Annotated[T, "28s", Kind.TEXT]
Char32 = Annotated[T, "32s", Kind.TEXT]
Char48 = Annotated[T, "48s", Kind.TEXT]
Char64 = Annotated[T, "64s", Kind.TEXT]
Char128 = Annotated[T, "128s", Kind.TEXT]
Char256 = Annotated[T, "256s", Kind.TEXT]
Byte1 = Annotated[bytes, "1s", Kind.BYTES]
Byte8 = Annotated[bytes, "8s", Kind.BYTES]
Byte16 = Annotated[bytes, "16s", Kind.BYTES]
Byte24 = Annotated[bytes, "24s", Kind.BYTES]
Byte32 = Annotated[bytes, "32s", Kind.BYTES]
Byte40 = Annotated[bytes, "40s", Kind.BYTES]
VariableString = Annotated[bytes, "24s", Kind.BYTES]
"""An MQCHARV as opaque bytes: its pointer is only valid in the process that created it."""

BLANK: Any = ""
_ACRONYMS = frozenset({"ads", "ccsid", "mfs", "uow"})


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
        return slice(self.offset, self.offset + self.length)


def _ibm_name(name: str) -> str:
    """Return IBM's name of a field: MsgId for msg_id, UOWControl for uow_control."""
    words = (word.upper() if word in _ACRONYMS else word.capitalize() for word in name.split("_"))
    return "".join(words)


@dataclass_transform(field_specifiers=(field,))
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
    # Without annotations, which would make them fields of a dataclass.
    struc_id = BLANK
    version = struc_length = 0

    def __init_subclass__(
        cls, *, struc_id: str = "", version: int = 0, has_struc_length: bool = False, name: str = ""
    ) -> None:
        dataclass(cls)
        declared = {
            name: hint.__metadata__
            for name, hint in inspect.get_annotations(cls, eval_str=True).items()
            if hasattr(hint, "__metadata__")
        }
        if declared or struc_id:
            first = {"struc_id": ("4s", Kind.TEXT), "version": ("i", Kind.LONG)}
            if has_struc_length:
                first["struc_length"] = ("i", Kind.LONG)
            inherited = {name: (each.code, each.kind) for name, each in cls.layout.items()}
            cls._lay_out((inherited or first) | declared)
        if struc_id:
            cls.structure = name or cls.__name__
            cls.struc_id, cls.version, cls.struc_length = struc_id, version, cls.length

    @classmethod
    def _lay_out(cls, forms: Mapping[str, tuple[str, Kind]]) -> None:
        fields, codes = [], ""
        for name, (code, kind) in forms.items():
            length = struct.calcsize(code)
            codes += code
            # The codes are native: `calcsize` counts the bytes that align a field.
            fields.append(
                Field(_ibm_name(name), name, code, kind, struct.calcsize(codes) - length, length)
            )
        cls.layout = {each.name: each for each in fields}
        cls.fields = tuple(fields[2:])
        cls.codes, cls.length = codes, struct.calcsize(codes)
        cls.values_of = attrgetter(*forms)

    @classmethod
    def offset_of(cls, field: str) -> int:
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
        is_measured = "struc_length" in cls.layout
        made = cls(*rest[is_measured:])
        made.struc_id, made.version = struc_id, version
        if is_measured:
            made.struc_length = rest[0]
        return made

    def copy(self) -> Self:
        return self.from_values(type(self).values_of(self))


_SEND_AFTER_COMMIT: Any = "0"
_CHECK: Any = "C"
ENCODING, INHERIT, UTF_8 = 546, -2, 1208


class MQMD1(Structure[T], struc_id="MD  ", version=1, name="MQMD"):
    """The message descriptor of version 1 (IBM MQ docs, "MQMD - Message descriptor")."""

    report: Long = 0
    msg_type: Long = 8
    expiry: Long = -1
    feedback: Long = 0
    encoding: Long = ENCODING
    coded_char_set_id: Long = 0
    format: Char8[T] = BLANK
    priority: Long = -1
    persistence: Long = 2
    msg_id: Byte24 = bytes(24)
    correl_id: Byte24 = bytes(24)
    backout_count: Long = 0
    reply_to_q: Char48[T] = BLANK
    reply_to_q_mgr: Char48[T] = BLANK
    user_identifier: Char12[T] = BLANK
    accounting_token: Byte32 = bytes(32)
    appl_identity_data: Char32[T] = BLANK
    put_appl_type: Long = 0
    put_appl_name: Char28[T] = BLANK
    put_date: Char8[T] = BLANK
    put_time: Char8[T] = BLANK
    appl_origin_data: Char4[T] = BLANK


class MQMD(MQMD1[T], struc_id="MD  ", version=2):
    """The message descriptor of version 2, which has five more fields."""

    group_id: Byte24 = bytes(24)
    msg_seq_number: Long = 1
    offset: Long = 0
    msg_flags: Long = 0
    original_length: Long = -1


class MQDLH(Structure[T], struc_id="DLH ", version=1):
    """The dead-letter header (IBM MQ docs, "MQDLH - Dead-letter header")."""

    reason: Long = 0
    dest_q_name: Char48[T] = BLANK
    dest_q_mgr_name: Char48[T] = BLANK
    encoding: Long = 0
    coded_char_set_id: Long = 0
    format: Char8[T] = BLANK
    put_appl_type: Long = 0
    put_appl_name: Char28[T] = BLANK
    put_date: Char8[T] = BLANK
    put_time: Char8[T] = BLANK


class MQXQH(Structure[T], struc_id="XQH ", version=1):
    """The transmission-queue header without its last field, MsgDesc, an MQMD of version 1.

    IBM MQ docs, "MQXQH - Transmission-queue header".
    """

    remote_q_name: Char48[T] = BLANK
    remote_q_mgr_name: Char48[T] = BLANK


class MQRFH(Structure[T], struc_id="RFH ", version=1, has_struc_length=True):
    """The fixed part of the rules and formatting header (IBM MQ docs, "MQRFH")."""

    encoding: Long = ENCODING
    coded_char_set_id: Long = INHERIT
    format: Char8[T] = BLANK
    flags: Long = 0


class MQRFH2(MQRFH[T], struc_id="RFH ", version=2):
    """The fixed part of the MQRFH2 (IBM MQ docs, "MQRFH2 - Rules and formatting header 2")."""

    name_value_ccsid: Long = UTF_8


class MQMDE(Structure[T], struc_id="MDE ", version=2, has_struc_length=True):
    """The message-descriptor extension: the five fields that only a version 2 MQMD has.

    IBM MQ docs, "MQMDE - Message descriptor extension".
    """

    encoding: Long = ENCODING
    coded_char_set_id: Long = 0
    format: Char8[T] = BLANK
    flags: Long = 0
    group_id: Byte24 = bytes(24)
    msg_seq_number: Long = 1
    offset: Long = 0
    msg_flags: Long = 0
    original_length: Long = -1


class MQCIH1(Structure[T], struc_id="CIH ", version=1, has_struc_length=True, name="MQCIH"):
    """The CICS bridge header of version 1 (IBM MQ docs, "MQCIH - CICS bridge header").

    Its Encoding and CodedCharSetId are reserved.
    """

    encoding: Long = 0
    coded_char_set_id: Long = 0
    format: Char8[T] = BLANK
    flags: Long = 0
    return_code: Long = 0
    comp_code: Long = 0
    reason: Long = 0
    uow_control: Long = 273
    get_wait_interval: Long = -2
    link_type: Long = 1
    output_data_length: Long = -1
    facility_keep_time: Long = 0
    ads_descriptor: Long = 0
    conversational_task: Long = 0
    task_end_status: Long = 0
    facility: Byte8 = bytes(8)
    function: Char4[T] = BLANK
    abend_code: Char4[T] = BLANK
    authenticator: Char8[T] = BLANK
    reserved1: Char8[T] = BLANK
    reply_to_format: Char8[T] = BLANK
    remote_sys_id: Char4[T] = BLANK
    remote_trans_id: Char4[T] = BLANK
    transaction_id: Char4[T] = BLANK
    facility_like: Char4[T] = BLANK
    attention_id: Char4[T] = BLANK
    start_code: Char4[T] = BLANK
    cancel_code: Char4[T] = BLANK
    next_transaction_id: Char4[T] = BLANK
    reserved2: Char8[T] = BLANK
    reserved3: Char8[T] = BLANK


class MQCIH(MQCIH1[T], struc_id="CIH ", version=2):
    """The CICS bridge header of version 2."""

    cursor_position: Long = 0
    error_offset: Long = 0
    input_item: Long = 0
    reserved4: Long = 0


class MQIIH(Structure[T], struc_id="IIH ", version=1, has_struc_length=True):
    """The IMS information header (IBM MQ docs, "MQIIH - IMS information header").

    Its Encoding and CodedCharSetId are reserved.
    """

    encoding: Long = 0
    coded_char_set_id: Long = 0
    format: Char8[T] = BLANK
    flags: Long = 0
    l_term_override: Char8[T] = BLANK
    mfs_map_name: Char8[T] = BLANK
    reply_to_format: Char8[T] = BLANK
    authenticator: Char8[T] = BLANK
    tran_instance_id: Byte16 = bytes(16)
    tran_state: Char1[T] = BLANK
    commit_mode: Char1[T] = _SEND_AFTER_COMMIT
    security_scope: Char1[T] = _CHECK
    reserved: Char1[T] = BLANK


class MQTM(Structure[T], struc_id="TM  ", version=1):
    """The trigger message (IBM MQ docs, "MQTM - Trigger message"); nothing follows it."""

    q_name: Char48[T] = BLANK
    process_name: Char48[T] = BLANK
    trigger_data: Char64[T] = BLANK
    appl_type: Long = 0
    appl_id: Char256[T] = BLANK
    env_data: Char128[T] = BLANK
    user_data: Char128[T] = BLANK
