"""The description of the HTTP interface: every answer of every route, with examples."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from nearveil.server import models
from nearveil.server.problems import (
    PROBLEM_TYPE,
    Problem,
    chain_broken,
    conflict,
    cursor_expired,
    forbidden,
    invalid,
    malformed_json,
    missing_scope,
    not_found,
    not_kept,
    not_logged,
    not_ready,
    outside_region,
    problem_body,
    store_ahead,
    too_busy,
    too_large,
    too_many_requests,
    unauthorised,
    wrong_media_type,
)
from nearveil.server.scopes import ROUTES, Rule, Scope

DESCRIPTION = """People report where they are; others ask who is near; answers are made from noisy locations.

A report is perturbed on receipt, and only the noisy location is kept. It is published at the epoch boundary. Answers
are ranked ids, without distances and coordinates. Errors are problem details (RFC 9457) and repeat nothing that was
sent.
"""
PLATFORM = "platformKey"
PERSON = "personToken"
_SECURITY_SCHEMES = {
    PLATFORM: {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "nvk_…",
        "description": (
            "A platform's key, made with 'nearveil keys platform' or POST /v1/platform-keys/{name}. A route names the "
            "scopes that the key needs, all of them."
        ),
    },
    PERSON: {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "nvt_…",
        "description": "A person's token, from POST /v1/people/{id}/tokens.",
    },
}
_PROBLEM_SCHEMA = {
    "type": "object",
    "title": "Problem",
    "description": "Problem details as in RFC 9457.",
    "required": ["type", "title", "status", "detail"],
    "additionalProperties": False,
    "properties": {
        "type": {"type": "string", "format": "uri", "examples": ["urn:nearveil:problem:not-found"]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "reason": {"type": "string", "description": "A word that says why, where programs should know."},
        "retry_after_s": {
            "type": "integer",
            "description": "Of one report of many: when to send it again. Elsewhere the header Retry-After says so.",
        },
    },
}
_EXAMPLES: tuple[Problem, ...] = (
    malformed_json(),
    unauthorised(),
    forbidden(),
    missing_scope(Scope.ASK),
    not_found(),
    conflict(),
    chain_broken(),
    cursor_expired(),
    too_large(65_536),
    wrong_media_type(),
    invalid(),
    outside_region(),
    too_many_requests(1.0),
    not_ready(),
    not_kept(),
    not_logged(),
    store_ahead(),
    too_busy(),
)
_REQUESTS: tuple[type[BaseModel], ...] = (
    models.Place,
    models.LocationReport,
    models.LocationReports,
    models.Question,
    models.PeopleToAdd,
    models.TagsToSet,
    models.PeopleToBlock,
    models.TokenRequest,
    models.KeyRequest,
)

ANYBODY = (401, 429, 503)
"""Statuses of problems that every route with a key can have."""
WITH_BODY = (400, 413, 415, 422)
"""Statuses of problems that every route with a body can have."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the answers of a route that are problems."""
    return {status: _problem_answer(status) for status in sorted(set(statuses))}


def takes(model: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """Return the body that a route takes."""
    content = {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}, "example": example}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def describe(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """Return what makes the description of an application, once."""

    def openapi() -> dict[str, Any]:
        if not app.openapi_schema:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    return openapi


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title="Nearveil",
        version=metadata.version("nearveil"),
        description=DESCRIPTION,
        routes=app.routes,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    _, requests = models_json_schema(
        [(model, "validation") for model in _REQUESTS], ref_template="#/components/schemas/{model}"
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas.update(requests["$defs"])
    schemas["Problem"] = _PROBLEM_SCHEMA
    # FastAPI's own errors are never sent.
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = _SECURITY_SCHEMES
    for (method, path), rule in ROUTES.items():
        operation = document["paths"].get(path, {}).get(method.lower())
        if operation is not None:
            operation["security"] = _security(rule)
    return document


def _security(rule: Rule) -> list[dict[str, list[str]]]:
    """Return which keys a route takes; a platform's with the scopes that it needs."""
    platform = {PLATFORM: [scope.value for scope in rule.scopes]}
    return [platform, {PERSON: []}] if rule.person else [platform]


def _problem_answer(status: int) -> dict[str, Any]:
    examples = [problem for problem in _EXAMPLES if problem.status == status]
    answer: dict[str, Any] = {
        "description": "; or ".join(problem.title for problem in examples),
        "content": {
            PROBLEM_TYPE: {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "examples": {problem.name: {"value": json.loads(problem_body(problem))} for problem in examples},
            }
        },
    }
    headers = {name for problem in examples for name in problem.headers}
    if headers:
        answer["headers"] = {name: {"schema": {"type": "string"}} for name in sorted(headers)}
    return answer
