"""Message handles and properties, which are separate from the body."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World


def put_with_properties(app: Application, **values: tuple[Any, str]) -> Any:
    """Put a message to A whose properties have a value and an MQTYPE each."""
    handle = app.mqi.MessageHandle(app.handle)
    for name, (value, kind) in values.items():
        length = -1 if isinstance(value, str) else len(value) if isinstance(value, bytes) else 8
        handle.properties.set(name.encode(), value, app.number(f"MQTYPE_{kind}"), length)
    pmo = app.pmo(NewMsgHandle=handle.msg_handle)
    app.open("A", "OUTPUT").put(b"body", app.md(), pmo)
    return handle


def get_with_handle(app: Application, queue: str, *options: str) -> tuple[bytes, Any]:
    handle = app.mqi.MessageHandle(app.handle)
    gmo = app.gmo("PROPERTIES_IN_HANDLE", *options, MsgHandle=handle.msg_handle)
    return app.open(queue, "BROWSE", "INPUT_SHARED").get(None, app.md(), gmo), handle


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("grün", "STRING"),
        (b"\x00\xff", "BYTE_STRING"),
        (True, "BOOLEAN"),
        (-3, "INT8"),
        (2**40, "INT64"),
        (1.5, "FLOAT64"),
    ],
)
def test_a_property_travels_with_its_type(app: Application, value: Any, kind: str) -> None:
    """IBM MQ docs, "MQSETMP", "MQINQMP", "MQGMO_PROPERTIES_IN_HANDLE"."""
    put_with_properties(app, thing=(value, kind))

    body, handle = get_with_handle(app, "A")

    assert body == b"body"
    assert handle.properties.get(b"thing") == value
    convert = app.number("MQIMPO_CONVERT_VALUE")
    assert handle.properties.get(b"thing", impo_options=convert) == value


def test_forwarding_with_the_original_handle_keeps_the_properties(app: Application) -> None:
    """IBM MQ docs, "Action (MQPMO)": MQACTP_FORWARD takes those of OriginalMsgHandle."""
    put_with_properties(app, colour=("red", "STRING"), size=(3, "INT32"))
    body, original = get_with_handle(app, "A")
    forward = app.pmo(OriginalMsgHandle=original.msg_handle, Action=app.number("MQACTP_FORWARD"))
    app.open("B", "OUTPUT").put(body, app.md(), forward)

    _, handle = get_with_handle(app, "B")

    assert handle.properties.get(b"colour") == "red"
    assert handle.properties.get(b"usr.size") == 3


def test_a_missing_property_is_not_available(app: Application) -> None:
    """IBM MQ docs, "2471 (09A7) (RC2471): MQRC_PROPERTY_NOT_AVAILABLE"; a get clears the handle."""
    put_with_properties(app, colour=("red", "STRING"))
    app.put("B")
    _, handle = get_with_handle(app, "A")
    gmo = app.gmo("PROPERTIES_IN_HANDLE", MsgHandle=handle.msg_handle)
    app.open("B", "INPUT_SHARED").get(None, app.md(), gmo)

    with app.failing("MQRC_PROPERTY_NOT_AVAILABLE"):
        handle.properties.get(b"colour")


def test_the_length_of_a_property_value_that_exceeds_the_buffer_is_returned(
    app: Application,
) -> None:
    """IBM MQ docs, "2469 (09A5) (RC2469): MQRC_PROPERTY_VALUE_TOO_BIG"."""
    handle = put_with_properties(app, colour=("x" * 100, "STRING"))

    with app.failing("MQRC_PROPERTY_VALUE_TOO_BIG"):
        handle.properties.get(b"colour")
    assert handle.properties.get(b"colour", max_value_length=100) == "x" * 100


def test_mqgmo_no_properties_leaves_properties_out(app: Application) -> None:
    """IBM MQ docs, "MQGMO_NO_PROPERTIES"."""
    put_with_properties(app, colour=("red", "STRING"))

    assert app.get(app.open("A", "INPUT_SHARED"), "NO_PROPERTIES")[0] == b"body"


def test_an_invalid_message_handle_is_refused(app: Application) -> None:
    """IBM MQ docs, "2460 (099C) (RC2460): MQRC_HMSG_ERROR"."""
    app.put("A")

    with app.failing("MQRC_HMSG_ERROR"):
        app.get(app.open("A", "INPUT_SHARED"), "PROPERTIES_IN_HANDLE")


def test_a_wildcard_finds_one_property_after_the_other(app: Application) -> None:
    """IBM MQ docs, "MQINQMP": MQIMPO_INQ_FIRST and MQIMPO_INQ_NEXT with the name %."""
    handle = put_with_properties(app, one=("1", "STRING"), two=("2", "STRING"))
    following = app.number("MQIMPO_INQ_NEXT")

    found = [handle.properties.get(b"%"), handle.properties.get(b"%", impo_options=following)]

    names = [("one", "1"), ("two", "2")]
    if app.mqi.__name__ == "ibmmq":  # pymqi does not give the name
        assert found == [(value, name) for name, value in names]
    else:
        assert found == ["1", "2"]
    with app.failing("MQRC_PROPERTY_NOT_AVAILABLE"):
        handle.properties.get(b"%", impo_options=following)


def test_inquire_options_use_the_property_cursor(app: Application) -> None:
    """IBM MQ docs, "MQIMPO - Options": MQIMPO_QUERY_LENGTH, MQIMPO_INQ_PROP_UNDER_CURSOR."""
    handle = put_with_properties(app, one=("1", "STRING"), two=("22", "STRING"))
    under = app.number("MQIMPO_INQ_PROP_UNDER_CURSOR")

    with app.failing("MQRC_PROPERTY_NOT_AVAILABLE"):
        handle.properties.get(b"%", impo_options=under)
    handle.properties.get(b"two", impo_options=app.number("MQIMPO_QUERY_LENGTH"))
    assert handle.properties.get(b"one.name", impo_options=under) == "22"
    with app.failing("MQRC_OPTIONS_ERROR"):
        handle.properties.get(b"one", impo_options=1 << 20)


@pytest.mark.parametrize(
    ("value", "kind", "wanted", "expected"),
    [
        ("17", "STRING", "INT32", 17),
        ("AB01", "STRING", "BYTE_STRING", b"\xab\x01"),
        ("true", "STRING", "BOOLEAN", 1),
        (True, "BOOLEAN", "STRING", "TRUE"),
        (b"\x01\xff", "BYTE_STRING", "STRING", "01FF"),
        (-5, "INT64", "INT8", -5),
        (1.5, "FLOAT64", "STRING", "1.5"),
        (300, "INT32", "INT8", "MQRC_PROP_NUMBER_FORMAT_ERROR"),
        ("x", "STRING", "INT32", "MQRC_PROP_NUMBER_FORMAT_ERROR"),
        (b"1", "BYTE_STRING", "INT32", "MQRC_PROP_CONV_NOT_SUPPORTED"),
    ],
)
def test_a_property_value_is_converted_if_its_type_allows_it(
    app: Application, value: Any, kind: str, wanted: str, expected: Any
) -> None:
    """IBM MQ docs, "MQIMPO_CONVERT_TYPE": supported conversions; without it, 2473."""
    handle = put_with_properties(app, thing=(value, kind))
    as_wanted = {
        "impo_options": app.number("MQIMPO_CONVERT_TYPE"),
        "property_type": app.number(f"MQTYPE_{wanted}"),
    }

    with app.failing("MQRC_PROPERTY_TYPE_ERROR"):
        handle.properties.get(b"thing", property_type=as_wanted["property_type"])
    if str(expected).startswith("MQRC_"):
        with app.failing(expected):
            handle.properties.get(b"thing", **as_wanted)
    else:
        assert handle.properties.get(b"thing", **as_wanted) == expected


def all_of(app: Application, handle: Any) -> list[Any]:
    """Return the values of all properties, in order."""
    found, options = [], 0
    with app.failing("MQRC_PROPERTY_NOT_AVAILABLE"):
        while True:
            got = handle.properties.get(b"%", impo_options=options)
            found.append(got[0] if isinstance(got, tuple) else got)
            options = app.number("MQIMPO_INQ_NEXT")
    return found


def test_set_options_choose_the_position_of_a_property(app: Application) -> None:
    """IBM MQ docs, "MQSMPO - Options": the first of that name, or beside the property cursor.

    MQSMPO_SET_PROP_UNDER_CURSOR, MQSMPO_SET_PROP_AFTER_CURSOR, MQSMPO_SET_PROP_BEFORE_CURSOR,
    MQSMPO_APPEND_PROPERTY.
    """
    handle = put_with_properties(app, a=("a", "STRING"), c=("c", "STRING"))

    def put_in(name: bytes, *options: str) -> None:
        smpo = app.mqi.SMPO(Options=app.options("MQSMPO", options))
        handle.properties.set(name, name.decode() + "!", smpo=smpo)

    put_in(b"a")
    handle.properties.get(b"c")
    put_in(b"b", "SET_PROP_BEFORE_CURSOR")
    put_in(b"d", "SET_PROP_AFTER_CURSOR")
    put_in(b"c", "SET_PROP_UNDER_CURSOR")
    put_in(b"a", "APPEND_PROPERTY")
    assert all_of(app, handle) == ["a!", "b!", "c!", "d!", "a!"]
    with app.failing("MQRC_OPTIONS_ERROR"):
        put_in(b"a", "APPEND_PROPERTY", "SET_PROP_AFTER_CURSOR")


def test_a_property_is_deleted_by_name_or_under_the_cursor(app: Application) -> None:
    """IBM MQ docs, "MQDLTMP - Delete message property"; pymqi does not have the call."""
    if app.mqi.__name__ == "pymqi":
        pytest.skip("pymqi has no MQDLTMP")
    handle = put_with_properties(app, a=("a", "STRING"), b=("b", "STRING"), c=("c", "STRING"))
    handle.properties.dlt(b"usr.b")
    handle.properties.get(b"c")
    handle.properties.dlt(b"", app.mqi.DMPO(Options=app.number("MQDMPO_DEL_PROP_UNDER_CURSOR")))

    assert all_of(app, handle) == ["a"]
    with app.failing("MQRC_PROPERTY_NOT_AVAILABLE"):
        handle.properties.dlt(b"b")
    with app.failing("MQRC_PROPERTY_NAME_ERROR"):
        handle.properties.dlt(b"%")


@pytest.mark.parametrize(
    "name", [b"", b"1st", b"a..b", b"a b", b"Root.MQMD.Priority", b"null", b"\xff"]
)
def test_an_invalid_property_name_is_refused(app: Application, name: bytes) -> None:
    """IBM MQ docs, "Property names", "2442 (098A) (RC2442): MQRC_PROPERTY_NAME_ERROR"."""
    with app.failing("MQRC_PROPERTY_NAME_ERROR"):
        app.mqi.MessageHandle(app.handle).properties.set(name, "value")


def test_a_property_name_may_have_letters_of_any_language(app: Application) -> None:
    """IBM MQ docs, "Property names": the rules of the Java Language Specification."""
    name = "größe.π_1".encode()
    handle = app.mqi.MessageHandle(app.handle)
    handle.properties.set(name, "3")
    app.open("A", "OUTPUT").put(b"", app.md(), app.pmo(NewMsgHandle=handle.msg_handle))
    written, md = app.get(app.open("A", "INPUT_SHARED"), "PROPERTIES_FORCE_MQRFH2")
    described = {"Encoding": md.Encoding, "CodedCharSetId": md.CodedCharSetId}
    app.put("A", written, Format=b"MQHRF2  ", **described)

    assert get_with_handle(app, "A")[1].properties.get(name) == "3"


def test_a_property_name_is_no_longer_than_ibm_mq_allows(app: Application) -> None:
    """IBM MQ docs, "Property names": MQ_MAX_PROPERTY_NAME_LENGTH, 4095 characters."""
    properties = app.mqi.MessageHandle(app.handle).properties
    properties.set(b"n" * 4095, "value")

    with app.failing("MQRC_PROPERTY_NAME_LENGTH_ERR"):
        properties.set(b"n" * 4096, "value")
    with app.failing("MQRC_PROPERTY_NAME_LENGTH_ERR"):
        properties.get(b"n" * 4096)
    assert properties.get(b"n" * 4095) == "value"


def test_all_properties_together_are_limited_by_maxpropertieslength(app: Application) -> None:
    """IBM MQ docs, "MaxPropertiesLength", "2478 (09AE) (RC2478): MQRC_PROPERTIES_TOO_BIG"."""
    handle, most = app.mqi.MessageHandle(app.handle), 104_857_600
    handle.properties.set(b"long", b"x" * most, app.number("MQTYPE_BYTE_STRING"), most)

    with app.failing("MQRC_PROPERTIES_TOO_BIG"):
        app.open("A", "OUTPUT").put(b"", app.md(), app.pmo(NewMsgHandle=handle.msg_handle))


def test_a_property_that_must_be_understood_is_refused(app: Application) -> None:
    """IBM MQ docs, "Support (MQPD)", "2490 (09BA) (RC2490): MQRC_UNSUPPORTED_PROPERTY"."""
    handle = app.mqi.MessageHandle(app.handle)
    required = app.mqi.PD(Support=app.number("MQPD_SUPPORT_REQUIRED"))
    handle.properties.set(b"thing", "value", pd=required)

    with app.failing("MQRC_UNSUPPORTED_PROPERTY"):
        app.open("A", "OUTPUT").put(b"", app.md(), app.pmo(NewMsgHandle=handle.msg_handle))


@pytest.mark.embedded_only
def test_verbs_that_are_not_emulated_are_refused(mq: World, app: Application) -> None:
    """IBM MQ docs, "2298 (08FA) (RC2298): MQRC_FUNCTION_NOT_SUPPORTED"."""
    extension = mq.mqi.ibmmqc if mq.client == "ibmmq" else mq.mqi.pymqe

    assert extension.MQSUB(app.handle.get_handle(), app.mqi.SD().pack(), 0)[-2:] == (2, 2298)


def test_opentelemetry_adds_nothing_to_a_message(app: Application) -> None:
    """Ibmmq adds traceparent to messages put inside a span, unless install() disables it."""
    tracer = TracerProvider().get_tracer("a test")
    with tracer.start_as_current_span("a put and a get"):
        app.put("A", b"\x00\xff body", Format=b"MQSTR   ")
        body, handle = get_with_handle(app, "A")

    assert body == b"\x00\xff body"
    with app.failing("MQRC_PROPERTY_NOT_AVAILABLE"):
        handle.properties.get(b"%")
