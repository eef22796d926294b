"""Stand in for Prometheus's statsd_exporter, which no package of Debian or PyPI brings.

It follows the exporter's documentation as far as the mapping in deploy/observability needs it:
counters and gauges of StatsD, tags in InfluxDB's form, and mappings with `*` for one component of a
name. It does not expire series. It keeps the lines that it cannot read.
"""

from __future__ import annotations

import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import yaml

_LINE: Final = re.compile(
    r"(?P<name>[^,:|]+)(?P<tags>(?:,\w+=[^,=:|]+)*):(?P<value>\d[\d.e+]*)\|(?P<kind>c|g|ms)"
)
_KINDS: Final = {"c": "counter", "g": "gauge", "ms": "timer"}

Labels = frozenset[tuple[str, str]]


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


class Exporter:
    """The values of all series, and the lines that are not valid."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping
        self._lock = threading.Lock()
        self.values: dict[tuple[str, str], dict[Labels, float]] = {}
        self.invalid: list[str] = []

    def take(self, line: str) -> None:
        """Take in one line of StatsD's protocol."""
        found = _LINE.fullmatch(line)
        if found is None:
            self.invalid.append(line)
            return
        kind = _KINDS[found["kind"]]
        labels = frozenset(
            (name, value)
            for name, _, value in (tag.partition("=") for tag in found["tags"].split(",")[1:])
        )
        key = self._mapping.name(found["name"], kind), kind
        with self._lock:
            series = self.values.setdefault(key, {})
            before = series.get(labels, 0.0) if kind == "counter" else 0.0
            series[labels] = before + float(found["value"])

    def text(self) -> str:
        """Return all series in Prometheus's text format."""
        lines = []
        with self._lock:
            for (name, kind), series in self.values.items():
                lines.append(f"# TYPE {name} {kind if kind != 'timer' else 'untyped'}")
                for labels, value in series.items():
                    inside = ",".join(f'{one}="{text}"' for one, text in sorted(labels))
                    lines.append(f"{name}{{{inside}}} {value!r}")
        return "\n".join([*lines, ""])


@contextmanager
def statsd_exporter(mapping: Path) -> Iterator[tuple[Exporter, int, int]]:
    """Run an exporter; yield it, its UDP port for StatsD, and its HTTP port for Prometheus."""
    exporter = Exporter(Mapping(mapping))

    class Lines(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            for line in self.request[0].decode().splitlines():
                exporter.take(line)

    class Scrape(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = exporter.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            del words

    with (
        socketserver.UDPServer(("127.0.0.1", 0), Lines) as statsd,
        ThreadingHTTPServer(("127.0.0.1", 0), Scrape) as http,
    ):
        threads = [
            threading.Thread(target=one.serve_forever, daemon=True) for one in (statsd, http)
        ]
        for thread in threads:
            thread.start()
        try:
            yield exporter, statsd.server_address[1], http.server_address[1]
        finally:
            for one in (statsd, http):
                one.shutdown()
