"""Restoring what was discarded: a selection of archived copies in, messages on a queue out."""

from __future__ import annotations

from mqdlq.stages.restore.restoration import Result, restore
from mqdlq.stages.restore.restoration_resources import Restoring
from mqdlq.stages.restore.selection import Request, begin

__all__ = ["Request", "Restoring", "Result", "begin", "restore"]
