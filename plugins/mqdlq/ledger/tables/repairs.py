"""Table of the changes that runs make to messages when they deliver them."""

from __future__ import annotations

from sqlalchemy import Column, Integer, String, Table, Text

from mqdlq.ledger.tables.columns import at, metadata, of_message, of_run, target

repairs = Table(
    "repairs",
    metadata,
    of_run(primary_key=True),
    of_message(primary_key=True, index=True),
    Column("format_from", String(8), nullable=False),
    Column("format_to", String(8), nullable=False),
    Column("ccsid_from", Integer, nullable=False),
    Column("ccsid_to", Integer, nullable=False),
    Column("dest_q_from", String(48), nullable=False),
    Column("dest_q_mgr_from", String(48), nullable=False),
    *target(),
    Column("length", Integer, nullable=False),
    Column("refusal", Text, nullable=False),
    at(),
)
"""The changes of a message, from and to, recorded with the archive copy of the original.

`archive` has the original and `attempts` the delivery under the same run and message. With a
`refusal` the message was neither archived nor moved. `length` counts the bytes of the body that is
put, which never change. `dest_q_from` is "" for a message without an MQDLH.
"""
