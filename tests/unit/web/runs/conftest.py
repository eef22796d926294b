from __future__ import annotations

from tests.unit.stages.report.conftest import empty_ledger, lake_root, ledger

__all__ = ["empty_ledger", "lake_root", "ledger"]
