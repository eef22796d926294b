"""Hide an option in the commands that a test starts: Python imports this module at its start."""  # noqa: INP001

from __future__ import annotations

import os
import sys
from pathlib import Path

_KIND, _, _NAME = os.environ.get("MQDLQ_TESTS_HIDE", "").partition(": ")
_IS_COMMAND = any(Path(word).name == "mqdlq" or "mqdlq.cli" in word for word in sys.orig_argv[1:3])

if _NAME and _IS_COMMAND:
    from tests.support.effects.declared import KINDS

    KINDS[_KIND]()[_NAME](lambda _, default: default)
