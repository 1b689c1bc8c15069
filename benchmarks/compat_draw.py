"""Draw verdicts of `vpatch compat` for a person to judge, each with the code of both sides.

    python benchmarks/compat_draw.py SEED COUNT TARGET...

The targets are judged in all releases. Of each state, a part of COUNT is drawn, of any target and
release, and each item once. A person then compares what is printed with the code.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from compat_items import items_of

# What part of the sample each state is. Most items hold; what says more is drawn more often.
PARTS = {"gone": 0.35, "changed": 0.25, "look again": 0.15, "unknown": 0.1, "holds": 0.15}
BASE = "0.23.0"
_AROUND = 3


def main(seed: int, count: int, targets: list[str]) -> int:
    verdicts: dict[str, list[tuple[str, dict[str, Any], str]]] = {state: [] for state in PARTS}
    for target in targets:
        for item in items_of(target, "--all", "--base", BASE):
            for release, verdict in item["verdicts"].items():
                if verdict["state"] in verdicts:
                    verdicts[verdict["state"]].append((target, item, release))
    random.seed(seed)
    number = 0
    for state, part in PARTS.items():
        seen: set[tuple[str, str, str]] = set()
        several = verdicts[state]
        random.shuffle(several)
        for target, item, release in several:
            key = target, item["kind"], item["name"]
            if len(seen) >= round(count * part):
                break
            if key not in seen:
                seen.add(key)
                number += 1
                show(number, target, item, release)
    return 0


def show(number: int, target: str, item: dict[str, Any], release: str) -> None:
    verdict = item["verdicts"][release]
    base = item["verdicts"][BASE]
    place = item["places"][0]
    print(f"\n{number}. {verdict['state']}  {item['kind']} {item['name']}  in {release}")
    print(f"   why: {verdict['why']}  {verdict['where']}  moved: {verdict['moved']}")
    print(f"   in {BASE}: {base['state']} {base['why'][:80]} {base['where']}")
    print(f"   conditions: {item['conditions']}, at import: {item['at_import']}")
    print(f"   {target}: {place['path']}:{place['line']} and {len(item['places']) - 1} more")
    file = Path(target) / place["path"]
    if file.is_file():
        lines = file.read_text(errors="replace").splitlines()
        for line in lines[max(place["line"] - _AROUND, 0) : place["line"] + _AROUND]:
            print(f"       | {line[:110]}")


if __name__ == "__main__":
    if len(sys.argv) > 3:  # noqa: PLR2004
        sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
    sys.exit(__doc__)
