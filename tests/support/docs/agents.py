"""Parts of docs about agents: the table of tools, and a triage of the demo world as it came."""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from mcp import Client

from mqdlq.agents.catalogue import TOOLS
from mqdlq.agents.guides import PROMPTS, RESOURCES
from tests.support.agents import stdio, with_client
from tests.support.docs.tables import table
from tests.support.web.demo_world import make_demo_world

_LONGEST: Final = 96
"""A longer line of an answer is cut; `…` marks that."""


def tools() -> str:
    rows = (
        (
            f"`{one.name}`",
            str(one.effect),
            "start runs" if one.needs_acting else "read",
            one.description,
        )
        for one in TOOLS
    )
    return table(("tool", "effect", "needs permission to", "what it answers"), rows)


def prompts_and_resources() -> str:
    prompts = ", ".join(f"`{name}` ({one.title})" for name, one in PROMPTS.items())
    addresses = table(
        ("address", "the answer of"), ((f"`{at}`", f"`{tool}`") for at, tool in RESOURCES.items())
    )
    return f"Prompts: {prompts}.\n\n{addresses}"


def triage() -> str:
    """Return what a triage of the demo world's handler asks and gets, over standard input."""
    with tempfile.TemporaryDirectory() as place, patch.dict(os.environ):
        logging.disable(logging.INFO)
        world = make_demo_world(Path(place) / "demo")
        logging.disable(logging.NOTSET)
        world.ledger.close()
        said = with_client(stdio(world), _triage)
    return "```text\n" + "\n".join(said) + "\n```"


async def _triage(client: Client) -> list[str]:
    said: list[str] = []

    async def call(name: str, **given: Any) -> Any:
        answer = await client.call_tool(name, given)
        assert not answer.is_error, answer.content
        words = ", ".join(f"{field}={json.dumps(value)}" for field, value in given.items())
        said.extend([*[""] * bool(said), f"> {name} {words}"])
        said.extend(_shown(json.dumps(answer.structured_content, indent=1)))
        return answer.structured_content

    causes = await call("list_causes", handler="demo", limit=2)
    cause_id, reason = next(
        (one["cause_id"], one["reason"])
        for one in causes["rows"]
        if one["reason"].startswith("MQRC_PUT_INHIBITED")
    )
    await call("explain_reason", reason=reason.split()[0])
    await call("diagnose", handler="demo", cause_id=cause_id)
    await call(
        "propose_action",
        handler="demo",
        action="retry_when_fixed",
        where=f"cause={cause_id}",
        why="an administrator is to permit puts to CLOSED",
    )
    return said


def _shown(text: str) -> list[str]:
    """Return the lines of an answer that has what differs from time to time replaced."""
    text = re.sub(r'"[0-9a-f]{16}"', '"…"', text)
    text = re.sub(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}", "SNAPSHOT", text)
    text = re.sub(r"[0-9a-f]{64}", "HASH", text)
    text = re.sub(r'("asked_at": )"[^"]+"', r'\1"NOW"', text)
    text = re.sub(r"altered [-0-9]{10} [:0-9]{5}", "altered NOW", text)
    lines = text.splitlines()
    return [one if len(one) <= _LONGEST else f"{one[:_LONGEST]}…" for one in lines]
