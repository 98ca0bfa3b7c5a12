"""How a prompt was assembled, in the words of the assembler that applications used before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from turnlog.events.model.manifest import Manifest
from turnlog.projections.prompt.chat_request import ChatRequest
from turnlog.projections.prompt.manifest_reports import LayerReport, list_layer_reports
from turnlog.services.api.prompt_payloads import PromptAssemblyMeta


def join_messages(request: ChatRequest) -> str:
    """Return the text of a prompt, its messages separated by a blank line."""
    return "\n\n".join(message.content for message in request.messages)


def create_assembly_meta(manifest: Manifest) -> PromptAssemblyMeta:
    """Return the contents of a prompt, and what was cut to fit."""
    layers = list_layer_reports(manifest)
    return PromptAssemblyMeta(
        order=tuple(each.layer for each in layers if each.stands),
        segmentIdsByScope={each.layer: each.segments for each in layers if each.segments},
        tokensEstimated=manifest.tokens,
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
        if each.dropped_items:
            yield f"{name}Dropped", [*each.dropped_items]
        if each.replaced_items:
            yield f"{name}Cued", [*each.replaced_items]
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
