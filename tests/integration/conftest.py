"""How long the ledger's state machine is driven: briefly with every run, at length with ``--hypothesis-profile=nightly``."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile(
    "nightly", settings.get_profile("unhurried"), max_examples=300, stateful_step_count=80, print_blob=True
)
