"""Every promise of the ledger is kept on SQLite and on PostgreSQL."""

from __future__ import annotations

from tests.support.postgresql import ledger_url_fixture

__all__ = ["ledger_url_fixture"]
