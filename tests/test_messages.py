"""What is said about people: nothing, wherever something is refused, warned of or printed.

Every selector and learner refuses the same things in the same words whether one person more is there or not.
Data that cannot be taken is refused without its place, its value or the number of rows; the details of the
error hold those, for whoever may look at the data.
"""

# ruff: noqa: ARG005

from __future__ import annotations

import ast
import math
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import discreet as dc
from discreet.cli import main
from discreet.constraints import Cardinality, Knapsack, PartitionMatroid
from discreet.core import checks
from discreet.evaluation.regret import regret
from discreet.objectives import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    GraphCut,
    MutualInformation,
    ProbabilisticCoverage,
    SetFunction,
    WeightedTopics,
    continuous,
    losses,
)
from discreet.offline import (
    ContinuousGreedy,
    CurvatureGreedy,
    PrivateFeatureSelector,
    PrivateGreedy,
    PrivateItemSelector,
)
from tests.objectives.families import FAMILIES

FEW, ITEMS = 37, 5
AWAY = dc.Budget(1.0, 1e-6, "add_remove")
PURE = dc.Budget(1.0, 0.0, "add_remove")


def messages(ask: Callable[[], object]) -> list[str]:
    """Every word of a refusal and of warnings; nothing where there are none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            ask()
        except Exception as error:  # whatever it is, its words are looked at
            caught_error = [f"{type(error).__name__}: {error}"]
        else:
            caught_error = []
    return caught_error + [str(one.message) for one in caught]


def people_of(family: str, count: int) -> Any:
    return FAMILIES[family](np.random.default_rng(5), count, ITEMS).people


# -- selectors ----------------------------------------------------------------------------------------------

# Ways to be refused, or warned; not every family is refused by every one.
SELECTORS: dict[str, list[Callable[[Any], object]]] = {
    "PrivateGreedy": [
        lambda p: PrivateGreedy(2, AWAY).select(p),
        lambda p: PrivateGreedy(2, AWAY, bound=1e-3).select(p),
        lambda p: PrivateGreedy(ITEMS + 1, AWAY).select(p),
        lambda p: PrivateGreedy(2, AWAY, max_people=FEW - 2, bound=1e3).select(p),
        lambda p: PrivateGreedy(PartitionMatroid([[0], [1]], 1), AWAY).select(p),
        lambda p: PrivateGreedy(Knapsack([1.0] * 7, 2.0), AWAY).select(p),
        lambda p: PrivateGreedy(2, PURE, "zcdp", bound=1e3).select(p),
        lambda p: PrivateGreedy(2, AWAY, "subsampled", sensitivity=1.0, bound=1e3).select(p),
        lambda p: PrivateGreedy(2, AWAY, "decomposable", bound=1e3).select(p),
        lambda p: PrivateGreedy(2, AWAY, bound=1e-300).select(p),
        lambda p: PrivateGreedy(2, dc.Budget(1e-5, neighbours="add_remove"), bound=1e3, max_people=50).select(
            p
        ),
        lambda p: [greedy := PrivateGreedy(2, AWAY, bound=1e3, seed=0), greedy.select(p), greedy.select(p)],
    ],
    "ContinuousGreedy": [
        lambda p: ContinuousGreedy(1, AWAY).select(p),
        lambda p: ContinuousGreedy(1, AWAY, sensitivity=1.0).select(p),
        lambda p: ContinuousGreedy(1, AWAY, bound=1e-3).select(p),
        lambda p: ContinuousGreedy(1, AWAY, bound=1e3, items_per_person=1).select(p),
        lambda p: ContinuousGreedy(1, AWAY, bound=1e3, max_people=FEW - 2).select(p),
        lambda p: ContinuousGreedy(
            1, dc.Budget(1e-5, neighbours="add_remove"), bound=1e3, max_people=50
        ).select(p),
        lambda p: ContinuousGreedy(PartitionMatroid([[0], [1]], 1), AWAY, bound=1e3).select(p),
        lambda p: [climb := ContinuousGreedy(1, AWAY, bound=1e3, seed=0), climb.select(p), climb.select(p)],
    ],
    "CurvatureGreedy": [
        lambda p: CurvatureGreedy(1, AWAY).select(p),
        lambda p: CurvatureGreedy(1, AWAY, sensitivity=1.0).select(p),
        lambda p: CurvatureGreedy(
            1, AWAY, noise="laplace", sensitivity=1.0, bound=1e3, calibration="published"
        ).select(p),
        lambda p: CurvatureGreedy(1, AWAY, bound=1e3, items_per_person=1).fractional(p),
    ],
    "PrivateItemSelector": [
        lambda p: _columns(p, objective=lambda _: p),
        lambda p: _columns(p, objective=lambda _: p, items_per_person=2),
        lambda p: _columns(p, objective=lambda _: p, k=ITEMS + 1),
        lambda p: _columns(p, objective=lambda _: p, method="basic", epsilon=1e-5),
    ],
    "dc.evaluation": [
        lambda p: regret(dc.online.HedgeSelector(ITEMS, 1, 4, AWAY, bound=1e3, seed=0).run(p[:3]), p),
        lambda p: p[1000],
        lambda p: p[2000:],
        lambda p: p.sensitivity("add_remove", "l1", items_per_person=1),
    ],
    "online": [
        lambda p: dc.online.HedgeSelector(ITEMS, 1, 4, AWAY).run(p),
        lambda p: dc.online.HedgeSelector(ITEMS + 1, 1, 4, AWAY, bound=1e3).run(p),
        lambda p: dc.online.RunningSumSelector(ITEMS, 1, 4, AWAY, bound=1e3).run(p, person_ids=["a"]),
        lambda p: dc.online.PhasedSelector(ITEMS, 1, AWAY, bound=1e-3).run(p),
        lambda p: [one := dc.online.HedgeSelector(ITEMS, 1, 4, AWAY, bound=1e3), one.choose(), one.learn(p)],
        lambda p: dc.online.MetaFrankWolfe(Cardinality(1, n_items=ITEMS), 4, AWAY).run(p),
        lambda p: dc.online.SubmodularMinimizer(ITEMS, 4, AWAY, bound=1e-3).run(p),
    ],
}


def _columns(people: Any, **settings: Any) -> None:
    rows = np.zeros((len(people), ITEMS))
    PrivateItemSelector(**{"k": 2, "neighbours": "add_remove"} | settings).fit(rows)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("selector", SELECTORS)
def test_one_person_more_is_refused_in_the_same_words(selector, family):
    here, there = people_of(family, FEW), people_of(family, FEW + 1)
    refusals = 0
    for ask in SELECTORS[selector]:
        words = messages(lambda ask=ask: ask(here))
        assert words == messages(lambda ask=ask: ask(there))
        refusals += bool(words)
        count = re.compile(rf"(?<![\d.])({len(here)}|{len(there)})(?![\d.])")
        assert not any(count.search(said) for said in words)
    assert refusals


@pytest.mark.parametrize("objective", ["mutual_information", "covariance"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"k": ITEMS + 1},
        {"classes": [0]},
        {"classes": [2, 3]},
        {"bounds": (1, 0)},
        {"bins": 5000},
        {"y": 3},
    ],
    ids=str,
)
def test_features_are_refused_in_the_same_words(objective, changes):
    settings = {"k": 2, "bounds": (0, 1), "classes": [0, 1], "neighbours": "add_remove", "epsilon": 1e-5}
    settings |= {"objective": objective} | {name: value for name, value in changes.items() if name != "y"}
    found = []
    for count in (FEW, FEW + 1):
        rng = np.random.default_rng(0)
        table, kinds = rng.random((count, ITEMS)), rng.integers(0, 2, count - changes.get("y", 0))
        found.append(messages(lambda data=(table, kinds): PrivateFeatureSelector(**settings).fit(*data)))
    assert found[0] == found[1]
    assert found[0] or (objective, changes) == ("covariance", {}) or "bins" in changes


def test_scikit_learns_own_words_are_looked_through():
    for rows in (
        lambda n: np.zeros(n),
        lambda n: np.zeros((n, 0)),
        lambda n: [["a", 1.0]] * n,
        lambda n: [[1.0]] * n + [[1.0, 2.0]],
        lambda n: np.full((n, 2), np.nan),
        lambda n: np.full((n, 2), n * 1j),
        lambda n: -np.ones((n, 2)),
        lambda n: [[{"n": n}, 1.0]] * n,
        lambda n: sp.csr_array(np.full((n, 2), np.inf)),
    ):
        words = [messages(lambda X=X: PrivateItemSelector(1).fit(X)) for X in map(rows, (FEW, FEW + 1))]
        assert words[0] == words[1] != []


# -- data that is refused ------------------------------------------------------------------------------------


def _rows(place: int, entry: float, count: int) -> np.ndarray:
    rows = np.full((count, 3), 0.25)
    rows[place, place % 3] = entry
    return rows


def _labels(place: int, entry: float, count: int) -> np.ndarray:
    labels = np.arange(count) % 2
    labels[place] = int(entry)
    return labels


def _graphs(place: int, entry: float, count: int) -> np.ndarray:
    graphs = np.zeros((count, 3, 3))
    graphs[place, 0, 1] = entry
    return graphs


def _events(place: int, entry: Any, count: int, column: str) -> dict[str, list[Any]]:
    table = {"p": [f"p{i}" for i in range(count)], "i": ["x"] * count, "w": [0.5] * count}
    table[column][place] = entry
    return table


def _functions(place: int, entry: float, count: int) -> list[Any]:
    return [lambda s, i=i: (entry if i == place else 0.5) * len(s) / 3 for i in range(count)]


def _read(place: int, entry: Any, count: int, column: str, **options: Any) -> Coverage:
    return ProbabilisticCoverage.from_events(
        _events(place, entry, count, column), person="p", item="i", weight="w", **options
    )


# Data in which somebody, at a place, has an entry that is refused; called with a place, an entry, a count.
REFUSED: dict[str, Callable[[int, float, int], object]] = {
    "entries": lambda *who: FacilityLocation(_rows(who[0], -who[1], who[2])),
    "probabilities": lambda *who: ProbabilisticCoverage(sp.csr_array(_rows(*who))),
    "not finite": lambda p, _, n: FacilityLocation(_rows(p, math.nan, n)),
    "a declared bound": lambda *who: FacilityLocation(_rows(*who), bound=1.0),
    "the family's bound": lambda *who: FacilityLocation(_rows(*who)).bound,
    "topics": lambda *who: WeightedTopics(_rows(*who), np.eye(3), bound=1.0),
    "cuts": lambda *who: GraphCut(_graphs(*who)),
    "negative cuts": lambda p, e, n: GraphCut(_graphs(p, -e, n)),
    "modular": lambda p, e, n: GraphCut(np.zeros((n, 3, 3)), modular=_rows(p, math.inf * e, n)),
    "modular rows": lambda p, e, n: GraphCut(np.zeros((n, 3, 3)), modular=np.zeros((n - 5, 3)) + e),
    "caps": lambda p, e, n: ConcaveOverModular(
        np.ones((n, 3)), concave="capped", cap=_rows(p, -e, n).min(axis=1)
    ),
    "too few caps": lambda p, e, n: ConcaveOverModular(
        np.ones((n, 3)), concave="capped", cap=np.ones(n - 5) * e
    ),
    "concave": lambda p, e, n: ConcaveOverModular(
        _rows(p, 1e4 * e, n), concave=lambda t: np.minimum(t, 2e3) - np.maximum(t - 5e3 * e, 0), bound=1e9
    ),
    "classes": lambda p, e, n: MutualInformation(np.zeros((n, 2), dtype=int), _labels(p, e, n)),
    "features": lambda p, e, n: MutualInformation(-_labels(p, e, n)[:, None], _labels(p, 0, n)),
    "too few classes": lambda p, e, n: MutualInformation(np.zeros((n, 2), dtype=int), _labels(p, 1, n)[:-5]),
    "functions": lambda *who: SetFunction(_functions(*who), 3, 1.0).value([0, 1, 2]),
    "falling functions": lambda p, e, n: SetFunction(_functions(p, -e / 9, n), 3, 1.0, monotone=True).gains(
        []
    ),
    "ragged rows": lambda p, e, n: FacilityLocation([[e]] * n + [[e, e]]),
    "words": lambda p, e, n: FacilityLocation([[f"{e}"]] * n),
    "one dimension": lambda p, e, n: Coverage(np.full(n, e)),
    "events' weights": lambda p, e, n: _read(p, -e, n, "w"),
    "repeated weights": lambda p, e, n: ProbabilisticCoverage.from_events(
        {"p": ["a"] * n, "i": ["x"] * n, "w": [e] * n}, person="p", item="i", weight="w"
    ),
    "weights in words": lambda p, e, n: _read(p, f"word{e}", n, "w"),
    "unlisted people": lambda p, e, n: _read(p, f"q{e}", n, "p", people=[f"p{i}" for i in range(n)]),
    "people listed twice": lambda p, e, n: _read(
        p, "x", n, "i", people=[f"p{i % (n - p)}" for i in range(n)]
    ),
    "missing people": lambda p, e, n: _read(p, None, n, "p"),
    "unhashable people": lambda p, e, n: _read(p, [e], n, "p"),
    "unequal columns": lambda p, e, n: Coverage.from_events(
        {"p": [1] * n, "i": [1] * (n - 5)}, person="p", item="i"
    ),
    "long rows": lambda *who: losses.Logistic(_rows(*who), _labels(0, 1, who[2])),
    "labels": lambda p, e, n: losses.Logistic(_rows(p, 0.1, n), _labels(p, e, n)),
    "too few labels": lambda p, e, n: losses.Logistic(_rows(p, 0.1, n), _labels(p, 1, n)[:-5]),
    "targets": lambda p, e, n: losses.Squared(_rows(p, 0.1, n), _rows(p, e, n).max(axis=1), target_bound=1.0),
    "cost boxes": lambda *who: losses.Linear(_rows(*who), box=(0.0, 1.0)),
    "costs that are not finite": lambda p, e, n: losses.Linear(_rows(p, math.nan * e, n), box=(0.0, 1.0)),
    "concave totals": lambda *who: continuous.ConcaveOfLinear(_rows(*who), total=1.0),
    "chances": lambda *who: continuous.BudgetAllocation(_rows(*who)),
    "gradients": lambda p, e, n: continuous.QuadraticProgram(np.zeros((n, 3, 3)), _rows(p, e, n)),
    "falling programs": lambda p, e, n: continuous.QuadraticProgram(
        -np.abs(_graphs(p, e, n) + _graphs(p, e, n).transpose(0, 2, 1)), _rows(p, 0.3, n), upper=1.0
    ),
    "too few programs": lambda p, e, n: continuous.QuadraticProgram(
        np.zeros((n - 5, 3, 3)), _rows(p, 0.1, n)
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_data_is_refused_without_its_place_its_value_or_the_number_of_rows(what):
    words = [
        messages(lambda who=who: REFUSED[what](*who))
        for who in ((4, 3.0, FEW), (11, 7.0, FEW), (4, 3.0, FEW + 1))
    ]
    assert words[0] == words[1] == words[2] != []


# -- what is printed -----------------------------------------------------------------------------------------


def _printed(thing: object) -> Iterator[str]:
    yield repr(thing)
    yield str(thing)
    yield f"{thing}"
    if hasattr(thing, "_repr_html_"):
        yield thing._repr_html_()


@pytest.mark.parametrize("family", FAMILIES)
def test_printed_populations_do_not_say_how_many_people(family):
    assert list(_printed(people_of(family, FEW))) == list(_printed(people_of(family, FEW + 1)))


def test_printed_costs_do_not_say_how_many_people():
    for make in (
        lambda n: losses.Linear(_rows(0, 0.1, n), box=(0.0, 1.0)),
        lambda n: continuous.ConcaveOfLinear(_rows(0, 0.1, n)),
        lambda n: continuous.MultilinearExtension(Coverage(_rows(0, 1.0, n))),
    ):
        assert list(_printed(make(FEW))) == list(_printed(make(FEW + 1)))


def _data_of(n: int, weight: float, folder: Path) -> list[object]:
    """What holds people's rows and is not a population."""
    table = {"who": range(n), "what": ["tea"] * n, "much": [weight] * n}
    named = {"person": "who", "item": "what", "weight": "much", "items": ["tea", "jam"]}
    store = dc.data.prepare(table, **named, to=folder / f"{n} {weight}", buckets=1, progress=False)
    people = Coverage(np.full((n, 3), weight) > 0.3)
    arcs = dc.objectives.Arcs([0], [1], range(n + 1), [0] * n, [weight] * n, np.zeros((1, 3)))
    rows = people.as_rows()
    return [dc.data.read_events(table, **named), store.bucket(0), arcs, rows, rows.sparse]


