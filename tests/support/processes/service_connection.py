"""The command line's client of a service that a test already has a connection to."""

from __future__ import annotations

import httpx

from turnlog.client import AsyncTurnlogClient
from turnlog.services.cli.client.service_client import ServiceClient


def connect_service(http: httpx.AsyncClient) -> ServiceClient:
    """Return a client on a connection of the test, which closes it."""
    return ServiceClient(AsyncTurnlogClient(str(http.base_url), max_tries=1, http=http))
