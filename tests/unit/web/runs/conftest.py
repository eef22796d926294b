from __future__ import annotations

from tests.unit.reading.report.conftest import empty_ledger, lake_root, ledger

__all__ = ["empty_ledger", "lake_root", "ledger"]
