"""`python -m local.openapi`: writes docs/openapi.json anew, which the API validates by, and the tables of docs/api.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blsflow.domain.catalogue import OPTIONAL, PLACE, catalogue
from blsflow.web.problems import PROBLEMS
from functions.api import app as _declares  # noqa: F401 - importing it declares every operation
from functions.api.document import openapi_document

if TYPE_CHECKING:
    from collections.abc import Iterable

_DOCS = Path(__file__).resolve().parents[1] / "docs"
DOCUMENT_FILE = _DOCS / "openapi.json"
GUIDE_FILE = _DOCS / "api.md"
_END = "<!-- end -->"


def main() -> None:
    """Write the document, and the tables of the guide."""
    DOCUMENT_FILE.write_text(rendered(), encoding="utf-8")
    GUIDE_FILE.write_text(with_tables(GUIDE_FILE.read_text(encoding="utf-8")), encoding="utf-8")


def rendered() -> str:
    """Return the document as it stands in its file."""
    return json.dumps(openapi_document(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def with_tables(guide: str) -> str:
    """Return the guide with its tables written anew from the declarations."""
    tables = {
        "operations": "\n".join(_operations()),
        "problems": "\n".join(_problems()),
        "findings": "\n".join(_findings()),
    }
    for name, table in tables.items():
        head, mark, rest = guide.partition(f"<!-- {name}: written by `make openapi` -->\n")
        guide = f"{head}{mark}\n{table}\n\n{_END}{rest.partition(_END)[2]}"
    return guide


def _operations() -> Iterable[str]:
    yield "| operation | scope | does |"
    yield "|---|---|---|"
    for path, methods in sorted(openapi_document()["paths"].items()):
        for method, described in methods.items():
            yield _operation(f"{method.upper()} {path}", described)


def _operation(request: str, described: dict[str, Any]) -> str:
    scope = described.get("x-scope")
    return f"| `{request}` | {f'`{scope}`' if scope else 'none'} | {described['summary']} |"


def _problems() -> Iterable[str]:
    yield "| code | status | means |"
    yield "|---|---|---|"
    for code, (status, title) in PROBLEMS.items():
        yield f"| `{code}` | {int(status)} | {title} |"


def _findings() -> Iterable[str]:
    yield "| code | says |"
    yield "|---|---|"
    for code, texts in catalogue().findings.items():
        said = PLACE.sub(r"`\g<name>`", OPTIONAL.sub(r"\1", texts.en))
        yield f"| `{code}` | {said} |"


if __name__ == "__main__":
    main()
