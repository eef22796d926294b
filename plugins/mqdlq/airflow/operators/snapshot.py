"""The task snapshot: a recorded run in, the ids and places of its snapshot and plan out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook, Context

from mqdlq import home
from mqdlq.airflow.assets import tell
from mqdlq.airflow.operators.base import Stage, Work, progress, utc_now
from mqdlq.airflow.operators.execute import execution_of
from mqdlq.errors import HandlerError
from mqdlq.handlers import load_handler
from mqdlq.ledger import Look, record_look
from mqdlq.stages import sense
from mqdlq.stages.sense import Window, snapshots_of

if TYPE_CHECKING:
    from mqdlq.lake import SnapshotManifest
    from mqdlq.stages.snapshot import PayloadKey


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
        # Arrow: not at parse time.
        from mqdlq.stages import approve, execute, snapshot  # noqa: PLC0415
        from mqdlq.stages.snapshot.named import check_named  # noqa: PLC0415

        handler = load_handler(self.handler)
        key = _payload_key(handler.payload_key) if handler.payload_key else None
        window = self.window(context)
        with self.work(context) as work:
            if window is not None:
                return self._of_a_window(work, window, apply=context["params"]["apply"])
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
            with self._recording_refusals(work):
                for warning in check_named(work.run, str(_places(manifest)["snapshot"])):
                    progress.warning("%s", warning)
            approve.note_causes(work.run, ledger=work.ledger)
            is_settled = (
                manifest.counts.full == 0
                and not work.run.dry_run
                and not sense.has_open_units(work.run, work.ledger)
            )
            if is_settled:  # what every earlier run has parked needs no plan to have an outcome
                execute.settle(execution_of(work))
        if is_settled:
            progress.info(
                "nothing new: %d messages, all settled; the rest is skipped", manifest.messages
            )
            self.skip_what_follows()
        tell(
            context,
            self.handler,
            "snapshot",
            snapshot_id=manifest.snapshot_id,
            messages=manifest.messages,
        )
        return _places(manifest)

    @contextmanager
    def _recording_refusals(self, work: Work) -> Iterator[None]:
        """Record why the run is refused, for its report."""
        try:
            yield
        except HandlerError as error:
            work.ledger.record_refusal(work.run.run_id, self.handler, str(error), utc_now())
            raise

    def _of_a_window(self, work: Work, window: Window, *, apply: bool) -> dict[str, str | int]:
        """Put the snapshots of a backfill's interval together, of what is still on the queue."""
        # Arrow: not at parse time.
        from mqdlq.stages import approve, backfill  # noqa: PLC0415
        from mqdlq.stages.snapshot.named import check_action  # noqa: PLC0415

        taken = snapshots_of(work.run, window, work.ledger)
        kept = backfill.still_kept(taken)
        if len(kept) < len(taken):
            progress.warning("%d of %d snapshots are pruned", len(taken) - len(kept), len(taken))
        if not kept:
            why = f"All {len(taken)} snapshots taken from {window} are pruned: nothing to evaluate."
            record_look(work.ledger, work.run.run_id, Look(0, False, why, utc_now()))
            progress.info("%s", why)
            self.skip_what_follows()
        manifest = backfill.put_together(
            work.run,
            kept,
            work.settings if apply else None,
            ledger=work.ledger,
            lake_root=home.lake(),
            clock=utc_now,
        )
        with self._recording_refusals(work):
            check_action(work.run, str(_places(manifest)["snapshot"]))
        approve.note_causes(work.run, ledger=work.ledger)
        which = "are on the queue now" if apply else "to be evaluated"
        progress.info("%d messages from %s %s", manifest.messages, window, which)
        if apply and not manifest.messages:
            self.skip_what_follows()
        return _places(manifest)


def _payload_key(conn_id: str) -> PayloadKey:
    from mqdlq.stages.snapshot.keys import key_of  # noqa: PLC0415 (Arrow: not at parse time)

    connection = BaseHook.get_connection(conn_id)
    return key_of(conn_id, connection.password, connection.extra_dejson)


def _places(manifest: SnapshotManifest) -> dict[str, str | int]:
    from mqdlq import lake  # noqa: PLC0415 (Arrow: not at parse time)

    plan_id = lake.plan_id(manifest.snapshot_id, manifest.rules_digest)
    return {
        "snapshot": lake.snapshot_directory(
            home.lake(), manifest.queue_manager, manifest.queue, manifest.snapshot_id
        ),
        "plan_id": plan_id,
        "plan": lake.plan_directory(home.lake(), plan_id),
        "messages": manifest.messages,
    }
