"""The document to hand over: everything an account says is in it, escaped, and it needs nothing else."""

from __future__ import annotations

import html
import math
import re

import pytest

import discreet as dc
from discreet.online import ThompsonSelector
from discreet.privacy.document import promised
from discreet.privacy.population import RunGate

from ..test_html import Balanced

SECTIONS = [
    "Promise",
    "Adjacency and contribution limits",
    "Releases",
    "Assumptions and caveats",
    "Public information",
    "Retention",
    "Not covered",
    "Sign-off",
]


def text_of(page):
    reader = Balanced()
    body = page[page.index("<body>") : page.index("</html>")]
    reader.feed(body)
    reader.close()
    assert not re.search(r"https?:|<script|src=", page)
    return re.sub(r"\s+", " ", reader.text)


def spent(budget, seed=None):
    gate = dc.Gate(budget, seed)
    gate.choose([1.0, 5.0, 2.0], rate=0.25, sensitivity=2.0)
    return gate.spent


def test_everything_that_an_account_says_is_in_it():
    account = spent(dc.Budget(2.0, neighbours="add_remove", max_rounds_per_person=3))
    page = account.to_html("Shop <b>", retention=["30 days & no more."], uncovered=["Cameras."])
    text = text_of(page)
    assert re.findall(r"<h2>([^<]+)</h2>", page) == SECTIONS
    assert "Shop <b>" in text
    assert "<b>" not in page
    assert f"{account.epsilon():.4g}" in text
    assert "without the data of one person (add-remove adjacency)" in text
    assert "for people with up to 3 contributions in each period" in text
    assert "elsewhere nothing checks it" in text
    for row in account.releases()[1]:
        assert all(html.escape(cell) in page for cell in row)
    assert "30 days & no more." in text
    assert "Cameras." in text
    assert "Privacy officer" in text


def test_what_nobody_said_is_left_open():
    text = text_of(spent(dc.Budget(1.0)).to_html())
    assert "Not known to this account. To be filled in: ____" in text
    assert "replace-one adjacency" in text
    assert "How many people there are" in text


@pytest.mark.parametrize(
    ("account", "said"),
    [
        (spent(dc.Budget(1.0), seed=3), "anyone who knows the seed can remove the noise"),
        (spent(dc.Budget(float("inf"))), "the budget is infinite"),
    ],
    ids=["seed", "infinite"],
)
def test_what_is_not_private_says_so_first(account, said):
    text = text_of(account.to_html())
    assert "This is not private" in text
    assert said in text
    assert text.index("This is not private") < text.index("Promise")


def test_the_promise_is_what_was_spent():
    account = spent(dc.Budget(1.0, 1e-6))
    (told,) = re.findall(r"at most exp\(([^)]+)\)", promised(account))
    assert account.epsilon() <= float(told) < 1.001 * account.epsilon()
    assert "plus a probability of 1e-06" in promised(account)
    assert "exp(1)" in promised(account)


def test_no_number_of_the_promise_is_below_the_true_one():
    """Of epsilon 1.00004 a reader who is told exp(1) = 2.718 is told less than was spent."""
    for epsilon in (1.0, 1.00004, 0.33334, 2.0 / 3.0):
        account = spent_pure(epsilon)
        exponent, factor, limit = map(float, re.findall(r"(?:exp\(|= )([0-9.]+)", promised(account)))
        assert epsilon <= account.epsilon() <= exponent
        assert math.exp(epsilon) <= factor
        assert account.budget.epsilon <= limit


def spent_pure(epsilon):
    gate = dc.Gate(dc.Budget(1.00004), definition="pure")
    gate.reserve(dc.privacy.PureRelease(epsilon), label="a list")
    return gate.spent


def test_the_promise_of_periods_is_about_all_of_them():
    """The last one may have spent next to nothing."""
    periods = dc.privacy.Periods(dc.Budget(1.0))
    for month, rate in (("2026-11", 0.4), ("2026-12", 0.05)):
        periods.gate(month).choose([1.0, 5.0, 2.0], rate=rate, sensitivity=2.0)
    text = text_of(periods.to_html("Shop"))
    assert "had been anything else in all 2 periods: each result is at most exp(0.9)" in text
    assert "No more than exp(2) is allowed in 2 periods." in text


def test_where_stopping_may_break_an_account_the_promise_says_so():
    """docs/privacy.md: in zCDP and Gaussian DP what was spent is no guarantee at an adaptive time."""
    words = "This holds where it was settled in advance what would be released; otherwise the limit does."
    for definition in ("pure", "zcdp", "gdp"):
        gate = dc.Gate(dc.Budget(1.0, 1e-6), definition=definition)
        gate.choose([1.0, 5.0, 2.0], rate=0.05, sensitivity=2.0)
        assert (words in promised(gate.spent)) == (definition != "pure")


def test_periods_have_one_document():
    periods = dc.privacy.Periods(dc.Budget(1.0))
    assert "nothing has been released" in text_of(periods.to_html())
    for month in ("2026-11", "2026-12"):
        periods.gate(month).choose([1.0, 5.0, 2.0], rate=0.25, sensitivity=2.0)
    text = text_of(periods.to_html("Shop"))
    for words in ("2026-11 0.5 1", "2026-12 0.5 1", "a person who took part in every period 1 2"):
        assert words in text


def test_learners_have_it_too():
    learner = ThompsonSelector(6, 2, 100, dc.Budget(1.0))
    assert "Laplace" in text_of(learner.privacy.to_html("Learner"))


def test_a_guarantee_as_a_whole_says_which_and_where_its_mechanisms_and_proof_are():
    """What a run is charged as at a shared gate: neither the table nor the document leaves it at that."""
    said = {}
    for delta, words in ((0.0, "epsilon-DP (pure)"), (1e-6, "(epsilon, delta)-DP (approximate)")):
        shared = dc.Gate(dc.Budget(3.0, 1e-5), definition="pure")
        gate = RunGate(dc.Budget(1.0, delta), shared, "discreet select visits.csv")
        gate.laplace(1.0, 1.0, 1.0)
        printed = " ".join(shared.spent.releases()[1][0]) + str(shared.spent)
        said[words] = printed, text_of(shared.spent.to_html())
        assert "declared" not in str(gate.spent)
        assert "Laplace" in str(gate.spent)
    for words, texts in said.items():
        for text in texts:
            assert f"declared as a whole: {words}" in text
            assert (
                "one guarantee of a run or a fit. The account of that run or fit lists its mechanisms" in text
            )
            assert "docs/privacy.md (Algorithms)" in text
    assert "declared" not in text_of(spent(dc.Budget(1.0)).to_html())
