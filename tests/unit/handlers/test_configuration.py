"""Valid handler files, and the errors of invalid ones."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mqdlq.errors import HandlerError
from mqdlq.handlers import Handler, handler_names, load_handler, load_handlers
from mqdlq.handlers.operation import ApprovalGuards
from mqdlq.rules import RulesError
from tests.support.paths import ROOT


def load(directory: Path, yaml: str) -> Handler:
    (directory / "h.yaml").write_text(yaml, encoding="utf-8")
    return load_handler("h", directory)


def error(directory: Path, yaml: str) -> str:
    with pytest.raises(HandlerError) as caught:
        load(directory, yaml)
    return str(caught.value).replace(f"{directory}/", "")


def test_a_handler_name_fits_the_ledger_and_airflow(tmp_path: Path) -> None:
    """Else one handler would take the DAGs of all others with it, or fail at its first run."""
    for name in ("n" * 100, "n" * 101, "n" * 250):
        (tmp_path / f"{name}.yaml").write_text("connection: mq\nrules: a.rules\n")

    valid, faults = load_handlers(tmp_path)

    assert [handler.name for handler in valid] == ["n" * 100]
    assert str(faults[0]) == (
        f"{tmp_path}/{'n' * 101}.yaml: a handler's name takes 100 characters,"
        " this one has 101 [MQDLQ-302]"
    )
    assert len(faults) == 2


def test_a_handler_file_requires_a_connection_and_rules(tmp_path: Path) -> None:
    handler = load(tmp_path, "connection: mq\nrules: a.rules\n")

    assert handler == Handler(name="h", directory=tmp_path, connection="mq", rules="a.rules")
    assert handler.nul_as_blank is False
    assert handler_names(tmp_path) == ["h"]


def test_a_handler_file_can_set_every_optional_key(tmp_path: Path) -> None:
    handler = load(
        tmp_path,
        "connection: mq\n"
        "rules: a.rules\n"
        "schedule: '*/5 * * * *'\n"
        "state_queue: MY.STATE\n"
        "count_attempts: across_runs\n"
        "max_run_time: 00:10:00\n"
        "nul_as_blank: yes\n"
        "lint: {no-catch-all: off, hopeless-retry: error}\n",
    )

    assert handler == Handler(
        name="h",
        directory=tmp_path,
        connection="mq",
        rules="a.rules",
        schedule="*/5 * * * *",
        state_queue="MY.STATE",
        count_attempts="across_runs",
        max_run_time=timedelta(minutes=10),
        nul_as_blank=True,
        lint={"no-catch-all": "off", "hopeless-retry": "error"},
    )


def test_rules_are_read_from_the_file_beside_the_handler_or_from_another(tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text("* a\nACTION(RETRY)\n", encoding="utf-8")
    (tmp_path / "b.rules").write_text("* b\nACTION(RETRY)\n", encoding="utf-8")
    handler = load(tmp_path, "connection: mq\nrules: a.rules\n")

    assert handler.rules_text() == (f"{tmp_path}/a.rules", "* a\nACTION(RETRY)\n")
    assert handler.rules_text("b.rules") == (f"{tmp_path}/b.rules", "* b\nACTION(RETRY)\n")


def test_a_table_in_the_handler_file_is_converted_to_its_canonical_print(tmp_path: Path) -> None:
    handler = load(
        tmp_path,
        "connection: mq\ntable: {rules: [{match: {REASON: [2053, 2051]}, action: retry}]}\n",
    )

    assert handler.rules_text() == (
        f"{tmp_path}/h.yaml, as printed",
        "REASON(MQRC_Q_FULL) ACTION(RETRY)\nREASON(MQRC_PUT_INHIBITED) ACTION(RETRY)\n",
    )


def test_an_error_names_a_rules_file_that_cannot_be_read(tmp_path: Path) -> None:
    handler = load(tmp_path, "connection: mq\nrules: a.rules\n")

    with pytest.raises(HandlerError) as missing:
        handler.rules_text()
    (tmp_path / "a.rules").write_bytes(b"* \xff")
    with pytest.raises(HandlerError) as no_text:
        handler.rules_text()

    path = tmp_path / "a.rules"
    assert str(missing.value) == (
        f"{path}: the rules table cannot be read: No such file or directory [MQDLQ-305]"
    )
    assert str(no_text.value) == f"{path}: the rules table is not UTF-8 at byte 2 [MQDLQ-306]"


def test_a_warning_that_the_handler_makes_an_error_rejects_its_rules(tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text("REASON(1) ACTION(RETRY)\n", encoding="utf-8")
    handler = load(tmp_path, "connection: mq\nrules: a.rules\nlint: {no-catch-all: error}\n")

    with pytest.raises(RulesError) as caught:
        handler.rules_text()

    assert [d.code for d in caught.value.diagnostics] == ["no-catch-all"]


def test_every_fault_of_a_handler_file_is_reported_with_its_place(tmp_path: Path) -> None:
    faults = error(
        tmp_path,
        "conection: mq\n"
        "rules: a.rules\n"
        "rules: b.rules\n"
        "count_attempts: twice\n"
        "state_queue: no queue\n"
        "lint:\n"
        "  no-catch-al: error\n"
        "table: {rules: [{action: FWD}]}\n",
    )

    assert faults == (
        "h.yaml:1:1: unknown key conection; did you mean connection? [MQDLQ-301]\n"
        "    conection: mq\n"
        "    ~~~~~~~~^\n"
        "h.yaml:3:1: rules is repeated (first at line 2, column 1)\n"
        "    rules: b.rules\n"
        "    ~~~~^\n"
        "h.yaml:4:17: count_attempts: Input should be 'per_run' or 'across_runs'\n"
        "    count_attempts: twice\n"
        "                    ~~~~^\n"
        "h.yaml:5:14: state_queue: String should match pattern '^[A-Za-z0-9._/%]{1,48}$'\n"
        "    state_queue: no queue\n"
        "                 ~~~~~~~^\n"
        "h.yaml:7:3: unknown key no-catch-al; did you mean no-catch-all?\n"
        "      no-catch-al: error\n"
        "      ~~~~~~~~~~^\n"
        "h.yaml:8:18: ACTION(FWD) needs FWDQ, the queue to forward to\n"
        "    table: {rules: [{action: FWD}]}\n"
        "                     ~~~~~^"
    )


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("", "h.yaml:1:1: expected keys such as 'connection:' and 'rules:'"),
        ("- a\n", "h.yaml:1:1: expected keys such as 'connection:' and 'rules:'"),
        ("rules: a.rules\n", "h.yaml:1:1: the key 'connection' is missing; a handler needs it"),
        (
            "connection: mq\n",
            "h.yaml:1:1: a handler needs 'rules', a file beside it, or 'table', its rules",
        ),
        (
            "connection: mq\nrules: a\ntable: {rules: [{action: RETRY}]}\n",
            "h.yaml:1:1: a handler has 'rules' or 'table', not both",
        ),
        (
            "connection: mq\nrules: a\nschedule: 2026-99-99\n",
            "h.yaml:3:11: a value that YAML cannot make sense of",
        ),
        ("connection: !!python/name:os.system x\n", "h.yaml:1:13: a value that YAML cannot"),
    ],
    ids=range(7),
)
def test_an_invalid_handler_file_is_rejected(tmp_path: Path, yaml: str, message: str) -> None:
    assert error(tmp_path, yaml).startswith(message)


def test_the_error_for_a_missing_handler_lists_existing_handlers(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").touch()

    with pytest.raises(HandlerError) as caught:
        load_handler("h", tmp_path)

    assert str(caught.value) == (
        f"{tmp_path}/h.yaml: no such handler; configured are: other [MQDLQ-303]"
    )


@pytest.mark.parametrize(
    "schedule",
    ["0 2 * * *", "@hourly", "'@continuous'", "event", "0 2 * * MON-FRI", "0 2 29 2 *"],
)
def test_a_schedule_is_cron_continuous_or_event(tmp_path: Path, schedule: str) -> None:
    quoted = f"'{schedule}'" if schedule.startswith("@") else schedule
    handler = load(tmp_path, f"connection: mq\nrules: a.rules\nschedule: {quoted}\n")

    assert handler.schedule == schedule.strip("'")


def test_only_a_cron_schedule_has_a_next_start(tmp_path: Path) -> None:
    starts = []
    for schedule in ("0 2 * * *", "'@continuous'", "event"):
        handler = load(tmp_path, f"connection: mq\nrules: a.rules\nschedule: {schedule}\n")
        starts.append(handler.next_start(datetime(2026, 11, 21, 12, tzinfo=UTC)))

    assert starts == [datetime(2026, 11, 22, 2, tzinfo=UTC), None, None]


@pytest.mark.parametrize(
    "schedule",
    [
        "0 2 * * * *",  # a start every second
        "0 2 * * * 0 2027",
        "0 2 30 2 *",  # never
        "R 2 * * *",  # any minute, another at each reading
        "r(1-5) 2 * * *",
        "'@reboot'",
    ],
)
def test_a_schedule_that_airflow_does_not_support_is_rejected(
    tmp_path: Path, schedule: str
) -> None:
    told = error(tmp_path, f"connection: mq\nrules: a.rules\nschedule: {schedule}\n")

    assert f"""'{schedule.strip("'")}' is not a schedule; expected a cron expression""" in told


