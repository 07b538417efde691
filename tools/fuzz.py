"""Fuzzing of every public constructor, method, file reader and command with bad inputs.

    python tools/fuzz.py --cases 100000 --seed 1 --out benchmarks/results/fuzz.json
    python tools/fuzz.py --seed 1 --case 4711          # one case again, in full

Each case takes a public callable with fitting arguments (`examples`), replaces one or more of them by bad
ones (`bad_value`, `bad_file`) and calls it. What is looked for:

- the interpreter dies, or the call takes longer than a few seconds;
- an error that is not one of those a caller has to expect (`expected`);
- a refusal that changed something: the state before and after differs;
- a message that tells about people: private data holds a value, a label and a number of people that occur
  nowhere else, and messages are searched for them.

Cases run in forked children, a few hundred each. A child writes down the number of every case before it
starts it, so that one that dies is known and can be repeated.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import inspect
import io
import json
import math
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import discreet as dc
from discreet.constraints.domains import Ball, Box, CappedSimplex, Simplex
from discreet.core.state import read_state, write_state
from discreet.objectives import losses

SECONDS = 5
STUCK = 12
CHUNK = 250
MEMORY = 3 << 30

N, K, ROUNDS = 6, 2, 12
PEOPLE = 137
ITEMS = [f"item {j}" for j in range(N)]
CANARY, LABEL = 0.8671940523, "CANARY-PERSON"
TELLING = re.compile(rf"{LABEL}|0\.867194|\b{PEOPLE}\b")

MODULES = (
    "constraints",
    "data",
    "domains",
    "evaluation",
    "losses",
    "objectives",
    "offline",
    "online",
    "privacy",
)


# --- private data, with canaries in it ---------------------------------------------------------------


def table(people: int = PEOPLE) -> np.ndarray:
    """People x items; somebody's value occurs nowhere else."""
    rng = np.random.default_rng(0)
    rows = (rng.random((people, N)) < 0.4) * rng.choice([0.25, 0.5], (people, N))
    rows[0, 0] = CANARY
    return np.asarray(rows)


@cache
def population(people: int = PEOPLE) -> Any:
    return dc.objectives.ProbabilisticCoverage(table(people))


@cache
def events(people: int = PEOPLE) -> dict[str, Any]:
    names, items, weights = [], [], []
    for i, row in enumerate(table(people)):
        for j in np.flatnonzero(row):
            names.append(LABEL if i == 0 else f"p{i}")
            items.append(f"item {j}")
            weights.append(float(row[j]))
    return {"person": names, "item": items, "weight": weights}


def event_file(folder: Path, kind: str = "csv") -> Path:
    path, columns = folder / f"events.{kind}", events(20)
    if kind == "csv":
        rows = zip(*columns.values(), strict=True)
        path.write_text("person,item,weight\n" + "".join(f"{p},{i},{w}\n" for p, i, w in rows))
    else:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def points(people: int = 9) -> np.ndarray:
    rows = np.random.default_rng(1).normal(size=(people, 3))
    rows /= 2.0 * np.linalg.norm(rows, axis=1)[:, None]
    rows[0] = [CANARY / 2, 0.0, 0.0]
    return np.asarray(rows)


@cache
def cuts(people: int = 9) -> Any:
    from discreet.evaluation.streams import cuts_and_prices

    return cuts_and_prices(people, 4, np.random.default_rng(0))


# --- fitting arguments ---------------------------------------------------------------------------------

BUDGET = dc.Budget(1.0, 1e-6, "add_remove")


def _partitions(**given: Any) -> Any:
    """With a gate of its own: one that is shared belongs to the process that made it."""
    return dc.privacy.select_partitions(gate=dc.Gate(BUDGET, 1), **given)


def _released(**given: Any) -> Any:
    """The same for what a gate hands out."""
    return dc.Gate(BUDGET, 1).reserve(**given)


def _simulated(**given: Any) -> Any:
    """One cell, which stays in this process and leaves nothing behind."""
    from discreet.evaluation.simulation import Config

    stream = {"family": "product display"}
    setting = {"rounds": 20, "items": N, "k": K, "repeats": 1, "streams": [stream]}
    config = Config.of(setting | {"learners": [{"learner": "random"}]})
    return dc.evaluation.simulate(config, None, **given)


def _regret() -> Any:
    curve = np.linspace(0.0, 1.0, 5)
    return dc.evaluation.Regret((0, 1), True, 1.0, 1.0, 0.5, 0.5, curve)


