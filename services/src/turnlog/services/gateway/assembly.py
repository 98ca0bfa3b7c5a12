from __future__ import annotations

from collections.abc import Iterator, Sequence

from fastapi import APIRouter, Response
from pydantic import JsonValue

from turnlog.events.manifest import Manifest
from turnlog.projections.audit.reproduction import proven
from turnlog.projections.window.account import LayerAccount, accounts
from turnlog.projections.window.readback import blobs_of
from turnlog.services.gateway.desk import AtDesk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.assembly import Assembly, AssemblyMeta

router = APIRouter()


@router.get(
    "/v1/sessions/{session}/calls/{call}/assembly",
    summary="How the prompt of a call was put together",
    response_model_exclude_none=True,
)
async def show_assembly(
    session: str, call: str, tenant: Tenant, desk: AtDesk, response: Response
) -> Assembly:
    """Return the prompt of a call, its layers and segments, and what was cut to fit.

    The text comes from the manifest's references and the rest from the manifest; nothing is
    assembled again.
    """
    moment = await desk.past.call(tenant, session, call)
    recorded, fixed = moment.recorded, moment.context
    events = await desk.past.referred(moment)
    blobs = await desk.sessions.texts.read_blobs(tenant, blobs_of(fixed.manifest))
    request = proven(fixed, events, blobs)
    stamp(response, recorded.sequence)
    prompt = "\n\n".join(message.content for message in request.messages)
    return Assembly(prompt=prompt, meta=_meta(fixed.manifest))


def _meta(manifest: Manifest) -> AssemblyMeta:
    layers = accounts(manifest)
    return AssemblyMeta(
        order=tuple(each.layer for each in layers if each.stands),
        segments={each.layer: each.segments for each in layers if each.segments},
        tokens=manifest.tokens,
        truncated=dict(_truncated(layers)) or None,
    )


def _truncated(layers: Sequence[LayerAccount]) -> Iterator[tuple[str, JsonValue]]:
    if dropped := [each.layer for each in layers if each.dropped]:
        yield "droppedScopes", [*dropped]
    for each in layers:
        name = _camel(each.layer)
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


def _camel(layer: str) -> str:
    first, *rest = layer.replace("-", "_").split("_")
    return first + "".join(word.capitalize() for word in rest)
