from __future__ import annotations

from turnlog.events.call import CallCompleted
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.kinds import KnownEvent
from turnlog.events.plan import PlanMade, StepPlanned
from turnlog.events.tool import (
    SchemasRequested,
    ToolCalled,
    ToolPin,
    ToolReturned,
    ToolsSnapshotted,
    ToolStarted,
)

_TOOL_TEXT = PlainText(text="Ein Satz, “quoted”: naïve, 漢字, 🙂, \t \u2028 and </script>")


def build_tool_samples() -> dict[str, KnownEvent]:
    """Return samples of turns with several calls by name: tools, plans, intermediate answers."""
    pin = ToolPin(digest=compute_digest("look"), server="shop", tool="look", idempotent=True)
    return {
        "tools-snapshotted": ToolsSnapshotted(
            profile="agent",
            digest=compute_digest("all of it"),
            tools={"shop_look": pin},
            full=compute_digest("in full"),
            names=compute_digest("by name"),
            left_out={"shop_buy": "not among the tools that are wanted"},
        ),
        "tools-snapshotted-prompts": ToolsSnapshotted(
            profile="agent",
            digest=compute_digest("prompts alone"),
            tools={},
            full=compute_digest(""),
            names=compute_digest(""),
            prompts=("shop_greet",),
            prompts_text=compute_digest("- shop_greet: Greets."),
        ),
        "schemas-requested": SchemasRequested(profile="agent"),
        "plan-made": PlanMade(turn=4, call="4.1", steps=1),
        "step-planned": StepPlanned(turn=4, step=1, goal=_TOOL_TEXT, tools=("shop_look",)),
        "tool-called-step": ToolCalled(
            turn=4, call="4.2", id="call_1", tool="shop_look", arguments="{}", step=1
        ),
        "step-planned-given": StepPlanned(turn=4, step=1, goal=_TOOL_TEXT, given=17),
        "tool-returned-summary": ToolReturned(
            turn=4, call="4.2", id="call_1", tool="shop_look", outcome="answered", summary=_TOOL_TEXT
        ),
        "tool-started": ToolStarted(turn=4, call="4.2", id="call_1", tool="shop_look", attempt=3),
        "tool-returned-answered": ToolReturned(
            turn=4,
            call="4.2",
            id="call_1",
            tool="shop_look",
            outcome="answered",
            text=_TOOL_TEXT,
            result=compute_digest("all that it gave"),
            characters=48_000,
            treatment="condensed",
            milliseconds=70,
        ),
        "call-completed-text": CallCompleted(
            turn=4,
            call="4.2",
            attempt=2,
            finish="tool_calls",
            digest=_TOOL_TEXT.digest,
            characters=_TOOL_TEXT.characters,
            text=_TOOL_TEXT,
            repairs=("taken out of a block of code",),
        ),
    }
