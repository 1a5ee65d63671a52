"""What the feeds share: asking once, and reading rows so that a bad one spoils no other."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, ValidationError, ValidationInfo

from blsflow.adapters.answers import words
from blsflow.adapters.http import HttpAnswer, HttpFailure, JsonHttp
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.prices import FeedFault, FeedUnavailable, RawPrice, RejectedRow, resolve_key
from blsflow.domain.units import parse_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MAX_TEXT_CHARS = 200
_REFUSALS: dict[int, FeedFault] = {
    HTTPStatus.UNAUTHORIZED: FeedFault.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN: FeedFault.UNAUTHORIZED,
    HTTPStatus.PAYMENT_REQUIRED: FeedFault.QUOTA_EXHAUSTED,
    HTTPStatus.TOO_MANY_REQUESTS: FeedFault.QUOTA_EXHAUSTED,
}


class FeedModel(BaseModel):
    """A document of a feed: types are taken as they are, members that we do not use may come and go."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


def _number(value: object, info: ValidationInfo) -> float:
    return parse_number(value, from_string=True, field=info.field_name or "number")


def _instant_from_iso(value: object) -> datetime:
    if not isinstance(value, str):
        raise ValueError("is not an RFC 3339 time")  # noqa: TRY004 - pydantic collects ValueErrors
    instant = datetime.fromisoformat(value)
    if instant.tzinfo is None:
        raise ValueError("has no offset from UTC")
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("is at the end of all times") from error


def _instant_from_unix(value: object) -> datetime:
    if type(value) is not int or value < 0:
        raise ValueError("is not a time in whole seconds since 1970")
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, OSError) as error:
        raise ValueError("is out of range") from error


# For feeds that write a number now as a number, now as a string; always finite.
NumberOrString = Annotated[float, BeforeValidator(_number)]
IsoInstant = Annotated[datetime, PlainValidator(_instant_from_iso)]
UnixInstant = Annotated[datetime, PlainValidator(_instant_from_unix)]

Row = TypeVar("Row", bound=FeedModel)


def ask(http: JsonHttp, method: str, path: str, *, body: object = None) -> HttpAnswer:
    """Return a 2xx answer; everything else is a `FeedUnavailable` with its reason."""
    try:
        answer = http.request(method, path, body=body)
    except HttpFailure as failure:
        raise FeedUnavailable(
            FeedFault(failure.fault.value), f"{method} {http.address}{path}: {failure.detail}"
        ) from failure
    if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        reason = _REFUSALS.get(answer.status, FeedFault.HTTP_STATUS)
        raise FeedUnavailable(reason, f"{method} {http.address}{path}: http {answer.status}")
    return answer


def wrong_shape(cause: str) -> FeedUnavailable:
    """Return the error of an answer that is JSON of another shape than the feed's."""
    return FeedUnavailable(FeedFault.WRONG_SHAPE, cause)


def read_document(model: type[Row], document: object) -> Row:
    """Read the frame of an answer, without which no row can be understood."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        field, cause = _first_problem(error)
        raise wrong_shape(f"{field}: {cause}") from error


def read_rows(
    documents: Iterable[tuple[str, object]], model: type[Row], price: Callable[[str, Row], RawPrice]
) -> tuple[tuple[RawPrice, ...], tuple[RejectedRow, ...]]:
    """Read each (name, row) by itself into a price, or into a rejection under that name.

    Rows that claim the same key, whatever its case, are all rejected: nothing says which one is right.
    """
    prices, rejected = [], []
    for raw_name, document in documents:
        name = words(raw_name)
        try:
            row = price(raw_name, model.model_validate(document))
            _refuse_unprintable(row)
            prices.append(row)
        except ValidationError as error:
            field, cause = _first_problem(error)
            rejected.append(RejectedRow(key=name, field=field, cause=cause))
        except InvalidDocument as error:
            rejected.append(RejectedRow(key=name, field=error.field, cause=error.cause))
    claims = Counter(resolve_key(row.key, {}) for row in prices)
    rejected += [
        RejectedRow(key=key, field="key", cause=f"occurs {count} times")
        for key, count in claims.items()
        if count > 1
    ]
    return tuple(row for row in prices if claims[resolve_key(row.key, {})] == 1), tuple(rejected)


def _refuse_unprintable(row: RawPrice) -> None:
    """Refuse texts that no database keeps or nobody can read: they would cost the whole snapshot."""
    texts = {"key": row.key, "unit": row.unit, "currency": row.currency, "algorithm": row.algorithm or "-"}
    texts |= {f"flags[{position}]": flag for position, flag in enumerate(row.flags)}
    for field, text in texts.items():
        if not (0 < len(text) <= _MAX_TEXT_CHARS and text.isprintable()):
            cause = f"use 1 to {_MAX_TEXT_CHARS} characters that can be shown"
            raise InvalidDocument(field=field, value=words(text), cause=cause)


def row_name(document: object, member: str, position: int) -> str:
    """Return what a row of a list calls itself, or its position if it has no such name."""
    name = document.get(member) if isinstance(document, dict) else None
    return name if isinstance(name, str) and name else f"[{position}]"


def _first_problem(error: ValidationError) -> tuple[str, str]:
    problem = error.errors(include_url=False, include_input=False)[0]
    return ".".join(str(part) for part in problem["loc"]) or "row", problem["msg"]
