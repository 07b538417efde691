"""The account as a document: for a privacy officer, or for an impact assessment.

It states the promise in words, the adjacency, contribution limits, every release, assumptions, what is
public, how long data is kept, and what is not covered, with lines to sign. Facts that an account cannot know,
such as how long data is kept, are left blank unless given.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ..core.page import Page
from ..core.text import at_most, likelier
from .account import DECLARED

if TYPE_CHECKING:
    from .account import Account

_PUBLIC = (
    "Which mechanisms were used, their settings, and how often: everything in the tables above.",
    "The list of things to choose from, unless a release above says that it was chosen privately.",
)
_COUNTED = "How many people there are, and who they are: two inputs that are compared have the same people."
_UNCOVERED = (
    "What can be inferred about the population, or about groups of people: that is the purpose of a release.",
    "Releases about the same people that were not charged to this account.",
    "Access to the data itself, to the private state of a learner, or to the memory of the machine.",
    "Side channels, such as the running time of a program.",
)
_OPEN = "Not known to this account. To be filled in: ______________________________"
_SIGN_OFF = ("Prepared by", "Data owner", "Privacy officer")


def document(
    title: str,
    accounts: Mapping[str, Account],
    total: Account | None = None,
    *,
    promise: str | None = None,
    public: Sequence[str] = (),
    retention: Sequence[str] = (),
    uncovered: Sequence[str] = (),
) -> str:
    """One HTML file about accounts, by the name of their period, and about their total.

    ``promise`` replaces the generated statement of the promise; ``public``, ``retention`` and ``uncovered``
    add to these sections.
    """
    latest = [*accounts.values()][-1]
    budget = latest.budget
    page = Page(title, "What was released, what it can reveal about one person, and what it cannot.")
    if warning := not_private(accounts.values()):
        page.notice(warning.strip())
    page.heading("Promise")
    page.text(promise or promised(latest if total is None else total, len(accounts)))
    header = ["period", "spent epsilon", "limit", "delta"]
    spent = {**accounts} | ({} if total is None else {"a person who took part in every period": total})
    rows = [
        [name, at_most(one.epsilon(), 4), at_most(one.budget.epsilon, 4), at_most(one.budget.delta, 4)]
        for name, one in spent.items()
    ]
    page.table(header, rows)
    page.heading("Adjacency and contribution limits")
    page.points([_compared(latest), _limited(latest)])
    page.heading("Releases")
    for name, one in accounts.items():
        _, (columns, released), remarks = one.summary()
        if DECLARED in remarks:
            page.text(_sentence(DECLARED))
        if released:
            page.table(columns, released, f"Every release of {name}.")
        else:
            page.text(f"{name}: nothing has been released.")
    page.text(
        "Releases about disjoint groups of people compose in parallel: only the worst group counts. All"
        " other releases add up.",
        small=True,
    )
    page.heading("Assumptions and caveats")
    caveats = dict.fromkeys(line for one in accounts.values() for line in one.caveats)
    page.points(
        [_sentence(line) for line in caveats]
        or ["None besides what is stated above, sensitivities included."]
    )
    page.heading("Public information")
    counted = [_COUNTED] if budget.neighbours == "replace" else []
    page.points([*_PUBLIC, *counted, *public])
    page.heading("Retention")
    page.points(list(retention) or [_OPEN])
    page.heading("Not covered")
    page.points([*_UNCOVERED, *uncovered])
    page.heading("Sign-off")
    blank = "\u00a0" * 30
    page.table(["role", "name", "date", "signature"], [[role, blank, blank, blank] for role in _SIGN_OFF])
    return page.html()


def promised(account: Account, periods: int = 1) -> str:
    """The guarantee of an account in words; for several periods, that of a person who took part in all."""
    budget, spent = account.budget, account.epsilon()
    if not budget.private or math.isinf(spent):
        return "There is none: the budget is infinite, and what was released may tell everything."
    change = "had been anything else" if budget.neighbours == "replace" else "had not been there"
    beside = f", plus a probability of {at_most(budget.delta, 4)}" if budget.delta else ""
    every = f" in all {periods:,} periods" if periods > 1 else ""
    ever = f"allowed in {periods:,} periods" if periods > 1 else "ever allowed"
    # An account in pure epsilon holds whenever one stops; in other definitions only the limit does.
    fixed = (
        ""
        if account.best_definition() == "pure epsilon"
        else " This holds where it was settled in advance what would be released; otherwise the limit does."
    )
    return (
        "Whatever anyone learns from everything that was released, they could have learned almost as well"
        f" if the data of any one person {change}{every}: each result is at most exp({at_most(spent, 4)}) ="
        f" {likelier(spent) if spent < 50 else 'very many'} times as likely with it as without"
        f"{beside}.{fixed} No more than exp({at_most(budget.epsilon, 4)}) is {ever}."
    )


def _compared(account: Account) -> str:
    if account.budget.neighbours == "replace":
        return "Two inputs in which the data of one person differs in any way (replace-one adjacency)."
    return "Two inputs, one of them without the data of one person (add-remove adjacency)."


def _limited(account: Account) -> str:
    most = account.budget.max_rounds_per_person
    often = "one contribution" if most == 1 else f"up to {most:,} contributions"
    return (
        f"The promise is for people with {often} in each period. Learners that are told who people are leave"
        " out further ones; elsewhere nothing checks it."
    )


def not_private(accounts: Collection[Account]) -> str:
    """The warning before a promise that protects nobody; empty for one that does."""
    if any(one.reproducible for one in accounts):
        return "This is not private: anyone who knows the seed can remove the noise. "
    if not all(one.budget.private for one in accounts):
        return "This is not private: the budget is infinite. "
    return ""


def _sentence(line: str) -> str:
    return line[:1].upper() + line[1:] + ("" if line.endswith(".") else ".")
