"""Sequences of messages: the keys of a handler that keep messages together and in order."""

import re
from typing import Final, Literal, Self

from pydantic import field_validator, model_validator

from mqdlq.controls import Keys
from mqdlq.structures import MQMD

KEY_FIELDS: Final = {
    field.ibm_name: field
    for name, field in MQMD.layout.items()
    if name
    in {
        "msg_id",
        "correl_id",
        "group_id",
        "reply_to_q",
        "reply_to_q_mgr",
        "user_identifier",
        "accounting_token",
        "appl_identity_data",
        "put_appl_name",
        "appl_origin_data",
    }
}
"""The fields of the MQMD that can be a key, by IBM's names."""

_FOLDER_FIELD: Final = re.compile(r"MQRFH2(\.[A-Za-z_]\w{0,99}){2,10}", re.ASCII)


class Sequences(Keys):
    """Which messages move together, and which wait for an earlier one."""

    groups: Literal["all_or_nothing"] | None = None
    """`all_or_nothing`: move the messages of a group together, in the order of MsgSeqNumber, and
    only if the group is complete. Unset: move each message by itself, as IBM's handler does."""
    key: str | None = None
    """The field whose value earlier and later messages have in common: `MQMD.CorrelId` or another
    field of the MQMD, or a field in a folder of an MQRFH2, such as `MQRFH2.usr.orderId`. Later
    messages wait behind an earlier one that did not move; unset: they do not wait."""

    @field_validator("key")
    @classmethod
    def _is_a_field(cls, value: str | None) -> str | None:
        if value is None or _FOLDER_FIELD.fullmatch(value):
            return value
        if value.removeprefix("MQMD.") in KEY_FIELDS and value.startswith("MQMD."):
            return value
        raise ValueError(
            f"{value!r} is not a field that can be a key: use `MQRFH2.` with a folder and a field,"
            f" or `MQMD.` with one of {', '.join(KEY_FIELDS)}"
        )

    @model_validator(mode="after")
    def _keeps_something(self) -> Self:
        if self.groups is None and self.key is None:
            raise ValueError("'sequences' needs 'groups' or 'key'")
        return self

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the key's folder and fields in an MQRFH2; () for a field of the MQMD."""
        structure, *names = (self.key or "").split(".")
        return tuple(names) if structure == "MQRFH2" else ()

    @property
    def reads_headers(self) -> bool:
        return bool(self.path or self.groups)
