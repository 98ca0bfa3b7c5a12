from __future__ import annotations

import re
from pathlib import Path

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from turnlog.services.worker.model.failures import ModelFailure
from turnlog.services.worker.model.scripted import ModelScript

SHIPPED_SCRIPTS = Path(__file__).parent / "scripts"
_SCRIPT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ScriptFolder:
    """The scripts of a folder, then those that ship with Turnlog.

    A script is `<name>.yaml`; JSON is YAML too. A file is read once per process.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directories = (SHIPPED_SCRIPTS,) if directory is None else (directory, SHIPPED_SCRIPTS)
        self._read: dict[str, ModelScript] = {}

    def load_script(self, name: str) -> ModelScript:
        """Return a script; fails with `unknown_model`, or `bad_request` if it is invalid."""
        if name not in self._read:
            self._read[name] = _parse_script(self._find_script(name))
        return self._read[name]

    def _find_script(self, name: str) -> Path:
        if not _SCRIPT_NAME.fullmatch(name):
            raise ModelFailure("unknown_model", "a script's name is letters, digits, - and _")
        for directory in self._directories:
            if (path := directory / f"{name}.yaml").is_file():
                return path
        raise ModelFailure("unknown_model", f"there is no script {name}.yaml")


def _parse_script(path: Path) -> ModelScript:
    try:
        return ModelScript.model_validate(YAML(typ="safe").load(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise ModelFailure("bad_request", f"{path.name}: {where}: {first['msg']}") from None
    except (YAMLError, UnicodeDecodeError):
        raise ModelFailure("bad_request", f"{path.name} is not YAML") from None
