"""The queue manager of a proof: embedded, or the one that MQDLQ_TEST_QUEUE_MANAGER names."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import embedded_mq
from mqdlq.mqi import transports
from mqdlq.mqi.connect import ConnectionSettings
from tests.support.paths import ROOT
from tests.support.world import World

QUEUE_MANAGER: Final = "MQDLQ_TEST_QUEUE_MANAGER"
KILLS: Final = "MQDLQ_KILLS"

DEFINITIONS: Final = (
    "include/mqsc/QM1.mqsc",
    "tests/contract/queues.mqsc",
    "tests/proof/queues.mqsc",
    "deploy/mq/authorities.mqsc",
)
"""The definitions that every queue manager of the proof needs."""

CHANNELS: Final = {
    "mqdlqsense": "MQDLQ.SENSE",
    "mqdlqdry": "MQDLQ.DRY",
    "mqdlqexec": "MQDLQ.EXEC",
}
"""The channels of deploy/mq/proof-channels.mqsc that stand for a user, by that user."""

LONGEST_SLEEP_S: Final = 10.0


def prepare_embedded() -> None:
    """Create the embedded queue manager QM1 in MQDLQ_HOME, with what the proof needs."""
    text = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in DEFINITIONS)
    embedded_mq.create_defined("QM1", text)


def given_settings() -> ConnectionSettings:
    """Return the settings of the queue manager that the environment names."""
    return ConnectionSettings(**json.loads(os.environ[QUEUE_MANAGER]))


def settings_of_user(settings: ConnectionSettings, user: str) -> ConnectionSettings:
    """Return settings that connect as one of the users of deploy/mq/authorities.mqsc.

    Over TCP, the user is that of the channel (MCAUSER), because containers of IBM MQ accept no
    password of theirs.
    """
    if settings.transport == transports.EMBEDDED:
        return replace(settings, user=user)
    channel = CHANNELS[user] + (".TLS" if settings.tls_cipher_spec else "")
    return replace(settings, channel=channel, user="", password="")


@dataclass
class Clock:
    """The wall clock, which can be advanced; `sleep` really sleeps, though not for long."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead  # noqa: TID251 (the queue manager has its own)

    @property
    def now(self) -> datetime:
        return self()

    @now.setter
    def now(self, moment: datetime) -> None:
        self.ahead = max(self.ahead, moment - datetime.now(UTC))  # noqa: TID251

    def sleep(self, seconds: float) -> None:
        slept = min(seconds, LONGEST_SLEEP_S)
        time.sleep(slept)
        self.ahead += timedelta(seconds=seconds - slept)


@dataclass
class GivenWorld(World):
    """A new lake and ledger, and a queue manager that already exists."""

    clock: Any = field(default_factory=Clock)

    def mqsc(self, text: str) -> None:
        raise AssertionError(f"a given queue manager cannot run {text!r}")

    def clear(self, *queues: str) -> None:
        """Get all messages from these queues."""
        with self.connect() as queue_manager:
            module, constants = queue_manager.client.module, queue_manager.client.CMQC
            for name in queues:
                opened = queue_manager.open(name, constants.MQOO_INPUT_SHARED)
                try:
                    while True:
                        gmo = module.GMO(Options=constants.MQGMO_NO_SYNCPOINT)
                        opened.get(None, module.MD(), gmo)
                except module.MQMIError as error:
                    if error.reason != constants.MQRC_NO_MSG_AVAILABLE:
                        raise
                opened.close()
