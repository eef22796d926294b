"""Message context: saved on a get, passed or set on a put."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_mq_tests.builders import Application

IDENTITY = {
    "UserIdentifier": b"someone     ",
    "AccountingToken": b"\x01\x02\0\x03".ljust(32, b"\0"),
    "ApplIdentityData": b"identity".ljust(32),
}
ORIGIN = {
    "PutApplType": 28,
    "PutApplName": b"payments.jar".ljust(28),
    "PutDate": b"19991231",
    "PutTime": b"23595999",
    "ApplOriginData": b"orig",
}


def fields(md: Any, names: dict[str, Any]) -> dict[str, Any]:
    return {name: getattr(md, name) for name in names}


def got_with_context(app: Application) -> Any:
    """Put a message with its own context on A and get it with a handle that saves the context."""
    everything = app.open("A", "OUTPUT", "SET_ALL_CONTEXT")
    app.put(everything, b"", "SET_ALL_CONTEXT", **IDENTITY, **ORIGIN)
    queue = app.open("A", "INPUT_SHARED", "BROWSE", "SAVE_ALL_CONTEXT")
    app.get(queue)
    return queue


def put_passing(app: Application, option: str, source: Any, *opened: str) -> Any:
    """Put to B with the context of another handle."""
    md, pmo = app.md(), app.pmo(option)
    pmo.Context = source if isinstance(source, int) else handle_of(source)
    app.open("B", "OUTPUT", *opened).put(b"", md, pmo)
    return md


def handle_of(queue: Any) -> int:
    return int(queue.get_handle())


def test_all_context_is_passed_on(app: Application) -> None:
    """IBM MQ docs, "MQPMO_PASS_ALL_CONTEXT", "MQPMO_SET_ALL_CONTEXT", "MQOO_SAVE_ALL_CONTEXT"."""
    md = put_passing(app, "PASS_ALL_CONTEXT", got_with_context(app), "PASS_ALL_CONTEXT")

    assert fields(md, IDENTITY | ORIGIN) == IDENTITY | ORIGIN
    _, arrived = app.get(app.open("B", "INPUT_SHARED"))
    assert fields(arrived, IDENTITY | ORIGIN) == IDENTITY | ORIGIN


def test_identity_context_may_be_passed_alone(app: Application) -> None:
    """IBM MQ docs, "MQPMO_PASS_IDENTITY_CONTEXT": the origin is the putter's own."""
    md = put_passing(app, "PASS_IDENTITY_CONTEXT", got_with_context(app), "PASS_ALL_CONTEXT")

    assert fields(md, IDENTITY) == IDENTITY
    assert (md.PutApplType, md.ApplOriginData) == (6, b"    ")


def test_identity_context_may_be_set_alone(app: Application) -> None:
    """IBM MQ docs, "MQPMO_SET_IDENTITY_CONTEXT"."""
    queue = app.open("A", "OUTPUT", "SET_IDENTITY_CONTEXT")
    md = app.put(queue, b"", "SET_IDENTITY_CONTEXT", **IDENTITY, **ORIGIN)

    assert fields(md, IDENTITY) == IDENTITY
    assert md.PutApplType == 6


def test_a_nul_ends_a_context_text(app: Application) -> None:
    """IBM MQ docs, "PutApplName (MQMD)": the null and the characters after it become blanks."""
    queue = app.open("A", "OUTPUT", "SET_ALL_CONTEXT")
    md = app.put(queue, b"", "SET_ALL_CONTEXT", PutApplName=b"name\0rest")

    assert md.PutApplName == b"name".ljust(28)


def test_no_context_is_blank(app: Application) -> None:
    """IBM MQ docs, "MQPMO_NO_CONTEXT"."""
    md = app.put("A", b"", "NO_CONTEXT")

    assert (md.UserIdentifier, md.AccountingToken) == (b" " * 12, bytes(32))
    assert (md.PutApplType, md.PutApplName) == (0, b" " * 28)
    assert (md.PutDate, md.PutTime) == (b" " * 8, b" " * 8)


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("PASS_ALL_CONTEXT", "MQRC_NOT_OPEN_FOR_PASS_ALL"),
        ("PASS_IDENTITY_CONTEXT", "MQRC_NOT_OPEN_FOR_PASS_IDENT"),
        ("SET_ALL_CONTEXT", "MQRC_NOT_OPEN_FOR_SET_ALL"),
        ("SET_IDENTITY_CONTEXT", "MQRC_NOT_OPEN_FOR_SET_IDENT"),
    ],
)
def test_context_options_need_their_open_option(app: Application, option: str, reason: str) -> None:
    """IBM MQ docs, "2093 (082D) (RC2093)" to "2096 (0830) (RC2096)", "MQOPEN options".

    Each is allowed by MQOO_PASS_ALL_CONTEXT, MQOO_PASS_IDENTITY_CONTEXT, MQOO_SET_ALL_CONTEXT or
    MQOO_SET_IDENTITY_CONTEXT, as the tests above show.
    """
    with app.failing(reason):
        app.put(app.open("B", "OUTPUT"), b"", option)


def test_a_handle_that_saves_no_context_has_none_to_pass(app: Application) -> None:
    """IBM MQ docs, "2097 (0831) (RC2097): MQRC_CONTEXT_HANDLE_ERROR"."""
    app.put("A")
    without = app.open("A", "INPUT_SHARED")
    app.get(without)

    for source in (without, 999):
        with app.failing("MQRC_CONTEXT_HANDLE_ERROR"):
            put_passing(app, "PASS_ALL_CONTEXT", source, "PASS_ALL_CONTEXT")


def test_no_context_is_available_before_a_get_or_after_a_browse(app: Application) -> None:
    """IBM MQ docs, "2098 (0832) (RC2098): MQRC_CONTEXT_NOT_AVAILABLE"."""
    fresh = app.open("A", "INPUT_SHARED", "SAVE_ALL_CONTEXT")
    with app.failing("MQRC_CONTEXT_NOT_AVAILABLE"):
        put_passing(app, "PASS_ALL_CONTEXT", fresh, "PASS_ALL_CONTEXT")

    queue = got_with_context(app)
    app.put("A")
    app.get(queue, "BROWSE_FIRST")
    with app.failing("MQRC_CONTEXT_NOT_AVAILABLE"):
        put_passing(app, "PASS_ALL_CONTEXT", queue, "PASS_ALL_CONTEXT")


def test_a_browsed_message_put_with_all_context_is_unchanged(
    app: Application,
) -> None:
    """IBM MQ docs, "MQPMO_SET_ALL_CONTEXT", "MsgId (MQMD)": identifiers are kept as they are set.

    Restoring from the archive depends on this.
    """
    everything = app.open("A", "OUTPUT", "SET_ALL_CONTEXT")
    given = {"CorrelId": b"c" * 24, "ReplyToQ": b"B", "Priority": 3, "Report": 64, "Feedback": 266}
    app.put(everything, b"body", "SET_ALL_CONTEXT", **IDENTITY, **ORIGIN, **given)
    body, browsed = app.get(app.open("A", "BROWSE"), "BROWSE_FIRST")
    app.get(app.open("A", "INPUT_SHARED"))

    again = app.md()
    again.unpack(browsed.pack())
    everything.put(body, again, app.pmo("SET_ALL_CONTEXT"))

    there, seen = app.get(app.open("A", "BROWSE"), "BROWSE_FIRST")
    assert (there, seen.pack()) == (body, browsed.pack())
