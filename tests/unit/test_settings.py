"""Settings: each variable is validated by itself, and what cannot be meant is refused with its name."""

from __future__ import annotations

import math
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blsflow.settings import InvalidSetting, Settings, read_settings

PREFIX = "BLSFLOW_SCHEDULER_"
WATCHDOG = PREFIX + "WATCHDOG_SEC"

# What each variable becomes, and what it refuses.
WHOLE_NUMBERS = {
    PREFIX + "PROFIT_MIN_INTERVAL_SEC": ("profit_min_interval_sec", 0, 10**9),
    "TICK_INTERVAL_SEC": ("tick_interval_sec", 1, None),
    PREFIX + "START_GRACE_SEC": ("start_grace_sec", 1, 10**9),
    "BENCHMARK_SAMPLE_WINDOW_SEC": ("benchmark_sample_window_sec", 1, None),
    PREFIX + "BENCHMARK_WARM_UP_SEC": ("benchmark_warm_up_sec", 0, None),
    WATCHDOG: ("watchdog_sec", None, 10**9),
    PREFIX + "BATCH_SIZE": ("batch_size", 1, 10_000),
    PREFIX + "UNRESOLVED_ALERT_SEC": ("unresolved_alert_sec", 1, 10**9),
    PREFIX + "CONFIRM_GRACE_SEC": ("confirm_grace_sec", 1, 10**9),
    PREFIX + "LOCK_TTL_SEC": ("lock_ttl_sec", 1, 10**9),
    PREFIX + "RECONCILE_CONCURRENCY": ("reconcile_concurrency", 1, 256),
    PREFIX + "RETENTION_DAYS": ("retention_days", 1, 10**9),
    PREFIX + "STREAMS_PER_TENANT": ("streams_per_tenant", 1, 10_000),
    PREFIX + "STREAMS": ("streams", 1, 10_000),
}
ADDRESSES = {
    PREFIX + "SWITCH_API_BASE_URL": "switch_api_base_url",
    PREFIX + "PROFIT_API_BASE_URL": "profit_api_base_url",
    PREFIX + "EXECUTION_API_BASE_URL": "execution_api_base_url",
}
TEXTS = {
    PREFIX + "SWITCH_API_TOKEN": "switch_api_token",
    PREFIX + "SWITCH_API_TOKEN_SECRET_ARN": "switch_api_token_secret_arn",
    PREFIX + "PROFIT_API_KEY": "profit_api_key",
    PREFIX + "PROFIT_API_KEY_SECRET_ARN": "profit_api_key_secret_arn",
    PREFIX + "EXECUTION_API_TOKEN": "execution_api_token",
    PREFIX + "EXECUTION_API_TOKEN_SECRET_ARN": "execution_api_token_secret_arn",
    PREFIX + "DATABASE_URL": "database_url",
    PREFIX + "DATABASE_SECRET_ARN": "database_secret_arn",
    PREFIX + "DECIDE_QUEUE_URL": "decide_queue_url",
    PREFIX + "EXECUTE_QUEUE_URL": "execute_queue_url",
    PREFIX + "NOTIFICATION_TOPIC_ARN": "notification_topic_arn",
    PREFIX + "BENCHMARK_STATE_MACHINE_ARN": "benchmark_state_machine_arn",
    PREFIX + "TENANT_CLAIM": "tenant_claim",
    PREFIX + "SCOPE_PREFIX": "scope_prefix",
}
CHOICES = {
    PREFIX + "PROFIT_FEED": ("profit_feed", ["contract", "whattomine", "minerstat"]),
    PREFIX + "DATABASE_TLS": ("database_tls", ["verify-full", "require", "off"]),
}
FLAG = PREFIX + "EXECUTE_ENABLED"
TIMEOUT = PREFIX + "SWITCH_API_TIMEOUT_SEC"
DATABASE_TIMEOUT = PREFIX + "DATABASE_TIMEOUT_SEC"
RATE = "USDT_TO_CNY_RATE"
ALGORITHMS = PREFIX + "PROFIT_ALGORITHMS"
VARIABLES = [*WHOLE_NUMBERS, *ADDRESSES, *TEXTS, *CHOICES, FLAG, TIMEOUT, DATABASE_TIMEOUT, RATE, ALGORITHMS]


def refused(environ: dict[str, str]) -> InvalidSetting:
    """The refusal that these variables meet."""
    with pytest.raises(InvalidSetting) as refusal:
        read_settings(environ)
    return refusal.value


