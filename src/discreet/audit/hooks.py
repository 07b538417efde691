"""The few places where the library draws what protects people, and how an audit takes them into its hands.

This is the only file of the audits that knows where these places are. Everything else treats a mechanism or a
learner as something that is given people and a source of randomness and publishes something.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..offline import methods
from ..privacy import Gate, ReproducibleRandomness, RunningSum, flips, samplers

Floats = NDArray[np.float64]
# Given the probabilities of some candidates, the place of the one that is taken.
Decide = Callable[[Floats], int]
# Given the number of the draw and its size, noise in units of its own scale.
Script = Callable[[int, int], Floats]

ONE = 1 << samplers.STEPS_BITS  # one scale of noise on the grid, in steps
_NOISY = ("laplace", "gaussian", "spherical_laplace")  # methods of a gate


# Where words are drawn for public coins: by module and function. All other words are secret.
_PUBLIC = {
    ("discreet.privacy.randomness", "public_generator"),
    ("discreet.online.select.running_sums", "__init__"),  # which items of a person count
    ("discreet.online.frank_wolfe.sets", "__init__"),  # the same, and which sets are sampled
}


class Source:
    """Random words for one run: public coins are those of ``public`` in every run, all others follow a seed.

    Audits condition on public coins, which protect nobody: everybody may see them.
    """

    secure = False

    def __init__(self, seed: int, public: int = 0) -> None:
        self._own, self._public = ReproducibleRandomness(seed), ReproducibleRandomness(public)

    def words(self, count: int) -> NDArray[np.uint64]:
        asked = sys._getframe(1)
        public = (asked.f_globals["__name__"], asked.f_code.co_name) in _PUBLIC
        return (self._public if public else self._own).words(count)

    def state(self) -> dict[str, Any]:
        return self._own.state()


@contextmanager
def swapped(owner: Any, name: str, value: Any) -> Iterator[None]:
    """``owner.name`` is ``value`` for a while."""
    had, before = name in vars(owner), vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if had:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


class Planted:
    """A drawing function with an error in it, told in two ways: for real draws and for scripted ones.

    ``before`` changes the arguments of the draw, ``after`` its answer.
    """

    def __init__(
        self,
        real: Callable[..., Any],
        before: Callable[..., tuple[Any, ...]] | None = None,
        after: Callable[[Any], Any] | None = None,
    ) -> None:
        self._real = real
        self.before = before or (lambda *given: given)
        self.after = after or (lambda answer: answer)

    def __call__(self, *given: Any, **options: Any) -> Any:
        return self.after(self._real(*self.before(*given), **options))


def errors_in(function: Callable[..., Any]) -> tuple[Callable[..., tuple[Any, ...]], Callable[[Any], Any]]:
    """What a planted error does to the arguments and to the answer; nothing for a sound function."""
    if isinstance(function, Planted):
        return function.before, function.after
    return (lambda *given: given), (lambda answer: answer)


# --- choices --------------------------------------------------------------------------------------


@contextmanager
def scripted_choices(decide: Decide) -> Iterator[None]:
    """Every choice that protects somebody is made by ``decide``, from the real code's scores and rates."""
    from ..backends.numba import hedge

    weights_before, _ = errors_in(samplers.exponential_choice)
    flips_before, _ = errors_in(flips.flipped_choice)
    kept_before, _ = errors_in(methods.kept)
    sets_before, _ = errors_in(hedge.draw_set)

    def choice(source: Any, scores: Floats, rate: float) -> int:
        _, scores, rate = weights_before(source, scores, rate)
        return decide(np.exp(samplers.choice_log_probabilities(scores, rate)))

    def flipped(source: Any, scores: Floats, rate: float) -> int:
        _, scores, rate = flips_before(source, scores, rate)
        return decide(flips.flip_probabilities(scores, rate))

    def kept(source: Any, people: int, keep: int) -> NDArray[np.int64]:
        _, people, keep = kept_before(source, people, keep)
        chance = keep / 2.0**64
        return np.flatnonzero([decide(np.array([1.0 - chance, chance])) for _ in range(people)])

    def draw_set(*given: Any) -> Any:
        told = kernel_arguments(real, sets_before(*given))
        experts = int(told["k"])
        scores, shown = told["gains"].reshape(-1, experts), told["shown"]
        for expert in range(experts):
            left = np.setdiff1d(np.arange(len(scores)), shown[:expert])
            exponents = told["unit"] * (scores[left, expert] - scores[left, expert].max())
            weights = np.exp(exponents)
            shown[expert] = left[0] if left.size == 1 else left[decide(weights / weights.sum())]
        return hedge.DONE

    real = hedge.draw_set
    with ExitStack() as stack:
        stack.enter_context(swapped(samplers, "exponential_choice", choice))
        stack.enter_context(swapped(flips, "flipped_choice", flipped))
        stack.enter_context(swapped(methods, "kept", kept))
        stack.enter_context(swapped(hedge, "draw_set", draw_set))
        yield


