"""Pages in a real browser: every page, form, role and width, in light and dark, and by keyboard alone."""

from __future__ import annotations

import os
import re
import shutil
import warnings

import pytest

from .pages import Visitor, key_of, make, serve

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(
    filter(
        None,
        [os.environ.get("CHROMIUM"), *map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))],
    ),
    None,
)

PATIENCE = 60_000  # ms: nothing here may depend on how fast a machine is
expect = playwright.expect
expect.set_options(timeout=PATIENCE)
# Of requests that were given up, for another or because the page was left. Those that failed are logged by
# browsers themselves.
LEFT_BEHIND = ("htmx:afterRequest", "htmx:sendAbort", "htmx:sendError")

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
LONG = "an item with a rather long name that has to be broken somewhere on a phone " * 2


@pytest.fixture(scope="module")
def browser():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with playwright.sync_playwright() as started:
            path = CHROMIUM or started.chromium.executable_path  # what `playwright install` leaves
            if not os.path.exists(path):
                pytest.skip("LOUD: no Chromium is installed, so pages are not tried in a browser")
            found = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
            yield found
            found.close()


@pytest.fixture(scope="module")
def world(shared_service):
    client = shared_service.client()
    make(client, "shop", ["best", "b", "c", LONG, *(f"item {number}" for number in range(30))])
    make(client, "fresh", ["a", "b", "c"])
    serve(client, "shop", "best", 14)
    for _ in range(20):  # until something is known of items, however slow the machine is
        if client.request("GET", "/v1/experiments/shop/releases?limit=1")["releases"][0]["values"]:
            break
        serve(client, "shop", "best", 1)
    keys = {role: key_of(client, role) for role in ("analyst", "operator", "admin")}
    cookies = {role: Visitor(shared_service.port, key).cookie for role, key in keys.items()}
    return shared_service, keys, cookies