def test_every_setting_has_a_variable_here() -> None:
    """R11.7: no setting escapes the tests of this module."""
    known = {name for name, *_ in (*WHOLE_NUMBERS.values(), *CHOICES.values())}
    known |= set(ADDRESSES.values()) | set(TEXTS.values())
    known |= {
        "execute_enabled",
        "switch_api_timeout_sec",
        "database_timeout_sec",
        "usdt_to_cny_rate",
        "profit_algorithms",
    }
    assert known == {field.name for field in fields(Settings)}


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
@pytest.mark.parametrize("name", VARIABLES)
def test_an_empty_variable_counts_as_not_set(name: str, blank: str) -> None:
    """R11.7: templates hand on parameters that nobody set as empty texts; each gives the default."""
    assert read_settings({name: blank}) == read_settings({}) == Settings()


@pytest.mark.parametrize("name", WHOLE_NUMBERS)
def test_a_whole_number_is_held_to_its_range(name: str) -> None:
    """R11.7: both ends are admitted, what lies beyond is refused with name, value and range."""
    field, least, most = WHOLE_NUMBERS[name]
    for end in (least, most):
        if end is not None:
            assert getattr(read_settings({name: f" {end} "}), field) == end
    for beyond in ([] if least is None else [least - 1]) + ([] if most is None else [most + 1]):
        refusal = refused({name: str(beyond)})
        assert (refusal.name, refusal.value) == (name, str(beyond))
        assert name in str(refusal)
        assert "use a whole number from" in str(refusal)


@pytest.mark.parametrize("value", ["many", "1.5", "1e3", "0x10", "nan", "-", "60s", "6 0"])
@pytest.mark.parametrize("name", WHOLE_NUMBERS)
def test_what_is_no_whole_number_is_refused(name: str, value: str) -> None:
    """R11.7: nothing is rounded, guessed or read as another unit."""
    assert (refused({name: value}).name, refused({name: value}).value) == (name, value)


@pytest.mark.parametrize("value", ["0.1", "60", "2.5"])
def test_a_time_out_may_be_a_fraction(value: str) -> None:
    """R11.7: how long a request may take is a number of seconds within its range."""
    assert read_settings({TIMEOUT: value}).switch_api_timeout_sec == float(value)


@pytest.mark.parametrize("value", ["0", "0.09", "60.1", "-1", "nan", "inf", "soon", "10s"])
def test_a_time_out_that_cannot_be_meant_is_refused(value: str) -> None:
    """R11.7: a request that never ends, or that has no time at all, is refused; NaN compares with nothing."""
    assert refused({TIMEOUT: value}).name == TIMEOUT


@pytest.mark.parametrize(
    ("meant", "texts"),
    [(True, ["true", "TRUE", "1", "yes", "on", " True "]), (False, ["false", "False", "0", "no", "off"])],
)
def test_the_switch_is_read_in_any_usual_spelling(texts: list[str], *, meant: bool) -> None:
    """R4.2: the deployment-wide switch is on only if it says so."""
    for text in texts:
        assert read_settings({FLAG: text}).execute_enabled is meant


@pytest.mark.parametrize("text", ["2", "enabled", "t", "ja", "null", "true false"])
def test_a_switch_that_says_neither_is_refused(text: str) -> None:
    """R4.2: what is neither on nor off is never taken for on."""
    assert refused({FLAG: text}).name == FLAG


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_is_one_of_those_there_are(name: str) -> None:
    """R11.7: a choice is spelt exactly; the refusal lists what there is."""
    field, choices = CHOICES[name]
    for choice in choices:
        assert getattr(read_settings({name: choice}), field) == choice
    for other in (choices[0].upper(), choices[0] + "x", "none"):
        refusal = refused({name: other})
        assert refusal.name == name
        assert all(choice in refusal.cause for choice in choices)


@pytest.mark.parametrize("name", ADDRESSES)
def test_an_address_is_http_and_has_a_host(name: str) -> None:
    """R11.7: addresses are kept without their last slash, since paths are appended to them."""
    assert getattr(read_settings({name: "https://host/base/"}), ADDRESSES[name]) == "https://host/base"
    assert getattr(read_settings({name: "http://127.0.0.1:8080"}), ADDRESSES[name]) == "http://127.0.0.1:8080"
    for wrong in ("host:80", "ftp://host", "https://", "//host", "http:/host", "file:///etc/passwd"):
        assert refused({name: wrong}).name == name


@pytest.mark.parametrize("wrong", ["http://[", "http://host:many", "http://host:70000", "https://[::1"])
def test_an_address_that_only_looks_like_one_is_refused_by_name(wrong: str) -> None:
    """R11.7: a port or a bracket gone wrong is found at the start, not by the first request."""
    for name in ADDRESSES:
        assert refused({name: wrong}).name == name


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_taken_as_they_are_but_for_blanks_around(name: str) -> None:
    """R11.7: a line's end that came along from a file is no part of a token."""
    assert getattr(read_settings({name: " as it is\n"}), TEXTS[name]) == "as it is"


