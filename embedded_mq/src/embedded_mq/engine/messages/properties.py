"""Message handles and the properties they hold.

IBM MQ docs, "Message properties", "MQCRTMH", "MQSETMP", "MQINQMP", "MQDLTMP", "Action (MQPMO)".
"""

import re
from dataclasses import dataclass, field

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.failures import CallFailedError, check_bits, not_emulated
from embedded_mq.engine.messages.property_values import (
    Property,
    Value,
    check_value,
    convert,
    pack_properties,
)
from embedded_mq.option_structures import MQPD
from embedded_mq.structures import MQGMO, MQPMO

FIRST_MESSAGE_HANDLE = 0x2000001
_PART = r"(?:[^\W\d]|\$)[\w$]*"  # a Java identifier (IBM MQ docs, "Property names")
NAME = re.compile(rf"{_PART}(\.{_PART})*")
PATTERN = re.compile(rf"({_PART}\.)*({_PART}|%)")
_RESERVED = frozenset(
    {"NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"}
)
DESCRIPTOR_PREFIXES = "Root."

INQUIRE_OPTIONS = (
    mq.MQIMPO_CONVERT_TYPE
    | mq.MQIMPO_QUERY_LENGTH
    | mq.MQIMPO_INQ_NEXT
    | mq.MQIMPO_INQ_PROP_UNDER_CURSOR
    | mq.MQIMPO_CONVERT_VALUE
)
CURSOR_SET_OPTIONS = (
    mq.MQSMPO_SET_PROP_UNDER_CURSOR
    | mq.MQSMPO_SET_PROP_AFTER_CURSOR
    | mq.MQSMPO_SET_PROP_BEFORE_CURSOR
)
SET_OPTIONS = CURSOR_SET_OPTIONS | mq.MQSMPO_APPEND_PROPERTY
DELETE_OPTIONS = mq.MQDMPO_DEL_PROP_UNDER_CURSOR
PROPERTY_OPTIONS = mq.names_of("MQIMPO"), mq.names_of("MQSMPO"), mq.names_of("MQDMPO")

# The bits of MQPD.Support that require the queue manager to know the property: it knows none.
REJECT_UNLESS_KNOWN, REJECT_UNLESS_IN_TRANSIT = 0xFFF00000, 0x000FFC00


