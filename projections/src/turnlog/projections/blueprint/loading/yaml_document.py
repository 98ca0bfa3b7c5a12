"""A YAML document as plain values, with the line of every value.

YAML 1.2: `on`, `no` and dates are text, and so is every key. The reader refuses whatever could mean
something other than it seems: duplicate keys, tags, aliases that expand too far, and characters
that no event can store.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn

from pydantic import JsonValue
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.scanner import Scanner, ScannerError

from turnlog.events.storable_text import is_storable
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    DocumentPath,
    FaultyBlueprint,
    LineNumbers,
    format_path,
)

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# ruamel leaves its marks and nodes untyped; what is taken out of them is annotated here.


MAX_YAML_CHARACTERS: Final = 200_000

MAX_YAML_VALUES: Final = 20_000

MAX_YAML_DEPTH: Final = 32

_TOKENS_PER_VALUE: Final = 5
"""More than any value has: a member of a mapping is its key, a colon, its value and a line."""

_STRING_TAG: Final = "tag:yaml.org,2002:str"

_STANDARD_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "null", "bool", "int", "float", "timestamp", "merge", "value", "seq", "map")
)
"""The tags that YAML assigns by itself; any other tag was written by the author."""

_INT_PATTERN: Final = re.compile(r"[-+]?[0-9]{1,100}")

_FLOAT_PATTERN: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

_WORD_VALUES: Final[dict[str, JsonValue]] = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "false": False,
}


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """The values of a file, their lines, and the faults of its YAML."""

    value: JsonValue
    lines: LineNumbers
    faults: tuple[BlueprintFault, ...]


@dataclass(frozen=True, slots=True)
class YamlLimits:
    """Size limits of a document."""

    max_characters: int = MAX_YAML_CHARACTERS
    max_values: int = MAX_YAML_VALUES
    fix: str = "move texts into prompt files"
    """The fix suggested for a document that is too long."""


def load_yaml(text: str, file: str, limits: YamlLimits = YamlLimits()) -> YamlDocument:
    """Read a document; raise `FaultyBlueprint` if it cannot be parsed at all."""
    if len(text) > limits.max_characters:
        what = f"it has {len(text)} characters, the limit is {limits.max_characters}"
        raise FaultyBlueprint(
            [BlueprintFault(file=file, line=1, path="", what=what, fix=limits.fix)]
        )
    root = _parse_root(text, file, limits.max_values)
    reading = _YamlReader(file=file, max_values=limits.max_values)
    value = None if root is None else reading.read_node(root, ())
    return YamlDocument(value, reading.lines, tuple(reading.faults))


class BoundedScanner(Scanner):
    """Refuses a document that is too deep, or has too many tokens, before it is read any further.

    ruamel looks at all open brackets again at each token: three thousand of them take seconds.
    """

    def __init__(self, loader: YAML, max_tokens: int) -> None:
        super().__init__(loader)
        self.max_tokens = max_tokens
        self.token_count = 0

    def fetch_more_tokens(self) -> Any:  # noqa: ANN401 - as ruamel has it
        self.token_count += 1
        if self.token_count > self.max_tokens:
            self._refuse("it has too many values")
        return super().fetch_more_tokens()

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: ANN401, N803
        if len(self.flow_context) >= MAX_YAML_DEPTH:
            self._refuse(f"it is nested more than {MAX_YAML_DEPTH} deep")
        super().fetch_flow_collection_start(TokenClass, to_push)

    def add_indent(self, column: int) -> bool:
        if len(self.indents) > MAX_YAML_DEPTH:
            self._refuse(f"it is nested more than {MAX_YAML_DEPTH} deep")
        return super().add_indent(column)

    def _refuse(self, problem: str) -> NoReturn:
        raise ScannerError(problem=problem, problem_mark=self.reader.get_mark())


def _parse_root(text: str, file: str, max_values: int) -> Node | None:
    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = partial(BoundedScanner, max_tokens=_TOKENS_PER_VALUE * max_values)
    # YAML allows an anchor to be redefined. Faults are raised; nothing is printed.
    yaml.composer.warn_double_anchors = False
    try:
        root: Node | None = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        _raise_fault(file, mark.line + 1 if mark else 1, str(error.problem or error.context))
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        _raise_fault(file, line, f"YAML allows no character {error.character:#x}")
    except (YAMLError, RecursionError, ValueError) as error:
        _raise_fault(file, 1, f"it cannot be read: {type(error).__name__}")
    return root


def _raise_fault(file: str, line: int, what: str) -> NoReturn:
    raise FaultyBlueprint(
        [BlueprintFault(file=file, line=line, path="", what=what, fix="mend the YAML")]
    ) from None


@dataclass(slots=True, kw_only=True)
class _YamlReader:
    """Converts the nodes of one document to values, and collects lines and faults."""

    file: str
    max_values: int
    lines: dict[DocumentPath, int] = field(default_factory=dict[DocumentPath, int])
    faults: list[BlueprintFault] = field(default_factory=list[BlueprintFault])
    value_count: int = 0

    def read_node(self, node: Node, path: DocumentPath) -> JsonValue:
        self.value_count += 1
        self.lines.setdefault(path, _get_line(node))
        if self.value_count > self.max_values or len(path) > MAX_YAML_DEPTH:
            _raise_fault(
                self.file, _get_line(node), "with its aliases unfolded it is too large or deep"
            )
        if str(node.tag) not in _STANDARD_TAGS:
            self._add_fault(
                node, path, f"tags such as `{node.tag}` are not read", "leave the tag out"
            )
        if isinstance(node, SequenceNode):
            items: list[Node] = node.value
            return [self.read_node(item, (*path, place)) for place, item in enumerate(items)]
        if isinstance(node, MappingNode):
            return {
                word: self.read_node(item, (*path, word))
                for word, item in self._iterate_items(node, path)
            }
        return self._read_scalar(node, path)

    def _iterate_items(self, node: MappingNode, path: DocumentPath) -> Iterator[tuple[str, Node]]:
        pairs: list[tuple[Node, Node]] = node.value
        for key, item in pairs:
            if not isinstance(key, ScalarNode):
                self._add_fault(key, path, "a key must be a word", "write `word: value`")
                continue
            inside = (*path, word := self._read_text(key, path))
            if inside in self.lines:
                what = f"`{word}` stands on line {self.lines[inside]} already"
                self._add_fault(key, inside, what, "keep one of the two")
                continue
            self.lines[inside] = _get_line(key)
            yield word, item

    def _read_scalar(self, node: Node, path: DocumentPath) -> JsonValue:
        text = self._read_text(node, path)
        if str(node.tag) == _STRING_TAG:
            return text
        if text.lower() in _WORD_VALUES:
            return _WORD_VALUES[text.lower()]
        if _INT_PATTERN.fullmatch(text):
            return int(text)
        if _FLOAT_PATTERN.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        return text

    def _read_text(self, node: Node, path: DocumentPath) -> str:
        text = str(node.value)
        if not is_storable(text):
            what = "NUL and lone surrogates cannot be stored"
            self._add_fault(node, path, what, "remove the character")
        return text.encode(errors="replace").decode()

    def _add_fault(self, node: Node, path: DocumentPath, what: str, fix: str) -> None:
        self.faults.append(
            BlueprintFault(
                file=self.file, line=_get_line(node), path=format_path(path), what=what, fix=fix
            )
        )


def _get_line(node: Node) -> int:
    line: int = node.start_mark.line
    return line + 1
