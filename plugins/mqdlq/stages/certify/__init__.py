"""First contact with a queue manager: try on scratch queues what the handler relies on."""

from __future__ import annotations

from mqdlq.stages.certify.certification import (
    Certification,
    Finding,
    Verdict,
    Versions,
    certify,
    try_behaviour,
)
from mqdlq.stages.certify.quiescing import observe_quiescing
from mqdlq.stages.certify.scratch_queues import (
    DEFAULT_PREFIX,
    administrator_commands,
    check_prefix,
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