class Window:
    """A page of a browser that writes down what goes wrong, and where requests go."""

    def __init__(self, browser, world, role):
        service, _, cookies = world
        self.context = browser.new_context()
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.url, self.wrong, self.hosts, self.awaited = service.url, [], set(), None
        self.page.on("console", lambda one: one.type in ("error", "warning") and self.wrong.append(one.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda one: self.hosts.add(re.match(r"\w+://[^/]*", one.url)[0]))
        if role is not None:
            name, _, value = cookies[role].partition("=")
            self.context.add_cookies([{"name": name, "value": value, "url": self.url}])

    def go(self, path):
        self.page.goto(self.url + path)
        return self.page

    def check(self):
        """Nothing went wrong, and nothing went elsewhere; and begin anew."""
        wrong, hosts, awaited = self.wrong, self.hosts, self.awaited
        self.wrong, self.hosts, self.awaited = [], set(), None
        known = (f"status of {awaited} ", *LEFT_BEHIND)
        assert [text for text in wrong if not any(one in text for one in known)] == []
        assert hosts == {self.url}


@pytest.fixture(scope="module")
def windows(browser, world):
    """One window for each role, as opening one takes long."""
    found = {role: Window(browser, world, role) for role in (None, "analyst", "operator", "admin")}
    yield found
    for one in found.values():
        one.context.close()


@pytest.fixture
def window(windows):
    used = set()

    def chosen(role=None, size="desktop"):
        one = windows[role]
        width, height = SIZES[size]
        one.page.set_viewport_size({"width": width, "height": height})
        used.add(role)
        return one

    yield chosen
    for role in used:
        windows[role].check()


CHECKS = """() => {
  const label = (one) => one.labels && one.labels.length ? one.labels[0].textContent : "";
  const name = (one) => label(one) || one.ariaLabel || one.textContent;
  const fields = "input:not([type=hidden]):not([hidden]), select, textarea, button, summary, a";
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  return {
    overflow: document.documentElement.scrollWidth - innerWidth,
    unnamed: [...document.querySelectorAll(fields)].filter((one) => !name(one).trim())
      .map((one) => one.outerHTML),
    pictures: [...document.querySelectorAll("img:not([alt])")].length,
    twice: ids.filter((one, at) => ids.indexOf(one) !== at),
    titles: document.querySelectorAll("h1").length,
    headings: [...document.querySelectorAll("th")].filter((one) => !one.scope).length,
    language: document.documentElement.lang,
    colour: getComputedStyle(document.body).backgroundColor,
  };
}"""


def looked_at(page, scheme):
    """What is there, once the page has its new width and colours: charts are drawn anew a moment later."""
    for _ in range(PATIENCE // 100):
        found = page.evaluate(CHECKS)
        found["dark"] = sum(map(int, re.findall(r"\d+", found.pop("colour"))[:3])) < 200
        if found["overflow"] == 0 and found["dark"] == (scheme == "dark"):
            break
        page.wait_for_timeout(100)
    return found


PAGES = (
    "/experiments",
    "/experiments/shop",
    "/experiments/fresh",
    "/populations",
    "/populations/shop",
    "/populations/shop/account.html",
    "/audit",
    "/new",
    "/keys",
    "/experiments/none",
    "/experiments/fresh/sure/end",
    "/",
    "/docs",
)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_fits_and_has_names(window, path, tmp_path):
    """In both widths and both schemes: nothing sticks out, and everything has a name."""
    one = window("admin" if path not in ("/", "/docs") else None)
    one.awaited = 404 if path == "/experiments/none" else None  # which browsers log, sooner or later
    page = one.go(path)
    for width, height in SIZES.values():
        for scheme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=scheme)
            assert looked_at(page, scheme) == {
                "overflow": 0,
                "unnamed": [],
                "pictures": 0,
                "twice": [],
                "titles": 1,
                "headings": 0,
                "language": "en",
                "dark": scheme == "dark",
            }
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    page.emulate_media(color_scheme="light")


def test_the_chart_is_drawn_and_read_by_keyboard(window):
    page = window("analyst").go("/experiments/shop")
    page.wait_for_selector("#chart canvas")
    page.wait_for_function(
        """() => { const one = document.querySelector("#chart canvas");
        const data = one.getContext("2d").getImageData(0, 0, one.width, one.height).data;
        return new Set(new Uint32Array(data.buffer)).size > 20; }"""
    )
    page.focus("#chart")
    page.keyboard.press("End")
    readout = page.locator("#readout")
    both = r"UTC · [\d,]+ decisions · learned [\d.]+ % \([\d.]+ to [\d.]+\)"
    expect(readout).to_have_text(re.compile(both))
    words = readout.inner_text()
    page.keyboard.press("ArrowLeft")
    expect(readout).not_to_have_text(words)


def test_pages_follow_what_happens(window, world):
    page = window("analyst").go("/experiments/shop")
    page.wait_for_selector("#chart canvas")
    before = page.inner_text("#live")
    mark = page.evaluate("window.here = 1")
    serve(world[0].client(), "shop", "best", 2)
    page.wait_for_function("before => document.getElementById('live').innerText !== before", arg=before)
    assert page.evaluate("window.here") == mark  # the page was not loaded again
    page.fill("#find", "item 2")
    page.wait_for_function("() => document.querySelectorAll('#items li').length === 11")


def test_a_segment_is_chosen_and_left_again(window, world):
    make(world[0].client(), "divided", ["a", "b", "c"], segments=["de", "fr & be"])
    page = window("analyst").go("/experiments/divided")
    expect(page.get_by_text("numbers are of all of them")).to_be_visible()
    page.get_by_label("Segment", exact=True).select_option("fr & be")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/experiments/divided?segment=fr+%26+be")
    expect(page.get_by_text("numbers are of segment fr & be")).to_be_visible()
    expect(page.get_by_role("heading", name="On display in fr & be")).to_be_visible()
    expect(page.get_by_label("Segment", exact=True)).to_have_value("fr & be")
    page.get_by_label("Segment", exact=True).select_option("All segments")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="de", exact=True).click()
    expect(page.get_by_text("numbers are of segment de")).to_be_visible()


def test_pausing_and_going_on(window):
    page = window("operator").go("/experiments/fresh")
    page.get_by_role("link", name="Pause").click()
    expect(page.get_by_role("heading", name="Pause fresh?")).to_be_visible()
    expect(page.get_by_role("button", name="Pause")).to_be_focused()
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("link", name="Pause")).to_be_visible()  # nothing has happened
    page.get_by_role("link", name="Pause").click()
    expect(page.get_by_role("button", name="Pause")).to_be_focused()  # or the key would go to the page before
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    expect(page.get_by_text("applications are refused decisions")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("link", name="Pause")).to_be_visible()


def test_an_experiment_is_ended_and_another_one_deleted(window, world):
    client = world[0].client()
    for name in ("brief", "unused"):
        make(client, name, ["a", "b", "c"])
    client.decide("brief")
    page = window("operator", size="phone").go("/experiments/brief")
    expect(page.get_by_role("link", name="Delete")).to_have_count(0)  # somebody had a decision of it
    page.get_by_role("link", name="End").click()
    expect(page.get_by_text("its share is free at once")).to_be_visible()
    page.get_by_role("button", name="End").click()
    expect(page.get_by_text("nothing private is left of it")).to_be_visible()
    expect(page.get_by_role("link", name="Pause")).to_have_count(0)
    page.goto(f"{world[0].url}/experiments/unused")
    page.get_by_role("link", name="Delete").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Experiments")).to_be_visible()
    expect(page.locator("#to-unused")).to_have_count(0)
    expect(page.locator("tbody tr").last).to_contain_text("ended")  # after those that go on


