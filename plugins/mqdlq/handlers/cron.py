"""Cron expressions, as Airflow takes them."""

from __future__ import annotations

import re
from typing import Final

from croniter import croniter

CRON_FIELDS: Final = 5
"""Croniter would take a sixth, of seconds, and a seventh, of years."""

_RANDOM: Final = re.compile(r"(?i)(^|\s)r(\(|\s)")
"""A field for which croniter takes any moment of its choice, another one at each reading."""


def is_cron(schedule: str) -> bool:
    """Whether Airflow can go by it: to the minute, the same at each reading, and ever due."""
    is_preset = schedule.startswith("@")
    if not is_preset and (len(schedule.split()) != CRON_FIELDS or _RANDOM.search(schedule)):
        return False
    try:
        croniter(schedule, 0).get_next()
    except ValueError:
        return False
    return True
