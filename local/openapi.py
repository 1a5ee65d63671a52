"""`python -m local.openapi`: writes docs/openapi.json anew, the document that the API serves and validates by."""

from __future__ import annotations

import json
from pathlib import Path

from functions.api import app as _declares  # noqa: F401 - importing it declares every operation
from functions.api.document import openapi_document

DOCUMENT_FILE = Path(__file__).resolve().parents[1] / "docs" / "openapi.json"


def main() -> None:
    """Write the document."""
    DOCUMENT_FILE.write_text(rendered(), encoding="utf-8")


def rendered() -> str:
    """Return the document as it stands in its file."""
    return json.dumps(openapi_document(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    main()
