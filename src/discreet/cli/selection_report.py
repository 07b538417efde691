"""The report of ``discreet select``: the items, the account, and what they do and do not mean.

Nothing here looks at people, except `_diagnostics`, which is asked for by name and marks the output.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..core.table import table
from . import ledger
from .objective import last_picks
from .output import fitted, printable, wrapped

if TYPE_CHECKING:
    from ..objectives import Population
    from ..offline import PrivateGreedy
    from ..privacy import Account, Budget
    from ..results import Selection
    from .limits import Limits
    from .objective import Objective

_CONDITIONAL = (
    "CONDITIONAL on the list of items, which was taken from the file: which items occur there is not"
    " protected, and an item that only one person has gives them away. Give a public list with --items, or"
    " choose one privately with --items-private."
)
_ADDED = (
    " The ledger adds up what is charged to it, and refuses what does not fit; of lists made without it, it"
    " knows nothing."
)

# Excluded items that the text names; JSON has all of them.
_MOST_SHOWN = 10


@dataclass(frozen=True)
class Asked:
    """What was asked for, what is known of each item, the public bound on people's number, and warnings.

    ``shared``: the account of the ledger that the run is charged to.
    """

    options: argparse.Namespace
    limits: Limits
    goal: Objective
    facts: Mapping[str, Sequence[str]]
    max_people: int | None
    notes: list[str]
    shared: Account | None = None


def result(
    asked: Asked,
    people: Population,
    greedy: PrivateGreedy | None,
    selection: Selection,
) -> dict[str, Any]:
    """The whole result, as plain values: what --json prints and --out holds.

    ``greedy`` is None where no item was listed, so that there was nothing to pick from.
    """
    options, account = asked.options, selection.privacy
    assert account is not None
    budget = account.budget
    against = _not_private(options)
    result: dict[str, Any] = {
        "discreet": __version__,
        "command": "select",
        "items": _texts(selection.labels),
    }
    result |= _about_items(asked, selection)
    if greedy is not None and (why := _shortfall(asked, people, greedy, selection)) is not None:
        result["fewer_because"] = why
    if options.include:
        result["included"] = result["items"][: len(selection.included)]
    if options.exclude and greedy is not None and options.items_private is None:
        result["excluded"] = _texts(greedy.exclude)
    if selection.gains is not None:
        result["noisy_gains"] = list(selection.gains)
    result |= {
        "private": not against,
        "not_private_because": against,
        "conditional_on": "the list of items" if options.items_from_data else None,
        "insecure": bool(options.insecure_diagnostics),
        "reproducible": account.reproducible,
        "guarantee": {
            "epsilon": account.epsilon(),
            "delta": budget.delta,
            "neighbours": budget.neighbours,
        },
        "account": account.to_json(),
        "method": None if greedy is None else greedy.method_used,
        "why_this_method": None if greedy is None else greedy.reason,
        "settings": _settings(options),
        "treated_as_public": _public(options, people, asked.max_people),
        "reading": _reading(asked, people, budget, greedy, selection),
        "notes": asked.notes,
    }
    if options.explain and greedy is not None:
        result["arithmetic"] = [step._asdict() for step in greedy.arithmetic]
    if options.items_private is not None:
        result["catalogue"] = [] if greedy is None else _texts(people.labels)
    if options.insecure_diagnostics:
        result["diagnostics"] = _diagnostics(people, greedy, selection)
    if asked.shared is not None:
        result["ledger"] = ledger.told(options, asked.shared)
    return result


def _about_items(asked: Asked, selection: Selection) -> dict[str, Any]:
    """What --show asks for, and what a knapsack's items cost in all: public facts of what was chosen."""
    found: dict[str, Any] = {}
    chosen = list(selection.items)
    if asked.options.show:
        found["shown"] = {
            column: [asked.facts[column][item] for item in chosen] for column in asked.options.show
        }
    bags = [rule for rule in asked.limits.rules if rule.kind == "knapsack"]
    if bags:
        found["totals"] = {
            rule.column: {
                "total": math.fsum(float(asked.facts[rule.column][item]) for item in chosen),
                "limit": rule.amount,
            }
            for rule in bags
        }
    return found


