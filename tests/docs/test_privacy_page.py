"""docs/privacy.md has a section for everything that releases, and says of it what the accounts say."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import discreet as dc
from discreet import offline, online, privacy
from discreet.bounds.minimization import gradient_difference, gradient_length
from discreet.constraints.domains import Ball, Box, Simplex
from discreet.objectives import Coverage
from discreet.online.registry import Registered
from discreet.privacy.picks import SampledPicks
from tests.online.learners import LIBRARY, WITH_TOY
from tests.online.toy import ToySelector

PAGE = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
# Beside the learners: whatever chooses offline, and lists of items.
OTHERS = {name: getattr(offline, name) for name in offline.__all__}
OTHERS["private_catalogue"] = dc.data.private_catalogue
_ROWS = ("released", "sensitivity", "why", "account", "numerics")


def sections(page: str) -> dict[str, str]:
    """The algorithms' sections by heading."""
    algorithms = page.split("\n## Algorithms\n")[1].split("\n## ")[0]
    return {part.split("\n", 1)[0]: part for part in algorithms.split("\n### ")[1:]}


def missing(page: str, learners: Mapping[str, Registered] = LIBRARY) -> list[str]:
    """What a reviewer would not find: sections, rows of their tables, options, releases."""
    found, lacks = sections(page), []
    releasing = {name: entry.kind(name) for name, entry in learners.items()} | OTHERS
    for name in releasing:
        homes = [text for heading, text in found.items() if f"`{name}`" in heading]
        if len(homes) != 1:
            lacks.append(f"{name}: {len(homes)} sections")
            continue
        lacks += [f"{name}: {row}" for row in _ROWS if f"\n| {row} |" not in homes[0]]
    options = found.get("Options", "")
    for name, kind in releasing.items():
        for option in _options(kind):
            if f"`{option}`" not in options:
                lacks.append(f"{name}({option}=)")
    releases = page.split("\n## Releases\n")[1].split("\n## ")[0] if "\n## Releases\n" in page else ""
    events = [name for name in privacy.__all__ if _is_event(name) and not _has_mechanism(name)]
    for name in ("gate.choose", "gate.laplace", "gate.gaussian", "gate.spherical_laplace", "gate.part"):
        if f"`{name}" not in releases:
            lacks.append(name)
    for name in ("TreeSum", "FactorizedSum", "privacy.select_partitions", *events):
        if f"`{name}`" not in releases:
            lacks.append(name)
    return lacks


