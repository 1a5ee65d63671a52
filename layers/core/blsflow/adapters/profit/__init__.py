"""Price feeds: the profit service of our own contract, and the public feeds that miners use (R2.1)."""

from __future__ import annotations

from blsflow.adapters.profit.contract import ContractFeed
from blsflow.adapters.profit.minerstat import MinerstatFeed
from blsflow.adapters.profit.opening import Feed, open_feed
from blsflow.adapters.profit.whattomine import WhatToMineCalculateFeed, WhatToMineFeed

__all__ = [
    "ContractFeed",
    "Feed",
    "MinerstatFeed",
    "WhatToMineCalculateFeed",
    "WhatToMineFeed",
    "open_feed",
]
