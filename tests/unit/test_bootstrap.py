"""Where settings become adapters: nothing is built before it is used, and what lacks a setting names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.inline import InlineQueue
from blsflow.bootstrap import Application, application, application_from
from blsflow.settings import InvalidSetting, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "BLSFLOW_SCHEDULER_"

NEEDS: dict[str, Callable[[Application], object]] = {
    PREFIX + "DATABASE_URL": lambda app: app.connect(),
    PREFIX + "DECIDE_QUEUE_URL": lambda app: app.decide_queue,
    PREFIX + "EXECUTE_QUEUE_URL": lambda app: app.execute_queue,
    PREFIX + "NOTIFICATION_TOPIC_ARN": lambda app: app.publisher,
}


@pytest.mark.parametrize("name", NEEDS)
def test_what_lacks_its_setting_names_it(name: str) -> None:
    """R11.7: a function says which variable it misses, and only once it needs it."""
    bare = application_from({})
    with pytest.raises(InvalidSetting) as refusal:
        NEEDS[name](bare)
    assert (refusal.value.name, refusal.value.value) == (name, None)


def test_without_addresses_there_are_no_services() -> None:
    """R4.3, R2.1: no address of a service is no service, instead of a guess at one."""
    bare = application_from({})
    assert bare.device_control is None
    assert bare.feed is None
    assert not bare.gates.executor_configured
    assert not bare.gates.execute_enabled


def test_a_public_feed_needs_no_address() -> None:
    """R2.1: the feeds that miners use have addresses of their own."""
    assert application_from({PREFIX + "PROFIT_FEED": "whattomine"}).feed is not None


def test_queues_within_the_process_go_before_those_of_the_settings() -> None:
    """R11.7: the command line decides and executes in its own process also where queues are configured."""
    own = InlineQueue()
    app = Application(Settings(decide_queue_url="https://queue"), own_decide_queue=own)
    assert app.decide_queue is own


def test_a_container_builds_its_application_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """R11.7: the environment is read at the first invocation, not at import, and kept for the next ones."""
    application.cache_clear()
    monkeypatch.setenv("USDT_TO_CNY_RATE", "7.2")
    first = application()
    monkeypatch.setenv("USDT_TO_CNY_RATE", "8")
    assert application() is first
    assert first.settings.usdt_to_cny_rate == 7.2
    application.cache_clear()


def test_a_refused_environment_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """R11.7: a container whose settings were refused refuses each invocation by name, until they are mended."""
    application.cache_clear()
    monkeypatch.setenv(PREFIX + "BATCH_SIZE", "none")
    for _ in range(2):
        with pytest.raises(InvalidSetting, match=PREFIX + "BATCH_SIZE"):
            application()
    monkeypatch.setenv(PREFIX + "BATCH_SIZE", "5")
    assert application().settings.batch_size == 5
    application.cache_clear()
