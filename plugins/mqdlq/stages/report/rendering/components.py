"""The Jinja environment of the HTML components, for the report and for other pages.

The directory `components` has macros for outcomes, messages, rules, causes and attempts, and
`components.css` with the styles that they need.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mqdlq.constants import reason_text
from mqdlq.model import Outcome
from mqdlq.stages.report import commands, needs_attention, rule_counts, wording
from mqdlq.stages.report.controls import ramps, repairs, returns
from mqdlq.stages.report.rendering import drawings

COMPONENTS: Final = Path(__file__).parents[1] / "components"


def component_environment(*directories: Path) -> Environment:
    """Return an environment that finds templates in these directories and among the components.

    All text is escaped, and a name that is not defined is an error.
    """
    environment = Environment(
        loader=FileSystemLoader([*directories, COMPONENTS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "visible": wording.visible,
        "moment": wording.moment,
        "span": wording.span,
        "number": "{:,}".format,
        "outcome": _outcome,
        "reason": reason_text,
        "said": _said,
        "evidence_in_words": wording.evidence_in_words,
        "ramp_in_words": ramps.ramp_in_words,
        "repair_in_words": repairs.repair_in_words,
        "return_in_words": returns.return_in_words,
    }
    environment.globals |= {
        "act_address": commands.act_address,
        "classes": wording.CLASSES,
        "period": wording.period,
        "place": wording.place,
        "destination_of": wording.destination_of,
        "target": wording.target,
        "count": wording.count,
        "not_selected": wording.not_selected,
        "untouched_in_words": wording.untouched_in_words,
        "expiry_in_words": wording.expiry_in_words,
        "expired_in_words": wording.expired_in_words,
        "learned_in_words": wording.learned_in_words,
        "failed_in_words": rule_counts.failed_in_words,
        "states": wording.STATES,
        "origin_in_words": needs_attention.origin_in_words,
        "tried_in_words": needs_attention.tried_in_words,
        "destination_in_words": needs_attention.destination_in_words,
        "segments": drawings.segments,
        "rule_bar": drawings.rule_bar,
        "half": drawings.HALF,
    }
    return environment


def _outcome(value: Outcome | str | None) -> str:
    """Return an outcome in words, also one by its value in the ledger."""
    return wording.outcome_in_words(Outcome(value) if isinstance(value, str) else value)


def _said(what: str) -> str:
    """Return what a segment of a bar counts, in words."""
    return wording.outcome_in_words(None if what == drawings.MISSING else Outcome(what))
