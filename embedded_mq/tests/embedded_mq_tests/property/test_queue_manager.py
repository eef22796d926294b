"""Compare random calls of two connections on the embedded queue manager with a small model.

MQDLQ_EXAMPLES sets the number of sequences of calls, 60 by default.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import embedded_mq
from embedded_mq.constants import reason_text
from embedded_mq_tests.builders import Application
from embedded_mq_tests.property.queue_model import (
    COA,
    COD,
    MAXDEPTH,
    MAXPRTY,
    MAXUMSGS,
    NULL,
    Message,
    Model,
    Outcome,
)

pytestmark = pytest.mark.slow

CONNECTIONS = st.sampled_from([0, 1])
HANDLES = st.sampled_from([0, 1])
ONE, TWO = b"1" * 24, b"2" * 24
IDENTIFIERS = st.sampled_from([NULL, ONE, TWO])
WANTED = st.sampled_from([(NULL, NULL)] * 6 + [(ONE, NULL), (NULL, TWO), (TWO, ONE)])
PRIORITIES = st.sampled_from([0, 4, 9, 12])
LENGTHS = st.sampled_from([None, None, None, 2])
OPTIONS = st.sampled_from(["BROWSE_NEXT", "BROWSE_FIRST", "BROWSE_NEXT", "BROWSE_MSG_UNDER_CURSOR"])
BROWSES = st.lists(st.tuples(OPTIONS, WANTED, LENGTHS), min_size=1, max_size=5)
REPORTS = st.sampled_from([0, 0, COA, COD, COA | COD])
SYNCPOINTS = st.sampled_from(["SYNCPOINT", "SYNCPOINT", "NO_SYNCPOINT"])


class QueueManager(RuleBasedStateMachine):
    """Makes each call on the queue manager and on the model."""

    template: Path
    directory: Path
    mqi: Any

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.numbers = itertools.count()
        target = self.directory / "QM1"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.template, target)
        self.observer = Application(self.mqi, "QM1")
        self.watched = self.observer.open("A", "BROWSE", "INQUIRE", "SET")
        self.reports = self.observer.open("REPORTS", "BROWSE", "INQUIRE")
        self.applications: list[Application] = []
        self.queues: dict[tuple[int, int], Any] = {}

    @initialize()
    def connect_both(self) -> None:
        for connection in (0, 1):
            self.applications.append(Application(self.mqi, "QM1"))
            self._open_both(connection)

    def _open_both(self, connection: int) -> None:
        for handle in (0, 1):
            self._open((connection, handle))

    def _open(self, handle: tuple[int, int]) -> None:
        application = self.applications[handle[0]]
        self.queues[handle] = application.open("A", "INPUT_SHARED", "BROWSE", "OUTPUT")
        self.model.cursors[handle] = None

    def _same(self, expected: Outcome, call: Callable[[], tuple[bytes, int]]) -> None:
        """Compare the result of the model with the result of the call."""
        try:
            outcome = ("MQRC_NONE", *call())
        except self.mqi.MQMIError as error:
            outcome = (reason_text(error.reason).split()[0], getattr(error, "message", b""), 0)
        assert (outcome[0], outcome[1] or b"", outcome[2]) == expected

    @rule(
        connection=CONNECTIONS,
        handle=HANDLES,
        syncpoint=SYNCPOINTS,
        priority=PRIORITIES,
        msg_id=IDENTIFIERS,
        correl_id=IDENTIFIERS,
        report=REPORTS,
    )
    def put(
        self,
        *,
        connection: int,
        handle: int,
        syncpoint: str,
        priority: int,
        msg_id: bytes,
        correl_id: bytes,
        report: int,
    ) -> None:
        queue = self.queues[connection, handle]
        self._put(connection, queue, syncpoint, priority, (msg_id, correl_id), report=report)

    @rule(
        connection=CONNECTIONS,
        priorities=st.lists(PRIORITIES, min_size=2, max_size=4),
        report=REPORTS,
    )
    def put_some_at_once(self, connection: int, priorities: list[int], report: int) -> None:
        """Put with MQPUT1, so that the queue is seldom empty."""
        for priority in priorities:
            self._put(connection, "A", "NO_SYNCPOINT", priority, (NULL, NULL), report=report)

    @rule(connection=CONNECTIONS, handle=HANDLES, steps=st.lists(st.booleans(), max_size=5))
    def fill_the_unit_of_work(self, connection: int, handle: int, steps: list[bool]) -> None:
        """Get, or put and get, so that a unit of work and its reports sometimes have no room."""
        nothing = (NULL, NULL)
        for is_put in steps:
            if is_put:
                queue = self.queues[connection, handle]
                self._put(connection, queue, "SYNCPOINT", 9, nothing, report=COA | COD)
            self.get(
                connection=connection,
                handle=handle,
                syncpoint="SYNCPOINT",
                wanted=nothing,
                length=None,
            )

    def _put(
        self,
        connection: int,
        target: Any,
        syncpoint: str,
        priority: int,
        identifiers: tuple[bytes, bytes],
        *,
        report: int = 0,
    ) -> None:
        number = next(self.numbers)
        body = b"%03d" % number if number % 3 else b"%d" % (number % 10)
        if priority > MAXPRTY and identifiers[0] == NULL:
            # With a warning, the clients do not return the MsgId of the queue manager.
            identifiers = (b"%024d" % number, identifiers[1])
        message = Message(next(self.model.places), priority, *identifiers, body, report=report)
        expected = self.model.put(connection, syncpoint, message)

        def call() -> tuple[bytes, int]:
            fields: dict[str, Any] = dict(zip(("MsgId", "CorrelId"), identifiers, strict=True))
            fields |= {"Report": report, "ReplyToQ": b"REPORTS"}
            md = self.applications[connection].put(
                target, body, syncpoint, Priority=priority, **fields
            )
            message.msg_id = md.MsgId
            return b"", 0

        self._same(expected, call)

    @rule(
        connection=CONNECTIONS, handle=HANDLES, syncpoint=SYNCPOINTS, wanted=WANTED, length=LENGTHS
    )
    def get(
        self,
        *,
        connection: int,
        handle: int,
        syncpoint: str,
        wanted: tuple[bytes, bytes],
        length: int | None,
    ) -> None:
        expected = self.model.get(connection, syncpoint, wanted, length)
        self._same(expected, self._getting(connection, handle, length, (syncpoint,), wanted))

    @rule(connection=CONNECTIONS, handle=HANDLES, syncpoint=SYNCPOINTS)
    def get_under_cursor(self, connection: int, handle: int, syncpoint: str) -> None:
        expected = self.model.get_under_cursor((connection, handle), syncpoint)
        options = ("MSG_UNDER_CURSOR", syncpoint)
        self._same(expected, self._getting(connection, handle, None, options, (NULL, NULL)))

    @rule(connection=CONNECTIONS, handle=HANDLES, browses=BROWSES)
    def browse(
        self,
        connection: int,
        handle: int,
        browses: list[tuple[str, tuple[bytes, bytes], int | None]],
    ) -> None:
        for option, wanted, length in browses:
            expected = self.model.browse((connection, handle), option, wanted, length)
            self._same(expected, self._getting(connection, handle, length, (option,), wanted))

    def _getting(
        self,
        connection: int,
        handle: int,
        length: int | None,
        options: tuple[str, ...],
        wanted: tuple[bytes, bytes],
    ) -> Callable[[], tuple[bytes, int]]:
        def call() -> tuple[bytes, int]:
            application = self.applications[connection]
            md = application.md(MsgId=wanted[0], CorrelId=wanted[1])
            queue = self.queues[connection, handle]
            return queue.get(length, md, application.gmo(*options)), md.BackoutCount

        return call

    @rule(connection=CONNECTIONS)
    def commit(self, connection: int) -> None:
        self.applications[connection].handle.commit()
        self.model.end(connection, is_committed=True)

    @rule(connection=CONNECTIONS)
    def back_out(self, connection: int) -> None:
        self.applications[connection].handle.backout()
        self.model.end(connection, is_committed=False)

    @rule(connection=CONNECTIONS)
    def disconnect_and_connect(self, connection: int) -> None:
        """Commit by MQDISC."""
        self.applications[connection].handle.disconnect()
        self.model.end(connection, is_committed=True)
        self.applications[connection] = Application(self.mqi, "QM1")
        self._open_both(connection)

    @rule(connection=CONNECTIONS, handle=HANDLES)
    def close_and_open(self, connection: int, handle: int) -> None:
        """Close and open the queue, which keeps the unit of work but not the cursor."""
        self.queues[connection, handle].close()
        self._open((connection, handle))

    @rule(connection=CONNECTIONS, handle=HANDLES, syncpoint=SYNCPOINTS, option=OPTIONS)
    def inhibit_for_a_while(
        self, connection: int, handle: int, syncpoint: str, option: str
    ) -> None:
        """Make calls on an inhibited queue, with open handles and an ending unit of work."""
        self._inhibit(is_inhibited=True)
        nothing = (NULL, NULL)
        self._put(connection, self.queues[connection, handle], syncpoint, 0, nothing)
        self.get(
            connection=connection, handle=handle, syncpoint=syncpoint, wanted=nothing, length=None
        )
        self.browse(connection, handle, [(option, nothing, None)])
        self.get_under_cursor(connection, handle, syncpoint)
        self.back_out(connection)
        self._inhibit(is_inhibited=False)

    def _inhibit(self, *, is_inhibited: bool) -> None:
        for selector in (self.mqi.CMQC.MQIA_INHIBIT_PUT, self.mqi.CMQC.MQIA_INHIBIT_GET):
            self.watched.set(selector, int(is_inhibited))
        self.model.is_inhibited = is_inhibited

    @invariant()
    def the_depth_is_that_of_the_model(self) -> None:
        assert self.watched.inquire(self.mqi.CMQC.MQIA_CURRENT_Q_DEPTH) == self.model.depth

    @invariant()
    def everyone_sees_what_is_committed_in_order(self) -> None:
        shown, option = [], "BROWSE_FIRST"
        with self.observer.failing("MQRC_NO_MSG_AVAILABLE"):
            while True:
                body, md = self.observer.get(self.watched, option)
                shown.append((body, md.Priority, md.BackoutCount, md.MsgId))
                option = "BROWSE_NEXT"
        assert shown == [
            (message.body, message.priority, message.backout_count, message.msg_id)
            for message in self.model.visible()
        ]

    @invariant()
    def reports_are_there_when_what_they_report_is_committed(self) -> None:
        depth = self.reports.inquire(self.mqi.CMQC.MQIA_CURRENT_Q_DEPTH)
        assert depth == self.model.reports_with(0, 1)
        assert len(self.observer.bodies("REPORTS")) == self.model.reports

    def teardown(self) -> None:
        for application in (*self.applications, self.observer):
            application.disconnect()


def test_the_queue_manager_behaves_like_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IBM MQ docs, "MQPUT", "MQGET", "MQCMIT", "MQBACK", "MQGMO options", "BackoutCount"."""
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(tmp_path))
    embedded_mq.install()
    template = embedded_mq.create("QM1", tmp_path / "template")
    definitions = f"ALTER QMGR MAXUMSGS({MAXUMSGS})\nDEFINE QLOCAL(A) MAXDEPTH({MAXDEPTH})"
    definitions += "\nDEFINE QLOCAL(REPORTS)"
    embedded_mq.run_mqsc("QM1", definitions, tmp_path / "template")
    import ibmmq

    QueueManager.template, QueueManager.directory = template, tmp_path
    QueueManager.mqi = ibmmq
    run_state_machine_as_test(
        QueueManager,
        settings=settings(
            max_examples=int(os.environ.get("MQDLQ_EXAMPLES", "60")),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
