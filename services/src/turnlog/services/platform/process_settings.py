"""Settings: one frozen class for each process, with all defaults, read once at the start.

Every setting is also an environment variable with the prefix `TURNLOG_`: `ack_wait` is
`TURNLOG_ACK_WAIT`. A variable with that prefix which no process knows is refused by name, because a
misspelt setting is worse than a missing one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, StringConstraints
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from turnlog.contract.value_names import RoleName
from turnlog.events.model.content_parts import MAX_MEDIA_BYTES
from turnlog.projections.blueprint.schema.timeout_specs import TimeoutSpec
from turnlog.services.platform.durability_level import DurabilityLevel

Seconds = Annotated[float, Field(gt=0)]


def _split_folders(value: object) -> object:
    return tuple(filter(None, value.split(os.pathsep))) if isinstance(value, str) else value


FolderList = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_split_folders)]
"""Folders; in an environment variable they are separated as in `PATH`."""


HOST_PATTERN: Final = r"\[[0-9a-f:.]{2,45}\]|[0-9a-z._-]{1,253}"
"""The host of a URL: a name or an IPv4 address, or an IPv6 address in brackets."""


def _split_list(value: object) -> object:
    return tuple(filter(None, value.split(","))) if isinstance(value, str) else value


def _check_host(value: str) -> str:
    host = value.strip().lower()
    if re.fullmatch(HOST_PATTERN, host) is None:
        message = "it must be host names without scheme and port, separated by `,`"
        raise PydanticCustomError("bad_host", message)
    return host


NameList = Annotated[
    tuple[Annotated[str, StringConstraints(strip_whitespace=True)], ...],
    NoDecode,
    BeforeValidator(_split_list),
]
"""Names of users; in an environment variable separated by `,`."""

HostList = Annotated[
    tuple[Annotated[str, AfterValidator(_check_host)], ...], NoDecode, BeforeValidator(_split_list)
]
"""Hosts as the address bar of a browser shows them; in an environment variable separated by `,`."""


NetworkList = Annotated[
    tuple[IPv4Network | IPv6Network, ...], NoDecode, BeforeValidator(_split_list)
]
"""Addresses or networks (`10.0.0.0/24`); in an environment variable separated by `,`."""


def _check_monitor(value: str) -> str:
    address = value.strip().rstrip("/")
    if re.fullmatch(r"https?://[^\s/,]+(/\S*)?", address) is None:
        message = "it must be addresses such as `http://host:8222`, separated by `,`"
        raise PydanticCustomError("bad_monitor", message)
    return address


MonitorList = Annotated[
    tuple[Annotated[str, AfterValidator(_check_monitor)], ...],
    NoDecode,
    BeforeValidator(_split_list),
]
"""Monitoring addresses of nats-servers; in an environment variable separated by `,`."""


def _check_origin(value: str) -> str:
    origin = value.strip().lower().rstrip("/")
    if re.fullmatch(rf"https?://(?:{HOST_PATTERN})(?::[0-9]{{1,5}})?", origin) is None:
        message = "it must be origins such as `https://hooks.example.org`, separated by `,`"
        raise PydanticCustomError("bad_origin", message)
    return origin


OriginList = Annotated[
    tuple[Annotated[str, AfterValidator(_check_origin)], ...],
    NoDecode,
    BeforeValidator(_split_list),
]
"""Scheme, host and port of web addresses; in an environment variable separated by `,`."""


def _check_issuer(value: str) -> str:
    if re.fullmatch(
        r"https://[^\s/?#@]+(/[^\s?#]*)?|http://(localhost|127\.[0-9.]+|\[::1\])(:[0-9]{1,5})?(/[^\s?#]*)?",
        value,
    ):
        return value
    message = "it must be an address such as `https://login.example.org/realm`"
    raise PydanticCustomError("bad_issuer", message)


IssuerAddress = Annotated[str, AfterValidator(_check_issuer)]


def _check_page(value: str) -> str:
    page = value.removesuffix("/")
    if re.fullmatch(
        r"https://[^\s/?#@]+|http://(localhost|127\.[0-9.]+|\[::1\])(:[0-9]{1,5})?", page
    ):
        return page
    message = "it must be an address such as `https://turnlog.example.org`, without a path"
    raise PydanticCustomError("bad_page", message)


PageAddress = Annotated[str, AfterValidator(_check_page)]
"""The name of an OpenID Connect issuer, which is an address: with https, or on loopback."""


def _split_role_names(value: object) -> object:
    """Split `support-team=operator,staff=caller`; a name that is repeated has several roles."""
    if not isinstance(value, str):
        return value
    roles: dict[str, tuple[str, ...]] = {}
    for entry in filter(None, map(str.strip, value.split(","))):
        name, _, role = entry.rpartition("=")
        if not name.strip():
            message = "it must be names of the issuer with `=ROLE`, separated by `,`"
            raise PydanticCustomError("bad_role_names", message)
        roles[name.strip()] = (*roles.get(name.strip(), ()), role.strip())
    return roles


RoleMapping = Annotated[
    dict[str, tuple[RoleName, ...]], NoDecode, BeforeValidator(_split_role_names)
]
"""Our roles by another's names of them; in an environment variable `THEIRS=OURS,THEIRS=OURS`."""


