"""API Gateway calls this for a live stream of the log: server-sent events, held until there are some.

The runtime streams no answers. Each is a stream that ends: the client's own reconnecting, with the id of the last event that
it saw, makes one of them (``retry`` says how soon).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from blsflow.bootstrap import application
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.log import LiveQuery, read_place, read_place_or_id
from blsflow.flow.budget import Budget
from blsflow.flow.control import UnknownPolicy
from blsflow.flow.live import TooManyStreams, UnknownEvent
from blsflow.observability import summarized
from blsflow.ports.errors import StoreUnavailable
from blsflow.web.caller import Scope, caller_of, require_fit_for_address
from blsflow.web.problems import Problem, as_response, unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blsflow.flow.live import LiveAnswer

_HOLD_SEC = 25
"""Below API Gateway's 30 s, with time for a new connection to the database before and a look after."""
_LAST_LOOK_SEC = 2
"""So long after the hold the database may answer; two seconds more, and a silent one is told of (`SILENCE_SEC`)."""
_RETRY_MS: Final = 500
_PARAMETERS: Final = {"policy_id", "after_id", "backfill", "texts", "access_token"}
_DATA: Final = "data: "
_IN_BROWSER: Final = "/stream/browser"
_FULL_RETRY_SEC: Final = 10


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer with events, or with none and the place to go on from; a refusal is a problem document."""
    request_id = str(event.get("requestContext", {}).get("requestId", "-"))
    response = _answered(event, context, request_id)
    response["headers"]["x-request-id"] = request_id
    return response


def _answered(event: Mapping[str, Any], context: object, request_id: str) -> dict[str, Any]:
    try:
        with summarized("live", context) as line:
            line["api_request_id"] = request_id
            try:
                return _answer(event, line)
            except Problem as refusal:
                line["refused"] = refusal.code
                return as_response(refusal, request_id)
    except Exception:  # noqa: BLE001 - logged by the line; its cause is not the caller's
        return as_response(Problem("internal_error", "the request failed here"), request_id)


def _answer(event: Mapping[str, Any], line: dict[str, object]) -> dict[str, Any]:
    hold, whole = Budget(_HOLD_SEC), Budget(_HOLD_SEC + _LAST_LOOK_SEC)
    settings = application().settings
    caller = caller_of(event, tenant_claim=settings.tenant_claim, scope_prefix=settings.scope_prefix)
    caller.require(Scope.READ)
    if str(event.get("rawPath", "")).endswith(_IN_BROWSER):
        require_fit_for_address(event, caller)
    line["tenant_id"] = caller.tenant_id
    try:
        query, in_words = _query_of(event), _flag(event, "texts")
        line["policy_id"] = query.policy_id
        answer = application().live(query, tenant_id=caller.tenant_id, hold=hold, whole=whole)
    except InvalidDocument as fault:
        errors = [{"field": fault.field, "cause": fault.cause}]
        raise Problem("malformed_request", f"{fault.field}: {fault.cause}", errors=errors) from fault
    except UnknownPolicy as fault:
        raise Problem(
            "not_found", f"there is no policy {fault.policy_id}", policy_id=fault.policy_id
        ) from fault
    except UnknownEvent as fault:
        raise Problem("not_found", str(fault), after_id=fault.event_id) from fault
    except TooManyStreams as fault:
        raise Problem(
            "too_many_streams",
            str(fault),
            headers={"retry-after": str(_FULL_RETRY_SEC)},
            full_of=fault.full_of,
            most=fault.most,
        ) from fault
    except StoreUnavailable as fault:
        line["failures"] = {"store": str(fault)}
        raise unavailable(fault, retry_after_sec=5) from fault
    line |= {"events": answer.events, "lost": str(answer.lost) if answer.lost else None}
    return {
        "statusCode": 200,
        "headers": {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store"},
        "body": _body(answer, in_words=in_words),
    }


def _body(answer: LiveAnswer, *, in_words: bool) -> str:
    """Write the answer as a stream: what the client keeps as its last id is in every one of them."""
    begin = f"retry: {_RETRY_MS}\n\n"
    if answer.lost is not None:
        told = f'{{"code":"position_lost","params":{{"position":"{answer.lost}"}}}}'
        return f"{begin}event: reset\nid: {answer.place}\ndata: {told}\n\n"
    frames = _with_texts(answer.frames) if in_words else answer.frames
    return begin + (frames or f": nothing new\nid: {answer.place}\n\n")


def _with_texts(frames: str) -> str:
    """Put what each event says, in both languages, beside its code; only who asks for texts pays for them (R9.4)."""
    from blsflow.domain.texts import render  # noqa: PLC0415 - see above

    lines = frames.split("\n")
    for number, line in enumerate(lines):
        if line.startswith(_DATA):
            told = json.loads(line.removeprefix(_DATA))
            said = render(told["code"], told["params"])
            told["texts"] = {"en": said.en, "zh": said.zh}
            lines[number] = _DATA + json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return "\n".join(lines)


def _query_of(event: Mapping[str, Any]) -> LiveQuery:
    """Read what is asked for; the id that a client comes back with goes before the one that it began with."""
    given: Mapping[str, str] = event.get("queryStringParameters") or {}
    for name in given:
        if name not in _PARAMETERS:
            raise InvalidDocument(
                field=name,
                value=given[name][:100],
                cause="is no parameter of a stream: use policy_id, after_id, backfill, texts",
            )
    seen = (event.get("headers") or {}).get("last-event-id", "").strip()
    after_id = given.get("after_id", "")
    after = (
        read_place("Last-Event-ID", seen)
        if seen
        else read_place_or_id("after_id", after_id)
        if after_id
        else None
    )
    return LiveQuery(
        policy_id=_number(given, "policy_id"), after=after, backfill=_number(given, "backfill") or 0
    )


def _flag(event: Mapping[str, Any], name: str) -> bool:
    text = (event.get("queryStringParameters") or {}).get(name, "false")
    if text not in {"true", "false"}:
        raise InvalidDocument(field=name, value=text[:100], cause="use true or false")
    return bool(text == "true")


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):  # noqa: PLR2004 - digits of the largest id
        raise InvalidDocument(field=name, value=text[:100], cause="use a whole number")
    return int(text)
