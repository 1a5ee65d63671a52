"""Settings of a deployment, read once from the environment and validated with messages that name each one.

Pure standard library: workers pay for nothing else at a cold start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

from blsflow.domain.errors import BlsflowError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FEED_KINDS: Final = ("contract", "whattomine", "minerstat")
TLS_MODES: Final = ("verify-full", "require", "off")
T = TypeVar("T")

BENCHMARK_EXECUTION_SEC: Final = 14_400
"""The state machine's own time-out (functions/benchmark/benchmark.asl.json): a run has to fit into it."""
BENCHMARK_CONFIRM_SEC: Final = 1_800
"""For how long a benchmark run waits for the end of one command at most; afterwards reconcile alone follows it."""
_TRIES_SEC: Final = 1_800
"""What of the state machine's time is left for tries to put a machine back, besides confirming them."""

HOLDER: Final = "blsflow"
"""How the executor lease names this system."""


class InvalidSetting(BlsflowError):
    """An environment variable cannot be meant; ``name``, ``value`` and ``cause`` say which and why."""

    def __init__(self, *, name: str, value: str | None, cause: str) -> None:
        super().__init__(f"{name} is not set: {cause}" if value is None else f"{name}={value!r}: {cause}")
        self.name = name
        self.value = value
        self.cause = cause


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """All that a deployment decides; durations in seconds, the rate in CNY per USDT.

    A token or key is given either itself, for use without AWS, or by the ARN of the secret that holds it.
    """

    execute_enabled: bool = False
    switch_api_base_url: str | None = None
    switch_api_token: str | None = field(default=None, repr=False)
    switch_api_token_secret_arn: str | None = None
    switch_api_timeout_sec: float = 10.0
    usdt_to_cny_rate: float | None = None
    profit_feed: str = "contract"
    profit_api_base_url: str | None = None
    profit_api_key: str | None = field(default=None, repr=False)
    profit_api_key_secret_arn: str | None = None
    profit_algorithms: tuple[str, ...] = ()
    profit_min_interval_sec: int = 30
    execution_api_base_url: str | None = None
    execution_api_token: str | None = field(default=None, repr=False)
    execution_api_token_secret_arn: str | None = None
    tick_interval_sec: int = 60
    start_grace_sec: int = 300
    benchmark_sample_window_sec: int = 300
    benchmark_warm_up_sec: int = 60
    watchdog_sec: int = 900
    batch_size: int = 500
    unresolved_alert_sec: int = 900
    confirm_grace_sec: int = 180
    lock_ttl_sec: int = 300
    reconcile_concurrency: int = 16
    retention_days: int = 90
    streams_per_tenant: int = 20
    streams: int = 100
    database_url: str | None = field(default=None, repr=False)
    database_secret_arn: str | None = None
    database_tls: str = "verify-full"
    database_timeout_sec: float = 60.0
    decide_queue_url: str | None = None
    execute_queue_url: str | None = None
    notification_topic_arn: str | None = None
    benchmark_state_machine_arn: str | None = None
    tenant_claim: str = "tenant_id"
    scope_prefix: str = ""

    def executor_configured(self) -> bool:
        """Whether there is a device-control service to send to (R4.3)."""
        return self.switch_api_base_url is not None

    def feed_configured(self) -> bool:
        """Whether there is somewhere to read prices from: only a service of our own contract needs an address."""
        return self.profit_feed != "contract" or self.profit_api_base_url is not None


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Validate the environment; raise `InvalidSetting` that names the first variable that cannot be meant.

    The exchange rate is the exception: a missing or unusable one makes every value unknown, which holds all
    machines and is shown as such (R2.1), so that a deployment with a bad rate still follows its open jobs.
    """
    read = _Reader(environ)
    prefix = "BLSFLOW_SCHEDULER_"
    settings = Settings(
        execute_enabled=read.flag(prefix + "EXECUTE_ENABLED", default=False),
        switch_api_base_url=read.url(prefix + "SWITCH_API_BASE_URL"),
        switch_api_token=read.text(prefix + "SWITCH_API_TOKEN"),
        switch_api_token_secret_arn=read.text(prefix + "SWITCH_API_TOKEN_SECRET_ARN"),
        switch_api_timeout_sec=read.number(
            prefix + "SWITCH_API_TIMEOUT_SEC", default=10.0, least=0.1, most=60
        ),
        usdt_to_cny_rate=_rate(environ.get("USDT_TO_CNY_RATE")),
        profit_feed=read.choice(prefix + "PROFIT_FEED", default="contract", choices=FEED_KINDS),
        profit_api_base_url=read.url(prefix + "PROFIT_API_BASE_URL"),
        profit_api_key=read.text(prefix + "PROFIT_API_KEY"),
        profit_api_key_secret_arn=read.text(prefix + "PROFIT_API_KEY_SECRET_ARN"),
        profit_algorithms=tuple((read.text(prefix + "PROFIT_ALGORITHMS") or "").replace(",", " ").split()),
        profit_min_interval_sec=read.integer(prefix + "PROFIT_MIN_INTERVAL_SEC", default=30, least=0),
        execution_api_base_url=read.url(prefix + "EXECUTION_API_BASE_URL"),
        execution_api_token=read.text(prefix + "EXECUTION_API_TOKEN"),
        execution_api_token_secret_arn=read.text(prefix + "EXECUTION_API_TOKEN_SECRET_ARN"),
        tick_interval_sec=read.integer("TICK_INTERVAL_SEC", default=60, least=1),
        start_grace_sec=read.integer(prefix + "START_GRACE_SEC", default=300, least=1),
        benchmark_sample_window_sec=read.integer("BENCHMARK_SAMPLE_WINDOW_SEC", default=300, least=1),
        benchmark_warm_up_sec=read.integer(prefix + "BENCHMARK_WARM_UP_SEC", default=60, least=0),
        watchdog_sec=read.integer(prefix + "WATCHDOG_SEC", default=900, least=1),
        batch_size=read.integer(prefix + "BATCH_SIZE", default=500, least=1, most=10_000),
        unresolved_alert_sec=read.integer(prefix + "UNRESOLVED_ALERT_SEC", default=900, least=1),
        confirm_grace_sec=read.integer(prefix + "CONFIRM_GRACE_SEC", default=180, least=1),
        lock_ttl_sec=read.integer(prefix + "LOCK_TTL_SEC", default=300, least=1),
        reconcile_concurrency=read.integer(prefix + "RECONCILE_CONCURRENCY", default=16, least=1, most=256),
        retention_days=read.integer(prefix + "RETENTION_DAYS", default=90, least=1),
        streams_per_tenant=read.integer(prefix + "STREAMS_PER_TENANT", default=20, least=1, most=10_000),
        streams=read.integer(prefix + "STREAMS", default=100, least=1, most=10_000),
        database_url=read.text(prefix + "DATABASE_URL"),
        database_secret_arn=read.text(prefix + "DATABASE_SECRET_ARN"),
        database_tls=read.choice(prefix + "DATABASE_TLS", default="verify-full", choices=TLS_MODES),
        database_timeout_sec=read.number(prefix + "DATABASE_TIMEOUT_SEC", default=60.0, least=0.1, most=600),
        decide_queue_url=read.text(prefix + "DECIDE_QUEUE_URL"),
        execute_queue_url=read.text(prefix + "EXECUTE_QUEUE_URL"),
        notification_topic_arn=read.text(prefix + "NOTIFICATION_TOPIC_ARN"),
        benchmark_state_machine_arn=read.text(prefix + "BENCHMARK_STATE_MACHINE_ARN"),
        tenant_claim=read.text(prefix + "TENANT_CLAIM") or "tenant_id",
        scope_prefix=read.text(prefix + "SCOPE_PREFIX") or "",
    )
    longest = max(
        settings.tick_interval_sec, settings.benchmark_sample_window_sec, settings.benchmark_warm_up_sec
    )
    if settings.watchdog_sec < longest + 60:
        raise InvalidSetting(
            name=prefix + "WATCHDOG_SEC",
            value=str(settings.watchdog_sec),
            cause=f"a watchdog shorter than the work it watches ends it: at least {longest + 60} s are needed "
            f"(the longest of TICK_INTERVAL_SEC, BENCHMARK_SAMPLE_WINDOW_SEC and {prefix}BENCHMARK_WARM_UP_SEC, plus 60)",
        )
    _fit_benchmarks(settings)
    return settings


def _fit_benchmarks(settings: Settings) -> None:
    """Refuse a sample window that the state machine's time-out would cut short."""
    besides = settings.benchmark_warm_up_sec + 2 * BENCHMARK_CONFIRM_SEC + _TRIES_SEC
    if settings.benchmark_sample_window_sec + besides > BENCHMARK_EXECUTION_SEC:
        raise InvalidSetting(
            name="BENCHMARK_SAMPLE_WINDOW_SEC",
            value=str(settings.benchmark_sample_window_sec),
            cause=f"use at most {BENCHMARK_EXECUTION_SEC - besides} s: the state machine ends a run after "
            f"{BENCHMARK_EXECUTION_SEC} s, of which warming up, confirming and putting back take {besides}",
        )


