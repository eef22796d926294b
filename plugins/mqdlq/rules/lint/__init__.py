"""Warn about what a valid rules table would do."""

from __future__ import annotations

from mqdlq.rules.lint.findings import Code
from mqdlq.rules.lint.linting import WARNING_CODES, Level, lint, promote, review

__all__ = ["WARNING_CODES", "Code", "Level", "lint", "promote", "review"]
