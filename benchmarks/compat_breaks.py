"""Look for the breaks that plugins repaired, in their code from before the repair.

    python benchmarks/compat_breaks.py OWNER/NAME=CLONE...

`compat_breaks.toml` has the breaks, as the plugins' own pull requests name them. A clone is of one
of these plugins. A break is named if `vpatch compat` says `gone` or `changed` of its item in the
release after it, or `look again` with the word. Ends with 1 if less than 80 % are.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

from compat_items import items_of

BREAKS = Path(__file__).with_suffix(".toml")
LEAST = 0.8


def main() -> int:
    clones = dict(argument.split("=", 1) for argument in sys.argv[1:])
    breaks = [
        one for one in tomllib.loads(BREAKS.read_text())["break"] if repository(one) in clones
    ]
    counts: Counter[str] = Counter()
    for (name, commit), several in groupby(breaks, lambda one: (repository(one), one["commit"])):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            unpack(Path(clones[name]), commit, folder)
            for (before, after), of_step in groupby(sorted(several, key=step_of), key=step_of):
                items = items_of(str(folder), "--vllm", f"{before},{after}", "--base", before)
                for one in of_step:
                    result = named(one, items)
                    counts[result.partition(":")[0]] += 1
                    print(f"{one['thread']:32} {after:8} {result:40} {one['about']}")
    total = counts.total()
    print(dict(counts), f"of {total}: {(total - counts['missed']) / total:.0%} named")
    return 0 if total and (total - counts["missed"]) / total >= LEAST else 1


def repository(one: dict[str, str]) -> str:
    return one["thread"].partition("#")[0]


def step_of(one: dict[str, str]) -> tuple[str, str]:
    return one["before"], one["after"]


def unpack(clone: Path, commit: str, folder: Path) -> None:
    """Write the plugin's code from before a commit."""
    command = ["git", "-C", str(clone), "archive", "--format=tar", f"{commit}^"]
    data = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")


def named(one: dict[str, str], items: list[dict[str, Any]]) -> str:
    """Return the state of the item of a break after it, or `missed` with the reason."""
    word = one.get("word", "")
    for item in items:
        if (item["kind"], item["name"]) != (one.get("kind"), one.get("name")):
            continue
        verdict = item["verdicts"][one["after"]]
        is_named = word in verdict["why"]
        if is_named and verdict["state"] in {"gone", "changed", *(["look again"] if word else [])}:
            return str(verdict["state"])
    return f"missed: {one.get('missed', 'the item does not say so')}"


if __name__ == "__main__":
    sys.exit(main())
