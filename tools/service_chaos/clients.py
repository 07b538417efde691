"""Clients that write down what they were shown and what was acknowledged."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time

from .world import SHOP, World


class Clients:
    """Threads that ask and report until they are stopped; a request without an answer is sent again."""

    def __init__(self, world: World, seed: int, threads: int = 4) -> None:
        self.port, self.secrets, self.segments = world.port, world.secrets, world.segments
        self.headers = {"Authorization": f"Bearer {world.key}", "Content-Type": "application/json"}
        self.shown: list[tuple[int, int, str, str]] = []  # epoch, decision, policy, person
        self.acknowledged: dict[tuple[int, int], tuple[bytes, str, str]] = {}  # body, person, segment
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
        while not self.stop.is_set():
            person = f"person {rng.randrange(4000)}"
            segment = rng.choice(self.segments or [""])  # people are in several
            wish = {"person": person} | ({"segment": segment} if segment else {})
            asked, connection = self._send(connection, "/v1/experiments/shop/decisions", wish)
            if asked is None:
                continue
            decision = asked["decision_id"]
            known = self.secrets.verify(decision)
            self.shown.append((known.epoch, known.sequence, asked["policy"], person))
            if rng.random() < 0.2:
                continue  # never reported
            likes = [item for item in SHOP.items if rng.random() < 0.3]
            path = f"/v1/decisions/{decision}/outcome"
            said, connection = self._send(connection, path, {"likes": likes})
            if said is not None and said["status"] in ("recorded", "duplicate"):
                self.acknowledged[known.epoch, known.sequence] = (json.dumps(likes).encode(), person, segment)
                if rng.random() < 0.1:  # somebody changes their mind, too late
                    said, connection = self._send(connection, path, {"likes": ["item 11"]})
                    if said is not None and said["status"] == "recorded":
                        self.replaced += 1
        if connection is not None:
            connection.close()

    def _send(self, connection, path, body):
        """Until there is an answer, or everything stops."""
        while not self.stop.is_set():
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
                connection.request("POST", path, json.dumps(body), self.headers)
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
            if response.status not in (429, 503):
                self.refused.append(f"{path.split('/')[-1]}: {response.status}")
                return None, connection
            time.sleep(0.02)
        return None, connection
