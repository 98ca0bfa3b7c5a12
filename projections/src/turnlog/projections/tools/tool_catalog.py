"""The tool catalog: tools and prompts of servers, filtered, named and formatted.

A model uses a server's prompt as it uses a tool: it requests it by name, and the prompt's text is
the result. The texts are made once and stored: one blob for each tool that a request offers, and
one text each for listing all of them in full or by name. A prompt refers to these blobs, so that it
reads back the same whatever a server says later. Servers are not trusted: a description stays on
the lines of its own tool, and all lengths are limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, Literal

from pydantic import JsonValue

from turnlog.events.content import compute_digest, encode_canonical
from turnlog.events.model.tool_events import ToolPin, ToolsSnapshotted
from turnlog.events.storable_text import replace_unstorable
from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json
from turnlog.projections.blueprint.schema.tool_specs import ALL_TOOLS, ServerSpec, ToolsSpec
from turnlog.projections.blueprint.storable_json import cut_text
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.tools.tool_aliases import assign_aliases
from turnlog.projections.tools.tool_schemas import complete_schema

_MAX_OWN_NAME_CHARACTERS: Final = 256
"""Maximum length of a server's name of a tool, which the log has as it is."""

_MAX_OFFERS: Final = 256
"""Maximum number of tools and prompts of a profile."""

_MAX_DEFINITION_CHARACTERS: Final = 64_000
"""Maximum length of a formatted tool in characters; a longer one is left out."""

_MAX_DESCRIPTION_CHARACTERS: Final = 4_000
"""Maximum length of a description in characters; the rest is cut off."""

_MAX_NAME_CHARACTERS: Final = 128
"""Maximum length of a name or a type that a server chose."""

_MAX_LEFT_OUT: Final = 64
"""Maximum number of excluded tools that are recorded with a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOffer:
    """A tool or a prompt as its server describes it."""

    tool: str
    """The name that the server uses."""
    description: str
    schema: dict[str, JsonValue]
    """JSON Schema of the arguments."""
    kind: Literal["tool", "prompt"] = "tool"
    idempotent: bool = False
    """Whether its server says that it only reads, or that a repeated call changes nothing more."""
    read_only: bool = False
    """Whether its server says that it only reads."""


@dataclass(frozen=True, slots=True)
class DefinitionLimit:
    """The tokens that the definition of one tool may have, so that a call can offer it."""

    tokens: int
    counting: TokenCounter


@dataclass(frozen=True, slots=True)
class ToolCatalog:
    """The recorded tools and prompts of a profile, and the texts they name by digest."""

    event: ToolsSnapshotted
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamedTool:
    name: str
    server: str
    offer: ToolOffer
    idempotent: bool
    alias: str | None = None
    """The name that models know it by; None if that is its own."""

    @property
    def model_name(self) -> str:
        """The name that models know it by."""
        return self.alias or self.name

    @property
    def definition(self) -> dict[str, JsonValue]:
        """The tool as models get it."""
        return format_definition(self.model_name, self.offer)


def format_definition(name: str, offer: ToolOffer) -> dict[str, JsonValue]:
    """Return a tool in OpenAI's format, which litellm translates for other providers."""
    about = cut_text(offer.description, _MAX_DESCRIPTION_CHARACTERS)
    function: dict[str, JsonValue] = {"name": name, "description": about}
    return {
        "type": "function",
        "function": {**function, "parameters": complete_schema(offer.schema)},
    }


@dataclass(frozen=True, slots=True)
class ServerOffers:
    """What the servers of a profile offer, and those that could not be asked."""

    by_server: Mapping[str, Sequence[ToolOffer]]
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """The servers that are not required and could not be asked, each with the reason."""


def find_unknown_approvals(
    spec: ToolsSpec, offers_by_server: Mapping[str, Iterable[ToolOffer]]
) -> dict[str, tuple[str, ...]]:
    """Return by asked server the tools that are to be approved and that it does not have.

    A tool of another name would run without anybody being asked.
    """
    found: dict[str, tuple[str, ...]] = {}
    for server, offers in offers_by_server.items():
        of = spec.servers[server]
        known = {ALL_TOOLS, *(each.tool for each in offers if each.kind == "tool")}
        if unknown := tuple(tool for tool in of.approve if tool not in known):
            found[server] = unknown
    return found


def build_tool_catalog(
    profile: str,
    spec: ToolsSpec,
    found: ServerOffers,
    limit: DefinitionLimit | None = None,
) -> ToolCatalog:
    """Build the catalog of a profile, in the order of the blueprint and of the servers."""
    named: dict[str, _NamedTool] = {}
    left_out: dict[str, str] = {}
    for each in _name_tools(spec, found.by_server):
        if reason := _explain_exclusion(each, spec.servers[each.server], named, limit):
            if len(left_out) < _MAX_LEFT_OUT:
                left_out[_format_single_line(each.name)] = reason
        else:
            named[each.name] = each
    tools = [each for each in named.values() if each.offer.kind == "tool"]
    prompts = [each for each in named.values() if each.offer.kind == "prompt"]
    definitions = {each.name: encode_canonical(each.definition) for each in named.values()}
    absent = tuple(_format_absence(spec, found.left_out))
    full = "\n".join((*_format_list("Tools", tools, spec, _format_tool), *absent))
    by_name = _format_list("Tools", tools, spec, lambda each: f"- {each.model_name}")
    names = "\n".join((*by_name, *absent))
    described = _format_list("Prompts", prompts, spec, _format_tool)
    prompt_texts = ("\n".join(described),) if prompts else ()
    pins = {
        each.name: ToolPin(
            digest=compute_digest(definitions[each.name]),
            server=each.server,
            tool=each.offer.tool,
            idempotent=each.idempotent,
            kind=each.offer.kind,
            approval=each.offer.kind == "tool"
            and spec.servers[each.server].needs_approval(each.offer.tool),
            alias=each.alias,
        )
        for each in named.values()
    }
    event = ToolsSnapshotted(
        profile=profile,
        digest=compute_digest("\n".join([full, *definitions.values(), *prompt_texts])),
        tools=pins,
        full=compute_digest(full),
        names=compute_digest(names),
        left_out=left_out,
        servers_left_out=dict(found.left_out),
        prompts=tuple(each.name for each in prompts),
        prompts_text=compute_digest(prompt_texts[0]) if prompt_texts else None,
    )
    return ToolCatalog(event, (*definitions.values(), full, names, *prompt_texts))


