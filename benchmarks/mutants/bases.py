"""The trees that are mutated: a release, what vpatch makes of it, and that as upstream's own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pyflakes import api  # noqa: F401 - fails here, and not in the middle of a run
from pyflakes.checker import Checker
from pyflakes.messages import UndefinedName

from mutants.as_changes import as_changes
from mutants.scene import Answer, Scene, judged
from mutants.source import parsed
from vpatch.planning.answers import Answers
from vpatch.planning.plan import plan
from vpatch.planning.state import Decision, State
from vpatch.source.searched import SearchedTree
from vpatch.source.spec import parse_vllm
from vpatch.source.tree import Pin, Tree
from vpatch.workspace.context import Context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mutants.cases import Case
    from vpatch.library.patch import Patch

# pristine: the release. patched: with the patch, which a lock names. adopted: with the patch's
# changes and without a lock, as if upstream had taken them.
Kind = Literal["pristine", "patched", "adopted"]
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class MutantTree(SearchedTree):
    """Implements `Tree`: the files of a case, some of them replaced, among a release's paths."""

    pin: Pin
    files: Files
    release: tuple[str, ...]
    carried: frozenset[str] = frozenset()
    links: frozenset[str] = frozenset()

    @cached_property
    def package_files(self) -> Files:
        return {path: text for path, text in self.files.items() if path.endswith(".py")}

    def paths(self) -> list[str]:
        return sorted({*self.release, *self.files})

    def read(self, path: str) -> bytes:
        return self.files.get(path, b"")


@dataclass(frozen=True)
class Ground:
    """A tree to mutate."""

    kind: Kind
    release: str
    tree: MutantTree
    pristine: Files = field(repr=False)
    _answers: dict[str, Answer | None] = field(default_factory=dict, repr=False)

    @property
    def files(self) -> Files:
        return self.tree.files

    @property
    def changed(self) -> frozenset[str]:
        """Python files that differ from the release's."""
        return frozenset(
            p for p, t in self.files.items() if p.endswith(".py") and self.pristine.get(p) != t
        )

    def answer(self, case: Case) -> Answer | None:
        """What the case's oracle says of the tree as it is."""
        if case.patch not in self._answers:
            self._answers[case.patch] = judged(case.oracle, self.scene(self.files))
        return self._answers[case.patch]

    def scene(self, files: Files, **more: object) -> Scene:
        changed = {p for p, t in files.items() if p.endswith(".py") and self.pristine.get(p) != t}
        return Scene(files, frozenset(changed), **more)  # type: ignore[arg-type]


class Grounds:
    """The trees of a run, from the cache."""

    def __init__(self, *, as_changes: bool = False) -> None:
        self.context = Context(offline=True)
        self.as_changes = as_changes
        self._patches: dict[str, Patch] = {}
        # How many edits are changes that read like a diff, by the verb that they were.
        self.changed: Counter[str] = Counter()
        self.stack = ExitStack()
        self._trees: dict[str, Tree] = {}
        self._made: dict[tuple[str, str], dict[Kind, Ground]] = {}

    def patch(self, case: Case) -> Patch:
        if case.patch not in self._patches:
            patch = self._patches[case.patch] = self.context.library.patch(case.patch)
            if self.as_changes:
                trees = [self._pristine(case, r) for r in (*case.examples, *case.releases)]
                patch, counts = as_changes(patch, partial(_decide_alike, trees))
                self.changed += counts
            self._patches[case.patch] = patch
        return self._patches[case.patch]

    def _pristine(self, case: Case, release: str) -> MutantTree:
        is_example = release in case.examples
        return self._example(case, release) if is_example else self._tree(case, release)

    def of(self, case: Case, release: str) -> dict[Kind, Ground]:
        key = (case.patch, release)
        if key not in self._made:
            self._made[key] = self._make(case, release)
        return self._made[key]

    def _make(self, case: Case, release: str) -> dict[Kind, Ground]:
        tree = self._pristine(case, release)
        grounds: dict[Kind, Ground] = {"pristine": Ground("pristine", release, tree, tree.files)}
        decision = decide(self.patch(case), tree)
        if decision.state is State.NEEDED:
            files = {**tree.files, **{p: c.after for p, c in decision.changes.items()}}
            carried = frozenset([case.patch])
            patched = MutantTree(tree.pin, files, tree.release, carried)
            grounds["patched"] = Ground("patched", release, patched, tree.files)
            adopted = MutantTree(tree.pin, files, tree.release)
            grounds["adopted"] = Ground("adopted", release, adopted, tree.files)
        return grounds

    def _tree(self, case: Case, release: str) -> MutantTree:
        if release not in self._trees:
            spec = parse_vllm(release)
            self._trees[release] = self.stack.enter_context(self.context.tree(spec))
        tree = self._trees[release]
        wanted = re.compile(case.words.encode())
        files = {p: t for p, t in tree.package_files.items() if wanted.search(t)}
        there = tuple(tree.paths())
        files |= {path: tree.read(path) for path in case.others if path in there}
        # A known shape has definitions of other files too, which the patch's code names.
        shape = decide(self.patch(case), tree).shape
        named = {name.partition("::")[0] for name in shape.definitions} if shape else set()
        files |= {path: text for path, text in tree.package_files.items() if path in named}
        return MutantTree(tree.pin, files, there)

    def _example(self, case: Case, name: str) -> MutantTree:
        folder = Path(self.patch(case).folder) / "examples" / name / "before"
        found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.py")}
        files = {path: _complete(text) for path, text in found.items()}
        pin = Pin("vllm-metax", "folder", None, "sha256:0", name)
        return MutantTree(pin, files, tuple(sorted(files)))


def _complete(text: bytes) -> bytes:
    """Import what an example uses and leaves out, so that it can be run."""
    names = sorted(undefined(text))
    line = f"from vllm.stand_ins import {', '.join(names)}\n".encode() if names else b""
    return line + text


@lru_cache(maxsize=512)
def undefined(text: bytes) -> frozenset[str]:
    """The names that pyflakes does not know."""
    messages = Checker(parsed(text).tree).messages
    return frozenset(str(m.message_args[0]) for m in messages if isinstance(m, UndefinedName))


# What is known of each content of a file: so a mutant costs the files that it changed.
_KNOWN = Answers()


def _decide_alike(trees: Sequence[Tree], one: Patch, other: Patch) -> bool:
    """Whether two patches decide the same on some trees, and make the same bytes."""
    pairs = ((decide(one, tree), decide(other, tree)) for tree in trees)
    return all((a.state, a.changes) == (b.state, b.changes) for a, b in pairs)


def decide(patch: Patch, tree: Tree) -> Decision:
    return plan([patch], tree, findings_for="none", answers=_KNOWN).decisions[0]
