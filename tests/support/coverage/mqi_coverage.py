"""Tables of docs/reference/mqi-coverage.md: the coverage of the MQI by the embedded queue manager.

Honoured, ignored and
refused options come from the engine's own tables and from IBM's constants in the client library. A
contract test proves the names that it states in full: in its docstring, as the reason code it
expects, or as a selector it inquires.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import embedded_mq
from embedded_mq import mqi_constants as mq
from embedded_mq.clients import calls, ibmmqc, pymqe
from embedded_mq.engine.messages import getting, groups, properties, putting, reports, selection
from embedded_mq.engine.objects import attributes, closing, inquiring, opening, queue_objects
from embedded_mq.mqsc import administration
from embedded_mq.mqsc import queues as mqsc_queues
from embedded_mq.mqsc import syntax as mqsc
from embedded_mq.pcf import command_server
from embedded_mq.pcf import constants as pcf_constants
from mqdlq.constants import MQRC
from tests.support.coverage import mqi_coverage_notes, mqi_facts

TESTS = Path(__file__).parents[2]
ENGINE = Path(embedded_mq.__file__).parent
SHOWN_BY = (TESTS / "contract", TESTS.parent / "embedded_mq" / "tests")

ANY = -1  # no option bit is rejected
CONSTANT = re.compile(r"\bMQ[A-Z]{2,4}_\w+")
VERB = re.compile(r"\bMQ[A-Z0-9]{2,5}\b(?!_)")
REASON_BY_NUMBER = re.compile(r"\(RC(\d{4})\)")
KEYWORD = re.compile(r"\b(?:NO)?([A-Z]{3,8})\b(?=\(| |$)")
REASONS = {number: name for name, number in MQRC.items()}
COMMAND = re.compile(r"\b([A-Z]{2,7}) (Q[A-Z]+|AUTHREC|FAULT|CHANNEL|CHSTATUS)\b")
NO_OPTION = re.compile(
    r"_(VERSION_\d+|CURRENT_\w+|LENGTH_\d+|STRUC_ID\w*|\w*MASK\w*|NONE|DEFAULT_VALUES)$"
)


@dataclass
class Family:
    """Names that belong together, sorted by their treatment."""

    title: str
    honoured: list[str] = field(default_factory=list)
    defaults: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    refusal: str = "MQRC_OPTIONS_ERROR"
    note: str = ""


@dataclass(frozen=True)
class Shown:
    """A test, its file, and how many names it proves: the fewer, the more specific the test."""

    names: int
    file: str
    test: str

    def __str__(self) -> str:
        return f"[{self.test}](../../{self.file})"


Proofs = Mapping[str, Shown]


def proofs(directories: Iterable[Path] = SHOWN_BY) -> Proofs:
    """Return the test that proves each name of IBM's and each MQSC keyword."""
    found: dict[str, list[Shown]] = defaultdict(list)
    for directory in directories:
        for path in sorted(directory.rglob("test_*.py")):
            tree = ast.parse(path.read_text())
            shared = _texts_by_name(tree)
            for node in tree.body:
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                    names = _named(node, shared)
                    file = str(path.relative_to(TESTS.parent))
                    for name in names:
                        found[name].append(Shown(len(names), file, node.name))
    # Prefer contract tests, then the test that contains the fewest names.
    return {
        name: min(shown, key=lambda one: ("/contract/" not in one.file, one.names))
        for name, shown in found.items()
    }


def _texts_by_name(tree: ast.Module) -> dict[str, str]:
    """Return the module-level strings of a test module, which hold MQSC that several tests run."""
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }


