"""A YAML document as plain values, with the line of every value.

YAML 1.2: `on`, `no` and dates are text, and so is every key. The reader refuses whatever could mean
something other than it seems: duplicate keys, tags, aliases that expand too far, and characters
that no event can store.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# ruamel leaves its marks and nodes untyped; what is taken out of them is annotated here.

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn

from pydantic import JsonValue
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from turnlog.projections.blueprint.faults import Fault, FaultyBlueprint, Lines, Path, dotted
from turnlog.projections.blueprint.storable import storable

MAX_CHARACTERS: Final = 200_000
MAX_VALUES: Final = 20_000
MAX_DEPTH: Final = 32

_TEXT: Final = "tag:yaml.org,2002:str"
_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "null", "bool", "int", "float", "timestamp", "merge", "value", "seq", "map")
)
"""The tags that YAML assigns by itself; any other tag was written by the author."""
_INT: Final = re.compile(r"[-+]?[0-9]{1,100}")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: Final[dict[str, JsonValue]] = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "false": False,
}


@dataclass(frozen=True, slots=True)
class Document:
    """The values of a file, their lines, and the faults of its YAML."""

    value: JsonValue
    lines: Lines
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class Most:
    """Size limits of a document."""

    characters: int = MAX_CHARACTERS
    values: int = MAX_VALUES
    instead: str = "move texts into prompt files"
    """The fix suggested for a document that is too long."""


def document(text: str, file: str, most: Most = Most()) -> Document:
    """Read a document; raise `FaultyBlueprint` if it cannot be parsed at all."""
    if len(text) > most.characters:
        what = f"it has {len(text)} characters, the limit is {most.characters}"
        raise FaultyBlueprint([Fault(file, 1, "", what, most.instead)])
    root = _composed(text, file)
    reading = _Reading(file, most.values)
    value = None if root is None else reading.value_of(root, ())
    return Document(value, reading.lines, tuple(reading.faults))


def _composed(text: str, file: str) -> Node | None:
    yaml = YAML(typ="safe", pure=True)
    # YAML allows an anchor to be redefined. Faults are raised; nothing is printed.
    yaml.composer.warn_double_anchors = False
    try:
        root: Node | None = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        _refuse(file, mark.line + 1 if mark else 1, str(error.problem or error.context))
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        _refuse(file, line, f"YAML allows no character {error.character:#x}")
    except (YAMLError, RecursionError, ValueError) as error:
        _refuse(file, 1, f"it cannot be read: {type(error).__name__}")
    return root


def _refuse(file: str, line: int, what: str) -> NoReturn:
    raise FaultyBlueprint([Fault(file, line, "", what, "mend the YAML")]) from None


@dataclass(slots=True)
class _Reading:
    """Converts the nodes of one document to values, and collects lines and faults."""

    file: str
    most: int
    lines: dict[Path, int] = field(default_factory=dict[Path, int])
    faults: list[Fault] = field(default_factory=list[Fault])
    values: int = 0

    def value_of(self, node: Node, path: Path) -> JsonValue:
        self.values += 1
        self.lines.setdefault(path, _line(node))
        if self.values > self.most or len(path) > MAX_DEPTH:
            _refuse(self.file, _line(node), "with its aliases unfolded it is too large or deep")
        if str(node.tag) not in _TAGS:
            self._note(node, path, f"tags such as `{node.tag}` are not read", "leave the tag out")
        if isinstance(node, SequenceNode):
            items: list[Node] = node.value
            return [self.value_of(item, (*path, place)) for place, item in enumerate(items)]
        if isinstance(node, MappingNode):
            return {
                word: self.value_of(item, (*path, word)) for word, item in self._items(node, path)
            }
        return self._scalar(node, path)

    def _items(self, node: MappingNode, path: Path) -> Iterator[tuple[str, Node]]:
        pairs: list[tuple[Node, Node]] = node.value
        for key, item in pairs:
            if not isinstance(key, ScalarNode):
                self._note(key, path, "a key must be a word", "write `word: value`")
                continue
            inside = (*path, word := self._storable(key, path))
            if inside in self.lines:
                what = f"`{word}` stands on line {self.lines[inside]} already"
                self._note(key, inside, what, "keep one of the two")
                continue
            self.lines[inside] = _line(key)
            yield word, item

    def _scalar(self, node: Node, path: Path) -> JsonValue:
        text = self._storable(node, path)
        if str(node.tag) == _TEXT:
            return text
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        return text

    def _storable(self, node: Node, path: Path) -> str:
        text = str(node.value)
        if not storable(text):
            what = "NUL and lone surrogates cannot be stored"
            self._note(node, path, what, "take the character out")
        return text.encode(errors="replace").decode()

    def _note(self, node: Node, path: Path, what: str, fix: str) -> None:
        self.faults.append(Fault(self.file, _line(node), dotted(path), what, fix))


def _line(node: Node) -> int:
    line: int = node.start_mark.line
    return line + 1
