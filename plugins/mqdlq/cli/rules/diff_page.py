"""Render the matrix of changed actions of two rules tables as an HTML page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from jinja2 import Environment

from mqdlq.rules.comparing import rule_text

if TYPE_CHECKING:
    from mqdlq.evaluation.differences import Treatments

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ names[0] }} and {{ names[1] }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem;
  color: #1c1c1c; background: #fff }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { border: 1px solid #bbb; padding: .35rem .6rem; text-align: left; vertical-align: top }
td.count { text-align: right; font-variant-numeric: tabular-nums }
code, pre { font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem }
</style></head><body>
<h1>{{ lines[0] }}</h1>
{% if lines|length > 1 %}<pre>{{ lines[1:]|join("\n") }}</pre>{% endif %}
{% if asked %}
<h2>{{ asked.different }} of {{ asked.messages }} messages are treated differently</h2>
<p>{{ asked.snapshots|length }} {{ "snapshot" if asked.snapshots|length == 1 else "snapshots" }}; a
message counts once, as it was seen last.</p>
{% if asked.cells %}
<table><caption>What was done (rows) and what is done now (columns), in messages</caption>
<tr><th></th>{% for new in columns %}<th scope="col"><code>{{ new }}</code></th>{% endfor %}</tr>
{% for old, row in rows.items() %}
<tr><th scope="row"><code>{{ old }}</code></th>
{% for new in columns %}{% set cell = row.get(new) %}
<td class="count"{% if cell %} style="background: rgba(214, 120, 20, {{ shade(cell) }})"
 title="{{ samples(cell) }}"{% endif %}>{{ cell.messages if cell else "" }}</td>{% endfor %}</tr>
{% endfor %}</table>
<table><caption>Samples</caption>
<tr><th>Messages</th><th>Was</th><th>Is</th><th>Snapshot and browse_seq</th></tr>
{% for cell in asked.cells %}<tr><td class="count">{{ cell.messages }}</td>
<td><code>{{ cell.old }}</code></td><td><code>{{ cell.new }}</code></td>
<td>{{ samples(cell) }}</td></tr>{% endfor %}</table>
{% endif %}
{% for name, rules in never %}{% if rules %}
<table><caption>{{ name }}: no message met these rules</caption>
<tr><th>Line</th><th>Rule</th></tr>
{% for rule in rules %}<tr><td class="count">{{ rule.line }}</td>
<td><code>{{ text(rule) }}</code></td></tr>{% endfor %}</table>
{% endif %}{% endfor %}
{% endif %}
</body></html>
"""


def diff_page(names: tuple[str, str], lines: Sequence[str], asked: Treatments | None) -> str:
    """Return the page; `lines` say what differs in the tables themselves."""
    rows: dict[str, dict[str, object]] = defaultdict(dict)
    most = 1
    for cell in asked.cells if asked else ():
        rows[cell.old][cell.new] = cell
        most = max(most, cell.messages)
    environment = Environment(autoescape=True, trim_blocks=True)
    return environment.from_string(_PAGE).render(
        names=names,
        lines=lines,
        asked=asked,
        rows=rows,
        columns=list(dict.fromkeys(cell.new for cell in asked.cells)) if asked else [],
        never=zip(names, (asked.never_old, asked.never_new), strict=True) if asked else (),
        text=rule_text,
        shade=lambda cell: round(0.1 + 0.5 * cell.messages / most, 2),
        samples=lambda cell: ", ".join(f"{s.snapshot_id} {s.browse_seq}" for s in cell.samples),
    )
