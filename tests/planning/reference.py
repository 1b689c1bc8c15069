"""The slow way to decide: no index, no prefilter, no part of a file, nothing remembered.

A tree's files are searched byte by byte. Each file that has the words of a place is parsed whole by
libcst, and every statement of it is visited. Every answer is found anew.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from vpatch.codemods.extent import Extents
from vpatch.planning import editing
from vpatch.planning.answers import Answers
from vpatch.planning.outcome import outcome
from vpatch.planning.plan import plan
from vpatch.planning.view import View
from vpatch.source.searched import SearchedTree

if TYPE_CHECKING:
    from vpatch.source.tree import Pin


@contextmanager
def slow_way():
    """Decide the slow way in a `with` block."""
    with pytest.MonkeyPatch.context() as patch:
        # Nothing is recalled: neither what an edit finds in a file, nor anything else.
        patch.setattr(editing, "outcome", _outcome_anew)
        patch.setattr(Answers, "ask", lambda _self, _question, _contents, find: find())
        # Every file is parsed whole.
        patch.setattr(View, "may_have", lambda _self, _path, _pattern: True)
        patch.setattr(View, "reduced", lambda _self, _path, _look: None)
        # No statement is passed over, and libcst reads what a module imports.
        patch.setattr(Extents, "remember", lambda *_args, **_kwargs: None)
        yield


def _outcome_anew(codemod, _question, path, view, *, located):
    return outcome(codemod, None, path, view, located=located)


def decided(patches, tree, answers=None):
    """What is decided of each patch after those before it, and all that is written."""
    return [*map(_cell, plan(patches, tree, findings_for="none", answers=answers).decisions)]


def decided_slowly(patches, tree):
    """The same, the slow way."""
    files = {path: tree.read(path) for path in tree.paths()}
    package = frozenset(tree.package_files)
    gc.disable()  # libcst's nodes have no circles, and to look for some takes long
    try:
        with slow_way():
            return decided(patches, _BytesTree(tree.pin, files, package, tree.carried, tree.links))
    finally:
        gc.enable()


@dataclass(frozen=True)
class _BytesTree(SearchedTree):
    """A tree's files in memory, where every question searches the bytes of all of them."""

    pin: Pin
    files: dict[str, bytes]
    package: frozenset[str]
    carried: frozenset[str]
    links: frozenset[str]

    @cached_property
    def package_files(self):
        return {path: text for path, text in self.files.items() if path in self.package}

    def paths(self):
        return sorted(self.files)

    def read(self, path):
        return self.files[path]


def _cell(decision):
    return (
        decision.patch.id,
        decision.state,
        decision.reason,
        decision.variant,
        decision.disagreement,
        None if decision.shape is None else dict(decision.shape.definitions),
        decision.shape is not None and decision.shape.known,
        {path: (change.before, change.after) for path, change in decision.changes.items()},
    )
