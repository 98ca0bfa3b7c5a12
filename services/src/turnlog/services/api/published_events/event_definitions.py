"""The JSON Schema definitions of everything that is published about events.

These are the stored events, the pages and lines of them, and the events of the SSE streams. The
reference in `docs` and the OpenAPI document contain the same definitions.

A stored event is described as its reader must read it: a field with a default may be missing, and
there may be fields that this release does not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from turnlog.contract.stream_payloads import (
    StreamedResetPayload,
    StreamedTokenPayload,
    TurnStreamPayload,
    UnreadablePayload,
)
from turnlog.events.registry import (
    ALERT_EVENT_TYPES,
    EVENT_NAMES,
    EVENT_TYPES,
    LIBRARY_EVENT_TYPES,
    READ_EVENT_TYPES,
    TENANT_EVENT_TYPES,
)
from turnlog.events.tokens import TokenEvent
from turnlog.projections.session_views.withheld_events import ReaderEnvelope
from turnlog.services.api.published_events.event_pages import SessionPageHead, TenantPageHead
from turnlog.services.api.published_events.field_docstrings import (
    collect_classes,
    read_field_descriptions,
)
from turnlog.services.api.published_events.field_promises import UNPROMISED_FIELDS

JsonSchema = dict[str, Any]

UNPROMISED_KEYWORD: Final = "x-not-promised"
"""The keyword of a field that is not promised; its value is the reason."""

TURN_CURSOR_PATTERN: Final = (
    r"^[1-9][0-9]{0,8}\.[0-9]{1,9}\.[0-9]{1,9}(\.r[0-9]{1,9})?(\.(done|redact|failed|cancelled))?$"
)

POSITION_PATTERN: Final = "^[0-9]{1,18}$"

PLACE_PATTERN: Final = r"^[0-9]{1,18}(\.[0-9]{1,18}){3}$"
"""The id in a stream of a session with tokens, while a turn is open: the event, and the place in
the reply.
"""

TURN_STREAM_PAYLOADS: Final[tuple[type[TurnStreamPayload], ...]] = get_args(TurnStreamPayload)

TOKEN_EVENTS: Final[dict[str, type[BaseModel]]] = {
    kind.model_fields["kind"].default: kind for kind in get_args(get_args(TokenEvent)[0])
}
"""The classes of token events by their `kind`."""

STREAM_ID: Final = "The id of the event, to send as `Last-Event-ID` when the stream is resumed."


def build_event_definitions(reference_prefix: str) -> dict[str, JsonSchema]:
    """Return all definitions by name; references to them begin with the prefix."""
    builder = _DefinitionBuilder(reference_prefix)
    builder.add_stored_events()
    builder.add_pages()
    builder.add_turn_stream()
    builder.add_event_streams()
    builder.add_streams_with_tokens()
    builder.add_token_events()
    return dict(sorted(builder.definitions.items()))


def get_envelope_name(kind: type[BaseModel]) -> str:
    """Return the name of the definition of a stored event."""
    return f"{kind.__name__}Event"


def get_data_name(kind: str) -> str:
    """Return the name of the definition of event data, or of a part of it, by its class name."""
    return kind if kind == "JsonValue" else f"{kind}Data"


class _DefinitionBuilder:
    """Collects definitions."""

    def __init__(self, reference_prefix: str) -> None:
        self.reference_prefix = reference_prefix
        self.definitions: dict[str, JsonSchema] = {}

    def _refer(self, name: str) -> JsonSchema:
        return {"$ref": f"{self.reference_prefix}{name}"}

    def _add_models(
        self, kinds: Iterable[type[BaseModel]], mode: JsonSchemaMode, *, are_data: bool = False
    ) -> None:
        """Add models, and the models they contain, with descriptions and missing promises."""
        chosen = tuple(kinds)
        template = f"{self.reference_prefix}{{model}}"
        _, built = models_json_schema(
            [(kind, mode) for kind in chosen],
            ref_template=template,
        )
        classes = {each.__name__: each for each in collect_classes(chosen)}
        for name, schema in built.get("$defs", {}).items():
            if name in classes:
                _annotate_fields(schema, classes[name])
            schema.pop("title", None)
            target = get_data_name(name) if are_data else name
            self.definitions[target] = self._rename_references(schema) if are_data else schema

    def _rename_references(self, schema: JsonSchema) -> JsonSchema:
        """Return a schema whose references name definitions of event data."""
        found = re.compile(rf'"{re.escape(self.reference_prefix)}([^"]+)"')
        renamed: JsonSchema = json.loads(
            found.sub(
                lambda match: f'"{self.reference_prefix}{get_data_name(match[1])}"',
                json.dumps(schema),
            )
        )
        return renamed

    def add_stored_events(self) -> None:
        """Add the envelope, the events of sessions, library, alerts and reads, and each union."""
        kinds: tuple[type[BaseModel], ...] = (*EVENT_TYPES.values(), *TENANT_EVENT_TYPES.values())
        self._add_models(kinds, "validation", are_data=True)
        self.definitions["EventEnvelope"] = _build_envelope()
        for wire_type, kind in (EVENT_TYPES | TENANT_EVENT_TYPES).items():
            properties = {
                "type": {"const": wire_type, "type": "string"},
                "data": self._refer(get_data_name(kind.__name__)),
            }
            own = {"type": "object", "properties": properties, "required": ["type", "data"]}
            self.definitions[get_envelope_name(kind)] = {
                "description": _read_docstring(kind),
                "allOf": [self._refer("EventEnvelope"), own],
            }
        self._add_event_union(
            "StoredEvent", "A stored event of a session, of a type that this release writes.",
            EVENT_TYPES,
        )  # fmt: skip
        self._add_event_union(
            "StoredLibraryEvent", "A stored event of the segment library.", LIBRARY_EVENT_TYPES
        )
        self._add_event_union("StoredAlertEvent", "A stored event of an alert.", ALERT_EVENT_TYPES)
        self._add_event_union(
            "StoredReadEvent", "A stored event of the log of reads.", READ_EVENT_TYPES
        )

    def _add_event_union(
        self, name: str, description: str, kinds: Mapping[str, type[BaseModel]]
    ) -> None:
        mapping = {
            wire_type: f"{self.reference_prefix}{get_envelope_name(kind)}"
            for wire_type, kind in kinds.items()
        }
        self.definitions[name] = {
            "description": description,
            "oneOf": [{"$ref": reference} for reference in mapping.values()],
            "discriminator": {"propertyName": "type", "mapping": mapping},
        }

    def add_pages(self) -> None:
        """Add the JSON pages of stored events."""
        heads: dict[str, type[BaseModel]] = {
            "SessionEventPage": SessionPageHead,
            "TenantEventPage": TenantPageHead,
        }
        self._add_models(heads.values(), "serialization")
        for name, kind in heads.items():
            page = self.definitions.pop(kind.__name__)
            events = {"type": "array", "items": self._refer("StoredEvent")}
            page["properties"]["events"] = events | {"description": "The events in order."}
            page["required"] = [*page["required"], "events"]
            self.definitions[name] = page

    def add_turn_stream(self) -> None:
        """Add the events of a turn's stream."""
        self._add_models(TURN_STREAM_PAYLOADS, "serialization")
        names = tuple(dict.fromkeys(kind.event for kind in TURN_STREAM_PAYLOADS))
        for name in names:
            kinds = [kind for kind in TURN_STREAM_PAYLOADS if kind.event == name]
            references = [self._refer(kind.__name__) for kind in kinds]
            data = references[0] if len(kinds) == 1 else {"oneOf": references}
            self.definitions[get_frame_name(name)] = _build_frame(
                f"The event `{name}` of a turn's stream.", TURN_CURSOR_PATTERN, [name], data
            )
        mapping = {name: f"{self.reference_prefix}{get_frame_name(name)}" for name in names}
        self.definitions["TurnStreamEvent"] = {
            "description": "One event of a turn's stream, its `data` parsed as JSON.",
            "oneOf": [{"$ref": reference} for reference in mapping.values()],
            "discriminator": {"propertyName": "event", "mapping": mapping},
        }

    def add_event_streams(self) -> None:
        """Add the events of the streams of a session's and of a tenant's stored events."""
        self._add_models([UnreadablePayload], "serialization")
        self.definitions["StoredEventFrame"] = _build_frame(
            "A stored event in a stream; `event` is its type without `turnlog.` and the version.",
            POSITION_PATTERN,
            EVENT_NAMES,
            self._refer("StoredEvent"),
        )
        self.definitions["UnreadableFrame"] = _build_frame(
            "In the place of an event that cannot be read.",
            POSITION_PATTERN,
            [UnreadablePayload.event],
            self._refer(UnreadablePayload.__name__),
        )
        self.definitions["EventStreamEvent"] = {
            "description": "One event of a stream of stored events, its `data` parsed as JSON.",
            "oneOf": [self._refer("StoredEventFrame"), self._refer("UnreadableFrame")],
        }

    def add_streams_with_tokens(self) -> None:
        """Add the events of the same streams with the tokens of replies between them."""
        pieces = (StreamedTokenPayload, StreamedResetPayload)
        self._add_models(pieces, "serialization")
        frames = ["StoredEventFrame", "UnreadableFrame"]
        for piece in pieces:
            name = f"Streamed{get_frame_name(piece.event)}"
            self.definitions[name] = _build_frame(
                f"`{piece.event}` between events; without an `id` where all sessions are watched.",
                PLACE_PATTERN,
                [piece.event],
                self._refer(piece.__name__),
            )
            self.definitions[name]["required"] = ["event", "data"]
            frames.append(name)
        self.definitions["EventInReplyFrame"] = _build_frame(
            "A stored event while a turn is open; its `id` has the place in the reply too.",
            PLACE_PATTERN,
            EVENT_NAMES,
            self._refer("StoredEvent"),
        )
        self.definitions["EventOrTokenEvent"] = {
            "description": "One event of a stream with tokens, its `data` parsed as JSON.",
            "oneOf": [self._refer(name) for name in (*frames, "EventInReplyFrame")],
        }

    def add_token_events(self) -> None:
        """Add the events of a reply that is being generated, as they are on NATS."""
        self._add_models(TOKEN_EVENTS.values(), "validation", are_data=True)
        mapping = {
            kind: f"{self.reference_prefix}{get_data_name(each.__name__)}"
            for kind, each in TOKEN_EVENTS.items()
        }
        for kind, each in TOKEN_EVENTS.items():
            definition = self.definitions[get_data_name(each.__name__)]
            named = {"const": kind, "type": "string", "description": "Which of them it is."}
            definition["properties"]["kind"] = named
            definition["required"] = ["kind", *definition.get("required", ())]
        self.definitions["TokenEvent"] = {
            "description": "A token, or another event of the reply that is being generated.",
            "oneOf": [{"$ref": reference} for reference in mapping.values()],
            "discriminator": {"propertyName": "kind", "mapping": mapping},
        }