@cache
def examples() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Every public callable with arguments that it takes."""
    c, o, on, off, p, d, e = (
        dc.constraints,
        dc.objectives,
        dc.online,
        dc.offline,
        dc.privacy,
        dc.data,
        dc.evaluation,
    )
    weights, square = np.full((5, N), 0.1), np.eye(N) / 2 + 0.01
    learner = {"n_items": N, "k": K, "rounds": ROUNDS, "budget": BUDGET, "seed": 1}
    leader = {"domain": Ball(3, 1.0), "rounds": ROUNDS, "budget": BUDGET, "lipschitz": 2.0, "seed": 1}
    choose = {"constraint": K, "budget": BUDGET, "seed": 1}
    sums = {"dimension": 3, "rounds": ROUNDS, "budget": BUDGET, "norm_bound": 1.0, "seed": 1}
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 0)]
    table_of: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "Budget": (dc.Budget, {"epsilon": 1.0, "delta": 1e-6, "neighbours": "replace"}),
        "Gate": (dc.Gate, {"budget": BUDGET, "randomness": 1}),
        "plan": (dc.plan, {"n_items": N, "k": K, "rounds": ROUNDS, "budget": BUDGET, "bound": 1.0}),
        "plan_convex": (dc.plan_convex, {k: leader[k] for k in ("domain", "rounds", "budget", "lipschitz")}),
        "plan_minimization": (dc.plan_minimization, {"n_items": 4, "rounds": ROUNDS, "budget": BUDGET}),
        "load": (dc.load, {"path": "nowhere"}),
        "Selection": (dc.Selection, {"items": (1, 0), "labels": ("b", "a"), "round": 3}),
        "Trace": (
            dc.Trace,
            {"rewards": np.zeros(PEOPLE), "selections": np.zeros((PEOPLE, 1), dtype=np.int32)},
        ),
        "constraints.Cardinality": (c.Cardinality, {"k": K, "n_items": N}),
        "constraints.GraphicMatroid": (c.GraphicMatroid, {"edges": edges}),
        "constraints.Knapsack": (c.Knapsack, {"costs": [0.3] * N, "capacity": 1.0}),
        "constraints.LaminarMatroid": (
            c.LaminarMatroid,
            {"family": [[0, 1], [0, 1, 2]], "capacities": [1, 2], "n_items": N},
        ),
        "constraints.LinearMatroid": (c.LinearMatroid, {"matrix": np.eye(3, N), "modulus": None}),
        "constraints.PartitionMatroid": (
            c.PartitionMatroid,
            {"blocks": [[0, 1], [2, 3]], "capacities": 1, "n_items": N},
        ),
        "constraints.TransversalMatroid": (c.TransversalMatroid, {"sets": [[0, 1], [2, 3]], "n_items": N}),
        "constraints.swap_round": (
            c.swap_round,
            {
                "matroid": c.Cardinality(2, N),
                "sets": [[0, 1], [2, 3]],
                "weights": [0.5, 0.5],
                "rng": np.random.default_rng(0),
            },
        ),
        "constraints.Matroid.from_oracle": (
            c.Matroid.from_oracle,
            {"independent": lambda s: len(s) <= 2, "n_items": N},
        ),
        "data.read_events": (
            d.read_events,
            {"events": events(), "person": "person", "item": "item", "weight": "weight"},
        ),
        "data.private_catalogue": (
            d.private_catalogue,
            {
                "events": events(),
                "budget": BUDGET,
                "person": "person",
                "item": "item",
                "share": 0.5,
                "seed": 1,
            },
        ),
        "domains.Ball": (Ball, {"dimension": 3, "radius": 1.0, "center": [0.0] * 3}),
        "domains.Box": (Box, {"low": [0.0] * 3, "high": [1.0] * 3}),
        "domains.Simplex": (Simplex, {"n": 3}),
        "domains.CappedSimplex": (CappedSimplex, {"n": 4, "k": 2, "exactly": True}),
        "evaluation.best_fixed_set": (e.best_fixed_set, {"people": population(), "k": K}),
        "evaluation.compare_recommenders": (
            e.compare_recommenders,
            {"people": population(), "budget": BUDGET, "k": K, "seeds": (0,), "baselines": ()},
        ),
        "evaluation.live_shop": (
            e.live_shop,
            {"months": 1, "visits": 50, "products": 20, "rng": np.random.default_rng(0)},
        ),
        "evaluation.simulate": (_simulated, {"workers": 1, "progress": False}),
        "evaluation.regret_bands": (e.regret_bands, {"regrets": [_regret()] * 3, "level": 0.9}),
        "losses.Linear": (losses.Linear, {"rows": points(), "row_norm": 1.0, "clip": False}),
        "losses.Logistic": (losses.Logistic, {"rows": points(), "labels": [1] * 9, "row_norm": 1.0}),
        "losses.Squared": (losses.Squared, {"rows": points(), "targets": [0.1] * 9, "target_bound": 1.0}),
        "losses.Distance": (losses.Distance, {"points": points(), "row_norm": 1.0, "clip": False}),
        "losses.cost_functions": (losses.cost_functions, {"cost": (abs, abs)}),
        "objectives.BudgetAllocation": (o.BudgetAllocation, {"chances": weights, "total": 1.0, "upper": 1.0}),
        "objectives.ConcaveOfLinear": (o.ConcaveOfLinear, {"weights": weights, "concave": "saturating"}),
        "objectives.ConcaveOverModular": (o.ConcaveOverModular, {"weights": table(), "concave": "sqrt"}),
        "objectives.Coverage": (o.Coverage, {"matrix": np.ones((PEOPLE, N)), "labels": list("abcdef")}),
        "objectives.Coverage.from_events": (
            o.Coverage.from_events,
            {"events": events(), "person": "person", "item": "item", "items": ITEMS},
        ),
        "objectives.EmbeddedFacilityLocation": (
            o.EmbeddedFacilityLocation,
            {
                "people": np.full((PEOPLE, 3), 0.25),
                "items": np.eye(3)[np.arange(N) % 3],
                "scale": 1.0,
                "tile": (4, 2),
            },
        ),
        "objectives.FacilityLocation": (o.FacilityLocation, {"matrix": table(), "bound": 1.0}),
        "objectives.GraphCut": (o.GraphCut, {"adjacency": square, "bound": 9.0}),
        "objectives.LogDeterminant": (o.LogDeterminant, {"kernel": square, "bound": 9.0}),
        "objectives.MatroidRank": (
            o.MatroidRank,
            {"matroid": dc.constraints.Cardinality(2, N), "weights": table(), "bound": 2.0},
        ),
        "objectives.Mixture": (o.Mixture, {"parts": [(0.5, population()), (0.5, population())]}),
        "objectives.MultilinearExtension": (o.MultilinearExtension, {"people": population(9), "samples": 20}),
        "objectives.MutualInformation": (
            o.MutualInformation,
            {"features": np.arange(20).reshape(10, 2) % 2, "classes": [0, 1] * 5, "n_classes": 2},
        ),
        "objectives.ProbabilisticCoverage": (o.ProbabilisticCoverage, {"matrix": table()}),
        "objectives.QuadraticProgram": (
            o.QuadraticProgram,
            {"hessians": np.full((2, 3, 3), -0.01), "linear": np.full((2, 3), 0.2)},
        ),
        "objectives.SaturatedCoverage": (o.SaturatedCoverage, {"matrix": square, "bound": 9.0}),
        "objectives.SetFunction": (
            o.SetFunction,
            {"functions": [lambda s: float(bool(s))] * 3, "n_items": N, "bound": 1.0},
        ),
        "objectives.WeightedTopics": (o.WeightedTopics, {"weights": [[0.5, 0.5]], "covers": np.ones((N, 2))}),
        "objectives.greedy": (o.greedy, {"people": population(), "k": K}),
        "offline.PrivateGreedy": (off.PrivateGreedy, choose | {"method": "auto", "bound": 1.0}),
        "offline.ContinuousGreedy": (off.ContinuousGreedy, choose | {"steps": 2, "noise": "exponential"}),
        "offline.CurvatureGreedy": (off.CurvatureGreedy, choose | {"steps": 2, "gamma": 0.5}),
        "offline.PrivateItemSelector": (off.PrivateItemSelector, {"k": K, "epsilon": 1.0, "bound": 1.0}),
        "offline.PrivateFeatureSelector": (
            off.PrivateFeatureSelector,
            {"k": K, "bounds": ([0.0] * N, [1.0] * N), "classes": [0, 1]},
        ),
        "online.HedgeSelector": (on.HedgeSelector, learner | {"resample_every": 2}),
        "online.RunningSumSelector": (on.RunningSumSelector, learner | {"resample_every": 2}),
        "online.BestOfBothSelector": (on.BestOfBothSelector, learner | {"resample_every": 2}),
        "online.LeaderSelector": (on.LeaderSelector, learner | {"batch": 4}),
        "online.PhasedSelector": (
            on.PhasedSelector,
            {k: v for k, v in learner.items() if k != "rounds"} | {"window": 5},
        ),
        "online.RollingSelector": (
            on.RollingSelector,
            {k: v for k, v in learner.items() if k != "rounds"} | {"first_window": 5},
        ),
        "online.BanditSelector": (on.BanditSelector, learner | {"block": 4, "feedback": "bandit"}),
        "online.ThompsonSelector": (on.ThompsonSelector, learner | {"block": 2, "feedback": "bandit"}),
        "online.MetaFrankWolfe": (
            on.MetaFrankWolfe,
            {"constraint": c.Cardinality(K, N), "rounds": ROUNDS, "budget": BUDGET, "steps": 2, "seed": 1},
        ),
        "online.MetaFrankWolfePoints": (
            on.MetaFrankWolfePoints,
            {
                "domain": Box([0.0] * N, [1.0] * N),
                "rounds": ROUNDS,
                "budget": BUDGET,
                "gradient_bound": 1.0,
                "steps": 2,
                "seed": 1,
            },
        ),
        "online.ApproximateLeader": (on.ApproximateLeader, leader),
        "online.LinearLeader": (on.LinearLeader, leader),
        "online.BanditApproximateLeader": (
            on.BanditApproximateLeader,
            leader | {"bound": (0.0, 2.0), "exploration_radius": 0.2},
        ),
        "online.SubmodularMinimizer": (
            on.SubmodularMinimizer,
            {"n_items": 4, "rounds": ROUNDS, "budget": BUDGET, "bound": 1.0, "seed": 1},
        ),
        "online.BanditSubmodularMinimizer": (
            on.BanditSubmodularMinimizer,
            {
                "n_items": 4,
                "rounds": ROUNDS,
                "budget": BUDGET,
                "exploration_rate": 0.5,
                "batch": 4,
                "seed": 1,
            },
        ),
        "online.Segments": (
            on.Segments,
            {
                "make": functools.partial(on.LeaderSelector, N, K, None, first_batch=2),
                "values": ["de", "fr"],
                "budget": BUDGET,
                "by": "country",
                "seed": 1,
            },
        ),
        "online.Experts": (
            on.Experts,
            {
                "make": functools.partial(on.HedgeSelector, N, 1, ROUNDS),
                "k": K,
                "budget": BUDGET,
                "n_items": N,
                "seed": 1,
            },
        ),
        "online.PersonalSelector": (
            on.PersonalSelector,
            {"n_items": N, "k": K, "rounds": ROUNDS, "budget": BUDGET, "seed": 1},
        ),
        "offline.PrivateRecommender": (dc.offline.PrivateRecommender, {"budget": BUDGET, "seed": 1}),
        "privacy.TreeSum": (p.TreeSum, sums),
        "privacy.FactorizedSum": (p.FactorizedSum, sums | {"method": "sqrt"}),
        "privacy.tree_levels": (p.tree_levels, {"rounds": 9}),
        "privacy.select_partitions": (
            _partitions,
            {"who": [0, 0, 1], "what": [0, 1, 1], "n_keys": 2, "share": 0.5, "keys_per_person": 1},
        ),
        "privacy.PublicRandomness": (p.PublicRandomness, {"words": [1, 2, 3, 4]}),
        "privacy.PublicRandomness.seeded": (p.PublicRandomness.seeded, {"seed": 1}),
        "privacy.Entry": (p.Entry, {"label": "x", "event": p.PureRelease(0.1), "disjoint": False}),
        "privacy.Charge": (p.Charge, {"group": (), "entry": _entry(), "count": 1, "owner": None}),
        "privacy.Releases": (p.Releases, {"sequential": False}),
        "privacy.random_id": (p.random_id, {}),
        "privacy.MemoryLedger": (p.MemoryLedger, {}),
        "privacy.PeopleSplit": (p.PeopleSplit, {"parts": 3, "key": bytes(32)}),
        "privacy.Periods": (p.Periods, {"budget": BUDGET, "definition": "zcdp"}),
        "privacy.GroupGaussianNoise": (
            p.GroupGaussianNoise,
            {"sensitivity": 1.0, "sigma": 2.0, "participations": 2},
        ),
        "privacy.Participation": (p.Participation, {"times": 2, "apart": 3}),
        "privacy.Release": (_released, {"event": p.LaplaceNoise(1.0, 9.0), "count": 1, "disjoint": True}),
        "privacy.SumSpec": (
            p.SumSpec,
            {"bounds": p.VectorBounds(3, 2, norm_bound=1.0), "rounds": ROUNDS, "method": "tree"},
        ),
        "privacy.VectorBounds": (p.VectorBounds, {"dimension": 3, "norm": 2, "norm_bound": 1.0}),
        "privacy.spend_from": (p.spend_from, {"budget": BUDGET, "seed": 1}),
        "privacy.ScoreChange": (p.ScoreChange, {"each": 1.0, "one_directional": False}),
        "privacy.Share": (p.Share, {"budget": BUDGET, "fraction": Fraction(1, 2)}),
        "privacy.ReproducibleRandomness": (p.ReproducibleRandomness, {"seed": 1}),
        "privacy.SecureRandomness": (p.SecureRandomness, {}),
        "privacy.ApproximateRelease": (p.ApproximateRelease, {"epsilon": 0.1, "delta": 1e-9}),
        "privacy.ConcentratedRelease": (p.ConcentratedRelease, {"rho": 0.1}),
        "privacy.ExponentialChoice": (p.ExponentialChoice, {"rate": 0.1, "range": 1.0}),
        "privacy.ExactChoices": (
            p.ExactChoices,
            {"rate": 0.1, "range": 1.0, "number": 3, "delta": 1e-6},
        ),
        "privacy.PermuteAndFlip": (p.PermuteAndFlip, {"rate": 0.1, "range": 1.0}),
        "privacy.GaussianNoise": (p.GaussianNoise, {"sensitivity": 1.0, "sigma": 9.0}),
        "privacy.LaplaceNoise": (p.LaplaceNoise, {"sensitivity": 1.0, "scale": 9.0}),
        "privacy.SphericalLaplaceNoise": (p.SphericalLaplaceNoise, {"sensitivity": 1.0, "scale": 9.0}),
        "privacy.PureRelease": (p.PureRelease, {"epsilon": 0.1}),
        "privacy.Account.from_json": (p.Account.from_json, {"record": dc.Gate(BUDGET, 1).spent.to_json()}),
        "privacy.Event.from_json": (p.Event.from_json, {"record": p.LaplaceNoise(1.0, 9.0).to_json()}),
        "privacy.Gate.from_state": (p.Gate.from_state, {"state": dc.Gate(BUDGET, 1).state()}),
        "domains.Domain.from_json": (Ball.from_json, {"record": Ball(3).to_json()}),
        "domains.Domain.from_projection": (
            Ball.from_projection,
            {
                "project": lambda x: np.clip(x, -1, 1),
                "dimension": 2,
                "inner_radius": 1.0,
                "outer_radius": 1.5,
            },
        ),
    }
    return table_of


# Not made by callers: bases, results, and records that only this library fills in.
NOT_CALLED = {
    "Account",
    "AuditExample",
    "append",
    "register",  # refuses what is no class of a module; tests/online/test_contract.py has it
    "prepare",  # writes folders wherever it is told to; tests/data/test_store.py has it
    "Store",
    "Bucket",
    "Arcs",
    "Bands",
    "Month",
    "Visit",
    "BudgetExceeded",
    "DataError",
    "Constraint",
    "ContinuousPopulation",
    "Decomposition",
    "Domain",
    "Event",
    "Events",
    "Guarantee",
    "Intersection",
    "Ledger",
    "LedgerConflict",
    "PeriodClosed",
    "SQLiteLedger",  # would write files wherever it is told to; tests/privacy has it
    "Losses",
    "Matroid",
    "OnlineLearner",
    "OnlineSelector",
    "Population",
    "Preview",
    "ProjectedPoint",
    "Randomness",
    "Regret",
    "Released",
    "Remaining",
    "RunningSum",
    "State",
    "regret",
}


# What is read as a matrix, and looked through before it is used.
SPARSE = {"matrix", "weights", "adjacency", "chances", "covers", "kernel", "linear", "quality"}
# Asked in inner loops for every point, and documented to take an array of floats: not checked. The same for
# what the library alone hands on: grids, experts, losses, specifications, events and files that were read.
UNCHECKED = {"project", "values", "at", "compiled", "choice", "permute_and_flip", "sample", "noisy", "noise"}
UNCHECKED |= {"noise_rows", "ordered_set", "index", "loss_with", "of_row", "sampled", "stretch"}
# Learners that are told a number in place of a person.
_HEARS_VALUES = (dc.online.BanditSelector, dc.online.BanditSubmodularMinimizer, dc.online.ThompsonSelector)
HANDED_ON = {"spec", "saved", "found", "listed", "entry", "grid"}


def public() -> Iterator[str]:
    """Every public callable by its name after ``dc.``"""
    for name in dc.__all__:
        found = getattr(dc, name)
        if name in MODULES:
            home = found.__name__
            here = [
                n for n, v in vars(found).items() if getattr(v, "__module__", None) == home and n[0] != "_"
            ]
            inside = getattr(found, "__all__", here)
            yield from (f"{name}.{n}" for n in inside if callable(getattr(found, n)))
        elif callable(found) and name not in ("BudgetExceeded", "DataError"):
            yield name


def without_example() -> list[str]:
    """Public names that nothing here calls: the list must be empty."""
    known = {name.rpartition(".")[2] for name in examples()}
    return [n for n in public() if n.rpartition(".")[2] not in known | NOT_CALLED]


def _entry() -> Any:
    return dc.privacy.Entry("x", dc.privacy.PureRelease(0.1), False)


def fitting(subject: Any, folder: Path) -> dict[str, Any]:
    """Arguments of methods, by name, that mostly fit."""
    n = getattr(subject, "n_items", None) or getattr(subject, "dimension", None) or N
    n = n if isinstance(n, int) else N
    person: Any = population(1)
    crowd: Any = population()
    if isinstance(subject, dc.online.SubmodularMinimizer | dc.online.BanditSubmodularMinimizer):
        person, crowd = cuts(1), cuts()
    if isinstance(subject, dc.online.MetaFrankWolfePoints):
        weights = np.full((5, N), 1.0 / N)
        person, crowd = (dc.objectives.ConcaveOfLinear(weights[:count]) for count in (1, 5))
    elif hasattr(subject, "domain") and not isinstance(subject, dc.online.OnlineSelector):
        person, crowd = losses.Distance(points(1)), losses.Distance(points())
    if isinstance(subject, dc.online.LinearLeader):
        person, crowd = losses.Linear(points(1), row_norm=1.0), losses.Linear(points(), row_norm=1.0)
    x = np.full(n, 0.2)
    return {
        "S": [0, 1],
        "X": table(),
        "y": np.arange(PEOPLE) % 2,
        "arcs": None,
        "batch": 2,
        "bound": 1.0,
        "budget": BUDGET,
        "count": 1,
        "curvature": 0.5,
        "delta": 1e-6,
        "dimension": 3,
        "epsilon": 0.5,
        "event": dc.privacy.LaplaceNoise(1.0, 1000.0),
        "factor": 0.5,
        "family": dc.objectives.Coverage,
        "fraction": Fraction(1, 2),
        "into": 3,
        "item": 1,
        "items": [0, 1],
        "k": K,
        "m": 2,
        "matrix": table(),
        "n_items": n,
        "name": "part",
        "out": 0,
        "parts": 3,
        "path": folder / "saved",
        "people": crowd,
        "person": person,
        "person_id": LABEL,
        "point": np.full(n, 0.2),
        "range": 1.0,
        "rate": 0.01,
        "rng": np.random.default_rng(0),
        "rounds": ROUNDS,
        "scale": 1000.0,
        "scores": [CANARY, 1.0, 0.5],
        "segment": "de",
        "segments": ["de", "fr", "de", "fr", "de"],
        "sensitivity": 1.0,
        "share": BUDGET.share(0.5) if not isinstance(subject, Ball | Box | Simplex | CappedSimplex) else 0.5,
        "sigma": 1000.0,
        "step": 1,
        "value": 0.5,
        "values": [CANARY, 0.0],
        "vector": np.array([CANARY, 0.0, 0.0]),
        "w": x,
        "weight": 0.5,
        "x": x,
    }


# --- bad values --------------------------------------------------------------------------------------


class _Raises:
    """An object whose every conversion fails."""

    def _no(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("hostile object")

    __float__ = __int__ = __index__ = __len__ = __iter__ = __array__ = __bool__ = __hash__ = _no


class _Lies:
    """A sequence that says it is longer than it is."""

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, index: int) -> float:
        if index > 3:
            raise IndexError(index)
        return 0.5


class _Sub(np.ndarray):
    pass


class _Text(str):
    pass


def _divides(*_: Any) -> float:
    return 1 / 0


def bad_value(rng: random.Random, broken: bool = False) -> Any:
    """Something that most arguments should not take; SciPy itself ends at ``broken`` sparse matrices."""
    kinds: list[Callable[[], Any]] = [
        lambda: rng.choice([None, True, False, -1, 0, 1, 2, 3, 7, -0.0, 0.5, 1.5, -2.5]),
        lambda: rng.choice([2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400, -(10**400)]),
        lambda: rng.choice([math.nan, math.inf, -math.inf, 5e-324, 1e-300, 1e300, -1e300, 1e-13, 2.0**-1022]),
        lambda: rng.choice([Fraction(1, 3), Fraction(10**400), Fraction(1, 10**400), 1j, range(3), range(0)]),
        lambda: rng.choice(["", "x", "auto", "replace", "NaN", "1", "\x00", "\u202e\U0001f642", "é" * 300]),
        lambda: rng.choice([_Text("auto"), "../../etc", "a,b\n", np.str_("tree"), bytearray(3), b"x"]),
        lambda: rng.choice([[], [[]], [1, [2, 3]], [[1, 2], [3]], {}, {"a": 1}, set(), {0}, (), (1,)]),
        lambda: rng.choices([-1, 0, 1, 5, N, 10**9, 2**63, 0.5, math.nan, "0", None], k=rng.randint(0, 8)),
        lambda: rng.choice([object(), len, lambda *_: math.nan, lambda *_: "x", int, type, iter([1, 2])]),
        lambda: rng.choice(
            [_Raises(), _Lies(), _divides, BUDGET, dc.Budget(math.inf), population(3), Ball(2)]
        ),
        lambda: _array(rng),
        lambda: _array(rng),
        lambda: _nested(rng.choice([30, 3000])),
        lambda: _sparse(rng, broken),
    ]
    return rng.choice(kinds)()


def _nested(depth: int) -> Any:
    value: Any = 1.0
    for _ in range(depth):
        value = [value]
    return value


def _array(rng: random.Random) -> Any:
    shapes = [(), (0,), (1,), (3,), (4,), (N,), (N + 1,), (3, N), (N, N), (0, N), (N, 0), (2, 3, N), (1,) * 4]
    shape = rng.choice(shapes)
    base = np.random.default_rng(rng.randrange(9)).normal(size=shape)
    twist = rng.randrange(16)
    if twist == 0:
        return base * math.nan
    if twist == 1:
        return np.full(shape, math.inf)
    if twist == 2:
        return base.astype(object)
    if twist == 3:
        return np.full(shape, None, dtype=object)
    if twist == 4:
        return base.view(_Sub)
    if twist == 5:
        base.setflags(write=False)
        return base
    if twist == 6:
        return base.astype(">f8")
    if twist == 7:
        return base.astype(rng.choice(["f2", "g", "c16", "?", "i1", "u8", "U3", "S2", "M8[s]", "m8[s]"]))
    if twist == 8:
        return np.ma.masked_less(base, 0.0)
    if twist == 9:
        return np.full(shape, rng.choice([2**62, -(2**63), 2**31]), dtype=np.int64)
    if twist == 10:
        return np.zeros(shape, dtype=[("a", "f8"), ("b", "i4")])
    if twist == 11:
        return np.abs(base)[..., ::-1] if base.ndim else base
    if twist == 12:
        return np.broadcast_to(np.float64(0.25), shape)
    if twist == 13:
        return np.abs(base).T
    if twist == 14:
        return np.full(shape, 5e-324)
    return np.abs(base).tolist()


def _sparse(rng: random.Random, broken: bool) -> Any:
    from scipy import sparse

    kind = rng.choice(["csr", "coo", "dense nan", "empty", *(["broken indices", "broken pointers"] * broken)])
    if kind == "dense nan":
        return sparse.csr_matrix(np.array([[math.nan, 1.0]]))
    if kind == "empty":
        return sparse.csr_matrix((0, N))
    if kind == "coo":
        return sparse.coo_matrix(([0.5, 0.5], ([0, 0], [1, 1])), shape=(2, N))
    made = sparse.csr_matrix(np.abs(np.random.default_rng(0).normal(size=(3, N))) % 1.0)
    if kind == "broken indices":
        made.indices[0] = rng.choice([-5, 10**6, N])
    if kind == "broken pointers":
        made.indptr[1] = rng.choice([-3, 10**6])
    return made


def mutated(rng: random.Random, value: Any) -> Any:
    """A record of plain values with something in it exchanged, left out or added."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        what = rng.random()
        if what < 0.15:
            return {k: v for k, v in value.items() if k != key}
        if what < 0.25:
            return value | {rng.choice(["kind", "extra", "rounds", ""]): _plain(rng)}
        return value | {key: mutated(rng, value[key])}
    if isinstance(value, list | tuple) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        return [mutated(rng, v) if i == place else v for i, v in enumerate(value)]
    return _plain(rng)


