"""The live function, which holds a stream for a second only."""

from __future__ import annotations

from functions.live import app

app._HOLD_SEC = 1
handler = app.handler
