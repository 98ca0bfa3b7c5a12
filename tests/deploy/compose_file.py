"""The compose files as the tests read them: resolved, merged, and each service with its command.

It refuses every construct of the files that it does not understand, so that nothing goes untested
by being overlooked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import jsonschema
from pydantic import JsonValue
from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.nodes import MappingNode, Node

ROOT = Path(__file__).parents[2]

COMPOSE_FILE = ROOT / "docker-compose.yml"

CLUSTER_FILE = ROOT / "deploy/docker-compose.cluster.yml"
"""Merged over `COMPOSE_FILE`, it replaces the one nats-server by three."""

COMPOSE_SCHEMA = json.loads((Path(__file__).parent / "compose.schema.json").read_text())

SECRETS = {
    "NATS_PASSWORD": "1234",
    "NATS_GATEWAY_PASSWORD": "2345",
    "NATS_WORKER_PASSWORD": "3456",
    "NATS_PROJECTOR_PASSWORD": "4567",
    "NATS_PROVISION_PASSWORD": "6789",
    "NATS_CONSUMER_PASSWORD": "9012",
    "POSTGRES_PASSWORD": "of-postgres",
    "SNAPSHOT_KEY": "5e" * 32,
    "ROOT_KEY": "4b" * 32,
}
"""Secrets; nats-server reads those of NATS as numbers where they are not quoted."""

SIGNED_IN = {"Authorization": f"Bearer {SECRETS['ROOT_KEY']}"}
"""The headers of requests to gateways, which ask for a key."""

CLUSTER_SECRETS = SECRETS | {"NATS_ROUTES_PASSWORD": "5678"}
"""Secrets of both files together."""

RESET: Final = object()
"""A value with the tag `!reset`: the merge removes what the first file has there."""

_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


class UnsetVariableError(Exception):
    """A required variable is not set; the message is the file's own."""


class UnknownMergeError(Exception):
    """Both files have a value that the tests do not know how to merge."""


@dataclass(frozen=True, slots=True)
class ReplacedMapping:
    """A mapping with the tag `!override`: it replaces that of the first file."""

    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ComposeService:
    """One service: its command, its variables and its health check."""

    name: str
    stanza: Mapping[str, Any]

    @property
    def command(self) -> list[str]:
        return list(self.stanza["command"])

    @property
    def environment(self) -> dict[str, str]:
        return dict(self.stanza.get("environment", {}))

    @property
    def health_command(self) -> list[str]:
        """The command that exits 0 when the service is healthy."""
        return list(self.stanza["healthcheck"]["test"][1:])

    @property
    def dependencies(self) -> set[str]:
        """The services that are healthy, or have ended, before it starts."""
        return set(self.stanza.get("depends_on", {}))

    @property
    def is_job(self) -> bool:
        """Whether it ends when it has done its work."""
        return bool(self.stanza.get("restart") == "on-failure")

    @property
    def networks(self) -> dict[str, dict[str, str]]:
        """Its networks, each with the options of this service there."""
        networks: list[str] | dict[str, dict[str, str]] = self.stanza["networks"]
        return {name: {} for name in networks} if isinstance(networks, list) else networks

    @property
    def role(self) -> str | None:
        """Its Turnlog role, or None."""
        match self.stanza.get("command"):
            case ["turnlog", "run", role]:
                return str(role)
            case _:
                return None


def load_compose_file(file: Path = COMPOSE_FILE) -> dict[str, Any]:
    """Load a file as it is written."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _ComposeConstructor
    document: dict[str, Any] = yaml.load(file)
    return document


def resolve_compose_files(variables: Mapping[str, str], *others: Path) -> dict[str, Any]:
    """Load docker-compose.yml, and merge other files over it, as compose does.

    The variables of each file are resolved first.
    """
    files = [
        _fill_variables(load_compose_file(each), variables) for each in (COMPOSE_FILE, *others)
    ]
    merged = cast("dict[str, Any]", files[0])
    for other in files[1:]:
        merged = _merge_mappings(merged, cast("dict[str, Any]", other))
    return merged


def load_services(
    variables: Mapping[str, str] = SECRETS, *others: Path
) -> dict[str, ComposeService]:
    """Load the services of the files by name."""
    stanzas = resolve_compose_files(variables, *others)["services"]
    return {name: ComposeService(name, stanza) for name, stanza in stanzas.items()}


def validate_document(document: Mapping[str, Any]) -> None:
    """Raise `ValidationError` for what the schema does not allow."""
    jsonschema.Draft202012Validator(COMPOSE_SCHEMA).validate(document)


def parse_duration(duration: str) -> float:
    """Parse a duration with one unit into seconds."""
    number = duration.rstrip("hms")
    unit = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}[duration.removeprefix(number)]
    return int(number) * unit


def parse_size(size: str) -> int:
    """Parse a size as compose or Go spells it, `256m` or `1750MiB`, into bytes."""
    number, unit = size[: len(size) - len(size.lstrip("0123456789"))], size.lstrip("0123456789")
    return int(number) * {"k": 2**10, "m": 2**20, "g": 2**30}[unit[0].lower()]


class _ComposeConstructor(SafeConstructor):
    """Reads the tags by which a file that is merged over another one removes or replaces."""


def _construct_reset(constructor: SafeConstructor, node: Node) -> object:
    del constructor, node
    return RESET


def _construct_override(constructor: SafeConstructor, node: MappingNode) -> ReplacedMapping:
    mapping = cast("dict[str, Any]", constructor.construct_mapping(node, deep=True))
    return ReplacedMapping(mapping)


_ComposeConstructor.add_constructor("!reset", _construct_reset)
_ComposeConstructor.add_constructor("!override", _construct_override)


def _merge_mappings(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    merged = dict(first)
    for key, value in second.items():
        if value is RESET:
            merged.pop(key, None)
        elif isinstance(value, ReplacedMapping):
            merged[key] = value.value
        elif isinstance(value, dict) and isinstance(first.get(key), dict):
            merged[key] = _merge_mappings(first[key], cast("dict[str, Any]", value))
        elif isinstance(value, list) and key in first:
            # Compose appends some lists and replaces others.
            raise UnknownMergeError(key)
        else:
            merged[key] = value
    return merged


_YamlValue = JsonValue | ReplacedMapping


def _fill_variables(value: _YamlValue, variables: Mapping[str, str]) -> Any:  # noqa: ANN401 - YAML of any shape
    match value:
        case str():
            return _VARIABLE.sub(lambda found: _resolve_variable(found, variables), value)
        case dict():
            return {key: _fill_variables(one, variables) for key, one in value.items()}
        case list():
            return [_fill_variables(one, variables) for one in value]
        case ReplacedMapping():
            return ReplacedMapping(_fill_variables(value.value, variables))
        case _:
            return value


def _resolve_variable(found: re.Match[str], variables: Mapping[str, str]) -> str:
    name, mark, other = found.groups()
    if variables.get(name):
        return variables[name]
    if mark == "-":
        return str(other)
    raise UnsetVariableError(f"{name}: {other}")
