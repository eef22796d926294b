"""Replacement for `ibmmq.ibmmqc`, the C extension of IBM's Python client."""

# ruff: noqa: N802, PLR0917 (names and arguments are those of the extension)

import ctypes
import struct
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from embedded_mq.clients import calls
from embedded_mq.clients.calls import Codes, execute_call, execute_simple_call
from embedded_mq.clients.property_calls import delete_property, inquire_property, set_property
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.failures import MQCC_OK
from embedded_mq.engine.objects import inquiring
from embedded_mq.option_structures import MQIMPO

MODULE_NAME = "ibmmq.ibmmqc"
MQCSP_AUTH_USER_ID_AND_PWD = 1
OPTIONS_OF_MQCNO = struct.Struct("8xi")
USER_OF_MQCSP = struct.Struct("8xi4xP4xi")

# The newest version of each structure that the client may build.
STRUCTURE_VERSIONS = {"bno": 1, "cd": 13, "cno": 8, "csp": 3, "gmo": 4, "md": 2, "od": 4} | {
    "pmo": 3,
    "sco": 7,
    "sts": 2,
}
COMMAND_LEVEL = 1001


def MQCONNX(
    name: str | bytes,
    cno: bytes | None = None,
    cd: bytes | None = None,
    csp: bytes | None = None,
    *_others: bytes | None,
) -> tuple[int, int, int]:
    """Connect; the channel settings are ignored, because the queue manager is embedded."""
    options = OPTIONS_OF_MQCNO.unpack_from(cno)[0] if cno else 0
    return calls.connect(name, "MQCONNX", _user(csp), options, is_client=bool(cd))


def _user(csp: bytes | None) -> str:
    """Return the user that an MQCSP names; its pointer is valid in this process."""
    kind, address, length = USER_OF_MQCSP.unpack_from(csp) if csp else (0, 0, 0)
    if kind != MQCSP_AUTH_USER_ID_AND_PWD or not address:
        return ""
    return ctypes.string_at(address, length).decode()


def MQINQ(
    hconn: int, hobj: int, selectors: Sequence[int], _numbers: list[int], *_counts: int
) -> tuple[list[int], bytes, int, int]:
    """Inquire attributes: (integers, characters, completion, reason)."""

    def operation(connection: Connection) -> tuple[list[int], bytes, int, int]:
        answer = inquiring.inquire(connection, hobj, selectors)
        return answer.numbers, answer.characters, answer.completion, answer.reason

    answer: tuple[list[int], bytes, int, int] = execute_call(
        "MQINQ", hconn, operation, ([], b""), hobj
    )
    return answer


def MQSET(
    hconn: int, hobj: int, selectors: Sequence[int], numbers: Sequence[int], characters: bytes
) -> Codes:
    """Set attributes."""
    return execute_simple_call(
        "MQSET",
        hconn,
        lambda connection: inquiring.set_attributes(
            connection, hobj, selectors, numbers, characters
        ),
        hobj,
    )


def MQDLTMH(hconn: int, hmsg: int, _options: bytes) -> Codes:
    """Delete a message handle."""
    return execute_simple_call(
        "MQDLTMH", hconn, lambda connection: connection.message_handles.delete(hmsg)
    )


def MQINQMP(
    hconn: int, hmsg: int, impo: bytes, name: bytes, _pd: bytes, kind: int, max_length: int
) -> tuple[Any, int, str, int, int]:
    """Inquire a property: (value, length, name after a wildcard, completion, reason)."""
    calls.check_length(impo, MQIMPO.length, "MQIMPO")
    options = MQIMPO.unpack(impo).options

    def operation(connection: Connection) -> tuple[Any, int, str, int, int]:
        held = inquire_property(connection, hmsg, options, name, kind, max_length)
        shown = held.name if name.endswith(b"%") else ""
        return held.value, held.length, shown, *held.codes

    answer: tuple[Any, int, str, int, int] = execute_call(
        "MQINQMP", hconn, operation, (None, 0, "")
    )
    return answer


def _refused_call(verb: str, answer: tuple[Any, ...]) -> Any:
    def refuse(hconn: int, *_arguments: Any) -> tuple[Any, ...]:
        return (*answer, *calls.refuse_call(verb, hconn))

    refuse.__name__ = verb
    return refuse


def MQCBINIT(_dispatcher: Any) -> int:
    """Accept the function that dispatches callbacks; MQCB itself is refused."""
    return MQCC_OK


def MQLOGCF(_level: int, _file: str | None = None) -> int:
    """Do nothing: this module has no log of the extension to configure."""
    return MQCC_OK


def build_module(version: str) -> ModuleType:
    """Build the module with the client's version, which the client checks."""
    built = ModuleType(MODULE_NAME, __doc__)
    built.__dict__.update(
        __version__=version,
        __cmdlevel__=COMMAND_LEVEL,
        __mqbuild__="common",
        __strucversions__=STRUCTURE_VERSIONS,
        error=calls.Error,
        MQSETMP=set_property,
        MQDLTMP=delete_property,
        MQSTAT=_refused_call("MQSTAT", (b"",)),
        MQSUBRQ=_refused_call("MQSUBRQ", (b"",)),
        MQCB=_refused_call("MQCB", ()),
        MQCTL=_refused_call("MQCTL", ()),
    )
    own = (MQCONNX, MQINQ, MQSET, MQDLTMH, MQINQMP, MQCBINIT, MQLOGCF)
    for call in (*calls.COMMON_CALLS, *own):
        setattr(built, call.__name__, call)
    return built