HEADER_PATTERN: Final = r"[A-Za-z][A-Za-z0-9-]{0,63}"
"""The name of an HTTP header."""


def _split_model_answers(value: object) -> object:
    """Split `openai/ours=yes,openai/older=no`."""
    if not isinstance(value, str):
        return value
    pairs = (each.strip().rpartition("=") for each in value.split(",") if each.strip())
    named = {model.strip(): _MODEL_ANSWERS.get(answer.strip()) for model, _, answer in pairs}
    if not all(named) or None in named.values():
        message = "it must be models with `=yes` or `=no`, separated by `,`"
        raise PydanticCustomError("bad_model_answers", message)
    return named


_MODEL_ANSWERS: Final = {"yes": True, "no": False}

ModelAnswers = Annotated[dict[str, bool], NoDecode, BeforeValidator(_split_model_answers)]
"""Yes or no for each model; in an environment variable `MODEL=yes,MODEL=no`."""


def _split_model_timeouts(value: object) -> object:
    """Split `ollama/*.first_token=900,ollama/*.total=1800`."""
    if not isinstance(value, str):
        return value
    by_model: dict[str, dict[str, str]] = {}
    for entry in filter(None, map(str.strip, value.split(","))):
        place, _, seconds = entry.partition("=")
        model, _, name = place.strip().rpartition(".")
        if not model or name not in TimeoutSpec.model_fields:
            names = ", ".join(TimeoutSpec.model_fields)
            message = "it must be `MODEL.NAME=SECONDS`, separated by `,`; a name is one of {names}"
            raise PydanticCustomError("bad_model_timeouts", message, {"names": names})
        by_model.setdefault(model, {})[name] = seconds.strip()
    return by_model


ModelTimeouts = Annotated[dict[str, TimeoutSpec], NoDecode, BeforeValidator(_split_model_timeouts)]
"""Timeouts by models or patterns of them: `openai/o3.first_token=600,ollama/*.total=1800`."""


ModelAdapter = Literal["litellm", "direct"]
"""What calls models whose servers speak OpenAI's protocol."""


MODEL_OFF: Final = "off"
"""The model name of a service without a model."""

LogLevel = Literal["debug", "info", "warning", "error"]
"""The levels of a process's own log, from the least to the most important."""


DelayList = Annotated[
    tuple[Seconds, ...], NoDecode, BeforeValidator(_split_list), Field(min_length=1, max_length=20)
]
"""Seconds of waits, in order; in an environment variable separated by `,`."""


