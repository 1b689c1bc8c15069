"""Draw merged pull requests at random, for the group `public` of benchmarks/import.py.

    python benchmarks/import_draw.py CLONE [--number 25] [--seed 45] [--offline]

CLONE is a git repository with vLLM's history. A commit is eligible if its subject ends with the
number of a pull request that benchmarks/imports/merged.py does not name, and it changes one to five
modules of the package, by 4 to 120 lines, and nothing else of the package. The eligible ones are
shuffled. Those are taken whose lines, removed and added, are what two adjacent releases have
otherwise in the definitions that the commit touches. So a commit is left out if another one changed
the same definition between the same two releases, or if no release has it. Patch releases are the
corpus of `upstream`, and left out.

It prints the entries of benchmarks/imports/public.py: facts, and no code.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import random
import re
import subprocess
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from imports.backport import names_of_runs, sides
from imports.merged import MERGED, Merged
from packaging.version import Version

from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.source.tree import Tree

_NUMBER = re.compile(r"\(#(\d{5})\)$")
_MOST_FILES = 5
_LINES = range(4, 121)
Files = dict[str, bytes]


def git(clone: Path, *command: str) -> str:
    return subprocess.run(
        ["git", "-C", str(clone), *command], check=True, capture_output=True, encoding="utf-8"
    ).stdout


def commits_of(clone: Path, since: str, *options: str) -> dict[str, list[list[str]]]:
    """The rows of `git log` for each commit: by its id and its subject."""
    command = ["log", "--all", "--no-merges", "--no-renames", f"--since={since}"]
    entries = git(clone, *command, "--format=%x00%H %s", *options).split("\0")[1:]
    split = (entry.strip().split("\n") for entry in entries)
    return {head: [row.split("\t") for row in rows if row] for head, *rows in split}


def eligible(clone: Path, since: str) -> Iterator[tuple[str, str, list[str]]]:
    """Each eligible commit: the number of its pull request, its id, and its modules."""
    known = {name for change in MERGED for name in re.findall(r"#(\d+)", change.name)}
    files = commits_of(clone, since, "--name-only")
    for head, rows in commits_of(clone, since, "--numstat", "--", "vllm/*.py").items():
        commit, _, subject = head.partition(" ")
        number = _NUMBER.search(subject)
        package = {row[0] for row in files[head] if row[0].startswith("vllm/")}
        modules = sorted(row[2] for row in rows)
        lines = sum(int(row[0]) + int(row[1]) for row in rows)
        is_small = 0 < len(modules) <= _MOST_FILES and lines in _LINES
        if number and is_small and set(modules) == package and number[1] not in known:
            yield number[1], commit, modules


def differing_lines(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Counter[str]:
    """The lines that go and come in files, but for empty ones."""
    lines: Counter[str] = Counter()
    for path, text in after.items():
        both = (side.decode().splitlines() for side in (before.get(path, b""), text))
        for line in difflib.unified_diff(*both, n=0):
            if line[0] in "+-" and line[:3] not in {"+++", "---"} and line[1:].strip():
                lines[line[0] + line[1:].strip()] += 1
    return lines


def change_of(clone: Path, commit: str, paths: list[str]) -> tuple[Files, Files]:
    found: tuple[Files, Files] = {}, {}
    for path in paths:
        for side, name in zip(found, (f"{commit}^", commit), strict=True):
            try:
                side[path] = git(clone, "show", f"{name}:{path}").encode()
            except subprocess.CalledProcessError:
                continue  # added, or removed
    return found


def entry_of(number: str, change: tuple[Files, Files], older: Tree, newer: Tree) -> Merged | None:
    """The change as the difference of two releases; None if it is not that."""
    before, after = change
    there = set(older.paths()), set(newer.paths())
    if before.keys() != after.keys() or not all(path in s for path in after for s in there):
        return None
    if not any(older.read(path) != newer.read(path) for path in after):
        return None
    wanted = differing_lines(before, after)
    has = Counter(line.strip() for path in after for line in newer.read(path).decode().splitlines())
    if any(sign[0] == "+" and not has[sign[1:]] for sign in wanted):
        return None
    parts = {path: names_of_runs(before[path], after[path]) for path in after}
    label = max(
        after,
        key=lambda path: sum(differing_lines({path: before[path]}, {path: after[path]}).values()),
    )
    merged = Merged(
        f"#{number} {Path(label).stem}",
        str(older.pin.version),
        str(newer.pin.version),
        {path: dict.fromkeys(sorted(names), ()) for path, names in parts.items()},
    )
    try:
        files = sides(merged, older, newer)
    except (SyntaxError, ValueError):
        return None
    return merged if differing_lines(files.older, files.right) == wanted else None


def draw(context: Context, clone: Path, number: int, seed: int) -> Iterator[Merged]:
    with ExitStack() as opened:
        versions = context.releases()
        trees = [opened.enter_context(context.tree(parse_vllm(each))) for each in versions]
        commits = sorted({each[0]: each for each in eligible(clone, "2026-04-20")}.values())
        random.Random(seed).shuffle(commits)  # noqa: S311 - a draw that comes again
        for pull, commit, paths in commits:
            change = change_of(clone, commit, paths)
            for older, newer in itertools.pairwise(trees):
                if Version(str(newer.pin.version)).micro:
                    continue
                merged = entry_of(pull, change, older, newer)
                if merged is not None:
                    yield merged
                    number -= 1
                    break
            if not number:
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("--number", type=int, default=25)
    parser.add_argument("--seed", type=int, default=45)
    parser.add_argument("--offline", action="store_true", help="use the cache alone")
    options = parser.parse_args()
    with Context(offline=options.offline) as context:
        for merged in draw(context, options.clone, options.number, options.seed):
            print(f"{merged},", flush=True)


if __name__ == "__main__":
    main()