def get_frame_name(event: str) -> str:
    """Return the name of the definition of an event of a turn's stream."""
    return "".join(word.capitalize() for word in event.split("-")) + "Frame"


def _build_frame(
    description: str, id_pattern: str, events: Iterable[str], data: JsonSchema
) -> JsonSchema:
    names = list(events)
    event: JsonSchema = {"const": names[0]} if len(names) == 1 else {"enum": names}
    return {
        "description": description,
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": id_pattern, "description": STREAM_ID},
            "event": {**event, "type": "string"},
            "data": data,
        },
        "required": ["id", "event", "data"],
    }


def _build_envelope() -> JsonSchema:
    """Return what all stored events have in common."""
    schema = ReaderEnvelope.model_json_schema()
    _annotate_fields(schema, ReaderEnvelope)
    properties = schema["properties"]
    for name in ("type", "data"):
        del properties[name]
    always = [name for name in properties if ReaderEnvelope.model_fields[name].default is not None]
    return {
        "description": "What all stored events have besides their type and data.",
        "type": "object",
        "properties": properties,
        "required": always,
    }


def _annotate_fields(schema: JsonSchema, kind: type) -> None:
    """Add the descriptions of fields, and the reason at those that are not promised.

    A field that is null by default is left out instead of being written as null.
    """
    descriptions = read_field_descriptions(kind)
    owners = [each.__name__ for each in kind.__mro__]
    for name, field in schema.get("properties", {}).items():
        field.pop("title", None)
        if field.get("default", "") is None:
            _remove_null(field)
        if name in descriptions:
            field["description"] = _NONE_PATTERN.sub(_replace_none, descriptions[name])
        for owner in owners:
            if reason := UNPROMISED_FIELDS.get(f"{owner}.{name}"):
                field[UNPROMISED_KEYWORD] = reason


def _remove_null(field: JsonSchema) -> None:
    del field["default"]
    if "anyOf" in field:  # A field of any JSON has neither kinds nor a type.
        kinds = [each for each in field.pop("anyOf") if each != {"type": "null"}]
        field |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


_NONE_PATTERN: Final = re.compile(r"(^|[.] )?\bNone\b")


def _replace_none(found: re.Match[str]) -> str:
    """Return how a JSON document shows what Python calls None."""
    start: str | None = found[1]
    return "absent" if start is None else f"{start}Absent"


def _read_docstring(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())
