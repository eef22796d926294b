"""Routes: history of a handler, as charts."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

router: Final = APIRouter()
