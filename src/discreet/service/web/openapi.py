"""The description of the API for programs (OpenAPI 3.1) and for people (/docs)."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ... import __version__
from .api import Changes, NewExperiment, NewKey, NewPopulation, PlanRequest
from .hot import DecisionRequest, OutcomeOf, OutcomeRequest
from .personalizer import SCOPED, RankRequest, RewardRequest


class Operation(NamedTuple):
    """A route: who may use it, what it takes and what it answers."""

    method: str
    path: str
    summary: str
    role: str
    takes: Any = None
    example: Any = None
    answers: Any = None
    status: int = 200


_SHOP = "/v1/experiments/{name}"
_DECISION = {
    "decision_id": "IAAAAAEAAAAAAAAAAAAAAAABAAAAAAAAAAAAAAAA…",
    "items": ["red", "blue"],
    "policy": "3fa9c2d417e0b6aa",
    "expires": "2026-11-16T10:30:00Z",
}
_NEW = {
    "name": "shop",
    "population": "visitors",
    "items": ["red", "green", "blue", "black"],
    "k": 2,
    "feedback": "taken",
    "outcome_wait": 600,
    "holdout": 0.05,
    "segments": ["de", "fr"],
}
OPERATIONS = (
    Operation("POST", f"{_SHOP}/decisions", "A set of items for a visitor", "app",
              DecisionRequest, {"person": "user 17", "segment": "de", "exclude": ["black"]}, _DECISION),
    Operation("POST", "/v1/decisions/{id}/outcome", "What came of a decision", "app",
              OutcomeRequest, {"taken": "blue"}, {"status": "recorded"}),
    Operation("POST", "/v1/outcomes", "What came of many decisions", "app", list[OutcomeOf],
              [{"decision_id": "IAAAAAE…", "taken": None}], [{"status": "recorded"}]),
    Operation("GET", "/v1/experiments", "All experiments", "analyst"),
    Operation("POST", "/v1/experiments", "A new experiment; it reserves its share of the budget", "operator",
              NewExperiment, _NEW, {"name": "shop"}, 201),
    Operation("GET", _SHOP, "How an experiment stands", "analyst"),
    Operation("PATCH", _SHOP, "Items that come and go: public facts", "operator",
              Changes, {"add_items": ["white"], "retire_items": ["green"]}),
    Operation("GET", f"{_SHOP}/status", "How an experiment stands", "analyst"),
    Operation("GET", f"{_SHOP}/account", "What was spent, by period, and composed over periods", "analyst"),
    Operation("GET", f"{_SHOP}/releases", "What was released, newest first (?segment=NAME for one segment)",
              "analyst"),
    Operation("GET", f"{_SHOP}/epochs", "Its epochs, newest first: one a period", "analyst", None, None,
              {"epochs": [{"epoch": 0, "releases": 12, "first_release": 1793491200.0,
                           "last_release": 1793494800.0, "period": "2026-11"}]}),
    Operation("GET", f"{_SHOP}/items", "The catalogue", "analyst"),
    Operation("POST", f"{_SHOP}/pause", "Serve no more decisions for now", "operator"),
    Operation("POST", f"{_SHOP}/resume", "Go on", "operator"),
    Operation("GET", "/v1/populations", "All populations, with their budgets", "analyst"),
    Operation("POST", "/v1/populations", "People with one budget per period", "operator", NewPopulation,
              {"name": "visitors", "epsilon": 1.0, "max_rounds_per_person": 1, "period": "month"},
              {"name": "visitors"}, 201),
    Operation("GET", "/v1/populations/{population}/account", "What was spent about these people", "analyst"),
    Operation("POST", "/v1/plan", "What to expect before anything is spent", "analyst", PlanRequest,
              {"items": 200, "k": 5, "people": 10000, "epsilon": 1.0, "feedback": "taken"}),
    Operation("DELETE", "/v1/people/{person}", "Forget what waits to be learned about somebody"
              " (?population=NAME)", "operator", None, None, {"status": "erased"}),
    Operation("GET", "/v1/keys", "API keys, without their secrets", "admin"),
    Operation("POST", "/v1/keys", "A new API key, shown this once", "admin", NewKey,
              {"name": "shop front", "role": "app", "experiments": ["shop"]},
              {"id": "0c1d2e3f4a5b", "key": "dk_…"}, 201),
    Operation("DELETE", "/v1/keys/{key}", "End an API key", "admin"),
    Operation("POST", f"{SCOPED}/rank", "Azure Personalizer's verbs: rank actions of the catalogue", "app",
              RankRequest, {"actions": [{"id": "red", "features": [{}]}, {"id": "blue", "features": [{}]}],
                            "excludedActions": [], "eventId": "visit 17", "deferActivation": False},
              {"ranking": [{"id": "blue", "probability": 1.0}, {"id": "red", "probability": 0.0}],
               "eventId": "visit 17", "rewardActionId": "blue"}, 201),
    Operation("POST", f"{SCOPED}/events/{{event}}/reward", "What an event was worth, from 0 to bound", "app",
              RewardRequest, {"value": 1.0}, None, 204),
    Operation("POST", f"{SCOPED}/events/{{event}}/activate", "An event with deferred activation was seen",
              "app", None, None, None, 204),
    Operation("GET", f"{SCOPED}/configurations/service", "How rewards are waited for", "app"),
    Operation("GET", "/health/live", "Whether the process lives", ""),
    Operation("GET", "/health/ready", "Whether it can serve", ""),
)  # fmt: skip


def description() -> dict[str, Any]:
    """The whole description, as OpenAPI has it."""
    kinds = [one.takes for one in OPERATIONS if one.takes is not None]
    schemas, parts = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    by_kind = {str(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for one in OPERATIONS:
        entry: dict[str, Any] = {
            "summary": one.summary,
            "responses": {
                str(one.status): {
                    "description": "Done",
                    "content": {"application/json": _example(one.answers)},
                },
                "4XX": {
                    "description": "Refused",
                    "content": {
                        "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                    },
                },
            },
        }
        names = [part[1:-1] for part in one.path.split("/") if part.startswith("{")]
        if names:
            entry["parameters"] = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
            ]
        if one.role:
            entry["security"] = [{"key": []}]
            entry["description"] = f"Role: {one.role} or one that may more."
        if one.takes is not None:
            content = {"schema": by_kind[str(one.takes)]} | _example(one.example)
            entry["requestBody"] = {"required": True, "content": {"application/json": content}}
        paths.setdefault(one.path, {})[one.method.lower()] = entry
    problem = {
        "type": "object",
        "description": "RFC 9457. Texts are fixed: none repeats what was sent.",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "discreet", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {**parts, "Problem": problem},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _done(one: Operation) -> dict[str, Any]:
    if one.status == 204:
        return {"description": "Done"}
    return {"description": "Done", "content": {"application/json": _example(one.answers)}}


def _example(value: Any) -> dict[str, Any]:
    return {} if value is None else {"example": value}


def shown(value: Any) -> str:
    """An example as people read it."""
    return msgspec.json.format(msgspec.json.encode(value)).decode()
