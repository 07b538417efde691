"""personal.js in a real browser: the sets of Python, from an exported model, without a network."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.objectives import Coverage
from discreet.offline import PrivateRecommender

playwright = pytest.importorskip("playwright.sync_api")
SCRIPT = Path(dc.__file__).parent / "personal.js"
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES)]), None)


@pytest.fixture(scope="module")
def page():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with playwright.sync_playwright() as started:
            path = CHROMIUM or started.chromium.executable_path
            if not os.path.exists(path):
                pytest.skip("LOUD: no Chromium is installed, so personal.js is not tried in a browser")
            browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
            context = browser.new_context(offline=True)  # the history stays on the device
            found = context.new_page()
            found.add_script_tag(content=SCRIPT.read_text() + "\nwindow.PersonalModel = PersonalModel;")
            yield found
            browser.close()


def crowd(people, items, seed=0):
    """Some tastes, some noise, more items than have pairs."""
    rng = np.random.default_rng(seed)
    home = rng.integers(items, size=(6, 5))
    rows = np.zeros((people, items))
    np.put_along_axis(rows, home[rng.integers(6, size=people)], 1.0, axis=1)
    rows *= rng.random(rows.shape) < 0.7
    rows[np.arange(people), rng.integers(items, size=people)] = 1.0
    return rows


# Budget, people, items, whether these have labels, and how many public features.
MODELS = {
    "pairs of all": (dc.Budget(1.0, 1e-6), 6000, 60, True, 0),
    "pairs of all, features": (dc.Budget(1.0, 1e-6), 6000, 60, True, 5),
    "pairs of some": (dc.Budget(1.0, 1e-6), 3000, 90, False, 0),
    "pairs of some, features": (dc.Budget(1.0, 1e-6), 3000, 90, False, 5),
    "popularity": (dc.Budget(1.0, 1e-6), 400, 30, True, 0),
    "popularity, features": (dc.Budget(1.0, 1e-6), 400, 30, True, 5),
    "not private": (dc.Budget(float("inf")), 1000, 40, False, 0),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_same_sets_as_in_python(page, tmp_path, name):
    budget, people, items, named, public = MODELS[name]
    labels = [f"item {j}" for j in range(items)] if named else None
    features = np.random.default_rng(2).normal(size=(items, public)) if public else None
    model = PrivateRecommender(budget, features=features, seed=0)
    model.fit(Coverage(crowd(people, items), labels=labels))
    model.export(tmp_path / "model.json")
    exported = json.loads((tmp_path / "model.json").read_text())
    rng = np.random.default_rng(1)
    called = labels or list(range(items))
    asked, expected = [], []
    for t in range(200):
        history = [called[j] for j in rng.choice(items, size=rng.integers(0, 9), replace=t % 2 == 0)]
        public = {"k": int(rng.integers(1, 12))}
        if t % 3 == 0:
            public["exclude"] = [called[j] for j in rng.choice(items, size=4, replace=False)]
        if t % 5 == 0:
            public["available"] = [called[j] for j in rng.choice(items, size=20, replace=False)]
        if t % 7 == 1:
            public = {"k": public["k"], "include": [called[int(rng.integers(items))]]}
        asked.append([[*history, "unheard of"], public])
        found = model.recommend([*history, "unheard of"], **public)
        expected.append([[item, called[item]] for item in found.items])
    shown = page.evaluate(
        """([exported, asked]) => {
            const model = new PersonalModel(exported);
            return asked.map(([history, options]) =>
                model.recommend(history, options).map(({ item, label }) => [item, label]));
        }""",
        [exported, asked],
    )
    assert shown == expected
    weights = page.evaluate(
        """([exported, item]) => new PersonalModel(exported).scores(new Map([[item, 0.25]]))""",
        [exported, called[3]],
    )
    assert weights == pytest.approx(model.scores({called[3]: 0.25}).tolist(), abs=1e-12)


def test_mistakes_are_named(page, tmp_path):
    model = PrivateRecommender(dc.Budget(1.0, 1e-6), seed=0).fit(Coverage(crowd(400, 30)))
    model.export(tmp_path / "model.json")
    exported = json.loads((tmp_path / "model.json").read_text())
    for options, words in (
        ({"k": 31}, "k=31"),
        ({"k": 0}, "k=0"),
        ({"exclude": ["tea"]}, "exclude holds"),
        ({"include": [1], "exclude": [1]}, "not available"),
    ):
        with pytest.raises(playwright.Error, match=words):
            page.evaluate("([e, o]) => new PersonalModel(e).recommend([], o)", [exported, options])
    with pytest.raises(playwright.Error, match="no item model"):
        page.evaluate("() => new PersonalModel({})")


def test_the_script_is_short_and_depends_on_nothing():
    text = SCRIPT.read_text()
    assert len(text.splitlines()) <= 150
    for word in ("import ", "require(", 'fetch("h', "XMLHttpRequest", "localStorage", "document."):
        assert word not in text, word
