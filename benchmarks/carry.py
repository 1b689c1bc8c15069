"""What `vpatch edit ID --vllm NEW` and `vpatch refresh` make of conflicts.

    python benchmarks/carry.py [--json] [--only library|planted] [--keep DIR] [PATCH ...]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from carrying.case import Case, Row, row_of
from carrying.library import library_cases
from carrying.planted import planted_cases

from vpatch.workspace.context import Context

if TYPE_CHECKING:
    from collections.abc import Iterator


def show(rows: list[Row]) -> None:
    head = ["patch", "step", "edits", "open", "by hand", "old", "new", "seconds"]
    table = [head]
    for row in rows:
        table.append(
            [
                row.patch,
                row.what or row.step,
                row.edits,
                str(row.open_parts),
                str(len(row.by_hand)) if row.by_hand else "nothing",
                "right" if row.old_right else "wrong",
                "right" if row.new_right and not row.wrong else "wrong",
                f"{row.seconds:.0f}",
            ]
        )
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())
    for row in rows:
        for name in ("proposal", "doubts", "by_hand", "wrong", "comments", "failure"):
            if getattr(row, name):
                print(f"{row.patch} {row.what or row.step}: {name}: {getattr(row, name)}")


def _cases(only: str | None, asked: list[str], room: Path) -> Iterator[Case]:
    with Context(offline=True, trust_everything=True) as context:
        if only != "planted":
            yield from library_cases(context, asked)
        if only != "library":
            yield from planted_cases(context, asked, room)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("patches", nargs="*", metavar="PATCH")
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--only", choices=["library", "planted"])
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for number, case in enumerate(_cases(options.only, options.patches, Path(name))):
            room = (options.keep or Path(name)) / f"{number}-{case.patch}"
            room.mkdir(parents=True)
            rows.append(row_of(case, room))
            print(rows[-1], file=sys.stderr)
    if options.as_json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
