"""A session from four answers, and the requests that the options of previews make up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from turnlog.client import ClientOperation, operations
from turnlog.client.operations import build_read
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.call_payloads import CallList
from turnlog.contract.prompt_requests import AssembleRequest, WindowPreviewRequest
from turnlog.contract.session_payloads import SessionPage
from turnlog.events.errors import Refused
from turnlog.services.api.service_payloads import BlueprintSchemas
from turnlog.services.cli.client.attached_files import PreviewMessage
from turnlog.services.cli.client.prompt_reads import list_calls
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.console import (
    OutputFormat,
    create_output_console,
    dump_answer,
    print_json,
)
from turnlog.services.cli.key_value_args import parse_typed_pairs
from turnlog.services.cli.views.session_view import (
    render_session,
)

MAX_FORKS: Final = 100
"""The most forks shown with a session; `turnlog sessions --origin` lists all."""


async def print_session(
    service: ServiceClient, session: str, at: int | None, output: OutputFormat
) -> None:
    """Print a session with its turns, its calls and its forks; JSON merges the four answers."""
    facts, history, calls = (
        await service.send(operations.fetch_state(session, at=at)),
        await service.send(operations.fetch_history(session, at=at)),
        _drop_later_calls(await service.send(list_calls(session)), at),
    )
    forks = await service.send(
        build_read(api_paths.SESSIONS, SessionPage, {"origin": session, "limit": MAX_FORKS})
    )
    if output == "json":
        print_json(
            {
                **dump_answer(facts),
                "turns": dump_answer(history)["turns"],
                "calls": dump_answer(calls)["calls"],
                "forks": dump_answer(forks)["sessions"],
            }
        )
    else:
        create_output_console().print(render_session(facts, history, calls, forks.sessions))


def _drop_later_calls(calls: CallList, at: int | None) -> CallList:
    """Drop calls made after sequence `at`; the others still show their later attempts."""
    made = tuple(call for call in calls.calls if at is None or call.sequence <= at)
    return calls.model_copy(update={"calls": made})


def build_preview_request(
    at: int | None,
    clock: str | None,
    call: str | None,
    *,
    message: PreviewMessage,
    inputs: Mapping[str, JsonValue],
    budget: int | None,
    model: str | None,
) -> WindowPreviewRequest:
    """Build the request for a window preview; raises `Refused` for `--at` or `--clock`."""
    for name, given_too in (("--at", at), ("--clock", clock)):
        if given_too is not None:
            fix = f"leave out {name}, or all of --text, --attach, --input, --budget and --model"
            raise Refused(
                "bad-option", "a preview shows the session as it is now", field=name, fix=fix
            )
    return WindowPreviewRequest(
        text=message.text,
        parts=message.parts,
        inputs=dict(inputs),
        call=call,
        budget=budget,
        model=model,
    )


def fetch_blueprint(name: str) -> ClientOperation[BlueprintSchemas]:
    """Fetch a blueprint with the schemas of its values."""
    return build_read(format_path(api_paths.BLUEPRINT, blueprint=name), BlueprintSchemas)


async def parse_attributes(
    service: ServiceClient, blueprint: str, pairs: Sequence[str]
) -> dict[str, JsonValue]:
    """Parse attributes by the types that a blueprint gives them.

    Raises `Refused` for an unreadable pair or an unknown blueprint.
    """
    if not pairs:
        return {}
    schemas = await service.send(fetch_blueprint(blueprint))
    return parse_typed_pairs(pairs, "--attribute", schemas.attributes)


async def parse_inputs(
    service: ServiceClient, blueprint: str, pairs: Sequence[str] | None
) -> dict[str, JsonValue]:
    """Parse inputs by the types that a blueprint gives them; raises as `parse_attributes`."""
    if not pairs:
        return {}
    schemas = await service.send(fetch_blueprint(blueprint))
    return parse_typed_pairs(pairs, "--input", schemas.inputs)


async def parse_session_inputs(
    service: ServiceClient, session: str, pairs: Sequence[str] | None
) -> dict[str, JsonValue]:
    """Parse inputs by the types that the blueprint of a session gives them."""
    if not pairs:
        return {}
    opened = await service.send(operations.fetch_state(session))
    return await parse_inputs(service, opened.blueprint, pairs)


def build_assemble_request(
    blueprint: str,
    attributes: Mapping[str, JsonValue],
    profile: str | None,
    call: str | None,
    *,
    message: PreviewMessage,
    inputs: Mapping[str, JsonValue],
    budget: int | None,
    model: str | None,
) -> AssembleRequest:
    """Build the request for a prompt without a session; raises `Refused` for an unreadable pair."""
    return AssembleRequest(
        blueprint=blueprint,
        attributes=dict(attributes),
        profile=profile,
        call=call,
        text=message.text,
        parts=message.parts,
        inputs=dict(inputs),
        budget=budget,
        model=model,
    )
