"""Following open work a page at a time, whatever it is: claim, ask side by side, write what came back in time.

A page is claimed before the one before it is written, so that the service is asked meanwhile.

One slow or hanging service takes no more than its budget: what it did not answer by then stays claimed for a while and is
asked again. One answer that cannot be written takes no other with it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from blsflow.ports.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future
    from datetime import datetime
    from uuid import UUID

    from blsflow.flow.budget import Budget

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_WRITING_SHARE: Final = 0.2
"""Of a page's time, kept for writing what was answered."""


class Following(Protocol[Item, Answer]):
    """One kind of open work."""

    def claim(self) -> tuple[datetime, Sequence[Item]]:
        """Claim a page that is due, with the time at which it was claimed."""

    def ask(self, item: Item) -> Answer:
        """Ask the service outside; its faults are answers too."""

    def write(self, asked_at: datetime, answered: Sequence[tuple[Item, Answer]]) -> None:
        """Write, in one transaction, what the answers settle."""

    def id_of(self, item: Item) -> UUID:
        """Return the attempt's id."""


def follow(
    following: Following[Item, Answer], *, concurrency: int, budget: Budget
) -> tuple[int, dict[str, Exception]]:
    """Go through the pages while there is time; return how many were answered, and what could not be written."""
    answered_in_all = 0
    failures: dict[str, Exception] = {}
    pool = ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="read-back")

    def claim() -> tuple[datetime, dict[Future[Answer], Item]] | None:
        if not budget.is_left():
            return None
        asked_at, items = following.claim()
        return (asked_at, {pool.submit(following.ask, item): item for item in items}) if items else None

    try:
        page = claim()
        while page is not None:
            ahead = claim()  # asked while this page is written
            asked_at, asked = page
            done, late = wait(asked, timeout=budget.left_sec() * (1 - _WRITING_SHARE))
            for future in late:
                future.cancel()
            answered = []
            for future in done:
                try:
                    answered.append((asked[future], future.result()))
                except Exception as error:  # noqa: BLE001 - whatever is wrong with one attempt stays with it
                    failures[f"attempt {following.id_of(asked[future])}"] = error
            failures |= _write(following, asked_at, answered)
            answered_in_all += len(answered)
            page = ahead
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return answered_in_all, failures


def _write(
    following: Following[Item, Answer], asked_at: datetime, answered: Sequence[tuple[Item, Answer]]
) -> dict[str, Exception]:
    """Write a page at once; if that fails, each answer by itself, so that only a bad one is left out."""
    if not answered:
        return {}
    try:
        following.write(asked_at, answered)
    except StoreUnavailable:
        raise
    except Exception:  # noqa: BLE001 - whichever answer it was, the others are written
        failures: dict[str, Exception] = {}
        for item, answer in answered:
            try:
                following.write(asked_at, [(item, answer)])
            except StoreUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one attempt stays with it
                failures[f"attempt {following.id_of(item)}"] = error
        return failures
    return {}
