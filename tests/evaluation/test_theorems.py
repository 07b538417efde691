"""Measured regret stays within what is certified, for every setting that certifies any."""

from __future__ import annotations

import inspect
import math
import sys
import warnings

import numpy as np
import pytest

import discreet as dc
from discreet import offline
from discreet.core import checks
from discreet.evaluation import streams
from discreet.online import HedgeSelector
from discreet.privacy.account import PublishedCalibrationWarning
from tests.online.examples import EXAMPLES
from tests.online.learners import LIBRARY, WITH_TOY
from tools import theorems
from tools.pages.theorems import BOUNDS
from tools.theorems.regret import set_regret

CHECKS = theorems.checks(epsilon=8.0)
RUNS = 2
PAIRS = [(check, stream) for check in CHECKS for stream in check.streams]
CHOICES = theorems.choices() + theorems.modular_choices()


def _rounds(check):
    return max(160, 800 // check.cost)


def _quietly(make, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishedCalibrationWarning)
        return make(*arguments, **options)


# --- measured and certified ---------------------------------------------------------------------------


@pytest.mark.parametrize(("check", "stream"), PAIRS, ids=[f"{c.name}: {s}" for c, s in PAIRS])
def test_measured_is_within_certified(check, stream):
    rounds = _rounds(check)
    measured, certified = theorems.measured(check, stream, rounds, 1)
    assert math.isfinite(certified)
    assert certified > 0.0
    assert measured <= certified + theorems.slack(check, rounds, 1)
    if check.printed is not None:
        assert 0.0 < check.printed(rounds) < math.inf


@pytest.mark.parametrize("stream", ["product display", "baskets", "trap"])
def test_selectors_lose_no_more_than_certified(stream):
    people = theorems.trap(3000, 12)
    if stream != "trap":
        people = streams.STREAMS[stream](3000, 12, np.random.default_rng(2))
    rows = list(theorems.offline_rows(people, stream, 2.0, RUNS))
    assert [row["learner"] for row in rows] == [choice.name for choice in theorems.choices()]
    for row in rows:
        assert row["holds"], row
        assert row["certified"] > 0.0


def test_nothing_but_noise_is_lost_where_items_do_not_interact():
    people = streams.near_tie(3000, 12, np.random.default_rng(2), best=3)
    for row in theorems.offline_rows(people, "near tie", 2.0, RUNS, theorems.modular_choices()):
        assert row["ratio"] == 1.0
        assert row["holds"], row
        assert not row["trivial"]


def test_the_trap_is_one():
    """Exact greedy serves 1 - (2/3)^3 of everybody and a little more; three items serve all."""
    people = theorems.trap(3000, 9)
    assert people.value([0, 1, 2]) == 1.0
    items = offline.PrivateGreedy(3, dc.Budget(math.inf)).select(people).items
    assert set(items) == {3, 4, 5}
    assert 0.0 < people.value(items) - (1.0 - (2.0 / 3.0) ** 3) < 0.03


# --- the allowance for chance ---------------------------------------------------------------------------


def _range_of_a_round(check, people, domain):
    """The most that one person's reward or cost can differ between two decisions, by what they declare."""
    if isinstance(people, dc.objectives.GraphCut):
        return 2.0 * people.bound
    if isinstance(people, dc.objectives.Population):
        return people.bound
    if isinstance(people, int):  # an adversary: costs along or towards points of the unit ball, or prices
        return check.width
    points = [
        domain.project(4.0 * row) for row in np.random.default_rng(0).normal(size=(200, people.dimension))
    ]
    costs = np.array([people.values(np.asarray(point)) for point in points])
    return float((costs.max(axis=0) - costs.min(axis=0)).max())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_width_covers_a_round(check):
    learner = _quietly(check.make, _rounds(check), 0)
    for stream in check.streams:
        people = check.streams[stream](_rounds(check), np.random.default_rng(3))
        if isinstance(people, dc.objectives.BudgetAllocation):
            values = [people[0].value(np.zeros(3)), people[0].value(np.ones(3))]
            assert values[1] - values[0] <= check.width
            continue
        assert _range_of_a_round(check, people, getattr(learner, "domain", None)) <= check.width


def test_a_learner_that_learns_the_wrong_way_round_is_noticed():
    """The same check, with a learner that is taught what nobody wants."""
    rounds = 1000
    people = streams.favourites(rounds, theorems.ITEMS, np.random.default_rng(0), fall=0.3)
    likes = np.array([[people[i].value([j]) for j in range(theorems.ITEMS)] for i in range(rounds)])

    class Backwards(HedgeSelector):
        def run(self, shown):
            trace = super().run(dc.objectives.Coverage(1.0 - likes))
            rewards = np.array([likes[t, row[0]] for t, row in enumerate(trace.selections)])
            assert len(shown) == rewards.size
            return type(trace)(rewards, trace.selections, trace.learner)

    def check(kind):
        return theorems.Check(
            "faulty",
            kind.__name__,
            theorems.SETS,
            lambda t, s: kind(theorems.ITEMS, 1, t, dc.Budget(math.inf), seed=s),
            {"favourites": lambda *_: people},
            set_regret(1.0),
        )

    for kind, holds in ((HedgeSelector, True), (Backwards, False)):
        (row,) = theorems.rows([check(kind)], rounds, RUNS)
        assert row["holds"] is holds
        assert row["without_slack"] is holds


@pytest.mark.parametrize("name", ["SubmodularMinimizer", "ApproximateLeader, Lipschitz"])
def test_adversaries_are_harder_than_chance(name):
    """They make the learner lose a good part of what is certified."""
    check = next(one for one in CHECKS if one.name == f"{name}, adaptive adversary")
    (stream,) = check.streams
    measured, certified = theorems.measured(check, stream, 800, RUNS)
    assert 0.05 * certified < measured <= certified


# --- everything that certifies is here -----------------------------------------------------------------


def _kinds():
    """Every learner without an excuse and every selector that certifies anything, by name."""
    learners = LIBRARY.keys() - theorems.WITHOUT_CERTIFICATE.keys()
    selectors = {name: getattr(offline, name) for name in offline.__all__}
    certifying = {name: kind for name, kind in selectors.items() if hasattr(kind, "certified_loss")}
    return {name: LIBRARY[name].kind(name) for name in sorted(learners)} | certifying


def test_every_registered_learner_is_checked():
    assert theorems.unchecked(CHECKS, LIBRARY) == []


def test_an_excuse_has_a_reason_and_a_learner_without_a_certificate(monkeypatch):
    for name, reason in theorems.WITHOUT_CERTIFICATE.items():
        assert reason
        for example in EXAMPLES[name].values():
            made = _quietly(example.make, LIBRARY[name].kind(name))
            assert getattr(made, "certified_regret", math.inf) == math.inf, name
    monkeypatch.setitem(theorems.WITHOUT_CERTIFICATE, "ToySelector", "a toy")
    assert theorems.unchecked(CHECKS, WITH_TOY) == []


def _makers(checks, choices):
    """Functions that make everything that is checked, small."""
    makers = [lambda check=check: check.make(max(400, _rounds(check)), 0) for check in checks]
    return makers + [lambda one=one: one.make(one.constraint(12), 1.0, 0) for one in choices]


def _watched(monkeypatch, makers):
    """What was made, with which arguments, and which words each argument of its kind can be.

    The words are those that the library itself holds an argument against, so a new one is known at once.
    """
    asked, made, words = [], [], {}
    one_of = checks.one_of

    def noting(name, value, allowed):
        home = sys._getframe(1).f_globals["__name__"]
        if home.startswith(("discreet.online", "discreet.offline")):
            asked.append((name, allowed))
        return one_of(name, value, allowed)

    signatures = {kind: inspect.signature(kind.__init__) for kind in _kinds().values()}
    with monkeypatch.context() as patch:
        patch.setattr(checks, "one_of", noting)
        for name, kind in _kinds().items():
            plain, signature = kind.__init__, signatures[kind]

            def recording(self, *given, plain=plain, kind=kind, signature=signature, **named):
                if type(self) is kind:
                    bound = dict(signature.bind(self, *given, **named).arguments)
                    del bound["self"]
                    bound |= bound.pop("options", {})
                    made.append((self, bound))
                plain(self, *given, **named)

            patch.setattr(kind, "__init__", recording)
            # Options may be passed on to the kind that this one is made of.
            known = [signatures[base].parameters for base in kind.__mro__ if base in signatures]
            words[name] = {one: set() for parameters in known for one in parameters}
        for make in makers:
            asked.clear()
            known = words[type(_quietly(make)).__name__]
            for argument, allowed in asked:
                if argument in known:
                    known[argument].update(word for word in allowed if word != "auto")
    return made, words


def _missing(monkeypatch, checks, choices):
    """Settings that are accepted and that nothing here measures: (kind, argument, word, calibration)."""
    made, words = _watched(monkeypatch, _makers(checks, choices))
    here = set()
    for learner, given in made:
        name = type(learner).__name__
        calibration = learner.calibration if "calibration" in words[name] else None
        for argument in words[name]:
            # What came of the argument ("auto" is settled by then), and what it was.
            for word in (getattr(learner, argument, None), given.get(argument)):
                if isinstance(word, str):
                    here.add((name, argument, word, calibration))
    missing = {name for name in words if all(type(learner).__name__ != name for learner, _ in made)}
    for name, arguments in words.items():
        for argument, allowed in arguments.items():
            for word in allowed:
                for calibration in sorted(arguments.get("calibration", ())) or [None]:
                    wanted = (name, argument, word, calibration)
                    changes = {argument: word} | ({} if calibration is None else {"calibration": calibration})
                    if wanted in here or changes[argument] != word:
                        continue
                    kind = _kinds()[name]
                    if any(_can_be(kind, given | changes) for one, given in made if type(one) is kind):
                        missing.add(wanted)
    return missing


def _can_be(kind, arguments):
    try:
        learner = _quietly(kind, **arguments)
    except ValueError:
        return False
    # Where a published form has one way only, another is not always refused, but nothing comes of it.
    words = {name: word for name, word in arguments.items() if isinstance(word, str) and word != "auto"}
    return all(getattr(learner, name, word) == word for name, word in words.items())


def test_every_setting_that_certifies_is_here(monkeypatch):
    assert _missing(monkeypatch, CHECKS, CHOICES) == set()


def test_names_are_told_apart():
    names = [one.name for one in (*CHECKS, *CHOICES)]
    assert len(names) == len(set(names))
    assert {name.split(",")[0] for name in names} == set(_kinds())
    for family, plotted in theorems.PLOTTED.items():
        assert set(plotted) <= {one.name for one in CHECKS if one.family == family and one.cost == 1}


# --- how regret grows ------------------------------------------------------------------------------------


def test_near_tight_where_the_bound_can_be_attained():
    """A stream that turns costs the published Hedge most of its bound: the check is not idle."""
    check = next(one for one in CHECKS if one.name == "HedgeSelector, published")
    measured, certified = theorems.measured(check, "adversarial: turning", 2000, 4)
    assert 0.6 * certified <= measured <= certified + theorems.slack(check, 2000, 4)


def test_exponents_are_those_of_the_theorem():
    """Hedge without privacy on a turning stream: the slope of regret over horizons is about a half."""
    check = next(one for one in CHECKS if one.name == "HedgeSelector, epsilon inf")
    found = theorems.growth(check, [500, 2000, 8000], 4)
    assert abs(found["exponent_certified"] - 0.5) < 0.02
    assert 0.35 < found["exponent_measured"] < 0.65
    assert found["exponent_printed"] is None


@pytest.mark.parametrize("stated", BOUNDS, ids=lambda stated: stated.where)
def test_bounds_on_the_page_are_those_that_are_measured(stated):
    """The page's powers of T and papers are those of the checks, and the formula's value is at hand."""
    check = next(one for one in CHECKS if one.name == stated.published)
    assert check.power in ("", stated.power)
    assert check.theorem[:3] == stated.where[:3]
    assert check.printed is not None
    assert stated.own in {one.name for one in CHECKS}


def test_certificates_that_say_nothing_are_known():
    """At 4,000 rounds, or what slow ones get of them: those at or above what doing nothing loses."""
    trivial = set()
    for check in CHECKS:
        rounds = max(200, 4000 // check.cost)
        learner = _quietly(check.make, rounds, 0)
        if check.certified(learner, rounds) >= 0.999 * check.most * rounds:
            trivial.add(check.name)
    assert trivial == {
        "ApproximateLeader, experts, published",
        "PhasedSelector, restarts",
        "RunningSumSelector, published",
        "MetaFrankWolfe, published",
        "MetaFrankWolfe, euclidean, published",
        "MetaFrankWolfe, Laplace tree",
        "MetaFrankWolfePoints, published",
        "BanditSelector, blocks, k = 2",
        "BanditSelector, slots",
        "BanditSelector, presampled, published, 2 items",
        "SubmodularMinimizer, published",
        "SubmodularMinimizer, published, adaptive adversary",
        "BanditSubmodularMinimizer, thompson",
        "BanditSubmodularMinimizer, published",
        "BanditApproximateLeader, strongly convex, published",
        "BanditApproximateLeader, strongly convex, published, adaptive adversary",
        "BanditApproximateLeader, Lipschitz, published",
        "BanditApproximateLeader, experts",
    }


def test_a_new_learner_would_be_noticed():
    assert theorems.unchecked(CHECKS, WITH_TOY) == ["ToySelector"]


@pytest.mark.parametrize(
    ("without", "found"),
    [
        ("BanditSelector, slots", ("BanditSelector", "feedback", "slots", "tight")),
        (
            "BanditSelector, every round, published, 2 items",
            ("BanditSelector", "exploration", "every_round", "published"),
        ),
        ("BanditSubmodularMinimizer, tree", ("BanditSubmodularMinimizer", "form", "tree", "tight")),
        ("PrivateGreedy, subsampled", ("PrivateGreedy", "method", "subsampled", None)),
        ("CurvatureGreedy, gaussian, published", ("CurvatureGreedy", "noise", "gaussian", "published")),
    ],
)
def test_a_setting_that_is_left_out_is_noticed(monkeypatch, without, found):
    checks = [one for one in CHECKS if one.name != without]
    choices = [one for one in CHOICES if one.name != without]
    assert len(checks) + len(choices) == len(CHECKS) + len(CHOICES) - 1
    kept = {found[0]}
    checks = [one for one in checks if one.kind in kept]
    choices = [one for one in choices if one.name.split(",")[0] in kept]
    assert found in _missing(monkeypatch, checks, choices)


def test_a_kind_that_is_left_out_is_noticed(monkeypatch):
    checks = [one for one in CHECKS if one.kind != "PhasedSelector"][:1]
    assert "PhasedSelector" in _missing(monkeypatch, checks, CHOICES[:1])


@pytest.mark.parametrize("check", [one for one in CHECKS if one.printed], ids=lambda check: check.name)
def test_printed_bounds_grow_as_the_theorem_says(check):
    """Far out, where logarithms no longer count: the power of T, or none."""
    if "^" not in check.power or check.power.startswith("ln"):
        power = 0.0
    else:
        above, below = check.power.removeprefix("T^").split("/")
        power = float(above) / float(below)
    far, farther = 10**40, 10**44
    slope = math.log(check.printed(farther) / check.printed(far)) / math.log(1e4)
    assert abs(slope - power) < 0.03