class ProcessSettings(BaseSettings):
    """Settings that every process has."""

    # An empty variable is one that is not set: compose files pass variables on that way.
    model_config = SettingsConfigDict(env_prefix="TURNLOG_", frozen=True, env_ignore_empty=True)

    nats_url: SecretStr = SecretStr("nats://127.0.0.1:4222")
    """URL of NATS; it may contain a user and a password."""
    replicas: Annotated[int, Field(ge=1, le=5)] = 1
    """Copies of each stream that NATS keeps; 3 in a cluster."""
    durability: DurabilityLevel = "fsync-acked"
    """What an acknowledgement must guarantee; a server known to give less is refused."""
    tenant: str = "default"
    """The tenant of requests that name none."""
    log_format: Literal["console", "json"] = "console"
    """Format of this process's own log."""
    log_level: LogLevel = "info"
    """Least level that this process logs; `debug` adds what prompts leave out."""
    otlp_endpoint: str | None = None
    """OTLP address over HTTP that traces and metrics are sent to; without one there are none."""
    metrics: str | None = None
    """Host and port where Prometheus reads `/metrics`; None for none."""
    grace: Seconds = 10.0
    """Seconds to finish or hand back running work when the process is asked to stop."""
    snapshot_key: Annotated[SecretStr, Field(min_length=32)] | None = None
    """Secret that snapshots of session states are signed with, the same in all processes; without
    one a process believes only its own.
    """
    sealing: Literal["on", "off"] | None = None
    """`on` seals new sessions: what people and models say is stored encrypted; it needs `keyring`.
    Unset, a process seals that has a keyring, and `turnlog up` makes one for a new data directory.
    """
    keyring: Annotated[str, Field(min_length=1)] | None = None
    """File with the keys that those of sealed sessions are wrapped under, the same in all
    processes, outside of the store and never in its back-ups; or the address of a service that has
    them, such as `vault+https://vault.example.org:8200/turnlog`.
    """
    keyring_token: SecretStr | None = None
    """Token that the service of the keyring asks for."""
    archive: Path | None = None
    """Folder with the sessions that were moved out of the stream, the same for all processes."""
    nats_monitor: MonitorList = ()
    """Monitoring addresses of all servers, `http://host:port`, where their fsync setting is read;
    no role depends on a single one.
    """

    @property
    def seals_new_sessions(self) -> bool:
        """Whether the words of new sessions and of what is added to the library are encrypted."""
        return self.sealing == "on" or (self.sealing is None and self.keyring is not None)


class WebhookSettings(ProcessSettings):
    """Settings of the processes that take commands on webhooks, or deliver to them."""

    webhook_key: Annotated[SecretStr, Field(min_length=32)] | None = None
    """Secret that those of webhooks are derived from, the same in gateways and projectors; without
    one there are no webhooks.
    """
    webhook_targets: OriginList = ()
    """Origins that webhooks may be delivered to, such as `https://hooks.example.org`, separated by
    `,`.
    """


