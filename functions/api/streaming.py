"""The live stream in the API's document: another function answers it, and this says how (R9.3)."""

from __future__ import annotations

from typing import Any, Final

_EVENTS: Final = (
    "Server-sent events `log`, `progress` and `tick`, each with its place as `id`; `reset` when a place is not there any"
    " more: read anew, and go on from its id. An answer ends as soon as there were events, or after 25 s without; the client"
    " comes back with the last id that it saw, as `EventSource` does by itself, and nothing is lost or repeated."
)


def _parameter(
    name: str, schema: dict[str, Any], description: str, *, place: str = "query"
) -> dict[str, Any]:
    return {"name": name, "in": place, "required": False, "schema": schema, "description": description}


_PLACE: Final = {"type": "string", "pattern": "^([0-9]{1,20}-)?[0-9]{1,19}$"}
_PARAMETERS: Final = [
    _parameter(
        "policy_id", {"type": "integer", "minimum": 1}, "only this policy's events; else the tenant's"
    ),
    _parameter("after_id", _PLACE, "go on after this place, or this event; else from now"),
    _parameter(
        "backfill", {"type": "integer", "minimum": 0, "maximum": 1000}, "begin with so many of the newest"
    ),
    _parameter("texts", {"type": "boolean"}, "with what each event says, in both languages"),
    _parameter("last-event-id", _PLACE, "the last id that was seen; goes before after_id", place="header"),
]
_TOKEN: Final = _parameter(
    "access_token",
    {"type": "string"},
    "a token for schedule:read alone that expires within 15 minutes: EventSource can set no header",
)


def _operation(operation_id: str, parameters: list[dict[str, Any]], *problems: str) -> dict[str, Any]:
    return {
        "summary": "Follow the log live.",
        "description": _EVENTS,
        "operationId": operation_id,
        "tags": ["logs"],
        "parameters": parameters,
        "security": [{"jwt": ["schedule:read"]}],
        "x-scope": "schedule:read",
        "x-function": "live",
        "x-makes": {},
        "x-problems": ["not_found", "too_many_streams", *problems],
        "responses": {
            "200": {
                "description": "Some events, or none yet",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            }
        },
    }


def stream_paths() -> dict[str, Any]:
    """Return the stream's paths as the document has them."""
    return {
        "/stream": {"get": _operation("follow_log", _PARAMETERS)},
        "/stream/browser": {
            "get": _operation("follow_log_in_browser", [*_PARAMETERS, _TOKEN], "unfit_token")
        },
    }
