"""The form of a new experiment: what was typed, as settings, or what is wrong with it, field by field."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from ...privacy import BudgetExceeded
from ..config import ConstraintConfig, ExperimentConfig, PopulationConfig
from ..learning import check, check_segments
from ..outlook import Outlook, outlook
from .api import NAME

Fields = dict[str, str]
Errors = dict[str, str]

NEW = ""  # the population that is still to be made
DEFAULTS: Fields = {
    "name": "",
    "items": "",
    "k": "3",
    "feedback": "taken",
    "bound": "1",
    "population": NEW,
    "people_name": "",
    "epsilon": "1",
    "delta": "1e-6",
    "period": "month",
    "max_rounds": "1",
    "neighbours": "replace",
    "visitors": "10000",
    "share": "100",
    "holdout": "5",
    "measure": "10",
    "wait": "10",
    "hand": "",
    "learner": "auto",
    "rounds": "",
    "groups": "",
    "options": "",
    "segments": "",
}
LEARNERS = {  # what each learns from, and what else it takes
    "auto": "Chosen by the feedback",
    "LeaderSelector": "LeaderSelector: likes, with groups too",
    "PhasedSelector": "PhasedSelector: likes",
    "RunningSumSelector": "RunningSumSelector: likes",
    "BestOfBothSelector": "BestOfBothSelector: likes",
    "HedgeSelector": "HedgeSelector: likes, a number of rounds",
    "MetaFrankWolfe": "MetaFrankWolfe: likes, with groups and a number of rounds",
    "ThompsonSelector": "ThompsonSelector: taken items and values",
    "BanditSelector": "BanditSelector: taken items and values, a number of rounds",
}
_NEED_ROUNDS = {"HedgeSelector", "MetaFrankWolfe", "BanditSelector"}
_TAKE_GROUPS = {"LeaderSelector", "MetaFrankWolfe"}
_GROUP = re.compile(r"(?P<name>[^:(]+?)\s*(\(\s*(?P<limit>\d{1,4})\s*\))?\s*:(?P<items>.*)")
_NAMES = "Letters, digits, dots, dashes and underscores; at most 64, and a letter or digit first."


def fields(body: bytes) -> Fields:
    """The fields of a form; the last of each name."""
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=200))
    except (UnicodeDecodeError, ValueError):
        return {}


class Asked:
    """A new experiment as it was typed. ``errors`` says what is wrong, and is empty where nothing is."""

    def __init__(self, given: Mapping[str, str], populations: Mapping[str, PopulationConfig]) -> None:
        self.given = DEFAULTS | {name: given[name].strip() for name in DEFAULTS if name in given}
        self.errors: Errors = {}
        self.visitors = self._number("visitors", whole=True, least=1, most=10**9)
        self.name = self.given["name"]
        self.population = self.given["population"] or self.given["people_name"] or self.name
        self.makes_population = self.given["population"] == NEW
        self.people: PopulationConfig | None = None
        if self.makes_population:
            self.people = self._people()
        else:
            self.people = populations.get(self.given["population"])
            if self.people is None:
                self.errors["population"] = "There is no such population any more."
        self.config = self._config()

    def check_names(self, experiments: set[str], populations: set[str]) -> None:
        """Names are looked at when the form is sent, not while it is typed."""
        if not NAME.fullmatch(self.name):
            self.errors["name"] = _NAMES
        elif self.name in experiments:
            self.errors["name"] = "There is an experiment of this name already."
        if self.makes_population and "name" not in self.errors:
            if not NAME.fullmatch(self.population):
                self.errors["people_name"] = _NAMES
            elif self.population in populations:
                self.errors["people_name"] = (
                    "There is a population of this name already: choose it, or another name."
                )

    def outlook(self) -> Outlook | None:
        """What would be released; None, and errors, where it cannot be made."""
        if self.errors or self.people is None or self.config is None:
            return None
        try:
            return outlook(self.config, self.people)
        except BudgetExceeded:
            self.errors["share"] = "This is more than the whole budget."
        except (ValueError, TypeError, NotImplementedError) as error:
            # Made of what was typed, and of nothing else: there is no data yet.
            self.errors["form"] = str(error)
        return None

    # --- parts -----------------------------------------------------------------------------------

    def _people(self) -> PopulationConfig | None:
        epsilon = self._number("epsilon", least=0.0, most=100.0, above=True)
        delta = self._number("delta", least=0.0, most=0.1)
        rounds = self._number("max_rounds", whole=True, least=1, most=10_000)
        period = self._choice("period", ("day", "week", "month", "none"))
        neighbours = self._choice("neighbours", ("replace", "add_remove"))
        likes = self.given["feedback"] == "likes"
        if likes and delta == 0.0:
            self.errors["delta"] = "Counts of likes leave with Gaussian noise, which needs a delta above 0."
        if self.errors:
            return None
        return PopulationConfig(
            epsilon=epsilon,
            delta=delta if likes else 0.0,  # the others need none
            neighbours=neighbours,  # type: ignore[arg-type]
            max_rounds_per_person=int(rounds),
            notion="gdp" if likes else "pure",
            period=period,  # type: ignore[arg-type]
        )

    def _config(self) -> ExperimentConfig | None:
        items = list(filter(None, (line.strip() for line in self.given["items"].splitlines())))
        k = self._number("k", whole=True, least=1, most=1000)
        if len(set(items)) < len(items):
            self.errors["items"] = "Some items are there twice."
        elif not items:
            self.errors["items"] = "Name the items, one in a line."
        elif len(items) < k:
            self.errors["k"] = f"A set of {k:.0f} needs more than the {len(items)} items there are."
        feedback = self._choice("feedback", ("likes", "taken", "value"))
        bound = self._number("bound", least=0.0, most=1e9, above=True) if feedback == "value" else 1.0
        share = self._number("share", least=0.0, most=100.0, above=True) / 100
        holdout = self._number("holdout", least=0.0, most=50.0) / 100
        measure = self._number("measure", least=0.0, most=90.0) / 100
        wait = self._number("wait", least=0.0, most=10_080.0) * 60
        hand = self._number("hand", whole=True, least=1, most=65_536) if self.given["hand"] else None
        rounds = self._number("rounds", whole=True, least=1, most=10**12) if self.given["rounds"] else None
        constraint, options = self._groups(items), self._options()
        segments = list(filter(None, (line.strip() for line in self.given["segments"].splitlines())))
        try:
            check_segments(segments)
        except ValueError as error:
            self.errors["segments"] = f"{str(error).capitalize()}."
        learner = self._choice("learner", tuple(LEARNERS))
        if learner in _NEED_ROUNDS and rounds is None:
            self.errors.setdefault("rounds", "This learner has to know how many rounds there will be.")
        if learner == "MetaFrankWolfe" and constraint is None:
            self.errors.setdefault("groups", "This learner is for groups: name them, or choose another one.")
        if constraint is not None and (feedback != "likes" or learner not in {"auto", *_TAKE_GROUPS}):
            self.errors.setdefault("groups", "Groups are for likes, with LeaderSelector or MetaFrankWolfe.")
        if holdout and not measure:
            self.errors.setdefault("measure", "A hold-out is of no use if nothing is measured.")
        if self.errors:
            return None
        config = ExperimentConfig(
            items=items,
            k=int(k),
            feedback=feedback,  # type: ignore[arg-type]
            learner=learner,
            options=options,
            constraint=constraint,
            rounds=None if rounds is None else int(rounds),
            bound=bound,
            share=share,
            holdout=holdout,
            measure=measure,
            outcome_wait=wait,
            hand=None if hand is None else int(hand),
            segments=segments,
        )
        try:
            check(config)
        except ValueError as error:
            self.errors["form"] = str(error)
            return None
        return config

    def _groups(self, items: list[str]) -> ConstraintConfig | None:
        """Groups of items, a line each: a name, how many of it go into a set, and its items."""
        groups: dict[str, list[str]] = {}
        limits: dict[str, int] = {}
        for line in filter(None, map(str.strip, self.given["groups"].splitlines())):
            found = _GROUP.fullmatch(line)
            if found is None or found["name"] in groups or not int(found["limit"] or 1):
                self.errors["groups"] = "One group in a line, each once, such as shoes (2): red; blue."
                return None
            groups[found["name"]] = [one.strip() for one in found["items"].split(";") if one.strip()]
            limits[found["name"]] = int(found["limit"] or 1)
        named = [item for group in groups.values() for item in group]
        if groups and sorted(named) != sorted(items):
            self.errors["groups"] = "Every item has to be in one group, and no other one."
        return ConstraintConfig(groups=groups, limits=limits) if groups else None

    def _options(self) -> dict[str, Any]:
        """Options of the learner, a line each, with values as JSON or plain words."""
        options: dict[str, Any] = {}
        for line in filter(None, map(str.strip, self.given["options"].splitlines())):
            name, is_there, value = map(str.strip, line.partition("="))
            if not is_there or not name.isidentifier() or name in options:
                self.errors["options"] = "One option in a line, each once, such as resample_every = 10."
                return {}
            try:
                options[name] = msgspec.json.decode(value.encode())
            except msgspec.DecodeError:
                options[name] = value
        return options

    def _choice(self, name: str, known: tuple[str, ...]) -> str:
        if self.given[name] in known:
            return self.given[name]
        self.errors[name] = "Choose one of these."
        return known[0]

    def _number(
        self, name: str, *, least: float, most: float, whole: bool = False, above: bool = False
    ) -> float:
        read: Callable[[str], Any] = int if whole else float
        kind = "A whole number" if whole else "A number"
        bounds = f"{'above' if above else 'from'} {least:g} {'and at most' if above else 'to'} {most:,.10g}"
        try:
            found = float(read(self.given[name].replace(",", "") if whole else self.given[name]))
        except (ValueError, OverflowError):
            found = math.nan
        if not (least < found if above else least <= found) or not found <= most:
            self.errors[name] = f"{kind} {bounds}."
            return least
        return found
