"""The task snapshot: a recorded run in, the ids and places of its snapshot and plan out."""

from __future__ import annotations

from airflow.sdk import Context

from mqdlq import home
from mqdlq.airflow.assets import tell
from mqdlq.airflow.stage import Stage, progress, utc_now
from mqdlq.handlers import load_handler


class Snapshot(Stage):
    """Browse the queue once and write down in the lake what is on it.

    Opens the queue for browse only: every message stays where it is, and no BackoutCount moves.
    Run twice, it finds the snapshot this run has taken; what a crash leaves behind has no
    manifest and does not count.
    """

    def execute(self, context: Context) -> dict[str, str | int]:
        """Take the snapshot; say where it stands, and where its plan is to stand."""
        # Arrow: not at parse time.
        from mqdlq import lake, snapshot  # noqa: PLC0415
        from mqdlq.airflow.payload_key import payload_key  # noqa: PLC0415

        handler = load_handler(self.handler)
        key = payload_key(handler.payload_key) if handler.payload_key else None
        with self.work(context) as work:
            manifest = snapshot.take_snapshot(
                work.run,
                work.settings,
                ledger=work.ledger,
                lake_root=home.lake(),
                clock=utc_now,
                progress=progress.info,
                options=snapshot.SnapshotOptions.of(
                    handler, rescan=context["params"].get("full_snapshot", False), key=key
                ),
            )
        plan_id = lake.plan_id(manifest.snapshot_id, manifest.rules_digest)
        tell(
            context,
            self.handler,
            "snapshot",
            snapshot_id=manifest.snapshot_id,
            messages=manifest.messages,
        )
        return {
            "snapshot": lake.snapshot_directory(
                home.lake(), manifest.queue_manager, manifest.queue, manifest.snapshot_id
            ),
            "plan_id": plan_id,
            "plan": lake.plan_directory(home.lake(), plan_id),
            "messages": manifest.messages,
        }