def _options(kind: Any) -> list[str]:
    """The options of a constructor, with those that it passes on to the next."""
    found = inspect.signature(kind).parameters.values()
    named = [one.name for one in found if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    return named + (_options(kind.__mro__[1]) if len(named) < len(found) else [])


def _is_event(name: str) -> bool:
    kind = getattr(privacy, name)
    return inspect.isclass(kind) and issubclass(kind, privacy.Event) and kind is not privacy.Event


def _has_mechanism(name: str) -> bool:
    return name in {"ExponentialChoice", "LaplaceNoise", "GaussianNoise", "SphericalLaplaceNoise"}


def test_nothing_that_releases_is_missing():
    assert missing(PAGE) == []


@pytest.mark.parametrize("heading", [heading for heading in sections(PAGE) if heading != "Options"])
def test_a_section_that_is_taken_out_is_missed(heading):
    without = PAGE.replace(f"\n### {sections(PAGE)[heading]}", "\n")
    assert len(without) < len(PAGE) - len(heading)
    named = re.findall(r"`(\w+)`", heading)
    assert named
    assert {f"{name}: 0 sections" for name in named} <= set(missing(without))


@pytest.mark.parametrize("taken", ["| account |", "| `rate` |", "`FactorizedSum`", "`restart_on_drift`"])
def test_a_row_or_an_option_that_is_taken_out_is_missed(taken):
    assert missing(PAGE.replace(taken, "| |"))


def test_a_new_learner_would_be_missed():
    assert missing(PAGE, WITH_TOY) == ["ToySelector: 0 sections"]


def test_an_option_of_a_new_learner_would_be_missed(monkeypatch):
    monkeypatch.setattr(ToySelector, "__init__", lambda self, secret: None)  # noqa: ARG005
    assert "ToySelector(secret=)" in missing(PAGE, WITH_TOY)


def test_names_on_the_page_are_in_the_code():
    """Of functions, classes, options and tests: what was renamed would be looked for in vain."""
    root = Path(__file__).parents[2]
    files = [file for folder in ("src", "tests") for file in (root / folder).rglob("*.py")]
    known = {file.stem for file in files}.union(*(re.findall(r"\w+", file.read_text()) for file in files))
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    named = {name for code in re.findall("`([^`]+)`", prose) for name in re.findall(r"[A-Za-z]\w*_\w+", code)}
    assert len(named) > 50
    assert {name for name in named if not name.endswith("_") and name not in known} == set()


def test_settings_that_choose_a_mechanism_are_named():
    from discreet.offline.greedy import METHODS
    from discreet.online.bandit import EXPLORATIONS

    for setting in (*EXPLORATIONS, *METHODS, "slots", "values", "tree", "thompson", "published"):
        assert f'"{setting}"' in PAGE, setting


# --- what the tables say is what the accounts say --------------------------------------------------


def released(account):
    """(event, count) of an account with one kind of release."""
    (((_, event, _), count),) = account.ledger.counts.items()
    return event, count


def _budgets(delta=1e-6):
    return dc.Budget(1.0, delta), dc.Budget(1.0, delta, "add_remove")


def test_hedge_and_phases_move_scores_as_said():
    for budget, apart in zip(_budgets(), (2.0 * 3.0, 3.0), strict=True):
        event, count = released(
            online.HedgeSelector(9, 2, 100, budget, bound=3.0, resample_every=10, seed=0).privacy
        )
        assert (event.range, count) == (apart, 2 * (10 - 1))
        phased = partial(online.PhasedSelector, 9, 2, budget, bound=3.0, seed=0)
        event, count = released(phased(method="composed").privacy)
        assert (event.range, count) == (apart, 2)
        event, count = released(phased(method="subsampled").privacy)
        assert (event, count) == (SampledPicks(Fraction(1), 3.0), 1)


def test_running_sums_move_as_said():
    n, k, c, bound = 50, 3, 2, 4.0
    for budget, entries in zip(_budgets(), (2 * k * c, k * c), strict=True):
        learner = online.RunningSumSelector(n, k, 64, budget, bound=bound, items_per_person=c, seed=0)
        event, _ = released(learner.privacy)
        column = learner._sum.sum.factorization.column_norm
        assert float(event.sensitivity) == pytest.approx(bound * math.sqrt(entries) * column)
        pure = dc.Budget(1.0, neighbours=budget.neighbours)
        tree = online.RunningSumSelector(
            n, k, 64, pure, sums="tree", noise="laplace", bound=bound, items_per_person=c, seed=0
        )
        event, count = released(tree.privacy)
        assert float(event.sensitivity) == pytest.approx(bound * entries)
        assert count == privacy.tree_levels(63)
    whole, _ = released(online.RunningSumSelector(n, k, 64, _budgets()[0], bound=bound, seed=0).privacy)
    assert float(whole.sensitivity) == pytest.approx(bound * math.sqrt(k * n) * column)


def test_bandits_move_as_said():
    for budget, counts in zip(_budgets(), (2.0 * 3.0, 3.0), strict=True):
        event, count = released(online.BanditSelector(5, 2, 4000, budget, bound=3.0, seed=0).privacy)
        assert (float(event.sensitivity), count) == (3.0, 1)
        slots = online.BanditSelector(5, 2, 4000, budget, bound=3.0, feedback="slots", seed=0)
        event, count = released(slots.privacy)
        assert (float(event.sensitivity), count) == (counts, 1)
        assert slots.privacy.pure == pytest.approx(1.0)
        for way in ("presampled", "online", "every_round"):
            learner = online.BanditSelector(5, 2, 4000, budget, bound=3.0, exploration=way, seed=0)
            event, count = released(learner.privacy)
            assert event.range == 3.0
            assert count == -(-4000 // learner.settings.block) - 1
        assert count == 3999
        event, count = released(online.ThompsonSelector(5, 2, None, budget, bound=3.0, seed=0).privacy)
        assert (float(event.sensitivity), count) == (3.0, 1)
        slots = online.ThompsonSelector(5, 2, None, budget, bound=3.0, feedback="slots", seed=0)
        event, count = released(slots.privacy)
        assert (float(event.sensitivity), count, slots.privacy.pure) == (counts, 1, pytest.approx(1.0))


def test_points_move_as_said():
    for budget, times in zip(_budgets(0.0), (2.0, 1.0), strict=True):
        leader = online.ApproximateLeader(Ball(4), 100, budget, lipschitz=3.0, seed=0)
        assert float(released(leader.privacy)[0].sensitivity) == pytest.approx(3.0 * times)
        leader = online.ApproximateLeader(
            Ball(4), 100, budget, lipschitz=3.0, sums="tree", noise="laplace", seed=0
        )
        assert float(released(leader.privacy)[0].sensitivity) == pytest.approx(3.0 * times * math.sqrt(4))
        linear = online.LinearLeader(Simplex(4), 100, budget, box=(0.0, 2.0), seed=0)
        assert float(released(linear.privacy)[0].sensitivity) == pytest.approx(4 * 2.0)
        seen = online.BanditApproximateLeader(Ball(2), 10**5, budget, lipschitz=1.0, bound=(1, 4), seed=0)
        event, count = released(seen.privacy)
        assert (float(event.sensitivity), count) == (pytest.approx(3.0 * times / 2.0), 1)


def test_costs_move_as_said():
    assert gradient_difference(7, 3.0) == pytest.approx(2 * math.sqrt(6) * 3)
    assert gradient_difference(7, 3.0, 1) == pytest.approx(8 * 3)
    assert gradient_length(7, 3.0) == pytest.approx(2 * math.sqrt(2) * 3)
    assert gradient_length(7, 3.0, 1) == pytest.approx(4 * 3)
    for budget, times in zip(_budgets(0.0), (2.0, 1.0), strict=True):
        values = online.BanditSubmodularMinimizer(3, 10**5, budget, 2.0, seed=0)
        event, count = released(values.privacy)
        assert (float(event.sensitivity), count) == (2.0 * times, 1)
        tree = online.BanditSubmodularMinimizer(3, 10**5, budget, 2.0, form="tree", seed=0)
        estimate = 2.0 * times * 2.0 * (3 + 1) / tree.exploration_rate
        assert float(released(tree.privacy)[0].sensitivity) == pytest.approx(estimate)


def test_frank_wolfe_moves_as_said():
    for budget, entries, long in zip(_budgets(), (4, 2), (math.sqrt(2.0), 1.0), strict=True):
        sets = online.MetaFrankWolfe(
            dc.constraints.Cardinality(2, n_items=20),
            65,
            budget,
            steps=4,
            bound=3.0,
            items_per_person=2,
            seed=0,
        )
        column = sets._sum.sum.factorization.column_norm
        moved = 3.0 * math.sqrt(4 * entries) * column
        assert float(released(sets.privacy)[0].sensitivity) == pytest.approx(moved)
        pure = dc.Budget(1.0, neighbours=budget.neighbours)
        points = online.MetaFrankWolfePoints(
            Box([0.0] * 2, [1.0] * 2), 65, pure, steps=4, gradient_bound=3.0, seed=0
        )
        event, count = released(points.privacy)
        assert float(event.sensitivity) == pytest.approx(3.0 * long)
        assert count == 4 * privacy.tree_levels(64)


def test_choosers_move_as_said():
    people = Coverage([[1, 0, 0, 1], [0, 1, 0, 0], [0, 1, 1, 0]] * 300)
    for budget, apart in zip(_budgets(), (2.0, 1.0), strict=True):
        for method in ("basic", "zcdp"):
            greedy = offline.PrivateGreedy(2, budget, method, seed=0)
            greedy.select(people)
            event, count = released(greedy.privacy)
            assert (event.range, count) == (apart, 2)
        for method, kind in (("decomposable", "SummedPicks"), ("subsampled", "SampledPicks")):
            greedy = offline.PrivateGreedy(2, budget, method, seed=0)
            greedy.select(people)
            event, count = released(greedy.privacy)
            assert (type(event).__name__, event.bound, count) == (kind, 1.0, 1)
        for kind in (offline.ContinuousGreedy, offline.CurvatureGreedy):
            climbed = kind(2, budget, steps=3, seed=0)
            climbed.select(people)
            event, count = released(climbed.privacy)
            assert (event.range, count) == (pytest.approx(apart), 6)
        gains = offline.PrivateGreedy(2, budget, "basic", release_gains=0.25, seed=0)
        assert gains.select(people).gains is not None
        noise = next(e for (label, e, _) in gains.privacy.ledger.counts if label == "gains of the picks")
        assert float(noise.sensitivity) == apart


def test_covariance_moves_as_said():
    from discreet.offline.estimators import covariance_range

    assert covariance_range() == pytest.approx(2.0, rel=1e-5)
