"""The archive that Spark's workers get."""

from __future__ import annotations

import zipfile
from pathlib import Path

from mqdlq.evaluation.workers import write_archive


def test_the_archive_has_the_matcher_and_no_embedded_queue_manager(tmp_path: Path) -> None:
    archive = tmp_path / "mqdlq_core.zip"

    write_archive(archive)

    with zipfile.ZipFile(archive) as file:
        sources = {name: file.read(name).decode() for name in file.namelist()}
    assert {"mqdlq/rules/__init__.py", "mqdlq/evaluation/workers.py"} <= sources.keys()
    assert {name.partition("/")[0] for name in sources} == {"mqdlq"}
    imported = [name for name, source in sources.items() if "import embedded_mq" in source]
    assert imported == []
