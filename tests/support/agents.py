"""Agents in tests: the demo world, a door for its person, and calls by the official client."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
from anyio import to_thread
from mcp import Client, StdioServerParameters
from mcp_types import Implementation

from mqdlq.agents.answers import Caller
from mqdlq.agents.catalogue import BY_NAME
from mqdlq.agents.serving import Door, Rates
from mqdlq.reading.page_paths import Paths
from mqdlq.tools.acting import Sources
from tests.support.world import World

HANDLERS: Final = frozenset({"demo", "names", "never", "payments", "quiet"})
"""The handlers that the person of a door may read: all of the demo world but `secret`."""
T = TypeVar("T")


def door(world: World, handlers: frozenset[str] = HANDLERS, *, may_act: bool = True) -> Door:
    """Return the door of alice's agent into a world whose ledger refuses her tools any change."""
    reading = world.ledger.reading()
    caller = Caller(
        person="alice",
        handlers=handlers,
        may_act=lambda _: may_act,
        sources=lambda name: Sources(name, reading, world.lake_root, world.clock),
        paths=Paths("https://airflow.example.com"),
        settings=lambda _: world.settings,
    )
    rates = Rates(world.clock, most=10_000)
    return Door(
        person="alice",
        caller=lambda: caller,
        token="",
        rates=rates,
        record=world.ledger.audit.record,
        clock=world.clock,
        apart=to_thread.run_sync,
    )


def with_client(server: Any, use: Callable[[Client], Awaitable[T]]) -> T:
    """Use a server by the official client, which checks each answer against its schema."""

    async def run() -> T:
        info = Implementation(name="tester", version="1")
        async with Client(server, client_info=info) as client:
            return await use(client)

    return anyio.run(run)


def stdio(world: World) -> StdioServerParameters:
    """Return how a client starts `mqdlq mcp` on a world."""
    start = "from mqdlq.cli import app; app()"
    place = {"MQDLQ_HOME": str(world.directory), "MQDLQ_RULES_DIR": f"{world.directory}/handlers"}
    connection = {"conn_type": "ibmmq", "extra": {"queue_manager": "QM1", "transport": "embedded"}}
    place["AIRFLOW_CONN_MQ"] = json.dumps(connection)
    place["AIRFLOW__API__BASE_URL"] = "https://airflow.example.com"
    command = ["-c", start, "mcp"]
    return StdioServerParameters(command=sys.executable, args=command, env=place)


def call(opened: Door, name: str, **given: Any) -> Any:
    """Return what a tool answers; a refusal is a text."""
    answer = opened.call(name, given, "tester")
    return answer.content[0].text if answer.is_error else answer.structured_content  # type: ignore[union-attr]


def examples(opened: Door, destination: str = "CLOSED") -> dict[str, dict[str, Any]]:
    """Return the arguments of each tool's example, with values of earlier answers.

    They are about the first cause of this destination.
    """
    causes = call(opened, "list_causes", handler="demo", limit=50)["rows"]
    cause = next(one for one in causes if destination in str(one["untrusted"]["destination"]))
    where = f"state=on_queue and cause={cause['cause_id']}"
    (message, *_) = call(opened, "find_messages", handler="demo", where=where)["rows"]
    known = {"CAUSE_ID": cause["cause_id"], "MESSAGE_KEY": message["message_key"]}
    proposed = filled_in(BY_NAME["propose_action"].example, known)
    known["PLAN_HASH"] = call(opened, "propose_action", **proposed)["plan_hash"]
    return {name: filled_in(tool.example, known) for name, tool in BY_NAME.items()}


def filled_in(example: Mapping[str, Any], known: dict[str, str]) -> dict[str, Any]:
    return {field: filled(value, known) for field, value in example.items()}


def filled(value: Any, known: dict[str, str]) -> Any:
    for name, one in known.items() if isinstance(value, str) else ():
        value = value.replace(name, one)
    return value


def texts_of(answer: Any, is_inside: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield every text in an answer, and whether it is in a field named `untrusted`."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            inside = is_inside or name in {"untrusted", "headers"}
            yield name, is_inside
            yield from texts_of(value, inside)
    elif isinstance(answer, list):
        for one in answer:
            yield from texts_of(one, is_inside)
    elif isinstance(answer, str):
        yield answer, is_inside


@contextmanager
def unchanged(world: World) -> Iterator[None]:
    """Fail if a file of the lake changed, or a message or an object of the queue manager."""
    before = _state(world)
    yield
    assert _state(world) == before


def _state(world: World) -> Any:
    root = Path(world.lake_root)
    files = {str(one): one.stat().st_mtime_ns for one in root.rglob("*") if one.is_file()}
    queues = ("DLQ", "NAMES.DLQ", "PAYMENTS.DLQ", "PAYMENTS", "ORDERS.PARKED", "MQDLQ.STATE")
    return files, {queue: world.bodies(queue) for queue in queues}
