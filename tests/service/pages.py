"""A browser without a screen: keeps a cookie, says where forms come from, and sends their token back."""

from __future__ import annotations

import http.client
import re
import time
from urllib.parse import urlencode


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.text = response.read().decode()


class Visitor:
    """Somebody at a page of a service."""

    def __init__(self, port, key=None):
        self.port, self.cookie, self.token = port, None, None
        if key is not None:
            assert self.post("/login", key=key).status == 303
            self.token = re.search(r'name="token" value="([0-9a-f]+)"', self.get("/experiments").text)[1]

    def send(self, method, path, body=None, **headers):
        if self.cookie:
            headers["Cookie"] = self.cookie
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, headers)
        answer = Answer(connection.getresponse())
        connection.close()
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def get(self, path, **headers):
        return self.send("GET", path, **headers)

    def post(self, path, **fields):
        """A form of this site."""
        fields = ({} if self.token is None else {"token": self.token}) | fields
        origin = {"Origin": f"http://127.0.0.1:{self.port}", "Sec-Fetch-Site": "same-origin"}
        return self.send("POST", path, urlencode(fields), **origin)


def key_of(admin, role, experiments=None):
    asked = {"name": f"the {role}", "role": role, "experiments": experiments}
    return admin.request("POST", "/v1/keys", asked)["key"]


def make(client, name, items, *, epsilon=8.0, **more):
    """An experiment that releases soon."""
    client.request("POST", "/v1/populations", {"name": name, "epsilon": epsilon, "anonymous": True})
    asked = {"name": name, "population": name, "items": items, "k": 2, "feedback": "slots"}
    client.request(
        "POST",
        "/v1/experiments",
        asked | {"block_size": 32, "outcome_wait": 0.0, "holdout": 0.25, "share": 1.0} | more,
    )


def serve(client, name, best, blocks, block=32):
    """People who take one item where they see it, or nothing; each block is released before the next."""
    for _ in range(blocks):
        before = client.request("GET", f"/v1/experiments/{name}/status")["releases"]
        count = block - 1  # a block is over with its last decision, so that none of these is late
        asked = client.request("POST", f"/v1/experiments/{name}/decisions", {"count": count})["decisions"]
        taken = [best if best in one["items"] else None for one in asked]
        client.report_many(
            {"decision_id": one["decision_id"], "taken": what} for one, what in zip(asked, taken, strict=True)
        )
        client.decide(name)
        deadline = time.monotonic() + 120
        while client.request("GET", f"/v1/experiments/{name}/status")["releases"] == before:
            assert time.monotonic() < deadline
            time.sleep(0.02)
