"""One sentence per event type, as templates that the command line and the web page both render.

A template is text with placeholders for the stored fields of the event. `{path}` is the value of a
field, `{path|filter}` and `{path|filter:argument}` pass the value through filters, and `[...]` is
left out when one of its placeholders is empty. A field that the stored event lacks is empty.

The command line renders in `cli.views.event_view`. The web page renders the file that
`docs/generate/event_catalogue.py` writes from this module. A test compares both on every sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from turnlog.events.registry import EVENT_TYPES, LIBRARY_EVENT_TYPES, format_event_name

LIBRARY_FAMILY: Final = "prompt"
"""The family of the events of a segment library, whose texts become parts of prompts."""

EVENT_FAMILIES: Final[Mapping[str, str]] = {
    format_event_name(wire_type): kind.leaf.partition(".")[0]
    for wire_type, kind in EVENT_TYPES.items()
} | {format_event_name(wire_type): LIBRARY_FAMILY for wire_type in LIBRARY_EVENT_TYPES}
"""Family by event name: for session events, the first part of the `leaf` of their class."""

UNKNOWN_EVENT_TEMPLATE: Final = "not known to this release · {fields|count:field}"
"""The sentence for an event of an unknown type; `fields` is the number of its fields."""


def _build_figures_template(path: str) -> str:
    """Return the template of what an attempt took and cost; `path` leads to its fields."""
    figures = (
        "timings.total|duration",
        "usage|usage",
        "usage.reasoning_tokens|count:reasoning token",
    )
    more = ("response {%sresponse_id}", "{%sratings|count:safety rating}")
    return "".join(
        (
            *(f"[ · {{{path}{figure}}}]" for figure in figures),
            f"[ · cost {{{path}cost|cost}}]",
            *(f"[ · {each % path}]" for each in more),
        )
    )


EVENT_TEMPLATES: Final[Mapping[str, str]] = {
    "session-opened": (
        "{blueprint.name} v{blueprint.version} · profile {profile}[ · {attributes|assignments}]"
    ),
    "blueprint-moved": (
        "{blueprint.name} v{before.version} → v{blueprint.version} · {blueprint.digest|digest}"
        "[ · new snapshots of prompts for {released|list}]"
    ),
    "profile-switched": "[{before|unless:profile} → ]{profile}[ · model {model}] · {reason}",
    "session-closed": "{reason}",
    "prompts-snapshotted": "for {provider}: {layers|files|else:no prompt file}",
    "tools-snapshotted": "for profile {profile}: {tools|keys|else:no tool}",
    "schemas-requested": "for profile {profile}",
    "turn-submitted": "turn {turn} {text|content}",
    "turn-queued": "turn {turn} {text|content}",
    "turn-released": "turn {turn}",
    "approval-decided": (
        "turn {turn} approval {approval} · {tool} · {decision}[: {reason}]"
        "[ · by the {cause|when:deadline}]"
    ),
    "choice-recorded": "{phase}: {choice}[ “{label}”]",
    "turn-resolved": (
        "turn {turn} is about {intent|or:entity|else:nothing known}"
        "[ · {identifiers|pairs}], {reason}"
    ),
    "knowledge-retrieved": (
        "turn {turn} · {retrieval} in {collections|list} · {candidates|count:candidate}"
        "[ · {nothing_found|flag:nothing taken}][ · {unavailable}]"
    ),
    "turn-completed": (
        "turn {turn} {text|content}[ · fallback after {fallback.code}]"
        "[ · about {reference.identifiers|pairs}]" + _build_figures_template("answer.spent.")
    ),
    "turn-failed": "turn {turn} {code}: {detail}",
    "turn-cancelled": "turn {turn} {reason}",
    "turn-excluded": "turn {turn}",
    "turn-restored": "turn {turn}",
    "turn-displayed": ("turn {turn} · display form[ · {text|flag:text}][ · {reply|flag:reply}]"),
    "feedback-given": "turn {turn} · {vote}[ {comment|content}]",
    "attempt-started": "call {call} · attempt {attempt} · {worker}",
    "context-assembled": (
        "call {call} · {model} · {manifest.tokens|count:token} in "
        "{manifest.parts|included|count:part} · {manifest.digest|digest}"
    ),
    "attempt-ended": ("call {call} · {outcome}[ ({fault.code})]" + _build_figures_template("")),
    "call-completed": (
        "call {call} · {finish} · {characters|count:character}" + _build_figures_template("spent.")
    ),
    "plan-made": "turn {turn} in {steps|count:step}",
    "step-planned": "turn {turn} step {step} {goal|content}[ · known from event {given}]",
    "tool-called": "call {call} · {tool} {arguments}",
    "approval-requested": (
        "turn {turn} approval {approval} · call {call} · {tool} · until {deadline}"
    ),
    "child-requested": "call {call} · {profile} as turn {child_turn} of {session}",
    "child-settled": (
        "call {call} · {profile} {outcome}[: {detail}] · turn {child_turn} of {session}"
    ),
    "child-ended": "turn {turn} · asked by {parent}",
    "tool-started": "call {call} · {tool} · attempt {attempt}",
    "tool-returned": (
        "call {call} · {tool} {outcome}[: {detail}]"
        "[ · {characters|count:character}][ · {treatment|when:condensed}]"
    ),
    "reply-redacted": "turn {turn} by {rule}: {reason}",
    "phase-entered": (
        "[{before} → ]{phase}[ · {signal}][, {forced|flag:forced}]"
        "[ · hides {hidden|list}][ · {carried|content}]"
    ),
    "reference-updated": "turn {turn} was about {identifiers|pairs}",
    "summary-begun": (
        "{view}: summarising {turns|turns}"
        "[ · {trigger.of} of {trigger.tokens} tokens, above {trigger.limit}]"
    ),
    "history-summarised": "{view}: {turns|turns} as {summary|content}",
    "summary-failed": "{view} {code}: {detail}",
    "summary-undone": ("{view}: summary of event {sequence}[ · turn {turn}] {cause|else:asked}"),
    "memory-purged": "no prompt includes turns up to {upto} any more",
}
"""Template by name of a session event."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A field of the stored event and the filters that format it."""

    path: str
    """The names of the field and its inner fields, joined by dots."""
    filters: tuple[tuple[str, str], ...]
    """Name and argument of each filter; the argument is empty if there is none."""


TemplateItem = str | Placeholder

TemplateGroup = tuple[TemplateItem, ...]
"""Text and placeholders that are left out together."""

EventTemplate = tuple[TemplateItem | TemplateGroup, ...]
"""A parsed template; an inner tuple is an optional group."""


def parse_template(template: str) -> EventTemplate:
    """Parse the text of a template."""
    return tuple(_iterate_template(template))


def _iterate_template(template: str) -> Iterator[TemplateItem | TemplateGroup]:
    for piece in re.split(r"(\[[^\]]*\])", template):
        if piece.startswith("["):
            yield tuple(_iterate_items(piece[1:-1]))
        else:
            yield from _iterate_items(piece)


def _iterate_items(piece: str) -> Iterator[TemplateItem]:
    for item in filter(None, re.split(r"(\{[^}]*\})", piece)):
        yield _parse_placeholder(item[1:-1]) if item.startswith("{") else item


def _parse_placeholder(item: str) -> Placeholder:
    path, *filters = item.split("|")
    named = (each.partition(":") for each in filters)
    return Placeholder(path, tuple((name, argument) for name, _, argument in named))
