"""Execute MQINQ and MQSET (IBM MQ docs, "MQINQ", "MQSET")."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import text
from embedded_mq.constants import MQRC
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.failures import MQCC_OK, MQCC_WARNING, CallFailedError, not_emulated
from embedded_mq.engine.objects import definitions
from embedded_mq.engine.objects.attributes import (
    FIXED_QUEUE_MANAGER_ATTRIBUTES,
    NO_SELECTOR,
    QUEUE_ATTRIBUTES,
    QUEUE_MANAGER_ATTRIBUTES,
    Attribute,
    Value,
)
from embedded_mq.storage.catalogue import ALTERED, CREATED, DEFINITION_TYPE, Catalogue, Definition

NAME_LENGTH = 48
SETTABLE = {
    mq.MQIA_INHIBIT_GET: ("GET", "MQRC_INHIBIT_VALUE_ERROR"),
    mq.MQIA_INHIBIT_PUT: ("PUT", "MQRC_INHIBIT_VALUE_ERROR"),
    mq.MQIA_TRIGGER_CONTROL: ("TRIGGER", "MQRC_TRIGGER_CONTROL_ERROR"),
    mq.MQIA_TRIGGER_TYPE: ("TRIGTYPE", "MQRC_TRIGGER_TYPE_ERROR"),
    mq.MQIA_TRIGGER_DEPTH: ("TRIGDPTH", "MQRC_TRIGGER_DEPTH_ERROR"),
    mq.MQIA_TRIGGER_MSG_PRIORITY: ("TRIGMPRI", "MQRC_TRIGGER_MSG_PRIORITY_ERR"),
    mq.MQCA_TRIGGER_DATA: ("TRIGDATA", ""),
}
"""The attributes that MQSET may change, with the reason code for an invalid value."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The integer and the character attributes, in the order of their selectors."""

    numbers: list[int]
    characters: bytes
    completion: int = MQCC_OK
    reason: int = 0


def inquire(connection: Connection, handle: int, selectors: Sequence[int]) -> Answer:
    """Return the current attributes of an open object.

    A selector that its type of queue does not have returns MQIAV_NOT_APPLICABLE or asterisks, and
    the warning MQRC_SELECTOR_NOT_FOR_TYPE.
    """
    opened = connection.find_object(handle)
    if not opened.allows(mq.MQOO_INQUIRE):
        raise CallFailedError("MQRC_NOT_OPEN_FOR_INQUIRE")
    catalogue = connection.store.catalogue()
    if opened.queue_ids:
        queue = opened.path(catalogue)[0]
        values, known = queue_values(connection, queue, selectors), QUEUE_SELECTORS
    else:
        values, known = queue_manager_values(catalogue), QUEUE_MANAGER_SELECTORS
    numbers: list[int] = []
    characters = b""
    for selector in selectors:
        if selector not in known:
            raise not_emulated(f"the selector {selector}", "MQRC_SELECTOR_ERROR")
        if selector <= mq.MQIA_LAST:
            numbers.append(int(values.get(selector, mq.MQIAV_NOT_APPLICABLE)))
        else:
            length = known[selector]
            value = str(values[selector]) if selector in values else "*" * length
            characters += value.encode("latin-1").ljust(length)[:length]
    if all(selector in values for selector in selectors):
        return Answer(numbers, characters)
    return Answer(numbers, characters, MQCC_WARNING, MQRC["MQRC_SELECTOR_NOT_FOR_TYPE"])


def _selectors(attributes: Mapping[str, Attribute]) -> dict[int, int]:
    return {
        attribute.selector: attribute.length
        for attribute in attributes.values()
        if attribute.selector != NO_SELECTOR
    }


QUEUE_SELECTORS: dict[int, int] = {
    mq.MQCA_Q_NAME: NAME_LENGTH,
    mq.MQIA_Q_TYPE: 0,
    mq.MQIA_DEFINITION_TYPE: 0,
    mq.MQCA_ALTERATION_DATE: 12,
    mq.MQCA_ALTERATION_TIME: 8,
    mq.MQCA_CREATION_DATE: 12,
    mq.MQCA_CREATION_TIME: 8,
    mq.MQIA_CURRENT_Q_DEPTH: 0,
    mq.MQIA_OPEN_INPUT_COUNT: 0,
    mq.MQIA_OPEN_OUTPUT_COUNT: 0,
}
for _attributes in QUEUE_ATTRIBUTES.values():
    QUEUE_SELECTORS |= _selectors(_attributes)
