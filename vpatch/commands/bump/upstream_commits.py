"""Which upstream commits changed the definitions that differ between two releases."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

from vpatch.commands.bump.verdict import PatchBump, Verdict
from vpatch.planning.names import STATEMENT
from vpatch.planning.outline import outline
from vpatch.workspace.definition_commits import DefinitionCommits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vpatch.commands.bump.changed_code import ChangedCode
    from vpatch.planning.code_place import CodePlace
    from vpatch.planning.outline import Definition
    from vpatch.workspace.definition_commits import Differs
    from vpatch.workspace.upstream_history import UpstreamHistory

# A definition of a file: its path, its name, and the digest of a statement, which has no name.
_Wanted = tuple[str, str, str]


def with_commits(patches: Sequence[PatchBump], history: UpstreamHistory) -> tuple[PatchBump, ...]:
    """Add the commits that changed the definitions of patches.

    A commit counts if it changed the syntax of the definition, or added or removed it. Comments,
    docstrings and layout make no difference. Patches to keep are left as they are.
    """
    wanted = {
        key for patch in patches for one in asked_about(patch) for key in map(_key, _places(one))
    }
    commits = DefinitionCommits(history)
    commits_of = {key: commits.changing(key[0], _differing(key)) for key in sorted(wanted)}

    def credit(one: ChangedCode) -> ChangedCode:
        commits = {c.id: c for place in _places(one) for c in commits_of[_key(place)]}
        # Those of one file are in order, also within a second.
        ordered = sorted(commits.values(), key=lambda commit: commit.when)
        return replace(one, commits=tuple(ordered))

    return tuple(
        replace(
            patch,
            changed=tuple(
                credit(one) if one in asked_about(patch) else one for one in patch.changed
            ),
        )
        for patch in patches
    )


def asked_about(patch: PatchBump) -> list[ChangedCode]:
    """The definitions whose commits say something about a patch."""
    if patch.verdict is Verdict.KEEP:
        return []
    return [one for one in patch.changed if one.kind != "moved"]


def _places(one: ChangedCode) -> list[CodePlace]:
    return [place for place in (one.before, one.after) if place is not None]


def _key(place: CodePlace) -> _Wanted:
    return place.path, place.name, _statement(place) if place.name.endswith(STATEMENT) else ""


def _statement(place: CodePlace) -> str:
    """The digest of a statement: it is the same without what is around it."""
    definitions = outline(textwrap.dedent("\n".join(place.lines)).encode())
    return next((one.digest for one in definitions if one.name == STATEMENT), "")


def _differing(key: _Wanted) -> Differs:
    return lambda before, after: _digests(key, before) != _digests(key, after)


def _digests(key: _Wanted, definitions: Iterable[Definition]) -> list[str]:
    _, name, statement = key
    digests = sorted(one.digest for one in definitions if one.name == name)
    return [one for one in digests if not statement or one == statement]
