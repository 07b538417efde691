"""Submodular minimisation with full information: a set every round, and the person's costs afterwards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...bounds import minimization as bounds
from ...core import checks
from ...core.progress import track
from ...core.settings import Setting, flag, of, one_of, whole
from ...core.state import Saved
from ...objectives import GraphCut, Population, answers
from ...privacy import Account, Event, Participation, Seed, Share, SphericalLaplaceNoise, SumSpec, spend_from
from ...privacy.published import published_share
from ...privacy.spending import Spending
from ...privacy.sums import METHODS
from ...privacy.sums.compiled import no_sum
from ..parts import Part
from ..protocol import CALIBRATIONS, Stream
from ..sums import NOISES, chosen_sums
from ..total import PrivateTotal
from .lovasz_sums import ROUNDING, gradient_bounds, noise_cost
from .sets import (
    SetMinimizer,
    SetMinimizerSettings,
    asked,
    published_regularization,
    wanted_regularization,
)

if TYPE_CHECKING:
    from ...backends.arguments import Cuts


@dataclass(frozen=True, kw_only=True)
class MinimizerSettings(SetMinimizerSettings):
    """What a `SubmodularMinimizer` goes by."""

    sums: str = one_of(METHODS)
    noise: str = one_of(NOISES)
    empty_is_free: bool = flag()
    check: int = whole(at_least=0)
    event: Event | None = of(Event.from_json, Event.to_json, optional=True)

    @classmethod
    def tight(
        cls,
        n_items: int,
        rounds: int,
        share: Share,
        bound: float = 1.0,
        *,
        sums: str = "auto",
        noise: str = "auto",
        regularization: float | str = "auto",
        empty_is_free: bool = False,
        check: int = 0,
        min_separation: int | None = None,
        labels: Sequence[Any] | None = None,
        clip: bool = False,
    ) -> MinimizerSettings:
        """The settings for what is asked, with the least noise that fits into ``share``."""
        common = asked(n_items, rounds, share, bound, labels, clip) | {
            "calibration": "tight",
            "participation": Participation.declared(share, min_separation),
            "centre": 0.5,
            "empty_is_free": bool(empty_is_free),
            "check": checks.whole("check", check, at_least=0),
        }

        def calibrated(method: str, law: str) -> MinimizerSettings:
            found = cls(**common, sums=method, noise=law, event=None)
            spec = found.spec
            return found if spec is None else replace(found, event=spec.event(share, share.notion))

        def pure() -> str:
            return min(("laplace", "spherical"), key=lambda law: calibrated("tree", law).noise_cost)

        found = calibrated(*chosen_sums(sums, noise, share, pure))
        careful, optimistic = found.best_regularization(found.noise_cost), found.best_regularization(0.0)
        return replace(found, regularization=wanted_regularization(regularization, careful, optimistic))

    @classmethod
    def published(
        cls,
        n_items: int,
        rounds: int,
        share: Share,
        bound: float = 1.0,
        *,
        regularization: float | str = "auto",
        empty_is_free: bool = False,
        check: int = 0,
        labels: Sequence[Any] | None = None,
        clip: bool = False,
    ) -> MinimizerSettings:
        """The constants of paper 001: noise for a difference of 4 bound, and one tree level too many."""
        common = asked(n_items, rounds, share, bound, labels, clip)
        horizon, largest = common["rounds"], common["bound"]
        common["regularization"] = published_regularization(regularization, largest * math.sqrt(horizon))
        found = cls(
            **common,
            calibration="published",
            centre=0.0,
            empty_is_free=bool(empty_is_free),
            check=checks.whole("check", check, at_least=0),
            sums="tree",
            noise="spherical",
            event=None,
        )
        spec = found.spec
        if spec is None:
            return found
        levels = math.ceil(math.log2(horizon)) + 1
        scale = 4.0 * largest * levels / share.budget.epsilon
        return replace(found, event=SphericalLaplaceNoise(spec.sensitivity(share.neighbours), scale))

    @property
    def entries(self) -> int:
        return 2 * self.n_items

    @property
    def releases(self) -> int:
        """Sums that a draw can look at."""
        return self.rounds - 1

    @property
    def spec(self) -> SumSpec | None:
        """The running sum of gradients; None where nothing is released."""
        if not self.releases:
            return None
        vectors = gradient_bounds(self.n_items, self.bound, self.noise, self.neighbours, self.empty_is_free)
        reduced = self.sums == "tree" and self.noise == "gaussian"
        more: dict[str, Any] = {"variance_reduction": reduced, "participation": self.participation}
        return SumSpec(vectors, self.releases, self.sums, self.noise, **more)

    @property
    def limit(self) -> float:
        """The range that a gradient may need along a chain of sets."""
        return self.bound if self.empty_is_free else 2.0 * self.bound

    @property
    def noise_cost(self) -> float:
        """What the noise costs a round, times the regularization, on average over the rounds."""
        spec, event = self.spec, self.event
        if spec is None or event is None:
            return 0.0
        return noise_cost(spec, event, self.rounds, self.bound, empty_is_free=self.empty_is_free)

    def best_regularization(self, noise: float) -> float:
        """The regularization with the smallest certificate, if the noise costs so much a round."""
        shape = (self.n_items, self.rounds, noise, self.bound)
        return bounds.best_regularization(*shape, empty_is_free=self.empty_is_free)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected cost beyond the best fixed set's: `bounds.minimization.lovasz_leader`."""
        return bounds.lovasz_leader(
            self.n_items,
            self.rounds,
            self.regularization,
            self.noise_cost,
            self.bound,
            empty_is_free=self.empty_is_free,
            centre=self.centre,
        )


