"""``--ledger``: a file to which runs about the same people are charged, and what holds for all of them."""

from __future__ import annotations

import argparse
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..privacy import Account, Budget, Gate


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """The file, and what all runs with it may spend."""
    group.add_argument(
        "--ledger",
        metavar="FILE",
        help="charge this run to FILE: all runs with it, about the same people, share one budget, and one"
        " beyond it is refused. A charge stays, whatever happens to the run",
    )
    group.add_argument(
        "--ledger-epsilon", type=float, metavar="E", help="for a new ledger: the epsilon of all runs together"
    )
    group.add_argument("--ledger-delta", type=float, metavar="D", help="the same for delta (default 0)")


def gate_of(options: argparse.Namespace, budget: Budget) -> Gate:
    """The gate of this run; with --ledger it charges all of its budget there before it releases anything."""
    from ..privacy import Budget, BudgetExceeded, Gate, SQLiteLedger
    from ..privacy.population.runs import RunGate

    if options.ledger is None:
        if options.ledger_epsilon is not None or options.ledger_delta is not None:
            raise ValueError("--ledger-epsilon and --ledger-delta are about --ledger FILE, which is missing")
        return Gate(budget, options.seed)
    if options.seed is not None:
        raise ValueError("--seed is for trying out, --ledger for what is published; leave out one of them")
    path = Path(options.ledger)
    known = SQLiteLedger(path).terms if path.exists() else None
    if known is None and options.ledger_epsilon is None:
        raise ValueError(
            f"--ledger {path}: there is none yet; to begin it, say what all runs with it may spend together,"
            f" e.g. --ledger-epsilon {3 * budget.epsilon:g}"
            + (f" --ledger-delta {3 * budget.delta:g}" if budget.delta else "")
        )
    if known is not None:
        _check_alike(options, known)
    known = known or {"notion": "pure", "failure": "0", "delta": 0.0, "max_rounds_per_person": 1}
    epsilon = known["epsilon"] if options.ledger_epsilon is None else options.ledger_epsilon
    delta = known["delta"] if options.ledger_delta is None else options.ledger_delta
    total = Budget(float(epsilon), float(delta), budget.neighbours, known["max_rounds_per_person"])
    if budget.delta and not total.delta:
        raise ValueError(
            f"--delta {budget.delta:g}: the ledger holds none; leave --delta out, or begin a ledger with"
            " --ledger-delta"
        )
    notion, failure = known["notion"], Fraction(known["failure"])
    shared = Gate(total, notion=notion, failure=failure)
    try:
        RunGate(budget, shared, "")  # one that could not be begins none
        shared = Gate(total, notion=notion, failure=failure, ledger=SQLiteLedger(path))
        return RunGate(
            budget, shared, f"discreet select {', '.join(Path(one).name for one in options.files)}"
        )
    except BudgetExceeded as error:
        error.args = (_refusal(path, budget, shared),)
        raise


def _check_alike(options: argparse.Namespace, known: dict[str, Any]) -> None:
    """Refuse options that are not those a ledger was begun with."""
    for name, begun in (("epsilon", known["epsilon"]), ("delta", known["delta"])):
        given = getattr(options, f"ledger_{name}")
        if given is not None and given != float(begun):
            raise ValueError(
                f"--ledger-{name} {given:g}: the ledger was begun with {float(begun):g}, which stays; leave"
                f" --ledger-{name} out, or begin another ledger"
            )
    if options.neighbours != known["neighbours"]:
        raise ValueError(
            f"--neighbours {options.neighbours}: the ledger was begun with {known['neighbours']}; say"
            f" --neighbours {known['neighbours']}, or begin another ledger"
        )


def _refusal(path: Path, budget: Budget, shared: Gate) -> str:
    """What does not fit, why, and what would."""
    asked = f"--epsilon {budget.epsilon:g}" + (f" --delta {budget.delta:g}" if budget.delta else "")
    account = shared.spent
    spent = f"epsilon {account.epsilon():.6g} of {account.budget.epsilon:g}"
    if account.budget.delta:
        spent += f" and delta {float(account.loss.delta):.6g} of {account.budget.delta:g}"
    fits = _largest(budget.epsilon, budget.delta, shared)
    if fits is None and budget.delta:
        fits = _largest(budget.epsilon, 0.0, shared)
        fits = None if fits is None else f"{fits} without --delta"
    more = "nothing fits any more" if fits is None else f"{fits} would still fit"
    return f"{asked} does not fit into the ledger {path.name}: {spent} is spent; {more}"


def _largest(epsilon: float, delta: float, shared: Gate) -> str | None:
    """The largest run of this kind that fits, as options; None if none does."""
    from ..privacy import ApproximateRelease, PureRelease

    def event(epsilon: float, delta: float) -> ApproximateRelease | PureRelease:
        return ApproximateRelease(epsilon, delta) if delta else PureRelease(epsilon)

    largest = shared.preview(event(epsilon, delta)).largest
    if largest is None:
        return None
    exact = [
        float(Fraction(largest.to_json()[name])) for name in (("epsilon", "delta") if delta else ("epsilon",))
    ]
    for rounded in (Context(prec=6), Context(prec=6, rounding=ROUND_FLOOR)):
        texts = [f"{rounded.plus(Decimal(number)):g}" for number in exact]
        found = [float(text) for text in texts]
        if min(found) > 0.0 and shared.preview(event(found[0], found[1] if delta else 0.0)).fits:
            options = zip(("--epsilon", "--delta"), texts, strict=False)
            return " ".join(f"{name} {text}" for name, text in options)
    return None


def told(options: argparse.Namespace, spent: Account) -> dict[str, Any]:
    """What is in the ledger by now, this run included."""
    limit = spent.budget
    known = {"epsilon": spent.epsilon(), "epsilon_limit": limit.epsilon, "delta_limit": limit.delta}
    return {"file": Path(options.ledger).name} | known


def together(change: str, options: argparse.Namespace, spent: Account) -> str:
    """What holds for all runs that were charged to the ledger, in words."""
    known, limit = told(options, spent), spent.budget
    beside = f", up to a probability of {limit.delta:g}" if limit.delta else ""
    said = (
        f"All lists charged to the ledger {known['file']} together, this one included, have spent epsilon"
        f" {known['epsilon']:.6g} of {limit.epsilon:g}. {change}, no combination of them would have become"
        f" more than {factor(known['epsilon'])} times as likely or unlikely{beside}; when all of it is spent,"
        f" {factor(limit.epsilon)} times."
    )
    for mark in spent.marks:
        said += f" Of at least one of them: {mark}."
    return said


def factor(epsilon: float) -> str:
    """e^epsilon in four digits, rounded up."""
    if epsilon > 700.0:
        return f"e^{epsilon!r}"
    power = Decimal(repr(epsilon)).exp(Context(prec=40))
    return f"{Context(prec=4, rounding=ROUND_CEILING).plus(power):.4g}"
