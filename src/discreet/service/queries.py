"""What users may see of experiments: public facts, releases, and their privacy cost.

Everything on pages and in answers to analysts comes from here. It depends on people's data only through the
payloads of releases, which were charged for. It never includes counts of outcomes.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ..core.text import at_most
from ..privacy.document import not_private
from .config import ExperimentConfig, PopulationConfig
from .database import ALLOCATED, CLOSING, OPEN, Database, Transaction
from .learning import learner_of
from .worker import periods_of


class _Measured(msgspec.Struct):
    """The part of a release with shares of people served."""

    shares: list[dict[str, Any]]


_Shares = msgspec.json.Decoder(_Measured)
_PAYLOAD = "SELECT payload, at FROM release WHERE experiment = ? AND seq = ?"
_STATES = {ALLOCATED: "allocated", OPEN: "open", CLOSING: "closing"}
_COLUMNS = (
    "e.name, p.name, e.status, e.epoch, e.period, e.seq, e.created, e.config, e.id, e.next_sequence"
    " FROM experiment e JOIN population p ON p.id = e.population"
)
_NAMES = ("name", "population", "status", "epoch", "period", "releases", "created")


def experiments(store: Database) -> list[dict[str, Any]]:
    """All experiments, newest first."""
    with store.transaction() as tx:
        rows = tx.all(f"SELECT {_COLUMNS} ORDER BY e.id DESC")
    found = []
    for row in rows:
        config = json.loads(row[7])
        told = {name: config[name] for name in ("feedback", "k", "segments", "holdout")}
        found.append(dict(zip(_NAMES, row, strict=False)) | told)
    return found


def _row(tx: Transaction, name: str) -> Any:
    row = tx.one(f"SELECT {_COLUMNS} WHERE e.name = ?", name)
    if row is None:
        raise LookupError("experiment")
    return row


def _number(tx: Transaction, name: str) -> int:
    return int(_row(tx, name)[8])


def status(store: Database, name: str) -> dict[str, Any]:
    """The status of an experiment: displayed sets, states of blocks, its worker."""
    with store.transaction() as tx:
        row = _row(tx, name)
        epoch, config, number, sequence = row[3], json.loads(row[7]), row[8], row[9]
        blocks = tx.all(
            "SELECT state, count(*) FROM block WHERE experiment = ? AND epoch = ? GROUP BY state",
            *(number, epoch),
        )
        last = {
            segment: (count, *tx.one(_PAYLOAD, number, newest))
            for segment, count, newest in tx.all(
                "SELECT segment, count(*), max(seq) FROM release WHERE experiment = ? GROUP BY segment",
                number,
            )
        }
        worker = tx.one(
            "SELECT holder, until FROM lease LEFT JOIN process ON name = holder WHERE experiment = ?", number
        )
        waiting = tx.one(
            "SELECT min(closed_at) FROM block WHERE experiment = ? AND epoch = ? AND state IN (?, ?)",
            *(number, epoch, OPEN, CLOSING),
        )[0]
        (n_items,) = tx.one("SELECT count(*) FROM item WHERE experiment = ? AND retired = 0", number)
        now = tx.now()
    shown = []
    for segment in config["segments"] or [""]:
        count, payload, at = last.get(segment, (0, None, None))
        display = None if payload is None else json.loads(payload)["items"]
        shown.append({"segment": segment, "releases": count, "last_release": at, "display": display})
    return dict(zip(_NAMES, row, strict=False)) | {
        "decisions_allocated": sequence,
        "last_release": max((one["last_release"] or 0.0 for one in shown), default=0.0) or None,
        "display": None if config["segments"] else shown[0]["display"],
        "segments": shown if config["segments"] else [],
        "blocks": {_STATES[state]: count for state, count in blocks},
        "worker": worker and {"holder": worker[0], "until": worker[1] if worker[1] != math.inf else None},
        "lag_seconds": 0.0 if waiting is None else max(0.0, now - waiting - config["outcome_wait"]),
        # The seed itself is left out: it can undo the noise. The account also says that there is one.
        "reproducible": config["seed"] is not None,
        "config": {key: value for key, value in config.items() if key not in ("items", "seed")},
        "n_items": n_items,
    }


STANDS = {
    "paused": "It is paused: an operator resumes it (POST /v1/experiments/NAME/resume).",
    "frozen": "It is frozen, as a backup was restored: it goes on in the next period, with a new budget.",
    "ending": "It is ending: outcomes of decisions that were made are taken, and no decisions are made.",
    "ended": "It has ended.",
}


def waits_for(status: dict[str, Any], first: dict[str, int | None]) -> str:
    """What has to happen before there is more to see; by public facts and releases."""
    if status["status"] in STANDS:
        return STANDS[status["status"]]
    wait = f"{status['config']['outcome_wait']:g} seconds after a block of decisions is over"
    if not status["releases"]:
        begun = status["blocks"].keys() - {"allocated"}
        what = (
            "outcomes, which are learned from"
            if begun
            else "decisions that are asked for; they are learned from"
        )
        return f"It waits for {what} {wait}."
    numbers = [f"of {name} after about {count} decisions" for name, count in first.items() if count]
    return f"Outcomes are learned from {wait}; the first numbers come: {', '.join(numbers) or 'none'}."


def epochs(store: Database, name: str) -> list[dict[str, Any]]:
    """The epochs of an experiment, newest first, with the number and times of their releases."""
    with store.transaction() as tx:
        _, _, _, last, period, *_, number, _ = _row(tx, name)
        rows = tx.all(
            "SELECT epoch, count(*), min(at), max(at) FROM release WHERE experiment = ? GROUP BY epoch",
            number,
        )
    known = {epoch: told for epoch, *told in rows}
    found = []
    for epoch in sorted({0, *known, last}, reverse=True):  # numbers jump after a restored backup
        count, first, latest = known.get(epoch, (0, None, None))
        found.append({"epoch": epoch, "releases": count, "first_release": first, "last_release": latest})
    found[0]["period"] = period
    return found


def items(store: Database, name: str) -> list[dict[str, Any]]:
    with store.transaction() as tx:
        rows = tx.all(
            "SELECT label, retired FROM item WHERE experiment = ? ORDER BY number", _number(tx, name)
        )
    return [{"item": label, "retired": bool(retired)} for label, retired in rows]


def releases(
    store: Database, name: str, *, before: int | None = None, limit: int = 100, segment: str | None = None
) -> list[dict[str, Any]]:
    """The releases, newest first, of one segment or of all."""
    with store.transaction() as tx:
        rows = tx.all(
            "SELECT seq, epoch, at, payload, chain FROM release WHERE experiment = ? AND seq < ?"
            " AND (? = 1 OR segment = ?) ORDER BY seq DESC LIMIT ?",
            *(_number(tx, name), (1 << 62) if before is None else before),
            *(int(segment is None), segment or "", limit),
        )
    return [
        {"seq": seq, "epoch": epoch, "at": at, "chain": bytes(chain).hex()} | json.loads(payload)
        for seq, epoch, at, payload, chain in rows
    ]


def shares(store: Database, name: str, after: int = 0, segment: str | None = None) -> list[dict[str, Any]]:
    """The releases after ``after`` with shares of people served, oldest first, and the last one in any case.

    Of one segment, or of all, whose counts add up.
    """
    with store.transaction() as tx:
        row = _row(tx, name)
        rows = tx.all(
            "SELECT seq, epoch, at, payload, segment FROM release WHERE experiment = ? AND seq > ?"
            " AND (seq = ? OR payload LIKE ?) ORDER BY seq",
            *(row[8], after, row[5], '%"shares": [{%'),
        )
    found = []
    for seq, epoch, at, payload, whose in rows:
        measured = _Shares.decode(payload).shares if segment in (None, whose) else []
        found.append({"seq": seq, "epoch": epoch, "at": at, "shares": measured})
    return found


def account(store: Database, population: str) -> dict[str, Any]:
    """A population's privacy loss: in each period, and in total for people who came in every period."""
    number, people = _population(store, population)
    periods = periods_of(store, number)
    total = periods.total() if periods.names else None
    accounts = {name: periods.account(name) for name in periods.names}
    told = []
    for name, spent in accounts.items():
        _, (columns, rows), remarks = spent.summary()
        told.append(
            {
                "period": name,
                "epsilon": spent.epsilon(),
                "limit": spent.budget.epsilon,
                "delta": spent.budget.delta,
                "reproducible": spent.reproducible,
                "table": str(spent),
                "columns": columns,
                "rows": rows,
                "remarks": remarks,
            }
        )
    return {
        "population": population,
        "budget": json.loads(people.text),
        "periods": told,
        "every_period": None if total is None else {"epsilon": total.epsilon(), "delta": total.budget.delta},
        "text": str(periods),
        "promise": not_private(accounts.values()) + promise(people, personal=_has_own_sets(store, number)),
    }


