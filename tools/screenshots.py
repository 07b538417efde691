"""Pictures of the service's pages: a shop that has lived twelve days in a minute, in a real browser.

    python -m tools.screenshots               docs/images/service_experiment.png and service_new.png
    python -m tools.screenshots --all FOLDER  every page as well, light and dark, wide and on a phone

Visitors are synthetic. The clock of the service goes faster than others while they come. Needs playwright and
Chromium.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

from discreet.client import Client
from discreet.service.config import ExperimentConfig, PopulationConfig
from tools.results import ROOT
from tools.service_chaos.world import World

IMAGES = ROOT / "docs" / "images"
BEGAN = 1_793_869_200.0  # 5 November 2026, 09:00
DAYS, SECONDS = 12.0, 60.0
VISITS, AT_ONCE = 36_000, 60
ITEMS = [
    *("Alpine Jacket", "Trail Shoes", "Merino Socks", "Dry Bag", "Head Torch", "Camp Stove", "Sleeping Mat"),
    *("Down Vest", "Rain Hat", "Trekking Poles", "Water Filter", "First Aid Kit", "Map Case", "Rope"),
    *("Carabiner", "Sun Cream", "Travel Mug", "Pocket Knife", "Bike Light", "Chalk Bag"),
]
PAGES = {
    "experiments": "/experiments",
    "experiment": "/experiments/front-page",
    "fresh": "/experiments/newsletter",
    "sure": "/experiments/front-page/sure/end",
    "new": "/new",
    "populations": "/populations",
    "population": "/populations/visitors",
    "keys": "/keys",
    "audit": "/audit",
    "docs": "/docs",
}


def visits(client: Client, until: float) -> None:
    """People who each like some of the items, the first ones most, as fast as the days go by."""
    rng = np.random.default_rng(0)
    likes = 0.3 / np.sqrt(np.arange(1.0, len(ITEMS) + 1.0))
    began = time.monotonic()
    for first in range(0, VISITS, AT_ONCE):
        people = [f"visitor {first + number}" for number in range(AT_ONCE)]
        outcomes = []
        for one in client.decide_many("front-page", people):
            liked = [item for item, yes in zip(ITEMS, rng.random(len(ITEMS)) < likes, strict=True) if yes]
            outcomes.append({"decision_id": one.id, "likes": liked})
        client.report_many(outcomes)
        time.sleep(max(0.0, began + (until - began) * first / VISITS - time.monotonic()))


def opened(world: World, folder: Path, every: Path | None) -> None:
    """Take the pictures."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 1180})
        page.goto(f"http://127.0.0.1:{world.port}/")
        page.fill("input[name=key]", world.key)
        page.press("input[name=key]", "Enter")
        page.wait_for_url("**/experiments")
        shown(page, world, PAGES["experiment"])
        page.screenshot(path=folder / "service_experiment.png")
        page.set_viewport_size({"width": 1180, "height": 860})
        shown(page, world, PAGES["new"])
        page.fill("[name=name]", "spring-mail")
        page.fill("[name=items]", "\n".join(ITEMS))
        page.evaluate("document.querySelector('[name=items]').scrollTop = 0")
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(4000)  # the plan follows what is typed
        page.screenshot(path=folder / "service_new.png")
        for name, path in PAGES.items() if every is not None else ():
            for scheme in ("light", "dark"):
                for width in (1180, 390):
                    page.emulate_media(color_scheme=scheme)
                    page.set_viewport_size({"width": width, "height": 900})
                    shown(page, world, path)
                    page.screenshot(path=every / f"{name}-{scheme}-{width}.png", full_page=True)
        browser.close()


def shown(page: Page, world: World, path: str) -> None:
    page.goto(f"http://127.0.0.1:{world.port}{path}")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(700)  # charts are drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="every page, in all schemes and widths")
    parser.add_argument("--out", type=Path, default=IMAGES)
    options = parser.parse_args()
    for folder in filter(None, (options.all, options.out)):
        folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()

    def fast() -> float:
        return BEGAN + (time.monotonic() - began) * DAYS * 86400.0 / SECONDS

    people = PopulationConfig(epsilon=1.0, delta=1e-6, definition="gdp")
    shop = ExperimentConfig(items=ITEMS, k=3, outcome_wait=21600.0, share=0.7)
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), shop=shop, people=people, clock=fast, names=("visitors", "front-page"))
        child = world.start()
        try:
            client = Client(f"http://127.0.0.1:{world.port}", world.key, timeout=60)
            client.create_experiment("newsletter", "visitors", ITEMS[:8], 2, feedback="slots", share=0.2)
            client.request("POST", "/v1/keys", {"name": "web site", "role": "app", "days": 365})
            visits(client, began + SECONDS)
            world.kill(child)
            last, now = fast(), time.monotonic()
            world.clock = lambda: last + time.monotonic() - now  # as others' clocks go, from here on
            world.serves(world.start())
            opened(world, options.out, options.all)
        finally:
            world.close()


if __name__ == "__main__":
    main()
