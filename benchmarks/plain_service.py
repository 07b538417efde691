"""The service that a competent developer would write first: FastAPI, SQLAlchemy, Thompson sampling in NumPy.

A decision samples from the beliefs in memory and is written down; an outcome is committed and then learned.
It is not private, has no budget and no account. `benchmarks.service` starts it beside ours.
"""

from __future__ import annotations

import os
import threading
import uuid
from typing import Any

import numpy as np
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import Float, Integer, String, create_engine, event
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

N, K = int(os.environ.get("PLAIN_ITEMS", "1000")), 5
ITEMS = [f"item {number}" for number in range(N)]
URL = os.environ["PLAIN_STORE"]
engine = create_engine(URL, pool_size=8)
if URL.startswith("sqlite"):

    @event.listens_for(engine, "connect")
    def durable(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA busy_timeout=10000")


class Base(DeclarativeBase):
    pass


class Decision(Base):
    __tablename__ = "decision"
    id: Mapped[str] = mapped_column(String, primary_key=True)
    person: Mapped[str | None] = mapped_column(String)
    items: Mapped[str] = mapped_column(String)


class Outcome(Base):
    __tablename__ = "outcome"
    decision: Mapped[str] = mapped_column(String, primary_key=True)
    taken: Mapped[int | None] = mapped_column(Integer)
    value: Mapped[float | None] = mapped_column(Float)


Base.metadata.create_all(engine)
Sessions = sessionmaker(engine)
app = FastAPI()
lock = threading.Lock()
rng = np.random.default_rng()
good, shown = np.ones(N), np.full(N, 2.0)


class Asked(BaseModel):
    person: str | None = None


class Came(BaseModel):
    taken: str | None = None


@app.post("/v1/experiments/shop/decisions")
def decide(asked: Asked) -> dict[str, Any]:
    with lock:
        best = np.argpartition(-rng.beta(good, shown - good), K)[:K]
    number = uuid.uuid4().hex
    with Sessions.begin() as session:
        session.add(Decision(id=number, person=asked.person, items=",".join(map(str, best))))
    return {"decision_id": number, "items": [ITEMS[item] for item in best]}


@app.post("/v1/decisions/{number}/outcome")
def outcome(number: str, came: Came) -> dict[str, str]:
    with Sessions() as session:
        made = session.get(Decision, number)
        if made is None:
            raise HTTPException(404)
        if session.get(Outcome, number) is not None:
            return {"status": "duplicate"}
        items = [int(item) for item in made.items.split(",")]
        taken = None if came.taken is None else ITEMS.index(came.taken)
        session.add(Outcome(decision=number, taken=taken))
        _commit(session)
    with lock:
        shown[items] += 1
        if taken is not None:
            good[taken] += 1
    return {"status": "recorded"}


def _commit(session: Session) -> None:
    session.commit()


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """Answers at once, whatever is asked: what HTTP alone costs."""
    if scope["type"] != "http":
        return
    await receive()
    said = b'{"decision_id":"none","items":["item 1","item 2","item 3","item 4","item 5"]}'
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(said)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": said})


async def _hello(request: Request) -> JSONResponse:
    await request.json()
    return JSONResponse({"decision_id": "none", "items": ["item 1", "item 2", "item 3", "item 4", "item 5"]})


# The same through routes of Starlette, with bodies parsed: what a framework costs that does nothing else.
hello = Starlette(
    routes=[
        Route("/v1/experiments/{name}/decisions", _hello, methods=["POST"]),
        Route("/v1/decisions/{decision}/outcome", _hello, methods=["POST"]),
    ]
)