def document(store: Database, population: str) -> str:
    """The account of a population as a document, for example for a privacy officer."""
    number, people = _population(store, population)
    configs = [ExperimentConfig.read(config) for config in _configs(store, number)]
    waits = [config.outcome_wait for config in configs]
    personal = _has_own_sets(store, number)
    row_by_row = sorted({learner_of(config) for config in configs} & _ROW_BY_ROW)
    return periods_of(store, number).to_html(
        f"Privacy account of {population}",
        promise=promise(people, personal=personal),
        public=[
            "Which decisions there were, when and for whom; which items and segments there are.",
            "Everything that was released, and the sets that were shown"
            + (", but for personal ones." if personal else "."),
        ],
        retention=[
            "What is reported about a decision is deleted when its block is learned from:"
            f" {max(waits, default=0.0):g} seconds after the last decision of the block, which is open for a"
            " minute or that long.",
            "Keyed hashes of people, with how many of their decisions count, are deleted "
            + (
                "never: its period has no end." if people.period == "none" else f"after each {people.period}."
            ),
            "Sums of people in the state of learners, releases and charges are kept. Logs hold no people.",
            *[_KEPT.format(learner) for learner in row_by_row],
            "Backups and the write-ahead log of a PostgreSQL server keep copies as long as they are kept.",
        ],
        uncovered=[
            "Who was asked, and when: decisions are public to the operators of the application.",
            *([_OWN_SETS] if personal else []),
        ],
    )


