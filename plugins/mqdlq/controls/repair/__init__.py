"""The repair that a run is given: which fields of the MQMD, and which body, messages get."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from mqdlq.controls import Keys
from mqdlq.errors import HandlerError
from mqdlq.headers import HEADER_OF_FORMAT
from mqdlq.model import Action
from mqdlq.rules import Rule

GUARD: Final = "repair"
"""The name of the guard that asks for the approval of each repair, in questions and the ledger."""

LONGEST_BODY: Final = 4 << 20
"""How long a replacement may be: as long as a message with the default MAXMSGL of IBM MQ."""
NO_BODIES: Final = "the handler's file does not allow to replace a body; see 'repair: body'"
_HIGHEST_CCSID: Final = 65_535
_HEADERS: Final = tuple(sorted(name for name in HEADER_OF_FORMAT if name.startswith("MQH")))

SCHEMA: Final[dict[str, Any]] = {
    "type": ["null", "object"],
    "properties": {
        "format": {
            "type": "string",
            # In Python's patterns `$` also matches before a final line end.
            "pattern": r"^[A-Za-z0-9._/%]{0,8}$(?!\n)",
            # The Formats of MQ headers begin with MQH. `check_body` must be able to read them.
            "not": {"pattern": rf"^(MQDEAD$|MQH(?!{'|'.join(one[3:] + '$' for one in _HEADERS)}))"},
        },
        "coded_char_set_id": {"type": "integer", "minimum": 1, "maximum": _HIGHEST_CCSID},
        "body_sha256": {"type": "string", "pattern": r"^[0-9a-f]{64}$(?!\n)"},
        "body_length": {"type": "integer", "minimum": 0, "maximum": LONGEST_BODY},
    },
    "dependentRequired": {"body_sha256": ["body_length"], "body_length": ["body_sha256"]},
    "additionalProperties": False,
}
_EXPECTED: Final = {
    "$": '"format", "coded_char_set_id" or both, such as'
    ' {"format": "MQSTR", "coded_char_set_id": 1208}, or "body_sha256" with "body_length"',
    "$.format": "at most 8 letters, digits and . _ / %, such as MQSTR; not MQDEAD, and no header"
    f" that mqdlq cannot read: of Formats that begin with MQH only {', '.join(_HEADERS)}",
    "$.body_sha256": "the SHA-256 of a stored replacement, 64 hexadecimal digits",
    "$.body_length": f"its length in bytes, at most {LONGEST_BODY:,}",
    "$.coded_char_set_id": f"a whole number from 1 to {_HIGHEST_CCSID}, such as 1208",
}
"""By JSON path: what would be right there."""


class Repairs(Keys):
    """What a repair of a message may change beyond Format, CodedCharSetId and destination."""

    body: bool = False
    """A repair may replace the body of one named message. It always needs a
    [second person](#approval), and the handler needs `second_person` and `payload`."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What delivered messages get; None stays as it is, the Format "" is MQFMT_NONE.

    `body_sha256` (hex) names a replacement in the lake for the data after the MQDLH, and
    `body_length` is its length; a pass reads its `content`. Without any field, the repair changes
    the destination only.
    """

    format: str | None = None
    coded_char_set_id: int | None = None
    body_sha256: str | None = None
    body_length: int | None = None
    content: bytes | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        """The repair as JSON, as the ledger has it; `read_repair` reads it."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(given, sort_keys=True)


def read_repair(text: str) -> Repair | None:
    return Repair(**json.loads(text)) if text else None


def parse_repair(given: Mapping[str, Any] | None) -> Repair | None:
    """Return the repair that a run is given; raises HandlerError for an invalid one."""
    if given is None:
        return None
    import jsonschema  # noqa: PLC0415 (slow, and repairs are rare)

    for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(given):
        where, found = error.json_path, error.instance
        if error.validator == "additionalProperties":
            found = ", ".join(name for name in found if name not in SCHEMA["properties"])
        raise HandlerError(
            "MQDLQ-520",
            f"repair{where.removeprefix('$')}: found {found!r}; expected {_EXPECTED[where]}",
        )
    # For JSON Schema 1208.0 is an integer, too.
    read: dict[str, Any] = {
        name: int(one) if isinstance(one, float) else one for name, one in given.items()
    }
    return Repair(**read)


def check_action(repair: Repair, rule: Rule) -> None:
    if rule.action not in {Action.RETRY, Action.FWD}:
        raise HandlerError(
            "MQDLQ-521",
            f"repair is for messages that are put, and ACTION({rule.action}) puts none; give"
            " ACTION(RETRY), or ACTION(FWD) with HEADER(NO)",
        )
    if rule.action is Action.FWD and rule.header:
        raise HandlerError(
            "MQDLQ-521",
            "repair needs HEADER(NO): with its MQDLH a message is still a dead letter, whose"
            " Format and CodedCharSetId describe the MQDLH; add HEADER(NO) to the action",
        )
    if rule.action is Action.RETRY and repair == Repair():
        raise HandlerError(
            "MQDLQ-521",
            "repair is empty, and ACTION(RETRY) keeps the destination, so that nothing would"
            " change; give format, coded_char_set_id or a body, or another queue by ACTION(FWD)",
        )
