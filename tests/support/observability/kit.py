"""The files of deploy/observability, and which declared metrics and labels their queries use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import yaml

from mqdlq.airflow.metrics import Metric
from tests.support.paths import ROOT

KIT: Final = ROOT / "deploy" / "observability"
RULES: Final = KIT / "mqdlq-rules.yml"
RULES_TEST: Final = KIT / "mqdlq-rules.test.yml"
MAPPING: Final = KIT / "statsd-mapping.yml"
COLLECTOR: Final = KIT / "otel-collector.yml"
DASHBOARD: Final = KIT / "grafana-dashboard.json"

_METRIC: Final = re.compile(r"\bmqdlq[_:][\w:]+")
_MATCHERS: Final = re.compile(r"{([^}]*)}")
_MATCHER: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPING: Final = re.compile(r"\b(?:by|on|group_left)\s*\(([^)]*)\)")


@cache
def _rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alert rules by name."""
    return {rule["alert"]: rule for rule in _rules() if "alert" in rule}


def records() -> dict[str, str]:
    """Return the expressions of the recording rules by name."""
    return {rule["record"]: rule["expr"] for rule in _rules() if "record" in rule}


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


def panel_queries() -> dict[str, str]:
    """Return the queries of the dashboard's panels by title."""
    return {
        panel["title"]: target["expr"]
        for panel in dashboard()["panels"]
        for target in panel["targets"]
    }


def faults_of(expression: str) -> Iterator[str]:
    """Yield the undeclared metrics in an expression, and labels that its metrics do not have."""
    labels_of = {metric.in_prometheus: set(metric.labels) for metric in Metric}
    recorded = records()
    used: list[set[str]] = []
    for name in _METRIC.findall(expression):
        if name in recorded:
            grouping = _GROUPING.search(recorded[name])
            used.append(set(_names(grouping[1])) if grouping else set())
        elif name in labels_of:
            used.append(labels_of[name])
        else:
            yield f"no metric {name}"
    known = set.intersection(*used) if used else set()
    named = [one for inside in _MATCHERS.findall(expression) for one in _MATCHER.findall(inside)]
    named += [one for inside in _GROUPING.findall(expression) for one in _names(inside)]
    yield from (f"no label {label}" for label in named if label not in known)


def _names(inside: str) -> list[str]:
    return [name.strip() for name in inside.split(",") if name.strip()]
