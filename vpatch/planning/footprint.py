"""Which definitions of a tree a patch reads, and which it makes.

A patch reads the definitions in which its predicates and edits find places, and those that have the
words of such a place. It reads those that its new code names, and those that use what it changes.
It also reads every definition that it is recorded to read in another release, so that one that was
renamed or moved away is missed.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter
from difflib import SequenceMatcher
from functools import partial
from typing import TYPE_CHECKING

from vpatch.planning.editing import words_of
from vpatch.planning.names import STATEMENT, plain_name
from vpatch.planning.outline import is_python
from vpatch.planning.references import changed_definitions, named_by_change
from vpatch.planning.users import users_elsewhere
from vpatch.util.digest import digest_of
from vpatch.util.words import has_word

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from vpatch.codemods.bind import BoundEdit
    from vpatch.planning.outcome import FoundSite
    from vpatch.planning.outline import Definition
    from vpatch.planning.state import Change
    from vpatch.planning.users import Reference
    from vpatch.planning.view import View

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# With fewer, half of the tree would be read.
_FEWEST_WORDS = 3


def definitions_read(
    sites: Iterable[FoundSite],
    changes: Mapping[str, Change],
    names: Iterable[str],
    view: View,
    edits: Iterable[BoundEdit] = (),
) -> dict[str, str]:
    """Return the definitions of the pristine tree that a patch reads, with their digests.

    Args:
        sites: the places that its predicates and edits found.
        changes: what it changes.
        names: definitions that it reads in other releases, as `PATH::QUALIFIED.NAME`.
        view: the pristine tree.
        edits: those that were tried.
    """
    wanted: dict[str, set[str]] = {}
    for site in sites:
        for key in definitions_of(site, view):
            wanted.setdefault(site.path, set()).add(key)
    for path, change in changes.items():
        if path in wanted and is_python(path) and change.before is not None:
            wanted[path] |= _statements_before(wanted[path], path, change.before, view)
    read = [(path, frozenset(keys)) for path, keys in wanted.items()]
    for other, key in (
        *(user for path, keys in read for user in users_elsewhere(path, keys, view)),
        *(
            reference
            for path, change in changes.items()
            if is_python(path) and change.before is not None
            for reference in named_by_change(path, change, view)
        ),
        *_respelt(edits, view),
    ):
        wanted.setdefault(other, set()).add(key)
    for known in names:
        wanted.setdefault(known.partition("::")[0], set()).add(plain_name(known))
    definitions: dict[str, str] = {}
    for path, keys in sorted(wanted.items()):
        digests = view.ask_pristine(
            f"digests of {sorted(keys)}", path, partial(_digests_of, keys, path, view)
        )
        definitions |= {f"{path}::{name}": digest for name, digest in digests.items()}
    # Those of one name are numbered as a record numbers them.
    return combined(definitions, {})


def _statements_before(keys: Iterable[str], path: str, text: bytes, view: View) -> set[str]:
    """The keys that edited statements of a file have in the pristine tree.

    The key of a statement is its digest, so the edit of an earlier patch gives it another one.
    """
    pristine = view.outline(path)
    old = [one.key for one in pristine]
    edited = set(keys).difference(old)
    if not edited or text == view.pristine(path):
        return set()
    new = [one.key for one in view.outline_of(path, text)]
    statements: set[str] = set()
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for kind, first, last, start, end in steps:
        if kind == "replace" and edited.intersection(new[start:end]):
            statements.update(o.key for o in pristine[first:last] if o.name.endswith(STATEMENT))
    return statements


def _digests_of(keys: Container[str], path: str, view: View) -> dict[str, str]:
    return _digests_by_name(_with_statements_around(view.outline(path), keys))


def combined(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """Return the definitions that either has. Numbers tell apart those of one name."""
    both = Counter(map(_without_number, one.items())) | Counter(map(_without_number, other.items()))
    return _numbered(sorted(both.elements()))


def _without_number(item: tuple[str, str]) -> tuple[str, str]:
    key, digest = item
    return f"{key.partition('::')[0]}::{plain_name(key)}", digest


def _with_statements_around(
    definitions: Sequence[Definition], keys: Container[str]
) -> Iterator[Definition]:
    """Some definitions, and each statement that one lies in: an `if` may have another one."""
    spans = [(one.first, one.last) for one in definitions if one.key in keys]
    for one in definitions:
        around = one.name.endswith(STATEMENT) and any(
            one.first <= first and last <= one.last for first, last in spans
        )
        if one.key in keys or around:
            yield one


def _respelt(edits: Iterable[BoundEdit], view: View) -> Iterator[Reference]:
    """The definitions that have all the words of what an edit looks for: it may be spelt otherwise.

    Words that are too few say nothing.
    """
    for edit in edits:
        for words in words_of(edit):
            if len(words) < _FEWEST_WORDS:
                continue
            for path in filter(is_python, view.holding([words], edit.files)):
                question = f"definitions with {sorted(words)}"
                for key in view.ask_pristine(
                    question, path, partial(_with_words, words, path, view)
                ):
                    yield path, key


def _with_words(words: Iterable[bytes], path: str, view: View) -> list[str]:
    return [
        one.key
        for one in view.outline(path)
        if not isinstance(one.node, ast.ClassDef | None)
        and all(has_word(word, one.text) for word in words)
    ]


def _definitions_patched(changes: Mapping[str, Change]) -> dict[str, str]:
    """Return the definitions that changes make or change, with the digests of the new syntax.

    Files that the patch creates are left out: its edits compare all of their bytes.
    """
    patched: dict[str, str] = {}
    for path, change in changes.items():
        if change.before is not None:
            own = _digests_by_name(changed_definitions(path, change))
            patched |= {f"{path}::{name}": digest for name, digest in own.items()}
    return patched


def digest_of_changes(changes: Mapping[str, Change]) -> str:
    """Return `sha256:HEX` over the definitions that changes make, and the files they create.

    It stays the same if other code in the same files differs.
    """
    created = {path: digest_of(c.after) for path, c in changes.items() if c.before is None}
    parts = sorted((created | _definitions_patched(changes)).items())
    return digest_of(json.dumps(parts).encode())


def _digests_by_name(definitions: Iterable[Definition]) -> dict[str, str]:
    return _numbered((one.name, one.digest) for one in definitions)


def _numbered(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Digests by unique names: `NAME`, then `NAME#2`."""
    seen: Counter[str] = Counter()
    digests: dict[str, str] = {}
    for name, digest in pairs:
        seen[name] += 1
        digests[f"{name}#{seen[name]}" if seen[name] > 1 else name] = digest
    return digests


