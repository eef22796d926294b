"""`python -m benchmarks [NAME…]`: run the benchmarks named, or all; print JSON.

A table of the targets among the results goes to standard error.
"""

from __future__ import annotations

import json
import platform
import sys
from contextlib import redirect_stdout

from benchmarks import (
    connections,
    events,
    execution,
    fixed_cost,
    headers,
    parsing,
    queue_manager,
    rules,
    snapshots,
    startup,
    waiting,
    whole_run,
)
from benchmarks.pages import causes, inbox, message_search, overview
from benchmarks.targets import build_table

BENCHMARKS = {
    "rules": rules.measure,
    "queue_manager": queue_manager.measure,
    "execution": execution.measure,
    "connections": connections.measure,
    "headers": headers.measure,
    "overview": overview.measure,
    "snapshots": snapshots.measure,
    "startup": startup.measure,
    "parsing": parsing.measure,
    "fixed_cost": fixed_cost.measure,
    "waiting": waiting.measure,
    "events": events.measure,
    "whole_run": whole_run.measure,
    "causes": causes.measure,
    "inbox": inbox.measure,
    "message_search": message_search.measure,
}


def main(names: list[str]) -> int:
    """Run the benchmarks one by one; return 2 for an unknown name."""
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        known = ", ".join(BENCHMARKS)
        sys.stderr.write(f"no such benchmark: {', '.join(unknown)}; there are: {known}\n")
        return 2
    with redirect_stdout(sys.stderr):  # where some tell how far they are
        measured = {name: BENCHMARKS[name]() for name in names or BENCHMARKS}
    print(json.dumps({"python": platform.python_version(), **measured}, indent=2))
    sys.stderr.write(f"\n{build_table(measured)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