def kernel_arguments(kernel: Any, given: tuple[Any, ...]) -> dict[str, Any]:
    """The arguments of a compiled function by name."""
    plain: Any = kernel._real if isinstance(kernel, Planted) else kernel
    code = plain.py_func.__code__
    return dict(zip(code.co_varnames[: code.co_argcount], given, strict=True))


# --- noise ----------------------------------------------------------------------------------------


class Drawn:
    """What was asked of the noise: the size of each draw, and its law."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.laws: list[str] = []
        self.values: list[Floats] = []

    def add(self, law: str, values: Floats) -> None:
        self.sizes.append(values.size)
        self.laws.append(law)
        self.values.append(values)


@contextmanager
def scripted_noise(script: Script | None) -> Iterator[Drawn]:
    """Noise as scripted, in units of its scale; real where there is no script. Either way it is kept."""
    drawn = Drawn()
    steps, vectors = samplers.noise_steps, samplers.spherical_steps
    (_, steps_after), (_, vector_after) = errors_in(steps), errors_in(vectors)

    def scripted(count: int, after: Callable[[Any], Any]) -> NDArray[np.int64]:
        assert script is not None
        return np.asarray(
            after(np.rint(script(len(drawn.sizes), count) * ONE).astype(np.int64)), dtype=np.int64
        )

    def noise_steps(source: Any, count: int, *, gaussian: bool) -> NDArray[np.int64]:
        found = scripted(count, steps_after) if script else steps(source, count, gaussian=gaussian)
        drawn.add("gaussian" if gaussian else "laplace", found / float(ONE))
        return found

    def spherical_steps(source: Any, dimension: int) -> NDArray[np.int64]:
        found = scripted(dimension, vector_after) if script else vectors(source, dimension)
        drawn.add("spherical", found / float(ONE))
        return found

    with (
        swapped(samplers, "noise_steps", noise_steps),
        swapped(samplers, "spherical_steps", spherical_steps),
    ):
        yield drawn


@contextmanager
def overheard(answers: Callable[[int, int], Floats]) -> Iterator[list[Floats]]:
    """Every noisy vector that leaves is kept, and whoever asked gets ``answers(number, size)`` instead.

    What a learner does next depends on what has left. With the same scripted answers, neighbouring runs ask
    for the same releases, and what they would have been can be compared.
    """
    heard: list[Floats] = []

    def instead(real: Callable[..., Any]) -> Callable[..., Any]:
        def release(self: Any, values: Any, *given: Any, **options: Any) -> Any:
            answer = real(self, values, *given, **options)
            found = np.atleast_1d(np.asarray(answer, dtype=np.float64))
            heard.append(found)
            told = answers(len(heard) - 1, found.size)
            return float(told[0]) if np.ndim(answer) == 0 else told

        return release

    with ExitStack() as stack:
        stack.enter_context(swapped(RunningSum, "add", instead(RunningSum.add)))
        for name in _NOISY:
            stack.enter_context(swapped(Gate, name, instead(getattr(Gate, name))))
        yield heard
