"""Creates the streams of a NATS, and changes those of an earlier release."""

from __future__ import annotations

from collections.abc import Mapping

from turnlog.events.jetstream.nats_connection import build_service_inbox, open_connection
from turnlog.events.jetstream.stream_setup import StreamOptions, provision_streams
from turnlog.services.cli.environment import read_settings
from turnlog.services.platform.nats_permissions import STREAM_SUBJECTS
from turnlog.services.platform.process_settings import ProcessSettings


async def provision_configured_streams(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Create and check all streams with the settings of the environment; return their names."""
    settings = read_settings(ProcessSettings, environ)
    url = settings.nats_url.get_secret_value()
    async with open_connection(
        url, name="turnlog-provision", inbox_prefix=build_service_inbox(url)
    ) as connection:
        await provision_streams(connection, StreamOptions(replicas=settings.replicas))
    return tuple(STREAM_SUBJECTS)
