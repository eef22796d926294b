"""Read a mapping of Prometheus's statsd_exporter, as its documentation describes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml


class Mapping:
    """The rules of a mapping file, the first match of which names a metric."""

    def __init__(self, file: Path) -> None:
        self._rules: list[dict[str, Any]] = yaml.safe_load(file.read_text("utf-8"))["mappings"]

    def name(self, statsd_name: str, kind: str) -> str:
        """Return the metric's name in Prometheus."""
        for rule in self._rules:
            pattern = re.escape(rule["match"]).replace(r"\*", "([^.]*)")
            found = re.fullmatch(pattern, statsd_name)
            if found and rule.get("match_metric_type", kind) == kind:
                return found.expand(re.sub(r"\$\{(\d)\}", r"\\g<\1>", rule["name"]))
        return re.sub(r"\W", "_", statsd_name)
