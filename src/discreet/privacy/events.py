"""Privacy events: one frozen class per kind of release, each with its own privacy loss.

An event gives the loss of one release; multiplication by the number of releases happens only in
``Loss.__mul__``, in the account. Events serialize to JSON and back unchanged.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

from ..core import checks
from . import conversions
from .budget import DEFINITIONS, Share
from .conversions import exact, fraction, root_below, rounded_down

Number = float | Fraction
_ZERO = Fraction(0)


# Sums of many different losses have ever longer denominators; beyond this many bits they are rounded up to a
# multiple of 2^-_BITS.
_BITS = 600


def _plus(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    if a is None or b is None:
        return None
    return _tidy(a + b if a and b else a or b)


def _tidy(value: Fraction) -> Fraction:
    if value.denominator.bit_length() <= _BITS:
        return value
    return Fraction(-((-value.numerator << _BITS) // value.denominator), 1 << _BITS)


def _larger(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    return None if a is None or b is None else max(a, b)


class Loss(NamedTuple):
    """Privacy loss in every definition at once; each adds up over adaptively chosen releases.

    ``rho`` and ``mu_squared`` cover all releases. ``pure`` covers only those with a pure epsilon;
    ``rest_rho`` and ``rest_mu_squared`` cover those without one, so that the two kinds can also be converted
    separately. None stands for unbounded. ``delta`` is the sum of the deltas of approximate releases.
    """

    pure: Fraction | None = _ZERO
    rho: Fraction | None = _ZERO
    mu_squared: Fraction | None = _ZERO
    rest_rho: Fraction | None = _ZERO
    rest_mu_squared: Fraction | None = _ZERO
    delta: Fraction = _ZERO

    def __add__(self, other: Loss) -> Loss:  # type: ignore[override]
        return Loss._make((*map(_plus, self[:-1], other[:-1]), _tidy(self.delta + other.delta)))

    def __mul__(self, count: int) -> Loss:  # type: ignore[override]
        if count == 1:
            return self
        return Loss(
            self.pure and self.pure * count,  # 0 and None stay what they are
            self.rho and self.rho * count,
            self.mu_squared and self.mu_squared * count,
            self.rest_rho and self.rest_rho * count,
            self.rest_mu_squared and self.rest_mu_squared * count,
            self.delta and self.delta * count,
        )

    def worst(self, other: Loss) -> Loss:
        """The larger of the two in every definition: a bound if a person is affected by only one of them."""
        return Loss._make((*map(_larger, self[:-1], other[:-1]), max(self.delta, other.delta)))

    @classmethod
    def of_pure(cls, epsilon: Fraction) -> Loss:
        """A step known only to be ``epsilon``-DP."""
        return cls(epsilon, conversions.pure_rho(epsilon), conversions.pure_mu_squared(epsilon))

    @classmethod
    def of_range(cls, width: Fraction) -> Loss:
        """A step whose privacy loss lies in an interval of length ``width``."""
        return cls(width, conversions.range_rho(width), conversions.range_mu_squared(width))

    @classmethod
    def of_gaussian(cls, mu_squared: Fraction) -> Loss:
        """A step that is mu-Gaussian DP, and so mu^2/2-zCDP."""
        rho = mu_squared / 2
        return cls(_ZERO, rho, mu_squared, rho, mu_squared)

    @classmethod
    def unbounded(cls) -> Loss:
        """A step without noise."""
        return cls(None, None, None, None, None)


@dataclass(frozen=True, eq=False)
class Event:
    """One release. Subclasses define its privacy ``loss`` and how it shrinks (``scaled``).

    Two are equal if their classes and numbers are: 0.1 is read as 1/10, and ``Fraction(0.1)`` is not.
    """

    _kinds: ClassVar[dict[str, type[Event]]] = {}
    _integers: ClassVar[tuple[str, ...]] = ()  # fields that are integers, at least 1; others are reals
    _positive: ClassVar[tuple[str, ...]] = ()  # fields that must not be 0

    def __init_subclass__(cls) -> None:
        if not cls.__name__.startswith("_"):
            Event._kinds[cls.__name__] = cls

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if type(value) is float and 0.0 < value < math.inf and name not in self._integers:
                continue
            if name in self._integers:
                number: Number = checks.whole(name, value, at_least=1, at_most=checks.ANY)
            else:
                number = checks.real(name, value, at_least=0.0, above=0.0 if name in self._positive else None)
            if not isinstance(value, Fraction):
                object.__setattr__(self, name, number)

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return tuple([_unlike_floats(getattr(self, field.name)) for field in fields(self)])

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self._key == other._key)

    def __hash__(self) -> int:
        return hash((type(self), *self._key))

    def loss(self) -> Loss:
        """The privacy loss of one such release, for a person who is in it once."""
        raise NotImplementedError

    def scaled(self, factor: float) -> Self:
        """The same release with its privacy loss multiplied by ``factor`` (at most 1)."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values; ``Event.from_json`` gives the equal event back."""
        values = {k: str(v) if isinstance(v, Fraction) else v for k, v in asdict(self).items()}
        return {"kind": type(self).__name__, **values}

    @staticmethod
    def from_json(record: dict[str, Any]) -> Event:
        """The event that ``to_json`` wrote."""
        values = dict(record)
        kind = values.pop("kind", None)
        if kind not in Event._kinds:
            raise ValueError(f"unknown event kind {kind!r}; known: {', '.join(sorted(Event._kinds))}")
        try:
            numbers = {k: fraction(v) if isinstance(v, str) else v for k, v in values.items()}
        except ZeroDivisionError as error:
            raise ValueError(f"the record of a {kind} divides by 0") from error
        return Event._kinds[kind](**numbers)