def _population(store: Database, name: str) -> tuple[int, PopulationConfig]:
    with store.transaction() as tx:
        found = tx.one("SELECT id, config FROM population WHERE name = ?", name)
    if found is None:
        raise LookupError("population")
    return int(found[0]), PopulationConfig.read(found[1])


def _configs(store: Database, population: int) -> list[str]:
    with store.transaction() as tx:
        rows = tx.all("SELECT config FROM experiment WHERE population = ? ORDER BY id", population)
    return [config for (config,) in rows]


def _has_own_sets(store: Database, population: int) -> bool:
    """Whether some experiment about these people has personal sets."""
    return any(ExperimentConfig.read(config).personal for config in _configs(store, population))


# Learners whose states hold unaggregated outcomes (docs/service/operations.md, "Retention").
_ROW_BY_ROW = {"PhasedSelector", "RollingSelector", "BestOfBothSelector"}
_KEPT = (
    "The state of {} also holds what was learned from as it was reported, without keyed hashes of people: of"
    " the open window, or as long as somebody has a vote. An erasure does not reach it."
)
_OWN_SETS = (
    "Somebody's own set, towards anyone who sees it: it follows from their own history, which comes with a"
    " request or stays on the device."
)


def ledger(store: Database, population: str) -> list[dict[str, Any]]:
    """Every charge of a population, newest first: what was reserved, for which experiment and period."""
    number, _ = _population(store, population)
    with store.transaction() as tx:
        rows = tx.all(
            "SELECT c.version, c.people, e.name, c.label, c.event, c.disjoint, c.count, c.void FROM charge c"
            " LEFT JOIN experiment e ON e.id = c.experiment WHERE c.population = ? ORDER BY c.version DESC",
            number,
        )
    found = []
    for version, people, experiment, label, event, disjoint, count, void in rows:
        period, *group = json.loads(people)
        told = {"number": version, "period": period, "experiment": experiment, "release": label}
        rest = {"group": ": ".join(group), "disjoint": bool(disjoint), "count": int(count)}
        rest["given_back"] = bool(void)
        found.append(told | rest | {"event": json.loads(event)})
    return found


