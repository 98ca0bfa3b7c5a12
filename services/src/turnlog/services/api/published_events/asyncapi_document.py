"""The AsyncAPI 3 document: every channel on which events and tokens are read, with its messages.

It is built from the registry of events and from the definitions that the reference and the OpenAPI
document have too. On NATS a channel is a subject: the stored messages of `SESSIONS`, `LIBRARY`,
`ALERTS` and `TOKENS`, and behind `live.` what the server repeats of the first and the last. Over
HTTP it is one of the streams of server-sent events.

Objects are open (no `additionalProperties: false`), because later releases may add fields and a
reader must not refuse them. `discriminator` is the name of a property, as AsyncAPI has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, cast

from pydantic import BaseModel

from turnlog.contract import api_paths
from turnlog.events.ids import ID_PATTERN
from turnlog.events.registry import (
    ALERT_EVENT_TYPES,
    EVENT_TYPES,
    LIBRARY_EVENT_TYPES,
    LIBRARY_FAMILIES,
    TENANT_EVENT_TYPES,
    format_event_name,
)
from turnlog.events.subjects import (
    ALERT_HISTORY,
    LIBRARY_HISTORY,
    REPUBLISH_PREFIX,
    SESSION_HISTORY,
    TOKENS_STREAM,
    HistoryKind,
)
from turnlog.services.api.published_events.event_definitions import (
    JsonSchema,
    build_event_definitions,
    get_envelope_name,
)

ASYNCAPI_VERSION: Final = "3.0.0"

CONTRACT_VERSION: Final = "1"
"""The version of the contract; types of events have versions of their own."""

_SCHEMAS: Final = "#/components/schemas/"

_PARAMETERS: Final[Mapping[str, str]] = {
    "tenant": f"The tenant, `{ID_PATTERN}`; `default` where there is one only.",
    "alert": f"The name of the alert, `{ID_PATTERN}`.",
    "session": f"The session, `{ID_PATTERN}`.",
    "turn": "The number of the turn, from 1.",
    "period": "The period of a quota.",
    "family": "The family: `knowledge`, `segments` or `prompt-overrides`.",
    "id": "The id of a webhook.",
    "user": "The user whose quota it is, as the library writes the name.",
}

_SERVERS: Final[Mapping[str, JsonSchema]] = {
    "nats": {
        "host": "127.0.0.1:4222",
        "protocol": "nats",
        "description": (
            "The nats-server of the installation, with the login of consumers: `nats_consumer` of"
            " the ready file of `turnlog up`, or the user `consumer`. It can publish nothing."
        ),
    },
    "gateway": {
        "host": "127.0.0.1:8700",
        "protocol": "http",
        "description": "A gateway; `Accept: text/event-stream` asks for a stream.",
    },
}

_LIVE_HEADERS: Final[JsonSchema] = {
    "type": "object",
    "properties": {
        "Nats-Stream": {"type": "string", "description": "The stream that stored the message."},
        "Nats-Subject": {"type": "string", "description": "Its subject there."},
        "Nats-Sequence": {"type": "string", "description": "Its place in the stream, a number."},
        "Nats-Last-Sequence": {
            "type": "string",
            "description": (
                "The place of the message before it on the same subject, 0 for the first. Where it"
                " is not the last one that was seen, messages were lost: read them from the stream."
            ),
        },
        "Nats-Time-Stamp": {"type": "string", "description": "When it was stored, RFC 3339."},
    },
    "required": ["Nats-Sequence", "Nats-Last-Sequence"],
}

_STREAM_NAMES: Final = {
    "turnStream": (
        api_paths.TURN_STREAM,
        ("TurnStreamEvent",),
        "The reply of one turn while it is generated. The `id` is a cursor for `Last-Event-ID`.",
    ),
    "sessionEventStream": (
        api_paths.SESSION_EVENTS,
        ("EventStreamEvent", "EventOrTokenEvent"),
        (
            "The events of a session, past and then live. The `id` is the sequence. With"
            " `tokens=true` the reply to its open turn is between them, and the `id` has the place"
            " there too."
        ),
    ),
    "tenantEventStream": (
        api_paths.EVENTS,
        ("EventStreamEvent", "EventOrTokenEvent"),
        (
            "The events of all sessions, past and then live. The `id` is the stream sequence. With"
            " `tokens=true` replies are between them, without an `id`."
        ),
    ),
}
"""The streams over HTTP: path, definitions of their events, and what they are."""


@cache
def build_asyncapi() -> JsonSchema:
    """Return the document; nobody may change it, because it is built once."""
    channels = {**_build_event_channels(), **_build_token_channels(), **_build_sse_channels()}
    return {
        "asyncapi": ASYNCAPI_VERSION,
        "info": {
            "title": "Events and tokens of Turnlog",
            "version": CONTRACT_VERSION,
            "description": (
                "What a program can rely on that follows sessions. Types and fields that are not in"
                " here may come with a later release: ignore them."
            ),
        },
        "defaultContentType": "application/json",
        "servers": dict(_SERVERS),
        "channels": channels,
        "operations": {
            f"send{name[0].upper()}{name[1:]}": {
                "action": "send",
                "channel": {"$ref": f"#/channels/{name}"},
            }
            for name in channels
        },
        "components": {
            "messages": _build_messages(),
            "schemas": {
                **_build_schemas(),
                "RepublishedHeaders": _LIVE_HEADERS,
            },
        },
    }


def _build_schemas() -> dict[str, JsonSchema]:
    """Return the definitions with discriminators that are names of properties."""
    definitions = build_event_definitions(_SCHEMAS)
    for definition in definitions.values():
        _name_discriminators(definition)
    return definitions


def _name_discriminators(schema: object) -> None:
    """Replace discriminators in the form of OpenAPI by those of AsyncAPI."""
    for name, value in iterate_members(schema):
        if name == "discriminator" and isinstance(value, dict):
            cast("JsonSchema", schema)[name] = cast("JsonSchema", value)["propertyName"]
        else:
            _name_discriminators(value)


def iterate_members(schema: object) -> Iterator[tuple[str, object]]:
    """Yield the members of an object with their names, or those of a list without one."""
    if isinstance(schema, dict):
        yield from list(cast("dict[str, object]", schema).items())
    elif isinstance(schema, list):
        yield from (("", each) for each in cast("list[object]", schema))


def _build_messages() -> dict[str, JsonSchema]:
    messages: dict[str, JsonSchema] = {}
    # Consumers have no access to the log of reads.
    for wire_type, kind in (each for types in _HISTORIES.values() for each in types.items()):
        messages[format_event_name(wire_type)] = {
            "name": wire_type,
            "summary": " ".join((kind.__doc__ or "").split("\n\n")[0].split()),
            "payload": {"$ref": f"{_SCHEMAS}{get_envelope_name(kind)}"},
        }
    messages["token-event"] = {
        "name": "token-event",
        "summary": "A token, or another event of the reply that is being generated.",
        "payload": {"$ref": f"{_SCHEMAS}TokenEvent"},
    }
    for name in ("TurnStreamEvent", "EventStreamEvent", "EventOrTokenEvent"):
        messages[name] = {
            "name": name,
            "summary": "A server-sent event: its id, its name, and its data parsed as JSON.",
            "contentType": "text/event-stream",
            "payload": {"$ref": f"{_SCHEMAS}{name}"},
        }
    return messages


def _build_event_channels() -> dict[str, JsonSchema]:
    channels: dict[str, JsonSchema] = {}
    for address, types in sorted(list_event_subjects().items()):
        (history,) = (each for each in _HISTORIES if address.startswith(f"{each.prefix}."))
        name = _name_channel(address)
        what = f"Stored in the stream `{history.stream}`, from which a JetStream consumer reads it."
        channels[name] = _build_nats_channel(address, types, what)
        if history is SESSION_HISTORY:
            channels[f"{REPUBLISH_PREFIX}{name[0].upper()}{name[1:]}"] = _build_live_channel(
                address, types
            )
    return channels


_HISTORIES: Final[Mapping[HistoryKind, Mapping[str, type[Any]]]] = {
    SESSION_HISTORY: EVENT_TYPES,
    LIBRARY_HISTORY: LIBRARY_EVENT_TYPES,
    ALERT_HISTORY: ALERT_EVENT_TYPES,
}


def list_event_subjects() -> dict[str, list[str]]:
    """Return the names of events by the subject on which they are stored."""
    by_subject: dict[str, list[str]] = {}
    for history, types in _HISTORIES.items():
        for wire_type, kind in types.items():
            owner = _find_family(kind) if history is LIBRARY_HISTORY else f"{{{history.id_name}}}"
            address = f"{history.prefix}.{{tenant}}.{owner}.{kind.leaf}"
            by_subject.setdefault(address, []).append(format_event_name(wire_type))
    return by_subject


def _find_family(kind: type[BaseModel]) -> str:
    """Return the family of a library event, with its variable parts as parameters."""
    family: str = LIBRARY_FAMILIES[kind]  # type: ignore[index]
    return re.sub("[A-Z]+", lambda found: f"{{{found[0].lower()}}}", family)


def _name_channel(address: str) -> str:
    words = re.findall("[a-z]+", address)
    words = [word for word in words if word not in {"tenant", "session"} or words.index(word) == 0]
    return "".join([words[0], *(word.capitalize() for word in words[1:])])


def _build_token_channels() -> dict[str, JsonSchema]:
    address = "tokens.{tenant}.{session}.{turn}"
    what = (
        f"Kept in memory, in the stream `{TOKENS_STREAM}`, for some minutes. The text of a reply is"
        " made of the tokens of its highest attempt, each at its `offset`; the event that ends the"
        " turn has the whole."
    )
    return {
        "tokens": _build_nats_channel(address, ["token-event"], what),
        f"{REPUBLISH_PREFIX}Tokens": _build_live_channel(address, ["token-event"]),
    }


def _build_live_channel(address: str, messages: Iterable[str]) -> JsonSchema:
    what = (
        "Repeated by the server when it stores the message, at most once. The headers"
        " (`RepublishedHeaders`) tell where one was lost."
    )
    return _build_nats_channel(f"{REPUBLISH_PREFIX}.{address}", messages, what)


def _build_nats_channel(address: str, messages: Iterable[str], what: str) -> JsonSchema:
    return _build_channel(address, messages, what, "nats")


def _build_sse_channels() -> dict[str, JsonSchema]:
    return {
        name: _build_channel(path, definitions, what, "gateway")
        for name, (path, definitions, what) in _STREAM_NAMES.items()
    }


def _build_channel(
    address: str, messages: Iterable[str], description: str, server: str
) -> JsonSchema:
    parameters = re.findall(r"\{(\w+)\}", address)
    return {
        "address": address,
        "description": description,
        "servers": [{"$ref": f"#/servers/{server}"}],
        "parameters": {name: {"description": _PARAMETERS[name]} for name in parameters},
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
    }


UNION_NAMES: Final = (
    "EventOrTokenEvent",
    "EventStreamEvent",
    "StoredAlertEvent",
    "StoredEvent",
    "StoredLibraryEvent",
    "TokenEvent",
    "TurnStreamEvent",
)
"""Definitions of events of any type, which have a schema of their own too."""


def build_single_schemas() -> dict[str, JsonSchema]:
    """Return schemas that refer to nothing else, by the name of their file without its ending.

    There is one for each type of stored events, and one for each kind of events of any type.
    """
    kinds = (EVENT_TYPES | TENANT_EVENT_TYPES).items()
    roots = {wire_type: get_envelope_name(kind) for wire_type, kind in kinds}
    roots |= {name: name for name in UNION_NAMES}
    definitions = build_event_definitions("#/$defs/")
    return {name: _build_single_schema(definitions, name, root) for name, root in roots.items()}


def _build_single_schema(definitions: Mapping[str, JsonSchema], name: str, root: str) -> JsonSchema:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{name}.json",
        "title": root,
        "$ref": f"#/$defs/{root}",
        "$defs": {each: definitions[each] for each in sorted(_collect_names(definitions, root))},
    }


def _collect_names(definitions: Mapping[str, JsonSchema], root: str) -> set[str]:
    """Return the names of a definition and of all that it refers to."""
    names, waiting = set[str](), [root]
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += _list_references(definitions[name])
    return names


def _list_references(schema: object) -> list[str]:
    members = tuple(iterate_members(schema))
    found = [str(value).rpartition("/")[2] for name, value in members if name == "$ref"]
    return found + [name for _, value in members for name in _list_references(value)]
