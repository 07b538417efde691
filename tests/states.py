"""Saved states as bytes, and a thread that gets in between: for the tests of everything that has a state."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from discreet.core.state import read_state

# How long another thread is given to do what it must not be able to do yet.
PATIENCE = 0.1


def as_bytes(header: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """Everything that a snapshot says but for random names, in a form that no later change reaches."""
    plain = {name: (str(a.dtype), a.shape, a.tobytes().hex()) for name, a in arrays.items()}
    return json.dumps([nameless(header), plain], sort_keys=True).encode()


def nameless(value: Any) -> Any:
    """Plain values without the random ids of ledgers and owners, and the numbers of their states."""
    if isinstance(value, dict):
        return {key: nameless(one) for key, one in value.items() if key not in ("id", "owner", "owners")}
    return [nameless(one) for one in value] if isinstance(value, list) else value


def content(state: bytes) -> bytes:
    """What `to_bytes` has, to be compared with that of another one."""
    header, arrays = read_state(state)
    header.pop("digest", None)
    return as_bytes(header, arrays)


class Meanwhile:
    """Something that another thread does as soon as it can, from ``start()`` on.

    ``start()`` waits until it has been done, or until it is clear that it has to wait.
    """

    def __init__(self, act: Callable[[], Any]) -> None:
        self.error: BaseException | None = None
        self._act = act
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._act()
        except BaseException as error:  # the test looks at it
            self.error = error

    def start(self) -> None:
        if self._thread.ident is None:
            self._thread.start()
            self._thread.join(PATIENCE)

    def finish(self) -> None:
        self._thread.join(300.0)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
