"""Crash points, for processes with this folder on their path; the product does not know them.

`CRASH_AT` names a file with a signal and a point. A process that reaches the point removes the file
and sends itself the signal, SIGKILL or SIGSTOP; of several processes that share a file, one does.
So a point is set while processes run, and is met once. `CLOCK_AHEAD` names a file with the seconds
by which the clock of the process is ahead.

A point is `before-` or `after-` and what is passed: `append:<event>`, `token:<n>` of an attempt,
`close` of an attempt's tokens, `blob`, `media`, `ack`, `nak`, and `commit` to the database.

A forked process already has the modules. Classes are patched, and functions change in themselves,
which reaches every module that imported them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import wraps
from importlib.machinery import ModuleSpec, PathFinder
from inspect import signature
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

CRASH_AT = "CRASH_AT"
CLOCK_AHEAD = "CLOCK_AHEAD"

PassageNamer = Callable[..., Iterable[str]]
"""Names what a call passes, from its arguments in the order of the parameters."""


def trigger_point(point: str) -> None:
    """Send the signal here if this is the point."""
    file = Path(os.environ[CRASH_AT])
    try:
        number, _, crash_point = file.read_text().partition(" ")
        if crash_point != point:
            return
        file.unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.Signals[number])


def wrap_with_points(
    real: Callable[..., Awaitable[Any]], named: PassageNamer
) -> Callable[..., Awaitable[Any]]:
    """Return a coroutine function that reaches a point before and after the real one runs."""
    parameters = signature(real)

    @wraps(real)
    async def between(*arguments: Any, **more: Any) -> Any:  # noqa: ANN401
        passed = tuple(named(*parameters.bind(*arguments, **more).arguments.values()))
        for what in passed:
            trigger_point(f"before-{what}")
        result = await real(*arguments, **more)
        for what in passed:
            trigger_point(f"after-{what}")
        return result

    return between


def wrap_methods(holder: type, **named: PassageNamer) -> None:
    """Give methods of a class their points."""
    for name, each in named.items():
        setattr(holder, name, wrap_with_points(getattr(holder, name), each))


def copy_function(function: Any) -> Callable[..., Any]:  # noqa: ANN401
    """Return a function that remains as this one is now."""
    copied = FunctionType(
        *(function.__code__, function.__globals__, function.__name__),
        *(function.__defaults__, function.__closure__),
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    copied.__annotations__ = function.__annotations__
    return copied


def replace_function(function: Any, instead: Callable[..., Any]) -> None:  # noqa: ANN401
    """Make a function of a module, wherever it was imported, run another one."""
    function.__globals__[f"{function.__name__}_instead"] = instead
    names: dict[str, Any] = {}
    exec(f"def call(*a, **more): return {function.__name__}_instead(*a, **more)", names)  # noqa: S102
    function.__code__ = names["call"].__code__
    function.__defaults__ = function.__kwdefaults__ = None


def patch_append(module: Any) -> None:  # noqa: ANN401
    from turnlog.events.codec import decode_event  # noqa: PLC0415 - while `module` loads, not before
    from turnlog.events.registry import format_event_name  # noqa: PLC0415

    def events(_connection: Any, _stream: str, batch: Any, *_: Any) -> Iterable[str]:  # noqa: ANN401
        for message in batch.messages:
            yield f"append:{format_event_name(decode_event(message.payload, 1).envelope.type)}"

    append = module.append_batch
    replace_function(append, wrap_with_points(copy_function(append), events))


def patch_tokens(module: Any) -> None:  # noqa: ANN401
    from turnlog.events.tokens import Token  # noqa: PLC0415

    counts: Counter[tuple[str, int, int]] = Counter()

    def token(_self: Any, _tenant: str, session: str, turn: int, event: Any) -> Iterable[str]:  # noqa: ANN401
        if not isinstance(event, Token):
            return ()
        counts[session, turn, event.attempt] += 1
        return (f"token:{counts[session, turn, event.attempt]}",)

    wrap_methods(
        module.JetStreamTokenStream,
        publish_token=token,
        publish_and_confirm=lambda *_: ("close",),
    )


def patch_blobs(module: Any) -> None:  # noqa: ANN401
    wrap_methods(module.JetStreamBlobStore, put_blob=lambda *_: ("blob",))
    wrap_methods(module.JetStreamMediaStore, put_received=lambda *_: ("media",))


def patch_acknowledgements(module: Any) -> None:  # noqa: ANN401
    wrap_methods(module.Msg, ack=lambda *_: ("ack",), nak=lambda *_: ("nak",))


def patch_commit(module: Any) -> None:  # noqa: ANN401
    real = module.DefaultDialect.do_commit

    def commit(self: object, connection: object) -> None:
        trigger_point("before-commit")
        real(self, connection)
        trigger_point("after-commit")

    module.DefaultDialect.do_commit = commit


def patch_clock(module: Any) -> None:  # noqa: ANN401
    real = copy_function(module.read_clock)
    file = Path(os.environ[CLOCK_AHEAD])

    def read_clock() -> datetime:
        ahead = float(file.read_text()) if file.exists() else 0.0
        now: datetime = real()
        return now + timedelta(seconds=ahead)

    replace_function(module.read_clock, read_clock)


POINT_PATCHES: dict[str, Callable[[Any], None]] = {
    "turnlog.events.jetstream.batch_append": patch_append,
    "turnlog.events.jetstream.token_stream": patch_tokens,
    "turnlog.events.jetstream.blob_store": patch_blobs,
    "nats.aio.msg": patch_acknowledgements,
    "sqlalchemy.engine.default": patch_commit,
}
CLOCK_PATCHES: dict[str, Callable[[Any], None]] = {"turnlog.services.platform.clock": patch_clock}


class ModulePatcher:
    """An import finder before all others that patches modules as they load."""

    def __init__(self, changes: dict[str, Callable[[Any], None]]) -> None:
        self._changes = changes

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = self._changes.get(name)
        found = PathFinder.find_spec(name, path, target) if change else None
        if change is None or found is None or found.loader is None:
            return None
        execute = found.loader.exec_module

        def changed(module: ModuleType) -> None:
            execute(module)
            change(module)

        found.loader.exec_module = changed  # type: ignore[method-assign]
        return found


if __name__ == "sitecustomize":
    points = POINT_PATCHES if CRASH_AT in os.environ else {}
    times = CLOCK_PATCHES if CLOCK_AHEAD in os.environ else {}
    changes = points | times
    for name in changes.keys() & sys.modules.keys():
        changes[name](sys.modules[name])
    sys.meta_path.insert(0, ModulePatcher(changes))
