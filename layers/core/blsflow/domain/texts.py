"""What a log event, a notification or a finding says to people, in both languages (R9.4). Pure.

Code and parameters are what is stored; texts are made when somebody looks. Making one never fails, whatever the
parameters are: what is not there shows as unknown and never as 0, and a value is only ever shown, never interpreted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blsflow.domain.catalogue import OPTIONAL, PLACE, Texts, catalogue
from blsflow.domain.shown_values import is_absent, shown

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from blsflow.domain.catalogue import Language


def render(code: str, params: Mapping[str, Any]) -> Texts:
    """Return what an event or a notification says; of a code without a text, the code and its parameters as they are."""
    return _rendered(catalogue().messages.get(code), code, params)


def render_finding(code: str, params: Mapping[str, Any]) -> Texts:
    """Return what a finding of readiness says, as `render` does."""
    return _rendered(catalogue().findings.get(code), code, params)


def _rendered(message: Texts | None, code: str, params: Mapping[str, Any]) -> Texts:
    if message is None:
        return Texts(_as_stored(code, params, "en"), _as_stored(code, params, "zh"))
    return Texts(_filled(message.en, params, "en"), _filled(message.zh, params, "zh"))


def _filled(text: str, params: Mapping[str, Any], language: Language) -> str:
    """Fill the places of a text in one go, so that nothing that a value says is taken for a place."""

    def place(found: re.Match[str]) -> str:
        return shown(params.get(found["name"]), found["kind"] or "plain", language)

    def kept(part: re.Match[str]) -> str:
        names = [name for name, _ in PLACE.findall(part[1])]
        return "" if any(is_absent(params.get(name)) for name in names) else part[1]

    return PLACE.sub(place, OPTIONAL.sub(kept, text))


def _as_stored(code: str, params: Mapping[str, Any], language: Language) -> str:
    told = shown(params, "plain", language) if params else ""
    return f"{code}: {told}" if told else code
