"""MQSC commands: their syntax, their effect and their errors."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path

import pytest

import embedded_mq
from embedded_mq.engine.objects.attributes import SYSTEM_QUEUES
from embedded_mq.engine.objects.authority import profile_fits
from embedded_mq.errors import EmbeddedQueueManagerError, MqscError
from embedded_mq.mqsc.syntax import Command, Parameter, parse_commands
from embedded_mq.storage.store import DATABASE

SENDER = "DEFINE CHANNEL(C) CHLTYPE(SDR) CONNAME('h(1414)') XMITQ(QM2)"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(tmp_path))
    embedded_mq.create("QM1")
    return tmp_path


def run(text: str) -> list[str]:
    return embedded_mq.run_mqsc("QM1", text)


def test_an_mqsc_command_may_span_several_lines() -> None:
    """IBM MQ docs, "Script (MQSC) commands": + skips leading blanks, - keeps them."""
    text = """
* a comment
def ql(my.queue) +
       descr('it''s -
  here') ; clear ql('Mixed.Case')
  * another comment
"""
    assert list(parse_commands(text)) == [
        Command("DEFINE", "QLOCAL", "MY.QUEUE", (Parameter("DESCR", "it's   here", 4),), 3),
        Command("CLEAR", "QLOCAL", "Mixed.Case", (), 5),
    ]


def test_a_quoted_semicolon_does_not_end_a_command() -> None:
    (command,) = parse_commands("DEFINE QLOCAL(A) DESCR('one; two')")

    assert isinstance(command, Command)
    assert command.parameters == (Parameter("DESCR", "one; two", 1),)


def test_display_shows_definitions_as_they_were_given() -> None:
    run("DEFINE QLOCAL(A) MAXDEPTH(10) PUT(DISABLED) NOSHARE DESCR('x y')")

    assert run("DISPLAY QLOCAL(A) MAXDEPTH PUT SHARE DESCR CURDEPTH") == [
        "QUEUE(A) TYPE(QLOCAL) DESCR(x y) PUT(DISABLED) MAXDEPTH(10) NOSHARE CURDEPTH(0)"
    ]


def test_display_takes_a_generic_name_and_every_type() -> None:
    run("DEFINE QLOCAL(A.1); DEFINE QALIAS(A.2) TARGET(A.1); DEFINE QREMOTE(B) RNAME(X)")

    assert run("DISPLAY QUEUE(A.*) DEFPRTY") == [
        "QUEUE(A.1) TYPE(QLOCAL) DEFPRTY(0)",
        "QUEUE(A.2) TYPE(QALIAS) DEFPRTY(0)",
    ]
    assert run("DISPLAY QMGR DEADQ CCSID") == ["QMNAME(QM1) CCSID(1208) DEADQ()"]


def test_replace_redefines_a_queue_and_alter_changes_it() -> None:
    run("DEFINE QLOCAL(A) MAXDEPTH(10) DEFPRTY(5)")
    run("ALTER QLOCAL(A) MAXDEPTH(20)")
    assert run("DIS QL(A) MAXDEPTH DEFPRTY") == ["QUEUE(A) TYPE(QLOCAL) DEFPRTY(5) MAXDEPTH(20)"]

    run("DEFINE QLOCAL(A) REPLACE MAXDEPTH(30)")
    assert run("DIS QL(A) MAXDEPTH DEFPRTY") == ["QUEUE(A) TYPE(QLOCAL) DEFPRTY(0) MAXDEPTH(30)"]


def test_a_queue_is_defined_like_another() -> None:
    """IBM MQ docs, "DEFINE queues", LIKE: its attributes in place of the defaults."""
    run("DEFINE QLOCAL(A) MAXDEPTH(10) DEFPRTY(5)")

    run("DEFINE QLOCAL(B) LIKE(A) DEFPRTY(6)")
    assert run("DIS QL(B) MAXDEPTH DEFPRTY") == ["QUEUE(B) TYPE(QLOCAL) DEFPRTY(6) MAXDEPTH(10)"]


def test_an_alteration_has_a_new_time_and_keeps_that_of_the_creation(home: Path) -> None:
    """IBM MQ docs, "DISPLAY QUEUE": ALTDATE, ALTTIME, CRDATE and CRTIME."""
    run("DEFINE QLOCAL(A); DEFINE QALIAS(B) TARGET(A)")
    times = {".CRDATE": "2020-01-01", ".CRTIME": "09.00.00", ".ALTDATE": "old"}
    with sqlite3.connect(home / "QM1" / DATABASE) as database:
        patch = "UPDATE queue SET attributes = json_patch(attributes, ?)"
        database.execute(patch, (json.dumps(times),))
    database.close()
    for change in ("ALTER QLOCAL(A) MAXDEPTH(1)", "DEFINE QLOCAL(A) REPLACE"):
        run(change)

        assert run("DISPLAY QLOCAL(A) CRDATE CRTIME") == [
            "QUEUE(A) TYPE(QLOCAL) CRDATE(2020-01-01) CRTIME(09.00.00)"
        ]
        assert "ALTDATE(20" in run("DISPLAY QLOCAL(A) ALTDATE")[0]
    assert run("DISPLAY QUEUE(B) CRDATE ALTDATE") == ["QUEUE(B) TYPE(QALIAS) ALTDATE(old)"]


def test_where_selects_the_displayed_queues() -> None:
    """IBM MQ docs, "DISPLAY QUEUE", WHERE(FILTER-KEYWORD FILTER-OPERATOR FILTER-VALUE)."""
    run("DEFINE QLOCAL(A) MAXDEPTH(9) DESCR('pay'); DEFINE QLOCAL(B) MAXDEPTH(10) PUT(DISABLED)")
    run("DEFINE QALIAS(C) TARGET(A)")

    def shown(condition: str) -> str:
        return " ".join(
            line[6]
            for line in run(f"DISPLAY QUEUE(*) WHERE({condition}) DEFPRTY")
            if "SYSTEM." not in line
        )

    assert shown("MAXDEPTH GT 9") == "B"
    assert shown("MAXDEPTH LE 9") == "A"
    assert shown("PUT EQ DISABLED") == "B"
    assert shown("PUT NE DISABLED") == "A C"
    assert shown("TARGET LK A*") == "C"
    assert shown("CURDEPTH EQ 0") == "A B"
    assert shown("CURDEPTH NE 0") == ""


def test_display_shows_model_queues_and_their_dynamic_queues() -> None:
    run("DEFINE QMODEL(M) DEFTYPE(PERMDYN); DEFINE QLOCAL(A)")

    assert run("DISPLAY QMODEL(M) DEFTYPE MAXDEPTH") == [
        "QUEUE(M) TYPE(QMODEL) MAXDEPTH(5000) DEFTYPE(PERMDYN)"
    ]
    assert run("DISPLAY QLOCAL(A) DEFTYPE IPPROCS OPPROCS") == [
        "QUEUE(A) TYPE(QLOCAL) IPPROCS(0) OPPROCS(0) DEFTYPE(PREDEFINED)"
    ]
    assert run("DELETE QMODEL(M); DISPLAY QMSTATUS") == [
        "deleted QMODEL(M)",
        "QMNAME(QM1) STATUS(RUNNING)",
    ]


def test_mqsc_sets_displays_and_deletes_authority_records() -> None:
    """IBM MQ docs, "SET AUTHREC", "DISPLAY AUTHREC", "DELETE AUTHREC"."""
    run("SET AUTHREC PROFILE(PAY.**) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(PUT, INQ)")
    run("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)")
    run("SET AUTHREC PROFILE(PAY.**) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(GET) AUTHRMV(INQ)")

    assert run("DISPLAY AUTHREC PRINCIPAL('bob')") == [
        "AUTHREC PROFILE(QM1) OBJTYPE(QMGR) PRINCIPAL(bob) AUTHLIST(CONNECT)",
        "AUTHREC PROFILE(PAY.**) OBJTYPE(QUEUE) PRINCIPAL(bob) AUTHLIST(GET PUT)",
    ]
    run("DELETE AUTHREC PROFILE(PAY.**) OBJTYPE(QUEUE) PRINCIPAL('bob')")
    assert len(run("DISPLAY AUTHREC")) == 1
    assert run("DISPLAY AUTHREC OBJTYPE(QUEUE)") == []


def test_mqsc_defines_alters_displays_and_deletes_channels() -> None:
    """IBM MQ docs, "DEFINE CHANNEL", "ALTER CHANNEL", "DISPLAY CHANNEL", "DELETE CHANNEL"."""
    assert run("DEFINE CHANNEL(C) CHLTYPE(SVRCONN) MAXINST(5) MCAUSER('me') TRPTYPE(TCP)") == [
        "defined CHANNEL(C); ignored: MCAUSER; kept without effect: MAXINST"
    ]
    run(f"{SENDER.replace('(C)', '(S)')}; DEFINE CHANNEL(R) CHLTYPE(RCVR) DESCR('in')")
    run("ALTER CHANNEL(C) CHLTYPE(SVRCONN) SHARECNV(1)")
    run("DEFINE CHANNEL(R) CHLTYPE(RCVR) REPLACE MAXMSGL(9)")

    assert run("DISPLAY CHANNEL(*) MAXINST SHARECNV XMITQ") == [
        "CHANNEL(C) CHLTYPE(SVRCONN) MAXINST(5) SHARECNV(1)",
        "CHANNEL(R) CHLTYPE(RCVR)",
        "CHANNEL(S) CHLTYPE(SDR) XMITQ(QM2)",
    ]
    assert run("DISPLAY CHANNEL(*) CHLTYPE(RCVR)") == [
        "CHANNEL(R) CHLTYPE(RCVR) DESCR() TRPTYPE(TCP) MAXMSGL(9)"
    ]
    assert run("DELETE CHANNEL(C); DELETE CHANNEL(R); DIS CHL(*) DESCR") == [
        "deleted CHANNEL(C)",
        "deleted CHANNEL(R)",
        "CHANNEL(S) CHLTYPE(SDR) DESCR()",
    ]


def test_a_started_sender_runs_while_the_partner_of_its_queue_does() -> None:
    """IBM MQ docs, "START CHANNEL", "STOP CHANNEL", "DISPLAY CHSTATUS", "Channel states"."""
    run(f"DEFINE QLOCAL(QM2) USAGE(XMITQ); {SENDER}; START CHANNEL(C)")

    def status() -> list[str]:
        return run("DISPLAY CHSTATUS(C) STATUS")

    assert status() == ["CHANNEL(C) STATUS(RETRYING)"]
    embedded_mq.create("QM2")
    assert status() == ["CHANNEL(C) STATUS(RUNNING)"]
    embedded_mq.end("QM2")
    assert status() == ["CHANNEL(C) STATUS(RETRYING)"]
    run("DEFINE QREMOTE(QM3) RQMNAME(QM3) XMITQ(QM2)")
    embedded_mq.create("QM3")
    assert status() == ["CHANNEL(C) STATUS(RUNNING)"]
    run("ALTER QLOCAL(QM2) GET(DISABLED)")
    assert status() == ["CHANNEL(C) STATUS(RETRYING)"]
    run("STOP CHANNEL(C)")
    assert status() == ["CHANNEL(C) STATUS(STOPPED)"]
    run("DEFINE CHANNEL(R) CHLTYPE(RCVR); STOP CHANNEL(R)")
    assert run("DISPLAY CHSTATUS(*) CHLTYPE STATUS CONNAME") == [
        "CHANNEL(C) CHLTYPE(SDR) CONNAME(h(1414)) STATUS(STOPPED)",
        "CHANNEL(R) CHLTYPE(RCVR) CONNAME() STATUS(STOPPED)",
    ]
    assert run("START CHANNEL(R); DISPLAY CHSTATUS(*) CHLTYPE") == [
        "started CHANNEL(R)",
        "CHANNEL(C) CHLTYPE(SDR)",
    ]


def test_mqsc_alters_displays_and_deletes_every_type_of_queue() -> None:
    run("""DEFINE QLOCAL(L); CLEAR QLOCAL(L); DEFINE QMODEL(M); DEFINE QALIAS(A) TARGET(L)
        DEFINE QREMOTE(R) RNAME(X)
        ALTER QLOCAL(L) DEFPRTY(1); ALTER QMODEL(M) DEFPRTY(2); ALTER QALIAS(A) DEFPRTY(3)
        ALTER QREMOTE(R) DEFPRTY(4)""")

    assert run("DISPLAY QALIAS(A) DEFPRTY TARGET; DISPLAY QREMOTE(R) DEFPRTY RNAME") == [
        "QUEUE(A) TYPE(QALIAS) DEFPRTY(3) TARGET(L)",
        "QUEUE(R) TYPE(QREMOTE) DEFPRTY(4) RNAME(X)",
    ]
    shown = {line[6]: line[-2] for line in run("DISPLAY QUEUE(*) DEFPRTY") if line[7] == ")"}
    assert shown == {"L": "1", "M": "2", "A": "3", "R": "4"}
    run("DELETE QLOCAL(L); DELETE QMODEL(M); DELETE QALIAS(A); DELETE QREMOTE(R)")
    assert len(run("DISPLAY QUEUE(*)")) == len(SYSTEM_QUEUES)


def test_define_reports_ignored_attributes() -> None:
    assert run("DEFINE QLOCAL(A) ACCTQ(ON) TRIGDPTH(80) NOTRIGGER") == [
        "defined QLOCAL(A); ignored: ACCTQ; kept without effect: TRIGDPTH NOTRIGGER"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "DEFINE QLOCAL(A) MAXDEPHT(5)",
            "line 1: QLOCAL(A) has no attribute MAXDEPHT; did you mean MAXDEPTH?",
        ),
        (
            "\nDEFINE QLOCAL(A) +\n  PUT(MAYBE)",
            "line 3: PUT(MAYBE) is not valid; use ENABLED or DISABLED",
        ),
        (
            "DEFINE QLOCAL(A) MAXDEPTH(-1)",
            "line 1: MAXDEPTH(-1) is not valid; use a number from 0 to 999999999",
        ),
        (
            "DEFINE QLOCAL('A B')",
            "line 1: 'A B' is not a valid object name; use 1 to 48 of A-Z a-z 0-9 . _ / %",
        ),
        (
            "DEFINE QLOCAL(A) PUT",
            "line 1: PUT needs a value: PUT(...)",
        ),
        (
            "DEFINE QLOCAL(A) DEFPRTY(1) DEFPRTY(2)",
            "line 1: DEFPRTY is given twice; give it once",
        ),
        (
            "DEFINE TOPIC(T)",
            (
                "line 1: DEFINE TOPIC is not supported; DEFINE takes QLOCAL, QALIAS, QREMOTE,"
                " QMODEL, CHANNEL"
            ),
        ),
        (
            "PING CHANNEL(C)",
            (
                "line 1: PING is not supported; use DEFINE, ALTER, DISPLAY, DELETE, CLEAR, SET,"
                " START, STOP"
            ),
        ),
        (
            "START LISTENER(L)",
            "line 1: START LISTENER is not supported; START takes CHANNEL",
        ),
        (
            "DEFINE QLOCAL(A",
            "line 1: cannot read '(A'; use KEYWORD or KEYWORD(value), with a closing )",
        ),
        ("ALTER QLOCAL(B)", "line 1: queue B does not exist; DEFINE QLOCAL(B) creates it"),
        ("DEFINE QLOCAL(A) LIKE(B)", "line 1: queue B does not exist; DEFINE QLOCAL(B) creates it"),
        (
            "DISPLAY QUEUE(*) WHERE(CURDEPTH)",
            (
                "line 1: WHERE(CURDEPTH) is not valid; use WHERE(CURDEPTH GT 0), with one of"
                " LT GT LE GE EQ NE LK NL"
            ),
        ),
        (
            "DISPLAY QUEUE(*) WHERE(DEPTH GT 0)",
            "line 1: QUEUE has no attribute DEPTH to display",
        ),
        ("SET CHLAUTH(X)", "line 1: SET CHLAUTH is not supported; SET takes AUTHREC, FAULT"),
        (
            "SET AUTHREC PROFILE(A) OBJTYPE(QUEUE) GROUP('staff') AUTHADD(PUT)",
            (
                "line 1: SET AUTHREC does not support GROUP; use SET AUTHREC PROFILE(MY.QUEUE)"
                " OBJTYPE(QUEUE) PRINCIPAL('user') AUTHADD(PUT,INQ)"
            ),
        ),
        (
            "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(PUT)",
            (
                "line 1: AUTHADD(PUT) is not valid for OBJTYPE(QMGR); use ALTUSR CHG CONNECT"
                " DLT DSP INQ SET SETALL SETID ALL ALLMQI ALLADM NONE"
            ),
        ),
        (
            "SET FAULT(MQCMIT)",
            (
                "line 1: 'MQCMIT' is not a fault; use VERB:N:REASON|kill|delay=SECONDS|LIE:"
                "before|after, with VERB[QUEUE] for one queue and N+ for the Nth and all later"
                " calls, for example MQCMIT:2:2009:after; or the name of a LIE alone, such as"
                " commit-lost; put it in quotes"
            ),
        ),
        ("DISPLAY QUEUE(B)", "line 1: queue B does not exist"),
        (
            "DEFINE QLOCAL(A); DEFINE QLOCAL(A)",
            "line 1: A already exists; DEFINE QLOCAL(A) REPLACE changes it",
        ),
        ("DEFINE QLOCAL(A); DELETE QALIAS(A)", "line 1: A is a QLOCAL, not a QALIAS"),
        (
            "DEFINE CHANNEL(C)",
            "line 1: DEFINE CHANNEL needs CHLTYPE, one of SDR RCVR SVRCONN",
        ),
        (
            "DEFINE CHANNEL(C) CHLTYPE(SDR) XMITQ(X)",
            "line 1: channel C has no CONNAME; CHLTYPE(SDR) needs CONNAME(...)",
        ),
        (
            "DEFINE CHANNEL(C) CHLTYPE(SDR) CONNAME('h')",
            "line 1: channel C has no XMITQ; CHLTYPE(SDR) needs XMITQ(...)",
        ),
        (
            "DEFINE CHANNEL(A.NAME.OF.21.LETTERS.) CHLTYPE(RCVR)",
            (
                "line 1: 'A.NAME.OF.21.LETTERS.' is not a valid channel name; use 1 to 20 of"
                " A-Z a-z 0-9 . _ / %"
            ),
        ),
        (
            "DEFINE CHANNEL(C) CHLTYPE(RCVR) XMITQ(X)",
            "line 1: CHANNEL(C) has no attribute XMITQ; known are DESCR, MAXMSGL, TRPTYPE",
        ),
        (
            "DEFINE CHANNEL(C) CHLTYPE(RCVR); DEFINE CHANNEL(C) CHLTYPE(RCVR)",
            "line 1: channel C already exists; DEFINE CHANNEL(C) REPLACE changes it",
        ),
        (
            "DEFINE CHANNEL(C) CHLTYPE(RCVR); ALTER CHANNEL(C) CHLTYPE(SVRCONN)",
            "line 1: channel C has CHLTYPE(RCVR), not CHLTYPE(SVRCONN)",
        ),
        (
            "START CHANNEL(C)",
            "line 1: channel C does not exist; DEFINE CHANNEL(C) CHLTYPE(...) creates it",
        ),
        ("DISPLAY CHANNEL(C)", "line 1: channel C does not exist"),
        (
            "DEFINE CHANNEL(C) CHLTYPE(RCVR); DISPLAY CHSTATUS(C)",
            "line 1: channel C has no status",
        ),
        ("STOP CHANNEL(C) MODE(FORCE)", "line 1: STOP takes no parameters; use STOP CHANNEL(name)"),
        (
            f"{SENDER}; START CHANNEL(C); START CHANNEL(C)",
            "line 1: channel C is started; STOP CHANNEL(C) stops it",
        ),
        (
            f"{SENDER}; START CHANNEL(C); DELETE CHANNEL(C)",
            "line 1: channel C is started; STOP CHANNEL(C) stops it",
        ),
    ],
)
def test_an_mqsc_error_names_the_line_and_the_correct_form(text: str, message: str) -> None:
    with pytest.raises(MqscError) as caught:
        run(text)

    assert str(caught.value) == message


def test_mqsc_lists_all_problems_and_runs_no_command() -> None:
    with pytest.raises(MqscError) as caught:
        run("DEFINE QLOCAL(A)\nFOO BAR\nDEFINE QLOCAL(B) PUT(NO)")

    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["line 2", "line 3"]
    assert embedded_mq.depths("QM1").keys().isdisjoint("AB")


def test_run_mqsc_names_an_unknown_queue_manager(home: Path) -> None:
    with pytest.raises(EmbeddedQueueManagerError) as caught:
        embedded_mq.run_mqsc("QM2", "")

    assert str(caught.value) == (
        f"queue manager QM2 does not exist in {home} (existing: QM1); `embedded-mq create QM2`"
        " creates it"
    )


def test_an_attribute_newer_than_the_queue_manager_has_its_default(home: Path) -> None:
    run("DEFINE QLOCAL(A)")
    with sqlite3.connect(home / "QM1" / DATABASE) as database:
        database.execute("DELETE FROM queue_manager WHERE keyword = 'HDRCHECK'")
        database.execute("UPDATE queue SET attributes = json_remove(attributes, '$.NPMCLASS')")
    database.close()

    shown = run(
        "DISPLAY QMGR HDRCHECK\nDISPLAY QLOCAL(A) NPMCLASS\n"
        "ALTER QMGR HDRCHECK(YES)\nDISPLAY QMGR HDRCHECK"
    )

    assert shown == [
        "QMNAME(QM1) HDRCHECK(NO)",
        "QUEUE(A) TYPE(QLOCAL) NPMCLASS(NORMAL)",
        "altered QMGR",
        "QMNAME(QM1) HDRCHECK(YES)",
    ]


@pytest.mark.parametrize(
    ("profile", "name", "fits"),
    [
        ("PAY.**", "PAY.IN.A", True),
        ("PAY.*", "PAY.IN.A", False),
        ("PAY.*", "PAY.IN", True),
        ("*.IN", "PAY.IN", True),
        ("**.A", "PAY.IN.A", True),
        ("P?Y", "PAY", True),
        ("P?Y", "P.Y", False),
        ("PAY?", "PAY", False),
        ("A*B*C", "AxBBxC", True),
        ("**A" * 15 + "!", "A" * 48, False),
        ("*A" * 23 + "!", "A" * 48, False),
    ],
)
def test_a_profile_fits_by_qualifiers_and_in_no_time(profile: str, name: str, fits: bool) -> None:
    """IBM MQ docs, "Using OAM generic profiles on AIX, Linux, and Windows"."""
    start = time.process_time()

    assert profile_fits(profile, name) is fits
    assert time.process_time() - start < 1
