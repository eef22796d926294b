from __future__ import annotations

from tests.unit.reading.report.conftest import lake_root, ledger

__all__ = ["lake_root", "ledger"]
