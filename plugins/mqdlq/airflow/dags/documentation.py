"""Write the page that documents a handler's DAG in Airflow's UI."""

from __future__ import annotations

from mqdlq.airflow.links import handler_page
from mqdlq.handlers import Handler


def page(handler: Handler, workflow: str, pool: str) -> str:
    """Return Markdown: a link to the operator's page, what the workflow does, then the settings."""
    path = handler_page(handler.name)
    link = f"**[Dead letters of {handler.name}]({path})**\n\n" if path else ""
    facts = {
        "connection": f"`{handler.connection}`",
        "rules": f"`{handler.rules}`" if handler.rules else f"the table in `{handler.name}.yaml`",
        "schedule": f"`{handler.schedule}` (UTC)" if handler.schedule else "none: run by hand",
        "runs at once": str(handler.runs_at_once),
        "state queue": f"`{handler.state_queue}`",
        "attempts counted": handler.count_attempts.replace("_", " "),
        "retrying ends after": str(handler.max_run_time),
        "a plan may be acted on for": str(handler.max_plan_age),
        "pool": f"`{pool}`",
    }
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    return (
        f"{link}{workflow.strip()}\n\n"
        f"## This handler: `{handler.name}`\n\n| | |\n|---|---|\n{rows}\n\n"
        f"Its file is `{handler.name}.yaml`; the rules are read when a run starts and hold to its"
        " end.\n"
    )