def definitions_of(site: FoundSite, view: View) -> Sequence[str]:
    """Return the keys of the definitions in which a site lies, or which it is."""
    if site.defined is None:
        if site.line is None:
            return []  # a file that the patch creates: its edit compares all of it
        text = site.text or b""
        around = view.answers.ask(
            f"definition around line {site.line}, Python: {is_python(site.path)}",
            [hashlib.sha256(text).digest()],
            partial(_around, site.line, site.path, text, view),
        )
    else:
        own = [site.definition] if site.definition else []
        parts = [*site.scope.split("."), *own] if site.scope else own
        question = f"definitions around {parts} {bool(own)}"
        find = partial(_containing, parts, bool(own), site.path, view)
        around, is_inside = view.ask_pristine(question, site.path, find)
        if not is_inside:
            around = [*around, *site.defined]
    keys: list[str] = around
    return keys


def _around(line: int, path: str, text: bytes, view: View) -> list[str]:
    around = [one.key for one in view.outline_of(path, text) if one.first <= line <= one.last]
    # The head of a class comes before what is in it.
    return around[-1:]


def _containing(
    parts: Sequence[str],
    is_definition: bool,  # noqa: FBT001
    path: str,
    view: View,
) -> tuple[list[str], bool]:
    """The innermost definition of a qualified name, and whether it has all of a place in it."""
    by_name = {one.name: one for one in view.outline(path)}
    for depth in range(len(parts), 0, -1):
        one = by_name.get(".".join(parts[:depth]))
        if one is not None:
            return [one.key], isinstance(one.node, _FUNCTIONS) or is_definition
    return [], False