def _shortfall(asked: Asked, people: Population, greedy: PrivateGreedy, selection: Selection) -> str | None:
    """Why there are fewer items than --k, from what is public about them."""
    labels = _texts(people.labels)
    out = set(_texts(greedy.exclude))
    excluded = [item for item, label in enumerate(labels) if label in out]
    return asked.limits.shortfall(greedy.constraint, people.n_items, selection.items, excluded)


def _not_private(options: argparse.Namespace) -> list[str]:
    """Why this output is not private, if it is not; in the order in which it has to be said."""
    against = []
    if options.items_from_data:
        against.append(_CONDITIONAL)
    if options.insecure_diagnostics:
        against.append("NOT PRIVATE: this output holds true counts that no account covers.")
    if options.seed is not None:
        against.append("NOT PRIVATE: with --seed anyone can redo the randomness and undo it.")
    return against


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """The options that decide the result; files by name, since a path can say more than it should."""
    left_out = (
        "out",
        "json",
        "insecure_diagnostics",
        "engine",
        "scheduler",
        "explain",
        "ledger",
        "ledger_epsilon",
        "ledger_delta",
    )  # none of them decides it
    settings = {name: value for name, value in vars(options).items() if name not in left_out}
    for name in ("include", "exclude"):
        settings[name] = [f"@{Path(text[1:]).name}" if text[:1] == "@" else text for text in settings[name]]
    settings["file"] = ", ".join(_file_name(path) for path in settings.pop("files"))
    if settings["items"] is not None:
        settings["items"] = _file_name(settings["items"])
    return settings


def _file_name(path: str) -> str:
    return "standard input" if path == "-" else Path(path).name


def _texts(labels: Iterable[Any] | None) -> list[str]:
    """Items as a file has them."""
    from ..data.labels import as_text

    return [as_text(label) for label in labels or ()]


def _public(options: argparse.Namespace, people: Population, max_people: int | None) -> list[str]:
    """What the guarantee takes for granted, in words."""
    n_items = people.n_items
    said = []
    if options.items_from_data:
        said.append(
            f"the list of the {n_items:,} items that occur in the file: an item that only one person has is"
            " among them. Give a public list with --items to protect that, or choose one with --items-private"
        )
    elif people.stored:
        said.append(f"the {n_items:,} items of the store's catalogue")
    elif options.items is not None:
        said.append(f"the {n_items:,} items listed by --items")
    if options.constraint:
        agree = ", and that all rows agree about it" if options.items is None else ""
        whose = "constraint's column says" if len(options.constraint) == 1 else "constraints' columns say"
        said.append(f"what the {whose} about each item{agree}")
    if options.vectors:
        said.append("the vectors of the items")
    for given, what in ((options.include, "included"), (options.exclude, "excluded")):
        if given:
            said.append(f"which items were {what}")
    if max_people is None:
        counted = ", those with a row that can be read" if options.skip_bad else ""
        said.append(f"the number of people, {len(people):,}{counted}")
    else:
        said.append(f"that there are at most {max_people:,} people")
    if people.stored:
        said.append("that the store is whole: one that was altered is refused, and that shows")
    elif options.skip_bad:
        said.append(
            "that the file can be read to its end (UTF-8 text, quotes that are closed, no endless line or"
            " cell): one that cannot stops the command, and that shows"
        )
    else:
        known = " and has a listed item" if options.items is not None else ""
        said.append(
            f"that every row of the file is well formed{known}: a bad one stops the command, and that shows"
            " (with --skip-bad it is left out instead)"
        )
    return said