class GatewaySettings(WebhookSettings):
    """Settings of the HTTP gateway."""

    http: str = "127.0.0.1:8700"
    """Host and port to listen on; port 0 is any free one."""
    hosts: HostList = ()
    """Hosts that requests may name beside loopback and that of `http`, separated by `,`."""
    database_url: SecretStr = SecretStr("sqlite+aiosqlite:///turnlog.db")
    """SQLAlchemy URL of the read models."""
    blueprints: FolderList = ()
    """Folders of blueprints in addition to the shipped ones, separated by `:`."""
    shipped_blueprints: Literal["on", "off"] = "on"
    """`off` hides the blueprints that come with Turnlog: no session is opened with them."""
    body_limit: Annotated[int, Field(ge=1024)] = 262_144
    """Maximum bytes of a request body."""
    import_limit: Annotated[int, Field(ge=1024)] = 8 * 1024 * 1024
    """Maximum bytes of an import, of a turn, of a preview, and of a what-if request."""
    max_part_bytes: Annotated[int, Field(ge=1024)] = MAX_MEDIA_BYTES
    """Maximum bytes of a picture, a recording or a file."""
    body_seconds: Seconds = 10.0
    """Seconds that a client may take to send the body, and as many for the headers."""
    keep_alive: Seconds = 10.0
    """Seconds between keep-alive messages on an event stream."""
    reader_seconds: Seconds = 20.0
    """Seconds that one write to a slow reader of an event stream may block before it is cut off."""
    tools: Path | None = None
    """File of tool servers in the form `mcpServers`, for blueprints that name `configured: all`."""
    model: str = "scripted/demo"
    """The model that prompt previews assume where a profile says `default`."""
    prices: Path | None = None
    """JSON file of own prices for a million tokens; they come before those that litellm ships."""
    response_format: ModelAnswers = {}
    """Which models take the schema of an answer as `response_format`, such as `openai/ours=yes`;
    before what litellm's table says.
    """
    model_dialects: Path | None = None
    """File of what the servers of models take, by patterns of model names; before what is shipped.
    """
    ask: str = "araquem"
    """The blueprint that serves `/v1/ask`."""
    root_key: Annotated[SecretStr, Field(min_length=32)] | None = None
    """Secret of the installation's administrator, the same in all gateways; with it nobody is
    served who does not sign in, with it or with a key that was created by it.
    """
    key_rate: Annotated[float, Field(gt=0)] | None = None
    """Requests a second that this gateway takes of one key, on average of ten seconds."""
    tenant_rate: Annotated[float, Field(gt=0)] | None = None
    """The same of all keys of one tenant together."""
    key_streams: Annotated[int, Field(ge=1)] | None = None
    """Event streams that one key may have open at this gateway."""
    key_bytes: Annotated[int, Field(ge=1)] | None = None
    """Bytes of request bodies that this gateway takes of one key in a minute."""
    tenant_bytes: Annotated[int, Field(ge=1)] | None = None
    """The same of all keys of one tenant together, where its settings say no other number."""
    actor_header: Annotated[str, Field(pattern=f"^{HEADER_PATTERN}$")] = "X-Forwarded-User"
    """Header in which a trusted proxy names the user who sends a request."""
    actor_proxies: NetworkList = ()
    """Addresses of the proxies that may send this header; without one it is refused."""
    operators: NameList = ()
    """Users of this header who have every role, separated by `,`; `*` is all."""
    require_reason: Literal["on", "off"] = "off"
    """`on` refuses looks at prompts, withheld texts, bundles and exports without a reason."""
    oidc_issuer: IssuerAddress | None = None
    """OpenID Connect issuer whose bearer tokens sign in, as the tokens name it; None for none."""
    oidc_audience: str | None = None
    """The name of this service at the issuer, which every token must have as its audience."""
    oidc_client_id: str | None = None
    """The name of the page at the issuer, by which people sign in there; None for bearer only."""
    oidc_client_secret: SecretStr | None = None
    """The secret that the issuer has given the page, if it has."""
    oidc_page: PageAddress | None = None
    """The address that people open the page at, such as `https://turnlog.example.org`."""
    oidc_scope: str = "openid"
    """What the page asks the issuer for, separated by spaces."""
    oidc_tenant_claim: str | None = None
    """Claim of a token that names its tenant; without one all have the tenant of `tenant`."""
    oidc_roles_claim: str = "roles"
    """Claim that names the roles, a list or a text with spaces; `realm_access.roles` is a path."""
    oidc_user_claim: str = "sub"
    """Claim that names the user."""
    oidc_roles: RoleMapping = {}
    """Our roles by the names in that claim, such as `support-team=operator`; `*=caller` is for
    everybody who signs in. Without it our own names count.
    """

    @property
    def serves_one_tenant(self) -> bool:
        """Whether all requests are of the tenant of `tenant`, whoever sends them."""
        return self.root_key is None and self.oidc_tenant_claim is None


