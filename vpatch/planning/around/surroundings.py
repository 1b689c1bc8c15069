"""The code around what a patch reads: what it calls, what calls it, and what is about the same.

A state is read from definitions. It relies on more: on functions that these call, on the way to
them, on constants, on bases and subclasses, on what an imported name is. These are the
surroundings. They are found by names, so what is bound by other means is not seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.planning.around.callees import NamedCode
from vpatch.planning.around.parts import SHORTEST, Parts
from vpatch.planning.around.users import CodeUsers
from vpatch.planning.editing import words_of
from vpatch.planning.footprint import definitions_of
from vpatch.planning.names import plain_name
from vpatch.planning.outline import is_python
from vpatch.planning.references import changed_definitions

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

    from vpatch.library.patch import Patch
    from vpatch.planning.around.code_entries import CodeEntry
    from vpatch.planning.around.code_index import CodeIndex
    from vpatch.planning.outcome import FoundSite
    from vpatch.planning.state import Decision

# Functions that give something an attribute by a text, such as an operator.
_DECLARING = frozenset(["define", "direct_register_custom_op", "register_fake", "setattr"])
# How many steps of callers lead from a route to a defect, at most.
_TO_THE_ROUTE = 3


def surroundings_of(
    decision: Decision,
    sites: Iterable[FoundSite],
    definitions: Iterable[str],
    index: CodeIndex,
) -> dict[str, str]:
    """Return the definitions around what a decision was read from, with digests.

    Args:
        decision: what was decided on the pristine tree, or after other patches.
        sites: the places that it was read from.
        definitions: the keys of the definitions that it was read from. Those in files with a place
            count, or all where there is no place.
        index: the definitions of the pristine tree.
    """
    core: dict[str, set[str]] = {}
    for site in sites:
        if is_python(site.path):
            core.setdefault(site.path, set()).update(definitions_of(site, index.view))
    placed = {path: set(keys) for path, keys in core.items()}
    # What is absent is looked for by its name, and the same code may be spelt otherwise.
    files = {path for path, keys in core.items() if keys}
    for key in definitions:
        path = key.partition("::")[0]
        if path in files or not files:
            core.setdefault(path, set()).add(plain_name(key))
    new_code: dict[str, Sequence[CodeEntry]] = {}
    for path, change in decision.changes.items():
        if is_python(path):
            keys = {one.key for one in changed_definitions(path, change)}
            new_code[path] = list(_new_code(path, change.after, keys, index))
            if change.before is not None:
                core.setdefault(path, set()).update(keys)
                placed.setdefault(path, set()).update(keys)
    edits = [edit for variant in decision.patch.variants for edit in variant.edits]
    words = {
        word.decode()
        for edit in edits
        for alternative in words_of(edit)
        for word in alternative
        if len(word) > SHORTEST
    }
    depth = _depth_of(decision.patch)
    return surroundings(core, new_code, words, index, placed=placed, depth=depth)


def _new_code(
    path: str, text: bytes, keys: Container[str], index: CodeIndex
) -> Iterator[CodeEntry]:
    """The definitions that a change makes, with only the names that they did not have before."""
    before = {entry.key: entry for entry in index.entries(path)}
    for entry in index.entries_of(path, text):
        if entry.key in keys:
            old = before.get(entry.key)
            yield entry if old is None else entry.without_names_of(old)


def _depth_of(patch: Patch) -> int:
    """How many steps of callers count: a defect may be closed on the way to it."""
    return _TO_THE_ROUTE if patch.cures else 1


def surroundings(
    core: Mapping[str, Collection[str]],
    new_code: Mapping[str, Sequence[CodeEntry]],
    words: Iterable[str],
    index: CodeIndex,
    *,
    placed: Mapping[str, Collection[str]],
    depth: int = 1,
) -> dict[str, str]:
    """Return the definitions around some others, as `PATH::QUALIFIED.NAME`, with digests.

    Args:
        core: by path, the keys of the definitions in which a patch finds places.
        new_code: by path, the definitions that the patch makes.
        words: names of what its edits look for.
        index: the definitions of the pristine tree.
        placed: those of `core` that have a place, or that the patch changes. What leads to others
            does not count, but where there are none.
        depth: how many steps of callers count.
    """
    parts = Parts(index)
    named, users = NamedCode(parts), CodeUsers(parts)
    for path, keys in core.items():
        own = [entry for entry in index.entries(path) if entry.key in keys]
        for entry in own:
            named.add_what_it_names(path, entry)
            if entry.key in placed.get(path, ()) or not any(placed.values()):
                users.add_users(path, entry, depth)
            users.add_class(path, entry)
            users.add_who_else_uses(entry)
        users.add_order(path, own)
    declares = any(
        not _DECLARING.isdisjoint(entry.names | entry.attributes)
        for entries in new_code.values()
        for entry in entries
    )
    for path, entries in new_code.items():
        for entry in entries:
            named.add_what_it_names(path, entry)
            users.add_fields(entry)
            if declares:
                users.add_who_asks_for(entry)
    for word in sorted(words):
        users.add_users_of_word(word)
    outside = {
        f"{path}::{entry.name}"
        for path, keys in core.items()
        for entry in index.entries(path)
        if entry.key in keys
    }
    return {key: digest for key, digest in parts.digests().items() if key not in outside}
