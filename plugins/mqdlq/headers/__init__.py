"""MQMD and MQDLH: bytes in, frozen records out, and back again byte for byte."""

from __future__ import annotations

from mqdlq.headers.ccsid import following_ccsid
from mqdlq.headers.classify import Classified, classify
from mqdlq.headers.dlh import DLH_LENGTH, MQDLH, DeadLetterHeader, decode_dlh, encode_dlh
from mqdlq.headers.key import message_key
from mqdlq.headers.layout import Kind
from mqdlq.headers.md import MD_LENGTH, MQMD, MessageDescriptor, decode_md, encode_md
from mqdlq.headers.row import PREFIX_LENGTH, header_row

__all__ = [
    "DLH_LENGTH",
    "MD_LENGTH",
    "MQDLH",
    "MQMD",
    "PREFIX_LENGTH",
    "Classified",
    "DeadLetterHeader",
    "Kind",
    "MessageDescriptor",
    "classify",
    "decode_dlh",
    "decode_md",
    "encode_dlh",
    "encode_md",
    "following_ccsid",
    "header_row",
    "message_key",
]