class SubmodularMinimizer(SetMinimizer):
    """Follow the regularised leader on private sums of Lovasz gradients; serve a set drawn by a threshold.

    The point x in [0, 1]^n that minimises <v, x> + H/2 |x - 1/2|^2 has a closed form; a public coin tau makes
    it the set {i : x_i > tau}. The person's costs along the chain of sets that x passes through give a
    gradient, and v is the private running sum of these: SUBMODPRFTL of Cardoso and Cummings (2019; proofs in
    paper 001). Costs are any submodular functions with values in [-``bound``, ``bound``], rising or falling:
    `GraphCut`, `SetFunction`, mixtures. A Lovasz extension is piecewise linear: merely Lipschitz, so there is
    no strongly convex case here, as there is none in the paper.

    ``sums`` and ``noise``: ``"sqrt"`` or ``"blt"`` with Gaussian noise; ``"tree"`` with Gaussian, spherical
    (the paper's) or per-coordinate Laplace noise, the last two for a pure epsilon. ``"auto"`` is ``"sqrt"``
    where the budget has a delta, else the tree whose noise certifies less. ``regularization`` is H;
    ``"auto"`` is half of what the certified regret is smallest at: a quarter more is certified, and learning
    is twice as fast. The certificate has to fear gradients that lie along the noise; ``"optimistic"`` takes
    the H of a learner without noise, on the same noisy sums: the same privacy, much better on streams that do
    not fight the learner, and hardly anything certified. ``empty_is_free`` declares that the empty set costs
    everybody 0, which saves a quarter of the noise. ``check=m`` asks every person m questions that a cost
    which is not submodular may fail; it is refused then, and the round stays open. ``clip=True`` shortens
    gradients that the bound does not allow instead of refusing them; ``insecure_clipped`` counts them.
    ``min_separation=s`` is for people who return, as in `RunningSumSelector`; every round is a batch here.

    Formal guarantee: replacing a person moves one gradient by at most 2 sqrt(6) ``bound`` in L2, 8 ``bound``
    in L1, adding or removing one by 2 sqrt(2) and 4 ``bound`` (`bounds.minimization.gradient_difference`);
    every gradient is held to exactly the set that these numbers are about. Everything after the running sum
    is post-processing. Holds for people chosen with knowledge of all earlier sets.

    ``calibration="published"`` has the paper's constants: spherical noise for a difference of 4 ``bound``,
    one tree level too many, H = M sqrt(T), centre 0. The account says what that really costs.

    >>> import discreet as dc
    >>> people = dc.objectives.GraphCut([[[0, 1], [0, 0]]] * 500, modular=[-1.0, 0.5], directed=True, bound=2)
    >>> learner = SubmodularMinimizer(2, len(people), dc.Budget(4.0, 1e-6), bound=2.0, seed=0)
    >>> trace = learner.run(people)
    >>> learner.privacy.epsilon(1e-6) <= 4.0, trace.average < 0.0
    (True, True)
    """

    settings: MinimizerSettings
    _settings_type: ClassVar[type[MinimizerSettings]] = MinimizerSettings

    sums = Setting("The method of the running sums.")
    noise = Setting("The distribution of their noise.")
    empty_is_free = Setting("Whether the empty set is declared to cost everybody nothing.")
    check = Setting("How many questions every person is asked about their function.")

    def __init__(
        self,
        n_items: int,
        rounds: int,
        budget: Spending,
        bound: float = 1.0,
        *,
        sums: str = "auto",
        noise: str = "auto",
        regularization: float | str = "auto",
        empty_is_free: bool = False,
        check: int = 0,
        min_separation: int | None = None,
        calibration: str = "tight",
        labels: Sequence[Any] | None = None,
        clip: bool = False,
        seed: Seed = None,
    ) -> None:
        share = spend_from(budget, seed)
        common: dict[str, Any] = {
            "regularization": regularization,
            "empty_is_free": empty_is_free,
            "check": check,
            "labels": labels,
            "clip": clip,
        }
        if checks.one_of("calibration", calibration, CALIBRATIONS) == "published":
            other = min_separation is not None or noise not in ("auto", "spherical")
            if other or sums not in ("auto", "tree"):
                raise ValueError(
                    f"sums={sums!r}, noise={noise!r} and min_separation={min_separation} are not what was"
                    " published, a tree with spherical noise; leave them out"
                )
            settings = MinimizerSettings.published(n_items, rounds, share, bound, **common)
            spec, event = settings.spec, settings.event
            releases = [] if spec is None or event is None else [(event, spec.count)]
            share = published_share(share, releases, "SubmodularMinimizer")
        else:
            common |= {"sums": sums, "noise": noise, "min_separation": min_separation}
            settings = MinimizerSettings.tight(n_items, rounds, share, bound, **common)
        super().__init__(settings, share)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected cost beyond the best fixed set's, over the declared rounds.

        `bounds.minimization.lovasz_leader`; rounds that are not learned from are not in it. It holds for any
        regularization; at ``"optimistic"`` it mostly is the trivial bound, and promises nothing.
        """
        return self.settings.certified_regret

    # --- for the protocol ------------------------------------------------------------------------

    def _begin(self) -> None:
        super()._begin()
        settings = self.settings
        self._coins, self._check_coins = self._gate.coins(), self._gate.coins(1)
        self._total = PrivateTotal(
            settings.spec,
            self._gate,
            settings.event,
            (settings.n_items,),
            ahead=True,
            trees=True,
            label="gradients",
        )

    @property
    def _known(self) -> NDArray[np.float64]:
        return self._total.known

    def _draw(self) -> NDArray[np.float64]:
        settings = self.settings
        if self.round:
            self._total.release()
        shown, coin = np.empty(settings.n_items), float(self._coins.generator.random())
        backends.minimization.threshold(self._known, settings.regularization, settings.centre, coin, shown)
        return shown

    def _order(self) -> NDArray[np.int64]:
        """The items as the chain adds them; ties of x are broken by the sums, those of the sums by number."""
        order = np.arange(self.settings.n_items)
        backends.minimization.put_in_order(self._known, order)
        return order

    def _prepared(self, person: Any) -> tuple[NDArray[np.float64], bool]:
        """The person's gradient along this round's chain, and whether it had to be clipped."""
        settings = self.settings
        self._check_people(person)
        if len(person) != 1:
            raise ValueError("learn() takes one person; use run() for a stream")
        limit = self._limit(person)
        if isinstance(person, GraphCut):
            gradient = np.empty(settings.n_items)
            backends.minimization.cut_gradient(person.as_arcs(), 0, self._known, gradient)
        else:
            self._question(person)
            gradient = answers.vector("gradient", person.lovasz_gradient(-self._known), settings.n_items)
        size = backends.minimization.gauge(gradient, self._order(), settings.empty_is_free)
        if size <= limit:
            return gradient, False
        outside = bool(size > limit * (1.0 + ROUNDING))
        if outside and not settings.clip:
            raise ValueError(
                f"along this round's sets the person's costs need a range of {size:.6g}, above {limit:g}:"
                f" they leave [-{settings.bound:g}, {settings.bound:g}], or the cost is not submodular;"
                " rescale, declare a larger bound, or pass clip=True"
            )
        return gradient * (limit / size), outside

    def _limit(self, people: Population) -> float:
        """What `gauge` may be; infinite for cuts that are held to no more than the bound of their own."""
        if isinstance(people, GraphCut) and people.bound <= self.settings.bound:
            return math.inf
        return self.settings.limit

    def _question(self, person: Population) -> None:
        """Refuse a cost that breaks a declaration on a few random sets; the sets depend on nobody."""
        settings = self.settings
        slack, size = ROUNDING * settings.bound, settings.n_items

        def cost(items: list[int]) -> float:
            return answers.number("value", person.value(items))

        if settings.empty_is_free and abs(empty := cost([])) > slack:
            raise ValueError(f"the empty set costs {empty:g}; empty_is_free=True declares 0")
        if not settings.check or size < 2:
            return
        coins = self._check_coins.of_round(self.round)
        for _ in range(settings.check):
            i, j = (int(item) for item in coins.choice(size, size=2, replace=False))
            inside = coins.random(size) < 0.5
            inside[[i, j]] = False
            base = [int(item) for item in np.flatnonzero(inside)]
            alone = cost([*base, i]) - cost(base)
            later = cost([*base, j, i]) - cost([*base, j])
            if later > alone + 4.0 * slack:
                raise ValueError(
                    f"the cost is not submodular: item {i} adds {alone:.6g} to {base}, and {later:.6g} after"
                    f" item {j} has joined; give submodular costs, or leave check out"
                )

    def _absorb(self, person: tuple[NDArray[np.float64], bool]) -> None:
        gradient, clipped = person
        self._total.gather(gradient)
        self._clipped.add(clipped)

    def _loop(self) -> Any:
        return backends.minimization.cut_rounds

    def _run_cuts(self, stream: Stream, cuts: Cuts) -> None:
        if not self._total.compiles:
            self._run_single_cuts(stream, cuts)
            return
        settings, count, first = self.settings, stream.rewards.size, 0
        limit = self._limit(stream.people)
        while first < count:
            self._next()
            size = min(count - first, self._total.rows_ahead(count - first - 1) + 1)
            stop, shown = first + size, self._shown.copy()
            coins = self._coins.generator.random(size - 1)
            with self._total.compiled(size - 1) as (inside, known, gathered):
                clipped = backends.minimization.cut_rounds(
                    cuts,
                    first,
                    stream.within_limit[first:stop],
                    limit,
                    settings.empty_is_free,
                    settings.regularization,
                    settings.centre,
                    coins,
                    shown,
                    inside,
                    known,
                    gathered,
                    stream.rewards[first:stop],
                    stream.selections[first:stop],
                )
                self._rounds.close(size)
                self._rounds.show(shown)
                self._clipped.add(clipped)
            first = stop

    def _run_single_cuts(self, stream: Stream, cuts: Cuts) -> None:
        """Trees: the same gradients, compiled one by one, and sums as `TreeSum` takes them."""
        settings, limit = self.settings, self._limit(stream.people)
        nothing = no_sum(settings.n_items)
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            self._next()
            gradient, here = np.zeros(settings.n_items), slice(t, t + 1)
            clipped = backends.minimization.cut_rounds(
                cuts,
                t,
                stream.within_limit[here],
                limit,
                settings.empty_is_free,
                settings.regularization,
                settings.centre,
                np.empty(0),
                self._shown,
                nothing,
                self._known,
                gradient,
                stream.rewards[here],
                stream.selections[here],
            )
            self._take((gradient, clipped), True)

    def _spent(self) -> Account:
        return self._account(*self._total.released())

    # --- saving ----------------------------------------------------------------------------------

    def _parts(self) -> Mapping[str, Part]:
        return {
            "coins": self._coins,
            "check_coins": self._check_coins,
            "total": self._total,
            "clipped": self._clipped,
        }

    def _restore(self, saved: Saved) -> None:
        self._coins.resume(saved.part("coins"))
        self._check_coins.resume(saved.part("check_coins"))
        self._total.resume(saved.part("total"), self._rounds, 1)
        if self._total.sum is not None and not self._total.exhausted:
            self._total.sum.bounds.checked(self._total.gathered, clip=False)
        self._clipped.resume(saved.part("clipped"), self._rounds)