def _name_tools(
    spec: ToolsSpec, offers_by_server: Mapping[str, Iterable[ToolOffer]]
) -> Iterator[_NamedTool]:
    """Yield the tools and prompts of all servers, each with its name."""
    offers = [
        (server, offer, build_tool_name(server, offer))
        for server in spec.servers
        for offer in offers_by_server.get(server, ())
    ]
    aliases = assign_aliases(name for _, _, name in offers)
    for server, offer, name in offers:
        # A prompt is a read, so it may be fetched again
        is_read = offer.kind == "prompt" or offer.idempotent
        yield _NamedTool(
            name=name,
            server=server,
            offer=offer,
            idempotent=is_read or offer.tool in spec.servers[server].idempotent,
            alias=aliases.get(name),
        )


def build_tool_name(server: str, offer: ToolOffer) -> str:
    """Return the name of a tool among those of all servers."""
    return f"{server}_{offer.tool}"


def _explain_exclusion(
    named: _NamedTool,
    spec: ServerSpec,
    taken: Mapping[str, _NamedTool],
    limit: DefinitionLimit | None,
) -> str | None:
    """Return why a tool or prompt is left out, or None."""
    offer = named.offer
    if offer.kind == "tool" and spec.only is not None and offer.tool not in spec.only:
        return "not among `only`"
    if offer.tool in spec.except_:
        return "among `except`"
    if not named.name.isprintable() or len(offer.tool) > _MAX_OWN_NAME_CHARACTERS:
        return f"its name is no line of at most {_MAX_OWN_NAME_CHARACTERS} characters"
    if named.name in taken:
        return "another has that name"
    if len(taken) == _MAX_OFFERS:
        return f"there are {_MAX_OFFERS} before it"
    text = encode_canonical(named.definition)
    if len(text) > _MAX_DEFINITION_CHARACTERS:
        return f"it is described at more than {_MAX_DEFINITION_CHARACTERS} characters"
    try:
        parse_json(text)
    except InvalidJson as fault:
        return f"its description cannot be read: {fault}"
    tokens = limit.counting.count_tokens(text) if limit else 0
    if limit and tokens > limit.tokens:
        return f"its description has {tokens} tokens, and a call has room for {limit.tokens}"
    return None


def _format_list(
    word: str,
    named: Iterable[_NamedTool],
    spec: ToolsSpec,
    format_entry: Callable[[_NamedTool], str],
) -> list[str]:
    """List tools or prompts, below the names of their systems once any system has one."""
    systems = {name: server.system_name for name, server in spec.servers.items()}
    lines: list[str] = []
    for server, of_server in groupby(named, key=lambda each: each.server):
        if any(systems.values()):
            lines.append(f"{word} of {_format_single_line(systems[server] or server)}:")
        lines += map(format_entry, of_server)
    return lines


def _format_absence(spec: ToolsSpec, left_out: Iterable[str]) -> Iterator[str]:
    """Yield the line that names the systems whose tools are missing, if there are any."""
    systems = [spec.servers[server].system_name or server for server in left_out]
    if systems:
        listed = ", ".join(map(_format_single_line, systems))
        yield f"Not available in this session: the tools of {listed}."


def _format_tool(named: _NamedTool) -> str:
    lines = (f"    {line}" for line in _iterate_argument_lines(named.offer.schema))
    return "\n".join(
        (
            f"- {named.model_name}: "
            + _format_single_line(named.offer.description, _MAX_DESCRIPTION_CHARACTERS),
            *lines,
        )
    )


def _iterate_argument_lines(schema: dict[str, JsonValue]) -> Iterator[str]:
    properties, required = schema.get("properties"), schema.get("required")
    required_names = required if isinstance(required, list) else []
    for name, definition in properties.items() if isinstance(properties, dict) else ():
        of = definition if isinstance(definition, dict) else {}
        must = ", required" if name in required_names else ""
        about = _format_single_line(str(of.get("description") or ""), _MAX_DESCRIPTION_CHARACTERS)
        yield f"{_format_single_line(name)} ({_format_argument_type(of)}{must})" + (
            f": {about}" if about else ""
        )


def _format_argument_type(definition: dict[str, JsonValue]) -> str:
    kind = definition.get("type")
    return _format_single_line(kind) if isinstance(kind, str) else "any"


def _format_single_line(text: str, max_characters: int = _MAX_NAME_CHARACTERS) -> str:
    """Format a server's text as part of one line."""
    return cut_text(" ".join(replace_unstorable(text).split()), max_characters)
