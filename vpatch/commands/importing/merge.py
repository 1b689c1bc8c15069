"""Edits that are the same but for their place become one, with the number of places."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from vpatch.codemods.text import AddFile, TextReplacement
from vpatch.deriving.trial import bound_edits
from vpatch.planning.editing import run_edit, words_of
from vpatch.planning.view import View

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.deriving.candidate import Declared
    from vpatch.source.tree import Tree

Placed = tuple[str, "Declared"]
# In so many files without a place, its names may be.
_MOST_OTHERS = 30
_MERGED = ("add-keyword", "rewrite", "add-import")


def merged(edits: Sequence[Placed], tree: Tree) -> list[Declared]:
    """Merge edits of a release, each with its file, where one edit finds exactly their places."""
    groups: dict[str, list[Placed]] = {}
    for path, edit in edits:
        groups.setdefault(_key(edit), []).append((path, edit))
    one_for: dict[str, Declared] = {}
    for key, members in groups.items():
        if len(members) > 1 and any(verb in members[0][1] for verb in _MERGED):
            one = next((each for each in _ways(members) if _fits(each, members, tree)), None)
            if one is not None:
                one_for[key] = one
    fewer: list[Declared] = []
    for _, edit in edits:
        instead = one_for.get(_key(edit), edit)
        if instead not in fewer or instead is edit:
            fewer.append(instead)
    return fewer


def _key(edit: Declared) -> str:
    rest = {key: value for key, value in edit.items() if key not in {"within", "files"}}
    return json.dumps(rest, sort_keys=True)


def _ways(members: Sequence[Placed]) -> Iterator[Declared]:
    """One edit for all members: with the name of their definition, and without."""
    counts = Counter(path for path, _ in members)
    numbers = set(counts.values())
    first = members[0][1]
    for left_out in ({"files"}, {"files", "within"}):
        rests = [{k: v for k, v in edit.items() if k not in left_out} for _, edit in members]
        if any(rest != rests[0] for rest in rests) or "expect" in first or len(numbers) > 1:
            continue
        number = max(numbers)
        if len(counts) > 1:
            yield {**rests[0], "expect": {"count": number, "per": "file"}}
        else:
            yield {**rests[0], "expect": number}
            yield {**rests[0], "files": first.get("files", members[0][0]), "expect": number}


def _fits(edit: Declared, members: Sequence[Placed], tree: Tree) -> bool:
    """Whether an edit has as many places in the release as its members, and in the same files.

    A place that is done counts, too: an older release may have it undone. An edit whose names are
    in many other files is given up: to run it on all of them takes minutes.
    """
    bound = next(iter(bound_edits([edit], {}) or ()), None)
    if bound is None or isinstance(bound.codemod, (TextReplacement, AddFile)):
        return False
    view, wanted = View(tree), Counter(path for path, _ in members)
    words = [bound.codemod.place.words | each for each in words_of(bound)]
    if len(view.holding(words, bound.files)) > len(wanted) + _MOST_OTHERS:
        return False
    result = run_edit(bound, view)
    return result.mismatch is None and Counter(site.path for site in result.sites) == wanted
