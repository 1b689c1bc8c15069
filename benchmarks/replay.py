"""What each step from a release to the next one means for all patches, and how long that takes.

    python benchmarks/replay.py [--offline] [--json] [--markdown FILE] [--diffs FILE] [PATCH ...]

The decisions on patches are those on record in their shapes.json: the time is that of comparing the
code, which `vpatch bump` does beside its plans, and a second run finds it in the cache.
`benchmarks/bump.py` measures the command. --markdown writes docs/reference/look-again.md;
--diffs writes the same with the upstream diff of each definition.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.recorded import recorded
from vpatch.commands.bump.changes import ReleaseSide
from vpatch.commands.bump.comparison_cache import compared
from vpatch.commands.bump.verdict import PatchBump, Verdict, judge
from vpatch.planning.view import View
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.library.patch import Patch

_HEAD = """# Definitions that changed between releases

Between these releases, the patch fits, but upstream changed the definition. `vpatch bump` says
`look again` there. To read the upstream diff of each definition, name a recipe that has the patch
and pins the older release: `vpatch bump RECIPE --to VERSION --diff`.
[Move to a new release](../how-to/bump.md#look-again) walks through two of them. Where only code
around it changed, the verdict is the same, and the definitions are not listed here.

<!-- generated: python benchmarks/replay.py --markdown docs/reference/look-again.md -->
"""


@dataclass(frozen=True)
class ReplayedStep:
    """A step to a release: what it means for each patch, and the seconds that took."""

    old: str
    new: str
    patches: tuple[PatchBump, ...]
    seconds: float

    @property
    def looked_at(self) -> list[PatchBump]:
        return [one for one in self.patches if one.verdict is Verdict.LOOK_AGAIN]


def replayed(context: Context, patches: Sequence[Patch]) -> Iterator[ReplayedStep]:
    """Compare each release on record with the next one."""
    decided = [recorded(patch) for patch in patches]
    releases = sorted({release for row in decided for release in row}, key=Version)
    for old, new in pairwise(releases):
        with context.tree(parse_vllm(old)) as before, context.tree(parse_vllm(new)) as after:
            started = time.monotonic()
            views = View(before, answers=context.answers), View(after, answers=context.answers)
            found = [
                judge(
                    row[old],
                    row[new],
                    (before.pin, after.pin),
                    compared(ReleaseSide(row[old], views[0]), ReleaseSide(row[new], views[1])),
                )
                for row in decided
                if old in row and new in row
            ]
            context.answers.save()
            yield ReplayedStep(old, new, tuple(found), time.monotonic() - started)


def page(steps: Sequence[ReplayedStep], *, diffs: bool = False) -> str:
    """The list of what a person looks at again, as Markdown."""
    lines = [_HEAD]
    for step in steps:
        if not step.looked_at:
            continue
        lines += [f"## {step.old} to {step.new}", "", "| patch | definition | upstream |"]
        lines += ["|---|---|---|"]
        shown: list[str] = []
        for one in step.looked_at:
            real = [code for code in one.changed if code.kind != "moved" and not code.around]
            for code in sorted(real, key=lambda code: (code.name, code.kind)):
                added, removed = code.counts
                name = code.name.replace("|", "\\|")
                lines.append(f"| `{one.id}` | `{name}` | {code.kind}, +{added} -{removed} |")
                shown += [f"### {one.id}: {code.name}", "", "````diff", *code.upstream, "````", ""]
            if not real and not any(code.around for code in one.changed):
                lines.append(f"| `{one.id}` | | {one.reason} |")
        lines += ["", *(shown if diffs else [])]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patches", nargs="*", metavar="PATCH")
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--diffs", type=Path)
    options = parser.parse_args()
    with Context(offline=options.offline) as context:
        library = context.library
        patches = library.load(options.patches or sorted(library.patches))
        steps = list(replayed(context, patches))
    for file, with_diffs in ((options.markdown, False), (options.diffs, True)):
        if file is not None:
            file.write_text(page(steps, diffs=with_diffs), encoding="utf-8")
    rows = [
        {"step": step.new, "patches": len(step.patches), "seconds": round(step.seconds, 1)}
        | {verdict: sum(p.verdict is verdict for p in step.patches) for verdict in Verdict}
        for step in steps
    ]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            print("  ".join(f"{key} {value}" for key, value in row.items()))
        print(f"longest step: {max(step.seconds for step in steps):.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
