"""MQMD, MQDLH and the headers after it: bytes in, frozen records out, and back byte for byte."""

from __future__ import annotations

from mqdlq.headers.ccsid import following_ccsid
from mqdlq.headers.chain import Chain, ChainedHeader, Record, walk
from mqdlq.headers.classify import Classified, classify
from mqdlq.headers.describe import Description, describe
from mqdlq.headers.dlh import DLH_LENGTH, MQDLH, DeadLetterHeader, decode_dlh, encode_dlh
from mqdlq.headers.key import message_key
from mqdlq.headers.layout import Kind
from mqdlq.headers.md import (
    MD_LENGTH,
    MQMD,
    MessageDescriptor,
    MessageDescriptor1,
    decode_any_md,
    decode_md,
    encode_any_md,
    encode_md,
)
from mqdlq.headers.rfh import (
    RulesHeader,
    RulesHeader2,
    decode_rfh,
    decode_rfh2,
    encode_rfh,
    encode_rfh2,
)
from mqdlq.headers.row import PREFIX_LENGTH, header_row
from mqdlq.headers.structures import (
    CIH_CODEC,
    IIH_CODEC,
    MDE_CODEC,
    TM_CODEC,
    CicsHeader,
    CicsHeader1,
    ImsHeader,
    MessageDescriptorExtension,
    TransmissionQueueHeader,
    TriggerMessage,
    decode_xqh,
    encode_xqh,
)
from mqdlq.headers.trace import without_trace_properties

__all__ = [
    "CIH_CODEC",
    "DLH_LENGTH",
    "IIH_CODEC",
    "MDE_CODEC",
    "MD_LENGTH",
    "MQDLH",
    "MQMD",
    "PREFIX_LENGTH",
    "TM_CODEC",
    "Chain",
    "ChainedHeader",
    "CicsHeader",
    "CicsHeader1",
    "Classified",
    "DeadLetterHeader",
    "Description",
    "ImsHeader",
    "Kind",
    "MessageDescriptor",
    "MessageDescriptor1",
    "MessageDescriptorExtension",
    "Record",
    "RulesHeader",
    "RulesHeader2",
    "TransmissionQueueHeader",
    "TriggerMessage",
    "classify",
    "decode_any_md",
    "decode_dlh",
    "decode_md",
    "decode_rfh",
    "decode_rfh2",
    "decode_xqh",
    "describe",
    "encode_any_md",
    "encode_dlh",
    "encode_md",
    "encode_rfh",
    "encode_rfh2",
    "encode_xqh",
    "following_ccsid",
    "header_row",
    "message_key",
    "walk",
    "without_trace_properties",
]