def test_who_logs_in_goes_on_to_the_page_that_they_asked_for(browser, world):
    service, keys, _ = world
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(f"{service.url}/experiments/shop")
    expect(page.get_by_text("The session has expired")).to_be_visible()
    page.get_by_label("API key").fill("dk_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_text("There is no such key")).to_be_visible()
    page.get_by_label("API key").fill(keys["analyst"])
    page.keyboard.press("Enter")
    page.wait_for_url("**/experiments/shop")
    context.close()


def test_an_experiment_is_made_by_keyboard_alone(window, world):
    """Tab, type and Enter, from the first link to the page of the new experiment, with a plan on the way."""
    one = window()
    page, keyboard = one.go("/"), one.page.keyboard
    expect(page.get_by_label("API key")).to_be_focused()
    keyboard.type(world[1]["operator"])
    keyboard.press("Enter")
    page.wait_for_url("**/experiments")

    def tab_to(selector):
        for _ in range(60):
            keyboard.press("Tab")
            if page.evaluate("where => document.activeElement.matches(where)", selector):
                return
        raise AssertionError(selector)

    tab_to("a.skip")
    tab_to("a[href='/new']")
    keyboard.press("Enter")
    page.wait_for_url("**/new")
    tab_to("a.skip")
    keyboard.press("Enter")
    tab_to("#name")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    keyboard.type("by-keyboard")
    tab_to("#items")
    keyboard.type("a\nb\nc\nd\ne\nf\ng\nh\n")
    tab_to("#k")
    keyboard.press("Control+A")
    keyboard.type("3")
    page.get_by_text("points or more, with 80 % power").first.wait_for()
    page.get_by_text("of what the best fixed set would serve").wait_for()
    tab_to("[name=feedback]")
    expect(page.locator("#bound")).to_be_hidden()
    keyboard.press("ArrowDown")
    expect(page.locator("#delta")).to_be_visible()
    page.get_by_text("The first counts are released after").first.wait_for()
    keyboard.press("ArrowDown")
    expect(page.locator("#bound")).to_be_visible()
    tab_to("#epsilon")
    keyboard.press("Control+A")
    keyboard.type("2")
    page.get_by_text("exp(2) times").wait_for()
    keyboard.press("Control+A")
    keyboard.type("much")
    page.get_by_text("A number above 0").wait_for()
    one.awaited = 422  # the refused form, which browsers log
    keyboard.press("Enter")  # sends the form, as from any field
    expect(page.locator("#errors")).to_be_focused()
    tab_to("#epsilon[aria-invalid]")
    keyboard.press("Control+A")
    keyboard.type("2")
    tab_to("button.primary")
    keyboard.press("Enter")
    page.wait_for_url("**/experiments/by-keyboard")
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^\s*by-keyboard"))
    assert len(world[0].client().decide("by-keyboard", "ann").items) == 3


def test_an_existing_population_needs_no_budget(window):
    page = window("operator", size="phone").go("/new")
    page.select_option("#population", "fresh")
    expect(page.locator("#epsilon")).to_be_hidden()
    expect(page.locator("#share")).to_be_visible()


def test_keys_are_made_and_revoked(window):
    page = window("admin", size="phone").go("/keys")
    page.get_by_label("Name").fill("for a phone")
    page.get_by_role("radio", name="analyst").check()
    page.get_by_role("button", name="Make the key").click()
    key = page.inner_text("#new-key")
    assert key.startswith("dk_")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    expect(page.locator("#copied")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == key
    page.get_by_role("link", name="Rotate for a phone").click()
    page.get_by_role("button", name="Rotate").click()
    expect(page.locator("#new-key")).to_have_text(re.compile("dk_"))
    assert page.inner_text("#new-key") != key
    page.get_by_role("link", name="Revoke for a phone").click()
    expect(page.get_by_text("are refused within a second")).to_be_visible()
    page.get_by_role("button", name="Revoke").click()
    expect(page.locator("#new-key")).to_have_count(0)
    expect(page.get_by_role("button", name="Make the key")).to_be_visible()  # the next page is there
    expect(page.get_by_text("for a phone")).to_have_count(0)
    expect(page.locator("html")).not_to_contain_text(key)


def test_pages_work_without_scripts(browser, world):
    service, keys, _ = world
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(service.url)
    page.fill("#key", keys["operator"])
    page.press("#key", "Enter")
    page.click("#to-shop")
    page.get_by_text("Numbers", exact=True).click()
    expect(page.get_by_role("row").nth(3)).to_be_visible()
    page.fill("#find", "item 29")
    page.press("#find", "Enter")
    expect(page.locator("#items li")).to_have_count(1)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    context.close()
