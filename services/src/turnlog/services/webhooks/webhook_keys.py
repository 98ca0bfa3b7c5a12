"""The secrets of webhooks, each derived from one key of the installation, and signatures.

A secret is in no event and in no read model: it is derived from the key and the id of the webhook
whenever a delivery is signed. The record has a sign of the key, so that a deliverer with another
key does not sign what no receiver would believe. Signatures are those of Standard Webhooks.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Final

import structlog
from pydantic import SecretStr

from turnlog.events.errors import Refused
from turnlog.services.platform.process_settings import AllInOneSettings, WebhookSettings
from turnlog.services.platform.whole_files import write_private_file

KEY_FILE_NAME: Final = "webhook-key"
"""Name of the key file in a data directory."""

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - the prefix of every one

_KEY_FORM: Final = re.compile("[0-9a-f]{64}")

_log = structlog.get_logger("turnlog.webhooks")


@dataclass(frozen=True, slots=True)
class WebhookKey:
    """The key of an installation that the secrets of its webhooks are derived from."""

    key: str = field(repr=False)

    @property
    def sign(self) -> str:
        """What the record says of the key; the key does not follow from it."""
        return self._derive(b"sign").hex()[:16]

    def derive_secret(self, tenant: str, webhook_id: str) -> str:
        """Return the secret of a webhook in the form that receivers take it."""
        secret = self._derive(b"secret %s %s" % (tenant.encode(), webhook_id.encode()))
        return SECRET_PREFIX + base64.b64encode(secret).decode()

    def _derive(self, purpose: bytes) -> bytes:
        return hmac.digest(self.key.encode(), b"turnlog webhook " + purpose, "sha256")


def create_signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the header `webhook-signature` of a message."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    content = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def get_webhook_key(settings: WebhookSettings) -> WebhookKey | None:
    """Return the key of the settings, or None without one."""
    return WebhookKey(settings.webhook_key.get_secret_value()) if settings.webhook_key else None


def require_webhook_key(key: WebhookKey | None) -> WebhookKey:
    """Return the key; raises `Refused` where the installation has none."""
    if key is None:
        detail = "this installation has no key for the secrets of webhooks"
        fix = "set TURNLOG_WEBHOOK_KEY, the same in gateways and projectors, and start them again"
        raise Refused("webhooks-off", detail, field="TURNLOG_WEBHOOK_KEY", fix=fix)
    return key


def apply_webhook_key(settings: AllInOneSettings) -> AllInOneSettings:
    """Return the settings with the webhook key of their data directory, unless they have one.

    A missing one is made. One that is damaged is refused: with another one, every receiver would
    have to be given another secret.
    """
    if settings.webhook_key:
        return settings
    file = settings.data_dir / KEY_FILE_NAME
    if not file.exists():
        write_private_file(file, f"{secrets.token_hex(32)}\n")
        _log.info("webhook-key-created", file=str(file.absolute()))
    key = file.read_text(errors="replace").strip()
    if _KEY_FORM.fullmatch(key) is None:
        detail = f"{file.absolute()} is not the key that was written there"
        fix = "restore it from a backup, or remove it: every webhook must then be added again"
        raise Refused("invalid", detail, field=KEY_FILE_NAME, fix=fix)
    return settings.model_copy(update={"webhook_key": SecretStr(key)})
