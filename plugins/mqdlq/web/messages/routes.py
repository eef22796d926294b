"""Routes: search for messages, and one message."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

router: Final = APIRouter()
