"""The tools file: the tool servers of an installation, in the form `mcpServers`.

Many programs that use MCP read this form, so one file may serve them all; it may be JSON or YAML.
What another program wrote is read as it is: see `mcp_servers_file_words`.
Which program a worker starts, and with which secrets, is decided here and nowhere else: a blueprint
names the servers, a session pins their names and options, and the worker looks up how they are
reached. The file is read when a process starts.

A value may contain `${NAME}` or `${NAME:-default}`, a variable of the worker's environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
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
from turnlog.services.extensions.mcp_servers_file_words import (
    TranslatedEntry,
    derive_server_name,
    is_address,
    translate_entry,
)

_REFERENCE: Final = re.compile(r"\$\{(?P<inside>[^}]*)\}")

_VARIABLE: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(:-(?P<default>.*))?", re.DOTALL)

_SERVERS_WORD: Final = "mcpServers"


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
    written_names: Mapping[str, str] = field(default_factory=dict[str, str])
    """The names in the file of the servers that are called otherwise here."""
    warnings: tuple[BlueprintFault, ...] = ()
    """What was left out of the file."""

    def build_fault(self, path: DocumentPath, what: str, fix: str) -> BlueprintFault:
        """Return a fault at a path below the servers, with its line."""
        name, *words = path or ("",)
        steps = (self.written_names.get(str(name), name), *words) if path else ()
        finding = BlueprintFinding((_SERVERS_WORD, *steps), what, fix)
        return locate_finding(self.file, self.lines, finding)


def load_tools_file(file: Path) -> ToolsFile:
    """Read a tools file; raise `FaultyToolsFile` with all its faults, each with line and fix."""
    try:
        document = load_yaml(_read_text(file), str(file))
    except FaultyBlueprint as faulty:
        raise FaultyToolsFile(faulty.faults) from None
    translated = _translate_servers(document.value)
    try:
        # Strict and from JSON, so that 8 is not a text while lists may become tuples.
        value = _insert_servers(document.value, translated)
        found = _ToolsFileDocument.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        findings = explain_validation_error(error, _ToolsFileDocument)
        written = [_restore_words(each, translated) for each in findings]
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
        written_names={name: written for written, name in names.items() if name != written},
        warnings=tuple(_find_ignored_words(str(file), document.lines, translated)),
    )
    faults = (*document.faults, *_find_equal_names(tools, names), *_find_reference_faults(tools))
    if faults:
        raise FaultyToolsFile(faults)
    return tools


def _translate_servers(document: JsonValue) -> dict[str, TranslatedEntry]:
    """Translate the servers of a document that are objects."""
    servers = document.get(_SERVERS_WORD) if isinstance(document, dict) else None
    return {
        name: translate_entry(entry, _list_words(entry))
        for name, entry in (servers.items() if isinstance(servers, dict) else ())
        if isinstance(entry, dict)
    }


def _list_words(entry: Mapping[str, JsonValue]) -> frozenset[str]:
    if entry.get("command") is not None:
        return ProgramEntry.list_words()
    words = AddressEntry.list_words()
    return words if is_address(entry) else words | ProgramEntry.list_words()


def _insert_servers(document: JsonValue, translated: Mapping[str, TranslatedEntry]) -> JsonValue:
    servers = document.get(_SERVERS_WORD) if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(servers, dict):
        return document
    inserted: dict[str, JsonValue] = {name: each.value for name, each in translated.items()}
    return {**document, _SERVERS_WORD: {**servers, **inserted}}


def _restore_words(
    finding: BlueprintFinding, translated: Mapping[str, TranslatedEntry]
) -> BlueprintFinding:
    """Return a finding about a translated word as one about the word that the file has."""
    match finding.path:
        case (servers, str(name), str(word), *steps) if name in translated:
            word = translated[name].written.get(word, word)
            return replace(finding, path=(servers, name, word, *steps))
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
                (_SERVERS_WORD, several[-1]),
                f"{listed} are both called `{name}` here",
                "call one of them otherwise, or disable it",
            )
            yield locate_finding(tools.file, tools.lines, finding)


def _find_ignored_words(
    file: str, lines: LineNumbers, translated: Mapping[str, TranslatedEntry]
) -> Iterator[BlueprintFault]:
    """Yield one warning that names all words that mean nothing here."""
    ignored = [f"{name}.{word}" for name, each in translated.items() for word in each.unknown]
    if ignored:
        listed = ", ".join(f"`{each}`" for each in ignored)
        finding = BlueprintFinding(
            (_SERVERS_WORD,), f"these words are ignored: {listed}", "leave them to other programs"
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
    return text.replace("\t", "  ") if text.lstrip().startswith("{") else text


def _find_reference_faults(tools: ToolsFile) -> Iterator[BlueprintFault]:
    if not tools.servers:
        yield tools.build_fault((), "there is no server", "add one that is not disabled")
    for name, server in tools.servers.items():
        for path, text in server.iterate_values():
            for reference in _REFERENCE.finditer(text):
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

    return _REFERENCE.sub(replace, text)


def list_unset_variables(text: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables of a value that are not set and have no default."""
    inside = (_VARIABLE.fullmatch(each["inside"]) for each in _REFERENCE.finditer(text))
    return tuple(
        each["name"]
        for each in inside
        if each and each["default"] is None and not environ.get(each["name"])
    )
