"""Options that several commands share, and option groups.

An option group is a frozen dataclass whose fields are options. A command takes the group as one
parameter; `expand_option_groups` shows typer one parameter per field and rebuilds the group when
the command is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeGuard, get_type_hints

import typer

from turnlog.contract.api_paths import MAX_REASON_LENGTH

CommandFunction = Callable[..., None]


def expand_option_groups(function: CommandFunction) -> CommandFunction:
    """Return the command with a signature in which every option is its own parameter."""
    hints = get_type_hints(function, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if _is_option_group(hint)}

    @wraps(function)
    def command(**arguments: object) -> None:
        for name, group in groups.items():
            arguments[name] = group(
                **{each.name: arguments.pop(each.name) for each in fields(group)}
            )
        function(**arguments)

    parameters = signature(function).parameters.values()
    taken = [each for parameter in parameters for each in _expand_parameter(parameter, hints)]
    vars(command)["__signature__"] = Signature(taken)
    command.__annotations__ = {each.name: each.annotation for each in taken}
    return command


def _expand_parameter(parameter: Parameter, hints: dict[str, Any]) -> Iterator[Parameter]:
    hint = hints[parameter.name]
    if not _is_option_group(hint):
        yield _create_keyword(parameter.name, hint, parameter.default)
        return
    of_fields = get_type_hints(hint, include_extras=True)
    for each in fields(hint):
        default = Parameter.empty if each.default is MISSING else each.default
        yield _create_keyword(each.name, of_fields[each.name], default)


def _is_option_group(hint: object) -> TypeGuard[type[Any]]:
    return isinstance(hint, type) and is_dataclass(hint)


def _create_keyword(name: str, hint: object, default: object) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


DEFAULT_DATA_DIR: Final = Path(".turnlog")
"""The data directory of a service that is started without `--data-dir`."""

DEFAULT_TENANT: Final = "default"
"""The tenant that is read when none is named."""

URL_VARIABLE: Final = "TURNLOG_URL"
"""The variable that commands take the address of a service from."""


CHECKPOINTS_VARIABLE: Final = "TURNLOG_CHECKPOINTS"
"""The variable with the folder whose newest checkpoint `verify` takes and `doctor` looks for."""

CHECKPOINT_TOKEN_VARIABLE: Final = "TURNLOG_CHECKPOINT_TOKEN"  # noqa: S105 - a name
"""The variable with the bearer token of an address of checkpoints, where no file has it."""


def _choose_address(context: typer.Context, url: str | None) -> str | None:
    """Return the URL, but not that of a variable where the command line names a directory.

    Options of the command line are read before those that only a variable sets.
    """
    sources = (context.get_parameter_source(name) for name in ("url", "data_dir"))
    url_source, directory_source = (source.name if source else None for source in sources)
    is_overruled = (url_source, directory_source) == ("ENVIRONMENT", "COMMANDLINE")
    if is_overruled:
        return None
    if url is not None or directory_source == "COMMANDLINE":
        return url
    from turnlog.services.cli.account_file import find_chosen_account  # noqa: PLC0415

    account = find_chosen_account()
    return None if account is None else account.url


UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        envvar=URL_VARIABLE,
        callback=_choose_address,
        help="Address of a running service.",
    ),
]

DataDirOption = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        envvar="TURNLOG_DATA_DIR",
        help="Data directory; its running service answers, or the command reads it itself.",
    ),
]

ServiceDataDirOption = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        envvar="TURNLOG_DATA_DIR",
        help="Data directory of the running service.",
    ),
]

TenantOption = Annotated[
    str,
    typer.Option(
        "--tenant",
        metavar="TENANT",
        envvar="TURNLOG_TENANT",
        help="Tenant to read when no service runs.",
    ),
]

OutputOption = Annotated[
    Literal["table", "json"],
    typer.Option("-o", "--output", help="Tables for people, JSON for programs."),
]

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The session.")]

AtOption = Annotated[
    int | None, typer.Option("--at", metavar="SEQUENCE", min=1, help="The state at this sequence.")
]

PhaseOption = Annotated[
    str | None,
    typer.Option("--phase", metavar="PHASE", help="Only turns of this phase."),
]


StoredOption = Annotated[
    bool,
    typer.Option("--stored", help="For an audit: the stored events, with replies redacted later."),
]


@dataclass(frozen=True, slots=True)
class ReadTarget:
    """What a command reads: a running service, or a data directory that no service has open."""

    url: UrlOption = None
    data_dir: DataDirOption = DEFAULT_DATA_DIR
    tenant: TenantOption = DEFAULT_TENANT


def _check_reason(reason: str | None) -> str | None:
    if reason is None or (reason.isprintable() and 0 < len(reason.strip()) <= MAX_REASON_LENGTH):
        return reason
    raise typer.BadParameter(f"it is not 1 to {MAX_REASON_LENGTH} printable characters")


ReasonOption = Annotated[
    str | None,
    typer.Option(
        "--reason",
        metavar="TEXT",
        callback=_check_reason,
        help="Why you look at it, for the service's log of reads.",
    ),
]


@dataclass(frozen=True, slots=True)
class LookTarget(ReadTarget):
    """What a command reads that not everybody may see, and why its user looks at it."""

    reason: ReasonOption = None


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """The running service that a command is sent to."""

    url: UrlOption = None
    data_dir: ServiceDataDirOption = DEFAULT_DATA_DIR


@dataclass(frozen=True, slots=True)
class LogTarget:
    """The log of one tenant in a data directory, read without a gateway."""

    data_dir: DataDirOption = DEFAULT_DATA_DIR
    tenant: TenantOption = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class PruneOptions:
    """Whether an import takes away what its files do not have."""

    prune: Annotated[
        bool, typer.Option("--prune", help="Take away what the files do not have any more.")
    ] = False
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="With --prune: only say what that is, and import nothing."),
    ] = False

    def check_options(self) -> None:
        """Raise an error for `--dry-run` alone."""
        if self.dry_run and not self.prune:
            raise typer.BadParameter("it goes with --prune", param_hint="--dry-run")


_INTERVAL_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_interval(text: str) -> float:
    """Return the seconds of an interval such as `1h`; raises `BadParameter` for another form."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no interval such as 90s, 30m, 1h or 1d")
    return float(int(found[1]) * _INTERVAL_UNITS[found[2]])
