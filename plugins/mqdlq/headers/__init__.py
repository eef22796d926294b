"""Parse the MQMD, the MQDLH and further headers into frozen records, and write them unchanged."""

from __future__ import annotations

from mqdlq.headers.ccsid import following_ccsid
from mqdlq.headers.chain import HEADER_OF_FORMAT, Chain, ChainedHeader, walk
from mqdlq.headers.identity import IDENTITY_PREFIX, message_identity, message_key
from mqdlq.headers.message_description import Classified, Description, classify, describe
from mqdlq.headers.records import (
    DLH_LENGTH,
    MD_LENGTH,
    CicsHeader,
    CicsHeader1,
    DeadLetterHeader,
    ImsHeader,
    MessageDescriptor,
    MessageDescriptor1,
    MessageDescriptorExtension,
    Record,
    TransmissionQueueHeader,
    TriggerMessage,
)
from mqdlq.headers.rfh import RulesHeader, RulesHeader2, UnreadablePropertyError
from mqdlq.headers.row import PREFIX_LENGTH, header_row
from mqdlq.headers.trace import without_trace_properties