def _unlike_floats(number: Number) -> Number | tuple[Fraction]:
    """The number; in a tuple where it equals a float that is read as another number."""
    if isinstance(number, Fraction) and number == float(number) and exact(float(number)) != number:
        return (number,)
    return number


def _part(factor: Any) -> Fraction:
    checks.real("factor", factor, above=0.0)
    return exact(factor)


def _of(share: Any) -> Share:
    checks.instance("share", share, Share, "budget.share()")
    return share  # type: ignore[no-any-return]


def _ratio(sensitivity: Number, scale: Number) -> Fraction | None:
    """sensitivity / scale, None (unbounded) for no noise on something that can move."""
    if sensitivity == 0:
        return _ZERO
    return None if scale == 0 else exact(sensitivity) / exact(scale)


def _largest_each(
    share: Share, count: int, definition: str | None, rho: Number, mu_squared: Number
) -> Fraction:
    """The largest epsilon (or range) that each of ``count`` releases can have.

    ``rho`` and ``mu_squared`` are the squared epsilons (or ranges) that one unit of each pays for.
    """

    def each(definition: str) -> Fraction:
        if definition == "pure":
            assert isinstance(share.epsilon, Fraction)
            return share.epsilon / count
        square = exact(rho) * share.rho if definition == "zcdp" else exact(mu_squared) * share.mu_squared
        assert isinstance(square, Fraction)
        return root_below(square / count)

    if definition is None:
        return max(each("pure"), each("zcdp"))
    if not (found := each(checks.one_of("definition", definition, DEFINITIONS))):
        raise ValueError(
            f"definition={definition!r} needs delta > 0; give the budget a delta or take pure epsilon"
        )
    return found


@dataclass(frozen=True)
class ScoreChange:
    """How far one person can move the scores of a choice.

    ``ScoreChange(1.0)``: each score by at most 1 either way, so the difference of two scores by at most 2.
    ``ScoreChange(1.0, one_directional=True)``: all up or all down (adding or removing a person whose
    contributions are not negative), so a difference by at most 1.

    >>> ScoreChange(1.0).range, ScoreChange(1.0, one_directional=True).range
    (2.0, 1.0)
    """

    each: float
    one_directional: bool = False

    def __post_init__(self) -> None:
        checks.real("each", self.each, at_least=0.0)

    @property
    def range(self) -> float:
        """Largest minus smallest change over the candidates."""
        return self.each if self.one_directional else 2.0 * self.each