def _named(test: ast.FunctionDef, shared: Mapping[str, str]) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(test):
        text = shared.get(node.id, "") if isinstance(node, ast.Name) else _text(node)
        names.update(CONSTANT.findall(text))
        names.update(REASONS.get(int(number), "") for number in REASON_BY_NUMBER.findall(text))
        for verb, kind in COMMAND.findall(text):
            names.add(f"{mqsc.VERBS.get(verb, verb)} {mqsc.KINDS.get(kind, kind)}")
            names.update(KEYWORD.findall(text))
    names.update(VERB.findall(ast.get_docstring(test) or ""))
    return names - {""}


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def options_of(cmqc: ModuleType, prefix: str) -> dict[str, int]:
    """Return IBM's options of one family, by name."""
    return {
        name: value
        for name, value in sorted(vars(cmqc).items())
        if name.startswith(prefix + "_") and isinstance(value, int) and not NO_OPTION.search(name)
    }


def by_mask(title: str, options: Mapping[str, int], known: int, ignored: int = 0) -> Family:
    """Sort options by the engine's masks; the option zero is the default."""
    family = Family(title)
    for name, value in options.items():
        if not value:
            family.defaults.append(name)
        elif value & ~known:
            family.refused.append(name)
        elif value & ignored:
            family.ignored.append(name)
        else:
            family.honoured.append(name)
    return family


def verbs() -> Family:
    """Return the calls that either client makes; the code of a refused call says so."""
    family = Family("Verbs", refusal="MQRC_FUNCTION_NOT_SUPPORTED")
    made: dict[str, Any] = vars(pymqe.build_module()) | vars(ibmmqc.build_module(""))
    for name, call in sorted(made.items()):
        if not name.startswith("MQ") or name in {"MQCBINIT", "MQLOGCF"}:
            continue
        is_refused = {"refuse_call", "not_emulated"} & set(call.__code__.co_names)
        (family.refused if is_refused else family.honoured).append(name)
    family.note = (
        "pymqi's mqaiExecute is rejected too, because pymqi sends PCF commands as messages. Neither"
        " client has IBM's MQBUFMH and MQMHBUF."
    )
    return family


def families(cmqc: ModuleType) -> Iterator[Family]:
    """Yield all families of names."""

    def options(title: str, prefix: str, known: int, ignored: int = 0) -> Family:
        return by_mask(title, options_of(cmqc, prefix), known, ignored)

    yield verbs()
    yield options("MQCONNX options", "MQCNO", ANY, ANY & ~calls.SHARED_HANDLE_OPTIONS)
    yield options("MQOPEN options", "MQOO", opening.KNOWN_OPTIONS, opening.OPTIONS_ALWAYS_TRUE)
    yield options("MQCLOSE options", "MQCO", closing.DELETE_OPTIONS)
    yield options("MQGET options", "MQGMO", getting.KNOWN_OPTIONS | mq.MQGMO_UNLOCK)
    matches = options("MQGET match options", "MQMO", selection.EMULATED_MATCHES)
    matches.refusal = "MQRC_MATCH_OPTIONS_ERROR"
    yield matches
    # MQPUT1 opens by some of them.
    ignored = putting.OPTIONS_ALWAYS_TRUE & ~calls.PUT1_OPEN_OPTIONS
    yield options("MQPUT and MQPUT1 options", "MQPMO", putting.KNOWN_OPTIONS, ignored)
    actions = options("MQPMO actions", "MQACTP", mq.MQACTP_NEW | mq.MQACTP_FORWARD)
    actions.refusal = "MQRC_ACTION_ERROR"
    yield actions
    yield from message_fields(cmqc)
    validating = mq.MQCMHO_VALIDATE | mq.MQCMHO_NO_VALIDATION
    yield options("MQCRTMH options", "MQCMHO", validating)
    yield options("MQSETMP options", "MQSMPO", properties.SET_OPTIONS)
    yield options("MQINQMP options", "MQIMPO", properties.INQUIRE_OPTIONS)
    yield options("MQDLTMP options", "MQDMPO", properties.DELETE_OPTIONS)
    yield selectors("Attributes of queues (MQINQ)", inquiring.QUEUE_SELECTORS)
    yield selectors("Attributes of the queue manager (MQINQ)", inquiring.QUEUE_MANAGER_SELECTORS)
    yield selectors("Attributes of queues (MQSET)", inquiring.SETTABLE)
    yield pcf_commands()
    yield mqsc_commands()
    yield keywords(
        "Attributes of queues (MQSC and PCF)",
        {word for kind in attributes.QUEUE_ATTRIBUTES.values() for word in kind},
        attributes.IGNORED_QUEUE_KEYWORDS,
    )
    yield keywords(
        "Attributes of the queue manager (MQSC)",
        attributes.QUEUE_MANAGER_ATTRIBUTES,
        attributes.IGNORED_QUEUE_MANAGER_KEYWORDS,
    )
    of_channels: dict[str, attributes.Attribute] = {}
    for kind in attributes.CHANNEL_ATTRIBUTES.values():
        of_channels |= kind
    yield Family(
        "Attributes of channels (MQSC)",
        ["CHLTYPE", *(word for word, each in of_channels.items() if not each.has_no_effect)],
        kept=sorted(word for word, each in of_channels.items() if each.has_no_effect),
        ignored=sorted(attributes.IGNORED_CHANNEL_KEYWORDS),
        note=mqi_coverage_notes.CHANNELS,
    )
    returned = reason_codes()
    yield Family(
        "Reason codes",
        sorted(returned, key=lambda name: MQRC[name]),
        note=f"Only fault injection returns the other {len(MQRC) - len(returned)} of IBM's"
        f" {len(MQRC)} reason codes. It can end any call with any reason.",
    )


