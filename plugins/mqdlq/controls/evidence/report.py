"""Report the checks of a queue by what its queue manager records."""

from mqdlq.ledger.tables import EvidenceCheck
from mqdlq.words import count, moment, visible


def evidence_in_words(check: EvidenceCheck) -> str:
    """Return the line of a report about a check by evidence; it is a hint and no outcome."""
    is_stream = check.kind == "stream"
    source = f"{'Stream queue' if is_stream else 'Statistics queue'} {check.source}".rstrip()
    if check.trouble:
        return f"{source}: not checked, {visible(check.trouble)}"
    if check.since is None:
        return f"{source}: the next run checks the messages that come from now on"
    since, copies = f"since {moment(check.since)}", count(check.examined, "message")
    if not is_stream:
        counted = f"{source}: {count(check.examined, 'get')} {since}"
        more = f"{check.unseen:,} more than" if check.unseen else "no more than"
        why = ": another program got messages, or gets were backed out" if check.unseen else ""
        return f"{counted}, {more} runs of this ledger made{why}"
    if not check.unseen:
        return f"{source}: {copies} {since}, each in a snapshot"
    most = "" if check.is_exact else "up to "
    return (
        f"{source}: {most}{check.unseen:,} of {copies} {since} came and left without a run of this"
        " ledger: another program took them, or they expired"
    )