@dataclass(frozen=True, eq=False)
class _Choice(Event):
    """One draw of a candidate by its score, at ``rate``.

    ``range`` is how far one person can move the difference of two scores: the largest minus the smallest
    change over the candidates.
    """

    rate: float
    range: float

    # One over the rho, and one over the mu squared, per unit of the square of ``rate * range``.
    _units: ClassVar[tuple[Number, Number]]

    @property
    def width(self) -> Fraction:
        return exact(self.rate) * exact(self.range)

    def scaled(self, factor: float) -> Self:
        return replace(self, rate=rounded_down(exact(self.rate) * _part(factor)))

    @classmethod
    def within(cls, share: Share, range: float, count: int = 1, definition: str | None = None) -> Self:
        """The largest rate at which ``count`` choices fit into ``share``, by ``definition``.

        By default the larger of what pure epsilon and what zCDP allows; zCDP wins from a few choices on.

        >>> from discreet.privacy import Budget
        >>> ExponentialChoice.within(Budget(1.0).share(), 2.0, count=5).rate
        0.1
        """
        width = checks.real("range", range, above=0.0)
        checks.whole("count", count, at_least=1, at_most=checks.ANY)
        if not _of(share).budget.private:
            raise ValueError("an infinite budget sets no rate; choose one from the learning problem")
        each = _largest_each(share, count, definition, *cls._units)
        return cls(rounded_down(each / exact(width)), width)


@dataclass(frozen=True, eq=False)
class ExponentialChoice(_Choice):
    """One draw of the exponential mechanism: weights ``exp(rate * score)``.

    Its privacy loss lies in an interval of length ``rate * range``.
    """

    # A range w costs w^2/8 of rho, and at most (pi/2)(w/2)^2 of mu squared.
    _units = (8, 4 / conversions.HALF_PI)

    def loss(self) -> Loss:
        return Loss.of_range(self.width)


@dataclass(frozen=True, eq=False)
class PermuteAndFlip(_Choice):
    """One draw by permute-and-flip (`samplers.permute_and_flip`).

    Only differences of scores matter to it, so any change is equivalent to one where each score rises by
    between 0 and ``range``, and no outcome becomes more than ``exp(rate * range)`` times as likely. Its
    privacy loss can be anything between plus and minus ``rate * range`` rather than in an interval of that
    length, so only a pure epsilon is known: in zCDP it costs four times as much as an exponential choice.
    """

    _units = (2, 1 / conversions.HALF_PI)

    def loss(self) -> Loss:
        return Loss.of_pure(self.width)


@dataclass(frozen=True, eq=False)
class LaplaceNoise(Event):
    """Laplace noise of ``scale`` on every coordinate; ``sensitivity`` is in L1."""

    sensitivity: Number
    scale: Number

    def loss(self) -> Loss:
        epsilon = _ratio(self.sensitivity, self.scale)
        return Loss.unbounded() if epsilon is None else Loss.of_pure(epsilon)

    def scaled(self, factor: float) -> Self:
        return replace(self, scale=exact(self.scale) / _part(factor))

    @classmethod
    def within(cls, share: Share, sensitivity: Number, count: int = 1, definition: str | None = None) -> Self:
        """The least noise with which ``count`` releases fit into ``share``, by ``definition``.

        By default by pure epsilon, or by zCDP if that needs less noise (with a delta, from some twenty
        releases on).
        """
        checks.whole("count", count, at_least=1, at_most=checks.ANY)
        share = _of(share)
        if not share.budget.private:
            return cls(sensitivity, 0.0)
        # An epsilon e costs at most e^2/2 of rho, and at most (pi/2) e^2 of mu squared.
        each = _largest_each(share, count, definition, 2, 1 / conversions.HALF_PI)
        return cls(sensitivity, exact(sensitivity) / each)


