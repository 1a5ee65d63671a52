"""Answers of each price feed as its service gives them; the figures are made up."""

from __future__ import annotations

from typing import Any

from tests.contract.scripted_server import ScriptedServer, json_answer

BTC_PRICE_USD = 80_000.0
UPDATED = 1_770_000_000  # 2026-02-02T02:40:00Z


def wtm_coin(**changes: Any) -> dict[str, Any]:
    """Return a row of WhatToMine's lists: 10 coins a minute at 1e15 H/s and 1e-4 BTC each."""
    coin: dict[str, Any] = {
        "id": 7,
        "tag": "KAS",
        "algorithm": "KHeavyHash",
        "block_time": "6.0",
        "block_reward": 1.0,
        "nethash": 10**15,
        "exchange_rate": 1e-4,
        "exchange_rate_curr": "BTC",
        "market_cap": "$1,000.00",
        "lagging": False,
        "timestamp": UPDATED,
    }
    return coin | changes


def wtm_bitcoin(**changes: Any) -> dict[str, Any]:
    """Return Bitcoin's row: its exchange rate is in USD, whatever exchange_rate_curr says."""
    figures: dict[str, Any] = {
        "tag": "BTC",
        "algorithm": "SHA-256",
        "block_time": "600.0",
        "block_reward": 3.125,
        "nethash": 9 * 10**20,
        "exchange_rate": BTC_PRICE_USD,
    }
    return wtm_coin(**(figures | changes))


def serve_wtm(server: ScriptedServer, asic: dict[str, Any], coins: dict[str, Any] | None = None) -> None:
    """Let the server answer with these two lists."""
    server.answers["/asic.json"] = json_answer({"coins": asic})
    server.answers["/coins.json"] = json_answer({"coins": coins or {}})


def minerstat_coin(**changes: Any) -> dict[str, Any]:
    """Return a row of minerstat: 1e-12 coins of 2.5 USD per H/s and hour."""
    coin: dict[str, Any] = {
        "id": "a1",
        "coin": "KAS",
        "name": "Kaspa",
        "type": "coin",
        "algorithm": "KHeavyHash",
        "network_hashrate": 1.7e17,
        "difficulty": 39_599_735.3,
        "reward": 1e-12,
        "reward_unit": "KAS",
        "reward_block": 130.8,
        "price": 2.5,
        "volume": 1e6,
        "updated": UPDATED,
    }
    return coin | changes


def contract_price(**changes: Any) -> dict[str, Any]:
    """Return a row of the profit service."""
    price: dict[str, Any] = {
        "key": "BTC",
        "algorithm": "SHA-256",
        "revenue": 0.05,
        "unit": "TH/s",
        "flags": [],
    }
    return price | changes


def contract_snapshot(*prices: object, **changes: Any) -> dict[str, Any]:
    """Return a snapshot of the profit service."""
    return {
        "taken_at": "2026-02-02T02:40:00Z",
        "currency": "USDT",
        "flags": [],
        "prices": list(prices),
    } | changes