def _plain(rng: random.Random) -> Any:
    """Something that JSON can hold."""
    numbers = [None, True, -1, 0, 1, 3, 10**6, 2**31, 2**63, 10**30, 0.5, -0.5, 1e308, math.nan, math.inf]
    texts = ["", "x", "1/0", "1/3", "HedgeSelector", "LaplaceNoise", "\u0000"]
    lists = [[], [0], [[1, 2]], [10**9], {}, {"a": 1}, [None, "x"], [-1] * 9]
    return rng.choice([*numbers, *texts, *lists])


def bad_file(rng: random.Random, good: Path, folder: Path) -> Path:
    """A damaged copy of a file: cut off, flipped bits, garbage, or well-formed with wrong content."""
    path = folder / ("bad" + "".join(good.suffixes))
    content = bytearray(good.read_bytes())
    what = rng.randrange(7)
    if what == 0:
        content = content[: rng.randrange(len(content))]
    elif what == 1:
        for _ in range(rng.randint(1, 20)):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif what == 2:
        content = bytearray(rng.randbytes(rng.randrange(600)))
    elif what == 3:
        place = rng.randrange(len(content))
        content[place:place] = rng.randbytes(rng.randint(1, 40))
    elif good.suffix == ".discreet":
        header, arrays = read_state(good)
        for name in ("format", "version"):
            header.pop(name, None)
        if what < 6 or not arrays:
            header = mutated(rng, header)
        if what >= 5 and arrays:
            name = rng.choice(list(arrays))
            arrays = dict(arrays)
            if rng.random() < 0.2:
                del arrays[name]
            else:
                arrays[name] = _bad_array(rng, arrays[name])
        if not isinstance(header, dict):
            header = {"class": header}
        try:
            write_state(path, header, arrays)
        except (ValueError, TypeError):
            path.write_bytes(bytes(content[:50]))
        return path
    elif good.suffix == ".csv":
        lines = content.decode().split("\n")
        broken = ["", ",", ",,,,,,,", "a", '"', '"a,b', "\x00,\x00,1", "é" * 9]
        wrong = [f"{LABEL},item 0,nan", "p,item 0,-1", "p,item 0,1e999"]
        lines[rng.randrange(len(lines))] = rng.choice(broken + wrong)
        content = bytearray("\n".join(lines).encode())
    else:
        content = content[::-1]
    path.write_bytes(bytes(content))
    return path


