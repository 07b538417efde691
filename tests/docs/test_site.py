"""The site builds without a warning, fits windows and phones, and is found by what people search for."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")
playwright = pytest.importorskip("playwright.sync_api")

ROOT = Path(__file__).parents[2]
PATIENCE = 60_000  # ms
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT_OFF = (
    "[...document.querySelectorAll('pre > code')].filter(one => one.scrollWidth > one.clientWidth + 1)"
    ".map(one => one.innerText)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture(scope="module")
def address(site):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, [os.environ.get("CHROMIUM"), *map(shutil.which, names)]), None)
    with playwright.sync_playwright() as started:
        path = path or started.chromium.executable_path
        if not os.path.exists(path):
            pytest.skip("LOUD: no Chromium is installed, so the site is not tried in a browser")
        found = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


def test_the_site_builds(site):
    for page in ("index.html", "tutorials/offline/index.html", "reference/online/index.html"):
        assert (site / page).exists()
    for page in site.glob("reference/**/index.html"):
        # what Markdown makes of an example in a docstring
        assert "<blockquote>" not in page.read_text(), page
    greedy = (site / "reference" / "offline" / "PrivateGreedy" / "index.html").read_text()
    assert 'class="gp"' in greedy  # a prompt, highlighted
    assert "release_gains" in greedy.split('id="parameters"')[1].split('id="guarantee"')[0]
    assert "<td><code>release_gains</code></td>" in greedy
    assert "PrivateGreedy" in (site / "reference" / "offline" / "index.html").read_text()
    assert not list(site.rglob("*.py"))


@pytest.mark.slow
def test_no_page_moves_sideways_on_a_phone(site, address, browser):
    """Tables and code may, in frames of their own."""
    window = browser.new_page(viewport={"width": 390, "height": 844})
    pages = sorted(page.parent.relative_to(site).as_posix() for page in site.rglob("index.html"))
    assert len(pages) > 100
    alike = [page for page in pages if page.startswith("reference/")]  # one page a class
    pages = [page for page in pages if page not in alike] + alike[::8]
    for page in pages:
        window.goto(f"{address}/{page}/", wait_until="domcontentloaded", timeout=PATIENCE)
        assert window.evaluate(SIDEWAYS) == 0, page
    window.close()


@pytest.mark.slow
def test_code_of_tutorials_fits_a_window(site, address, browser):
    window = browser.new_page(viewport={"width": 1280, "height": 900})
    for page in sorted(site.glob("tutorials/*/index.html")):
        place = page.parent.relative_to(site).as_posix()
        window.goto(f"{address}/{place}/", timeout=PATIENCE)
        assert window.evaluate(SIDEWAYS) == 0, place
        assert window.evaluate(CUT_OFF) == [], place
    window.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("GridSearchCV", "Features in a scikit-learn pipeline"),
        ("how to choose k", "Offline selection"),
        ("landing page", "A landing page for a stream of visitors"),
        ("recommendations", "Personal recommendations"),
        ("survey panel", "Questions for a survey panel"),
        ("sensor placement", "Places for sensors and lockers"),
        ("document summary", "Document summaries from embeddings"),
    ],
)
def test_search_finds_what_people_come_for(address, browser, typed, first):
    window = browser.new_page()
    window.goto(f"{address}/", timeout=PATIENCE)
    window.click(".md-search__input")
    window.keyboard.type(typed)
    found = window.locator(".md-search-result__item").first
    playwright.expect(found).to_contain_text(first, timeout=PATIENCE)
    window.close()
