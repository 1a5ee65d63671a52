"""Open a price feed by the name that the deployment's settings give it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from blsflow.adapters.profit.contract import ContractFeed
from blsflow.adapters.profit.minerstat import MinerstatFeed
from blsflow.adapters.profit.whattomine import WhatToMineCalculateFeed, WhatToMineFeed
from blsflow.domain.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blsflow.domain.prices import ProfitSnapshot


class Feed(Protocol):
    """A price feed, to be asked again only after `min_interval_sec`: the public ones have monthly quotas."""

    source: str
    min_interval_sec: float

    def fetch(self) -> ProfitSnapshot:
        """Ask the source once; raise `FeedUnavailable` when it gives no snapshot."""


def open_feed(  # noqa: PLR0913 - one for each setting of a feed
    kind: str,
    *,
    base_url: str | None,
    api_key: str | None,
    timeout_sec: float,
    min_interval_sec: float,
    algorithms: Sequence[str] = (),
) -> Feed:
    """Return the feed of a kind: ``contract``, ``whattomine`` or ``minerstat``.

    Without a `base_url` the public feeds are asked at their own addresses. With `algorithms` (in WhatToMine's
    spelling, such as ``sha256``) WhatToMine is asked for these by its API with a key, otherwise for its
    public lists.

    Raises:
        InvalidDocument: the kind is unknown, or an argument that it needs is missing or cannot be meant.
    """
    key = None if api_key is None else api_key.strip()
    if key is not None and not (key.isascii() and key.isprintable()):
        raise InvalidDocument(
            field="api_key", value="(not shown)", cause="has characters that no header holds"
        )
    match kind:
        case "contract":
            if base_url is None:
                raise InvalidDocument(
                    field="base_url", value=None, cause="the profit service's address is needed"
                )
            return ContractFeed(base_url, key, timeout_sec, min_interval_sec=min_interval_sec)
        case "whattomine" if algorithms:
            return WhatToMineCalculateFeed(
                base_url or WhatToMineFeed.PUBLIC_URL,
                key,
                timeout_sec,
                min_interval_sec=min_interval_sec,
                algorithms=algorithms,
            )
        case "whattomine":
            return WhatToMineFeed(
                base_url or WhatToMineFeed.PUBLIC_URL, key, timeout_sec, min_interval_sec=min_interval_sec
            )
        case "minerstat":
            return MinerstatFeed(
                base_url or MinerstatFeed.PUBLIC_URL, key, timeout_sec, min_interval_sec=min_interval_sec
            )
        case _:
            raise InvalidDocument(field="kind", value=kind, cause="use contract, whattomine or minerstat")
