"""The keys of a handler that keep messages in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqdlq.controls.sequences import Sequences
from mqdlq.controls.settings import read_controls
from mqdlq.errors import HandlerError
from mqdlq.handlers import load_handler


def load(directory: Path, keys: str) -> Sequences | None:
    text = f"connection: mq\nrules: a.rules\nsequences: {keys}\n"
    (directory / "h.yaml").write_text(text, "utf-8")
    handler = load_handler("h", directory)
    assert read_controls(handler.controls_text()).sequences == handler.sequences
    return handler.sequences


def test_a_key_is_a_field_of_the_mqmd_or_of_an_mqrfh2(tmp_path: Path) -> None:
    correl_id = load(tmp_path, "{key: MQMD.CorrelId}")
    order = load(tmp_path, "{key: MQRFH2.usr.orderId}")

    assert correl_id is not None
    assert (correl_id.path, correl_id.reads_headers) == ((), False)
    assert order is not None
    assert (order.path, order.reads_headers) == (("usr", "orderId"), True)


def test_groups_need_the_headers_of_messages(tmp_path: Path) -> None:
    groups = load(tmp_path, "{groups: all_or_nothing}")

    assert groups is not None
    assert (groups.groups, groups.key, groups.reads_headers) == ("all_or_nothing", None, True)


def test_a_sequence_without_groups_and_key_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HandlerError) as refused:
        load(tmp_path, "{}")

    assert refused.value.text.splitlines()[0] == (
        f"{tmp_path / 'h.yaml'}:3:12: sequences: 'sequences' needs 'groups' or 'key'"
    )


@pytest.mark.parametrize("key", ["CorrelId", "MQMD.Priority", "MQRFH2.usr", "MQRFH2.usr.a%", "x"])
def test_a_wrong_key_is_an_error_that_lists_the_fields(tmp_path: Path, key: str) -> None:
    with pytest.raises(HandlerError) as refused:
        load(tmp_path, f"{{key: {key}}}")

    assert refused.value.text.splitlines()[0] == (
        f"{tmp_path / 'h.yaml'}:3:12: sequences.key: {key!r} is not a field that can be a key: use"
        " `MQRFH2.` with a folder and a field, or `MQMD.` with one of MsgId, CorrelId, ReplyToQ,"
        " ReplyToQMgr, UserIdentifier, AccountingToken, ApplIdentityData, PutApplName,"
        " ApplOriginData, GroupId"
    )