def test_algorithms_are_a_list_however_it_is_separated() -> None:
    """R2.1: commas and blanks part the names of the algorithms that a feed is asked for."""
    assert read_settings({ALGORITHMS: " sha256, scrypt  x11,"}).profit_algorithms == (
        "sha256",
        "scrypt",
        "x11",
    )


@pytest.mark.parametrize("text", ["", "zero", "0", "-7.2", "nan", "inf", "1e999", "7,2", "7.2 CNY", "None"])
def test_a_rate_that_cannot_be_used_is_unknown(text: str) -> None:
    """R2.1: an unusable exchange rate makes values unknown, and no deployment fail: open jobs are still followed."""
    assert read_settings({RATE: text}).usdt_to_cny_rate is None


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0")))
def test_no_text_for_a_rate_ever_raises(text: str) -> None:
    """R2.1: whatever stands in the variable, the rate is a usable number or unknown."""
    rate = read_settings({RATE: text}).usdt_to_cny_rate
    assert rate is None or (math.isfinite(rate) and rate > 0)


def test_a_usable_rate_is_read() -> None:
    """R2.1: the rate is CNY for one USDT."""
    assert read_settings({RATE: " 7.2 "}).usdt_to_cny_rate == 7.2


@pytest.mark.parametrize(
    ("tick", "sample", "watchdog"),
    [
        (240, 300, 359),  # a watchdog of 180 s ended a loop that ticked every 240 s: merrymen#55
        (240, 300, 180),
        (240, 60, 299),
        (60, 300, 300),
        (900, 1, 900),
    ],
)
def test_a_watchdog_shorter_than_its_work_is_refused(tick: int, sample: int, watchdog: int) -> None:
    """R11.7: a watchdog leaves a minute more than the longer of tick interval and sample window, checked at the start."""
    given = {"TICK_INTERVAL_SEC": str(tick), "BENCHMARK_SAMPLE_WINDOW_SEC": str(sample)}
    refusal = refused({**given, WATCHDOG: str(watchdog)})
    needed = max(tick, sample) + 60
    assert (refusal.name, refusal.value) == (WATCHDOG, str(watchdog))
    assert str(needed) in refusal.cause
    assert read_settings({**given, WATCHDOG: str(needed)}).watchdog_sec == needed


def test_work_that_outgrows_the_default_watchdog_is_refused() -> None:
    """R11.7: the rule also holds for a watchdog that nobody set."""
    assert refused({"BENCHMARK_SAMPLE_WINDOW_SEC": "900"}).name == WATCHDOG


def test_a_warm_up_that_outlasts_the_watchdog_is_refused() -> None:
    """R7.3: a run makes no step while its machine warms up; the watchdog must not take that for death."""
    assert refused({PREFIX + "BENCHMARK_WARM_UP_SEC": "900"}).name == WATCHDOG


@pytest.mark.parametrize(("window", "warm_up"), [(8_941, 60), (8_000, 1_001)])
def test_a_sample_that_the_state_machine_would_cut_short_is_refused(window: int, warm_up: int) -> None:
    """R7.1: window and warm-up have to fit into the state machine's own time-out, with all that a run may take besides."""
    environ = {
        "BENCHMARK_SAMPLE_WINDOW_SEC": str(window),
        PREFIX + "BENCHMARK_WARM_UP_SEC": str(warm_up),
        WATCHDOG: "20000",
    }
    assert refused(environ).name == "BENCHMARK_SAMPLE_WINDOW_SEC"
    fits = read_settings(environ | {"BENCHMARK_SAMPLE_WINDOW_SEC": str(window - 1)})
    assert fits.benchmark_sample_window_sec == window - 1


def test_no_secret_is_shown() -> None:
    """R11.3: what a log or a traceback shows of the settings holds no token, key or password."""
    environ = {
        PREFIX + "SWITCH_API_TOKEN": "canary-token",
        PREFIX + "PROFIT_API_KEY": "canary-key",
        PREFIX + "DATABASE_URL": "postgresql://user:canary-password@host/db",
    }
    settings = read_settings(environ)
    assert (settings.switch_api_token, settings.profit_api_key) == ("canary-token", "canary-key")
    assert "canary" not in repr(settings)
    assert "canary" not in f"{settings}"


def test_the_databases_time_is_bounded() -> None:
    """R9.2, R11.7: a statement may take a minute unless it is said otherwise, and never no time at all."""
    assert read_settings({}).database_timeout_sec == 60
    assert read_settings({DATABASE_TIMEOUT: "20"}).database_timeout_sec == 20
    for value in ("0", "601", "nan", "soon"):
        assert refused({DATABASE_TIMEOUT: value}).name == DATABASE_TIMEOUT
