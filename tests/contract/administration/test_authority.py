"""The authority of users and of alternate users."""

from __future__ import annotations

import os
import pwd
from typing import Any

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

CONNECT = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT,INQ)"
ME = pwd.getpwuid(os.geteuid()).pw_name


def allow(mq: World, profile: str, *words: str, user: str = "alice", kind: str = "QUEUE") -> None:
    mq.mqsc(
        f"SET AUTHREC PROFILE({profile}) OBJTYPE({kind}) PRINCIPAL('{user}')"
        f" AUTHADD({','.join(words)})"
    )


@pytest.fixture
def alice(mq: World) -> Application:
    """Connect a user with these authorities only."""
    mq.mqsc(CONNECT)
    return mq.connect_as("alice")


def test_no_authority_is_checked_without_an_authority_record(mq: World) -> None:
    """An embedded queue manager has no records until the first one is set."""
    alice = mq.connect_as("alice")

    assert alice.put("A").UserIdentifier == b"alice".ljust(12)


def test_a_user_without_authority_is_not_connected(mq: World) -> None:
    """IBM MQ docs, "2035 (07F3) (RC2035): MQRC_NOT_AUTHORIZED": MQCONN, MQCONNX."""
    mq.mqsc(CONNECT)

    with mq.connect().failing("MQRC_NOT_AUTHORIZED"):
        mq.connect_as("bob")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("INPUT_SHARED",), ("GET",)),
        (("INPUT_EXCLUSIVE", "SAVE_ALL_CONTEXT"), ("GET",)),
        (("BROWSE",), ("BROWSE",)),
        (("OUTPUT",), ("PUT",)),
        (("INQUIRE",), ("INQ",)),
        (("SET",), ("SET",)),
        (("OUTPUT", "PASS_IDENTITY_CONTEXT"), ("PUT", "PASSID")),
        (("OUTPUT", "PASS_ALL_CONTEXT"), ("PUT", "PASSALL")),
        (("OUTPUT", "INPUT_AS_Q_DEF", "BROWSE"), ("PUT", "GET", "BROWSE")),
    ],
)
def test_each_open_option_needs_its_authority(
    mq: World, alice: Application, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """IBM MQ docs, "Authorizations for MQI calls": MQOPEN, "2035 (07F3) (RC2035)"."""
    for missing in words:
        mq.mqsc("SET AUTHREC PROFILE(A) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(ALL)")
        mq.mqsc(f"SET AUTHREC PROFILE(A) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHRMV({missing})")
        with alice.failing("MQRC_NOT_AUTHORIZED"):
            alice.open("A", *options)
    mq.mqsc("SET AUTHREC PROFILE(A) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHRMV(ALL)")
    allow(mq, "A", *words)
    alice.open("A", *options).close()


def test_setting_context_needs_authority_on_the_queue_manager_too(
    mq: World, alice: Application
) -> None:
    """IBM MQ docs, "setmqaut": setid and setall are granted on the queue and the queue manager."""
    allow(mq, "A", "ALLMQI")
    with alice.failing("MQRC_NOT_AUTHORIZED"):
        alice.put("A", b"", "SET_ALL_CONTEXT")
    mq.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(SETALL)")

    assert alice.put("A", b"", "SET_ALL_CONTEXT", UserIdentifier=b"x").UserIdentifier[:2] == b"x "
    with alice.failing("MQRC_NOT_AUTHORIZED"):
        alice.put("A", b"", "SET_IDENTITY_CONTEXT")


def test_mqput1_needs_authority_to_put(mq: World, alice: Application) -> None:
    """IBM MQ docs, "Authorizations for MQI calls": MQPUT1."""
    with alice.failing("MQRC_NOT_AUTHORIZED"):
        alice.put("A")
    allow(mq, "A", "PUT")

    alice.put("A")
    with alice.failing("MQRC_NOT_AUTHORIZED"):
        alice.get(alice.open("A", "INPUT_SHARED"))


def test_inquiring_the_queue_manager_needs_authority(mq: World, alice: Application) -> None:
    """IBM MQ docs, "Authorizations for MQI calls": inq on the queue manager."""
    selector = alice.number("MQIA_CODED_CHAR_SET_ID")
    assert mq.connect_as("alice").handle.inquire(selector) == 1208
    mq.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHRMV(INQ)")

    with alice.failing("MQRC_NOT_AUTHORIZED"):
        alice.handle.inquire(selector)


def test_authority_is_checked_for_the_opened_name_and_not_for_its_target(
    mq: World, alice: Application
) -> None:
    """IBM MQ docs, "Alias queues", "Remote queues": authority for the alias, or the xmit queue."""
    mq.mqsc("DEFINE QALIAS(ALIAS) TARGET(A); DEFINE QLOCAL(QM2) USAGE(XMITQ)")
    allow(mq, "ALIAS", "PUT")

    alice.put("ALIAS")
    with alice.failing("MQRC_NOT_AUTHORIZED"):
        alice.open("ANYTHING", "OUTPUT", q_mgr="QM2")
    allow(mq, "QM2", "PUT")
    alice.open("ANYTHING", "OUTPUT", q_mgr="QM2").close()


@pytest.mark.parametrize(
    ("profile", "fits"),
    [
        ("PAY.**", True),
        ("PAY.*", False),
        ("PAY.*.IN", True),
        ("PAY.EU.?N", True),
        ("**", True),
        ("*", False),
        ("PAY.EU", False),
    ],
)
def test_an_authority_profile_may_be_generic(
    mq: World, alice: Application, profile: str, *, fits: bool
) -> None:
    """IBM MQ docs, "Using OAM generic profiles on UNIX, Linux, and Windows"."""
    mq.mqsc("DEFINE QLOCAL(PAY.EU.IN)")
    allow(mq, profile, "PUT")

    if fits:
        alice.put("PAY.EU.IN")
    else:
        with alice.failing("MQRC_NOT_AUTHORIZED"):
            alice.put("PAY.EU.IN")


def test_the_most_specific_authority_profile_applies(mq: World, alice: Application) -> None:
    """IBM MQ docs, "Profile priorities": the most specific one, compared from the left."""
    mq.mqsc("DEFINE QLOCAL(PAY.EU)")
    allow(mq, "**", "ALL")
    allow(mq, "PAY.*", "PUT")
    mq.mqsc("SET AUTHREC PROFILE(PAY.EU) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(NONE)")

    alice.put("A")
    with alice.failing("MQRC_NOT_AUTHORIZED"):
        alice.put("PAY.EU")
    mq.mqsc("DELETE AUTHREC PROFILE(PAY.EU) OBJTYPE(QUEUE) PRINCIPAL('alice')")
    alice.put("PAY.EU")
    with alice.failing("MQRC_NOT_AUTHORIZED"):
        alice.open("PAY.EU", "BROWSE")


def as_other(app: Application, user: bytes, queue: str = "A", *options: str, **fields: Any) -> Any:
    """Put to a queue with another user's authority."""
    od = app.mqi.OD(ObjectName=queue.encode(), AlternateUserId=user, Version=3)
    md = app.md()
    app.handle.put1(od, b"body", md, app.pmo("ALTERNATE_USER_AUTHORITY", *options, **fields))
    return md


def test_the_authority_of_an_alternate_user_replaces_the_users_own(
    mq: World, alice: Application
) -> None:
    """IBM MQ docs, "AlternateUserId (MQOD)": checks only; UserIdentifier stays one's own.

    MQOO_ALTERNATE_USER_AUTHORITY, and MQPMO_ALTERNATE_USER_AUTHORITY for MQPUT1.
    """
    allow(mq, "A", "PUT", user="bob")
    allow(mq, "B", "PUT")
    with alice.failing("MQRC_NOT_AUTHORIZED"):
        as_other(alice, b"bob")
    mq.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(ALTUSR)")

    assert as_other(alice, b"bob").UserIdentifier == b"alice".ljust(12)
    for user, queue in ((b"bob", "B"), (b"", "B"), (b"carol", "A")):
        with alice.failing("MQRC_NOT_AUTHORIZED"):
            as_other(alice, user, queue)


def test_passing_context_needs_the_users_own_authority(mq: World, alice: Application) -> None:
    """IBM MQ docs, "AlternateUserId (MQOD)": context checks stay with the current user."""
    mq.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(ALTUSR)")
    allow(mq, "B", "PUT", "GET")
    allow(mq, "A", "PUT", "PASSALL", user="bob")
    alice.put("B")
    source = alice.open("B", "INPUT_SHARED", "SAVE_ALL_CONTEXT")
    alice.get(source)
    passing = {"Context": source.get_handle()}
    with alice.failing("MQRC_NOT_AUTHORIZED"):
        as_other(alice, b"bob", "A", "PASS_ALL_CONTEXT", **passing)
    allow(mq, "A", "PASSALL")
    mq.mqsc("SET AUTHREC PROFILE(A) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHRMV(PASSALL)")

    as_other(alice, b"bob", "A", "PASS_ALL_CONTEXT", **passing)


def test_the_owner_of_a_queue_manager_has_every_authority_not_revoked(
    mq: World, app: Application
) -> None:
    """Like a member of the group mqm, except for authorities that a record revokes."""
    mq.mqsc(CONNECT)
    app.put("A")
    mq.mqsc(f"SET AUTHREC PROFILE(A) OBJTYPE(QUEUE) PRINCIPAL('{ME}') AUTHRMV(PUT)")

    with app.failing("MQRC_NOT_AUTHORIZED"):
        app.put("A")
    assert app.bodies("A") == [b"body"]
    app.put("B")


def test_a_change_of_authority_applies_at_the_next_mqopen(mq: World, alice: Application) -> None:
    """IBM MQ docs, "When security checks are made": at MQOPEN, and not at each MQPUT."""
    allow(mq, "A", "PUT")
    queue = alice.open("A", "OUTPUT")
    mq.mqsc("SET AUTHREC PROFILE(A) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHRMV(PUT)")

    alice.put(queue)
    with alice.failing("MQRC_NOT_AUTHORIZED"):
        alice.open("A", "OUTPUT")


def test_deleting_a_dynamic_queue_deletes_its_authority_records(
    mq: World, alice: Application
) -> None:
    allow(mq, "SYSTEM.DEFAULT.MODEL.QUEUE", "GET")
    od = alice.mqi.OD(ObjectName=b"SYSTEM.DEFAULT.MODEL.QUEUE", DynamicQName=b"REPLIES.*")
    before = mq.mqsc("DISPLAY AUTHREC")
    queue = alice.mqi.Queue(alice.handle, od, alice.number("MQOO_INPUT_EXCLUSIVE"))
    assert len(mq.mqsc("DISPLAY AUTHREC")) == len(before) + 1

    queue.close()
    assert mq.mqsc("DISPLAY AUTHREC") == before


# What a user may do, as PCF says it.


def authority_of(app: Application, user: str, name: str, kind: int = 1) -> set[int]:
    fields = app.mqi.CMQCFC
    pcf = app.mqi.PCFExecute(app.handle)
    (found,) = pcf.MQCMD_INQUIRE_ENTITY_AUTH(
        {
            fields.MQIACF_AUTH_OPTIONS: fields.MQAUTHOPT_CUMULATIVE,
            fields.MQIACF_OBJECT_TYPE: kind,
            fields.MQIACF_ENTITY_TYPE: 1,
            fields.MQCACF_ENTITY_NAME: user.encode(),
            fields.MQCACF_OBJECT_NAME: name.encode(),
        }
    )
    pcf.disconnect()
    assert found[fields.MQCACF_ENTITY_NAME].rstrip(b" \0") == user.encode()
    listed = found[fields.MQIACF_AUTHORIZATION_LIST]
    return set(listed if isinstance(listed, list | tuple) else [listed])


def test_pcf_says_what_a_user_may_do_with_a_queue(mq: World) -> None:
    """MQCMD_INQUIRE_ENTITY_AUTH. IBM MQ docs, "Inquire Entity Authority (Response)"."""
    app = mq.connect()
    fields = app.mqi.CMQCFC
    mq.mqsc(CONNECT)
    assert authority_of(app, "alice", "A") == {fields.MQAUTH_NONE}

    allow(mq, "A", "PUT", "INQ", "PASSALL")

    assert authority_of(app, "alice", "A") == {
        fields.MQAUTH_OUTPUT,
        fields.MQAUTH_INQUIRE,
        fields.MQAUTH_PASS_ALL_CONTEXT,
    }
    of_queue_manager = authority_of(app, "alice", "", 5)
    assert of_queue_manager == {fields.MQAUTH_CONNECT, fields.MQAUTH_INQUIRE}


@pytest.mark.embedded_only
@pytest.mark.parametrize(
    ("kind", "name", "reason"), [(1, "NO.QUEUE", 2085), (2, "A", 3229)], ids=["queue", "kind"]
)
def test_pcf_says_nothing_of_an_object_that_is_not_there(
    mq: World, kind: int, name: str, reason: int
) -> None:
    app = mq.connect()

    with pytest.raises(app.mqi.MQMIError) as caught:
        authority_of(app, "alice", name, kind)

    assert caught.value.reason == reason


def test_a_user_without_display_may_not_ask_what_users_may_do(
    mq: World, alice: Application
) -> None:
    """IBM MQ docs, "Authorizations for PCF commands": +dsp on the queue manager."""
    allow(mq, "SYSTEM.**", "ALL")

    with alice.failing("MQRC_NOT_AUTHORIZED"):
        authority_of(alice, "alice", "A")


def records(app: Application, option: str, name: str, kind: int = 1, **given: Any) -> list[Any]:
    """Inquire authority records: the profile, the user and the authorities of each."""
    fields = app.mqi.CMQCFC
    pcf = app.mqi.PCFExecute(app.handle)
    try:
        found = pcf.MQCMD_INQUIRE_AUTH_RECS(
            {
                fields.MQIACF_AUTH_OPTIONS: getattr(fields, f"MQAUTHOPT_{option}", 0),
                fields.MQCACF_AUTH_PROFILE_NAME: name.encode(),
                fields.MQIACF_OBJECT_TYPE: kind,
                **{getattr(fields, word): value for word, value in given.items()},
            }
        )
    finally:
        pcf.disconnect()
    return [
        (
            one[fields.MQCACF_AUTH_PROFILE_NAME].rstrip().decode(),
            one[fields.MQCACF_ENTITY_NAME].rstrip(b" \0").decode(),
            one[fields.MQIACF_AUTHORIZATION_LIST],
        )
        for one in found
    ]


def test_pcf_inquires_the_authority_records_of_a_profile(mq: World) -> None:
    """MQCMD_INQUIRE_AUTH_RECS. IBM MQ docs, "Inquire Authority Records": options of the name."""
    app = mq.connect()
    mq.mqsc(CONNECT)
    for profile, user in (("PAY.*", "alice"), ("PAY.IN", "bob"), ("PAY.**", "bob")):
        allow(mq, profile, "PUT", user=user)
    put = [app.mqi.CMQCFC.MQAUTH_OUTPUT]

    assert records(app, "NAME_EXPLICIT", "PAY.*") == [("PAY.*", "alice", put)]
    assert records(app, "NAME_ALL_MATCHING", "PAY.OUT") == [
        ("PAY.*", "alice", put),
        ("PAY.**", "bob", put),
    ]
    assert records(app, "NAME_AS_WILDCARD", "*.I?") == [("PAY.IN", "bob", put)]
    assert records(
        app, "NAME_ALL_MATCHING", "PAY.IN", MQCACF_ENTITY_NAME=b"bob", MQIACF_ENTITY_TYPE=1
    ) == [("PAY.**", "bob", put), ("PAY.IN", "bob", put)]
    ((name, _, held),) = records(app, "NAME_EXPLICIT", "", 5, MQCACF_ENTITY_NAME=b"alice")
    assert (name, held) == (
        "QM1",
        [app.mqi.CMQCFC.MQAUTH_CONNECT, app.mqi.CMQCFC.MQAUTH_INQUIRE],
    )


@pytest.mark.embedded_only
@pytest.mark.parametrize(
    ("option", "given", "reason"),
    [
        ("NAME_EXPLICIT", {}, 3200),
        ("NO_SUCH_OPTION", {}, 2046),
        ("NAME_EXPLICIT", {"MQIACF_ENTITY_TYPE": 2}, 3229),
        ("NAME_EXPLICIT", {"MQIACF_OBJECT_TYPE": 2}, 3229),
    ],
    ids=["none", "option", "group", "kind"],
)
def test_pcf_refuses_a_wrong_inquiry_of_authority_records(
    mq: World, option: str, given: dict[str, int], reason: int
) -> None:
    """IBM MQ docs, "Inquire Authority Records": error codes; MQRCCF_NONE_FOUND is unverified."""
    app = mq.connect()

    with pytest.raises(app.mqi.MQMIError) as caught:
        records(app, option, "PAY.IN", **given)

    assert caught.value.reason == reason
