"""Input and output types of prompt assembly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.model.manifest import CachePrefix, Manifest, RequestDialect
from turnlog.projections.library.segment_selection import CallSegments
from turnlog.projections.prompt.chat_request import ChatRequest
from turnlog.projections.prompt.request_dialect import PLAIN_DIALECT
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.structured_output.output_requests import OutputRequest

ASSEMBLER_VERSION: Final = 8
"""Version of the assembler; raised when the same record gives a different prompt.

Version 2 condenses repeated questions by `repeats-2`. Version 3 includes what was carried into
every visible phase, and not only into the current one, shows the work of a turn without the results
that the same call lists in a layer, and estimates what distilled results, summaries and exclusions
save. Version 4 condenses no repeated question in the last exchange, nor in the messages that a view
keeps once it exceeds its limit, and these count towards the repetitions. Version 5 puts a summary
at the end of the first system message, where that comes right before it, since the templates of
many models take one such message only. Version 6 counts tokens with the factor that the provider's
own counts have shown, and includes turns that were cancelled or failed where their events say so.
Version 7 condenses the arguments of earlier tool rounds where it condenses results, finds the ends
of sentences in every script, lists media that were left out side by side as one part, keeps the
factor of each model, and includes the reasoning before replies where a history keeps it. Version 8
keeps the lasting cuts of the earlier call of its kind (`to` of a trim step), and leaves out tools
that have no room.
How a call asks for the form of its answer needs no version:
its manifest says so, and a manifest without a word of it is of a call that did not ask.
"""

SUPPORTED_ASSEMBLERS: Final = frozenset((1, 2, 3, 4, 5, 6, 7, ASSEMBLER_VERSION))
"""The versions whose rules this one still has, for calls on record."""


def has_left_out_tools(assembler: int) -> bool:
    """Return whether a version leaves out tools that have no room beside a prompt."""
    return assembler >= 8  # noqa: PLR2004 - the version that began with it


def has_estimated_savings(assembler: int) -> bool:
    """Return whether a version estimates the savings of texts that it does not read."""
    return assembler >= 3  # noqa: PLR2004 - the version that began with it


def has_verbatim_last_exchange(assembler: int) -> bool:
    """Return whether a version condenses no last exchange, whatever it repeats."""
    return assembler >= 4  # noqa: PLR2004 - the version that began with it


def has_joined_summary(assembler: int) -> bool:
    """Return whether a version puts a summary into the first system message."""
    return assembler >= 5  # noqa: PLR2004 - the version that began with it


def has_corrected_counts(assembler: int) -> bool:
    """Return whether a version corrects its token counts by those of the provider."""
    return assembler >= 6  # noqa: PLR2004 - the version that began with it


def has_corrections_by_model(assembler: int) -> bool:
    """Return whether a version corrects the counts of each model, not of the latest one only."""
    return assembler >= 7  # noqa: PLR2004 - the version that began with it


def has_cut_turns(assembler: int) -> bool:
    """Return whether a version includes turns that were cancelled or failed and are kept."""
    return assembler >= 6  # noqa: PLR2004 - the version that began with it


def has_condensed_arguments(assembler: int) -> bool:
    """Return whether a version condenses the arguments of earlier tool rounds with the results."""
    return assembler >= 7  # noqa: PLR2004 - the version that began with it


def has_every_script(assembler: int) -> bool:
    """Return whether a version finds the ends of sentences in every script."""
    return assembler >= 7  # noqa: PLR2004 - the version that began with it


def has_joined_omissions(assembler: int) -> bool:
    """Return whether a version lists media that were left out side by side as one part."""
    return assembler >= 7  # noqa: PLR2004 - the version that began with it


def has_lasting_cuts(assembler: int) -> bool:
    """Return whether a version knows trim steps whose cuts last."""
    return assembler >= 8  # noqa: PLR2004 - the version that began with it


def choose_assembler(recorded: int) -> int:
    """Return the version to assemble a recorded call with: its own where that is supported."""
    return recorded if recorded in SUPPORTED_ASSEMBLERS else ASSEMBLER_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCall:
    """A call to be assembled."""

    kind: str
    """The blueprint's name for this kind of call."""
    model: str
    """The model name as litellm spells it."""
    at: str
    """Clock reading, RFC 3339; recorded, so that the prompt can be assembled again."""
    inputs: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The inputs of the turn, as its event holds them."""
    gathered: CallSegments = field(default_factory=lambda: CallSegments({}))
    """The segments that the library returned for this call; recorded with it."""
    assembler: int = ASSEMBLER_VERSION
    """The version of the rules it is assembled by."""
    output_request: OutputRequest | None = None
    """How it asks for the form of its answer; recorded with it. None if it does not ask."""
    dialect: RequestDialect = PLAIN_DIALECT
    """How its request is written for its server; recorded with it, unless it is as it is."""
    is_foreseen: bool = False
    """Whether it is a later call of the turn, assembled to see if it has room: what may come true
    until then counts as true.
    """

    @property
    def provider(self) -> str:
        """The provider that prompt files are resolved for."""
        return parse_provider(self.model)


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """The previous call of the same kind."""

    call: str
    """The call id, such as `3.1`."""
    manifest: Manifest
    recorded_prefix: CachePrefix | None = None
    """What the prompt in question had in common with it, if that was recorded before."""

    @property
    def is_erased(self) -> bool:
        """Whether its words are erased, so that no prompt can be compared with it."""
        return not self.manifest.digest


@dataclass(frozen=True, slots=True)
class PromptNeeds:
    """What must be fetched before a call can be assembled."""

    blobs: tuple[Digest, ...]
    text_refs: tuple[TextRef, ...]
    earlier_sequence: int | None = None
    """Stream sequence of the previous prompt of this kind of call, if there is one."""


@dataclass(frozen=True, slots=True)
class PromptTexts:
    """The fetched texts: blobs by digest, event texts by reference, and the previous call."""

    blobs: Mapping[Digest, str] = field(default_factory=dict[Digest, str])
    by_ref: Mapping[TextRef, str] = field(default_factory=dict[TextRef, str])
    earlier_call: EarlierCall | None = None


@dataclass(frozen=True, slots=True)
class AssembledPrompt:
    """A prompt and the manifest that records how it was assembled."""

    request: ChatRequest
    manifest: Manifest


def parse_provider(model: str) -> str:
    """Return the provider in a litellm model name: `openai` for `openai/gpt-x`."""
    provider, slash, _ = model.partition("/")
    return provider if slash else "openai"