def _reading(
    asked: Asked,
    people: Population,
    budget: Budget,
    greedy: PrivateGreedy | None,
    selection: Selection,
) -> list[str]:
    """What a reader may and may not conclude."""
    options = asked.options
    if budget.neighbours == "replace":
        change = "If any one person's rows were exchanged for anybody else's"
    else:
        change = "If any one person had not been in the file at all"
    beside = f", up to a probability of {budget.delta:g}" if budget.delta else ""
    said = [
        f"{change}, no list would have become more than {ledger.factor(budget.epsilon)} times as likely or"
        f" unlikely{beside}."
    ]
    if options.items_from_data:
        said[0] = f"{change}, and the list of items stayed as it is{said[0][len(change) :]}"
        said[0] += (
            " If that list changes, because somebody alone has an item, nothing is guaranteed: the output is"
            " not for publishing unless the list of items is public anyway."
        )
    if options.seed is not None or options.insecure_diagnostics:
        said[0] += (
            " That would be so without --seed and --insecure-diagnostics; this output protects nobody and is"
            " not for publishing."
        )
    elif not options.items_from_data:
        said[0] += (
            " So the list may be published, and nothing computed from it alone says more about anybody."
        )
    if asked.shared is not None:
        said.append(ledger.together(change, options, asked.shared))
    if options.items_private is not None:
        said += _listed(options, people, budget, greedy)
    if options.include:
        said.append(
            "The items marked as given were not chosen, and say nothing about anybody; the others were chosen"
            " for what they add to them."
        )
    if asked.goal.words is not None:
        said.append(asked.goal.words)
    served = None if greedy is None else _certificate(options, people, greedy)
    if served is not None:
        said.append(served)
    noise = None if greedy is None else last_picks(asked.options.max_people, people, greedy, selection)
    if noise is not None:
        said.append(noise)
    said += [
        "The list does not show how many people want an item, nor that these items are the best: every pick"
        " is partly chance, and another run would spend another budget and may choose otherwise.",
        f"One person is one value of {options.person}, letter for letter: somebody who has two counts as two,"
        f" and for them the epsilon is twice as large{', the delta more than that' if budget.delta else ''}.",
        "Guarantees add up: another list from the same people, by anyone, costs each of them its epsilon"
        f"{' and its delta' if budget.delta else ''} again.{_ADDED if asked.shared is not None else ''}",
        "What is true of people in general, such as that those who like one item like another, is not hidden,"
        " and may be used to guess about somebody who was not even in the file.",
    ]
    if options.cap is not None:
        said.append(
            f"The choice is by at most {options.cap} items of each person, drawn by a hash of who they are,"
            " and so is what is said of the best list. That makes the guarantee no better and the noise no"
            " smaller: without --cap each person counts once as well. It pays against lists made by bots;"
            " where long lists are people's own tastes, what is cut off counts for nobody, and fewer may be"
            " served."
        )
    return said


def _listed(
    options: argparse.Namespace, people: Population, budget: Budget, greedy: PrivateGreedy | None
) -> list[str]:
    """How the list of items came about, where it was chosen privately."""
    from ..privacy import Gate
    from ..privacy.partitions import rule_for

    least = rule_for(Gate(budget), options.items_private, 1).least_people
    chance = f"An item that only one person has is listed with a probability of at most {budget.delta:g}."
    votes = f"each person voted for one of their items, and about {least:,} votes list one. {chance}"
    if greedy is None:
        more = "More people, or a larger --epsilon or --items-private, list more."
        return [f"No item was listed by the private choice: {votes} {more}"]
    n_items = people.n_items
    return [f"The {n_items:,} items to choose from were listed by a private choice: {votes}"]


def _certificate(options: argparse.Namespace, people: Population, greedy: PrivateGreedy) -> str | None:
    """How far from the best the list can be on average, from public facts; None where none is known."""
    count = len(people)
    if greedy.budget.neighbours != "replace" or greedy.ratio is None or greedy.method_used is None:
        return None
    loss = greedy.certified_loss(count, people.n_items)
    among = "" if options.items_private is None else " of these items"
    beside = ["with the given items"] if options.include else []
    beside += ["without the excluded ones"] if options.exclude and options.items_private is None else []
    among += f" {' and '.join(beside)}" if beside else ""
    most = count * greedy.bound
    if loss >= greedy.ratio * most:
        return (
            f"For so few people ({count:,}) this budget certifies nothing about how good the list is: it may"
            " be no better than chance."
        )
    if options.objective != "any":
        return (
            f"Averaged over the randomness, the list is worth at least {greedy.ratio:.0%} of the best list"
            f"{among}, less {loss:,.0f} of the {most:,.0f} that could be at most; usually it does better than"
            " is certified."
        )
    return (
        f"Averaged over the randomness, the list serves at least {greedy.ratio:.0%} of as many people as the"
        f" best list{among}, less {loss:,.0f} of the {count:,}; usually it does better than is certified."
    )


