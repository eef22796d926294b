"""The task snapshot: browse the queue into the lake, and name snapshot and plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook, Context

from mqdlq import directories
from mqdlq.airflow.assets import tell
from mqdlq.airflow.operators.base import Stage
from mqdlq.airflow.operators.execute import execution_of

if TYPE_CHECKING:
    from mqdlq.stages.snapshot.snapshot_options import PayloadKey


class Snapshot(Stage):
    """Browse the queue once and write down in the lake what is on it.

    Opens the queue for browse only: every message stays where it is, and no BackoutCount moves.
    Run twice, it finds the snapshot this run has taken; what a crash leaves behind has no
    manifest and does not count. Where all messages are settled by earlier runs, their outcomes are
    carried over and every task but the report is skipped, unless an execution has to settle a unit
    of work that was interrupted.
    """

    def execute(self, context: Context) -> dict[str, str | int]:
        """Take the snapshot; say where it stands, and where its plan is to stand."""
        # imports Arrow, which DAG parsing must not.
        from mqdlq.stages.backfill.merged_snapshot import merge_window  # noqa: PLC0415
        from mqdlq.stages.snapshot.snapshot_options import SnapshotOptions  # noqa: PLC0415
        from mqdlq.stages.snapshot.taking import locate_snapshot, snapshot_queue  # noqa: PLC0415

        handler, params = self.configuration(), context["params"]
        key = _payload_key(handler.payload_key) if handler.payload_key else None
        window = self.window(context)
        with self.work(context) as work:
            execution = execution_of(work)
            if window is not None:
                manifest = merge_window(execution, window, apply=params["apply"])
            else:
                rescan = params.get("full_snapshot", False)
                options = SnapshotOptions.from_handler(handler, rescan=rescan, key=key)
                manifest = snapshot_queue(execution, options)
        if manifest is None:
            self.skip_what_follows()
        if window is None:
            facts = {"snapshot_id": manifest.snapshot_id, "messages": manifest.messages}
            tell(context, self.handler, "snapshot", **facts)
        return locate_snapshot(manifest, directories.lake())


def _payload_key(conn_id: str) -> PayloadKey:
    from mqdlq.stages.snapshot.snapshot_options import read_current_key  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

    connection = BaseHook.get_connection(conn_id)
    return read_current_key(conn_id, connection.password, connection.extra_dejson)
