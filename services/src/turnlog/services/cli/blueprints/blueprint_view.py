"""Blueprints on a terminal: a list, their faults, pinned versions, and moves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.projections.blueprint.storable_json import JsonObject
from turnlog.projections.blueprint.validation.blueprint_faults import BlueprintFault
from turnlog.services.api.service_payloads import (
    BlueprintList,
    BlueprintSchemas,
    PinnedTextList,
    PinnedTextView,
)
from turnlog.services.cli.views.text_format import escape_controls, format_count, format_digest
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING, create_listing
from turnlog.services.worker.tools.server_check import CheckedServer, RepeatRule


def render_blueprints(found: BlueprintList) -> RenderableType:
    """List blueprints, followed by those that cannot be loaded."""
    table = create_listing()
    for title in ("blueprint", "profiles", "digest"):
        table.add_column(title, no_wrap=True)
    table.add_column("summary", overflow="fold")
    for each in found.blueprints:
        name = Text(each.blueprint, "bold").append(f" v{each.version}", MUTED)
        digest = Text(each.digest.removeprefix("sha256:")[:12], MUTED)
        table.add_row(name, ", ".join(each.profiles), digest, each.summary)
    faulty = [Text(f"{each.blueprint}: {each.detail}", BAD) for each in found.faulty]
    return Group(table, *faulty)


def render_blueprint(found: BlueprintSchemas) -> RenderableType:
    """Render a blueprint with a line for each of its attributes and inputs."""
    heading = Text(found.blueprint, "bold").append(f" v{found.version}", MUTED)
    heading.append(f"  {format_digest(found.digest)}", MUTED)
    table = create_listing()
    table.add_column("value", no_wrap=True)
    table.add_column("accepts", overflow="fold")
    table.add_column("default", overflow="fold")
    for place, schema in (("attributes", found.attributes), ("inputs", found.inputs)):
        for name, value in _get_properties(schema).items():
            accepted = Text(escape_controls(_describe_schema(value)))
            table.add_row(f"{place}.{name}", accepted, _describe_default(schema, name, value))
    profiles = Text(f"profiles: {', '.join(found.profiles)}", MUTED)
    parts = (heading, Text(escape_controls(found.summary)), profiles)
    ladders = [Text(escape_controls(line)) for line in found.ladders]
    lines = (Text("\nabove a limit", MUTED), *ladders) if ladders else ()
    return Group(*parts, *((Text(), table) if table.row_count else ()), *lines)


def _get_properties(schema: JsonValue) -> dict[str, JsonObject]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    found = properties if isinstance(properties, dict) else {}
    return {name: value for name, value in found.items() if isinstance(value, dict)}


def _describe_schema(schema: JsonObject) -> str:
    listed = schema.get("enum")
    if isinstance(listed, list):
        return f"one of: {', '.join(map(str, listed))}"
    match schema["type"]:
        case "integer":
            return f"a whole number from {schema['minimum']} to {schema['maximum']}"
        case "array":
            return f"a list of {_describe_item(schema.get('items'))}"
        case "boolean":
            return "true or false"
        case "object":
            return "an object"
        case _:
            return _describe_text(schema)


def _describe_item(schema: JsonValue) -> str:
    fields = (f"{name}: {_describe_schema(each)}" for name, each in _get_properties(schema).items())
    return "; ".join(fields) or "anything"


def _describe_text(schema: JsonObject) -> str:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    length = f"of {least} to {most} characters" if most is not None else ""
    at_least = f"of at least {least} characters" if least and most is None else ""
    rules = schema.get("allOf")
    patterns = [schema, *(rules if isinstance(rules, list) else [])]
    written = [each["pattern"] for each in patterns if isinstance(each, dict) and "pattern" in each]
    matching = f"matching {' and '.join(map(str, written))}" if written else ""
    return " ".join(filter(None, ("text", length, at_least, matching)))


def _describe_default(schema: JsonObject, name: str, value: JsonObject) -> Text:
    if "default" in value:
        return Text(escape_controls(json.dumps(value["default"], ensure_ascii=False)))
    return Text("required", WARNING) if name in _iterate_required(schema) else Text()


def _iterate_required(schema: JsonValue) -> Iterator[str]:
    """Yield the names that must be given, also those of which one must be."""
    for key in ("required", "allOf", "anyOf"):
        found = schema.get(key) if isinstance(schema, dict) else None
        for each in found if isinstance(found, list) else ():
            if isinstance(each, str):
                yield each
            else:
                yield from _iterate_required(each)


def render_blueprint_faults(folder: str, faults: Iterable[BlueprintFault]) -> RenderableType:
    """Render the faults of a blueprint folder, and a confirmation if none is an error."""
    all_faults = tuple(faults)
    lines = [render_blueprint_fault(fault) for fault in all_faults]
    if not any(fault.severity == "error" for fault in all_faults):
        lines.append(Text("✓ ", GOOD).append(f"{folder} can be used", "default"))
    return Group(*lines)


def render_blueprint_fault(fault: BlueprintFault) -> Text:
    """Render a fault with its place and its fix."""
    mark, style = ("✗ ", BAD) if fault.severity == "error" else ("! ", WARNING)
    line = Text().append(mark, style).append(f"{fault.file}:{fault.line} ", "bold")
    line.append(f"{fault.path}: " if fault.path else "")
    return line.append(fault.what).append(f"\n  {fault.fix}", MUTED)


def render_checked_servers(blueprint: str, checked: Iterable[CheckedServer]) -> RenderableType:
    """Render what each tool server offers, or why it cannot be used."""
    found = tuple(checked)
    if not found:
        return Text(f"{blueprint} has no tools", MUTED)
    return Group(*(line for each in found for line in _render_checked_server(each)))


def _render_checked_server(checked: CheckedServer) -> Iterator[RenderableType]:
    if checked.code is not None:
        reason, *lines = (checked.detail or "").split("\n")
        yield Text("✗ ", BAD).append(f"{checked.code} ", "bold").append(escape_controls(reason))
        yield from (Text(f"    {escape_controls(line)}", MUTED) for line in lines)
        if not checked.required:
            yield Text("    it is not required: turns go on without its tools", MUTED)
        return
    offered = [tool for tool in checked.tools if tool.left_out is None]
    tokens = format_count(sum(tool.tokens for tool in offered), "token")
    line = Text("✓ ", GOOD) if checked.is_right else Text("✗ ", BAD)
    line.append(checked.server, "bold")
    line.append(f" ({escape_controls(checked.system_name)})" if checked.system_name else "")
    yield line.append(f"  {format_count(len(offered), 'tool')}, about {tokens}", MUTED)
    table = Table.grid(padding=(0, 2))
    for tool in checked.tools:
        facts = f"left out: {tool.left_out}" if tool.left_out else _REPEAT_WORDS[tool.repeat]
        colour = WARNING if tool.left_out else MUTED
        kind = "prompt" if tool.kind == "prompt" else ""
        size = f"{tool.tokens:,} tokens"
        name = f"{tool.name} as {tool.alias}" if tool.alias else tool.name
        table.add_row("", escape_controls(name), kind, Text(facts, colour), Text(size, MUTED))
    yield table
    for name in checked.unknown:
        yield Text(f"    it has no `{escape_controls(name)}`, which an option names", BAD)


_REPEAT_WORDS: Final[Mapping[RepeatRule, str]] = {
    "read-only": "only reads",
    "idempotent": "may run again: its server says so",
    "declared": "may run again: the blueprint says so",
    "once": "runs once",
}


def render_pins(found: PinnedTextList) -> RenderableType:
    """List pins and how to find the sessions of one."""
    if not found.pins:
        return Text("no session is open", MUTED)
    lines = (line for pin in found.pins for line in _render_pin(pin))
    hint = "whose they are: turnlog sessions --open --digest DIGEST"
    return Group(*lines, Text(f"\n{hint}", MUTED))


def _render_pin(pin: PinnedTextView) -> Iterator[Text]:
    """Yield what is pinned, and on a line of its own the digest, whole, to be copied."""
    line = Text(pin.blueprint, "bold").append("  ").append_text(_describe_pin(pin))
    line.append(f"  {format_count(pin.sessions, 'session')}, files say ", MUTED)
    yield line.append_text(_render_pin_state(pin))
    yield Text(f"  {pin.digest}", MUTED, no_wrap=True)


def _describe_pin(pin: PinnedTextView) -> Text:
    if pin.what == "blueprint":
        return Text(f"version {pin.version}")
    if pin.layer is None:
        return Text("memory policy" if pin.what == "memory" else pin.what)
    origin = f"  {escape_controls(pin.path or '')} for {escape_controls(pin.provider or '')}"
    return Text(f"prompt {escape_controls(pin.layer)}").append(origin, MUTED)


def _render_pin_state(pin: PinnedTextView) -> Text:
    match pin.current:
        case True:
            return Text("the same", GOOD)
        case False:
            return Text("otherwise", WARNING)
        case None:
            return Text("it depends", MUTED)