@dataclass(slots=True)
class MessageHandle:
    """A message handle (MQHMSG); `cursor` is the property cursor, None before the first inquiry."""

    properties: list[Property] = field(default_factory=list)
    cursor: int | None = None
    validates_names: bool = True
    _places: dict[str, int] | None = None
    """The position of the first property of each name; None after a change."""

    def replace_all(self, properties: list[Property]) -> None:
        """Replace all properties by those of a message."""
        self.properties = properties
        self.cursor = self._places = None

    def set(
        self, name: str, property_type: int, value: Value, descriptor: MQPD, options: int
    ) -> None:
        """Set a property (MQSETMP); a name without a folder belongs to `usr`."""
        check_bits(options, SET_OPTIONS, "MQSMPO", PROPERTY_OPTIONS[1])
        _check_length(name)
        if options.bit_count() > 1:
            raise CallFailedError("MQRC_OPTIONS_ERROR")
        if self.validates_names:
            _check_name(name)
        plain = name.removeprefix("usr.")
        held = Property(
            plain,
            property_type,
            check_value(property_type, value),
            descriptor.support,
            descriptor.context,
            descriptor.copy_options,
        )
        if options & CURSOR_SET_OPTIONS:
            self._set_beside_cursor(held, options)
            return
        first = self._first_position(plain)
        if first is None or options & mq.MQSMPO_APPEND_PROPERTY:
            if first is None and self._places is not None:
                self._places[plain] = len(self.properties)
            self.properties.append(held)
        else:
            self.properties[first] = held

    def _set_beside_cursor(self, held: Property, options: int) -> None:
        position, self._places = self._position_under_cursor(), None
        if options & mq.MQSMPO_SET_PROP_UNDER_CURSOR:
            self.properties[position] = held
        elif options & mq.MQSMPO_SET_PROP_AFTER_CURSOR:
            self.properties.insert(position + 1, held)
        else:
            self.properties.insert(position, held)
            self.cursor = position + 1

    def inquire(self, name: str, options: int, property_type: int) -> Property:
        """Return a property by name, the first or next match of `%`, or the one under the cursor.

        MQRC_PROPERTY_NOT_AVAILABLE if there is none, MQRC_PROPERTY_TYPE_ERROR if it has another
        type and conversion is not requested.
        """
        check_bits(options, INQUIRE_OPTIONS, "MQIMPO", PROPERTY_OPTIONS[0])
        _check_length(name)
        held = self._move_to(name, options)
        if options & mq.MQIMPO_CONVERT_TYPE:
            return convert(held, property_type)
        if property_type not in {mq.MQTYPE_AS_SET, held.type}:
            raise CallFailedError("MQRC_PROPERTY_TYPE_ERROR")
        return held

    def _move_to(self, name: str, options: int) -> Property:
        if options & mq.MQIMPO_INQ_PROP_UNDER_CURSOR:
            return self.properties[self._position_under_cursor()]
        if name.startswith(DESCRIPTOR_PREFIXES):
            raise not_emulated(f"the property {name}", "MQRC_PROPERTY_NOT_AVAILABLE")
        if not PATTERN.fullmatch(name):
            raise CallFailedError("MQRC_PROPERTY_NAME_ERROR")
        follows = options & mq.MQIMPO_INQ_NEXT and self.cursor is not None
        start = self.cursor + 1 if follows and self.cursor is not None else 0
        for position in range(start, len(self.properties)):
            if _matches_pattern(name, self.properties[position].name):
                self.cursor = position
                return self.properties[position]
        raise CallFailedError("MQRC_PROPERTY_NOT_AVAILABLE")

    def delete(self, name: str, options: int) -> None:
        """Delete a property (MQDLTMP): the first with this name, or the one under the cursor."""
        check_bits(options, DELETE_OPTIONS, "MQDMPO", PROPERTY_OPTIONS[2])
        _check_length(name)
        if options & mq.MQDMPO_DEL_PROP_UNDER_CURSOR:
            position: int | None = self._position_under_cursor()
        elif NAME.fullmatch(name):
            position = self._first_position(name.removeprefix("usr."))
        else:
            raise CallFailedError("MQRC_PROPERTY_NAME_ERROR")
        if position is None:
            raise CallFailedError("MQRC_PROPERTY_NOT_AVAILABLE")
        del self.properties[position]
        self._places = None
        if self.cursor is not None and position <= self.cursor:
            # The property after the deleted one is still the next one.
            self.cursor = self.cursor - 1 if self.cursor else None

    def _first_position(self, name: str) -> int | None:
        if self._places is None:
            self._places = {}
            for at, held in enumerate(self.properties):
                self._places.setdefault(held.name, at)
        return self._places.get(name)

    def _position_under_cursor(self) -> int:
        if self.cursor is None or self.cursor >= len(self.properties):
            raise CallFailedError("MQRC_PROPERTY_NOT_AVAILABLE")
        return self.cursor


def _check_length(name: str) -> None:
    if len(name) > mq.MQ_MAX_PROPERTY_NAME_LENGTH:
        raise CallFailedError("MQRC_PROPERTY_NAME_LENGTH_ERR")


def _check_name(name: str) -> None:
    if name.startswith(DESCRIPTOR_PREFIXES):
        raise not_emulated(f"setting the property {name}", "MQRC_PROPERTY_NAME_ERROR")
    if not NAME.fullmatch(name) or name.upper() in _RESERVED:
        raise CallFailedError("MQRC_PROPERTY_NAME_ERROR")


