"""Test which options `mqdlq backfill` refuses before it starts an Airflow."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mqdlq.cli import app


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ("hourly", "--from", "yesterday", "--to", "2026-11-18"),
            (
                "--from: yesterday is not a time; expected 2026-11-16, or 2026-11-16T02:00 in UTC"
                " [MQDLQ-918]"
            ),
        ),
        (
            ("hourly", "--from", "2026-11-18T02:00", "--to", "2026-11-18T01:59"),
            (
                "--from 2026-11-18T02:00 is later than --to 2026-11-18T01:59; exchange them"
                " [MQDLQ-156]"
            ),
        ),
        (
            ("by_hand", "--from", "2026-11-18", "--to", "2026-11-18"),
            (
                "by_hand has no cron schedule, so a backfill has no interval with snapshots to"
                " evaluate; give the handler a cron schedule [MQDLQ-117]"
            ),
        ),
    ],
)
def test_a_wrong_option_is_refused_before_an_airflow_starts(
    options: tuple[str, ...], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path))
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path / "state"))
    (tmp_path / "small.rules").write_text("ACTION(IGNORE)\n")
    for name, schedule in (("hourly", "schedule: '@hourly'\n"), ("by_hand", "")):
        text_of = f"connection: mq_qm1\nrules: small.rules\n{schedule}"
        (tmp_path / f"{name}.yaml").write_text(text_of)

    done = CliRunner().invoke(app, ["backfill", *options])

    assert (done.exit_code, done.output) == (2, f"mqdlq: {text}\n")
    assert not (tmp_path / "state").exists()