def _bad_array(rng: random.Random, array: np.ndarray) -> np.ndarray:
    what = rng.randrange(7)
    if what == 0:
        return np.asarray(array.astype("f4" if array.dtype.kind == "f" else "i2"))
    if what == 1:
        return array.reshape(-1)[: max(0, array.size - 1)]
    if what == 2:
        return np.append(array.reshape(-1), array.reshape(-1)[:1])
    if what == 3:
        return np.full(array.shape, -(2**62) if array.dtype.kind in "iu" else math.nan).astype(array.dtype)
    if what == 4:
        return np.full(array.shape, 10**9 % 127 if array.dtype.itemsize == 1 else 10**9).astype(array.dtype)
    if what == 5:
        return np.zeros((*array.shape, 2), dtype=array.dtype)
    return np.array(["x"])


# --- one case ------------------------------------------------------------------------------------------


def state_of(subject: Any) -> Any:
    """Everything that a refusal must leave as it was; None for objects without state."""
    if isinstance(subject, dc.online.OnlineLearner | dc.online.Segments):
        return _frozen(subject._saved())
    if isinstance(subject, dc.privacy.RunningSum):
        return _frozen((subject.state(), subject.gate.state()))
    if isinstance(subject, dc.Gate):
        return _frozen(subject.state())
    spent = getattr(subject, "privacy", None)
    return None if spent is None or not hasattr(spent, "to_json") else _frozen(spent.to_json())


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        # Every state that is taken has the next number of its owner.
        return {repr(k): _frozen(v) for k, v in value.items() if k not in ("owner", "lives")}
    if isinstance(value, list | tuple):
        return [_frozen(v) for v in value]
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes())
    return repr(value)


