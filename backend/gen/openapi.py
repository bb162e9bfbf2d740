"""The OpenAPI document of all routes, made with drf-spectacular.

Flink's routes are described under /v1, where they also are without the prefix. Every warning of drf-spectacular is an
error, and so is a view's method without a declared `Operation`.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from typing import Any

from django.http import HttpRequest
from drf_spectacular.drainage import GENERATOR_STATS, reset_generator_stats
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import EndpointEnumerator, SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent, build_mock_request
from drf_spectacular.settings import patched_settings
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from drf_spectacular.validation import validate_schema

from backend.accounts.authentication import BearerAuthentication, CookieAuthentication
from backend.accounts.roles import Role
from backend.contract.operation import Operation, operation_of
from backend.contract.schema import ContractError, Schema, Schemas

PREFIXES = ("/api/v1/", "/v1/")
"""Of the routes that are described."""


def _mock_request(method: str, path: str, view: Any, original: Any, **kwargs: Any) -> Any:
    # views ask for the method before DRF has made its own request
    view.request = HttpRequest()
    view.request.method = method
    return build_mock_request(method, path, view, original, **kwargs)


_SETTINGS = {
    "TITLE": "Tidemark",
    "DESCRIPTION": "Flink's REST API under /v1, which is served without the prefix, too; Tidemark's own under /api/v1.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/(api/)?v1",
    "POSTPROCESSING_HOOKS": [],
    "GET_MOCK_REQUEST": _mock_request,
}


class BearerScheme(OpenApiAuthenticationExtension):
    """A user's token."""

    target_class = BearerAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> Schema:
        return {"type": "http", "scheme": "bearer"}


class CookieScheme(OpenApiAuthenticationExtension):
    """A browser's session."""

    target_class = CookieAuthentication
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> Schema:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "tidemark-session",
            "description": "Writes also need the header X-CSRFToken with the value of the cookie csrftoken.",
        }


class Endpoints(EndpointEnumerator):
    """The routes under `PREFIXES`, without the one that answers 404 to all other paths."""

    def should_include_endpoint(self, path: str, callback: Any) -> bool:
        is_described = path.startswith(PREFIXES) and not path.endswith("{path}")
        return is_described and super().should_include_endpoint(path, callback)


class DeclaredSchema(AutoSchema):
    """Describes a method by the `Operation` that is declared for it."""

    @property
    def declared(self) -> Operation:
        found = operation_of(getattr(self.view, self.method.lower()))
        if found is None:
            raise ContractError(f"{self.method} {self.path} declares no operation")
        return found

    def get_operation_id(self) -> str:
        return re.sub(r"\W+", "_", f"{self.method.lower()}{self.path}").strip("_")

    def get_description(self) -> str:
        # of the class itself, not of a base
        return inspect.cleandoc(type(self.view).__dict__.get("__doc__") or "")

    def get_extensions(self) -> Schema:
        role = self.view.roles.get(self.method, Role.VIEWER)
        return {"x-role": role.group_name}

    def get_tags(self) -> list[str]:
        return ["Tidemark" if self.path.startswith("/api/") else "Flink"]

    def get_override_parameters(self) -> list[Any]:
        query = self.declared.query
        if query is None:
            return []
        schemas = Schemas()
        schemas.of(query)
        schema = schemas.components[query.__name__]
        return [
            OpenApiParameter(
                name,
                {key: value for key, value in part.items() if key != "description"},
                OpenApiParameter.QUERY,
                required=name in schema.get("required", ()),
                description=part.get("description", ""),
            )
            for name, part in schema["properties"].items()
        ]

    def get_request_serializer(self) -> Any:
        body = self.declared.body
        return None if body is None else {self.declared.media_type: self._schema(body)}

    def get_response_serializers(self) -> Any:
        declared = self.declared
        answers = {"default": OpenApiResponse(self._schema(self.view.errors), description="An error.")}
        if declared.answer is None:
            return answers
        success = OpenApiResponse(self._schema(declared.answer))
        return {(str(declared.status), declared.answer_media_type): success, **answers}

    def _get_request_body(self, direction: Any = "request") -> Any:
        return None if self.declared.body is None else super()._get_request_body(direction)

    def _is_list_view(self, serializer: Any = None) -> bool:
        return False

    def _schema(self, kind: Any) -> Schema:
        schemas: Schemas = self.registry.schemas
        return schemas.of(kind)


class Generator(SchemaGenerator):
    """Describes all routes.

    Args:
        schemas: collects the components.
    """

    endpoint_inspector_cls = Endpoints

    def __init__(self, schemas: Schemas) -> None:
        super().__init__()
        self.registry.schemas = schemas

    def parse(self, input_request: Any, public: bool) -> Any:
        paths = super().parse(input_request, public)
        for name, component in self.registry.schemas.components.items():
            registered = ResolvedComponent(name, ResolvedComponent.SCHEMA, component, object=name)
            self.registry.register_on_missing(registered)
        return paths

    def create_view(self, callback: Any, method: Any, request: Any = None) -> Any:
        view = super().create_view(callback, method, request)
        self._set_schema_to_view(view, DeclaredSchema())
        return view


def openapi_document(schemas: Schemas) -> dict[str, Any]:
    """Return the OpenAPI document.

    Args:
        schemas: types that it has already, such as those of live topics, become components, too.

    Raises:
        ContractError: drf-spectacular warns of something, or the document is not one.
    """
    warnings = io.StringIO()
    with patched_settings(_SETTINGS), contextlib.redirect_stderr(warnings):
        reset_generator_stats()
        document: dict[str, Any] = Generator(schemas).get_schema(public=True)
        found = [text for cache in (GENERATOR_STATS._warn_cache, GENERATOR_STATS._error_cache) for text in cache]
        if found:
            raise ContractError("\n".join(found))
        validate_schema(document)
    return document
