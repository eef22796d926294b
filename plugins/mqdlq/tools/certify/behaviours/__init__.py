"""The behaviours of a queue manager on which the handler relies."""

from __future__ import annotations

from typing import Final

from mqdlq.tools.certify.behaviours import browsing, moving, properties, refusals, units_of_work
from mqdlq.tools.certify.bench import Behaviour

MODULES: Final = (browsing, units_of_work, moving, properties, refusals)
BEHAVIOURS: Final = tuple(
    declared
    for module in MODULES
    for declared in vars(module).values()
    if isinstance(declared, Behaviour)
)
"""All behaviours, in the order in which they are declared."""
