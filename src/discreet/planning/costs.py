"""Plans for costs: submodular minimisation, and online convex learning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..bounds import minimization as bounds
from ..core import checks
from ..online import OnlineLearner
from ..privacy import Budget, Seed
from .plans import Candidate, Plan, Question, decide, made

if TYPE_CHECKING:
    from ..constraints.domains import Domain

FEEDBACK = ("full", "bandit")


def plan_minimization(
    n_items: int,
    rounds: int,
    budget: Budget,
    bound: float = 1.0,
    feedback: str = "full",
    empty_is_free: bool = False,
    labels: Sequence[Any] | None = None,
) -> Plan:
    """Compare what is certified for the learners that choose a cheap set every round, and take the best.

    Costs are submodular with values in [-bound, bound]. ``feedback="full"``: the person's function is seen
    after the round, ``"bandit"``: only what the chosen set cost. ``empty_is_free`` declares that the empty
    set costs nobody anything. Nothing here looks at data.

    >>> import discreet as dc
    >>> plan_minimization(20, 10**6, dc.Budget(1.0, 1e-6)).best.name
    'SubmodularMinimizer'
    """
    checks.one_of("feedback", feedback, FEEDBACK)
    return decide(
        _Minimization(
            checks.whole("rounds", rounds, at_least=1),
            _checked(budget),
            n_items=checks.whole("n_items", n_items, at_least=1),
            bound=checks.real("bound", bound, above=0.0),
            feedback=feedback,
            empty_is_free=bool(empty_is_free),
            labels=None if labels is None else tuple(labels),
        )
    )


def plan_convex(
    domain: Domain,
    rounds: int,
    budget: Budget,
    *,
    lipschitz: float,
    strong_convexity: float = 0.0,
    linear: bool = False,
    feedback: str = "full",
    bound: float | tuple[float, float] | None = None,
    adversary: str = "oblivious",
) -> Plan:
    """Compare what is certified for the learners that play a point every round, and take the best.

    Costs are convex with gradients no longer than ``lipschitz`` on the domain, curved by ``strong_convexity``
    (0: merely Lipschitz), or linear. ``feedback="bandit"``: only what the point cost is seen, a number within
    ``bound``. Nothing here looks at data.

    >>> import discreet as dc
    >>> found = plan_convex(dc.domains.Ball(10, 1.0), 10**5, dc.Budget(1.0, 1e-6), lipschitz=1.0)
    >>> found.best.name, found.vacuous
    ('ApproximateLeader', False)
    """
    from ..constraints.domains import Domain

    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain such as domains.Ball(3, 1.0), got {checks.shown(domain)}")
    checks.one_of("feedback", feedback, FEEDBACK)
    checks.one_of("adversary", adversary, ("oblivious", "adaptive"))
    if feedback == "bandit" and bound is None:
        raise ValueError("bound is missing: say within which range the observed costs lie")
    return decide(
        _Convex(
            checks.whole("rounds", rounds, at_least=1),
            _checked(budget),
            domain=domain,
            lipschitz=checks.real("lipschitz", lipschitz, above=0.0),
            strong_convexity=checks.real("strong_convexity", strong_convexity, at_least=0.0),
            linear=bool(linear),
            feedback=feedback,
            bound=bound,
            adversary=adversary,
        )
    )


def _checked(budget: Budget) -> Budget:
    if not isinstance(budget, Budget):
        raise TypeError(
            f"budget must be a Budget, got {checks.shown(budget)}; e.g. Budget(epsilon=1.0, delta=1e-6)"
        )
    return budget


@dataclass(frozen=True)
class _Minimization(Question):
    """A set of any size a round, as cheap as can be."""

    n_items: int = 0
    bound: float = 1.0
    feedback: str = "full"
    empty_is_free: bool = False
    labels: tuple[Any, ...] | None = None

    @property
    def headline(self) -> str:
        of = f"the cheapest of all sets of {self.n_items:,} items"
        return f"{of}, {self.rounds:,} rounds, {self.feedback} feedback"

    @property
    def trivial(self) -> float:
        return bounds.trivial_cost(self.rounds, self.bound)

    @property
    def without_learning(self) -> tuple[str, float]:
        return "any fixed choice", self.trivial

    def candidates(self) -> Iterator[Candidate]:
        yield from self._bandit() if self.feedback == "bandit" else self._full()

    def _full(self) -> Iterator[Candidate]:
        from ..online.minimize.minimizer import MinimizerSettings

        kinds = [("tree", "laplace"), ("tree", "spherical")]
        if self.budget.delta > 0.0:
            kinds = [*((sums, "gaussian") for sums in (*self.factorised, "tree")), *kinds]
        if not self.budget.private:
            kinds = [("sqrt", "gaussian")]
        for sums, noise in kinds:
            settings: dict[str, Any] = {"sums": sums, "noise": noise}
            if self.empty_is_free:
                settings["empty_is_free"] = True
            found = MinimizerSettings.tight(
                self.n_items, self.rounds, self.budget.share(), self.bound, **settings
            )
            note = "pure epsilon" if noise != "gaussian" else ""
            yield self._candidate("SubmodularMinimizer", settings, found.certified_regret, note=note)

    def _bandit(self) -> Iterator[Candidate]:
        from ..online.minimize.bandit_settings import FORMS, BanditMinimizerSettings, HorizonTooShort

        for form in FORMS:
            try:
                found = BanditMinimizerSettings.tight(
                    self.n_items, self.rounds, self.budget.share(), self.bound, form=form
                )
                formula = found.certified_regret
            except HorizonTooShort:
                formula = self.trivial
            yield self._candidate(
                "BanditSubmodularMinimizer",
                {"form": form},
                formula,
                note="pure epsilon",
                proven=form != "thompson",
            )

    def build(self, candidate: Candidate, seed: Seed) -> OnlineLearner:
        learner: OnlineLearner = made(
            candidate.name,
            self.n_items,
            self.rounds,
            self.budget,
            **{"bound": self.bound, "labels": self.labels, "seed": seed, **candidate.settings},
        )
        return learner


@dataclass(frozen=True)
class _Convex(Question):
    """A point of a domain a round."""

    domain: Any = None
    lipschitz: float = 1.0
    strong_convexity: float = 0.0
    linear: bool = False
    feedback: str = "full"
    bound: float | tuple[float, float] | None = None
    adversary: str = "oblivious"

    @property
    def headline(self) -> str:
        shape = "linear" if self.linear else "curved" if self.strong_convexity else "convex"
        return (
            f"{shape} costs on {self.domain!r}, gradients up to {self.lipschitz:g}, {self.rounds:,} rounds,"
            f" {self.feedback} feedback"
        )

    @property
    def trivial(self) -> float:
        return float(self.lipschitz * self.domain.diameter * self.rounds)

    @property
    def without_learning(self) -> tuple[str, float]:
        return "any fixed point", self.trivial

    def candidates(self) -> Iterator[Candidate]:
        if self.feedback == "bandit":
            yield from self._tried("BanditApproximateLeader", {}, "pure epsilon")
            return
        kinds = [("tree", "laplace"), ("tree", "spherical")]
        if self.budget.delta > 0.0:
            kinds = [*((sums, "gaussian") for sums in (*self.factorised, "tree")), *kinds]
        if not self.budget.private:
            kinds = [("sqrt", "gaussian")]
        for sums, noise in kinds:
            settings, note = {"sums": sums, "noise": noise}, "" if noise == "gaussian" else "pure epsilon"
            yield from self._tried("ApproximateLeader", settings, note)
            if self.linear and noise != "spherical" and self.adversary == "oblivious":
                yield from self._tried("LinearLeader", settings, note)

    def _tried(self, name: str, settings: dict[str, Any], note: str) -> Iterator[Candidate]:
        """The candidate, if there is one: what does not fit (a horizon too short, say) is left out."""
        from ..online.convex.approximate import ApproximateLeaderSettings
        from ..online.convex.bandit_settings import BanditLeaderSettings
        from ..online.convex.linear import LinearLeaderSettings

        kinds: dict[str, Any] = {
            "ApproximateLeader": ApproximateLeaderSettings,
            "BanditApproximateLeader": BanditLeaderSettings,
            "LinearLeader": LinearLeaderSettings,
        }
        asked = self._asked(name) | settings
        try:
            found = kinds[name].tight(self.domain, self.rounds, self.budget.share(), **asked)
        except ValueError:
            return
        yield self._candidate(name, settings, found.certified_regret, note=note)

    def _asked(self, name: str) -> dict[str, Any]:
        """The arguments of the question for a learner of this name."""
        asked: dict[str, Any] = {"lipschitz": self.lipschitz}
        if name != "LinearLeader":
            asked["strong_convexity"] = self.strong_convexity
        if name == "BanditApproximateLeader":
            asked |= {"bound": self.bound, "adversary": self.adversary}
        return asked

    def build(self, candidate: Candidate, seed: Seed) -> OnlineLearner:
        asked = self._asked(candidate.name) | candidate.settings
        learner: OnlineLearner = made(
            candidate.name, self.domain, self.rounds, self.budget, seed=seed, **asked
        )
        return learner
