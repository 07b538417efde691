"""Learners x streams x budgets x repeats: run each cell once, keep what is finished, go on after a stop.

A cell's settings decide its outcome, and their hash names the file it is kept in: a cell that is there is not
run again, and a change of any setting (or of an event file, or of the version of this library) makes another
cell. A run that was interrupted and one that was not end with the same numbers.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core import checks
from ...core.progress import track
from .cells import Cell, plans_for, run_cell, take_plans
from .config import Config
from .results import Outcome, Results, Store

if TYPE_CHECKING:
    from ...planning import Plan

_ALONE = 5.0  # seconds of work: what starting other processes takes where everything is already compiled


def simulate(
    config: Config,
    folder: str | os.PathLike[str] | None,
    *,
    workers: int | None = None,
    progress: bool = False,
) -> Results:
    """Run every cell that ``folder`` does not hold yet, and return them all.

    Each finished cell is a Parquet file of one row in ``folder/cells``, there whole or not at all;
    ``folder/results.parquet`` holds all of them in the end. ``workers`` processes share the work; 1 works in
    this process. Unless given, there are as many as cores, and only once this process has been at it for
    longer than they take to start. Without a folder nothing is kept.

    >>> config = Config.of({"rounds": 200, "items": 8, "k": 2, "repeats": 2,
    ...     "streams": [{"family": "product display"}],
    ...     "learners": [{"learner": "random"}, {"learner": "greedy"}]})
    >>> [row["learner"] for row in simulate(config, None, workers=1).table()]
    ['random', 'greedy']
    """
    count = cores() if workers is None else checks.whole("workers", workers, at_least=1)
    store = None if folder is None else Store(Path(folder))
    cells = {cell.key: cell for cell in config.cells()}
    kept = {} if store is None else store.read(cells)
    refused: dict[str, str] = {}
    todo = [cell for key, cell in cells.items() if key not in kept]
    alone = _ALONE if workers is None else 0.0
    for cell, row in _rows(todo, min(count, len(todo)), alone, progress):
        if "refused" in row:
            refused[cell.key] = row["refused"]
            continue
        kept[cell.key] = row
        if store is not None:
            store.write(cell, row)
    if not kept:
        raise ValueError(f"no cell could be run: {next(iter(refused.values()))}")
    results = Results(
        config,
        tuple(Outcome.of(cell, kept[cell.key]) for cell in config.cells() if cell.key in kept),
        tuple((cell, refused[cell.key]) for cell in config.cells() if cell.key in refused),
    )
    if store is not None:
        store.gather(results)
    return results


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _rows(
    cells: list[Cell], workers: int, alone: float, progress: bool
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Cells with their outcomes, in the order in which they are done; the first ones by this process.

    It goes on by itself for so many seconds of its work, for ever where there are no other workers.
    """
    ticks = iter(track(range(len(cells)), "cells", progress))
    plans = plans_for(cells)
    left = list(reversed(cells))
    start = time.process_time()
    while left and (workers <= 1 or time.process_time() - start < alone):
        next(ticks)
        cell = left.pop()
        yield cell, run_cell(cell)
    if left:
        yield from _shared(left[::-1], workers, plans, ticks)
    next(ticks, None)


def _shared(
    cells: list[Cell], workers: int, plans: dict[str, Plan], ticks: Iterator[int]
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Cells that several processes share, with the plans that are made."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")  # threads of ours would not survive a fork
    with ProcessPoolExecutor(workers, context, initializer=_as_a_worker, initargs=(plans,)) as pool:
        try:
            with _children_undisturbed():
                waiting = {pool.submit(run_cell, cell): cell for cell in cells}
            for _, done in zip(ticks, as_completed(waiting), strict=True):
                yield waiting[done], done.result()
        except BrokenProcessPool as error:
            raise ChildProcessError(
                "a worker process ended before its work was done (out of memory?); finished cells are kept:"
                f" run the same again, with fewer than workers={workers}"
            ) from error
        except BaseException:  # an interruption: what the workers are at is lost, what is finished is not
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise


def _as_a_worker(plans: dict[str, Plan]) -> None:
    """Take the plans; leave an interruption to the process that started us: it ends us, and says one line.

    If that process is killed it can end nobody, and its pipes stay open in our siblings: so we watch it.
    """
    import multiprocessing
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    take_plans(plans)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_it() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_it, daemon=True).start()


@contextmanager
def _children_undisturbed() -> Iterator[None]:
    """Processes started meanwhile are deaf to Ctrl-C from their first moment; ours comes when this ends."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
