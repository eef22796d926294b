"""Replace old keys and values in a handler's YAML file by the new ones, with a warning for each."""

from __future__ import annotations

from mqdlq.handlers.documents import MappingNode, Node, Reader, ScalarNode, SequenceNode
from mqdlq.renamed import CHOICES, KEYS, REMOVED_IN, sentence


def use_new_names(node: Node, reader: Reader, path: str = "") -> None:
    """Replace old names in a mapping, or in each mapping of a list; `path` leads to it.

    Each old name is reported as a warning at its place. An old key beside its new one is an error.
    """
    for item in node.value if isinstance(node, SequenceNode) else [node]:
        if isinstance(item, MappingNode):
            item.value = [
                (key, value)
                for key, value in item.value
                if _is_kept(key, value, item, reader, path)
            ]


def _is_kept(key: Node, value: Node, mapping: MappingNode, reader: Reader, path: str) -> bool:
    """Replace the names of a key and its value; return whether to read the pair."""
    if not isinstance(key, ScalarNode):
        return True
    name = key.value.lower()
    new = KEYS.get(path + name)
    if new is not None:
        if any(isinstance(other, ScalarNode) and other.value == new for other, _ in mapping.value):
            message = f"{name} is the name of {new} until mqdlq {REMOVED_IN}: give {new} only"
            reader.error("renamed", key, message)
            return False
        _rename(key, new, reader)
        name = new
    choices = CHOICES.get(path + name, {})
    for scalar in value.value if isinstance(value, SequenceNode) else [value]:
        if isinstance(scalar, ScalarNode) and scalar.value in choices:
            _rename(scalar, choices[scalar.value], reader)
    if any(old.startswith(f"{path}{name}.") for old in KEYS):
        use_new_names(value, reader, f"{path}{name}.")
    return True


def _rename(node: ScalarNode, new: str, reader: Reader) -> None:
    reader.warning("renamed", node, sentence(node.value, new))
    node.value, node.tag = new, "tag:yaml.org,2002:str"  # YAML takes the old key `on` for true
