"""A run's parameters: what is refused, in which words."""

from __future__ import annotations

import pytest
from airflow.sdk import Param
from airflow.sdk.exceptions import ParamValidationError

from mqdlq.airflow.params import SCHEMAS, fault, form, named_messages, wait_seconds


@pytest.mark.parametrize(
    "conf",
    [
        {},
        {name: schema["default"] for name, schema in SCHEMAS.items()},
        {"wait": "NO"},
        {"wait": "yes"},
        {"wait": 30},
        {"wait": "30"},
        {"input_q": ""},
        {"rules": "new.rules", "dry_run": True, "message_keys": ["0" * 64]},
        {"message_keys": ["0" * 64, "", "1" * 64, ""]},
        {"message_keys": None},
    ],
)
def test_valid_parameters_have_no_fault(conf: dict[str, object]) -> None:
    assert fault(conf) == ""


@pytest.mark.parametrize(
    ("conf", "text"),
    [
        (
            {"dry_run": "perhaps"},
            (
                "parameter dry_run: 'perhaps' is not of type 'boolean'; only say what would be"
                " done: snapshot, evaluate and report, but move nothing. The queue is never opened"
                " for input."
            ),
        ),
        (
            {"wait": "soon"},
            (
                "parameter wait: 'soon' does not match '^([Yy][Ee][Ss]|[Nn][Oo]|[0-9]{1,9})$'; in"
                " place of the table's WAIT: NO looks at the queue once, a number waits so many"
                " seconds for a message, and again after each run that acted; YES waits until the"
                " next scheduled start."
            ),
        ),
        (
            {"dryrun": True},
            (
                "parameter dryrun: not known; known are action, apply, as_of, dry_run, follows,"
                " full_snapshot, input_q, input_q_mgr, message_keys, repair, rules, until_fixed,"
                " wait, where, why"
            ),
        ),
    ],
)
def test_invalid_parameters_are_refused_in_one_sentence(conf: dict[str, object], text: str) -> None:
    assert fault(conf) == text


def test_blank_lines_in_message_keys_are_ignored() -> None:
    """Airflow's form makes an item of each line: what is pasted ends with a blank one."""
    assert named_messages(["0" * 64, "", " ", "1" * 64, ""]) == ("0" * 64, "1" * 64)
    assert named_messages([]) == named_messages(None) == ()


@pytest.mark.parametrize("keys", [[""], ["", ""], ["\n"], ["0" * 64 + "\n"], ["0" * 65]])
def test_message_keys_of_blank_lines_only_are_refused(keys: list[str]) -> None:
    assert "parameter message_keys: " in fault({"message_keys": keys})
    with pytest.raises(ParamValidationError):
        Param(**form()["message_keys"]).resolve(keys)


def test_the_parameter_wait_takes_the_values_of_wait_in_a_table() -> None:
    assert [wait_seconds(value) for value in (None, "no", "YES", 30, "30")] == [
        None,
        (0,),
        (None,),
        (30,),
        (30,),
    ]