def message_fields(cmqc: ModuleType) -> Iterator[Family]:
    """Yield the values of MQMD.Report and MQMD.MsgFlags, sorted by their treatment."""
    asked = options_of(cmqc, "MQRO")
    made = {name: bits for name, bits in asked.items() if not bits & MADE_BY_OTHERS}
    family = by_mask("Report options (MQMD)", made, reports.KNOWN_OPTIONS)
    family.kept = sorted(asked.keys() - made.keys())
    family.note = mqi_coverage_notes.REPORTS
    yield family
    flags = by_mask("Message flags (MQMD)", options_of(cmqc, "MQMF"), groups.KNOWN_FLAGS)
    flags.note = mqi_coverage_notes.FLAGS
    yield flags
    kinds = {kind.feedback for kind in (reports.ARRIVAL, reports.DELIVERY, reports.EXPIRY)}
    feedback = [name for name, value in options_of(cmqc, "MQFB").items() if value in kinds]
    yield Family(
        "Messages that the queue manager generates (MQMD.Feedback)",
        feedback,
        note=mqi_coverage_notes.GENERATED,
    )


MADE_BY_OTHERS = mq.MQRO_EXCEPTION_WITH_FULL_DATA | mq.MQRO_PAN | mq.MQRO_NAN | mq.MQRO_ACTIVITY


def selectors(title: str, known: Iterable[int]) -> Family:
    """Return the selectors that MQINQ or MQSET accepts."""
    names = {value: name for name, value in vars(mq).items() if re.match(r"MQ[IC]A_", name)}
    inert = {each.selector for each in every_attribute() if each.has_no_effect}
    honoured = sorted(names[selector] for selector in known if selector not in inert)
    kept = sorted(names[selector] for selector in known if selector in inert)
    note = "Other selectors are rejected with MQRC_SELECTOR_ERROR (2067)."
    return Family(title, honoured, kept=kept, note=note)


def every_attribute() -> Iterator[attributes.Attribute]:
    """Yield the attributes of every type of queue, and of the queue manager."""
    for kind in (*attributes.QUEUE_ATTRIBUTES.values(), attributes.QUEUE_MANAGER_ATTRIBUTES):
        yield from kind.values()


def pcf_commands() -> Family:
    """Return the PCF commands that are answered."""
    names = {value: name for name, value in vars(pcf_constants).items() if "MQCMD_" in name}
    known = (names[command] for command in command_server.COMMANDS)
    note = (
        "Queues of every type can be created and changed, with the attributes that MQSC supports."
        " Other commands, including those of publish/subscribe, return"
        " MQRCCF_CFH_COMMAND_ERROR (3007). Other selectors return MQRC_SELECTOR_ERROR (2067), and"
        " other parameters the MQRCCF_*_PARM_ID_ERROR of their structure."
    )
    return Family("PCF commands", sorted(known), note=note)


