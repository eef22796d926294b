"""Routes: causes of dead letters, and one cause."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

router: Final = APIRouter()
