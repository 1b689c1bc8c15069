"""Which tests run when. Each test lies in one tier: `quick`, shard `1`, `2` or `3`, or `full`.

`quick` has what is not marked as slow. `full` has what proves a figure rather than guards code, and
what CI cannot run; `.ci/full` alone runs it. All other slow tests are divided into three shards, of
which `.ci/run` takes one. A file is never divided, since its tests share an engine, an image or a
tree. pytest-split divides single tests, so it would make each of these several times.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

ROOT = Path(__file__).parents[1]
DURATIONS = Path(__file__).with_name("durations.json")
SHARDS = ("1", "2", "3")
TIERS = ("quick", *SHARDS, "full")
# What tests of changed folders may take, in seconds of all processes: 12 minutes of three.
BUDGET = 12 * 60 * 3.0


def read_durations(path=DURATIONS):
    """Seconds of the slow tests of each file that lie in a shard, as they were last recorded."""
    return json.loads(path.read_text(encoding="utf-8"))


def shards_of(durations):
    """The shard of each file: the longest file first, always into the shard with the least time."""
    totals = dict.fromkeys(SHARDS, 0.0)
    shards = {}
    for file, seconds in sorted(durations.items(), key=lambda item: (-item[1], item[0])):
        shards[file] = min(SHARDS, key=totals.__getitem__)
        totals[shards[file]] += seconds
    return shards


def file_of(nodeid):
    return nodeid.partition("::")[0]


def tier_of(item, shards):
    """The one tier of a collected test."""
    if not item.get_closest_marker("slow"):
        return "quick"
    if item.get_closest_marker("full"):
        return "full"
    file = file_of(item.nodeid)
    # A file without a recorded time: by its name, so that it moves no other file.
    return shards.get(file) or SHARDS[crc32(file.encode()) % len(SHARDS)]


def folder_of_tests(changed):
    """Where the tests of a changed file lie: a folder below tests/, or `tests` itself.

    `vpatch/commands/bench/report/plots.py` has them in `tests/commands/bench`; a recipe in the
    files of `tests`.
    """
    parts = Path(changed).parts
    if parts[0] in {"tests", "vpatch"} and len(parts) > 2:
        depth = 3 if parts[1] == "commands" and len(parts) > 3 else 2
        return "/".join(["tests", *parts[1:depth]])
    return "tests"


@dataclass
class Changes:
    """The files with slow tests that belong to what changed since a commit."""

    run: set[str] = field(default_factory=set)
    # What the time does not suffice for, with its seconds.
    left_out: dict[str, float] = field(default_factory=dict)


def choose(changed, durations, budget=BUDGET):
    """The files whose tests run for the changed files, as far as the time suffices.

    First the changed test files and those with the name of a changed module, then the rest of their
    folders; of each the short ones first.
    """
    folders = {folder_of_tests(path) for path in changed}
    names = {f"test_{Path(path).stem}" for path in changed if path.startswith("vpatch/")}

    # A new file of tests has no time on record.
    times = {path: 0.0 for path in changed if Path(path).match("test_*.py")} | durations

    def rank(file):
        return (file not in changed and Path(file).stem not in names, times[file], file)

    result = Changes()
    for file in sorted(times, key=rank):
        if folder_of_tests(file) not in folders:
            continue
        if times[file] <= budget:
            budget -= times[file]
            result.run.add(file)
        else:
            result.left_out[file] = times[file]
    return result


@cache
def changed_since(base, root=ROOT):
    """The tracked files that differ from where HEAD left the commit `base`, committed or not."""
    command = ("git", "diff", "--name-only", "--merge-base", base)
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if run.returncode:
        raise pytest.UsageError(f"--base {base}: {run.stderr.strip()}")
    return tuple(run.stdout.splitlines())


def pytest_addoption(parser):
    group = parser.getgroup("tiers")
    group.addoption("--tier", choices=TIERS, help="run the tests of one tier alone")
    group.addoption("--base", metavar="REF", help="and the slow tests of what differs from REF")
    group.addoption(
        "--record-durations",
        action="store_true",
        help="write the time of each file of which slow tests ran to tests/durations.json",
    )


def pytest_report_header(config):
    tier, base = config.getoption("--tier"), config.getoption("--base")
    lines = []
    if tier in SHARDS:
        durations = read_durations()
        shards = shards_of(durations)
        seconds = sum(durations[file] for file in durations if shards[file] == tier)
        lines.append(f"shard {tier} of {len(SHARDS)}: {seconds:.0f} s of one process, as recorded")
    if base:
        changes = choose(changed_since(base), read_durations())
        lines.append(f"slow tests of what differs from {base}: {len(changes.run)} files")
        lines += [
            f"  no time for {file}, {seconds:.0f} s: it runs in its shard and in .ci/full"
            for file, seconds in sorted(changes.left_out.items())
        ]
    return lines


# After the marks of conftest.py, which are added first of all.
def pytest_collection_modifyitems(config, items):
    tier, base = config.getoption("--tier"), config.getoption("--base")
    if tier is None:
        if base:
            raise pytest.UsageError("--base needs --tier")
        return
    durations = read_durations()
    shards = shards_of(durations)
    changed = choose(changed_since(base), durations).run if base else set()

    def wanted(item):
        its = tier_of(item, shards)
        return its == tier or (its in SHARDS and file_of(item.nodeid) in changed)

    selected = [item for item in items if wanted(item)]
    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    # A process takes a whole file, so the last ones must be short.
    selected.sort(key=lambda item: -durations.get(file_of(item.nodeid), 0.0))
    items[:] = selected


def pytest_terminal_summary(terminalreporter, config):
    if not config.getoption("--record-durations"):
        return
    seconds = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            marks = report.keywords if isinstance(report, pytest.TestReport) else ()
            if "slow" in marks and "full" not in marks:
                seconds[file_of(report.nodeid)] += report.duration
    there = {f: s for f, s in read_durations().items() if (ROOT / f).exists()}
    recorded = there | {file: round(each, 1) for file, each in seconds.items()}
    DURATIONS.write_text(json.dumps(recorded, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    terminalreporter.write_line(f"recorded the time of {len(seconds)} files in {DURATIONS.name}")
