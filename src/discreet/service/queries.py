"""What may be seen of experiments: public facts, what was released, and what it cost.

Everything on pages and in answers to analysts comes from here. None of it depends on anybody's data but for
the payloads of releases, which have been paid for. Counts of outcomes are never among them.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ..privacy import Account
from .blocks import ALLOCATED, CLOSING, OPEN
from .config import PopulationConfig
from .database import Store, Transaction
from .worker import Worker


class _Measured(msgspec.Struct):
    """The part of a release that is about shares."""

    shares: list[dict[str, Any]]


_Shares = msgspec.json.Decoder(_Measured)
_PAYLOAD = "SELECT payload, at FROM release WHERE experiment = ? AND seq = ?"
_STATES = {ALLOCATED: "allocated", OPEN: "open", CLOSING: "closing"}


def experiments(store: Store) -> list[dict[str, Any]]:
    """All experiments, newest first."""
    with store.transaction() as tx:
        rows = tx.all(
            "SELECT e.name, p.name, e.status, e.epoch, e.period, e.seq, e.created, e.config FROM experiment e"
            " JOIN population p ON p.id = e.population ORDER BY e.id DESC"
        )
    return [
        {
            "name": name,
            "population": population,
            "status": status,
            "epoch": epoch,
            "period": period,
            "releases": seq,
            "created": created,
            "feedback": json.loads(config)["feedback"],
            "k": json.loads(config)["k"],
            "segments": json.loads(config)["segments"],
        }
        for name, population, status, epoch, period, seq, created, config in rows
    ]


def status(store: Store, name: str) -> dict[str, Any]:
    """How an experiment stands: what is on display, how far blocks are, who keeps it."""
    with store.transaction() as tx:
        row = _row(tx, name)
        number, population, config, state, epoch, period, place, seq, created = row
        blocks = dict(
            tx.all(
                "SELECT state, count(*) FROM block WHERE experiment = ? AND epoch = ? GROUP BY state",
                *(number, epoch),
            )
        )
        last = {
            segment: (count, tx.one(_PAYLOAD, number, newest))
            for segment, count, newest in tx.all(
                "SELECT segment, count(*), max(seq) FROM release WHERE experiment = ? GROUP BY segment",
                number,
            )
        }
        kept = tx.one(
            "SELECT holder, until FROM lease LEFT JOIN process ON name = holder WHERE experiment = ?", number
        )
        waiting = tx.one(
            "SELECT min(closed_at) FROM block WHERE experiment = ? AND epoch = ? AND state IN (?, ?)",
            *(number, epoch, OPEN, CLOSING),
        )[0]
        now = tx.now()
    settings = json.loads(config)
    shown = [
        {
            "segment": segment,
            "releases": 0 if segment not in last else last[segment][0],
            "last_release": None if segment not in last else last[segment][1][1],
            "display": None if segment not in last else json.loads(last[segment][1][0])["items"],
        }
        for segment in settings["segments"] or [""]
    ]
    due = None if waiting is None else waiting + settings["outcome_wait"]
    return {
        "name": name,
        "population": population,
        "status": state,
        "epoch": epoch,
        "period": period,
        "created": created,
        "decisions_dealt": place,
        "releases": seq,
        "last_release": max((one["last_release"] or 0.0 for one in shown), default=0.0) or None,
        "display": None if settings["segments"] else shown[0]["display"],
        "segments": shown if settings["segments"] else [],
        "hands": {_STATES[state]: count for state, count in blocks.items()},
        "keeper": None if kept is None else {"holder": kept[0], "until": kept[1]},
        "lag_seconds": 0.0 if due is None else max(0.0, now - due),
        # Whoever knows a seed can undo the noise; that there is one is in the account, too.
        "reproducible": settings["seed"] is not None,
        "config": {key: value for key, value in settings.items() if key not in ("items", "seed")},
        "n_items": len(settings["items"]),
    }


def epochs(store: Store, name: str) -> list[dict[str, Any]]:
    """The epochs of an experiment, newest first: how many releases each had, and from when to when."""
    with store.transaction() as tx:
        number, *_, last, period = _row(tx, name)[:6]
        rows = tx.all(
            "SELECT epoch, count(*), min(at), max(at) FROM release WHERE experiment = ? GROUP BY epoch",
            number,
        )
    known = {epoch: (count, first, latest) for epoch, count, first, latest in rows}
    found = []
    for epoch in sorted({0, *known, last}, reverse=True):  # numbers leap where a backup was restored
        count, first, latest = known.get(epoch, (0, None, None))
        found.append({"epoch": epoch, "releases": count, "first_release": first, "last_release": latest})
    found[0]["period"] = period
    return found


def items(store: Store, name: str) -> list[dict[str, Any]]:
    """The catalogue."""
    with store.transaction() as tx:
        number = _row(tx, name)[0]
        rows = tx.all("SELECT label, retired FROM item WHERE experiment = ? ORDER BY number", number)
    return [{"item": label, "retired": bool(retired)} for label, retired in rows]


def releases(
    store: Store, name: str, *, before: int | None = None, limit: int = 100, segment: str | None = None
) -> list[dict[str, Any]]:
    """What has been released, newest first, in one segment or in all."""
    with store.transaction() as tx:
        number = _row(tx, name)[0]
        rows = tx.all(
            "SELECT seq, epoch, at, payload, chain FROM release WHERE experiment = ? AND seq < ?"
            " AND (? = 1 OR segment = ?) ORDER BY seq DESC LIMIT ?",
            *(number, (1 << 62) if before is None else before, int(segment is None), segment or "", limit),
        )
    return [
        {"seq": seq, "epoch": epoch, "at": at, "chain": bytes(chain).hex()} | json.loads(payload)
        for seq, epoch, at, payload, chain in rows
    ]


def shares(store: Store, name: str, after: int = 0, segment: str | None = None) -> list[dict[str, Any]]:
    """The releases with shares of people served, oldest first, and the last of all; from ``after`` on.

    Of one segment, or of all, whose counts add up.
    """
    with store.transaction() as tx:
        number, last = (row := _row(tx, name))[0], row[7]
        rows = tx.all(
            "SELECT seq, epoch, at, payload, segment FROM release WHERE experiment = ? AND seq > ?"
            " AND (seq = ? OR payload LIKE ?) ORDER BY seq",
            *(number, after, last, '%"shares": [{%'),
        )
    decode = _Shares.decode
    return [
        {
            "seq": seq,
            "epoch": epoch,
            "at": at,
            "shares": decode(payload).shares if segment in (None, whose) else [],
        }
        for seq, epoch, at, payload, whose in rows
    ]


def account(worker: Worker, population: str) -> dict[str, Any]:
    """What a population's people have lost: this period, every period, and whoever came in all of them."""
    with worker.store.transaction() as tx:
        found = tx.one("SELECT id, config FROM population WHERE name = ?", population)
        if found is None:
            raise LookupError("population")
    periods = worker.periods(int(found[0]))
    names = periods.names
    total = periods.total() if names else None
    return {
        "population": population,
        "budget": json.loads(found[1]),
        "periods": [one_account(name, periods.account(name)) for name in names],
        "every_period": None if total is None else {"epsilon": total.epsilon(), "delta": total.budget.delta},
        "text": str(periods),
        "promise": promise(msgspec.json.decode(found[1], type=PopulationConfig)),
    }


