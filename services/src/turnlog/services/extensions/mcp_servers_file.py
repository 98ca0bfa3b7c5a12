"""The tools file: the tool servers of an installation, in the forms that programs with MCP write.

So one file may serve them all. It may be JSON, with comments too, or YAML. What another program
wrote is read as it is: see `mcp_servers_file_words` and `mcp_servers_file_references`.
Which program a worker starts, and with which secrets, is decided here and nowhere else: a blueprint
names the servers, a session pins their names and options, and the worker looks up how they are
reached. The file is read when a process starts.

A value may contain `${NAME}` or `${NAME:-default}`, a variable of the worker's environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Discriminator, Field, JsonValue, Tag, ValidationError

from turnlog.events.errors import Refused
from turnlog.events.event_model import build_discriminator
from turnlog.projections.blueprint.loading.server_sources import ConfiguredServers
from turnlog.projections.blueprint.loading.validation_messages import explain_validation_error
from turnlog.projections.blueprint.loading.yaml_document import load_yaml
from turnlog.projections.blueprint.schema.strict_model import (
    EnvironmentVariable,
    HeaderName,
    StrictModel,
)
from turnlog.projections.blueprint.schema.tool_specs import (
    MAX_SYSTEM_NAME_CHARACTERS,
    ServerOptions,
)
from turnlog.projections.blueprint.storable_json import cut_text
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    BlueprintFinding,
    DocumentPath,
    FaultyBlueprint,
    LineNumbers,
    locate_finding,
)
from turnlog.services.extensions.mcp_servers_file_references import (
    REFERENCE_PATTERN,
    ReferenceValues,
    find_workspace_folder,
    list_input_defaults,
    replace_references,
)
from turnlog.services.extensions.mcp_servers_file_words import (
    TranslatedEntry,
    derive_server_name,
    is_address,
    translate_command,
    translate_entry,
)

_STRING_OR_COMMENT: Final = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|(?<![^\s,\[\]{}])(?://[^\n]*|/\*.*?\*/)', re.DOTALL
)
"""A text, or a comment of JSON; an address without quotes is none."""


_VARIABLE: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(:-(?P<default>.*))?", re.DOTALL)

_SERVERS_WORD: Final = "mcpServers"
"""The word for the servers, also where a file has another."""

_SERVERS_PATHS: Final[tuple[tuple[str, ...], ...]] = (
    (_SERVERS_WORD,),
    ("servers",),
    ("mcp", "servers"),
    ("context_servers",),
    ("mcp",),
)
"""Where files have their servers; the first that is there counts."""


class _ToolsFileServer(ServerOptions):
    disabled: bool = False
    """Whether the server is left out."""

    @classmethod
    def list_words(cls) -> frozenset[str]:
        """Return the words that a server of this kind may have."""
        return frozenset(field.alias or name for name, field in cls.model_fields.items())


class ProgramEntry(_ToolsFileServer):
    """A program that the worker starts and talks to over standard input and output."""

    type: Literal["stdio"] = "stdio"
    command: Annotated[str, Field(min_length=1)]
    args: tuple[str, ...] = ()
    env: dict[EnvironmentVariable, str] = {}
    """Variables that the program gets; it gets no other secret of the worker."""
    cwd: str | None = None
    """The folder that the program is started in; a relative one begins at that of the file."""

    def iterate_values(self) -> Iterator[tuple[DocumentPath, str]]:
        """Yield the path and text of every value that may refer to a variable."""
        yield ("command",), self.command
        yield from ((("cwd",), self.cwd),) if self.cwd else ()
        yield from ((("args", place), text) for place, text in enumerate(self.args))
        yield from ((("env", name), text) for name, text in self.env.items())


class AddressEntry(_ToolsFileServer):
    """A server that is reached over streamable HTTP, or over HTTP with server-sent events."""

    type: Literal["http", "sse"] = "http"
    url: Annotated[str, Field(min_length=1)]
    headers: dict[HeaderName, str] = {}

    def iterate_values(self) -> Iterator[tuple[DocumentPath, str]]:
        """Yield the path and text of every value that may refer to a variable."""
        yield ("url",), self.url
        yield from ((("headers", name), text) for name, text in self.headers.items())


ToolsFileEntry = Annotated[
    Annotated[ProgramEntry, Tag("(command)")] | Annotated[AddressEntry, Tag("(url)")],
    Discriminator(
        build_discriminator("command", "url"),
        custom_error_type="server_kind",
        custom_error_message="a server needs one of: `command`, `url`",
    ),
]


class _ToolsFileDocument(StrictModel):
    # The files of other programs have settings of their own beside the servers.
    model_config = ConfigDict(frozen=True, extra="ignore")

    servers: Annotated[
        dict[Annotated[str, Field(min_length=1)], ToolsFileEntry], Field(alias=_SERVERS_WORD)
    ]


class FaultyToolsFile(Refused):
    """A tools file that cannot be used; `faults` lists everything that is wrong with it."""

    def __init__(self, faults: Iterable[BlueprintFault]) -> None:
        self.faults = tuple(faults)
        detail = "\n".join(map(str, self.faults))
        super().__init__("bad-setting", detail, field="tools", fix="correct the tools file")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsFile:
    """The servers of a tools file, without the disabled ones."""

    file: str
    servers: Mapping[str, ToolsFileEntry]
    """What blueprints and sessions get of them are the names and the options."""
    lines: LineNumbers
    servers_path: DocumentPath = (_SERVERS_WORD,)
    """Where the file has its servers."""
    written_names: Mapping[str, str] = field(default_factory=dict[str, str])
    """The names in the file of the servers that are called otherwise here."""
    warnings: tuple[BlueprintFault, ...] = ()
    """What was left out of the file."""

    def build_fault(self, path: DocumentPath, what: str, fix: str) -> BlueprintFault:
        """Return a fault at a path below the servers, with its line."""
        name, *words = path or ("",)
        steps = (self.written_names.get(str(name), name), *words) if path else ()
        finding = BlueprintFinding((*self.servers_path, *steps), what, fix)
        return locate_finding(self.file, self.lines, finding)


def load_tools_file(file: Path) -> ToolsFile:
    """Read a tools file; raise `FaultyToolsFile` with all its faults, each with line and fix."""
    try:
        document = load_yaml(_read_text(file), str(file))
    except FaultyBlueprint as faulty:
        raise FaultyToolsFile(faulty.faults) from None
    path = _find_servers_path(document.value)
    written_servers = _get_member(document.value, path)
    values = ReferenceValues(find_workspace_folder(file), list_input_defaults(document.value))
    translated = _translate_servers(written_servers, values)
    try:
        # Strict and from JSON, so that 8 is not a text while lists may become tuples.
        value = _insert_servers(document.value, written_servers, translated)
        found = _ToolsFileDocument.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        findings = explain_validation_error(error, _ToolsFileDocument)
        written = [_restore_words(each, translated, path) for each in findings]
        located = [locate_finding(str(file), document.lines, each) for each in written]
        raise FaultyToolsFile((*document.faults, *located)) from None
    enabled = {name: each for name, each in found.servers.items() if not each.disabled}
    names = {written: derive_server_name(written) for written in enabled}
    tools = ToolsFile(
        file=str(file),
        servers={
            names[written]: _add_name(each, written, names) for written, each in enabled.items()
        },
        lines=document.lines,
        servers_path=path,
        written_names={name: written for written, name in names.items() if name != written},
        warnings=tuple(_find_ignored_words(str(file), document.lines, translated, path)),
    )
    faults = (*document.faults, *_find_equal_names(tools, names), *_find_reference_faults(tools))
    if faults:
        raise FaultyToolsFile(faults)
    return tools


def _find_servers_path(document: JsonValue) -> tuple[str, ...]:
    """Return where a document has its servers."""
    present = (path for path in _SERVERS_PATHS if _get_member(document, path) is not None)
    return next(present, (_SERVERS_WORD,))


def _get_member(document: JsonValue, path: Sequence[str]) -> JsonValue:
    for word in path:
        document = document.get(word) if isinstance(document, dict) else None
    return document


def _translate_servers(servers: JsonValue, values: ReferenceValues) -> dict[str, TranslatedEntry]:
    """Translate the servers that are objects."""
    translated = dict[str, TranslatedEntry]()
    for name, entry in servers.items() if isinstance(servers, dict) else ():
        if isinstance(entry, dict):
            words = {word: replace_references(each, values) for word, each in entry.items()}
            translated[name] = translate_entry(words, _list_words(translate_command(words)))
    return translated


def _list_words(entry: Mapping[str, JsonValue]) -> frozenset[str]:
    if entry.get("command") is not None:
        return ProgramEntry.list_words()
    words = AddressEntry.list_words()
    return words if is_address(entry) else words | ProgramEntry.list_words()


def _insert_servers(
    document: JsonValue, servers: JsonValue, translated: Mapping[str, TranslatedEntry]
) -> JsonValue:
    """Return a document with its servers as this product writes them."""
    if not isinstance(document, dict) or servers is None:
        return document
    inserted: dict[str, JsonValue] = {name: each.value for name, each in translated.items()}
    whole: JsonValue = {**servers, **inserted} if isinstance(servers, dict) else servers
    return {_SERVERS_WORD: whole}


def _restore_words(
    finding: BlueprintFinding, translated: Mapping[str, TranslatedEntry], path: DocumentPath
) -> BlueprintFinding:
    """Return a finding about a translated word as one about the word that the file has."""
    match finding.path:
        case (_, str(name), str(word), *steps) if name in translated:
            word = translated[name].written.get(word, word)
            return replace(finding, path=(*path, name, word, *steps))
        case (_, *steps):
            return replace(finding, path=(*path, *steps))
        case _:
            return finding


def _add_name(entry: ToolsFileEntry, written: str, names: Mapping[str, str]) -> ToolsFileEntry:
    """Let prompts and checks call a server as the file does, where the product cannot."""
    if names[written] == written or entry.system_name is not None:
        return entry
    return entry.model_copy(update={"system_name": cut_text(written, MAX_SYSTEM_NAME_CHARACTERS)})


def _find_equal_names(tools: ToolsFile, names: Mapping[str, str]) -> Iterator[BlueprintFault]:
    of_name: dict[str, list[str]] = {}
    for written, name in names.items():
        of_name.setdefault(name, []).append(written)
    for name, several in of_name.items():
        if len(several) > 1:
            listed = " and ".join(f"`{each}`" for each in several)
            finding = BlueprintFinding(
                (*tools.servers_path, several[-1]),
                f"{listed} are both called `{name}` here",
                "call one of them otherwise, or disable it",
            )
            yield locate_finding(tools.file, tools.lines, finding)


def _find_ignored_words(
    file: str,
    lines: LineNumbers,
    translated: Mapping[str, TranslatedEntry],
    path: DocumentPath,
) -> Iterator[BlueprintFault]:
    """Yield one warning that names all words that mean nothing here."""
    ignored = [f"{name}.{word}" for name, each in translated.items() for word in each.unknown]
    if ignored:
        listed = ", ".join(f"`{each}`" for each in ignored)
        finding = BlueprintFinding(
            path, f"these words are ignored: {listed}", "leave them to other programs"
        )
        yield locate_finding(file, lines, finding, "warning")


def load_configured_servers(file: Path | None) -> ConfiguredServers | None:
    """Return the servers that a tools file offers to blueprints; None if there is no tools file."""
    return load_tools_file(file).servers if file else None


def _read_text(file: Path) -> str:
    """Return the text as YAML, which JSON is but for tabs; within a text JSON has none."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        what, fix = error.strerror or type(error).__name__, "name a file that can be read"
        raise FaultyToolsFile(
            [BlueprintFault(file=str(file), line=1, path="", what=what, fix=fix)]
        ) from None
    except UnicodeDecodeError as error:
        what = f"byte {error.start} is not UTF-8"
        raise FaultyToolsFile(
            [BlueprintFault(file=str(file), line=1, path="", what=what, fix="save it as UTF-8")]
        ) from None
    is_json = text.lstrip().startswith(("{", "//", "/*"))
    return remove_comments(text).replace("\t", "  ") if is_json else text


