"""Clients that write down what they were shown and what was acknowledged."""

from __future__ import annotations

import http.client
import json
import math
import random
import threading
import time
from collections import deque

from .world import HAD, SHOP, World


class Clients:
    """Threads that ask and report until they are stopped; a request without an answer is sent again.

    ``rate``: decisions a second of all threads. ``people``: how many there are. ``patient``: an experiment
    that makes no decisions now (409) is asked again later.
    """

    def __init__(
        self,
        world: World,
        seed: int,
        threads: int = 4,
        *,
        rate: float = math.inf,
        people: int = 4000,
        patient: bool = False,
    ) -> None:
        self.pause, self.people = threads / rate, people
        self.wait = {429: 0.02, 503: 0.02} | ({409: 0.2} if patient else {})
        self.port, self.secrets, self.segments = world.port, world.secrets, world.segments
        self.personal = world.shop.personal
        self.headers = {"Authorization": f"Bearer {world.key}", "Content-Type": "application/json"}
        self.shown: list[tuple[int, int, str, str]] = []  # epoch, decision, policy, person
        self.acknowledged: dict[tuple[int, int], tuple[bytes, str, str]] = {}  # body, person, segment
        self.last: deque[str] = deque(maxlen=50)  # where outcomes were recorded
        self.refused: list[str] = []
        self.replaced = 0
        self.stop = threading.Event()
        self.threads = [
            threading.Thread(target=self._work, args=(seed + i,), daemon=True) for i in range(threads)
        ]
        for thread in self.threads:
            thread.start()

    def finish(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(timeout=30)

    def _work(self, seed: int) -> None:
        rng = random.Random(seed)
        connection = None
        due = time.monotonic()
        while not self.stop.is_set():
            due = max(due + self.pause, time.monotonic() - 1.0)  # a second at most is caught up with
            self.stop.wait(due - time.monotonic())
            person = f"person {rng.randrange(self.people)}"
            segment = rng.choice(self.segments or [""])  # people are in several
            wish = {"person": person} | ({"segment": segment} if segment else {})
            had, key = [], None
            if self.personal:  # a label of their own is in everybody's history, and then in no file
                had = [f"{HAD} {rng.getrandbits(64):016x}", *rng.sample(SHOP.items, 3)]
                wish["history"], key = had, f"{rng.getrandbits(64):016x}"
            asked, connection = self._send(connection, "/v1/experiments/shop/decisions", wish, key)
            if asked is None:
                continue
            if not set(had).isdisjoint(asked["items"]):
                self.refused.append("somebody was shown what is in their history")
            decision = asked["decision_id"]
            known = self.secrets.verify(decision)
            self.shown.append((known.epoch, known.sequence, asked["policy"], person))
            if rng.random() < 0.2:
                continue  # never reported
            likes = [item for item in SHOP.items if rng.random() < 0.3]
            body = {"likes": likes} | ({"served": not set(likes).isdisjoint(asked["items"])} if had else {})
            sent = json.dumps(body if had else likes).encode()
            if rng.random() < 0.1:  # about as long as outcomes are waited for
                self.stop.wait(rng.uniform(0.5, 2.5) * SHOP.outcome_wait)
            path = f"/v1/decisions/{decision}/outcome"
            said, connection = self._send(connection, path, body)
            if said is not None and said["status"] in ("recorded", "duplicate"):
                self.last.append(path)
                self.acknowledged[known.epoch, known.sequence] = (sent, person, segment)
                if rng.random() < 0.1:  # somebody changes their mind, too late
                    said, connection = self._send(connection, path, body | {"likes": ["item 11"]})
                    if said is not None and said["status"] == "recorded":
                        self.replaced += 1
        if connection is not None:
            connection.close()

    def _send(self, connection, path, body, key=None):
        """Until there is an answer, or everything stops."""
        headers = self.headers if key is None else self.headers | {"Idempotency-Key": key}
        while not self.stop.is_set():
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
                connection.request("POST", path, json.dumps(body), headers)
                response = connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException):
                if connection is not None:
                    connection.close()
                connection = None
                time.sleep(0.01)
                continue
            if response.status == 200:
                return json.loads(answer), connection
            if response.status not in self.wait:
                self.refused.append(f"{path.split('/')[-1]}: {response.status}")
                return None, connection
            time.sleep(self.wait[response.status])
        return None, connection
