"""Test that tables are as wide as the terminal and are not wrapped in a pipe."""

from __future__ import annotations

import io
import sys

import pytest

from mqdlq.cli.output import console


def test_a_line_for_a_pipe_is_not_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    written = io.StringIO()
    monkeypatch.setattr(sys, "stdout", written)

    console().print("word " * 100)

    assert written.getvalue() == "word " * 100 + "\n"


def test_columns_limits_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")

    assert console().width == 50
