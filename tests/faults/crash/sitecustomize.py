"""Crash points, for processes with this folder on their path; the product does not know them.

`CRASH_AT` names a file with a signal and a point. A process that reaches the point removes the file
and sends itself the signal, SIGKILL or SIGSTOP; of several processes that share a file, one does.
So a point is set while processes run, and is met once. `CLOCK_AHEAD` names a file with the seconds
by which the clock of the process is ahead.

A point is `before-` or `after-` and what is passed: `append:<event>`, `token:<n>` of an attempt,
`close` of an attempt's tokens, `blob`, `media`, `ack`, `nak`, and `commit` to the database.

A forked process already has the modules of other packages; of these only classes are patched, which
reaches every user of the class.
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
from types import ModuleType
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


def wrap_with_points(holder: Any, name: str, named: PassageNamer) -> None:  # noqa: ANN401 - a class or a module
    """Make a coroutine function reach a point before and after it runs."""
    real: Callable[..., Awaitable[Any]] = getattr(holder, name)
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

    setattr(holder, name, between)


def patch_append(module: Any) -> None:  # noqa: ANN401
    from turnlog.events.codec import decode_event  # noqa: PLC0415 - while `module` loads, not before
    from turnlog.events.registry import format_event_name  # noqa: PLC0415

    def events(_connection: Any, _stream: str, batch: Any, *_: Any) -> Iterable[str]:  # noqa: ANN401
        for message in batch.messages:
            yield f"append:{format_event_name(decode_event(message.payload, 1).envelope.type)}"

    wrap_with_points(module, "append_batch", events)


def patch_tokens(module: Any) -> None:  # noqa: ANN401
    from turnlog.events.tokens import Token  # noqa: PLC0415

    counts: Counter[tuple[str, int, int]] = Counter()

    def token(_self: Any, _tenant: str, session: str, turn: int, event: Any) -> Iterable[str]:  # noqa: ANN401
        if not isinstance(event, Token):
            return ()
        counts[session, turn, event.attempt] += 1
        return (f"token:{counts[session, turn, event.attempt]}",)

    wrap_with_points(module.JetStreamTokenStream, "publish_token", token)
    wrap_with_points(module.JetStreamTokenStream, "publish_and_confirm", lambda *_: ("close",))


def patch_blobs(module: Any) -> None:  # noqa: ANN401
    wrap_with_points(module.JetStreamBlobStore, "put_blob", lambda *_: ("blob",))
    wrap_with_points(module.JetStreamMediaStore, "put_media", lambda *_: ("media",))


def patch_acknowledgements(module: Any) -> None:  # noqa: ANN401
    wrap_with_points(module.Msg, "ack", lambda *_: ("ack",))
    wrap_with_points(module.Msg, "nak", lambda *_: ("nak",))


def patch_commit(module: Any) -> None:  # noqa: ANN401
    real = module.DefaultDialect.do_commit

    def commit(self: object, connection: object) -> None:
        trigger_point("before-commit")
        real(self, connection)
        trigger_point("after-commit")

    module.DefaultDialect.do_commit = commit


def patch_clock(module: Any) -> None:  # noqa: ANN401
    real: Callable[[], datetime] = module.read_clock
    file = Path(os.environ[CLOCK_AHEAD])

    def read_clock() -> datetime:
        ahead = float(file.read_text()) if file.exists() else 0.0
        return real() + timedelta(seconds=ahead)

    module.read_clock = read_clock


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


def unload_product() -> None:
    """Unload our modules, which a forked process has already, so that they load with the points."""
    for name in tuple(sys.modules):
        if name.partition(".")[0] == "turnlog":
            del sys.modules[name]


if __name__ == "sitecustomize":
    unload_product()
    points = POINT_PATCHES if CRASH_AT in os.environ else {}
    times = CLOCK_PATCHES if CLOCK_AHEAD in os.environ else {}
    changes = points | times
    for name in changes.keys() & sys.modules.keys():
        changes[name](sys.modules[name])
    sys.meta_path.insert(0, ModulePatcher(changes))
