"""Settings are read-only once an object is made: what is guaranteed was computed from them."""

from __future__ import annotations

import inspect
from functools import partial

import numpy as np
import pytest

import discreet as dc
from discreet import constraints as c
from discreet import objectives, offline, online, privacy
from discreet.constraints import domains
from discreet.objectives import losses
from discreet.privacy import factorizations
from tests.objectives.families import FAMILIES
from tests.online.learners import EVERYBODY, N_ITEMS, made, people

BUDGET = dc.Budget(1.0, 1e-6)
CHOOSERS = {
    "greedy": made(offline.PrivateGreedy, 2, BUDGET),
    "continuous": made(offline.ContinuousGreedy, 2, BUDGET, steps=2),
    "curvature": made(offline.CurvatureGreedy, c.Cardinality(2), BUDGET, steps=2),
}
SUMS = {
    "tree": made(privacy.TreeSum, 3, 8, BUDGET, norm_bound=1.0),
    "tree of Laplace noise": made(privacy.TreeSum, 3, 8, BUDGET, norm_bound=1.0, noise="laplace"),
    "factorized": made(privacy.FactorizedSum, 3, 8, BUDGET, norm_bound=1.0),
    "buffered": made(privacy.FactorizedSum, 3, 8, BUDGET, norm_bound=1.0, method="blt"),
}
EVENTS = {"p": [0, 1], "i": [0, 1]}
THINGS = {
    "gate": lambda: dc.Gate(BUDGET, 0),
    "part of a gate": lambda: dc.Gate(BUDGET, 0).part("women"),
    "restored gate": lambda: dc.Gate.from_state(dc.Gate(BUDGET, 0).state()),
    "budget": lambda: BUDGET,
    "share": lambda: BUDGET.share(0.5),
    "factorization": lambda: factorizations.square_root(50),
    "secure randomness": privacy.SecureRandomness,
    "seeded randomness": lambda: privacy.ReproducibleRandomness(0),
    "account": lambda: dc.Gate(BUDGET).spent,
    "cardinality": lambda: c.Cardinality(2, 5),
    "partition": lambda: c.PartitionMatroid([[0, 1], [2]], 1),
    "laminar": lambda: c.LaminarMatroid([[0, 1], [0, 1, 2]], [1, 2]),
    "graphic": lambda: c.GraphicMatroid([(0, 1), (1, 2)]),
    "transversal": lambda: c.TransversalMatroid([[0, 1], [2]]),
    "linear matroid": lambda: c.LinearMatroid([[1, 0, 1], [0, 1, 1]]),
    "knapsack": lambda: c.Knapsack([1.0, 2.0], 2.0),
    "oracle": lambda: c.Matroid.from_oracle(lambda chosen: len(chosen) <= 1, 3),
    "intersection": lambda: c.Intersection(c.Cardinality(2), c.PartitionMatroid([[0, 1], [2]], 1)),
    "ball": lambda: domains.Ball(2, 1.0),
    "box": lambda: domains.Box([0.0, 0.0], [1.0, 2.0]),
    "simplex": lambda: domains.Simplex(3),
    "capped simplex": lambda: domains.CappedSimplex(4, 2),
    "shrunk": lambda: domains.Ball(2, 1.0).shrunk(0.5),
    "projection": lambda: domains.Domain.from_projection(lambda x: np.clip(x, -0.5, 0.5), 2, 0.5, 0.9),
    "logistic": lambda: losses.Logistic([[0.6, 0.8]], [1]),
    "squared": lambda: losses.Squared([[0.6, 0.8]], [1.0], target_bound=1.0),
    "linear costs": lambda: losses.Linear([[0.6, 0.8]], row_norm=1.0),
    "distance": lambda: losses.Distance([[0.6, 0.8]])[0],
    "concave of linear": lambda: objectives.ConcaveOfLinear([[0.5, 0.5]]),
    "allocation": lambda: objectives.BudgetAllocation([[0.5, 0.0]], total=2.0),
    "quadratic": lambda: objectives.QuadraticProgram([[[0.0, -0.25], [-0.25, 0.0]]], [[0.5, 0.5]]),
    "extension": lambda: objectives.MultilinearExtension(people())[:2],
    "cuts from arcs": lambda: objectives.GraphCut.from_arcs(
        2, objectives.Arcs([0], [1], [0, 1], [0], [1.0], [[0.0, 0.0]]), bound=1.0
    ),
    "periods": lambda: privacy.Periods(dc.Budget(1.0)),
    "split": lambda: privacy.PeopleSplit(2, bytes(16)),
    "segments": lambda: online.Segments(partial(online.LeaderSelector, 3, 1, None), ["a", "b"], BUDGET),
    "experts": lambda: online.Experts(partial(online.HedgeSelector, 3, 1, 9), 2, BUDGET, n_items=3),
    "recommender": lambda: offline.PrivateRecommender(dc.Budget(1.0, 1e-6), seed=0).fit(people()),
    "capped people": lambda: people().cap_items(2, np.random.default_rng(0)),
    "people of events": lambda: objectives.Coverage.from_events(EVENTS, person="p", item="i", items=[0, 1]),
} | {name: lambda make=make: make(np.random.default_rng(0), 3, 4).people for name, make in FAMILIES.items()}
MADE = (
    {f"learner, {name}": setting.make for name, setting in EVERYBODY.items()}
    | {f"selector, {name}": make for name, make in CHOOSERS.items()}
    | {f"sum, {name}": make for name, make in SUMS.items()}
    | THINGS
)