def remove_comments(text: str) -> str:
    """Return JSON without the comments that some programs allow; no line moves."""

    def keep_lines(found: re.Match[str]) -> str:
        written = found[0]
        return written if written.startswith('"') else re.sub(r"[^\n]", " ", written)

    return _STRING_OR_COMMENT.sub(keep_lines, text)


def _find_reference_faults(tools: ToolsFile) -> Iterator[BlueprintFault]:
    if not tools.servers:
        yield tools.build_fault((), "there is no server", "add one that is not disabled")
    for name, server in tools.servers.items():
        for path, text in server.iterate_values():
            for reference in REFERENCE_PATTERN.finditer(text):
                if not _VARIABLE.fullmatch(reference["inside"]):
                    what = f"`{reference[0]}` is no variable"
                    fix = "write `${NAME}` or `${NAME:-default}`"
                    yield tools.build_fault((name, *path), what, fix)


def expand_variables(text: str, environ: Mapping[str, str]) -> str:
    """Return a value with its variables replaced; one that is not set is empty."""

    def replace(reference: re.Match[str]) -> str:
        variable = _VARIABLE.fullmatch(reference["inside"])
        if variable is None:
            return reference[0]
        return environ.get(variable["name"]) or variable["default"] or ""

    return REFERENCE_PATTERN.sub(replace, text)


def list_unset_variables(text: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables of a value that are not set and have no default."""
    inside = (_VARIABLE.fullmatch(each["inside"]) for each in REFERENCE_PATTERN.finditer(text))
    return tuple(
        each["name"]
        for each in inside
        if each and each["default"] is None and not environ.get(each["name"])
    )
