from __future__ import annotations

from collections.abc import Iterator, Sequence

from fastapi import APIRouter, Response
from pydantic import JsonValue

from turnlog.events.manifest import Manifest
from turnlog.projections.audit.reproduction import read_verified_request
from turnlog.projections.window.account import LayerReport, list_layer_reports
from turnlog.projections.window.readback import list_referenced_blobs
from turnlog.services.gateway.desk import Dependencies, RequestTenant
from turnlog.services.gateway.headers import set_etag
from turnlog.services.gateway.payloads.assembly import PromptAssembly, PromptAssemblyMeta

assembly_router = APIRouter()


@assembly_router.get(
    "/v1/sessions/{session}/calls/{call}/assembly",
    summary="How the prompt of a call was put together",
    response_model_exclude_none=True,
)
async def show_assembly(
    session: str, call: str, tenant: RequestTenant, deps: Dependencies, response: Response
) -> PromptAssembly:
    """Return the prompt of a call, its layers and segments, and what was cut to fit.

    The text comes from the manifest's references and the rest from the manifest; nothing is
    assembled again.
    """
    moment = await deps.time_travel.find_call(tenant, session, call)
    recorded, fixed = moment.recorded, moment.call_context
    events = await deps.time_travel.load_referenced_events(moment)
    blobs = await deps.sessions.texts.read_blobs(tenant, list_referenced_blobs(fixed.manifest))
    request = read_verified_request(fixed, events, blobs)
    set_etag(response, recorded.sequence)
    prompt = "\n\n".join(message.content for message in request.messages)
    return PromptAssembly(prompt=prompt, meta=_create_assembly_meta(fixed.manifest))


def _create_assembly_meta(manifest: Manifest) -> PromptAssemblyMeta:
    layers = list_layer_reports(manifest)
    return PromptAssemblyMeta(
        order=tuple(each.layer for each in layers if each.stands),
        segments={each.layer: each.segments for each in layers if each.segments},
        tokens=manifest.tokens,
        truncated=dict(_iterate_truncations(layers)) or None,
    )


def _iterate_truncations(layers: Sequence[LayerReport]) -> Iterator[tuple[str, JsonValue]]:
    if dropped := [each.layer for each in layers if each.dropped]:
        yield "droppedScopes", [*dropped]
    for each in layers:
        name = _convert_to_camel_case(each.layer)
        if each.trimmed:
            yield f"{name}Trimmed", {"fromChars": each.trimmed.of, "toChars": each.trimmed.to}
        if each.compressed:
            yield f"{name}Compressed", True
        if each.lowered:
            yield (
                f"{name}DroppedTiers",
                [
                    {f"{name}Id": low.item, "fromTier": low.from_tier, "toTier": low.to_tier}
                    for low in each.lowered
                ],
            )


def _convert_to_camel_case(layer: str) -> str:
    first, *rest = layer.replace("-", "_").split("_")
    return first + "".join(word.capitalize() for word in rest)
