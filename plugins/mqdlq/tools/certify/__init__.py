"""First contact with a queue manager: try on scratch queues what the handler relies on."""

from __future__ import annotations

from mqdlq.tools.certify.bench import DEFAULT_PREFIX, administrator_commands, check_prefix
from mqdlq.tools.certify.certification import (
    Certification,
    Finding,
    Verdict,
    Versions,
    certify,
    observe_quiescing,
    try_behaviour,
)

__all__ = [
    "DEFAULT_PREFIX",
    "Certification",
    "Finding",
    "Verdict",
    "Versions",
    "administrator_commands",
    "certify",
    "check_prefix",
    "observe_quiescing",
    "try_behaviour",
]
