"""Stories with faststream-mq, whose own tests are not in its distribution: run by `make peers`.

They need no queue manager but the embedded one: a consumer in threads, units of work around a
user's function, message properties, and replies on dynamic queues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from faststream import AckPolicy
from faststream_mq import MQBroker, MQMessage

import embedded_mq

QUEUE = "DEV.QUEUE.1"
CORRELATION = "ab" * 24


def run(story: Callable[[MQBroker, asyncio.Future[Any]], Awaitable[Any]]) -> Any:
    """Run a story with a connected client; return what its future or the story itself gives."""

    async def told() -> Any:
        connected = MQBroker(queue_manager="QM1")
        seen: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        async with connected:
            answer = await story(connected, seen)
            return answer if answer is not None else await asyncio.wait_for(seen, 30)

    return asyncio.run(told())


def test_a_message_is_consumed_with_its_properties_and_its_correl_id() -> None:
    async def story(client: MQBroker, seen: asyncio.Future[Any]) -> None:
        @client.subscriber(QUEUE)
        async def handle(body: str, message: MQMessage) -> None:
            seen.set_result((body, message.headers["shop"], message.correlation_id))

        await client.start()
        await client.publish("order", QUEUE, headers={"shop": "7"}, correlation_id=CORRELATION)

    assert run(story) == ("order", "7", CORRELATION)
    assert embedded_mq.depths("QM1")[QUEUE] == 0


def test_a_request_gets_its_reply_on_a_dynamic_queue() -> None:
    async def story(client: MQBroker, _: asyncio.Future[Any]) -> Any:
        @client.subscriber(QUEUE)
        async def handle(body: str) -> str:
            return body.upper()

        await client.start()
        reply = await client.request("order", QUEUE, timeout=30)
        return await reply.decode()

    assert run(story) == "ORDER"


def test_a_message_whose_function_fails_is_backed_out_and_comes_again() -> None:
    tries: list[str] = []

    async def story(client: MQBroker, seen: asyncio.Future[Any]) -> None:
        @client.subscriber(QUEUE, ack_policy=AckPolicy.NACK_ON_ERROR)
        async def handle(body: str) -> None:
            tries.append(body)
            if len(tries) < 3:
                raise ValueError("not yet")
            seen.set_result(len(tries))

        await client.start()
        await client.publish("order", QUEUE)

    assert run(story) == 3
    assert embedded_mq.depths("QM1")[QUEUE] == 0


def test_a_message_leaves_the_queue_when_the_function_says_so() -> None:
    async def story(client: MQBroker, seen: asyncio.Future[Any]) -> None:
        @client.subscriber(QUEUE, ack_policy=AckPolicy.MANUAL)
        async def handle(body: str, message: MQMessage) -> None:
            await message.ack()
            seen.set_result(body)

        await client.start()
        await client.publish("order", QUEUE)

    assert run(story) == "order"
    assert embedded_mq.depths("QM1")[QUEUE] == 0
