"""A scene whose time stands between two steps."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tests.integration.conversing import ConversationScene

if TYPE_CHECKING:
    from datetime import datetime

_STANDING_CLOCK = """
create or replace function clock.now() returns timestamptz stable language sql
    as $$select timestamptz '{began_at}' + (select by from clock.lead)$$;
"""


class StandingScene(ConversationScene):
    """A scene whose clock moves only when it is told to, so that the same steps are the same story every time."""

    began_at: datetime | None = None

    def now(self) -> datetime:
        """The moved time; once it stands, without the real one."""
        return super().now() if self.began_at is None else self.began_at + self.lead

    def stand(self) -> None:
        """Stop the clock at the next midnight."""
        tomorrow = (self.now() + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        self.began_at = tomorrow
        self.session.run(_STANDING_CLOCK.format(began_at=tomorrow.isoformat()))
