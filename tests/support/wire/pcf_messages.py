"""Builders for tests that put their own PCF command messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from embedded_mq_tests.builders import Application

COMMAND_QUEUE = "SYSTEM.ADMIN.COMMAND.QUEUE"
HEADER_LENGTH = 36


@dataclass
class Commander:
    """An application with a reply queue, which puts commands and gets their responses."""

    app: Application
    replies: Any = field(init=False)
    reply_q: str = field(init=False)

    def __post_init__(self) -> None:
        mqi = self.app.mqi
        od = mqi.OD(ObjectName=b"SYSTEM.DEFAULT.MODEL.QUEUE", DynamicQName=b"MQDLQ.TEST.*")
        options = self.app.options("MQOO", ("INPUT_EXCLUSIVE",))
        self.replies = mqi.Queue(self.app.handle, od, options)
        self.reply_q = od.ObjectName.decode().strip()

    def command(self, name: str, *parameters: Any, **header: int) -> bytes:
        """Build a command message; `header` overrides fields of its MQCFH."""
        fields = {
            "Version": 3,
            "Type": 1,
            "Command": getattr(self.app.mqi.CMQCFC, name),
            "ParameterCount": len(parameters),
        }
        packed = [self.app.mqi.CFH(**{**fields, **header}), *parameters]
        return b"".join(part.pack() for part in packed)

    def text(self, parameter: str, value: str) -> Any:
        return self.app.mqi.CFST(Parameter=self.app.number(parameter), String=value.encode())

    def put(self, message: bytes, *options: str, **fields: Any) -> Any:
        """Put a command message and return its descriptor."""
        request = {"Format": b"MQADMIN ", "MsgType": 1, "ReplyToQ": self.reply_q.encode()}
        return self.app.put(COMMAND_QUEUE, message, *options, **{**request, **fields})

    def response(self) -> tuple[Any, dict[int, Any], Any]:
        """Get the next response: its MQCFH, its parameters and its message descriptor."""
        md = self.app.md()
        data = self.replies.get(None, md, self.app.gmo("WAIT", WaitInterval=5000))
        header = self.app.mqi.CFH()
        header.unpack(data[:HEADER_LENGTH])
        # The client's own function to unpack raises for an error response.
        fine = self.app.mqi.CFH(ParameterCount=header.ParameterCount).pack()
        parameters, _ = self.app.mqi.PCFExecute.unpack(fine + data[HEADER_LENGTH:])
        return header, parameters, md

    def ask(self, message: bytes, **fields: Any) -> tuple[int, dict[int, Any]]:
        """Put a command and get its response: the reason code and the parameters."""
        self.put(message, **fields)
        header, parameters, _ = self.response()
        return header.Reason, parameters


Given = tuple[str, str, Any]
"""The client's class for a parameter, its name in IBM's constants, and its value."""
NAMED: Given = ("CFST", "MQCA_Q_NAME", b"A")
LOCAL: Given = ("CFIN", "MQIA_Q_TYPE", 1)


def typed(commander: Commander, kind: str, name: str, value: Any) -> Any:
    """Build a parameter by the client's own class; its name is a constant of either module."""
    mqi = commander.app.mqi
    constants = mqi.CMQC if hasattr(mqi.CMQC, name) else mqi.CMQCFC
    field = {"CFIN": "Value", "CFIL": "Values", "CFST": "String", "CFSL": "Strings"}[kind]
    return getattr(mqi, kind)(**{"Parameter": getattr(constants, name), field: value})
