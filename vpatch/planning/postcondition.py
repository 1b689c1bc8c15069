"""What must hold after a patch: what it changed compiles, has all its names, and stays as it is."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from vpatch.codemods.custom import Custom
from vpatch.codemods.nesting import NestedTooDeeplyError, measured
from vpatch.codemods.text import AddFile, TextReplacement
from vpatch.planning.editing import lacks, probe, run_edit
from vpatch.planning.missing_imports import missing_imports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.codemods.bind import BoundEdit
    from vpatch.declare.edits import Predicate
    from vpatch.library.patch import BoundVariant
    from vpatch.planning.lint import NameFault
    from vpatch.planning.state import Change
    from vpatch.planning.view import View


def broken_promise(
    variant: BoundVariant,
    effect: Predicate | None,
    changes: Mapping[str, Change],
    after: View,
    *,
    imports: bool = True,
) -> str | None:
    """Say what a patch's result lacks; None if it lacks nothing.

    With `imports`, what new code imports of the tree's own package must be there.
    """
    for path, change in changes.items():
        if not path.endswith(".py"):
            continue
        digest = hashlib.sha256(change.after).digest()
        find = partial(_syntax_error, path, change.after)
        fault = after.answers.ask("syntax error", [digest], find)
        if fault is not None:
            return f"after the patch, {path} does not compile: {fault}"
    faults = list(_faults_of_names(variant, changes, after))
    faults = faults or (list(missing_imports(changes, after)) if imports else [])
    if faults:
        return "\n".join(faults)
    looks = [
        (edit.codemod.reading, edit.codemod.place)
        for edit in variant.edits
        if not isinstance(edit.codemod, (TextReplacement, AddFile))
        and edit.codemod.reading is not None
    ]
    # Nothing is left to change, so all edits may read the same.
    after = after.looking(looks)
    for edit in variant.edits:
        unstable = _not_idempotent(edit, effect, after)
        if unstable is not None:
            return unstable
    if effect is not None and not probe(effect, after).holds:
        return f"after the patch, the tree still {lacks(effect, after)}"
    return None


def _not_idempotent(edit: BoundEdit, effect: Predicate | None, view: View) -> str | None:
    again = run_edit(edit, view, carried=True)
    is_plain = isinstance(edit.codemod, Custom) and not edit.codemod.knows_done_places
    if is_plain and effect is None:
        return (
            f"{edit.name} is a plain libcst codemod, which cannot tell that a tree has its change: "
            f"declare an `effect`"
        )
    if again.mismatch is not None and (again.sites or not is_plain):
        return f"applied twice, {edit.name} does not fit: {again.mismatch}"
    if again.todo:
        return f"applied twice, {edit.name} changes the file again"
    return None


def _syntax_error(path: str, text: bytes) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # vLLM's own escapes and comparisons are not our concern
        try:
            measured(text)
            compile(text, path, "exec", dont_inherit=True)
        except SyntaxError as error:
            return f"line {error.lineno}: {error.msg}"
        except (ValueError, NestedTooDeeplyError, RecursionError, MemoryError) as error:
            return str(error) or type(error).__name__
    return None


def _faults_of_names(
    variant: BoundVariant, changes: Mapping[str, Change], after: View
) -> Iterator[str]:
    sources = {name: how for edit in variant.edits for name, how in edit.offers.items()}
    for path, change in changes.items():
        if not path.endswith(".py"):
            continue
        try:
            for fault in _new_faults(path, change.after, after):
                if fault.kind == "unused":
                    continue  # such code works
                yield f"after the patch, {_in_words(path, fault, sources)}"
        except RecursionError:
            yield f"after the patch, {path} nests code too deeply to check its names"


def _new_faults(path: str, text: bytes, view: View) -> list[NameFault]:
    # pyflakes imports doctest and pdb, which nobody needs who changes nothing.
    from vpatch.planning.lint import NameFault, is_package, new_faults  # noqa: PLC0415

    before = view.pristine(path)
    digests = [hashlib.sha256(content or b"").digest() for content in (before, text)]
    known = view.answers.ask(
        f"new faults of names; is there: {before is not None}, package: {is_package(path)}",
        digests,
        lambda: [asdict(fault) for fault in new_faults(path, before, text)],
    )
    return [NameFault(**row) for row in known]


def _in_words(path: str, fault: NameFault, sources: Mapping[str, str]) -> str:
    where = f"line {fault.line} of {path}"
    if fault.kind == "undefined":
        hint = sources.get(fault.name, "add an add-import edit, or define it")
        return f"{where} uses {fault.name}, which is not defined there ({fault.code}): {hint}"
    return f"{where} defines {fault.name} again before anything uses it ({fault.code})"
