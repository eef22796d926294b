"""A fuzz target for the rules language: any bytes are parsed, or raise the language's own error.

    pip install atheris
    python -m tests.fuzz.fuzz_rules CORPUS tests/corpus/rules/valid -max_total_time=600

Atheris is not in requirements.lock; it has no wheel for every platform. New inputs that reach new
code are kept in CORPUS; one that breaks a property is written to a file named crash-*.
"""

from __future__ import annotations

import sys
import tempfile

import atheris

with atheris.instrument_imports(include=["mqdlq.rules", "mqdlq.handlers"]):
    from mqdlq.rules.keywords import KEYWORDS
    from tests.fuzz.properties import what_must_hold

WORDS = [
    *"()'",
    "''",
    *("+\\x0a", "-\\x0a", "ACTION(RETRY)\\x0a", "MQRC_Q_FULL", "&REPLYQ"),
    *("table:\\x0a rules:\\x0a", "  - action: RETRY\\x0a", "match: {", "DESTQ: "),
]

if __name__ == "__main__":
    with tempfile.NamedTemporaryFile("w", suffix=".dict") as dictionary:
        words = [*WORDS, *(f"{keyword}(" for keyword in KEYWORDS)]
        dictionary.writelines(f'"{word}"\n' for word in words)
        dictionary.flush()
        atheris.Setup([*sys.argv, f"-dict={dictionary.name}"], what_must_hold)
        atheris.Fuzz()
