"""The slow way to decide: no index, no prefilter, no part of a file, nothing remembered.

A tree's files are searched byte by byte. Each file that has the words of a place is parsed whole by
libcst, and every statement of it is visited. Every answer is found anew.
"""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from vpatch.codemods.extent import Extents
from vpatch.planning import editing
from vpatch.planning.answers import Answers
from vpatch.planning.outcome import outcome
from vpatch.planning.view import View


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