@dataclass(frozen=True, eq=False)
class SphericalLaplaceNoise(LaplaceNoise):
    """Noise with density falling as ``exp(-|z|/scale)`` in the Euclidean norm; ``sensitivity`` is in L2.

    The noise vector of papers 001 and 004.
    """


@dataclass(frozen=True, eq=False)
class GaussianNoise(Event):
    """Gaussian noise of standard deviation ``sigma`` on every coordinate; ``sensitivity`` is in L2."""

    sensitivity: Number
    sigma: Number

    def loss(self) -> Loss:
        mu = _ratio(self.sensitivity, self.sigma)
        return Loss.unbounded() if mu is None else Loss.of_gaussian(mu * mu)

    def scaled(self, factor: float) -> Self:
        return replace(self, sigma=exact(self.sigma) / _part(factor))

    @classmethod
    def within(cls, share: Share, sensitivity: Number, count: int = 1, definition: str | None = None) -> Self:
        """The least noise with which ``count`` releases fit into ``share``, by ``definition`` or GDP."""
        checks.whole("count", count, at_least=1, at_most=checks.ANY)
        share = _of(share)
        if not isinstance(share.mu_squared, Fraction) or not isinstance(share.rho, Fraction):
            return cls(sensitivity, 0.0)
        if share.mu_squared == 0 or definition == "pure":
            raise ValueError(
                "Gaussian noise needs delta > 0, and a privacy definition other than pure epsilon; give the"
                " budget a delta or use Laplace noise"
            )
        square = 2 * share.rho if definition == "zcdp" else share.mu_squared
        return cls(sensitivity, exact(sensitivity) / root_below(square / count))


@dataclass(frozen=True, eq=False)
class GroupGaussianNoise(GaussianNoise):
    """Noise on a release with ``participations`` rounds of a person; ``sensitivity`` is for all of them.

    Budgets count by the round and multiply mu by ``max_rounds_per_person`` (group privacy), so the loss of a
    round is mu / ``participations``: the product is the person's loss if both numbers agree (`check_group`).
    """

    participations: int

    _integers = ("participations",)

    def loss(self) -> Loss:
        together = super().loss().mu_squared
        return Loss.unbounded() if together is None else Loss.of_gaussian(together / self.participations**2)

    @classmethod
    def within(cls, share: Share, sensitivity: Number, count: int = 1, definition: str | None = None) -> Self:
        one = GaussianNoise.within(share, sensitivity, count, definition)
        rounds = share.budget.max_rounds_per_person
        return cls(one.sensitivity, exact(one.sigma) / rounds, rounds)


@dataclass(frozen=True, eq=False)
class PureRelease(Event):
    """Any release that is ``epsilon``-DP; the proof is the caller's."""

    epsilon: Number

    def loss(self) -> Loss:
        return Loss.of_pure(exact(self.epsilon))

    def scaled(self, factor: float) -> Self:
        return replace(self, epsilon=exact(self.epsilon) * _part(factor))


@dataclass(frozen=True, eq=False)
class ConcentratedRelease(Event):
    """Any release that is ``rho``-zCDP; the proof is the caller's."""

    rho: Number

    def loss(self) -> Loss:
        rho = exact(self.rho)
        return Loss(_ZERO, rho, None, rho, None)

    def scaled(self, factor: float) -> Self:
        return replace(self, rho=exact(self.rho) * _part(factor) ** 2)


@dataclass(frozen=True, eq=False)
class ApproximateRelease(Event):
    """Any release that is (``epsilon``, ``delta``)-DP; the proof is the caller's."""

    epsilon: Number
    delta: Number

    def loss(self) -> Loss:
        return Loss.of_pure(exact(self.epsilon))._replace(delta=exact(self.delta))

    def scaled(self, factor: float) -> Self:
        return replace(self, epsilon=exact(self.epsilon) * _part(factor))
