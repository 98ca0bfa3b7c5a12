"""docker-compose.yml as the tests read it: variables filled in, each service with what it runs.

It takes the words of the file as they are and refuses any it does not understand, so that nothing
in there goes untested by being overlooked.
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
FILE = ROOT / "docker-compose.yml"
SCHEMA = json.loads((Path(__file__).parent / "compose.schema.json").read_text())
SECRETS = {"NATS_PASSWORD": "1234", "POSTGRES_PASSWORD": "of-postgres"}
"""Passwords; the first is one that nats-server takes for a number where nothing quotes it."""

_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


class UnsetError(Exception):
    """A variable that the file requires; the message is the file's own."""


@dataclass(frozen=True, slots=True)
class Service:
    """One service: what it runs, with what, and how it is asked for its health."""

    name: str
    stanza: Mapping[str, Any]

    @property
    def command(self) -> list[str]:
        return list(self.stanza["command"])

    @property
    def environment(self) -> dict[str, str]:
        return dict(self.stanza.get("environment", {}))

    @property
    def health(self) -> list[str]:
        """The command that exits 0 when the service is healthy."""
        return list(self.stanza["healthcheck"]["test"][1:])

    @property
    def role(self) -> str | None:
        """Which Turnlog process it is, if it is one."""
        match self.stanza.get("command"):
            case ["turnlog", "run", role]:
                return str(role)
            case _:
                return None


def written() -> dict[str, Any]:
    """Read the file as it is written."""
    document: dict[str, Any] = YAML(typ="safe", pure=True).load(FILE)
    return document


def composed(variables: Mapping[str, str]) -> dict[str, Any]:
    """Read the file with these variables, as compose does before it starts anything."""
    return cast("dict[str, Any]", _filled(written(), variables))


def services(variables: Mapping[str, str] = SECRETS) -> dict[str, Service]:
    """Give the services of the file by name."""
    stanzas = composed(variables)["services"]
    return {name: Service(name, stanza) for name, stanza in stanzas.items()}


def check(document: Mapping[str, Any]) -> None:
    """Raise `ValidationError` for what the schema does not know."""
    jsonschema.Draft202012Validator(SCHEMA).validate(document)


def seconds(duration: str) -> float:
    """Read a duration of one unit."""
    number = duration.rstrip("hms")
    unit = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}[duration.removeprefix(number)]
    return int(number) * unit


def _filled(value: JsonValue, variables: Mapping[str, str]) -> JsonValue:
    match value:
        case str():
            return _VARIABLE.sub(lambda found: _variable(found, variables), value)
        case dict():
            return {key: _filled(one, variables) for key, one in value.items()}
        case list():
            return [_filled(one, variables) for one in value]
        case _:
            return value


def _variable(found: re.Match[str], variables: Mapping[str, str]) -> str:
    name, mark, other = found.groups()
    if variables.get(name):
        return variables[name]
    if mark == "-":
        return str(other)
    raise UnsetError(f"{name}: {other}")
