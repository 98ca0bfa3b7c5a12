"""A client of a Turnlog service over HTTP; this package is all that an application imports."""

from turnlog.client.answers import (
    CommandAnswer,
    HistoryAnswer,
    SessionAnswer,
    SessionListAnswer,
    SessionListEntry,
    SubmitAnswer,
    TurnAnswer,
    TurnEntry,
)
from turnlog.client.async_client import AsyncSessionClient, AsyncTurnlogClient
from turnlog.client.events import (
    AttemptResetEvent,
    CancelledEvent,
    DoneEvent,
    FailedEvent,
    OtherEvent,
    ProgressEvent,
    RedactEvent,
    SessionEvent,
    TokenEvent,
    TurnEvent,
)
from turnlog.client.request_errors import (
    InvalidRequest,
    NotFound,
    RequestConflict,
    RequestFailed,
    RequestForbidden,
    ServiceFault,
    ServiceUnavailable,
    TurnUnsettled,
)
from turnlog.client.sync_client import SessionClient, TurnlogClient

__all__ = [
    "AsyncSessionClient",
    "AsyncTurnlogClient",
    "AttemptResetEvent",
    "CancelledEvent",
    "CommandAnswer",
    "DoneEvent",
    "FailedEvent",
    "HistoryAnswer",
    "InvalidRequest",
    "NotFound",
    "OtherEvent",
    "ProgressEvent",
    "RedactEvent",
    "RequestConflict",
    "RequestFailed",
    "RequestForbidden",
    "ServiceFault",
    "ServiceUnavailable",
    "SessionAnswer",
    "SessionClient",
    "SessionEvent",
    "SessionListAnswer",
    "SessionListEntry",
    "SubmitAnswer",
    "TokenEvent",
    "TurnAnswer",
    "TurnEntry",
    "TurnEvent",
    "TurnUnsettled",
    "TurnlogClient",
]