def _rate(text: str | None) -> float | None:
    try:
        rate = float(text or "")
    except ValueError:
        return None
    return rate if math.isfinite(rate) and rate > 0 else None


class _Reader:
    """Reads one variable at a time; an empty one counts as not set."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def text(self, name: str) -> str | None:
        return self._environ.get(name, "").strip() or None

    def flag(self, name: str, *, default: bool) -> bool:
        known = {
            "true": True,
            "1": True,
            "yes": True,
            "on": True,
            "false": False,
            "0": False,
            "no": False,
            "off": False,
        }
        return self._read(name, default, lambda text: known[text.lower()], "use true or false")

    def choice(self, name: str, *, default: str, choices: tuple[str, ...]) -> str:
        return self._read(
            name, default, lambda text: {c: c for c in choices}[text], f"use one of {', '.join(choices)}"
        )

    def integer(self, name: str, *, default: int, least: int, most: int = 10**9) -> int:
        cause = f"use a whole number from {least} to {most}"
        value = self._read(name, default, int, cause)
        if not least <= value <= most:
            raise InvalidSetting(name=name, value=str(value), cause=cause)
        return value

    def number(self, name: str, *, default: float, least: float, most: float) -> float:
        cause = f"use a number from {least} to {most}"
        value = self._read(name, default, float, cause)
        if not least <= value <= most:
            raise InvalidSetting(name=name, value=str(value), cause=cause)
        return value

    def url(self, name: str) -> str | None:
        text = self.text(name)
        if text is None:
            return None
        cause = "use an http or https address"
        if "@" in text:
            raise InvalidSetting(
                name=name,
                value="(not shown)",
                cause=f"{cause} without user or password: tokens have settings of their own",
            )
        try:
            parts = urlsplit(text)
            complete = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError as error:
            raise InvalidSetting(name=name, value=text, cause=cause) from error
        if not complete:
            raise InvalidSetting(name=name, value=text, cause=cause)
        return text.rstrip("/")

    def _read(self, name: str, default: T, parse: Callable[[str], T], cause: str) -> T:
        text = self.text(name)
        if text is None:
            return default
        try:
            return parse(text)
        except (ValueError, KeyError) as error:
            raise InvalidSetting(name=name, value=text, cause=cause) from error
