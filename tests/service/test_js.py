"""The client for JavaScript, in Node and in a real browser on another site, with tokens of browsers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from discreet.service.webhooks import signature

from .conftest import Running
from .test_api import experiment
from .test_browser import browser  # noqa: F401

JS = Path(__file__).parents[2] / "clients" / "js"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="LOUD: no node is installed")


def node(script, *given):
    ended = subprocess.run(
        [
            NODE,
            "--input-type=module",
            "-e",
            f"import * as d from '{JS}/index.js';\n{script}",
            *map(str, given),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


SERVER = """
const [url, key] = process.argv.slice(-2);
const server = new d.Client(url, key);
const decision = await server.decide("shop", { person: "ann", exclude: ["item 0"] });
const told = [await server.report(decision, { likes: [decision.items[0]] })];
told.push(await server.report(decision, { likes: [] }));
let asked = 0;
const page = new d.Client(url, () => {
  asked += 1;
  return asked === 1 ? "dt_over" : server.token("shop", { person: "ben", seconds: 60 });
});
const own = await page.decide("shop");
const many = await page.reportMany([
  { decision: own, likes: [] }, { decision, likes: [] }, { decision: own, taken: undefined },
]);
const refused = [];
for (const work of [
  () => page.decide("none"), () => page.decide("shop", { person: "ann" }),
  () => new d.Client(url, "dk_no").decide("shop"),
  () => page.report(own, {}), () => page.report(own, { taken: null }),
]) {
  try { await work(); refused.push("nothing"); }
  catch (error) {
    refused.push(error instanceof d.ServiceError ? [error.status, error.code] : error.constructor.name);
  }
}
const again = { person: "cid", key: "visit" };
const same = [await server.decide("shop", again), await server.decide("shop", again)];
console.log(JSON.stringify({ decision, told, own, many, refused, asked, same }));
"""


@needs_node
def test_node_decides_and_reports(shared_service):
    experiment(shared_service.client(), "shop", anonymous=False, outcome_wait=3600.0)
    found = node(SERVER, shared_service.url, shared_service.key)
    assert len(found["decision"]["items"]) == 3
    assert "item 0" not in found["decision"]["items"]
    assert [one["status"] for one in found["told"]] == ["recorded", "duplicate"]
    assert [one["status"] for one in found["many"]] == ["recorded", "refused", "refused"]
    assert found["refused"] == [
        [404, "not-found"],
        [422, "body"],
        [401, "no-key"],
        "TypeError",
        [422, "outcome"],
    ]
    assert found["asked"] == 2  # the first one was over
    assert found["same"][0] == found["same"][1]


MANY = """
const [url, key] = process.argv.slice(-2);
const client = new d.Client(url, key);
const named = await client.decideMany("named", new Set(["ann", "ben", "cid"]), { exclude: ["item 0"] });
const told = await client.reportMany(named.map((decision) => ({ decision, likes: decision.items })));
const again = [await client.decideMany("named", ["dan", "eve"], { key: "visit" }),
  await client.decideMany("named", ["dan", "eve"], { key: "visit" })];
const one = await client.decideMany("anybody", 1);
const stream = client.prefetched("anybody", 3), fetched = [];
for (let place = 0; place < 7; place += 1) fetched.push((await stream.next()).value);
let refused = null;
try { await client.decideMany("anybody", 1001); }
catch (error) { refused = [error.status, error.problem.at]; }
console.log(JSON.stringify({ named, told, again, one, fetched, refused }));
"""


@needs_node
def test_many_decisions_at_once(shared_service):
    client = shared_service.client()
    experiment(client, "named", anonymous=False, outcome_wait=3600.0)
    experiment(client, "anybody", anonymous=True, outcome_wait=3600.0)
    found = node(MANY, shared_service.url, shared_service.key)
    assert len({one["id"] for one in found["named"]}) == 3
    assert all(len(one["items"]) == 3 and "item 0" not in one["items"] for one in found["named"])
    assert found["told"] == [{"status": "recorded", "counted": True}] * 3
    assert found["again"][0] == found["again"][1]
    assert len(found["again"][0]) == 2
    assert len(found["one"]) == 1
    assert len({one["id"] for one in found["fetched"]}) == 7
    assert found["refused"] == [422, "$.count"]


OVER = """
const client = new d.Client(process.argv.at(-1), "k");
console.log(JSON.stringify((await client.prefetched("shop").next()).value.id));
"""


@needs_node
def test_what_was_fetched_too_early_is_not_shown():
    class Early(Flaky):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.server.keys.append(0)
            at = "2001-01-01T00:00:00Z" if len(self.server.keys) < 3 else "2999-01-01T00:00:00Z"
            made = [ANSWER | {"expires": at, "decision_id": f"of fetch {len(self.server.keys)}"}]
            body = json.dumps({"decisions": made}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Early) as server:
        server.keys = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert node(OVER, f"http://127.0.0.1:{server.server_port}") == "of fetch 3"
        server.shutdown()


class Flaky(BaseHTTPRequestHandler):
    """Fails, cuts the connection, and asks for a pause, before it answers."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.server.keys.append(self.headers["idempotency-key"])
        place = len(self.server.keys)
        if place == 1:
            self.connection.close()
            return
        body = json.dumps({"title": "busy"} if place < 4 else ANSWER).encode()
        self.send_response(503 if place < 4 else 200)
        self.send_header("content-length", str(len(body)))
        if place == 3:
            self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ANSWER = {"decision_id": "x", "items": ["a"], "policy": "p", "expires": "e"}


