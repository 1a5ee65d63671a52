"""`python -m local.container MODULE`: a function's warm container. An event a line comes in, an answer a line goes out.

What the function prints, its log lines, goes to standard error. A container handles one event at a time, as on Lambda.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import uuid
from types import SimpleNamespace


def main() -> None:
    """Answer events until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    handler = importlib.import_module(sys.argv[1]).handler
    for line in sys.stdin:
        try:
            answer = {"answer": handler(json.loads(line), SimpleNamespace(aws_request_id=str(uuid.uuid4())))}
        except Exception as error:  # noqa: BLE001 - Lambda answers whatever a handler raises, and lives on
            answer = {"error": type(error).__name__}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
