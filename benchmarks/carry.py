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


def show(rows: list[Row]) -> bool:
    """Print a line for each case, and what is to be known of it; return whether the goal is met."""
    head = ["patch", "step or plant", "edits", "open", "look at", "by hand"]
    table = [[*head, "old", "new", "test", "seconds"]]
    table += [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())
    for row in rows:
        for name in ("proposal", "doubts", "by_hand", "wrong", "comments", "failure"):
            if getattr(row, name):
                print(f"{row.patch}, {row.what or row.step}: {name}: {getattr(row, name)}")
    free = [row for row in rows if not row.by_hand and row.is_right]
    silent = [row for row in rows if row.is_silent]
    print(f"{len(free)} of {len(rows)} need nothing by hand and are right; {len(silent)} are wrong")
    return not silent and len(free) * 2 >= len(rows)


def _cells(row: Row) -> list[str]:
    hands = len(row.by_hand) + len(row.wrong)
    return [
        row.patch,
        row.what or row.step,
        row.edits,
        str(row.open_parts),
        str(len(row.doubts)),
        f"{hands} hunk{'s' if hands > 1 else ''}" if hands else "nothing",
        "right" if row.old_right else "wrong",
        "right" if row.new_right else "wrong",
        "passes" if row.tested else "fails",
        f"{row.seconds:.0f}",
    ]


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
        return 0
    return int(not show(rows))


if __name__ == "__main__":
    sys.exit(main())