@needs_node
def test_requests_are_sent_again_under_one_key():
    with ThreadingHTTPServer(("127.0.0.1", 0), Flaky) as server:
        server.keys = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        script = "console.log(JSON.stringify(await new d.Client(process.argv.at(-1), 'k').decide('shop')))"
        found = node(script, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    told = {"id": "x", "items": ["a"], "policy": "p", "expires": "e", "propensity": None}
    assert found == told | {"personal": False}
    assert len(server.keys) == 4
    assert len(set(server.keys)) == 1


@needs_node
def test_signatures_of_webhooks_are_checked():
    body, now = '{"experiment": "sh\u00f6p"}', int(time.time())
    good = f"t={now},v1={signature('secret', now, body.encode())}"
    old = f"t={now - 4000},v1={signature('secret', now - 4000, body.encode())}"
    cases = [[body, good, "secret"], [body, good, "other"], [body + " ", good, "secret"]]
    cases += [[body, old, "secret"], [body, "", "secret"], [body, f"t={now},v1=zz", "secret"]]
    script = (
        "const cases = JSON.parse(process.argv.at(-1));"
        "console.log(JSON.stringify(await Promise.all(cases.map((one) => d.verified(...one)))))"
    )
    assert node(script, json.dumps(cases)) == [True, False, False, False, False, False]


def test_the_package_has_what_it_names():
    package = json.loads((JS / "package.json").read_text())
    assert "dependencies" not in package
    assert all((JS / name).is_file() for name in package["files"])
    code, types = (JS / "index.js").read_text(), (JS / "index.d.ts").read_text()
    exported = set(re.findall(r"^export (?:async )?(?:class|function) (\w+)", code, re.MULTILINE))
    assert exported == set(re.findall(r"^export (?:class|function) (\w+)", types, re.MULTILINE))
    methods = set(re.findall(r"^  (?:async )?\*?([a-z]\w+)\(.*\{$", code, re.MULTILINE)) - {"constructor"}
    typed = set(re.findall(r"^  ([a-z]\w+)\(", types, re.MULTILINE)) - {"constructor"}
    assert methods == typed


class Site(BaseHTTPRequestHandler):
    """A shop on another site: its page, the client, and tokens for whoever is logged in there."""

    def do_GET(self):
        kinds = {"/": ("text/html", b"<!doctype html><title>shop</title>")}
        kinds["/index.js"] = ("text/javascript", (JS / "index.js").read_bytes())
        self._send(*kinds.get(self.path, ("text/plain", b"")))

    def do_POST(self):
        self.server.tokens += 1
        token = self.server.client.token("page", "ann", seconds=60)
        self._send("application/json", json.dumps({"token": token}).encode())

    def _send(self, kind, body):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


PAGE = """async (url) => {
  const { Client } = await import("/index.js");
  const client = new Client(url, () => fetch("/token", { method: "POST" }).then((found) => found.json()));
  const decision = await client.decide("page");
  const told = await client.report(decision, { likes: [decision.items[0]] });
  const many = await client.decideMany("page", 1);
  const refused = await client.decideMany("page", 2).catch((error) => error.problem.detail);
  return { items: decision.items, told, many, refused };
}"""


def test_a_browser_on_another_site_asks_with_a_token(tmp_path, browser):  # noqa: F811
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{site.server_port}"
        service = Running(tmp_path, DISCREET_ORIGINS=home)
        site.client, site.tokens = service.client(), 0
        experiment(site.client, "page", anonymous=False, outcome_wait=3600.0)
        context = browser.new_context()
        page = context.new_page()
        page.goto(home)
        found = page.evaluate(PAGE, service.url)
        assert len(found["items"]) == 3
        assert found["told"] == {"status": "recorded", "counted": True}
        assert [len(one["items"]) for one in found["many"]] == [3]
        assert found["refused"] == "A token is for one person, which it names by itself."
        assert site.tokens == 1
        page.goto(home.replace("127.0.0.1", "localhost"))  # a site that the service does not know
        with pytest.raises(Exception, match="Failed to fetch"):
            page.evaluate(PAGE, service.url)
        context.close()
        service.stop()
        site.shutdown()