def test_printed_data_says_nothing_about_people(tmp_path):
    few, more = (
        [re.sub("0x[0-9a-f]+", "", text) for thing in _data_of(*how, tmp_path) for text in _printed(thing)]
        for how in ((FEW, 0.25), (FEW + 1, 0.5))
    )
    assert few == more


# -- and nobody writes another one ---------------------------------------------------------------------------

_SOURCE = Path(dc.__file__).parent
_TELLING = re.compile(
    r"len\((people|person|self\._people|population|rows|trace)\)|n_people|(people|population)!r"
)


def _said(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Everything that messages of errors and warnings are made of; not the details."""
    for node in ast.walk(tree):
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call) or not call.args:
            continue
        if isinstance(node, ast.Raise) or ast.unparse(call.func) == "warnings.warn":
            yield call.lineno, ast.unparse(call.args[0])


@pytest.mark.parametrize(
    "module", sorted(_SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(_SOURCE))
)
def test_no_message_is_made_of_the_number_of_people(module):
    found = [(line, text) for line, text in _said(ast.parse(module.read_text())) if _TELLING.search(text)]
    assert found == []


def test_the_details_name_what_the_message_does_not():
    with pytest.raises(dc.DataError, match=r"entries must lie in \[0, 1\]") as refused:
        ProbabilisticCoverage(_rows(4, 3.0, FEW))
    assert refused.value.details == "matrix[row 4, column 1] is 3"
    assert pickle.loads(pickle.dumps(refused.value)).details == refused.value.details
    with pytest.raises(dc.DataError, match=r"one person's function can exceed bound=1\.0") as refused:
        FacilityLocation(_rows(4, 3.0, FEW), bound=1.0)
    assert refused.value.details == "person 4 can reach a value of 3.0"
    with pytest.raises(dc.DataError, match="one person values a set at nan, or outside") as refused:
        SetFunction(_functions(4, 3.0, FEW), 3, 1.0).value([0, 2])
    assert refused.value.details == "person 4 values [0, 2] at 2"


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: dc.objectives.Coverage([[1, 0], [1]]), TypeError, "got rows of different lengths$"),
        (
            lambda: dc.objectives.Coverage([[1, {}]]),
            TypeError,
            "got entries that are not numbers$",
        ),
        (lambda: dc.objectives.Coverage([[1, math.nan]]), dc.DataError, "a missing value is NaN: fill it in"),
        (lambda: dc.offline.PrivateGreedy(5.0, dc.Budget(1.0)), TypeError, "whole number, got 5.0; write 5"),
        (lambda: dc.online.PhasedSelector(9, 3.0, dc.Budget(1.0)), TypeError, "got 3.0; write 3"),
        (lambda: dc.objectives.Coverage([[1, 0]], labels=["a"]), ValueError, "has 1 entries; there are 2"),
    ],
)
def test_each_mistake_has_a_message_of_its_own(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


def test_values_are_repeated_in_short():
    for value, words in (
        ("x" * 78, f"'{'x' * 78}'"),
        ("x" * 79, f"'{'x' * 76}..."),
        (2**200 - 1, str(2**200 - 1)),
        (1 - 2**200, str(1 - 2**200)),
        (2**200, "a very long whole number"),
        ([7], "an object of type list"),
    ):
        assert checks.shown(value) == words
    for value, words in ((1e14, "got 100000000000000.0; write 100000000000000$"), (1e15, "got 10{15}.0$")):
        with pytest.raises(TypeError, match=words):
            checks.whole("k", value, at_least=0)


def test_numbers_are_taken_up_to_what_is_exact():
    assert checks.whole("k", 2**63 - 1, at_least=0) == 2**63 - 1
    with pytest.raises(ValueError, match="too large"):
        checks.whole("k", 2**63, at_least=0)
    assert (checks.bound(1e100), checks.bound(1e-100)) == (1e100, 1e-100)
    for bound in (1.1e100, 0.9e-100):
        with pytest.raises(ValueError, match="must be at"):
            checks.bound(bound)
    np.testing.assert_array_equal(checks.vector("v", [2**53, -(2**53)]), [2.0**53, -(2.0**53)])
    for values in ([2**53 + 1, 0], [0, -(2**53) - 1]):
        with pytest.raises(ValueError, match="beyond 2\\^53"):
            checks.vector("v", values)


def test_a_warning_names_the_line_that_called_the_library():
    """From any depth of it."""
    for make in (lambda: dc.Budget(25.0), lambda: dc.Budget(1.0, 0.4)):
        with pytest.warns(UserWarning, match="promises little") as noted:
            make()
        assert [one.filename for one in noted] == [__file__]


def test_simulate_can_leave_out_bad_rows(tmp_path, capsys):
    """A file with an empty cell is refused, and with --skip-bad is simulated."""
    rows = [f"{i},p{i % 3}\n" for i in range(60)]
    (tmp_path / "visits.csv").write_text("".join(["user,page\n", *rows, "x,\n"]))
    (tmp_path / "pages.csv").write_text("page\np0\np1\np2\n")
    files = ["--events", str(tmp_path / "visits.csv"), "--items", str(tmp_path / "pages.csv")]
    asked = ["simulate", *files, "--person", "user", "--item", "page", "--k", "1", "--learner", "random"]
    asked += ["--repeats", "1", "--workers", "1", "--out", str(tmp_path / "out")]
    assert main(asked) == 2
    assert "every event needs its item" in capsys.readouterr().err
    assert main([*asked, "--skip-bad"]) == 0
