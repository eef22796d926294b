"""The project's directory, for tests that read its files or start its programs."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
