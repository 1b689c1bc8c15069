"""Find syntax errors in Python files, with the Python that is to run them.

    PYTHON syntax.py FOLDER

It prints the errors as a JSON list of path, line and message, after `vpatch:`. Nothing is run.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path


def main() -> None:
    warnings.simplefilter("ignore")
    folder, faults = Path(sys.argv[1]), []
    for file in sorted(folder.rglob("*.py")):
        path = file.relative_to(folder).as_posix()
        try:
            compile(file.read_bytes(), path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            line = error.lineno if isinstance(error, SyntaxError) else None
            faults.append([path, line, getattr(error, "msg", None) or str(error)])
    print("\nvpatch:" + json.dumps(faults))  # noqa: T201


if __name__ == "__main__":
    main()