def _matches_pattern(pattern: str, name: str) -> bool:
    if pattern == "%":
        return True
    if pattern.endswith(".%"):
        full = name if "." in name else f"usr.{name}"
        return full.startswith(pattern[:-1])
    return name == pattern.removeprefix("usr.")


class MessageHandles:
    """The message handles of one connection."""

    def __init__(self) -> None:
        self._handles: dict[int, MessageHandle] = {}
        self._last = FIRST_MESSAGE_HANDLE - 1

    def create(self, options: int) -> int:
        """Return a new handle without properties (MQCRTMH)."""
        known = mq.MQCMHO_NO_VALIDATION | mq.MQCMHO_VALIDATE
        check_bits(options, known, "MQCMHO", {})
        self._last += 1
        self._handles[self._last] = MessageHandle(
            validates_names=options != mq.MQCMHO_NO_VALIDATION
        )
        return self._last

    def delete(self, handle: int) -> None:
        """Delete a handle and its properties (MQDLTMH)."""
        self.at(handle)
        del self._handles[handle]

    def at(self, handle: int) -> MessageHandle:
        """Return the message handle with this number (MQRC_HMSG_ERROR)."""
        if handle not in self._handles:
            raise CallFailedError("MQRC_HMSG_ERROR")
        return self._handles[handle]

    def find_for_get(self, gmo: MQGMO) -> MessageHandle | None:
        """Return the handle that an MQGET fills; only version 4 of the MQGMO has one."""
        handle = gmo.msg_handle if gmo.version >= 4 else mq.MQHM_NONE  # noqa: PLR2004
        elsewhere = (
            mq.MQGMO_PROPERTIES_FORCE_MQRFH2
            | mq.MQGMO_PROPERTIES_COMPATIBILITY
            | mq.MQGMO_NO_PROPERTIES
        )
        if gmo.options & mq.MQGMO_PROPERTIES_IN_HANDLE or handle != mq.MQHM_NONE:
            target = self.at(handle)
            return None if gmo.options & elsewhere else target
        return None


def collect_properties(handles: MessageHandles, pmo: MQPMO, *, is_remote: bool) -> bytes | None:
    """Return the properties with which a message is put that uses message handles.

    MQACTP_FORWARD takes the properties of the original handle that may be forwarded, then those of
    the new handle. A property that must be understood is refused (MQRC_UNSUPPORTED_PROPERTY), and
    so are more bytes of names and values than MaxPropertiesLength allows (MQRC_PROPERTIES_TOO_BIG).
    """
    original = handles.at(pmo.original_msg_handle) if pmo.original_msg_handle else MessageHandle()
    new = handles.at(pmo.new_msg_handle) if pmo.new_msg_handle else MessageHandle()
    chosen = original.properties
    if pmo.action == mq.MQACTP_FORWARD:
        copied = mq.MQCOPY_ALL | mq.MQCOPY_FORWARD
        chosen = [held for held in chosen if held.copy_options & copied]
    elif pmo.action != mq.MQACTP_NEW:
        raise not_emulated(f"MQPMO.Action {pmo.action}", "MQRC_ACTION_ERROR")
    names = {held.name for held in new.properties}
    chosen = [held for held in chosen if held.name not in names] + new.properties
    rejected = REJECT_UNLESS_KNOWN | (0 if is_remote else REJECT_UNLESS_IN_TRANSIT)
    if any(held.support & rejected for held in chosen):
        raise CallFailedError("MQRC_UNSUPPORTED_PROPERTY")
    if sum(len(held.name) + held.length for held in chosen) > mq.MAX_PROPERTIES_LENGTH:
        raise CallFailedError("MQRC_PROPERTIES_TOO_BIG")
    return pack_properties(chosen)


def uses_message_handles(pmo: MQPMO) -> bool:
    """Return whether a put uses message handles."""
    return pmo.version >= 3 and bool(pmo.original_msg_handle or pmo.new_msg_handle or pmo.action)  # noqa: PLR2004