def settings_of(thing) -> list[str]:
    """Every public name that could be written: its own, and those of its class that are no methods."""
    own = [name for name in vars(thing) if not name.startswith("_")]
    fields = [name for name, value in inspect.getmembers(type(thing)) if not callable(value)]
    return sorted({*own, *(name for name in fields if not name.startswith("_"))})


def arrays_of(thing) -> list[np.ndarray]:
    return [value for name, value in vars(thing).items() if name[0] != "_" and isinstance(value, np.ndarray)]


def check_fixed(thing) -> None:
    names = settings_of(thing)
    before = {name: getattr(thing, name) for name in vars(thing) if not name.startswith("_")}
    methods = [name for name, _ in inspect.getmembers(type(thing), callable) if not name.startswith("_")]
    for name in [*names, *methods, "anything_else"]:
        with pytest.raises(AttributeError):
            setattr(thing, name, 500)
        with pytest.raises(AttributeError):
            delattr(thing, name)
    for array in arrays_of(thing):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 500
    for name, value in before.items():
        assert getattr(thing, name) is value


@pytest.mark.parametrize("name", MADE)
def test_settings_are_read_only(name):
    check_fixed(MADE[name]())


@pytest.mark.parametrize("name", [name for name in MADE if name.startswith(("learner, ", "sum, "))])
def test_settings_are_read_only_after_loading(name, tmp_path):
    saved = MADE[name]()
    saved.save(tmp_path / "state")
    load = type(saved).load if name.startswith("sum, ") else dc.load
    check_fixed(load(tmp_path / "state"))


def test_the_list_is_complete():
    """Whatever the library exports and has settings is among those that were tried."""
    homes = (dc, dc.online, offline, privacy, c, domains, losses, objectives)
    exported = [getattr(home, name) for home in homes for name in getattr(home, "__all__", dir(home))]
    wanted = {kind for kind in exported if inspect.isclass(kind) and hasattr(kind, "_fixed")}
    tried = {kind for make in MADE.values() for kind in type(make()).__mro__}
    assert not wanted - tried


# --- the attacks ---------------------------------------------------------------------------------------


def test_a_constructor_does_not_run_twice():
    learner = dc.online.HedgeSelector(N_ITEMS, 3, 2, BUDGET, seed=0)
    with pytest.raises(AttributeError, match="read-only"):
        learner.__init__(N_ITEMS, 3, 500, BUDGET)
    assert learner.rounds == 2


def test_arrays_that_were_given_stay_the_givers_own():
    """What is kept is a copy: neither side can change the other's."""
    costs, low = np.array([1.0, 2.0]), np.array([0.0, 0.0])
    bag, box = c.Knapsack(costs, 2.0), domains.Box(low, [1.0, 1.0])
    costs[:], low[:] = 9.0, -9.0
    assert bag.costs.tolist() == [1.0, 2.0]
    assert box.low.tolist() == [0.0, 0.0]


def test_an_account_that_was_handed_out_is_a_copy():
    gate = dc.Gate(BUDGET, 0)
    gate.laplace(0.0, scale=4.0, sensitivity=1.0)
    learner = EVERYBODY["hedge, tight"].make()
    learner.run(people())
    for ask in (lambda: gate.spent, lambda: learner.privacy, lambda: learner.privacy.spent):
        spent = ask().epsilon()
        assert spent > 0.0
        ask().ledger.counts.clear()
        ask().ledger.parts["nobody"] = privacy.Releases()
        given = ask()
        given.ledger.counts.clear()
        with pytest.raises(AttributeError):
            given.budget = dc.Budget(99.0)
        assert ask().epsilon() == spent


def test_a_subclass_of_somebody_has_settings_of_its_own():
    class Louder(dc.online.HedgeSelector):
        def __init__(self, *given, loud, **options):
            super().__init__(*given, **options)
            self.loud = loud

    learner = Louder(N_ITEMS, 3, 5, BUDGET, loud=True)
    assert learner.loud
    with pytest.raises(AttributeError, match=r"Louder.loud is read-only"):
        learner.loud = False
    assert list(inspect.signature(Louder).parameters) == ["given", "loud", "options"]


def test_draws_are_made_at_the_rate_that_is_charged():
    learner = dc.online.HedgeSelector(N_ITEMS, 3, 20, BUDGET, seed=0)
    with pytest.raises(AttributeError, match="read-only"):
        learner.rate = 100.0
    learner.run(people(count=20))
    [(_, event, _)] = learner.privacy.spent.ledger.counts
    assert event.rate == learner.rate == learner.settings.rate


def test_arcs_that_come_out_cannot_be_written():
    cuts = FAMILIES["cut"](np.random.default_rng(0), 2, 4).people
    for some in (cuts, cuts[:1], cuts[[1, 0]]):
        for array in some.as_arcs():
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
