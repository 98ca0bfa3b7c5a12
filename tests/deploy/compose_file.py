"""docker-compose.yml as the tests read it: variables resolved, each service with its command.

It refuses every construct of the file that it does not understand, so that nothing goes untested by
being overlooked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import jsonschema
from pydantic import JsonValue
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]

COMPOSE_FILE = ROOT / "docker-compose.yml"

COMPOSE_SCHEMA = json.loads((Path(__file__).parent / "compose.schema.json").read_text())

SECRETS = {"NATS_PASSWORD": "1234", "POSTGRES_PASSWORD": "of-postgres", "SNAPSHOT_KEY": "5e" * 32}
"""Secrets; nats-server reads the first as a number where it is not quoted."""

_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


class UnsetVariableError(Exception):
    """A required variable is not set; the message is the file's own."""


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
    def role(self) -> str | None:
        """Its Turnlog role, or None."""
        match self.stanza.get("command"):
            case ["turnlog", "run", role]:
                return str(role)
            case _:
                return None


def load_compose_file() -> dict[str, Any]:
    """Load the file as it is written."""
    document: dict[str, Any] = YAML(typ="safe", pure=True).load(COMPOSE_FILE)
    return document


def resolve_compose_file(variables: Mapping[str, str]) -> dict[str, Any]:
    """Load the file with its variables resolved, as compose does first."""
    return cast("dict[str, Any]", _fill_variables(load_compose_file(), variables))


def load_services(variables: Mapping[str, str] = SECRETS) -> dict[str, ComposeService]:
    """Load the services of the file by name."""
    stanzas = resolve_compose_file(variables)["services"]
    return {name: ComposeService(name, stanza) for name, stanza in stanzas.items()}


def validate_document(document: Mapping[str, Any]) -> None:
    """Raise `ValidationError` for what the schema does not allow."""
    jsonschema.Draft202012Validator(COMPOSE_SCHEMA).validate(document)


def parse_duration(duration: str) -> float:
    """Parse a duration with one unit into seconds."""
    number = duration.rstrip("hms")
    unit = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}[duration.removeprefix(number)]
    return int(number) * unit


def _fill_variables(value: JsonValue, variables: Mapping[str, str]) -> JsonValue:
    match value:
        case str():
            return _VARIABLE.sub(lambda found: _resolve_variable(found, variables), value)
        case dict():
            return {key: _fill_variables(one, variables) for key, one in value.items()}
        case list():
            return [_fill_variables(one, variables) for one in value]
        case _:
            return value


def _resolve_variable(found: re.Match[str], variables: Mapping[str, str]) -> str:
    name, mark, other = found.groups()
    if variables.get(name):
        return variables[name]
    if mark == "-":
        return str(other)
    raise UnsetVariableError(f"{name}: {other}")
