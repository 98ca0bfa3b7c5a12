"""Errors, divided by who must act.

    TurnlogError
    ├── Refused      the caller: change the request
    │   └── TooLarge     send less, or store the bulk as a blob
    ├── Conflict     the caller: read again, decide again
    ├── Unavailable  nobody: wait and repeat the same request
    │   └── KeyringMissing  the operator: give this process the keyring of the sealed sessions
    └── Corrupt      the operator: stored data is not what it should be
        ├── LaterRelease   run the release that wrote it, or a later one
        ├── LogRolledBack  the log lacks events that were read from it
        ├── AlteredBlob  restore the blob: its digest is not that of its bytes
        ├── KeysErased   nobody: what was sealed under these keys was erased on purpose
        ├── AlteredMedia  upload the media again, or restore it: it has other bytes
        ├── UnreadableEnd  fork the session before it: a broken event lies behind its last one
        └── StreamHole   restore the stream: it passed sequences that have no message

Errors carry fields, so no caller has to parse sentences. One table at each edge maps them to HTTP
answers, acknowledgements and exit codes.
"""

from __future__ import annotations


class TurnlogError(Exception):
    """Base class of all errors that Turnlog raises on purpose."""


class Refused(TurnlogError):
    """A rule forbids the request; `field` names the faulty part and `fix` how to correct it."""

    def __init__(self, code: str, detail: str, *, field: str | None = None, fix: str = "") -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.field = field
        self.fix = fix


class TooLarge(Refused):
    """More bytes than one event or blob may have; nothing was stored."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            "too-large",
            f"{what} has {size} bytes, the limit is {limit}",
            field=what,
            fix=f"send at most {limit} bytes",
        )
        self.size = size
        self.limit = limit


class Conflict(TurnlogError):
    """Another writer appended first; read the session again from `actual` and decide again."""

    def __init__(self, session: str, expected: int, actual: int | None) -> None:
        super().__init__(f"session {session}: expected sequence {expected}, found {actual}")
        self.session = session
        self.expected = expected
        self.actual = actual


class Unavailable(TurnlogError):
    """A component cannot be reached; repeat the same request after `retry_after` seconds."""

    def __init__(self, what: str, detail: str, *, retry_after: float = 1.0) -> None:
        super().__init__(f"{what} is unavailable: {detail}")
        self.what = what
        self.detail = detail
        self.retry_after = retry_after


class KeyringMissing(Unavailable):
    """An event or a text is sealed, and this process has no keyring to open it with."""

    def __init__(self, place: str) -> None:
        detail = f"{place} is sealed: set TURNLOG_KEYRING to the file with the keys"
        super().__init__(what="keyring", detail=detail, retry_after=30.0)


class Corrupt(TurnlogError):
    """Stored bytes are not what a release of Turnlog wrote; `where` locates them."""

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(f"{where}: {detail}")
        self.where = where
        self.detail = detail


class LaterRelease(Corrupt):
    """Stored data that a later release wrote, and this one does not know."""


class KeysErased(Corrupt):
    """What is read was sealed under keys that were removed, so that nobody reads it any more."""

    def __init__(self, leaves: str) -> None:
        super().__init__(f"keys {leaves}", "they were erased")


class LogRolledBack(Corrupt):
    """The log lacks events that were read from it before: it was rolled back or exchanged."""


class StreamHole(Corrupt):
    """A stream that never deletes has no message from `first` to `last`, by stream sequence."""

    def __init__(self, stream: str, first: int, last: int) -> None:
        alone = first == last
        which = f"sequence {first}" if alone else f"sequences {first} to {last}"
        detail = f"{which} {'is' if alone else 'are'} missing, damaged or deleted"
        super().__init__(f"stream {stream}", f"{detail}: restore the stream from a backup")
        self.stream = stream
        self.first = first
        self.last = last


class UnreadableEnd(Corrupt):
    """Behind a history's last event is a broken one, so nothing can be appended."""

    def __init__(self, *, history: str, sequence: int, position: int, reason: str) -> None:
        place = f"the message at stream sequence {position}, behind event {sequence}"
        super().__init__(history, f"{place}, cannot be read: {reason}")
        self.sequence = sequence
        self.position = position
        self.reason = reason


class AlteredBlob(Corrupt):
    """The bytes stored under a blob's digest have another digest."""

    def __init__(self, digest: str, data: bytes) -> None:
        super().__init__(f"blob {digest}", "its bytes have changed")
        self.data = data


class AlteredMedia(Corrupt):
    """The bytes stored as a picture, a recording or a file have another digest."""

    def __init__(self, digest: str, detail: str) -> None:
        super().__init__(f"media {digest}", detail)