def mqsc_commands() -> Family:
    """Return the MQSC commands that are carried out."""
    known = {f"{verb} {kind}" for verb, kind in administration.OTHER_COMMANDS}
    for verb in administration.QUEUE_VERBS:
        kinds = ["QLOCAL"] if verb == "CLEAR" else [*queue_objects.TYPES]
        known |= {f"{verb} {kind}" for kind in [*kinds, *mqsc_queues._ALSO.get(verb, ())]}
    return Family("MQSC commands", sorted(known), note="Any other command is an error.")


def keywords(title: str, known: Iterable[str], ignored: Iterable[str]) -> Family:
    """Return the accepted MQSC keywords."""
    inert = {each.keyword for each in every_attribute() if each.has_no_effect}
    honoured, kept = sorted(set(known) - inert), sorted(set(known) & inert)
    note = "Any other keyword is an error."
    return Family(title, honoured, kept=kept, ignored=sorted(ignored), note=note)


def reason_codes() -> set[str]:
    """Return the reason codes that the engine's code names."""
    found: set[str] = set()
    for path in ENGINE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (name := _text(node)) in MQRC:
                found.add(name)
    return found - {"MQRC_NONE"}


HEAD = """\
| family | honoured | no test | kept | ignored | rejected |
|---|---:|---:|---:|---:|---:|
"""


def document(cmqc: ModuleType) -> str:
    """Return the document."""
    shown, parts = proofs(), list(families(cmqc))
    text = HEAD
    for part in parts:
        bare = sum(name not in shown for name in part.honoured)
        others = map(len, (part.kept, part.ignored, part.refused))
        counts = (len(part.honoured), bare, *others)
        anchor = re.sub(r"[^a-z0-9 -]", "", part.title.lower()).replace(" ", "-")
        text += f"| [{part.title}](#{anchor}) | {' | '.join(map(str, counts))} |\n"
    for part in parts:
        text += f"\n## {part.title}\n" + "".join(_section(part, shown))
    for title, facts in mqi_facts.TABLES.items():
        text += f"\n## {title}\n\n| case | behaviour | test |\n|---|---|---|\n"
        text += "".join(_fact(fact) for fact in facts)
    text += f"\n## To verify on IBM MQ\n\n{mqi_facts.VERIFIED_BY_CERTIFY}\n\n"
    return text + "".join(f"{n}. {doubt}\n" for n, doubt in enumerate(mqi_facts.TO_VERIFY, 1))


def _fact(fact: mqi_facts.Fact) -> str:
    shown = Shown(1, _files_of_tests()[fact.test], fact.test) if fact.test else "no test"
    return f"| {fact.item} | {fact.does} | {shown} |\n"


@cache
def _files_of_tests() -> dict[str, str]:
    """Return the file of each test function."""
    return {
        node.name: str(path.relative_to(TESTS.parent))
        for directory in SHOWN_BY
        for path in sorted(directory.rglob("test_*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }


def _section(part: Family, shown: Proofs) -> Iterator[str]:
    if part.honoured:
        yield "\n| honoured | test |\n|---|---|\n"
        for name in part.honoured:
            number = f" ({MQRC[name]})" if name in MQRC else ""
            yield f"| {name}{number} | {shown.get(name, 'no test')} |\n"
    for heading, names in (
        ("Default (zero)", part.defaults),
        ("Kept", part.kept),
        ("Ignored", part.ignored),
        (f"Rejected with {part.refusal} ({MQRC[part.refusal]})", part.refused),
    ):
        if names:
            yield f"\n{heading}: {', '.join(names)}.\n"
    if part.note:
        yield f"\n{part.note}\n"


def generated() -> str:
    """Return the document that matches the current code."""
    embedded_mq.install()
    from ibmmq import CMQC

    return document(CMQC)
