"""Whether a data directory has sealed sessions and no keyring, looked up before a start."""

from __future__ import annotations

from turnlog.events.errors import Refused
from turnlog.events.jetstream.js_api import JsApiError, fetch_stream_info
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.events.jetstream.stream_setup import STREAM_NOT_FOUND
from turnlog.events.subjects import KEYS_STREAM
from turnlog.services.platform.process_settings import AllInOneSettings
from turnlog.services.seals.keyring_files import (
    KEYRING_FILE,
    apply_directory_keyring,
    is_new_directory,
)


async def refuse_lost_keyring(settings: AllInOneSettings, server_url: str) -> None:
    """Refuse to start on sealed sessions whose keyring is not there, unless sealing is off.

    New sessions would be in the clear, or under a new keyring, for which the old one leaves no
    place when it is found.
    """
    data_dir = settings.data_dir
    if apply_directory_keyring(settings, creating=False).keyring or settings.sealing == "off":
        return
    if is_new_directory(data_dir) or not await _has_key_records(server_url):
        return
    raise Refused(
        "no-keyring",
        f"sessions in {data_dir} are sealed, and their keyring is not there",
        field="TURNLOG_KEYRING",
        fix=f"restore {data_dir / KEYRING_FILE} from where it is kept, or set TURNLOG_KEYRING; with"
        " TURNLOG_SEALING=off it starts, cannot read these sessions, and seals no new ones",
    )


async def _has_key_records(server_url: str) -> bool:
    async with open_connection(server_url, name="turnlog-keyring") as connection:
        try:
            return (await fetch_stream_info(connection, KEYS_STREAM)).message_count > 0
        except JsApiError as denied:
            if denied.code == STREAM_NOT_FOUND:  # The log of a release without sealing.
                return False
            raise
