"""How many releases a change survives: as a unified diff, and as a patch of vpatch.

    python benchmarks/survival.py [--offline] [--json] [PATCH ...]

What a patch changes in vLLM 0.23.0 (in 0.22.1 where 0.23.0 does not need it) is written as a
unified diff, and tried with `git apply`, `git apply -3` and `patch` on every other release that
needs the patch. Each starts in a repository that holds the files of both releases, so that
`git apply -3` has the blobs to merge with. A tool survives a release if it ends well and every byte
is as vpatch makes it; what it applied otherwise is listed. vpatch survives one if what it makes
compiles, and a second plan finds all of it done.

Only files that the diff or vpatch touches are laid out, without their modes: a diff fails on a file
that has moved either way. Trees of plugins are left out. Ends with 1 where vpatch does not survive
a release.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from packaging.version import Version

from vpatch.errors import VpatchError
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.source.searched import SearchedTree
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context
from vpatch.workspace.selection import with_required

if TYPE_CHECKING:
    from vpatch.library.patch import Patch
    from vpatch.planning.answers import Answers
    from vpatch.source.tree import Pin, Tree

ORIGINS = ["0.23.0", "0.22.1"]
DIFF = "../edit.diff"
TOOLS = {
    "git apply": ["git", "apply", DIFF],
    "git apply -3": ["git", "apply", "-3", DIFF],
    "patch": ["patch", "-p1", "--forward", "--batch", "--no-backup-if-mismatch", "-i", DIFF],
}
WHO = ["-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost"]
PINNED = {"LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
Files = Mapping[str, bytes]
Result = Literal["right", "wrong", "failed"]


@dataclass(frozen=True)
class Patched(SearchedTree):
    """A tree with the changes of patches that its lock names."""

    tree: Tree
    changed: Files
    carried: frozenset[str]

    @property
    def pin(self) -> Pin:
        return self.tree.pin

    @cached_property
    def package_files(self) -> Files:
        python = [p for p in self.changed if p.startswith("vllm/") and p.endswith(".py")]
        return {**self.tree.package_files, **{path: self.changed[path] for path in python}}

    @property
    def links(self) -> frozenset[str]:
        return self.tree.links

    def paths(self) -> list[str]:
        return sorted({*self.tree.paths(), *self.changed})

    def read(self, path: str) -> bytes:
        return self.changed[path] if path in self.changed else self.tree.read(path)


@dataclass(frozen=True)
class Edit:
    """What vpatch makes of the files that it changes in a release; `fault` is why that is wrong.

    `variants` are those of the patches that are needed.
    """

    before: Files
    after: Files
    fault: str = ""
    variants: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class Trial:
    """What became of a patch in a release. `files` are those that are wrong, `note` says more."""

    patch: str
    origin: str
    release: str
    tool: str
    result: Result
    note: str = ""
    files: tuple[str, ...] = ()


def edit_of(patches: list[Patch], tree: Tree, answers: Answers | None = None) -> Edit | None:
    """Plan a patch, the first, with those that it requires. None where it is not needed."""
    decisions = plan(patches, tree, answers=answers, shapes=False).decisions
    own = next(decision for decision in decisions if decision.patch.id == patches[0].id)
    if own.state.stops:
        return Edit({}, {}, f"{own.state}: {own.reason}")
    if own.state is not State.NEEDED:
        return None
    changes = [item for decision in decisions for item in decision.changes.items()]
    first = dict(reversed(changes))
    before = {path: c.before for path, c in first.items() if c.before is not None}
    after = {path: change.after for path, change in changes}
    needed = [decision for decision in decisions if decision.state is State.NEEDED]
    taken = [decision.patch for decision in needed]
    made = Patched(tree, after, frozenset(patch.id for patch in taken))
    variants = tuple(decision.variant for decision in needed)
    return Edit(before, after, fault_of(taken, made, answers), variants)


def fault_of(taken: list[Patch], made: Patched, answers: Answers | None) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of vLLM's own code
        for path in (path for path in made.changed if path.endswith(".py")):
            try:
                compile(made.read(path), path, "exec", dont_inherit=True)
            except SyntaxError as error:
                return f"{path} does not compile: {error}"
    decisions = plan(taken, made, answers=answers, shapes=False).decisions
    again = [d for d in decisions if d.state is not State.APPLIED]
    return "; ".join(f"a second plan says {d.patch.id} is {d.state}: {d.reason}" for d in again)


def run(folder: Path, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run git or patch, with settings of its own and nobody to ask."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **PINNED},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if check and done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done


def contents(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    return {path: text for path, text in found.items() if not path.startswith(".git/")}


def diff_of(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "repository"
        run(Path(name), "git", "init", "--quiet", str(folder))
        lay_out(folder, before)
        lay_out(folder, after, commit=False)
        options = ["--cached", "--full-index", "--no-renames"]
        run(folder, "git", "diff", *options, "--output=../edit.diff")
        return (Path(name) / "edit.diff").read_bytes()


def lay_out(folder: Path, files: Files, *, commit: bool = True) -> None:
    """Make files the whole content of the repository and of its index."""
    for path in contents(folder):
        (folder / path).unlink()
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text)
    run(folder, "git", "add", "--all", "--force")
    if commit:
        run(folder, "git", *WHO, "commit", "--quiet", "--allow-empty", "--message=files")


def try_tools(trial: Trial, origin: Edit, target: Files, wanted: Files) -> Iterator[Trial]:
    """Try the origin's diff on the target's files, which are to become what is wanted."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "repository"
        run(Path(name), "git", "init", "--quiet", str(folder))
        lay_out(folder, origin.before)
        lay_out(folder, origin.after, commit=False)
        run(folder, "git", "diff", "--cached", "--full-index", "--no-renames", f"--output={DIFF}")
        for tool, command in TOOLS.items():
            lay_out(folder, target)
            done = run(folder, *command, check=False)
            made = contents(folder)
            if done.returncode:
                yield replace(trial, tool=tool, result="failed")
                continue
            # As in: Hunk #1 succeeded at 83 with fuzz 2 (offset -3 lines).
            moves = re.findall(r"succeeded at .*?(fuzz|offset)", done.stdout)
            note = "fuzz" if "fuzz" in moves else "offset" if moves else ""
            paths = sorted({*made, *wanted})
            files = tuple(path for path in paths if made.get(path) != wanted.get(path))
            result: Result = "wrong" if files else "right"
            yield replace(trial, tool=tool, result=result, note=note, files=files)