def test_the_documented_examples_set_every_guard(tmp_path: Path) -> None:
    pages = [ROOT / "docs" / "how-to" / name for name in ("approve-plans.md", "monitor.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    blocks = re.findall(r"```yaml\n((?:approval|alerts):.*?)```", text, re.DOTALL)

    handlers = [load(tmp_path, f"connection: mq\nrules: a.rules\n{block}") for block in blocks]

    assert set(ApprovalGuards.model_fields) in [one.approval.model_fields_set for one in handlers]
    assert [one.approval.discard for one in handlers].count(True) == 1
    alerts = [one.alerts.notify[0].events for one in handlers if one.alerts.notify]
    assert alerts[0][0] == "failed"
    assert len(alerts) == 2


@pytest.mark.parametrize(
    ("yaml", "expected"),
    [
        (
            "loops:\n  then: leave\n  limt: 3\n",
            "5:3: unknown key limt; did you mean limit? [MQDLQ-301]\n      limt: 3\n      ~~~^",
        ),
        (
            "evidence: {depth: yes}\n",
            "3:12: unknown key depth [MQDLQ-301]\n    evidence: {depth: yes}\n               ~~~~^",
        ),
        (
            "limits:\n  destinations:\n    - in_flight: 1\n      closed:\n        - fro: PT8H\n",
            "7:11: unknown key fro; did you mean for?\n            - fro: PT8H\n              ~~^",
        ),
        (
            "loops:\n  then: {forwrd: R, forward: Q}\n",
            (
                "4:10: unknown key forwrd; did you mean forward? [MQDLQ-301]\n"
                "      then: {forwrd: R, forward: Q}\n             ~~~~~^"
            ),
        ),
    ],
)
def test_an_unknown_key_within_a_key_is_reported_at_its_own_place(
    tmp_path: Path, yaml: str, expected: str
) -> None:
    found = error(tmp_path, f"connection: mq\nrules: a.rules\n{yaml}")

    assert f"h.yaml:{expected}" in found
    assert found.count("unknown key") == 1


def test_an_approval_must_end_before_the_plan_is_too_old(tmp_path: Path) -> None:
    keys = "connection: mq\nrules: a.rules\napproval: {discard: yes, timeout: P2D}\n"

    assert load(tmp_path, f"{keys}max_plan_age: P3D\n").approval.timeout == timedelta(days=2)
    assert load(tmp_path, keys.replace("discard: yes", "discard: no")).approval.discard is False
    assert (
        "approval: timeout 2 days, 0:00:00 is not shorter than max_plan_age 1 day, 0:00:00: the"
        " plan could be too old when the answer comes"
    ) in error(tmp_path, keys)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (
            "schedule: every night\n",
            (
                "h.yaml:3:11: schedule: 'every night' is not a schedule; expected a cron expression"
                " such as '0 2 * * *', '@hourly', '@daily', '@continuous' or 'event' [MQDLQ-301]\n"
                "    schedule: every night\n"
                "              ~~~~~~~~~~^"
            ),
        ),
        (
            "approvers: alice\n",
            (
                "h.yaml:3:12: approvers: 'alice' is not a list of the ids of users; expected, for"
                " example, [alice, bob] [MQDLQ-301]\n"
                "    approvers: alice\n"
                "               ~~~~^"
            ),
        ),
        (
            "max_active_runs: 0\n",
            (
                "h.yaml:3:18: max_active_runs: Input should be greater than or equal"
                " to 1 [MQDLQ-301]\n"
                "    max_active_runs: 0\n"
                "                     ^"
            ),
        ),
        (
            "schedule: '@continuous'\nmax_active_runs: 2\n",
            (
                "h.yaml:1:1: with schedule '@continuous' Airflow allows one run:"
                " max_active_runs: 1 [MQDLQ-301]\n"
                "    connection: mq\n"
                "    ~~~~~~~~~~~~~^"
            ),
        ),
        (
            "schedule: event\ndry_run: yes\n",
            (
                "h.yaml:1:1: a dry run leaves every message where it is, so that with schedule"
                " 'event' the next would begin at once: with 'dry_run' give a cron expression such"
                " as '0 * * * *', or none [MQDLQ-301]\n"
                "    connection: mq\n"
                "    ~~~~~~~~~~~~~^"
            ),
        ),
    ],
)
def test_a_handler_that_airflow_cannot_run_is_rejected(
    tmp_path: Path, keys: str, text: str
) -> None:
    assert error(tmp_path, f"connection: mq\nrules: a.rules\n{keys}") == text


def test_a_quarantine_is_the_dead_letter_queue_or_a_named_queue(tmp_path: Path) -> None:
    yaml = "connection: mq\nrules: a.rules\nloops:\n  then: "

    assert load(tmp_path, f"{yaml}leave\n").controls_text() == '{"loops":{}}'
    assert load(tmp_path, f"{yaml}{{forward: Q}}\n").controls_text() == (
        '{"loops":{"then":{"forward":"Q"}}}'
    )
    assert error(tmp_path, f"{yaml}park\n").splitlines()[0] == (
        "h.yaml:4:3: loops.then: is neither `leave` nor `forward:` with the name of a queue"
        " [MQDLQ-301]"
    )
