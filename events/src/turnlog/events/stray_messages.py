"""Stray messages: what is stored under the subjects of a history and is no event of it.

Any client that may publish there can store one. An event states the tenant and the history of its
subject, and its sequence; bytes that do not take no place in the chain. Readers pass over them and
an append goes behind them, so they break nothing, and the projector reports them. Bytes that do
state it are an event of the history, also if they cannot be decoded or continue nothing: whoever
forged or altered them, nothing may be appended behind them (`jetstream/history_end`).
"""

from __future__ import annotations

from turnlog.events.chain_link import parse_chain_header
from turnlog.events.codec import decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt


def parse_history_key(subject: str) -> tuple[str, str]:
    """Return the tenant and the history from the subject of an event."""
    _, tenant, history, *_ = (*subject.split(".", 3), "", "", "")
    return tenant, history


def is_stray(subject: str, stored: bytes) -> bool:
    """Return whether stored bytes are no event of the history of their subject."""
    header = parse_chain_header(stored)
    return header is None or (header.tenant, header.session) != parse_history_key(subject)


def decode_unless_stray(subject: str, stored: bytes, stream_sequence: int) -> RecordedEvent | None:
    """Return the event in a message, or None for a stray one; raises `Corrupt` for a broken one."""
    try:
        event = decode_event(stored, stream_sequence)
    except Corrupt:
        if is_stray(subject, stored):
            return None
        raise
    return event if (event.tenant, event.session) == parse_history_key(subject) else None


def describe_stray(subject: str, stored: bytes) -> str | None:
    """Return why a message is a stray one, or None if it is not."""
    header = parse_chain_header(stored)
    if header is None:
        return "it is no event: it names no tenant, session and sequence"
    if (header.tenant, header.session) != parse_history_key(subject):
        return "it is an event of another session"
    return None
