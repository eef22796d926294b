"""Render a report as text, HTML and JSON."""

from __future__ import annotations
