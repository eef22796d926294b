"""Parse docker-compose.yaml and the files beside it for the tests that compare them."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

import yaml

from mqdlq import directories

PROJECT = directories.PROJECT
COMPOSE_FILE = PROJECT / "docker-compose.yaml"


@cache
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))
    return found


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose()["services"]
    return found


@cache
def variables() -> dict[str, str]:
    lines = (PROJECT / ".env.example").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def dockerfile() -> str:
    return (PROJECT / "Dockerfile").read_text(encoding="utf-8")


def make_secrets() -> Any:
    spec = importlib.util.spec_from_file_location(
        "make_secrets", PROJECT / "deploy/make-secrets.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
