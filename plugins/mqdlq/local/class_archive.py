"""Run an evaluation once, and store its JVM classes: `python -m mqdlq.local.class_archive`.

Spark spends most of the start of a small job on loading classes. The JVM reads them much faster
from an archive (class-data sharing, JDK 13 or newer), which only the same versions of JVM and
Spark use. Nothing depends on it.
"""

import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from os import environ
from pathlib import Path

from mqdlq.evaluation.spark_conf import (
    CLASS_ARCHIVE,
    application,
    submit_command,
    submit_environment,
)
from mqdlq.headers import MessageDescriptor, header_row
from mqdlq.lake import SnapshotWriter
from mqdlq.rules import parse

_RULES = "REASON(1) ACTION(RETRY)\nDESTQ(A*) ACTION(FWD) FWDQ(&DESTQ)\nACTION(IGNORE)\n"


def make_archive(archive: Path) -> None:
    """Evaluate a snapshot of one message, and store the classes that were loaded for it.

    Raises RuntimeError with the last words of what failed.
    """
    archive.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="mqdlq-") as directory:
        snapshot = _snapshot(f"{directory}/lake")
        arguments = ["--snapshot", snapshot, "--plan", f"{directory}/plan"]
        program = application("evaluate_rules")
        command = submit_command(program, arguments, messages=0)
        place = command.index(str(program))
        options = f"-XX:ArchiveClassesAtExit={archive} -XX:+UseSerialGC -Xlog:disable"
        command[place:place] = ["--conf", f"spark.driver.extraJavaOptions={options}"]
        ended = subprocess.run(  # noqa: S603 (our own command)
            command,
            env={**environ, **submit_environment()},
            capture_output=True,
            text=True,
            check=False,
        )
    if ended.returncode or not archive.is_file():
        last = (ended.stderr.strip() or "no archive was written").splitlines()[-1]
        raise RuntimeError(last)


def _snapshot(root: str) -> str:
    now = datetime.now(UTC)  # noqa: TID251 (an entry point)
    with SnapshotWriter(root, "QM1", "DLQ", "s1") as writer:
        writer.write(header_row(1, MessageDescriptor().encode(), b"hello", 5, browsed_at=now))
        writer.finish(
            taken_at=now, taken_by="set-up", rules_digest=parse(_RULES).digest, rules_text=_RULES
        )
    return writer.directory


if __name__ == "__main__":
    try:
        make_archive(CLASS_ARCHIVE)
    except RuntimeError as error:
        sys.stderr.write(f"no archive of Spark's classes, jobs start slower: {error}\n")
