"""Coins with figures as of the turn of 2025 to 2026, and the projects that the sample tenants mine.

A coin's revenue is what one H/s (Sol/s) earned in a day, merge-mined coins included (LTC with DOGE).
"""

from __future__ import annotations

from dataclasses import dataclass

from local.fleet.models import EQUIHASH, ETCHASH, KHEAVYHASH, SCRYPT, SHA256

SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, kw_only=True, slots=True)
class Coin:
    """A coin on one algorithm, as price feeds know it."""

    key: str
    name: str
    algorithm: str
    revenue_usdt_per_hs_day: float
    price_usdt: float
    block_time_sec: float
    block_reward: float

    @property
    def unit(self) -> str:
        """What the revenue is per."""
        return "Sol/s" if self.algorithm == EQUIHASH else "H/s"

    def nethash_hs(self, revenue_usdt_per_hs_day: float) -> float:
        """Return the network's hashrate at that revenue: blocks a day x reward x price / revenue."""
        blocks_per_day = SECONDS_PER_DAY / self.block_time_sec
        return blocks_per_day * self.block_reward * self.price_usdt / revenue_usdt_per_hs_day


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """A coin on a pool; `number` tells a tenant's projects apart."""

    number: int
    name: str
    coin: str
    pool: str


COINS = (
    Coin(
        key="BTC",
        name="Bitcoin",
        algorithm=SHA256,
        revenue_usdt_per_hs_day=4.0e-14,
        price_usdt=88_000,
        block_time_sec=600,
        block_reward=3.125,
    ),
    Coin(
        key="BCH",
        name="BitcoinCash",
        algorithm=SHA256,
        revenue_usdt_per_hs_day=4.6e-14,
        price_usdt=560,
        block_time_sec=600,
        block_reward=3.125,
    ),
    Coin(
        key="FB",
        name="FractalBitcoin",
        algorithm=SHA256,
        revenue_usdt_per_hs_day=3.1e-14,
        price_usdt=0.42,
        block_time_sec=30,
        block_reward=25,
    ),
    Coin(
        key="LTC",
        name="Litecoin",
        algorithm=SCRYPT,
        revenue_usdt_per_hs_day=8.2e-10,
        price_usdt=82,
        block_time_sec=150,
        block_reward=6.25,
    ),
    Coin(
        key="BELLS",
        name="Bellscoin",
        algorithm=SCRYPT,
        revenue_usdt_per_hs_day=6.4e-10,
        price_usdt=0.19,
        block_time_sec=60,
        block_reward=50,
    ),
    Coin(
        key="KAS",
        name="Kaspa",
        algorithm=KHEAVYHASH,
        revenue_usdt_per_hs_day=0.9e-13,
        price_usdt=0.047,
        block_time_sec=0.1,
        block_reward=3.9,
    ),
    Coin(
        key="ZEC",
        name="Zcash",
        algorithm=EQUIHASH,
        revenue_usdt_per_hs_day=3.1e-5,
        price_usdt=420,
        block_time_sec=75,
        block_reward=1.25,
    ),
    Coin(
        key="ARRR",
        name="PirateChain",
        algorithm=EQUIHASH,
        revenue_usdt_per_hs_day=2.4e-5,
        price_usdt=0.34,
        block_time_sec=60,
        block_reward=16,
    ),
    Coin(
        key="ETC",
        name="EthereumClassic",
        algorithm=ETCHASH,
        revenue_usdt_per_hs_day=6.6e-10,
        price_usdt=13.1,
        block_time_sec=13,
        block_reward=2.048,
    ),
)
COIN_BY_KEY = {coin.key: coin for coin in COINS}

PROJECTS = (
    Project(number=1, name="BTC at F2Pool", coin="BTC", pool="f2pool"),
    Project(number=2, name="BTC at AntPool", coin="BTC", pool="antpool"),
    Project(number=3, name="BCH at ViaBTC", coin="BCH", pool="viabtc"),
    Project(number=4, name="FB at AntPool", coin="FB", pool="antpool"),
    Project(number=5, name="LTC+DOGE at LitecoinPool", coin="LTC", pool="litecoinpool"),
    Project(number=6, name="BELLS at ViaBTC", coin="BELLS", pool="viabtc"),
    Project(number=7, name="KAS at HumPool", coin="KAS", pool="humpool"),
    Project(number=8, name="ZEC at ViaBTC", coin="ZEC", pool="viabtc"),
    Project(number=9, name="ARRR at PiratePool", coin="ARRR", pool="piratepool"),
    Project(number=10, name="ETC at 2Miners", coin="ETC", pool="2miners"),
)

# What feeds call the coins besides their keys.
ALIASES = {coin.name.lower(): coin.key for coin in COINS} | {"bitcoin cash": "BCH", "ethereum classic": "ETC"}
