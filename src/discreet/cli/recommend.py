"""``discreet recommend``: fit a private item model to a file of events, and ask it for somebody's own set."""

from __future__ import annotations

import argparse
import csv
import warnings
from typing import TYPE_CHECKING, Any

from .. import __version__
from .common import (
    EVENTS,
    PRIVATE_EVENTS,
    add,
    as_json,
    check_items_option,
    check_public,
    check_writable,
    events_of,
    given,
    printable,
    read_items,
    warn_of_budget,
    wrapped,
)

if TYPE_CHECKING:
    from ..data import Events
    from ..personal import Recommender

NAME = "recommend"
HELP = "fit a private item model, and ask it for everybody's own set"

_EXAMPLES = """examples:
  discreet recommend fit visits.csv --person user --item page --items pages.csv --epsilon 1 --to model
  discreet recommend for model --history tea,milk --k 5
  discreet recommend for model --history tea --exclude milk --json

The model is made of differentially private releases: it is public, and so is its file. Somebody's set follows
from it and from their own history, and is for them alone. discreet plan --personal says whether it pays.
Exit codes: 0 done, 2 a mistake in the options or a file, 3 refused by the budget, 130 interrupted."""
_FIT = ("person", "item", "items", "items_item", "items_columns", "columns", "separator", "weight")
_FIT_ONLY = (*_FIT, "items_from_data", "skip_bad", "epsilon", "max_people", "seed", "to", "export")
_FOR_ONLY = ("history", "k", "available", "exclude", "include")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("do", choices=("fit", "for"), help="fit a model, or ask one for somebody")
    parser.add_argument("files", nargs="+", metavar="FILE", help="fit: files of events; for: the model")
    data = parser.add_argument_group("fit: the files")
    add(data, "--person", "--item", *EVENTS[2:], *PRIVATE_EVENTS, "--weight", "--insecure-diagnostics")
    privacy = parser.add_argument_group("fit: privacy")
    add(privacy, "--epsilon", "--neighbours", "--seed")
    add(
        privacy, "--delta", default=1e-6, help="probability outside of that (default 1e-6); noise is Gaussian"
    )
    privacy.add_argument(
        "--max-people",
        type=int,
        metavar="N",
        help="with add_remove: a public number of people (else 1 %% of the budget counts them)",
    )
    out = parser.add_argument_group("fit: the model")
    out.add_argument("--to", metavar="MODEL", help="the file to write; public")
    out.add_argument("--export", metavar="FILE", help="also as JSON or .npz, for a browser or an app")
    ask = parser.add_argument_group("for: somebody")
    ask.add_argument(
        "--history", metavar="ITEMS", help="what they had, separated by commas (default: nothing)"
    )
    add(ask, "--k", help="how many items (default 5)")
    for name, about in (
        ("--available", "what can be shown (default: everything)"),
        ("--exclude", "what cannot be shown"),
        ("--include", "what must be shown, first"),
    ):
        ask.add_argument(name, metavar="ITEMS", help=f"{about}; public, separated by commas")


def run(options: argparse.Namespace) -> int:
    fits = options.do == "fit"
    wrong = given(options, _FOR_ONLY if fits else _FIT_ONLY)
    if wrong:
        raise ValueError(
            f"{wrong[0]} is for discreet recommend {'for' if fits else 'fit'}; leave it out here"
        )
    result, text = _fit(options) if fits else _for(options)
    print(as_json({"discreet": __version__, "command": "recommend", **result}) if options.json else text)
    return 0


# --- fit ----------------------------------------------------------------------------------------------


def _fit(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from ..offline import PrivateRecommender
    from ..personal import STATEMENT
    from ..privacy import Budget

    missing = [name for name in ("person", "item", "epsilon", "to") if getattr(options, name) is None]
    if missing:
        raise ValueError(f"--{missing[0]} is missing; see the examples of discreet recommend --help")
    if (options.items is None) != options.items_from_data:
        raise ValueError(
            "which items are there? Give --items FILE, a public list; or --items-from-data, whose results are"
            " conditional on the list of items"
        )
    check_items_option(options)
    check_public(options, "one of the files of events")
    inputs = [file for file in options.files if file != "-"]
    target = check_writable(options.to, *inputs)
    exported = None if options.export is None else check_writable(options.export, *inputs)
    budget = Budget(options.epsilon, options.delta, options.neighbours)
    recommender = PrivateRecommender(budget, max_people=options.max_people, seed=options.seed)
    events = _events(options)
    warn_of_budget(budget, len(events.people), options.max_people)
    model = recommender.fit(events)
    model.save(target)
    if exported is not None:
        model.export(exported)
    result = {
        "model": str(options.to),
        "exported": options.export,
        "n_items": model.n_items,
        "reason": model.reason_,
        "rank": model.rank_,
        "epsilon": model.privacy.epsilon(budget.delta),
        "delta": budget.delta,
        "neighbours": budget.neighbours,
        "private": not model.conditions,
        "not_private_because": model.conditions,
        "conditional_on": "the list of items" if options.items_from_data else None,
        "statement": STATEMENT,
    }
    told = f"{options.to}: a model of {model.n_items:,} items; {model.reason_}; rank {model.rank_}. "
    told += f"NOT public as it stands: {'; '.join(model.conditions)}" if model.conditions else "Public."
    return result, "\n".join([wrapped(told), str(model.privacy), wrapped(STATEMENT)])


def _events(options: argparse.Namespace) -> Events:
    from ..data import EventReader
    from ..data.read import batches, columns_of

    items = None if options.items is None else read_items(options)[0]
    reader = EventReader(items=items, highest=1.0)
    reader.take_all(batches(events_of(options), columns_of(options.person, options.item, options.weight)))
    # Where presence is private, a file that holds nobody must look like one that holds somebody.
    return reader.events(nobody=options.neighbours == "add_remove" and not options.items_from_data)


# --- for ----------------------------------------------------------------------------------------------


def _for(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from ..personal import Recommender

    if len(options.files) != 1:
        raise ValueError("discreet recommend for takes one model")
    model = Recommender.load(options.files[0])
    named: dict[str, Any] = {
        name: _named(model, f"--{name}", getattr(options, name)) for name in _FOR_ONLY if name != "k"
    }
    history = [item for item in named.pop("history") or [] if item is not None]
    shown = model.recommend(history, 5 if options.k is None else options.k, **named)
    labels = list(shown.items if shown.labels is None else shown.labels)
    text = "\n".join(printable(str(label)) for label in labels) or "nothing is left to show"
    return {"items": labels, "history": len(history), "reason": model.reason_}, text


def _named(model: Recommender, option: str, text: str | None) -> list[int] | None:
    """Numbers of the items that an option names; of a history those that the model knows."""
    if text is None:
        return None
    labels = range(model.n_items) if model.labels is None else model.labels
    numbers = {str(label): number for number, label in enumerate(labels)}
    names = [name.strip() for name in next(csv.reader([text]), []) if name.strip()]
    unknown = [name for name in names if name not in numbers]
    if unknown and option != "--history":
        raise ValueError(f"{option} {unknown[0]}: is no item of the model")
    if unknown:
        warnings.warn(f"{', '.join(unknown)}: not among the model's items, and left out", stacklevel=2)
    return [numbers[name] for name in names if name in numbers]