def expected(error: BaseException, name: str, reads_files: bool) -> bool:
    """Whether a caller has to expect such an error."""
    if isinstance(error, IndexError) and name.endswith("__getitem__"):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    if last is not None and last.filename == __file__:
        return True  # a bad object of ours raised it, on its own
    if isinstance(error, MemoryError) and "Unable to allocate" in str(error):
        return True  # NumPy's answer to sizes beyond any memory, before anything is made
    own = last is not None and f"{os.sep}discreet{os.sep}" in last.filename and "raise" in (last.line or "")
    if isinstance(error, AttributeError) and not isinstance(error, ValueError):
        return False
    if isinstance(error, ValueError | TypeError | KeyError | NotImplementedError | dc.BudgetExceeded):
        return True
    if isinstance(error, dc.privacy.LedgerConflict):
        return name.endswith(".append")
    if isinstance(error, OSError | EOFError):
        return reads_files
    if isinstance(error, RecursionError):
        return False
    return own and isinstance(error, RuntimeError | LookupError)


class _TooLong(BaseException):
    pass


def _alarm(*_: Any) -> None:
    raise _TooLong


class Case:
    """What one number stands for: made, called, looked at."""

    def __init__(
        self, seed: int, number: int, folder: Path, tell: Callable[[str], Any] = lambda _: None
    ) -> None:
        self.rng = random.Random(f"{seed}:{number}")
        self.folder, self.tell = folder, tell
        self.name = ""
        self.detail: list[str] = []
        self.reads_files = False

    def run(self) -> str | None:
        """A finding in words, or None."""
        kind = self.rng.random()
        if kind < 0.3:
            return self._constructor()
        if kind < 0.82:
            return self._method()
        if kind < 0.97:
            return self._file()
        return self._command()

    def _constructor(self) -> str | None:
        table_of = examples()
        self.name = self.rng.choice(sorted(table_of))
        call, fits = table_of[self.name]
        given = self._spoiled(fits, call)
        self.reads_files |= self.name == "load"
        return self._called(self.name, lambda: call(**given), None)

    def _subject(self) -> Any:
        table_of = examples()
        heavy = [n for n in table_of if n.startswith(("online.", "offline.", "Gate")) or n.endswith("Sum")]
        names = heavy if self.rng.random() < 0.6 else sorted(table_of)
        self.name = self.rng.choice(sorted(names))
        call, fits = table_of[self.name]
        if self.name == "load":
            self.name, (call, fits) = "Gate", table_of["Gate"]
        subject = call(**fresh(fits))
        if isinstance(subject, dc.online.OnlineLearner | dc.online.Segments) and self.rng.random() < 0.9:
            warm(subject, self.rng.randint(0, 5))
            if self.rng.random() < 0.7:
                subject.choose(*(["de"] if isinstance(subject, dc.online.Segments) else []))
        if isinstance(subject, dc.privacy.RunningSum):
            for _ in range(self.rng.randint(0, 4)):
                subject.add([CANARY, 0.0, 0.0])
        return subject

    def _method(self) -> str | None:
        subject = self._subject()
        kind = type(subject)
        if isinstance(subject, np.ndarray) or not kind.__module__.startswith("discreet"):
            return None
        names = sorted(n for n in dir(kind) if n[0] != "_" and callable(getattr(kind, n, None)))
        own = [
            n for n in names if (getattr(getattr(kind, n), "__module__", None) or "").startswith("discreet")
        ]
        names = [n for n in own if n not in UNCHECKED]
        names += [
            n for n in ("__getitem__", "__len__", "__iter__", "__repr__", "_repr_html_") if hasattr(kind, n)
        ]
        name = self.rng.choice(names)
        call = getattr(subject, name)
        fits = fitting(subject, self.folder)
        if isinstance(subject, _HEARS_VALUES):
            fits["person"] = 0.5
        try:
            parameters = inspect.signature(call).parameters.values()
        except ValueError:
            return None
        if any(parameter.name in HANDED_ON for parameter in parameters):
            return None
        chosen: dict[str, Any] = {}
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                continue
            if parameter.default is parameter.empty or self.rng.random() < 0.3:
                chosen[parameter.name] = fits.get(parameter.name, None)
        if name in ("__repr__", "_repr_html_", "__len__", "__iter__"):
            chosen, call = {}, _plainly(call)
        given = self._spoiled(chosen, call, self.rng.random() < 0.12)
        if "path" in given:
            self.reads_files = True
            if not isinstance(given["path"], Path) and isinstance(given["path"], str | bytes):
                given["path"] = self.folder / "saved"  # nothing is written outside the folder
        positional = name.startswith("__") and given
        return self._called(
            f"{self.name}.{name}",
            (lambda: call(*given.values())) if positional else (lambda: _used(call(**given))),
            subject,
        )

    def _file(self) -> str | None:
        self.reads_files = True
        kind = self.rng.choice(["learner", "learner", "learner", "sum", "csv", "csv", "parquet"])
        if kind in ("csv", "parquet"):
            path = bad_file(self.rng, event_file(self.folder, kind), self.folder)
            family = self.rng.choice(["Coverage", "ProbabilisticCoverage", "FacilityLocation", "read_events"])
            self.name = f"{family} from {kind}"
            given = {"person": "person", "item": "item"}
            if self.rng.random() < 0.5:
                given["weight"] = "weight"
            if family == "read_events":
                return self._called(self.name, lambda: dc.data.read_events(path, **given), None)
            if self.rng.random() < 0.5:
                given["items"] = ITEMS
            read = getattr(dc.objectives, family).from_events
            return self._called(self.name, lambda: read(path, **given), None)
        table_of = examples()
        good = self.folder / "good.discreet"
        prefix = "online." if kind == "learner" else ("privacy.TreeSum", "privacy.FactorizedSum")
        saved = (n for n in table_of if n.startswith(prefix) and n != "online.Experts")  # which is not saved
        name = self.rng.choice(sorted(saved))
        call, fits = table_of[name]
        subject = call(**fresh(fits))
        if kind == "learner":
            warm(subject, self.rng.randint(0, 5))
        else:
            subject.add([CANARY, 0.0, 0.0])
        subject.save(good)
        path = bad_file(self.rng, good, self.folder)
        self.name = f"load {name}"
        read = dc.load if kind == "learner" else type(subject).load

        def loaded_and_used() -> None:
            loaded = read(path)
            if kind == "learner":
                warm(loaded, 3)
                loaded.privacy.epsilon()
                crowd = fitting(loaded, self.folder)["people"]
                loaded.run(crowd[:3])
            else:
                loaded.add([0.5, 0.0, 0.0])
            repr(loaded)

        return self._called(self.name, loaded_and_used, None)

    def _command(self) -> str | None:
        from discreet.cli import main

        self.reads_files = True
        path = event_file(self.folder, "csv")
        if self.rng.random() < 0.6:
            path = bad_file(self.rng, path, self.folder)
        options = ["--person", "person", "--item", "item", "-k", "2", "--epsilon", "1"]
        place = self.rng.randrange(len(options))
        if self.rng.random() < 0.7:
            odd = ["", "-1", "0", "nan", "inf", "1e999", "x", "--", "\u202e", "--delta", "--seed", "10" * 30]
            options[place] = self.rng.choice(odd)
        self.name = "discreet select"
        out, err = io.StringIO(), io.StringIO()

        def call() -> None:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code = main(["select", str(path), *options])
                except SystemExit as stop:
                    code = stop.code
            if code not in (0, 2, 3):
                raise AssertionError(f"exit code {code}")
            # Who gave the file may be shown its lines: only the shape of the answer is looked at here.
            if "Traceback" in err.getvalue():
                raise AssertionError("a traceback was printed")

        return self._called(self.name, call, None)

    def _half_way(self, name: str) -> bool:
        """A stream that goes wrong at somebody has learned from those who came before, as is documented."""
        return name.endswith(".run") and any(one.startswith("people=") for one in self.detail)

    def _spoiled(self, fits: dict[str, Any], call: Any, leave: bool = False) -> dict[str, Any]:
        """Arguments of which one or more are bad."""
        given = fresh(fits)
        try:
            parameters = inspect.signature(call).parameters
            named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
            open_ended = [n for n, p in parameters.items() if p.kind in named]
        except (ValueError, TypeError):
            open_ended = list(given)
        names = sorted(set(given) | set(open_ended))
        if leave or not names:
            return given
        for name in self.rng.sample(names, min(len(names), self.rng.choice([1, 1, 1, 1, 2, 3]))):
            if isinstance(given.get(name), dict) and name != "events" and self.rng.random() < 0.8:
                given[name] = mutated(self.rng, given[name])
            elif self.rng.random() < 0.04:
                given.pop(name, None)
                continue
            else:
                given[name] = bad_value(self.rng, name in SPARSE)
            # A list of items may be the path of one, where events may.
            self.reads_files |= name in ("events", "path") or (name == "items" and "events" in self.name)
            self.detail.append(f"{name}={_shown(given[name])}")
        return given

    def _called(self, name: str, call: Callable[[], Any], subject: Any) -> str | None:
        self.name = name
        self.tell(f"{name}({'; '.join(self.detail)[:300]})".replace("\n", " ") + "\n")
        before = state_of(subject) if subject is not None else None
        started = time.monotonic()
        said: list[str] = []
        finding = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            signal.alarm(SECONDS)
            try:
                call()
                refused = None
            except _TooLong:
                return f"takes longer than {SECONDS} s"
            except Exception as error:
                refused = error
                said.append(str(error))
            finally:
                signal.alarm(0)
            said += [str(w.message) for w in caught]
        if refused is not None:
            if not expected(refused, name, self.reads_files):
                frames = [f for f in traceback.extract_tb(refused.__traceback__) if "discreet" in f.filename]
                where = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
                finding = f"{type(refused).__name__} in {where}: {str(refused)[:100]}"
            elif before is not None and not self._half_way(name) and state_of(subject) != before:
                finding = f"a refusal changed the state: {str(refused)[:100]}"
        # The first line of a file names its columns, whatever stands there; and who breaks a declared
        # bound is named by number and value, as the privacy page says.
        known = ("is not a column of the table", "above bound=", "can exceed bound=")
        checked = (m for m in said if not any(words in m for words in known))
        telling = next((m for m in checked if TELLING.search(m)), None)
        if finding is None and telling is not None:
            finding = f"tells about people: {telling[:200]}"
        if finding is None and time.monotonic() - started > SECONDS:
            finding = f"takes longer than {SECONDS} s"
        return finding


