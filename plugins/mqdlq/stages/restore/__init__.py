"""Restore discarded messages: select archived copies and put them on a queue."""

from __future__ import annotations

from mqdlq.stages.restore.copies import RestorationResources
from mqdlq.stages.restore.restoration import RestorationResult, restore
from mqdlq.stages.restore.selection import RestoreRequest, begin_restoration, select

__all__ = [
    "RestorationResources",
    "RestorationResult",
    "RestoreRequest",
    "begin_restoration",
    "restore",
    "select",
]