class WorkerSettings(ProcessSettings):
    """Settings of the process that calls models."""

    health: str | None = None
    """Host and port of the health endpoint; None for no endpoint."""

    model: str = "scripted/demo"
    """Model of profiles that say `default`, as litellm names it; `off` calls no model."""
    model_adapter: ModelAdapter = "litellm"
    """`direct` calls servers that speak OpenAI's protocol without litellm, and sends the recorded
    request byte for byte.
    """
    prices: Path | None = None
    """JSON file of own prices for a million tokens; they come before those that litellm ships."""
    response_format: ModelAnswers = {}
    """Which models take the schema of an answer as `response_format`, such as `openai/ours=yes`;
    before what litellm's table says.
    """
    model_dialects: Path | None = None
    """File of what the servers of models take, by patterns of model names; before what is shipped.
    """
    model_timeouts: ModelTimeouts = {}
    """How long calls of a model may wait, such as `ollama/*.first_token=900`; the names are those
    of `timeouts` in a blueprint, which comes before.
    """
    scripts: Path | None = None
    """Folder of scripts for `scripted/...` models, in addition to the shipped ones."""
    blueprints: FolderList = ()
    """Folders of blueprints in addition to the shipped ones, separated by `:`."""
    tools: Path | None = None
    """File of tool servers in the form `mcpServers`, for blueprints that name `configured: all`."""
    concurrency: Annotated[int, Field(ge=1, le=512)] = 32
    """Turns answered concurrently."""
    ack_wait: Seconds = 30.0
    """Seconds without a heartbeat after which another worker may take over a turn."""


class ProjectorSettings(WebhookSettings):
    """Settings of the process that maintains the read models."""

    health: str | None = None
    """Host and port of the health endpoint; None for no endpoint."""

    database_url: SecretStr = SecretStr("sqlite+aiosqlite:///turnlog.db")
    """SQLAlchemy URL of the read models."""
    webhook_delays: DelayList = (5, 30, 120, 300, 600, 1_200, 1_400)
    """Seconds between the tries of one delivery to a webhook; after one more it is given up."""
    alert_interval: Seconds = 60.0
    """Seconds between two evaluations of the alerts."""
    embedder: str = "wordllama"
    """What makes the vectors of the knowledge search: an installed entry point of the group
    `turnlog.embedders`, with its model after a colon, such as
    `litellm:openai/text-embedding-3-small`.
    """


Role = TypeVar("Role", bound=ProcessSettings)


PROVIDED_BY_UP: Final[Mapping[str, str]] = {
    "nats_url": "it runs a nats-server of its own in the data directory",
    "nats_monitor": "it asks its own nats-server",
    "database_url": "its read models are in the data directory",
    "archive": "what was moved out of its log is in the data directory",
    "health": "the gateway reports the health of all roles at its own address",
}
"""Settings of the roles that `turnlog up` provides, each with what it does instead."""


def find_directory_archive(data_dir: Path) -> Path:
    """Return the folder of the archive of a data directory."""
    return data_dir.absolute() / "archive"


class AllInOneSettings(GatewaySettings, WorkerSettings, ProjectorSettings):
    """Settings of `turnlog up`: one process with all roles, and a nats-server as its child.

    A data directory is whole: its log and read models belong together, are copied together and are
    opened by every command. So those of `PROVIDED_BY_UP` are refused instead of combined with it.
    """

    data_dir: Path = Path(".turnlog")
    """Directory of the log and the read models."""
    nats: str | None = None
    """Host and port of the nats-server; kept in the data directory, port 0 is any free one."""
    ready_file: Path | None = None
    """Written when everything accepts work, like `ready.json` in the data directory."""

    @property
    def directory_database_url(self) -> str:
        """The URL of the read models in the data directory."""
        return f"sqlite:///{self.data_dir.absolute() / 'read-models.db'}"

    def build_role_settings(self, role: type[Role], url: str, monitor: str | None) -> Role:
        """Return the settings of one role, pointed at the server and database of this process."""
        own = {name: getattr(self, name) for name in role.model_fields}
        provided = {
            "nats_url": SecretStr(url),
            "nats_monitor": (monitor,) if monitor else (),
            "database_url": SecretStr(self.directory_database_url),
            "archive": find_directory_archive(self.data_dir),
            # The gateway in this process reports its health.
            "health": None,
        }
        return role.model_validate(own | {name: provided[name] for name in provided if name in own})
