"""``discreet recommend``: fit a private item model to a file of events, use it, and evaluate it."""

from __future__ import annotations

import argparse
import csv
import math
import sys
import warnings
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..core.text import at_most
from .common import (
    EVENTS,
    LEDGER,
    PRIVATE_EVENTS,
    add,
    as_json,
    check_items_option,
    check_public,
    check_writable,
    events_of,
    fitted,
    given,
    ledger_gate,
    printable,
    read_items,
    skipping,
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
  discreet recommend fit visits.csv --person user --item page --items pages.csv --features title,topic \\
    --epsilon 1 --to model
  discreet recommend fit visits.csv --person user --item page --items pages.csv --epsilon 1 --to model \\
    --ledger people.ledger --ledger-epsilon 3 --ledger-delta 3e-6   # what all models and lists may spend
  discreet recommend evaluate visits.csv --person user --item page --epsilon 1 --k 10 --out quality

The model is made of differentially private releases: it and its file are public, but for --seed,
--items-from-data and --epsilon inf, where they say that they are not. A person's set follows from it and
from their own history, and is for them alone. discreet plan --personal says whether it pays. evaluate fits
models to four fifths of the people and serves the others: hit rate, recall and NDCG, compared with
popularity, item-kNN and EASE. It is NOT PRIVATE: for data that may be looked at.
Exit codes: 0 done, 2 a mistake in the options or a file, 3 refused by the budget, 130 interrupted."""
_READ = ("person", "item", "items", "items_item", "items_columns", "columns", "separator", "encoding")
_DATA = (*_READ, "weight", "items_from_data", "skip_bad", "features", "vectors", "epsilon", "seed")
_MODEL = ("max_people", "to", "export", "ledger", "ledger_epsilon", "ledger_delta")
_ASKED, _SPLITS = ("history", "available", "exclude", "include"), 3
# The options of the other subcommands.
_OTHERS = {
    "fit": {"for": (*_ASKED, "k"), "evaluate": ("splits", "out")},
    "for": {"fit": (*_DATA, *_MODEL), "evaluate": ("splits", "out")},
    "evaluate": {"fit": _MODEL, "for": _ASKED},
}
_MOST_COMPARED = 5000  # items whose pairs are counted without privacy, compared with the model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "do", choices=tuple(_OTHERS), help="fit a model, ask one for somebody, or see how well it would serve"
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="fit, evaluate: files of events; for: the model"
    )
    data = parser.add_argument_group("fit, evaluate: the files")
    add(data, "--person", "--item", *EVENTS[2:], *PRIVATE_EVENTS, "--weight", "--insecure-diagnostics")
    data.add_argument(
        "--features",
        metavar="COLS",
        help="columns of --items with words about each item, such as titles or categories, separated by"
        " commas: what is like a history by these public facts is shown earlier",
    )
    data.add_argument("--vectors", metavar="COLS", help="the same, of columns of numbers: an embedding")
    privacy = parser.add_argument_group("fit, evaluate: privacy")
    add(privacy, "--epsilon", "--neighbours", "--seed", *LEDGER)
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
    out.add_argument("--to", metavar="MODEL", help="the file to write; public, unless it says otherwise")
    out.add_argument("--export", metavar="FILE", help="also as JSON or .npz, for a browser or an app")
    clear = parser.add_argument_group("evaluate: in the clear")
    clear.add_argument(
        "--splits", type=int, metavar="N", help=f"into people to fit to and new ones (default {_SPLITS})"
    )
    clear.add_argument("--out", metavar="FOLDER", help="write a report and its chart there")
    ask = parser.add_argument_group("for: somebody")
    ask.add_argument(
        "--history", metavar="ITEMS", help="what they had, separated by commas (default: nothing)"
    )
    add(ask, "--k", help="how many items (default 5); for evaluate, too")
    for name, about in (
        ("--available", "what can be shown (default: everything)"),
        ("--exclude", "what cannot be shown"),
        ("--include", "what must be shown, first"),
    ):
        ask.add_argument(name, metavar="ITEMS", help=f"{about}; public, separated by commas")


def run(options: argparse.Namespace) -> int:
    for other, names in _OTHERS[options.do].items():
        if wrong := given(options, names):
            raise ValueError(f"{wrong[0]} is for discreet recommend {other}; leave it out here")
    do = {"fit": _fit, "for": _for, "evaluate": _evaluate}[options.do]
    result, text = do(options)
    print(as_json({"discreet": __version__, "command": "recommend", **result}) if options.json else text)
    return 0


# --- fit ----------------------------------------------------------------------------------------------


def _fit(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """`discreet recommend fit`: release a model of pairs; its results, as data and as text."""
    from ..offline import PrivateRecommender
    from ..personal import STATEMENT
    from ..privacy import Budget

    _needed(options, "person", "item", "epsilon", "to")
    if (options.items is None) != options.items_from_data:
        raise ValueError(
            "which items are there? Give --items FILE, a public list; or --items-from-data, whose results are"
            " conditional on the list of items"
        )
    check_public(options, "one of the files of events")
    inputs = [*options.files, options.items, options.ledger]
    target = check_writable(options.to, *inputs, option="--to")
    exported = options.export and check_writable(options.export, *inputs, options.to, option="--export")
    budget = Budget(options.epsilon, options.delta, options.neighbours)
    events, features = _events(options)
    gate = ledger_gate(options, budget, NAME)
    recommender = PrivateRecommender(gate, features=features, max_people=options.max_people)
    warn_of_budget(budget, len(events.people), options.max_people)
    model = recommender.fit(events, progress=sys.stderr.isatty())
    model.save(target)
    if exported:
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
        "features": None if model.features is None else model.features.shape[1],
        "private": not model.conditions,
        "not_private_because": model.conditions,
        "conditional_on": "the list of items" if options.items_from_data else None,
        "statement": STATEMENT,
    }
    if rule := skipping(options):
        result["left_out"] = " ".join(rule)
    told = f"{options.to}: a model of {model.n_items:,} items; {model.reason_}; rank {model.rank_}."
    lines = [wrapped(told), wrapped(model.public), str(model.privacy), wrapped(STATEMENT)]
    return result, "\n".join([*lines, *map(wrapped, rule)])


def _needed(options: argparse.Namespace, *names: str) -> None:
    missing = [name for name in names if getattr(options, name) is None]
    if missing:
        raise ValueError(f"--{missing[0]} is missing; see the examples of discreet recommend --help")
    check_items_option(options)
    if options.items is None and (about := given(options, ("features", "vectors"))):
        raise ValueError(f"{about[0]} names columns of --items FILE, which is missing")


def _events(options: argparse.Namespace) -> tuple[Events, Any]:
    """The events, and public features of the items, if there are any."""
    from ..data.events import gathered
    from ..data.read import batches, columns_of, watched

    words, numbers = (_columns(options, name) for name in ("features", "vectors"))
    items, facts = (None, {}) if options.items is None else read_items(options, [*words, *numbers])
    about = None if items is None else _features(items, facts, words, numbers)
    rows = watched(batches(events_of(options), columns_of(options.person, options.item, options.weight)))
    # If presence is private, a file without people must be treated like one with people.
    nobody = options.neighbours == "add_remove" and items is not None and options.do == "fit"
    return gathered(rows, items=items, highest=1.0, nobody=nobody), about


def _columns(options: argparse.Namespace, name: str) -> list[str]:
    text = getattr(options, name)
    if text is None:
        return []
    found = [column.strip() for column in next(csv.reader([text]), []) if column.strip()]
    if not found:
        raise ValueError(f"--{name} {text!r}: names no column of --items")
    return found


def _features(items: list[Any], facts: dict[str, list[str]], words: list[str], numbers: list[str]) -> Any:
    """A row for each item: from its words, its vector, or both with equal weight."""
    import numpy as np

    from ..personal import public_features, word_features

    parts: list[Any] = []
    if words:
        try:
            parts.append(word_features(*(facts[column] for column in words)))
        except ValueError as error:
            raise ValueError(f"--features {','.join(words)}: {error}") from None
    if numbers:
        rows = [
            [_number(facts[column][i], column, items[i]) for column in numbers] for i in range(len(items))
        ]
        parts.append(rows)
    if not parts:
        return None
    found: list[Any] = [public_features(one, len(items)) for one in parts]
    return dict(zip(items, np.hstack(found), strict=True))


def _number(text: str, column: str, item: Any) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(
            f"--vectors {column}: item {str(item)!r} has {text!r}; a vector is made of numbers, and words are"
            " for --features"
        )
    return found


# --- evaluate -----------------------------------------------------------------------------------------


def _evaluate(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """`discreet recommend evaluate`: compare models on people who were held out."""
    from ..core import checks
    from ..evaluation.personal import BASELINES, FIGURES, IN_THE_CLEAR, compare_recommenders
    from ..evaluation.report import recommender_report
    from ..personal import as_people
    from ..privacy import Budget

    _needed(options, "person", "item", "epsilon")
    k, first = 5 if options.k is None else options.k, options.seed or 0
    splits = checks.whole("--splits", _SPLITS if options.splits is None else options.splits, at_least=1)
    budget = Budget(
        options.epsilon, options.delta if math.isfinite(options.epsilon) else 0.0, options.neighbours
    )
    events, features = _events(options)
    people: Any = as_people(events)
    checks.whole("--k", k, at_least=1, at_most=people.n_items)
    plain = [name for name in BASELINES if people.n_items <= _MOST_COMPARED or name.startswith("popularity")]
    how: dict[str, Any] = {"seeds": range(first, first + splits), "baselines": plain, "features": features}
    compared = compare_recommenders(people, budget, k, **how, progress=sys.stderr.isatty())
    rows = [
        {"name": name, "standard_error": compared.error(name)}
        | {figure: compared.mean(name, figure) for figure in FIGURES}
        for name in compared.found
    ]
    result = {"private": False, "k": k, "splits": splits, "reason": compared.reason, "rows": rows}
    lines = [fitted(*compared.table()), wrapped(f"The private model: {compared.reason}."), IN_THE_CLEAR]
    lines += map(wrapped, skipping(options))
    if options.out is not None:
        settings = {
            "files": ", ".join(options.files),
            "people; items": f"{len(people):,}; {people.n_items:,}",
            "epsilon, delta, neighbours": ", ".join(
                [at_most(budget.epsilon), at_most(budget.delta), budget.neighbours]
            ),
            "items shown (k)": str(k),
            "splits": f"{splits}, seeds {first} to {first + splits - 1}",
            "public features of items": ", ".join(filter(None, (options.features, options.vectors)))
            or "none",
        }
        report, _ = recommender_report(compared, settings, options.out)
        result["report"] = str(report)
        lines.append(f"report: {report}")
    return result, "\n".join(lines)


# --- for ----------------------------------------------------------------------------------------------


def _for(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from ..personal import Recommender

    if len(options.files) != 1:
        raise ValueError("discreet recommend for takes one model")
    model = Recommender.load(options.files[0])
    named: dict[str, Any] = {name: _named(model, f"--{name}", getattr(options, name)) for name in _ASKED}
    history = [item for item in named.pop("history") or [] if item is not None]
    shown = model.recommend(history, 5 if options.k is None else options.k, **named)
    labels = list(shown.items if shown.labels is None else shown.labels)
    text = "\n".join(printable(str(label)) for label in labels) or "nothing is left to show"
    return {"items": labels, "history": len(history), "reason": model.reason_}, text


def _named(model: Recommender, option: str, text: str | None) -> list[int] | None:
    """Numbers of the items that an option names; for a history, only those known to the model."""
    if text is None:
        return None
    labels = range(model.n_items) if model.labels is None else model.labels
    numbers = {str(label): number for number, label in enumerate(labels)}
    names = [name.strip() for name in next(csv.reader([text]), []) if name.strip()]
    unknown = [name for name in names if name not in numbers]
    if unknown and option != "--history":
        raise ValueError(f"{option} {unknown[0]}: is not an item of the model")
    if unknown:
        warnings.warn(f"{', '.join(unknown)}: not among the model's items, and left out", stacklevel=2)
    return [numbers[name] for name in names if name in numbers]
