"""YAML files as nodes that know their places, with faults by line and column."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from mqdlq.rules.diagnostics import Place, Report, shortened
from mqdlq.rules.reading import closest, decoded

Node = yaml.Node
MappingNode = yaml.MappingNode
ScalarNode = yaml.ScalarNode
SequenceNode = yaml.SequenceNode

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_PLAIN_TAGS: Final = {f"{_TAG}{kind}" for kind in ("str", "int", "float", "bool", "timestamp")}
_LINE_END: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_MOST_LEVELS: Final = 20
_NEEDS_QUOTES: Final = "in YAML a value that begins with & or * needs quotation marks"


class Document:
    """A YAML file: its nodes, and the report of their faults.

    `root` is None if the file is empty or a fault of its syntax was reported. `faults` counts the
    faults of nodes that were reported.
    """

    def __init__(self, data: str | bytes, report: Report) -> None:
        self.report, self.faults = report, 0
        text = decoded(data).removeprefix("\ufeff")
        self.lines = tuple(_LINE_END.split(text))
        self.root = self._parse(text)

    def _parse(self, text: str) -> Node | None:
        if strange := yaml.reader.Reader.NON_PRINTABLE.search(text):
            *before, start = _LINE_END.split(text[: strange.start()])
            self._not_yaml(len(before), len(start), "a character that YAML does not allow")
            return None
        try:
            # libyaml's composer recurses for every level, and too many levels kill the process.
            if deepest := _too_deep(text):
                message = f"more than {_MOST_LEVELS} levels deep"
                self._not_yaml(deepest.line, deepest.column, message)
                return None
            return yaml.compose(text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            words = ", ".join(filter(None, (error.context, error.problem)))
            hint = f"; {_NEEDS_QUOTES}" if "alias" in words or "anchor" in words else ""
            place = (mark.line, mark.column) if mark else (0, 0)
            self._not_yaml(*place, f"{shortened(words)}{hint}")
        except yaml.YAMLError as error:
            self._not_yaml(0, 0, shortened(str(error)))
        return None

    def _not_yaml(self, line: int, column: int, message: str) -> None:
        place = Place(line + 1, column + 1, 1, self._source(line))
        self.report.error("not-yaml", place, f"not YAML: {message}")

    def _source(self, line: int) -> str:
        return self.lines[line] if line < len(self.lines) else ""

    def place(self, node: Node) -> Place:
        """Return the place of a node, or of its first line if it spans lines."""
        start, end, source = node.start_mark, node.end_mark, self._source(node.start_mark.line)
        last = end.column if end.line == start.line else len(source.rstrip())
        return Place(start.line + 1, start.column + 1, max(1, last - start.column), source)

    def error(self, code: str, node: Node, message: str) -> None:
        self.faults += 1
        self.report.error(code, self.place(node), message)

    def entries(self) -> Iterator[tuple[str, ScalarNode, Node]]:
        """Yield the top-level keys in lower case, with their nodes and those of their values."""
        for key, value in self.root.value if isinstance(self.root, MappingNode) else ():
            yield str(key.value).lower(), key, value

    def mapping(self, node: Node, example: str) -> Iterator[tuple[str, ScalarNode, Node]]:
        if not isinstance(node, MappingNode):
            self.error("wrong-kind", node, f"expected keys such as {example}")
            return
        for key, value in node.value:
            if isinstance(key, ScalarNode):
                yield str(key.value), key, value
            else:
                self.error("wrong-kind", key, "expected a key that is a word")

    def keyed(
        self,
        node: Node,
        known: Mapping[str, str],
        example: str,
        elsewhere: Mapping[str, str] | None = None,
    ) -> dict[str, tuple[ScalarNode, Node]]:
        """Return the nodes of a mapping by the meaning of its keys; report all other keys.

        `known` has the meaning of each key, `elsewhere` the right place of other keys; case does
        not count in either.
        """
        spelled = {key.upper(): key for key in known}
        belongs = {key.upper(): where for key, where in (elsewhere or {}).items()}
        found: dict[str, tuple[ScalarNode, Node]] = {}
        for written, key, value in self.mapping(node, example):
            folded = written.upper()
            if folded not in spelled:
                self.error("unknown-keyword", key, _unknown(written, spelled, belongs))
                continue
            meaning = known[spelled[folded]]
            if meaning in found:
                message = f"{meaning} is repeated (first at {self.place(found[meaning][0])})"
                self.error("repeated-keyword", key, message)
            else:
                found[meaning] = key, value
        return found

    def items(self, node: Node, noun: str) -> list[Node]:
        if isinstance(node, SequenceNode):
            return list(node.value)
        self.error("wrong-kind", node, f"expected a list of {noun}")
        return []

    def scalar(self, node: Node) -> str | None:
        """Return the text of a value as written, or None if a fault was reported."""
        if not isinstance(node, ScalarNode) or node.tag not in {*_PLAIN_TAGS, f"{_TAG}null"}:
            self.error("wrong-kind", node, "expected text or a number")
            return None
        text = str(node.value)
        if node.tag == f"{_TAG}null":
            place = self.place(node)
            if place.source[place.column - 1 :].startswith("&"):
                self.error("empty-value", node, f"no value; {_NEEDS_QUOTES}")
                return None
            return ""
        if "\n" in text:
            self.error("invalid-value", node, "a value has one line")
            return None
        return text

    def unknown_key(self, node: Node, path: Sequence[object], known: Iterable[str]) -> None:
        """Report the key at the end of a path below a node; `known` are the keys there.

        Parts of the path that name no key are ignored. If the key is not found, as behind a merge
        key, the place is that of the last node that is.
        """
        *_, written = map(str, path)
        at = node
        for part in path:
            if isinstance(part, int) and isinstance(node, SequenceNode):
                at = node = node.value[part]
            for key, value in node.value if isinstance(node, MappingNode) else ():
                if key.value == part:
                    at, node = key, value
                    break
        spelled = {key.upper(): key for key in known}
        self.error("unknown-keyword", at, _unknown(written, spelled, {}))

    def plain(self, node: Node) -> Any:
        """Return a node's value by YAML's rules, or None if it is null or a fault was reported.

        Keys stay as written, because YAML converts the key `on` to a truth value.
        """
        for key in _keys_below(node):
            if key.tag == f"{_TAG}bool":
                key.tag = f"{_TAG}str"
        try:
            return yaml.SafeLoader("").construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError):
            self.error("not-yaml", node, "a value that YAML cannot make sense of")
            return None


def _too_deep(text: str) -> Any:
    """Return the place where a document is deeper than any valid one."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MOST_LEVELS:
                return event.start_mark
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return None


def _keys_below(node: Node) -> Iterator[Node]:
    """Yield the keys of all mappings in a node, which may contain itself by an anchor."""
    waiting, seen = [node], set()
    while waiting:
        at = waiting.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        if isinstance(at, MappingNode):
            yield from (key for key, _ in at.value)
            waiting += [value for _, value in at.value]
        elif isinstance(at, SequenceNode):
            waiting += at.value


def _unknown(written: str, spelled: Mapping[str, str], belongs: Mapping[str, str]) -> str:
    """Suggest the key that an unknown key most resembles; all keys are in upper case."""
    folded = written.upper()
    if folded in belongs:
        return f"{shortened(written)} belongs {belongs[folded]}"
    meant = closest(folded, spelled)
    advice = f"; did you mean {spelled[meant]}?" if meant else ""
    return f"unknown key {shortened(written)}{advice}"