def _diagnostics(people: Population, greedy: PrivateGreedy | None, selection: Selection) -> dict[str, Any]:
    """True numbers. No account covers them."""
    from ..offline import PrivateGreedy
    from ..privacy import Budget

    labels, count = _texts(people.labels), len(people)
    single = people.gains([])
    best: tuple[int, ...] = ()
    if greedy is not None:
        free = PrivateGreedy(greedy.constraint, Budget(math.inf), bound=greedy.bound)
        best = free.select(people, include=greedy.include, exclude=greedy.exclude).items
    return {
        "people": count,
        "pairs": getattr(people, "n_entries", None),
        "share_served": people.value(list(selection.items)),
        "served_alone_by": {labels[item]: float(single[item]) * count for item in selection.items},
        "without_privacy": {
            "items": [labels[item] for item in best],
            "share_served": people.value(list(best)),
        },
    }


def text(asked: Asked, result: dict[str, Any], selection: Selection) -> str:
    """The same for a reader."""
    from ..offline.arithmetic import Step

    options, account = asked.options, selection.privacy
    assert account is not None
    lines = []
    for sentence in result["not_private_because"]:
        lines += [wrapped(sentence), ""]
    gains = result.get("noisy_gains")
    shown = result.get("shown", {})
    header = ["", options.item, *shown] + ([asked.goal.adds] if gains else [])
    rows = []
    for place, label in enumerate(result["items"]):
        given = place < len(selection.included)
        rows.append([str(place + 1), printable(label) + (" (given)" if given else "")])
        rows[-1] += [printable(values[place]) for values in shown.values()]
        if gains:
            rows[-1].append("" if given else f"{gains[place]:,.0f}")
    lines += [fitted(header, rows) if rows else "no items", ""]
    if "fewer_because" in result:
        lines += [wrapped(result["fewer_because"]), ""]
    for column, found in result.get("totals", {}).items():
        lines += [f"{printable(column)}: {found['total']:g} in all, of at most {found['limit']:g}", ""]
    if result.get("excluded"):
        names = ", ".join(map(printable, result["excluded"][:_MOST_SHOWN]))
        more = len(result["excluded"]) - _MOST_SHOWN
        lines += [wrapped(f"excluded: {names}" + (f" and {more:,} more" if more > 0 else "")), ""]
    above, below = account.summary()
    header, rows = account.releases()
    released = fitted(header, rows) if rows else "nothing has been released: there was nothing to choose"
    lines += [wrapped(above), released, *map(wrapped, below)]
    if told := result.get("ledger"):
        spent = f"epsilon {told['epsilon']:.6g} of {told['epsilon_limit']:g} spent, with this run"
        lines.append(wrapped(f"ledger {printable(told['file'])}: {spent}"))
    if result["method"] is not None:
        lines.append(wrapped(f"method {result['method']}: {result['why_this_method']}"))
    if result.get("arithmetic"):
        lines += ["", "The arithmetic of the guarantee"]
        lines += [wrapped(str(Step(**step)), bullet="- ") for step in result["arithmetic"]]
    lines += ["", "What a reader may and may not conclude"]
    lines += [wrapped(sentence, bullet="- ") for sentence in result["reading"]]
    lines += ["", "Treated as public, so not protected"]
    lines += [wrapped(sentence, bullet="- ") for sentence in result["treated_as_public"]]
    if result["insecure"]:
        lines += ["", "NOT PRIVATE: true numbers", _insecure_text(result["diagnostics"])]
    return "\n".join(lines)


def _insecure_text(found: dict[str, Any]) -> str:
    free = found["without_privacy"]
    rows = [
        ["people in the file", f"{found['people']:,}"],
        *([["different (person, item) pairs", f"{found['pairs']:,}"]] if found["pairs"] is not None else []),
        ["served by the list", f"{found['share_served']:.4f} of them"],
        ["served by the best list greedy finds without privacy", f"{free['share_served']:.4f} of them"],
        *(
            [f"people served by {printable(item)} alone", f"{n:,.1f}"]
            for item, n in found["served_alone_by"].items()
        ),
    ]
    names = ", ".join(printable(item) for item in free["items"])
    return table(["", ""], rows).lstrip("\n ") + f"\nwithout privacy greedy would choose: {names}"