def one_account(name: str, spent: Account) -> dict[str, Any]:
    """An account as numbers and as a table."""
    columns, rows = spent.releases()
    return {
        "period": name,
        "epsilon": spent.epsilon(),
        "limit": spent.budget.epsilon,
        "delta": spent.budget.delta,
        "reproducible": spent.reproducible,
        "table": str(spent),
        "columns": columns,
        "rows": rows,
        "remarks": spent.summary()[1],
    }


def promise(people: PopulationConfig) -> str:
    """The guarantee in words: what is compared, for whom, and what is public."""
    rounds = people.max_rounds_per_person
    beside = f", but for a chance of {people.delta:g}" if people.delta else ""
    change = "anything else" if people.neighbours == "replace" else "nothing"
    if people.anonymous:
        often = "one decision was" if rounds == 1 else f"up to {rounds} decisions were"
        whose = (
            "Nobody knows who somebody is: decisions are taken to be of different people. For a person for"
            f" whom {often} made in a period, which nothing checks, whatever"
        )
    else:
        often = "one decision counts" if rounds == 1 else f"up to {rounds} decisions count"
        whose = f"Of a person {often} in a period. Whatever"
    return (
        f"{whose} was shown or published in it is at most exp({people.epsilon:g}) times as likely as it would"
        f" have been if {change} had been reported about that person{beside}. Which decisions there were,"
        " when and for whom, is public."
    )


def populations(worker: Worker) -> list[dict[str, Any]]:
    """All populations with their budgets."""
    with worker.store.transaction() as tx:
        rows = tx.all("SELECT name, config FROM population ORDER BY id")
    return [{"name": name, "budget": json.loads(config)} for name, config in rows]


def _row(tx: Transaction, name: str) -> Any:
    row = tx.one(
        "SELECT e.id, p.name, e.config, e.status, e.epoch, e.period, e.next_place, e.seq, e.created"
        " FROM experiment e JOIN population p ON p.id = e.population WHERE e.name = ?",
        name,
    )
    if row is None:
        raise LookupError("experiment")
    return row