def fresh(fits: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with a generator and a gate of the case's own."""
    given = {k: np.random.default_rng(0) if k == "rng" else v for k, v in fits.items()}
    return {k: dc.Gate(v.budget, 1) if isinstance(v, dc.Gate) else v for k, v in given.items()}


def _used(result: Any) -> Any:
    """Iterators are run for a while, so that what they would raise is raised."""
    if inspect.isgenerator(result):
        for _, _ in zip(range(50), result, strict=False):
            pass
    return result


def _plainly(call: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: call()


def _shown(value: Any) -> str:
    try:
        return repr(value)[:80].replace("\n", " ")
    except Exception:
        return f"<{type(value).__name__}>"


def warm(learner: Any, rounds: int) -> None:
    """A few ordinary rounds, with the canary's owner among the people."""
    fits = fitting(learner, Path())
    crowd = fits["people"]
    for i in range(rounds):
        shown = learner.choose("de") if isinstance(learner, dc.online.Segments) else learner.choose()
        if isinstance(learner, _HEARS_VALUES):
            slots = getattr(learner, "feedback", "bandit") == "slots"
            learner.learn(np.zeros(len(shown.items)) if slots else 0.5, person_id=f"{LABEL} {i}")
        elif isinstance(learner, dc.online.BanditApproximateLeader):
            learner.learn(0.5, person_id=f"{LABEL} {i}")
        else:
            learner.learn(crowd[i], person_id=f"{LABEL} {i}")


# --- many cases ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """An empty folder, in memory where there is such a place: most of a case's time would go into files."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield Path(folder)


def run_case(seed: int, number: int, tell: Callable[[str], Any] = lambda _: None) -> dict[str, Any] | None:
    """What case ``number`` finds, if anything."""
    signal.signal(signal.SIGALRM, _alarm)
    with _folder() as folder:
        case = Case(seed, number, folder, tell)
        try:
            finding = case.run()
        except _TooLong:
            finding = f"takes longer than {SECONDS} s"
        except Exception as error:  # making the subject, which nothing bad went into
            finding = f"the example itself fails: {type(error).__name__}: {str(error)[:100]}"
        if finding is None:
            return None
        return {"case": number, "name": case.name, "finding": finding, "given": "; ".join(case.detail)[:300]}


def chunk(seed: int, numbers: range, log: Path, found: Path) -> int:
    """Runs the numbers in a child; returns the first that was not finished (``numbers.stop``: all were)."""
    log.write_text("")
    child = os.fork()
    if child == 0:
        try:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
            with log.open("a", buffering=1) as progress, found.open("a", buffering=1) as findings:
                for number in numbers:
                    progress.write(f"case {number}\n")
                    finding = run_case(seed, number, progress.write)
                    if finding is not None:
                        findings.write(json.dumps(finding) + "\n")
                progress.write("done\n")
        finally:
            os._exit(0)
    size, since = -1, time.monotonic()
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        time.sleep(0.05)
        if log.stat().st_size != size:
            size, since = log.stat().st_size, time.monotonic()
        elif time.monotonic() - since > STUCK:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
    lines = log.read_text().splitlines()
    if lines and lines[-1] == "done":
        return numbers.stop
    last = next((int(line[5:]) for line in reversed(lines) if line.startswith("case ")), numbers.start)
    name, _, given = (lines or ["?"])[-1].partition("(")
    stuck = time.monotonic() - since > STUCK
    what = "does not end, and cannot be interrupted" if stuck else "ends the interpreter"
    with found.open("a") as findings:
        findings.write(json.dumps({"case": last, "name": name, "finding": what, "given": given}) + "\n")
    return last + 1


def fuzz(seed: int, first: int, cases: int) -> list[dict[str, Any]]:
    """All findings of ``cases`` cases from ``first`` on."""
    dc.online  # loads everything once, before there are children  # noqa: B018
    run_case(seed, first)
    with tempfile.TemporaryDirectory() as folder:
        log, found = Path(folder) / "log", Path(folder) / "found"
        found.touch()
        at, stop = first, first + cases
        while at < stop:
            at = chunk(seed, range(at, min(at + CHUNK, stop)), log, found)
            if sys.stdout.isatty():
                print(f"\r{at - first:,} of {cases:,}", end="", flush=True)
        return [json.loads(line) for line in found.read_text().splitlines()]


def shared(seed: int, first: int, cases: int, jobs: int) -> list[dict[str, Any]]:
    """The same, by several processes."""
    if jobs == 1:
        return fuzz(seed, first, cases)
    ends = [first + cases * i // jobs for i in range(jobs + 1)]
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / str(i) for i in range(jobs)]
        started = []
        for out, start, stop in zip(outs, ends, ends[1:], strict=False):
            numbers = ["--seed", seed, "--first", start, "--cases", stop - start, "--out", out]
            command = [sys.executable, __file__, *map(str, numbers)]
            started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        for one in started:
            one.wait()
        return [finding for out in outs for finding in json.loads(out.read_text())["findings"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="repeat one case in this process")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes share the cases")
    parser.add_argument("--out", type=Path, help="where to store what was found")
    options = parser.parse_args()
    if missing := without_example():
        print("no example for", ", ".join(missing))
        return 1
    if options.case is not None:
        with _folder() as folder:
            signal.signal(signal.SIGALRM, _alarm)
            case = Case(options.seed, options.case, folder)
            try:
                print(case.run())
            finally:
                print(case.name, *case.detail, sep="\n  ")
        return 0
    started = time.monotonic()
    findings = shared(options.seed, options.first, options.cases, options.jobs)
    kinds = collections.Counter(f"{f['name']}: {f['finding']}" for f in findings)
    for kind, count in kinds.most_common(400):
        print(f"{count:5d}  {kind}")
    print(f"{options.cases:,} cases, {len(findings):,} findings, {time.monotonic() - started:.0f} s")
    if options.out:
        findings.sort(key=lambda finding: finding["case"])
        record = {"cases": options.cases, "seed": options.seed, "findings": findings}
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