def survey(session: Context, asked: list[str]) -> Iterator[Trial]:
    """Try patches on all releases, those first of which the diffs are."""
    chosen = {name: with_required([name], session.library) for name in asked}
    chosen = {name: ps for name, ps in chosen.items() if "vllm" in ps[0].declaration.needed_in}
    origins: dict[str, tuple[str, Edit]] = {}
    for version in [*ORIGINS, *(v for v in session.releases() if v not in ORIGINS)]:
        with session.tree(parse_vllm(version)) as tree:
            there = set(tree.paths())
            for name, patches in chosen.items():
                edit = edit_of(patches, tree)
                if edit is None or (name not in origins and version not in ORIGINS):
                    continue
                if name not in origins:
                    if edit.fault:
                        raise VpatchError(f"there is no diff of {name}: {edit.fault}")
                    origins[name] = (version, edit)
                    continue
                origin, first = origins[name]
                paths = {*first.before, *first.after, *edit.before, *edit.after} & there
                target = {path: tree.read(path) for path in sorted(paths)}
                result: Result = "failed" if edit.fault else "right"
                trial = Trial(name, origin, version, "vpatch", result, edit.fault)
                yield trial
                yield from try_tools(trial, first, target, {**target, **edit.after})


def show(trials: list[Trial], left: list[str]) -> None:
    tools = [*TOOLS, "vpatch"]
    rows = [["patch", "diff of", "others", *tools]]
    for name in [*dict.fromkeys(t.patch for t in trials), "all"]:
        mine = [trial for trial in trials if name in {trial.patch, "all"}]
        cells = [cell([trial for trial in mine if trial.tool == tool]) for tool in tools]
        origin = mine[0].origin if name != "all" else ""
        rows.append([name, origin, str(len(mine) // len(tools)), *cells])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())
    for note in ("offset", "fuzz"):
        results = [trial.result for trial in trials if trial.note == note]
        print(f"patch with {note}: {results.count('right')} right, {results.count('wrong')} wrong")
    remarks: dict[str, list[str]] = {}
    for trial in trials:
        if trial.result == "wrong":
            what = f"{trial.tool} ends well, but not as vpatch: {', '.join(trial.files)}"
            remarks.setdefault(f"{trial.patch}: {what}", []).append(trial.release)
        elif trial.result == "failed" and trial.tool == "vpatch":
            print(f"{trial.patch} in {trial.release}: vpatch fails: {trial.note}")
    for remark, versions in remarks.items():
        print(f"{remark} (in {', '.join(versions)})")
    for line in left:
        print(line)


def cell(trials: list[Trial]) -> str:
    results = [trial.result for trial in trials]
    wrong = f" ({results.count('wrong')} wrong)" if "wrong" in results else ""
    return f"{results.count('right')}{wrong}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("patches", nargs="*", metavar="PATCH", help="default: all of the library")
    parser.add_argument("--offline", action="store_true", help="use the cache alone")
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()
    session = Context(offline=options.offline)
    try:
        asked = options.patches or sorted(session.library.patches)
        trials = sorted(survey(session, asked), key=lambda t: (t.patch, Version(t.release)))
    except VpatchError as error:
        sys.exit(str(error))
    tried = {trial.patch for trial in trials}
    why = f"it is not needed in vLLM {' or '.join(ORIGINS)} and in another release"
    left = [f"{name} is left out: {why}" for name in asked if name not in tried]
    if options.as_json:
        print(
            json.dumps({"trials": [asdict(trial) for trial in trials], "left-out": left}, indent=1)
        )
    else:
        git, patch = (run(Path.cwd(), tool, "--version").stdout for tool in ("git", "patch"))
        print(f"releases survived, with {git.splitlines()[0]} and {patch.splitlines()[0]}")
        show(trials, left)
    return int(any(trial.tool == "vpatch" and trial.result == "failed" for trial in trials))


if __name__ == "__main__":
    sys.exit(main())