QUEUE_MANAGER_SELECTORS = {
    mq.MQCA_Q_MGR_NAME: NAME_LENGTH,
    **_selectors(QUEUE_MANAGER_ATTRIBUTES),
    **{
        selector: len(value) if isinstance(value, str) else 0
        for selector, value in FIXED_QUEUE_MANAGER_ATTRIBUTES.items()
    },
}


def queue_values(
    connection: Connection, queue: Definition, selectors: Collection[int]
) -> dict[int, Value]:
    """Return the attributes of a queue by selector; counts only if `selectors` has them."""
    values: dict[int, Value] = {mq.MQCA_Q_NAME: queue.name, mq.MQIA_Q_TYPE: queue.type}
    for keyword, attribute in QUEUE_ATTRIBUTES[queue.type].items():
        values[attribute.selector] = queue.attributes[keyword]
    selectors_of = (mq.MQCA_ALTERATION_DATE, mq.MQCA_ALTERATION_TIME)
    for selector, keyword in zip(selectors_of, ALTERED, strict=True):
        values[selector] = str(queue.attributes.get(keyword, ""))
    if queue.type == mq.MQQT_LOCAL:
        for selector, keyword in zip(
            (mq.MQCA_CREATION_DATE, mq.MQCA_CREATION_TIME), CREATED, strict=True
        ):
            values[selector] = str(queue.attributes.get(keyword, ""))
        values[mq.MQIA_DEFINITION_TYPE] = queue.number(DEFINITION_TYPE) or mq.MQQDT_PREDEFINED
        if mq.MQIA_CURRENT_Q_DEPTH in selectors:
            depth = connection.depth(queue.queue_id)
            values[mq.MQIA_CURRENT_Q_DEPTH] = depth
        if {mq.MQIA_OPEN_INPUT_COUNT, mq.MQIA_OPEN_OUTPUT_COUNT}.intersection(selectors):
            counts = _open_counts(connection, queue)
            values[mq.MQIA_OPEN_INPUT_COUNT], values[mq.MQIA_OPEN_OUTPUT_COUNT] = counts
    return values


def _open_counts(connection: Connection, queue: Definition) -> tuple[int, int]:
    connection.release_orphaned_messages()
    return definitions.count_open_handles(connection.store, queue.queue_id)


def queue_manager_values(catalogue: Catalogue) -> dict[int, Value]:
    """Return the attributes of the queue manager by selector."""
    values: dict[int, Value] = {mq.MQCA_Q_MGR_NAME: catalogue.name}
    values |= FIXED_QUEUE_MANAGER_ATTRIBUTES
    for keyword, attribute in QUEUE_MANAGER_ATTRIBUTES.items():
        # An attribute without a selector has the key 0, which no caller can inquire.
        values[attribute.selector] = catalogue.queue_manager[keyword]
    return values


def set_attributes(
    connection: Connection,
    handle: int,
    selectors: Sequence[int],
    numbers: Sequence[int],
    characters: bytes,
) -> None:
    """Change attributes of an open queue, with immediate effect for all applications.

    `numbers` are the values of the numeric selectors in order, `characters` those of the others.
    """
    opened = connection.find_object(handle)
    if not opened.allows(mq.MQOO_SET):
        raise CallFailedError("MQRC_NOT_OPEN_FOR_SET")
    for selector in selectors:
        if selector not in SETTABLE:
            raise not_emulated(f"setting the selector {selector}", "MQRC_SELECTOR_ERROR")
    left = iter(numbers)
    with connection.store.transaction(durable=True):
        queue = opened.path(connection.store.catalogue())[0]
        attributes = dict(queue.attributes)
        for selector in selectors:
            keyword, reason = SETTABLE[selector]
            attribute = QUEUE_ATTRIBUTES[queue.type].get(keyword)
            if attribute is None:
                raise CallFailedError("MQRC_SELECTOR_NOT_FOR_TYPE")
            if attribute.length:
                attributes[keyword] = text(characters[: attribute.length])
                characters = characters[attribute.length :]
            else:
                attributes[keyword] = _allowed(attribute, next(left, None), reason)
        definitions.change(connection.store, queue, attributes)


def _allowed(attribute: Attribute, value: int | None, reason: str) -> int:
    if value is None:
        raise CallFailedError("MQRC_INT_ATTR_COUNT_ERROR")
    if not attribute.allows(value):
        raise CallFailedError(reason)
    return value
