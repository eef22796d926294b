"""Notes of docs/reference/mqi-coverage.md that no table can give: limits of honoured options."""

from __future__ import annotations

REPORTS = """\
Others act on the options that are kept: a channel reports exceptions, an application PAN and NAN,
programs that trace a route activities. Other bits are refused with MQRC_REPORT_OPTIONS_ERROR (2061)
or accepted with the warning MQRC_UNKNOWN_REPORT_OPTION (2104), as "Structure of the report field"
says."""

FLAGS = """\
The queue manager itself never segments a message: where it would have to, the put fails with
MQRC_MSG_TOO_BIG_FOR_Q (2030), as on z/OS. Other flags are refused with MQRC_MSG_FLAGS_ERROR (2249)
or kept, as "Structure of the message-flags field" says. An MQMDE in front of the data is honoured,
treated as data or refused, as IBM's table for MQPUT says; an MQMDE of a version above 2 is data."""

GENERATED = """\
These points follow IBM's documentation as we remember it. The text was not available to check, so
no contract test for a real queue manager relies on them:

- The queue manager makes no COA or COD for a message with Format MQFMT_DEAD_LETTER_HEADER. The
  handler's allowance for MAXUMSGS counts a COD for it all the same.
- A report has the identity context of the message. Its PutApplType is MQAT_QMGR, its PutApplName
  and ReplyToQMgr are the queue manager's name, and its ReplyToQ is blank. Format, Encoding and
  CodedCharSetId are the message's, also where the report includes no data.
- With MQRO_PASS_DISCARD_AND_EXPIRY a report on expiry itself expires after 60 seconds.
- Message properties with MQCOPY_REPORT are copied to the report.
- If a message expires on a transmission queue, the report is about the message inside the MQXQH.

Whoever may put a message needs no further authority for its reports. `mqdlq qm load` makes none."""
