"""A fuzz target for the headers: any bytes are parsed, or raise the headers' own error.

    pip install atheris
    python -m tests.fuzz.fuzz_headers CORPUS -max_total_time=600

Atheris is not in requirements.lock; it has no wheel for every platform. The first five bytes of an
input choose MQMD.Format, Encoding and CodedCharSetId, the others are the body. The search begins
with the hostile headers of tests/support/wire/hostile_messages.py, some parts of each, beside
CORPUS.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["mqdlq.headers"]):
    from tests.fuzz.header_properties import FORMATS, as_input, what_must_hold
    from tests.support.wire.hostile_messages import GROWING

STRUC_IDS = ["DLH ", "MDE ", "XQH ", "MD  ", "RFH ", "CIH ", "IIH ", "TM  ", "PDMQ"]

if __name__ == "__main__":
    words = [f'"{word}"' for word in (*STRUC_IDS, *FORMATS.values())]
    in_ebcdic = (struc_id.encode("cp500") for struc_id in STRUC_IDS)
    words += ['"' + "".join(f"\\x{byte:02x}" for byte in each) + '"' for each in in_ebcdic]
    with tempfile.NamedTemporaryFile("w", suffix=".dict") as dictionary:
        dictionary.write("\n".join(words) + "\n")
        dictionary.flush()
        with tempfile.TemporaryDirectory() as seeds:
            for name, (build, _) in GROWING.items():
                Path(seeds, name).write_bytes(as_input(build(110)))
            atheris.Setup([*sys.argv, seeds, f"-dict={dictionary.name}"], what_must_hold)
            atheris.Fuzz()
