"""Replacement for `pymqi.pymqe`, the C extension of pymqi."""

# ruff: noqa: N802, PLR0917 (names and arguments are those of the extension)

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from embedded_mq.clients import calls
from embedded_mq.clients.calls import Codes, execute_call, execute_simple_call
from embedded_mq.clients.property_calls import inquire_property, set_property
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.failures import MQCC_FAILED, not_emulated
from embedded_mq.engine.objects import inquiring

MODULE_NAME = "pymqi.pymqe"
LEVELS = "5.0,5.1,5.2,5.3,6.0,7.0,7.1,8.0.0"


def MQCONNX(
    name: str | bytes,
    options: int = 0,
    cd: bytes | None = None,
    credentials: Mapping[str, bytes] | None = None,
    _sco: bytes | None = None,
) -> tuple[int, int, int]:
    """Connect; the channel settings are ignored, because the queue manager is embedded."""
    user = (credentials or {}).get("user") or b""
    return calls.connect(name, "MQCONNX", user.decode(), options, is_client=bool(cd))


def MQINQ(hconn: int, hobj: int, selector: int) -> tuple[int | bytes | None, int, int]:
    """Inquire one attribute: (value, completion, reason)."""

    def operation(connection: Connection) -> tuple[int | bytes | None, int, int]:
        answer = inquiring.inquire(connection, hobj, [selector])
        value = answer.numbers[0] if answer.numbers else answer.characters
        return value, answer.completion, answer.reason

    answer: tuple[int | bytes | None, int, int] = execute_call(
        "MQINQ", hconn, operation, (None,), hobj
    )
    return answer


def MQSET(hconn: int, hobj: int, selector: int, value: int | bytes) -> Codes:
    """Set one attribute."""
    numbers = [value] if isinstance(value, int) else []
    characters = value if isinstance(value, bytes) else b""
    return execute_simple_call(
        "MQSET",
        hconn,
        lambda connection: inquiring.set_attributes(
            connection, hobj, [selector], numbers, characters
        ),
        hobj,
    )


def MQINQMP(
    hconn: int, hmsg: int, options: int, name: bytes, _pd_options: int, kind: int, max_length: int
) -> tuple[Any, int, int, int]:
    """Inquire a property: (value, length, completion, reason)."""

    def operation(connection: Connection) -> tuple[Any, int, int, int]:
        held = inquire_property(connection, hmsg, options, name, kind, max_length)
        return held.value, held.length, *held.codes

    answer: tuple[Any, int, int, int] = execute_call("MQINQMP", hconn, operation, (None, 0))
    return answer


def mqaiExecute(*_arguments: Any) -> tuple[list[Any], int, int]:
    """Refuse a PCF command through IBM's MQAI; PCFExecute puts a message instead."""
    refusal = not_emulated("the MQAI", "MQRC_FUNCTION_NOT_SUPPORTED")
    return [], MQCC_FAILED, refusal.reason


def build_module() -> ModuleType:
    """Build the module."""
    built = ModuleType(MODULE_NAME, __doc__)
    built.__dict__.update(
        __mqlevels__=LEVELS,
        __mqbuild__="client",
        pymqe_error=calls.Error,
        MQSETMP=set_property,
    )
    for call in (*calls.COMMON_CALLS, MQCONNX, MQINQ, MQSET, MQINQMP, mqaiExecute):
        setattr(built, call.__name__, call)
    return built
