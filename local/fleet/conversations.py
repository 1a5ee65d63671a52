"""The sample tenants' scheduled conversations: a briefing every minute, and an analysis whose runs may outlast it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from blsflow.flow.schedules import create_schedule

if TYPE_CHECKING:
    from blsflow.ports.store import Store

_SOON = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleConversation:
    """A prompt that the simulated execution service's catalogue has a conversation for."""

    name: str
    tenant_id: str
    created_by: str
    target: str
    conversation_id: str
    prompt: str


BRIEFING = SampleConversation(
    name="Briefing, every minute",
    tenant_id="north-mining",
    created_by="user-17",
    target="analyst",
    conversation_id="conv-morning",
    prompt="What did the last tick of each policy move, and what is it worth?",
)
ANALYSIS = SampleConversation(
    name="Incident analysis, every minute",
    tenant_id="lakeside",
    created_by="user-42",
    target="analyst",
    conversation_id="conv-incidents",
    prompt="Go through all machines that failed to obey, and look for a common cause.",
)


def schedule_every_minute(store: Store, conversation: SampleConversation) -> int:
    """Store a schedule whose first run is due at once, so that the very next scan finds it; return its id."""
    with store.transaction() as tx:
        anchor = tx.now + _SOON
    return create_schedule(
        store,
        tenant_id=conversation.tenant_id,
        created_by=conversation.created_by,
        name=conversation.name,
        rule={
            "kind": "interval",
            "every_sec": 60,
            "anchor": anchor.isoformat(),
            "time_zone": "Asia/Shanghai",
        },
        work={
            "target": conversation.target,
            "conversation_id": conversation.conversation_id,
            "prompt": conversation.prompt,
        },
        by=conversation.created_by,
    ).schedule_id
