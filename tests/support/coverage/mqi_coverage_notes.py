"""Notes of docs/reference/mqi-coverage.md on the limits of honoured options."""

from __future__ import annotations

REPORTS = """\
Other programs act on the kept options: channels report exceptions, applications report PAN and NAN,
and route-tracing programs report activities. Other bits are rejected with
MQRC_REPORT_OPTIONS_ERROR (2061), or accepted with the warning MQRC_UNKNOWN_REPORT_OPTION (2104), as
"Structure of the report field" specifies."""

FLAGS = """\
The queue manager never segments a message. If it would have to, the put fails with
MQRC_MSG_TOO_BIG_FOR_Q (2030), as on z/OS. Other flags are rejected with MQRC_MSG_FLAGS_ERROR (2249)
or kept, as "Structure of the message-flags field" specifies. An MQMDE before the data is honoured,
treated as data or rejected, as in IBM's table for MQPUT; an MQMDE of a version above 2 is data."""

GENERATED = """\
These points follow IBM's documentation from memory. The text was not available for a check, so no
contract test for a real queue manager relies on them:

- The queue manager generates no COA or COD for a message with Format MQFMT_DEAD_LETTER_HEADER. The
  handler still counts a COD for it towards MAXUMSGS.
- A report has the identity context of the message. Its PutApplType is MQAT_QMGR, its PutApplName
  and ReplyToQMgr are the queue manager's name, and its ReplyToQ is blank. Format, Encoding and
  CodedCharSetId are those of the message, even if the report includes no data.
- With MQRO_PASS_DISCARD_AND_EXPIRY a report on expiry itself expires after 60 seconds.
- Message properties with MQCOPY_REPORT are copied to the report.
- If a message expires on a transmission queue, the report is about the message inside the MQXQH.

A user who may put a message needs no further authority for its reports. `mqdlq qm load` generates
no reports."""

CHANNELS = """\
CHLTYPE is SDR, RCVR or SVRCONN. No channel moves messages, and no client connects through one. A
started sender channel is RUNNING while a queue manager with the name of its transmission queue, or
of a remote definition that names this queue as XMITQ, is running in the same directory. Otherwise
it is RETRYING, and its retries are not counted. An inquiry of a channel needs dsp on it, which
OBJTYPE(CHANNEL) of SET AUTHREC grants. Any other keyword is an error."""
