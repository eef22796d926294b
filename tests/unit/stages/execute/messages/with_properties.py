"""Build dead letters with message properties, and read them as an application does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import embedded_mq
from mqdlq.mqi.client import Client
from tests.support.world import World

BODY = b"a customer's data"
Property = tuple[bytes, Any, str, int]
ALL_KINDS: tuple[Property, ...] = (
    (b"colour", "blau & grün", "MQTYPE_STRING", -1),
    (b"raw", b"\x00\xff", "MQTYPE_BYTE_STRING", 2),
    (b"open", True, "MQTYPE_BOOLEAN", 4),
    (b"ratio", 0.1, "MQTYPE_FLOAT64", 8),
    (b"none", None, "MQTYPE_NULL", 0),
    (b"long", "x" * 5000, "MQTYPE_STRING", -1),  # longer than the body: the buffer has to grow
    (b"wmq.group.size", -3, "MQTYPE_INT16", 2),  # in its own folder: folders keep together
)


def put_with_properties(world: World, *properties: Property) -> None:
    """Put a dead letter with properties."""
    world.dead_letter(BODY)
    add_properties(world, *properties)


def add_properties(world: World, *properties: Property, copied: str = "MQCOPY_REPLY") -> None:
    """Add properties to the only message on the DLQ: name, value, MQTYPE and length of each.

    `copied` lists the messages into which a queue manager copies them.
    """
    ((template, whole),) = world.messages("DLQ")
    world.mqsc("CLEAR QLOCAL(DLQ)")
    with world.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        handle = module.MessageHandle(queue_manager.handle)
        for name, value, kind, length in properties:
            descriptor = module.PD(Context=1, CopyOptions=getattr(constants, copied))
            handle.properties.set(name, value, getattr(constants, kind), length, pd=descriptor)
        pmo = queue_manager.client.packed.PMO()
        pmo.Options = constants.MQPMO_SET_ALL_CONTEXT | constants.MQPMO_NO_SYNCPOINT
        pmo.NewMsgHandle = handle.msg_handle
        queue_manager.handle.put1(module.OD(ObjectName=b"DLQ"), whole, template, pmo)


def seen_by_an_application(
    world: World, queue: str = "DLQ"
) -> list[tuple[bytes, bytes, list[Any]]]:
    """Return MQMD, body and the values of all properties of each message on a queue."""
    found = []
    with world.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        opened = queue_manager.open(queue, constants.MQOO_BROWSE)
        for _ in range(embedded_mq.depths("QM1")[queue]):
            handle, gmo = module.MessageHandle(queue_manager.handle), module.GMO()
            gmo.Version = constants.MQGMO_VERSION_4
            gmo.Options = constants.MQGMO_BROWSE_NEXT | constants.MQGMO_PROPERTIES_IN_HANDLE
            gmo.MatchOptions, gmo.MsgHandle = constants.MQMO_NONE, handle.msg_handle
            descriptor = module.MD()
            descriptor.Version = constants.MQMD_VERSION_2
            body = bytes(opened.get(None, descriptor, gmo))
            found.append((descriptor.pack(), body, values_in(handle, queue_manager.client)))
        opened.close()
    return found


def values_in(handle: Any, client: Client) -> list[Any]:
    values, options = [], client.CMQC.MQIMPO_INQ_FIRST
    while True:
        try:
            values.append(handle.properties.get(b"%", impo_options=options, max_value_length=9999))
        except client.module.MQMIError as error:
            if error.reason == client.CMQC.MQRC_PROPERTY_NOT_AVAILABLE:
                return values
            raise
        options = client.CMQC.MQIMPO_INQ_NEXT


def copies(world: World) -> list[dict[str, Any]]:
    files = sorted(Path(world.lake_root).glob("archive/run-1/*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def put_back(world: World, copy: dict[str, Any]) -> None:
    with world.connect() as queue_manager:
        packed, constants = queue_manager.client.packed, queue_manager.client.CMQC
        pmo = packed.PMO()
        pmo.Options = constants.MQPMO_SET_ALL_CONTEXT | constants.MQPMO_NO_SYNCPOINT
        descriptor = packed.MD().unpack(copy["descriptor"])
        target = packed.OD(ObjectName=b"DLQ")
        queue_manager.handle.put1(target, copy["body"], descriptor, pmo)
