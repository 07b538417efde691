"""Settings in which every learner is audited: few items, few rounds, everything enumerable."""

from __future__ import annotations

from typing import Any

from ..constraints import PartitionMatroid
from ..constraints.domains import Ball, Box, Simplex
from ..privacy import Budget
from .registry import AuditExample

REPLACE, ADD_REMOVE = "replace", "add_remove"
PURE, APPROXIMATE = Budget(1.0), Budget(1.0, 1e-5)
ALONE, PURE_ALONE = Budget(1.0, 1e-5, ADD_REMOVE), Budget(1.0, 0.0, ADD_REMOVE)
SIGNED, HALVES = (-1.0, 0.0, 1.0), (0.0, 0.5, 1.0)


def hedge_audits() -> list[AuditExample]:
    found = []
    for n, k, rounds, every, rate, neighbours, deep in (
        (3, 1, 3, 1, 0.5, REPLACE, True),
        (3, 2, 3, 2, 1.0, ADD_REMOVE, False),
        (4, 1, 4, 1, 0.5, REPLACE, True),
        (3, 2, 3, 1, 2.0, REPLACE, True),
    ):
        draws = k * (-(-rounds // every) - 1)
        found.append(
            AuditExample(
                (n, k, rounds),
                Budget(2.0 * rate * draws, 0.0, neighbours),
                {"resample_every": every, "rate": rate},
                words=f"{k} of {n} items, {rounds} rounds, new sets every {every}",
                mechanism="choices",
                rows=rounds - 1,
                columns=n,
                deep=deep,
                faults=("rate doubled", "charges forgotten", "drawn at twice the rate"),
            )
        )
    found.append(
        AuditExample(
            (3, 1, 4),
            Budget(3.0, 5e-2),
            {"composition": "exact"},
            words="1 of 3 items, 4 rounds, composed exactly",
            mechanism="choices",
            rows=3,
            columns=3,
            deep=True,
            faults=("rate doubled", "charges forgotten", "drawn at twice the rate"),
        )
    )
    return found


def phased_audits() -> list[AuditExample]:
    sampling = ("everybody in the sample", "charges forgotten")
    return [
        AuditExample(
            (n, k),
            budget,
            {"window": window, "method": method},
            words=f"{method}, {k} of {n} items, two windows of {window}",
            mechanism="choices",
            rows=2 * window,
            columns=n,
            twice=window,
            deep=deep,
            faults=faults,
        )
        for method, n, k, window, budget, deep, faults in (
            ("composed", 3, 1, 2, Budget(2.0), False, None),
            ("composed", 3, 2, 1, Budget(2.0, 1e-2, ADD_REMOVE), True, None),
            ("composed", 4, 2, 1, Budget(3.0), True, None),
            ("exact", 3, 2, 1, Budget(2.0, 1e-2, ADD_REMOVE), True, ("rate doubled", "charges forgotten")),
            ("subsampled", 5, 1, 1, Budget(2.0, 0.0, ADD_REMOVE), False, sampling),
            (
                "subsampled",
                8,
                1,
                1,
                Budget(2.0),
                True,
                ("rate doubled", *sampling),
            ),  # shows where picks are rare
        )
    ]


def best_of_both_audits() -> list[AuditExample]:
    return [
        AuditExample(
            (3, 1, 3),
            budget,
            {"sums": sums},
            words=words,
            rows=2,
            columns=3,
            publishes="set",
            twice=1,
            deep=deep,
        )
        for words, sums, budget, deep in (
            ("square root, 1 of 3 items", "sqrt", APPROXIMATE, False),
            ("tree, 1 of 3 items", "tree", ALONE, True),
        )
    ]


def _returning(arguments: tuple[Any, ...], options: dict[str, Any], **more: Any) -> AuditExample:
    """One person who comes four times, twice in each of two batches."""
    budget, options = Budget(1.0, 1e-5, max_rounds_per_person=2), {"min_separation": 1} | options
    people: dict[str, Any] = {"rows": 1, "columns": arguments[0], "visits": 4, "publishes": "set"}
    return AuditExample(arguments, budget, options, **people, **more)


def leader_audits() -> list[AuditExample]:
    found = [
        AuditExample(
            (4, k, 4),
            budget,
            options,
            words=f"{words}, {k} of 4 items",
            columns=4,
            publishes="set",
            deep=deep,
        )
        for words, k, options, budget, deep in (
            ("square root", 1, {"batch": 1}, APPROXIMATE, True),
            ("square root", 2, {"batch": 1}, ALONE, False),
            ("tree", 2, {"batch": 1, "sums": "tree"}, APPROXIMATE, True),
            ("few buffers", 2, {"batch": 1, "sums": "blt"}, APPROXIMATE, True),
        )
    ]
    words = "people who return, 1 of 2 items"
    return [*found, _returning((2, 1, 5), {"batch": 2}, words=words, deep=True)]


def running_sums_audits() -> list[AuditExample]:
    found = [
        AuditExample(
            (4, 1, 4), budget, options, words=f"{words}, 1 of 4 items", columns=4, publishes="set", deep=deep
        )
        for words, options, budget, deep in (
            ("square root", {"sums": "sqrt"}, APPROXIMATE, True),
            ("Laplace tree", {"sums": "tree", "noise": "laplace"}, PURE, False),
            ("tree", {"sums": "tree"}, ALONE, True),
            ("weighted people", {"weights": "norm"}, APPROXIMATE, False),
            ("few buffers, 2 items each", {"sums": "blt", "items_per_person": 2}, APPROXIMATE, True),
        )
    ]
    weighted, words = {"weights": "norm", "resample_every": 2}, "people who return, 1 of 3 items"
    return [*found, _returning((3, 1, 5), weighted, words=words)]


def bandit_audits() -> list[AuditExample]:
    # Public randomness under which somebody explores early and what was drawn shows later.
    draws: list[tuple[str, dict[str, Any], str, int, bool]] = [
        ("a new set every round", {"exploration": "every_round", "exploration_rate": 0.5}, REPLACE, 5, True),
        ("rounds picked in advance", {"exploration": "presampled", "block": 2}, REPLACE, 0, True),
        (
            "coins and a timetable",
            {"exploration": "online", "exploration_rate": 0.5, "block": 1},
            ADD_REMOVE,
            5,
            True,
        ),
    ]
    found = [
        AuditExample(
            (3, 1, 4),
            Budget(2.0, 0.0, neighbours),
            options,
            words=f"{words}, 1 of 3 items",
            mechanism="choices",
            values=HALVES,
            public=public,
            deep=deep,
            faults=("rate doubled", "charges forgotten"),
        )
        for words, options, neighbours, public, deep in draws
    ]
    for budget, deep in ((PURE, False), (PURE_ALONE, True)):
        found += [
            # So low a rate that sets do not depend on what is known: only the released sums are compared.
            AuditExample(
                (3, 1, 5),
                budget,
                {"block": 2, "repeats": 2, "rate": 1e-12},
                words="blocks of 2 rounds, 1 of 3 items",
                mechanism="batches",
                faults=("noise halved", "charges forgotten"),  # half a sensitivity is refused at once
                rows=4,
                values=HALVES,
                publishes="state",
                twice=2,
                deep=deep,
            ),
            AuditExample(
                (3, 2, 9),
                budget,
                {"feedback": "slots", "block": 3},
                words="which of 2 shown items was taken",
                mechanism="batches",
                faults=("noise halved", "charges forgotten"),  # half a sensitivity is refused at once
                values=SIGNED,
                nobody=-1.0,
                publishes="state",
                twice=1,
                deep=deep,
            ),
        ]
    return found


def thompson_audits() -> list[AuditExample]:
    # Half a sensitivity is refused at once, so it is not a fault to notice.
    faults = ("noise halved", "charges forgotten")
    return [
        AuditExample(
            (3, 2, None),
            budget,
            {"feedback": feedback, "block": 2},
            words=words,
            mechanism="batches",
            faults=faults,
            rows=4,
            values=values,
            nobody=nobody,
            publishes="state",
            twice=2,
            deep=deep,
        )
        for budget, deep in ((PURE, False), (PURE_ALONE, True))
        for feedback, words, values, nobody in (
            ("set", "values in blocks of 2 rounds, 2 of 3 items", HALVES, 0.0),
            ("slots", "what was taken in blocks of 2 rounds, 2 of 3 items", SIGNED, -1.0),
        )
    ]


def approximate_leader_audits() -> list[AuditExample]:
    return [
        AuditExample(
            (Ball(2, 2.0), 4),
            budget,
            {"lipschitz": 1.0} | options,
            words=f"{words}, 2 coordinates",
            columns=2,
            values=SIGNED,
            publishes="point",
            deep=deep,
            faults=None if words != "published" else ("noise halved", "charges forgotten"),
        )
        for words, options, budget, deep in (
            ("square root", {"sums": "sqrt"}, APPROXIMATE, False),
            ("spherical tree", {"sums": "tree", "noise": "spherical"}, PURE, False),
            ("Laplace tree", {"sums": "tree", "noise": "laplace"}, PURE_ALONE, True),
            ("published", {"calibration": "published"}, PURE, True),
        )
    ]


def linear_leader_audits() -> list[AuditExample]:
    return [
        AuditExample(
            (Simplex(3), 4),
            budget,
            {"box": (0.0, 1.0)} | options,
            words=f"{words}, 3 experts",
            columns=3,
            publishes="point",
            deep=deep,
        )
        for words, options, budget, deep in (
            ("square root", {"sums": "sqrt"}, APPROXIMATE, True),
            ("Laplace tree", {"sums": "tree", "noise": "laplace"}, PURE, False),
        )
    ]


def bandit_leader_audits() -> list[AuditExample]:
    options = {"lipschitz": 1.0, "bound": 1.0, "batch": 2, "exploration_radius": 1.0, "regularization": 10.0}
    return [
        AuditExample(
            (Ball(2, 1e3), 8),
            budget,
            options,
            words="batches of 2 costs",
            mechanism="batches",
            rows=5,
            values=SIGNED,
            publishes="point",
            twice=2,
            deep=deep,
        )
        for budget, deep in ((PURE, False), (PURE_ALONE, True))
    ]


def minimizer_audits() -> list[AuditExample]:
    arcs = tuple(float(arc) for arc in range(6))
    return [
        AuditExample(
            (3, 4),
            budget,
            options,
            words=f"{words}, 3 items",
            values=arcs,
            nobody=-1.0,
            publishes="both",
            deep=deep,
        )
        for words, options, budget, deep in (
            ("square root", {"sums": "sqrt"}, APPROXIMATE, False),
            ("Laplace tree", {"sums": "tree", "noise": "laplace"}, PURE, False),
            ("spherical tree", {"sums": "tree", "noise": "spherical"}, PURE_ALONE, True),
        )
    ]


def bandit_minimizer_audits() -> list[AuditExample]:
    common = {"exploration_rate": 0.5, "regularization": 1e3}
    return [
        AuditExample(
            (2, 6),
            PURE,
            common | {"form": "values", "batch": 2},
            words="batches of 2 costs",
            mechanism="batches",
            rows=5,
            values=SIGNED,
            publishes="chances",
            twice=2,
        ),
        AuditExample(
            (2, 6),
            PURE,
            {"form": "thompson", "batch": 2},
            words="batches of 2 costs, Thompson sampling",
            mechanism="batches",
            faults=("noise halved", "charges forgotten"),  # half a sensitivity is refused at once
            rows=4,
            values=SIGNED,
            publishes="state",
            twice=2,
        ),
        AuditExample(
            (2, 6),
            PURE,
            common | {"form": "tree"},
            words="a tree of estimates",
            rows=5,
            values=SIGNED,
            publishes="chances",
            twice=4,
            deep=True,
        ),
    ]


def frank_wolfe_audits() -> list[AuditExample]:
    blocks = PartitionMatroid([[0, 1], [2]], 1)
    return [
        AuditExample(
            (blocks, 4),
            budget,
            {"steps": 2} | options,
            words=f"{words}, 3 items",
            columns=3,
            publishes="both",
            deep=deep,
        )
        for words, options, budget, deep in (
            ("square root", {"sums": "sqrt"}, APPROXIMATE, False),
            ("Laplace tree", {"sums": "tree"}, PURE, True),
        )
    ]


def frank_wolfe_points_audits() -> list[AuditExample]:
    return [
        AuditExample(
            (Box([0.0, 0.0], [1.0, 1.0]), 4),
            PURE,
            {"steps": 2, "gradient_bound": 1.0, "bound": 2.0},
            words="spherical tree, 2 coordinates",
            columns=2,
            publishes="point",
        )
    ]
