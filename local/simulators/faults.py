"""Faults that can be switched on and off while a simulator runs."""

from __future__ import annotations

import random
import threading
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from local.simulators.web import Answer, Request, problem

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Profile = TypeVar("Profile", bound="DataclassInstance")


class FaultSwitch(Generic[Profile]):
    """The fault profile in force, read with `profile` and changed by PUT of some of its fields."""

    def __init__(self, profile: Profile, *, seed: int = 1) -> None:
        self.profile = profile
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._lock = threading.Lock()

    def strikes(self, rate: float) -> bool:
        """Draw whether a fault of this rate happens now; rates of 0 and 1 are certain."""
        with self._lock:
            return self._random.random() < rate

    def handle(self, request: Request) -> Answer:
        """Answer `/sim/faults`: GET shows the profile, PUT changes the fields it names."""
        if request.method == "PUT":
            try:
                changes = request.json()
                self.profile = replace(self.profile, **self._checked(changes))
            except (TypeError, ValueError) as fault:
                return problem(400, "invalid_faults", str(fault))
        return Answer(document=asdict(self.profile))

    def _checked(self, changes: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever was sent
        kinds = {field.name: type(getattr(self.profile, field.name)) for field in fields(self.profile)}
        unknown = set(changes) - set(kinds)
        if unknown:
            raise ValueError(f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(kinds)}")
        return {name: kinds[name](value) for name, value in changes.items()}
