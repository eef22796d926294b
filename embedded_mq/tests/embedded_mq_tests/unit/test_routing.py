"""Route calls to embedded and to real queue managers in one process, by their handle."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import embedded_mq
from embedded_mq.clients import ibmmqc, pymqe, routing

REAL_HANDLE = 77


class Library:
    """A fake extension of the same client, which returns handles and records calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.handles = iter([REAL_HANDLE])
        self.module = ModuleType("ibmmqc")
        self.module.__dict__.update(
            __strucversions__={"cno": 7},
            MQCBINIT=self.noting("MQCBINIT", 0),
            MQLOGCF=self.noting("MQLOGCF", 0),
            MQCONN=self.connect,
            MQDISC=self.noting("MQDISC", (0, 0)),
            MQCMIT=self.noting("MQCMIT", (0, 0)),
            MQOPEN=self.noting("MQOPEN", (9, b"OD", 0, 0)),
        )

    def noting(self, verb: str, answer: Any) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls.append((verb, *arguments))
            return answer

        return call

    def connect(self, name: bytes) -> tuple[int, int, int]:
        self.calls.append(("MQCONN", name))
        return (-1, 2, 2059) if name == b"DOWN" else (next(self.handles), 0, 0)


@pytest.fixture
def library() -> Library:
    return Library()


@pytest.fixture
def extension(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(tmp_path))
    embedded_mq.create("QM1")
    built = ibmmqc.build_module("2.1.2")
    routing.route(built, lambda: library.module)
    return built


def test_a_call_goes_to_the_library_that_made_its_handle(
    extension: ModuleType, library: Library
) -> None:
    here, *codes = extension.MQCONN(b"QM1")
    assert (codes, library.calls) == ([0, 0], [])

    there, *codes = extension.MQCONN(b"REAL")
    assert (there, codes) == (REAL_HANDLE, [0, 0])
    assert extension.MQOPEN(there, b"OD", 16) == (9, b"OD", 0, 0)
    assert extension.MQCMIT(here) == (0, 0)
    assert extension.MQCMIT(there) == (0, 0)
    assert library.calls == [
        ("MQCONN", b"REAL"),
        ("MQOPEN", REAL_HANDLE, b"OD", 16),
        ("MQCMIT", REAL_HANDLE),
    ]
    extension.MQDISC(here)


@pytest.mark.parametrize("stand_in", [ibmmqc.build_module("2.1.2"), pymqe.build_module()])
def test_every_verb_reaches_the_library_under_its_own_name(
    stand_in: ModuleType, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(tmp_path))
    verbs = [name for name in vars(stand_in) if name[:2].lower() == "mq"]
    others = sorted({*verbs} - {*routing.CONNECT_VERBS, *routing.SETUP_VERBS, "MQDISC"})
    vars(library.module).update({verb: library.noting(verb, verb) for verb in others})
    routing.route(stand_in, lambda: library.module)
    there, *_ = stand_in.MQCONN(b"REAL")

    assert [getattr(stand_in, verb)(there) for verb in others] == others
    assert len(others) >= 15


def test_the_handle_of_a_closed_connection_is_refused(
    extension: ModuleType, library: Library
) -> None:
    there, *_ = extension.MQCONN(b"REAL")

    assert extension.MQDISC(there) == (0, 0)
    assert extension.MQCMIT(there) == (2, 2018)
    assert library.calls[1:] == [("MQDISC", REAL_HANDLE)]


def test_a_failed_connection_returns_the_librarys_reason_code(extension: ModuleType) -> None:
    assert extension.MQCONN(b"DOWN") == (-1, 2, 2059)


def test_no_two_connections_get_the_same_handle(extension: ModuleType, library: Library) -> None:
    here, *_ = extension.MQCONN(b"QM1")
    library.handles = itertools.chain([here], iter([here + 2]))

    there, *_ = extension.MQCONN(b"REAL")
    another, *_ = extension.MQCONN(b"REAL")
    shared = b"CNO \1\0\0\0" + (64).to_bytes(4, "little")
    here_too, *_ = extension.MQCONNX(b"QM1", shared)

    assert len({here, there, another, here_too}) == 4
    extension.MQCMIT(there)
    extension.MQCMIT(another)
    assert library.calls[2:] == [("MQCMIT", here), ("MQCMIT", here + 2)]
    for handle in (here, here_too, there, another):
        assert extension.MQDISC(handle) == (0, 0)


def test_setup_calls_reach_a_library_that_is_loaded_later(
    extension: ModuleType, library: Library
) -> None:
    dispatcher = object()
    extension.MQCBINIT(dispatcher)
    extension.MQCONN(b"REAL")
    extension.MQLOGCF(3)

    assert library.calls == [("MQCBINIT", dispatcher), ("MQCONN", b"REAL"), ("MQLOGCF", 3)]
    assert extension.__strucversions__["cno"] == 7, "no newer structures than the library knows"


def test_a_missing_client_library_is_logged_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(tmp_path))
    embedded_mq.create("QM1")
    built = ibmmqc.build_module("2.1.2")
    routing.route(built, lambda: routing.load_extension("ibmmq.missing"))

    assert built.MQCONN(b"QM9".ljust(48)) == (-1, 2, 2058)
    (message,) = caplog.messages
    assert message == (
        "queue manager 'QM9' is not embedded (embedded: QM1), and IBM's MQ client library, which"
        " reaches all others, could not be loaded: ibmmq is installed without its C extension"
        " missing"
    )
