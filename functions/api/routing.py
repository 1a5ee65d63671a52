"""The resolver, and how an operation is declared: its scope, its noun and the problems that it may answer with.

Scopes are held here rather than by API Gateway's routes, so that one declaration is enforced, documented and tested;
the gateway's authorizer has verified the token before anything here runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.middlewares.openapi_validation import (
    OpenAPIRequestValidationMiddleware,
    OpenAPIResponseValidationMiddleware,
)

from blsflow.bootstrap import application
from blsflow.web.caller import caller_of
from blsflow.web.problems import PROBLEMS, Problem

from .reading import strict_json
from .writing import as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from blsflow.adapters.postgres.store import TenantStore
    from blsflow.web.caller import Caller, Scope

PREFIX: Final = "/api/v1/smart-schedule"
_CALLER: Final = "caller"

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")

_CHECKED_REQUESTS: Final = OpenAPIRequestValidationMiddleware()  # type: ignore[no-untyped-call]
_CHECKED_ANSWERS: Final = OpenAPIResponseValidationMiddleware(has_response_validation_error=True)
"""An answer that is not as documented is a fault of ours."""

app: Final = APIGatewayHttpResolver(
    enable_validation=True,
    response_validation_error_http_code=500,
    strip_prefixes=[PREFIX],
    json_body_deserializer=strict_json,
    serializer=as_json,
)


def operation(  # noqa: PLR0913 - all that is said of an operation
    method: str,
    path: str,
    *,
    scope: Scope | None,
    tag: str,
    status: int = 200,
    problems: Sequence[str] = (),
    makes: Mapping[str, str] | None = None,
) -> Callable[[F], F]:
    """Declare an operation; its function's docstring is its description, its annotations are what is validated.

    ``problems`` are the codes it may answer with besides those that any operation may. ``makes`` tells where its answer
    has the ids that other operations take: by path parameter, a JSON pointer into the body.
    """

    def declare(function: F) -> F:
        summary, _, description = (function.__doc__ or "").partition("\n")
        unknown = [code for code in problems if code not in PROBLEMS]
        if unknown:
            message = f"{function.__name__} names problems that there are none of: {unknown}"
            raise ValueError(message)
        app.route(
            path,
            method,
            summary=summary.strip(),
            description=" ".join(description.split()) or None,
            operation_id=function.__name__,
            tags=[tag],
            status_code=status,
            security=None if scope is None else [{"jwt": [str(scope)]}],
            openapi_extensions={
                "x-problems": sorted(problems),
                "x-makes": dict(makes or {}),
                **({} if scope is None else {"x-scope": str(scope)}),
            },
            # in this order: who may not do it is not told what would be wrong with the request
            enable_validation=False,
            middlewares=[_allow(scope), _CHECKED_REQUESTS, _CHECKED_ANSWERS],
        )(function)
        return function

    return declare


def caller() -> Caller:
    """Return who calls in this request; the `Problem` ``unauthorized`` if nobody does."""
    found: Caller | None = app.context.get(_CALLER)
    if found is None:
        settings = application().settings
        found = caller_of(
            app.current_event.raw_event,
            tenant_claim=settings.tenant_claim,
            scope_prefix=settings.scope_prefix,
        )
        app.context[_CALLER] = found
    return found


def store() -> TenantStore:
    """Return the database as the caller's tenant sees it."""
    return application().store.of_tenant(caller().tenant_id)


def answer(
    body: T, *, status: int = 200, version: int | None = None, location: str | None = None
) -> Response[T]:
    """Answer with a document; ``version`` becomes its ETag, ``location`` is below the API's prefix."""
    headers = {"cache-control": "no-store"}
    if version is not None:
        headers["etag"] = f'"{version}"'
    if location is not None:
        headers["location"] = PREFIX + location
    return Response(status_code=status, content_type="application/json", body=body, headers=headers)


def named_version(if_match: str | None) -> int:
    """Read the version that a change names; a `Problem` if it names none, or what was never an ETag of ours."""
    if if_match is None:
        raise Problem("precondition_required", "send the ETag that was read as If-Match")
    text = if_match.strip()
    digits = text[1:-1]
    if text != f'"{digits}"' or not digits.isascii() or not digits.isdigit() or len(digits) > 18:  # noqa: PLR2004 - bigint
        raise Problem("version_conflict", "If-Match has to be an ETag as it was read: read it again")
    return int(digits)


def _allow(scope: Scope | None) -> Callable[..., Response[Any]]:
    """Let only tokens with the scope pass, and only parameters that the operation has."""

    def allowed(resolver: APIGatewayHttpResolver, next_middleware: Callable[..., Any]) -> Response[Any]:
        if scope is not None:
            caller().require(scope)
        if not resolver.current_event.path.isprintable():  # a route also matches with a line's end behind it
            raise Problem("not_found", "there is no such path")
        known = {field.alias for field in resolver.context["_route"].dependant.query_params}
        for name in resolver.current_event.query_string_parameters:
            if name not in known:
                raise Problem(
                    "invalid_request",
                    f"query.{name}: there is no such parameter",
                    errors=[{"field": f"query.{name}", "cause": "there is no such parameter"}],
                )
        if resolver.context["_route"].dependant.body_params:
            _require_json(resolver.current_event.headers.get("content-type", ""))
        response: Response[Any] = next_middleware(resolver)
        return response

    return allowed


def _require_json(content_type: str) -> None:
    """Take a body as JSON only, and only from who says that it is: forms are what browsers send without asking."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise Problem("unsupported_media_type", "send application/json, and say so in content-type")


@app.not_found
def _not_found(_error: NotFoundError) -> Response[Any]:
    """Say that there is no such path, or that it takes other methods."""
    path = app.current_event.path.removeprefix(PREFIX)
    methods = sorted(
        {route.method for route in app._static_routes + app._dynamic_routes if route.rule.match(path)}  # noqa: SLF001 - it offers no other way to ask
    )
    if methods:
        raise Problem(
            "method_not_allowed",
            f"{path} takes {', '.join(methods)}",
            headers={"allow": ", ".join(methods)},
            methods=methods,
        )
    raise Problem("not_found", "there is no such path")
