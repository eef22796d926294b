"""Parse the MQMD, the MQDLH and further headers into frozen records, and write them unchanged."""

from mqdlq.headers.ccsid import following_ccsid, read_text
from mqdlq.headers.chain import (
    AMS_HEADER,
    HEADER_OF_FORMAT,
    SEGMENT,
    ChainedHeader,
    Description,
    classify,
    describe,
    walk,
)
from mqdlq.headers.records import (
    DLH_LENGTH,
    DeadLetterHeader,
    MessageDescriptor,
    MessageDescriptorExtension,
    RulesHeader2,
    UnreadablePropertyError,
)
from mqdlq.headers.row import (
    COLUMNS,
    IDENTITY_PREFIX,
    PREFIX_LENGTH,
    describe_browsed,
    header_row,
    message_identity,
    message_key,
    read_rules_headers,
)
from mqdlq.headers.trace import without_trace_properties