def audit(store: Database, *, before: int | None = None, limit: int = 100) -> list[dict[str, Any]]:
    """Who changed what, newest first: the number and name of the API key, and the action."""
    with store.transaction() as tx:
        rows = tx.all(
            "SELECT a.id, a.at, a.api_key, k.name, a.action FROM audit a LEFT JOIN api_key k"
            " ON k.id = a.api_key WHERE a.id < ? ORDER BY a.id DESC LIMIT ?",
            *((1 << 62) if before is None else before, limit),
        )
    names = ("number", "at", "key", "key_name", "action")
    return [dict(zip(names, row, strict=True)) for row in rows]


# --- tables for spreadsheets ----------------------------------------------------------------------------


def releases_table(found: Sequence[dict[str, Any]]) -> str:
    """Releases as CSV: sets that were shown, values of items, and counts of people served."""
    header = ("seq", "epoch", "at", "segment", "kind", "item", "value", "deviation", "decisions")
    rows: list[Sequence[Any]] = []
    for one in found:
        about = (one["seq"], one["epoch"], one["at"], one.get("segment", ""))
        rows += [(*about, "shown", item, "", "", "") for item in one["items"]]
        rows += [(*about, "value", two["item"], two["value"], two["deviation"], "") for two in one["values"]]
        for block in one["shares"]:
            for side, name in enumerate(("learned", "hold-out")):
                counted = (block["served"][side], block["deviation"], block["decisions"][side])
                rows.append((*about, f"served, {name}", "", *counted))
    return as_csv(header, rows)


def account_table(found: dict[str, Any]) -> str:
    """An account as CSV: every release of every period."""
    periods = found["periods"]
    header = ("period", *(periods[0]["columns"] if periods else ()))
    return as_csv(header, [(one["period"], *row) for one in periods for row in one["rows"]])


def as_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV, in which a spreadsheet takes no text for a formula."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    for row in rows:
        formula = ("=", "+", "-", "@", "\t", "\r")
        writer.writerow(
            ["'" + one if isinstance(one, str) and one.startswith(formula) else one for one in row]
        )
    return text.getvalue()


# --- words ----------------------------------------------------------------------------------------------


def promise(people: PopulationConfig, *, personal: bool = False) -> str:
    """The guarantee in words: what is compared, for whom, and what is public.

    ``personal``: some experiment about these people has personal sets. The guarantee is then joint
    differential privacy: it covers what others see, and not a person's own set.
    """
    rounds = people.max_rounds_per_person
    beside = f", plus a probability of {at_most(people.delta)}".replace("e-0", "e-") if people.delta else ""
    change = "anything else" if people.neighbours == "replace" else "nothing"
    if people.anonymous:
        often = "one decision was" if rounds == 1 else f"up to {rounds} decisions were"
        whose = (
            "People are not identified: decisions are taken to be of different people. For a person for"
            f" whom {often} made in a period, which nothing checks, whatever"
        )
    else:
        often = "one decision counts" if rounds == 1 else f"up to {rounds} decisions count"
        whose = f"Of a person {often} in a period. Whatever"
    seen = "published in it or shown to anybody else" if personal else "shown or published in it"
    return (
        f"{whose} was {seen} is at most exp({at_most(people.epsilon)}) times as likely as it would have been"
        f" if {change} had been reported about that person in that period{beside}. Which decisions there"
        " were, when and for whom, is public."
        + (
            " A personal set also follows from its person's own history: it is for them alone."
            if personal
            else ""
        )
    )


def populations(store: Database) -> list[dict[str, Any]]:
    with store.transaction() as tx:
        rows = tx.all("SELECT name, config FROM population ORDER BY id")
    return [{"name": name, "budget": json.loads(config)} for name, config in rows]
