"""The rows of the index of uses that follow from an event."""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.projections.store.schema.read_model_tables import EVENT_TEXTS, PROMPT_SOURCES
from turnlog.projections.store.write.row_changes import ColumnValues, PutRow, RowChange
from turnlog.projections.uses.event_texts import list_event_texts
from turnlog.projections.uses.prompt_sources import list_prompt_sources


def build_use_rows(recorded: RecordedEvent) -> Iterator[RowChange]:
    """Yield a row for each source of a prompt, and for each text that prompts can include."""
    owner, event = (recorded.tenant, recorded.session), recorded.event
    if isinstance(event, ContextAssembled):
        for source in list_prompt_sources(event.manifest):
            key = (*owner, event.call, source.kind, source.name, source.first)
            values: ColumnValues = {
                "last": source.last,
                "digest": source.digest,
                "lookup": source.lookup,
            }
            yield PutRow(PROMPT_SOURCES, key, values)
        return
    for text in list_event_texts(recorded.sequence, event):
        yield PutRow(
            EVENT_TEXTS,
            (*owner, text.sequence, text.first),
            {
                "kind": text.kind,
                "last": text.last,
                "call": text.call,
                "request": text.request,
                "label": text.label,
                "quoted": text.quoted,
            },
        )
