"""Routes: runs and rules of a handler."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

router: Final = APIRouter()
