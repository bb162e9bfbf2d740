"""Compares every answer of the suite's REST requests with the OpenAPI document.

Middleware of the tests' settings. An answer that the document does not describe exactly (a missing member, an
undeclared one, another type, another status) fails the test that asked for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from backend.contract.schema import Schema, Schemas
from backend.gen.files import OPENAPI

_PARAMETER = re.compile(r"<\w+:(\w+)>")


class ContractBrokenError(AssertionError):
    """An answer is not what the document says."""


class CheckedAnswers:
    """The middleware."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        view = getattr(getattr(request.resolver_match, "func", None), "cls", None)
        errors = getattr(view, "errors", None)
        if errors is None or request.resolver_match is None or "json" not in response.get("Content-Type", ""):
            return response
        called = f"{request.method} {request.get_full_path()} → {response.status_code}"
        if response.status_code >= 400:
            _check(called, Schemas().of(errors), json.loads(response.content))
            return response
        # the framework answers HEAD as GET
        method = "GET" if request.method == "HEAD" else str(request.method)
        operation = described(method, request.resolver_match.route)
        if operation is None:
            raise ContractBrokenError(f"{called}: is not in {OPENAPI.name}")
        _check_request(called, operation, response)
        answer = operation["responses"].get(str(response.status_code))
        if answer is None:
            raise ContractBrokenError(f"{called}: expected {', '.join(operation['responses'])}")
        _check(called, answer["content"]["application/json"]["schema"], json.loads(response.content))
        return response


def described(method: str, route: str) -> Schema | None:
    """Return the operation for a method and a route of Django's; None: there is none."""
    path = "/" + _PARAMETER.sub(r"{\1}", route)
    full = path if path.startswith(("/api/", "/v1/")) else f"/v1{path}"
    found: Schema | None = document()["paths"].get(full, {}).get(method.lower())
    return found


def _check_request(called: str, operation: Schema, response: HttpResponse) -> None:
    """Compare what was sent, too: it was accepted."""
    context: Mapping[str, Any] = getattr(response, "renderer_context", None) or {}
    if "request" not in context:
        return
    request = context["request"]
    parameters = {p["name"]: p for p in operation.get("parameters", ()) if p["in"] == "query"}
    for name in request.query_params:
        # what is unknown is ignored
        if name in parameters and "enum" in parameters[name]["schema"]:
            _check(f"{called}, {name}", parameters[name]["schema"], request.query_params[name])
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None and request.data:
        _check(f"{called}, its body", body["schema"], request.data, is_closed=False)


def _check(called: str, schema: Schema, value: Any, *, is_closed: bool = True) -> None:
    error = best_match(validator(json.dumps(schema), is_closed).iter_errors(value))
    if error is not None:
        raise ContractBrokenError(f"{called}, at {error.json_path}: {error.message[:500]}")


@cache
def document() -> Schema:
    """Return the committed document."""
    found: Schema = json.loads(OPENAPI.read_text(encoding="utf-8"))
    return found


@cache
def validator(schema: str, is_closed: bool = True) -> Draft202012Validator:
    """Return a validator of a schema that refers to the document's components.

    Args:
        schema: as JSON.
        is_closed: whether undeclared members are errors.
    """
    components = document()["components"]["schemas"]
    closed = {name: _closed(component) for name, component in components.items()} if is_closed else components
    return Draft202012Validator({**json.loads(schema), "components": {"schemas": closed}})


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if closed.get("type") == "object" and "additionalProperties" not in closed:
        closed["additionalProperties"] = False
    return closed
