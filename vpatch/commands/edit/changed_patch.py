"""A changed patch in a folder of its own: written, loaded, and applied twice."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vpatch.commands.edit.declaration.predicate_text import (
    changed_pieces,
    with_alternatives,
    with_lines,
    with_texts,
)
from vpatch.commands.importing.proof import failure_of_second, without_requires
from vpatch.errors import VpatchError
from vpatch.library.loading import load_patch
from vpatch.library.patch import DECLARATION
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.trust.decision import EVERYTHING
from vpatch.util.directories import remove
from vpatch.workspace.examples import example_decisions, run_examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from vpatch.commands.edit.new_edits import FoldedEdits
    from vpatch.library.patch import Patch
    from vpatch.planning.answers import Answers
    from vpatch.planning.state import Decision
    from vpatch.source.memory import ChangedTree

# What may name code that the patch makes.
_PREDICATES = (("effect",), ("effect", "concerns"))


@dataclass(frozen=True)
class ExampleNote:
    """What became of an example that did not hold as it was, and whether it `holds` now."""

    text: str
    holds: bool


@dataclass(frozen=True)
class ChangedPatch:
    """A changed patch in the staging folder. `text` is its patch.yaml, `removed` are files."""

    patch: Patch
    text: str
    folded: FoldedEdits
    removed: tuple[str, ...]
    examples: tuple[ExampleNote, ...] = field(default=())


@dataclass(frozen=True)
class PatchWriter:
    """Writes changed patches into `staging`. `wanted` is what they must make of `tree`.

    `text_of` is their patch.yaml, by their edits.
    """

    original: Patch
    text_of: Callable[[FoldedEdits], str]
    tree: ChangedTree
    wanted: Mapping[str, bytes]
    staging: Path
    answers: Answers

    def candidates(self, folded: FoldedEdits) -> Iterator[ChangedPatch | str]:
        """The patch with these edits, and then with other predicates; or what is wrong."""
        text = self.text_of(folded)
        failure = self._write(text, folded)
        yield failure
        if isinstance(failure, ChangedPatch):
            return
        tried = {text}
        for other in self._with_other_predicates(text, folded):
            if other not in tried:
                tried.add(other)
                yield self._write(other, folded)

    def _with_other_predicates(self, text: str, folded: FoldedEdits) -> Iterator[str]:
        """The text, where predicates look for code as the changed edits make it.

        Where other variants make the code that an effect looks for, it takes both.
        """
        own = changed_pieces(folded.edits, folded.before)
        for pieces in (own, {**own, **with_lines(folded.texts)}):
            if len(self.original.declaration.variants) > 1:
                effect = with_alternatives(text, "effect", pieces)
                yield effect
                yield with_alternatives(effect, "concerns", pieces)
            for keys in _PREDICATES:
                yield with_texts(text, keys, pieces)

    def _write(self, text: str, folded: FoldedEdits) -> ChangedPatch | str:
        folder = self.staging / self.original.id
        remove(folder)
        shutil.copytree(self.original.folder, folder, symlinks=True)
        (folder / DECLARATION).write_bytes(text.encode())
        for name, content in folded.files.items():
            place = folder / name
            if not place.is_file() or place.read_bytes() != content:
                place.write_bytes(content)
        try:
            patch = load_patch(folder, EVERYTHING)
        except VpatchError as error:
            return error.what
        removed = tuple(sorted(_used(self.original) - _used(patch)))
        for name in removed:
            (folder / name).unlink()
        failure = self._failure(patch)
        return failure or ChangedPatch(patch, text, folded, removed)

    def _failure(self, patch: Patch) -> str | None:
        """Apply a patch twice. The first time it must give the bytes, the second time nothing."""
        alone = without_requires(patch)
        (first,) = plan([alone], self.tree, answers=self.answers, shapes=False).decisions
        if first.state is not State.NEEDED:
            return f"it is {first.state}: {first.reason}"
        files = {path: change.after for path, change in first.changes.items()}
        if files != self.wanted:
            return "it does not give the same bytes as the work tree"
        together = {**self.tree.files, **files}
        return failure_of_second(alone, self.tree.tree, together, self.answers)


def _used(patch: Patch) -> set[str]:
    """The names of the files that edits of a patch use."""
    return {path.name for variant in patch.variants for e in variant.edits for path in e.uses}


def with_examples(
    candidate: ChangedPatch, original: Patch, *, carried: bool = False
) -> ChangedPatch:
    """Keep the examples that hold, and write anew what follows from the code before.

    An example that the patch is not about any more stays, and the result says so, and whether it
    held with the `original` patch. So does one of a new variant of a patch that was `carried` over:
    somebody wrote down what is right there.
    """
    patch = candidate.patch
    if not (patch.folder / "examples").is_dir():
        return candidate
    try:
        failing = _failing(patch)
        earlier = _failing(original) if failing else []
    except VpatchError as error:
        return replace(candidate, examples=(ExampleNote(error.what, holds=False),))
    folder = patch.folder / "examples"
    decisions = dict(example_decisions(patch)) if failing else {}
    notes: list[ExampleNote] = []
    for name in failing:
        note = _write_again(patch, folder / name, decisions[name], carried=carried)
        if name in earlier:
            note = replace(note, text=f"{note.text}; it did not hold before, either")
        notes.append(note)
    return replace(candidate, examples=tuple(notes))


def _failing(patch: Patch) -> list[str]:
    return [one.name for one in run_examples(patch) if one.failures]


def _write_again(patch: Patch, folder: Path, decision: Decision, *, carried: bool) -> ExampleNote:
    if decision.state is not State.NEEDED or not folder.name.startswith(State.NEEDED):
        what = f"example {folder.name} does not hold: the patch is {decision.state} there"
        return ExampleNote(what, holds=False)
    if carried:
        return ExampleNote(
            f"example {folder.name} does not hold: the new variant makes other code of it, which "
            f"vpatch test {patch.id} shows",
            holds=False,
        )
    after = folder / "after"
    remove(after)
    shutil.copytree(folder / "before", after)
    for path, change in decision.changes.items():
        (after / path).parent.mkdir(parents=True, exist_ok=True)
        (after / path).write_bytes(change.after)
    text = f"example {folder.name}: its code after the patch is written anew"
    return ExampleNote(text, holds=True)


def beside_of(folder: Path) -> dict[str, bytes]:
    """The files beside a patch that edits may use."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name != DECLARATION
    }
