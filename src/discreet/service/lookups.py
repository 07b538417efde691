"""What a process that serves reads about experiments, often and with little effort."""

from __future__ import annotations

from typing import Any

from .store import Store


def ping(store: Store) -> None:
    """Whether the database answers."""
    with store.transaction() as tx:
        tx.one("SELECT 1")


def experiment(store: Store, name: str, known: tuple[int, int, int] | None) -> Any:
    """(number, epoch, catalogue, status, population, period, config, its people's, labels) of an experiment.

    The last three are None if (number, epoch, catalogue) are those that are ``known``; None without one.
    """
    with store.transaction() as tx:
        row = tx.one(
            "SELECT id, epoch, catalogue, status, population, period FROM experiment WHERE name = ?", name
        )
        if row is None:
            return None
        if row[:3] == known:
            return (*row, None, None, None)
        configs = tx.one(
            "SELECT e.config, p.config FROM experiment e JOIN population p ON p.id = e.population"
            " WHERE e.id = ?",
            row[0],
        )
        labels = tx.all("SELECT label FROM item WHERE experiment = ? ORDER BY number", row[0])
        return (*row, *configs, [label for (label,) in labels])


def name_of(store: Store, number: int) -> str | None:
    """The name of the experiment of a decision id."""
    with store.transaction() as tx:
        row = tx.one("SELECT name FROM experiment WHERE id = ?", number)
        return None if row is None else str(row[0])
