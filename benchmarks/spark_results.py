"""Write the results of the Spark benchmark as a table and a chart."""

from __future__ import annotations

from typing import Any

HEADS = ("ours", "floor", "shape", "duckdb", "polars", "python")
COLOURS = {
    "ours": "#1b6ca8",
    "floor": "#999999",
    "shape": "#c0c0c0",
    "duckdb": "#d68910",
    "polars": "#6c3483",
    "read": "#999999",
}
KINDS = {"wall": "wall clock", "processor": "processor time"}
TARGETS = (
    ("1m-easy-100", "floor", 1.5),
    ("10m-easy-100", "floor", 1.5),
    ("1m-hard-100", "floor", 4.0),
    ("10m-easy-100", "duckdb", 1.5),
    ("cold-1k-100", "read", 1.3),
)

Cells = dict[str, dict[str, Any]]


def table(found: dict[str, Any]) -> str:
    """Return the results as a page in Markdown."""
    cells: Cells = found["cells"]
    lines = ["# The evaluation in Spark", ""]
    lines.append(
        f"Medians in seconds, {found['threads']} threads, warm; in brackets the multiple of the"
        " floor.\n"
        "`floor`: Spark reads the same columns and writes as many rows. `shape`: Spark writes rows"
        " of a plan's own shape, all with one constant treatment. `duckdb` and `polars` write the"
        " numbers of the rules each message meets, without targets, plan and hash.\n"
    )
    for kind, name in KINDS.items():
        heads = [f"**{name}**", *HEADS, "load"]
        lines += [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
        lines += [
            f"| {cell_name} | {' | '.join(_row(cell, kind))} |"
            for cell_name, cell in cells.items()
            if "floor" in cell["wall_s"]
        ]
        lines.append("")
    if cold := cells.get("cold-1k-100"):
        lines += [
            "| cold job, 1,000 messages | evaluated | only read |",
            "|---|---:|---:|",
            *(
                f"| {name} | {cold[f'{kind}_median_s']['ours']:.2f} |"
                f" {cold[f'{kind}_median_s']['read']:.2f} |"
                for kind, name in KINDS.items()
            ),
            "",
        ]
    lines += ["| target | wall clock | processor time | at most | |", "|---|---:|---:|---:|---|"]
    lines += [_verdict(*verdict) for verdict in _verdicts(cells)]
    strategies = {name: cell for name, cell in cells.items() if "strategy" in cell}
    lines += ["", "| cell | strategy | steps a message |", "|---|---|---:|"]
    lines += [
        f"| {name} | {cell['strategy'].removeprefix('strategy ')} | {cell['steps_a_message']:.1f} |"
        for name, cell in strategies.items()
    ]
    return "\n".join(lines) + "\n"


def _row(cell: dict[str, Any], kind: str) -> list[str]:
    medians = cell[f"{kind}_median_s"]
    values = [f"{medians[one]:.2f} ({medians[one] / medians['floor']:.2f}×)" for one in HEADS]
    return [*values, "–".join(f"{load:.1f}" for load in cell["load"])]


def _verdicts(cells: Cells) -> list[tuple[str, float, float, float]]:
    """Return the targets: name, value by both clocks, and limit."""
    told = []
    for name, peer, most in TARGETS:
        if name in cells:
            ratios = (
                cells[name][f"{kind}_median_s"]["ours"] / cells[name][f"{kind}_median_s"][peer]
                for kind in KINDS
            )
            told.append((f"{name}: ours to {peer}", *ratios, most))
    few, many = (cells.get(f"1m-easy-{rules}") for rules in (10, 1000))
    if few and many:
        ratios = (
            many[f"{kind}_median_s"]["ours"] / few[f"{kind}_median_s"]["ours"] for kind in KINDS
        )
        told.append(("1m-easy: 1,000 rules to 10 rules", *ratios, 1.5))
    return told


def _verdict(what: str, wall: float, processor: float, most: float) -> str:
    met = "met" if max(wall, processor) <= most else "missed"
    if met == "missed" and min(wall, processor) <= most:
        met = "met by one clock"
    return f"| {what} | {wall:.2f}× | {processor:.2f}× | {most}× | {met} |"


def chart(found: dict[str, Any]) -> str:
    """Draw the wall-clock time of each contestant of each cell as a multiple of the floor's."""
    bars, y = [], 10
    for name, cell in found["cells"].items():
        medians = cell["wall_median_s"]
        unit = medians.get("floor", medians.get("read"))
        bars.append(f'<text x="10" y="{y + 12}" font-weight="bold">{name}</text>')
        y += 20
        for one in (one for one in COLOURS if one in medians):
            ratio = medians[one] / unit
            width = min(ratio, 9) * 60
            bars.append(
                f'<text x="20" y="{y + 12}">{one}</text><rect x="90" y="{y + 2}"'
                f' width="{width:.0f}" height="12" fill="{COLOURS[one]}"/>'
                f'<text x="{96 + width:.0f}" y="{y + 12}">{ratio:.2f}×'
                f" ({medians[one]:.2f} s)</text>"
            )
            y += 17
        y += 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{y}" font-size="12"'
        f' font-family="sans-serif"><rect width="760" height="{y}" fill="white"/>'
        f"{''.join(bars)}</svg>\n"
    )
