"""Checks of turns with several calls: each call answered once, each tool returned once.

A tool is started again only if it is idempotent, and a step is repeated only where none of its
tools can have had an effect. Everything is read from the events alone; which tools are idempotent
is in the event that pins the session's tools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.faults.checks.settling_events import find_settling_events
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import find_call_answer
from turnlog.events.model.tool_events import ToolCalled, ToolReturned, ToolsSnapshotted, ToolStarted

ToolCallKey = tuple[str, str]
"""A call, and the id of a tool that its answer requested."""


def find_tool_faults(events: Sequence[RecordedEvent]) -> Iterator[str]:
    """Say of calls and tools what must not be."""
    answers = (find_call_answer(each.event) for each in events)
    answered = Counter(each.call for each in answers if each)
    yield from (
        f"call {call} was answered {times} times" for call, times in answered.items() if times > 1
    )
    yield from _find_unpaired_tools(events)
    yield from _find_repeated_tools(events)
    yield from _find_repeated_steps(events)


def _find_unpaired_tools(events: Sequence[RecordedEvent]) -> Iterator[str]:
    over, back = find_settling_events(events), Counter[ToolCallKey]()
    called: dict[ToolCallKey, int] = {}
    for recorded in events:
        match recorded.event:
            case ToolCalled(turn=turn, call=call, id=id):
                called[call, id] = turn
            case ToolReturned(call=call, id=id):
                back[call, id] += 1
                if (call, id) not in called:
                    yield f"tool {id} of call {call} came back and was never asked for"
            case _:
                pass
    for (call, id), turn in called.items():
        if back[call, id] > 1 or (turn in over and not back[call, id]):
            yield f"tool {id} of call {call} came back {back[call, id]} times"


def _find_repeated_tools(events: Sequence[RecordedEvent]) -> Iterator[str]:
    """Tools that were begun once more although they may not be, or after they had come back."""
    may: dict[str, bool] = {}
    begun: set[ToolCallKey] = set()
    back: set[ToolCallKey] = set()
    for recorded in events:
        match recorded.event:
            case ToolsSnapshotted(tools=tools):
                may |= {name: pin.idempotent for name, pin in tools.items()}
            case ToolStarted(call=call, id=id, tool=tool):
                if (call, id) in back or ((call, id) in begun and not may.get(tool)):
                    yield f"tool {id} of call {call} was begun once more"
                begun.add((call, id))
            case ToolReturned(call=call, id=id):
                back.add((call, id))
            case _:
                pass


def _find_repeated_steps(events: Sequence[RecordedEvent]) -> Iterator[str]:
    """Steps that were taken once more although some of what was asked for them may be done."""
    calls: dict[tuple[int, int], str] = {}
    done: dict[ToolCallKey, bool] = {}
    for recorded in events:
        match recorded.event:
            case ToolCalled(turn=turn, call=call, id=id, step=int(step)):
                before = calls.get((turn, step), call)
                if before != call and any(may for use, may in done.items() if use[0] == before):
                    yield f"step {step} of turn {turn} was taken once more by call {call}"
                calls[turn, step] = call
                done[call, id] = True
            case ToolReturned(call=call, id=id, outcome=outcome):
                done[call, id] = outcome not in {"failed", "refused"}
            case _:
                pass
