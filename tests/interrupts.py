"""KeyboardInterrupt everywhere: at every line of the library, and wherever Python itself looks for signals.

A story is a list of calls about one object. `interrupted` runs one call with an interrupt at a given place;
`live` tells a story in which every call is interrupted at its n-th place and then made again. A `Watch` sees
what the calls release: it stands beside the library, which cannot hide anything from it.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import discreet
from discreet.audit.hooks import swapped
from discreet.online.bandit import ValueFeedback
from discreet.online.sums import BatchTotal
from discreet.online.window import Window
from discreet.privacy import Release, RunningSum
from discreet.privacy.ledger import Charge

SOURCE = str(Path(discreet.__file__).parent)
# A call that was interrupted half-way may leave an object that refuses to go on.
HALFWAY = "interrupted half-way"


@cache
def places(code: CodeType) -> tuple[frozenset[int], dict[int, int]]:
    """The offsets of calls, and of each instruction the handler of what it raises."""
    known = dis.Bytecode(code)
    found, calls, last = {}, set(), 0
    for one in known:
        if one.opname.startswith("CALL"):
            calls.add(one.offset)
        for entry in known.exception_entries:
            if entry.start <= one.offset < entry.end:
                found[one.offset] = entry.target
        if one.opname == "NOP" and last in found:  # between a loop and the end of its ``with`` block
            found.setdefault(one.offset, found[last])
        last = one.offset
    return frozenset(calls), found


class Interrupt:
    """KeyboardInterrupt at the ``at``-th place of the library that is reached inside; ``where`` it came.

    Places are lines, returns, and what follows a call within a line, where Python looks for signals. The end
    of a ``with`` block is a line to `sys.settrace`, but no signal comes between the block and its end.
    """

    def __init__(self, at: int) -> None:
        self.left, self.where = at, ""

    def _enter(self, frame: FrameType, event: str, given: Any) -> Any:  # noqa: ARG002
        code = frame.f_code
        if not code.co_filename.startswith(SOURCE):
            return None
        frame.f_trace_opcodes = True
        (calls, handlers), before = places(code), -1
        returns = not code.co_flags & inspect.CO_GENERATOR  # to which a yield is a return as well

        def inside(frame: FrameType, event: str, given: Any) -> Any:  # noqa: ARG001
            nonlocal before
            now = frame.f_lasti
            if event == "return":
                here = returns
            else:
                here = event == "line" or (event == "opcode" and before in calls)
                here = here and (before not in handlers or handlers[before] == handlers.get(now))
            if event == "opcode":
                before = now
            if here:
                self.left -= 1
                if self.left < 0:
                    own = Path(code.co_filename).name
                    self.where = f"{own}:{frame.f_lineno} in {code.co_name}, at a {event}"
                    raise KeyboardInterrupt
            return inside

        return inside

    def __enter__(self) -> Interrupt:
        self._before = sys.gettrace()
        self._held = self._enter  # the interpreter may call it once more after it has let go of it
        sys.settrace(self._held)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)


def interrupted(call: Callable[[], Any], at: int) -> tuple[Any, str]:
    """What ``call`` returned, and where it was interrupted; "" if it ended before the ``at``-th place."""
    found = None
    with Interrupt(at) as stop:
        try:
            found = call()
        except KeyboardInterrupt:
            assert stop.where
    return found, stop.where


# --- what is released ----------------------------------------------------------------------------------


class Watch:
    """Everything that is drawn while it watches, and what it was drawn for.

    Nothing is drawn before its charge is in the ledger. No noise serves two releases. ``sums`` adds up, for
    each kind of release, what was in it before noise: of people who want an item each, a number for each.
    """

    def __init__(self) -> None:
        self.sums: dict[str, Any] = {}
        self.used: set[Any] = set()  # entries of releases that were made
        self._noise: set[bytes] = set()
        self._drawn: dict[Any, list[Any]] = {}  # by accountant and entry: who draws

    def charged(self, release: Release) -> None:
        """A draw is about to be made: its charge must be in the ledger."""
        if release.entry.label == "post-processing":
            return
        accountant = release._alive.__self__
        listed: list[Charge] = list(accountant.ledger.entries())
        paid = sum(one.count for one in listed if one.entry == release.entry)
        drawn = self._drawn.setdefault((id(accountant), release.entry), [accountant])
        if all(one is not release for one in drawn):
            drawn.append(release)
        due = sum(one.count for one in drawn[1:])
        assert paid >= due, "noise was drawn before its charge was in the ledger"

    def fresh(self, noise: Any) -> None:
        """Noise that enters a release: it must not have entered another one."""
        own = np.ascontiguousarray(noise)
        if own.any():
            assert own.tobytes() not in self._noise, "noise was used twice"
            self._noise.add(own.tobytes())

    def summed(self, name: str, values: Any) -> None:
        """What enters a release, before noise: nobody may be in it twice, nor in two of them."""
        found = np.abs(np.asarray(values, dtype=np.float64))
        known = self.sums.get(name)
        if known is None or known.shape != found.shape:
            self.sums[name] = found
        else:
            self.sums[name] = known + found

    def highest(self, name: str, values: Any) -> None:
        """The same for sums that go on: what is in them later is in them once."""
        self.sums[name] = np.maximum(self.sums.get(name, 0.0), float(np.max(values, initial=0.0)))


@contextmanager
def watched() -> Iterator[Watch]:
    """Watch every release of the library."""
    watch = Watch()

    def before(real: Callable[..., Any]) -> Callable[..., Any]:
        def draw(self: Release, *given: Any, **options: Any) -> Any:
            watch.charged(self)
            return real(self, *given, **options)

        return draw

    add, steps, compiled = RunningSum.add, RunningSum._noise_steps, RunningSum.compiled
    close, noisy, one, ordered = Window.close, BatchTotal.noisy, ValueFeedback._noise_for, Release.ordered_set

    def added(self: RunningSum, vector: Any) -> Any:
        watch.summed(self._release.entry.label, vector)
        found = add(self, vector)
        watch.used.add(self._release.entry)
        return found

    def drawn(self: RunningSum) -> Any:
        found = steps(self)
        watch.fresh(found)
        return found

    @contextmanager
    def looped(self: RunningSum, count: int) -> Iterator[Any]:
        with compiled(self, count) as inside:
            for row in self._at.ahead[:count]:
                watch.fresh(row)
            yield inside
        watch.used.add(self._release.entry)

    def closed(self: Window, *given: Any) -> Any:
        gains = close(self, *given)
        name = f"window of a {type(self).__name__}"
        (watch.summed if type(self) is Window else watch.highest)(name, gains.scores())
        return gains

    def batch(self: BatchTotal, sums: Any) -> Any:
        watch.summed(self.entry.label, sums)
        found = noisy(self, sums)
        watch.fresh(found - sums)
        watch.used.add(self.entry)
        return found

    def sample(self: ValueFeedback, *place: int) -> int:
        found = one(self, *place)
        if self._total is not None and self._total.grid is not None:
            watch.fresh(np.array([found]))
            watch.used.add(self._total.entry)
        return found

    def scored(self: Release, experts: Any) -> Any:
        watch.charged(self)
        watch.highest(f"scores of {self.entry.label}", experts.scores)
        return ordered(self, experts)

    with ExitStack() as stack:
        for name in ("steps", "noise_rows", "choice", "permute_and_flip", "noisy_maximum", "words"):
            stack.enter_context(swapped(Release, name, before(getattr(Release, name))))
        for owner, name, value in (
            (RunningSum, "add", added),
            (RunningSum, "_noise_steps", drawn),
            (RunningSum, "compiled", looped),
            (Window, "close", closed),
            (BatchTotal, "noisy", batch),
            (ValueFeedback, "_noise_for", sample),
            (Release, "ordered_set", scored),
        ):
            stack.enter_context(swapped(owner, name, value))
        yield watch
