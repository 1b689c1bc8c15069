"""What an edit that found nothing may have meant: code and scopes that resemble its own."""

from __future__ import annotations

import difflib
import math
import re
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.custom import Custom
from vpatch.codemods.find_code import FindCode
from vpatch.codemods.nodes import DEFINITIONS, GAP_PARAMETER, PREFIX, canonical, code_of
from vpatch.codemods.scope import Scope
from vpatch.codemods.text import AddFile, TextReplacement
from vpatch.planning.state import Finding
from vpatch.planning.view import UnparsableFile, lines_of
from vpatch.util.nearest_lines import first_difference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vpatch.codemods.base import EditSite
    from vpatch.codemods.bind import BoundEdit
    from vpatch.codemods.pattern import Pattern
    from vpatch.planning.view import View

_SHOWN = 3
_FILES = 8
_LENGTH = 100
# How much of the names, and of all, a candidate must share.
_NAMES, _ALL = 0.5, 0.6
_STRANGE = 0.25
# From which likeness on two names may be one and the same, misspelt.
_SAME_NAME = 0.75
_NAME = re.compile(r"[A-Za-z_]\w*")


def nearest(edit: BoundEdit, view: View, concerned: Iterable[str]) -> Iterator[Finding]:
    """Say what an edit may have meant that found nothing.

    That is the code that it searches, where its own limits exclude it, else code that is like it;
    and where `within` names nothing in the tree, the scope whose name is like it. Of a codemod, it
    is the words of `contains` that keep it from every file.
    """
    codemod = edit.codemod
    if isinstance(codemod, Custom):
        yield from _words_not_there(edit, codemod, view)
        return
    if isinstance(codemod, TextReplacement):
        yield from _nearest_lines(codemod, view)
        return
    if isinstance(codemod, AddFile) or codemod.sought is None:
        return
    sought, place = codemod.sought, codemod.place
    names = _close_names(sought, view)
    paths = _files_to_read(names, concerned, view)
    excluded = list(_sites_in(paths, sought, view))
    if place.within is not None:
        yield from _nearest_scope(place, paths, view)
    lines: dict[str, Mapping[cst.CSTNode, int]] = {}
    for path, site in excluded[:_SHOWN]:
        if path not in lines:
            lines[path] = lines_of(view.module(path))
        code = _short(_flat(code_of(site.node)))
        what = f"not admitted ({_why(edit, place, path, site)}): {code}"
        yield Finding(what, path, lines[path].get(site.node))
    if not excluded:
        yield from _alike(sought, names, paths, view)


def _sites_in(paths: Sequence[str], sought: Pattern, view: View) -> Iterator[tuple[str, EditSite]]:
    """Where a pattern matches in some files, without any limits."""
    for path in paths:
        with suppress(UnparsableFile):
            outcome = FindCode(sought, Scope()).apply(*view.parsed(path))
            yield from ((path, site) for site in outcome.sites)


def _why(edit: BoundEdit, place: Scope, path: str, site: EditSite) -> str:
    """Which limit of an edit excludes a place that its pattern matches."""
    scope = site.scope.split(".") if site.scope else []
    if edit.files and not any(fnmatchcase(path, glob) for glob in edit.files):
        return f"`files` is {', '.join(edit.files)}"
    if not Scope(place.within).admits(scope, None, site.node):
        where = f"in {site.scope}" if site.scope else "at the top level"
        return f"it is {where}, and `within` is {place.within}"
    for name, allowed in place.where.items():
        value = site.bindings.get(name, "")
        if value not in map(canonical, allowed):
            return f"${name} is {value}, and `where` has {', '.join(allowed)}"
    return "the edit does not take this place"


# --- text -------------------------------------------------------------------------------------


def _nearest_lines(codemod: TextReplacement, view: View) -> Iterator[Finding]:
    """Say which line keeps a text or a hunk of a diff from its place, in each file."""
    wanted = codemod.find.decode(errors="replace").splitlines()
    paths = view.matching(codemod.files)
    if len(paths) > _SHOWN:
        lines = [line for line in codemod.find.split(b"\n") if line.strip()]
        telling = sorted(lines, key=len)[-_SHOWN:]
        paths = sorted({p for line in telling for p in view.containing(line, codemod.files)})
    for path in paths[:_SHOWN]:
        there = (view.read(path) or b"").decode(errors="replace").splitlines()
        differs = first_difference(wanted, there)
        if differs is not None:
            yield Finding(f"the nearest place differs\n{differs}", path, differs.line)


# --- words -----------------------------------------------------------------------------------


def _words_not_there(edit: BoundEdit, codemod: Custom, view: View) -> Iterator[Finding]:
    """Say which words of `contains` no file has, or that no file has all of them."""
    if view.holding([codemod.contains], edit.files):
        return
    strange = [w for w in sorted(codemod.contains) if not view.holding([frozenset([w])], None)]
    for word in strange:
        text = word.decode()
        near = difflib.get_close_matches(text, view.vocabulary, _SHOWN, _SAME_NAME)
        meant = f"; nearest: {', '.join(near)}" if near else ""
        yield Finding(f"no file contains {text!r}, as `contains` has it{meant}")
    if not strange:
        listed = ", ".join(repr(word.decode()) for word in sorted(codemod.contains))
        among = f" among `files` ({', '.join(edit.files)})" if edit.files else ""
        yield Finding(f"no file{among} contains all of `contains`: {listed}")


# --- scopes -----------------------------------------------------------------------------------


def _nearest_scope(place: Scope, paths: Sequence[str], view: View) -> Iterator[Finding]:
    within = place.within or ""
    if not all(part.isidentifier() for part in within.split(".")):
        return  # a glob
    defining = [re.compile(rb"\b(?:def|class)\s+" + word + rb"\b") for word in place.words]
    for path in view.holding([place.words], None):
        text = view.read(path) or b""
        if all(word.search(text) for word in defining) and within in dict(_scopes(path, view)):
            return
    known = {scope: (path, line) for path in paths for scope, line in _scopes(path, view)}
    for scope in difflib.get_close_matches(within, known, 1, _SAME_NAME):
        path, line = known[scope]
        yield Finding(f"nothing is called {within}; nearest for `within`: {scope}", path, line)
        return
    yield Finding(f"nothing is called {within}, as `within` has it")


def _scopes(path: str, view: View) -> Iterator[tuple[str, int]]:
    """The qualified names of the functions and classes in a file, with lines."""
    try:
        module = view.module(path)
    except UnparsableFile:
        return
    lines = lines_of(module)
    yield from ((scope, lines.get(node, 1)) for scope, node in _definitions(module, ""))


def _definitions(parent: cst.CSTNode, prefix: str) -> Iterator[tuple[str, cst.CSTNode]]:
    """The functions and classes in a node, by their qualified names."""
    for node in parent.children:
        if isinstance(node, DEFINITIONS):
            name = f"{prefix}{node.name.value}"
            yield name, node
            yield from _definitions(node, f"{name}.")
        elif not isinstance(node, (cst.BaseExpression, cst.SimpleStatementLine)):
            yield from _definitions(node, prefix)


# --- code -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Name:
    """A name that is searched: how rare it is, and which files have it or one like it."""

    text: str
    weight: float
    paths: Sequence[str]

    def likeness(self, others: Iterable[str]) -> float:
        return max(map(partial(_likeness, self.text), others), default=0.0)


def _likeness(one: str, other: str) -> float:
    if one == other:
        return 1.0
    if 2 * min(len(one), len(other)) < _SAME_NAME * (len(one) + len(other)):
        return 0.0
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    if matcher.quick_ratio() < _SAME_NAME:
        return 0.0
    ratio = matcher.ratio()
    return ratio if ratio >= _SAME_NAME else 0.0


def _close_names(sought: Pattern, view: View) -> list[_Name]:
    names: list[_Name] = []
    for name in sorted(name.decode() for name in sought.names):
        spellings = [name]
        if not view.holding([frozenset([name.encode()])], None):
            spellings = difflib.get_close_matches(name, view.vocabulary, 5, _SAME_NAME)
        words = [frozenset([spelling.encode()]) for spelling in spellings]
        paths = view.holding(words, None) if words else []
        # A name that is like no other tells nothing apart.
        weight = 1 / (1 + math.log2(1 + len(paths))) if paths else _STRANGE
        names.append(_Name(name, weight, paths))
    return names


def _files_to_read(names: Sequence[_Name], first: Iterable[str], view: View) -> list[str]:
    """The files with the rarest of the names; those that come first win a tie."""
    weights = dict.fromkeys(first, 0.01)
    for name in names:
        for path in name.paths:
            weights[path] = weights.get(path, 0.0) + name.weight
    ranked = sorted(weights, key=lambda path: -weights[path])
    python = [path for path in ranked if path.endswith(".py") and view.read(path) is not None]
    return python[:_FILES]


def _alike(
    sought: Pattern, names: Sequence[_Name], paths: Sequence[str], view: View
) -> Iterator[Finding]:
    wanted = _flat(_head(sought.node)).replace(PREFIX, "$").replace(GAP_PARAMETER, "...")
    total = sum(name.weight for name in names) or 1.0
    matcher = difflib.SequenceMatcher(b=wanted, autojunk=False)
    best: list[tuple[float, int, int, str]] = []
    for index, path in enumerate(paths):
        try:
            module = view.module(path)
        except UnparsableFile:
            continue
        for node, line in lines_of(module).items():
            if _shape(node) != _shape(sought.node):
                continue
            text = _flat(_head(node))
            there = set(_NAME.findall(text))
            shared = sum(name.weight * name.likeness(there) for name in names) / total
            if shared >= _NAMES:
                matcher.set_seq1(text[: 2 * len(wanted) + 40])
                called = _called_alike(sought.node, node)
                best.append((2 * shared + matcher.ratio() + called, index, line, text))
    best.sort(key=lambda item: (-item[0], item[1], item[2]))
    for score, index, line, text in best[:_SHOWN]:
        if score >= 4 * _ALL:
            yield Finding(f"nearest: {_short(text)}", paths[index], line)


def _shape(node: cst.CSTNode) -> tuple[type, ...]:
    """The kind of a node, and of its value where it has one."""
    value = getattr(node, "value", None)
    kinds = (type(node), type(value)) if isinstance(value, cst.CSTNode) else (type(node),)
    return kinds if isinstance(node, cst.BaseSmallStatement) else kinds[:1]


def _called_alike(one: cst.CSTNode, other: cst.CSTNode) -> float:
    """How alike the names are that two places are about: of what they call, or define."""
    names = [name for name in map(_subject, (one, other)) if name is not None]
    if len(names) == 1:
        return 0.0
    return (
        difflib.SequenceMatcher(None, names[0], names[1], autojunk=False).ratio() if names else 1.0
    )


def _subject(node: cst.CSTNode) -> str | None:
    if isinstance(node, DEFINITIONS):
        return node.name.value
    call = node if isinstance(node, cst.Call) else getattr(node, "value", None)
    return code_of(call.func) if isinstance(call, cst.Call) else None


def _head(node: cst.CSTNode) -> str:
    """The code of a node; of a definition only what is above its body."""
    if not isinstance(node, DEFINITIONS):
        return code_of(node)
    body = cst.SimpleStatementSuite([cst.Expr(cst.Ellipsis())])
    return code_of(node.with_changes(body=body, leading_lines=[], decorators=[]))


def _flat(text: str) -> str:
    return " ".join(text.split())


def _short(text: str) -> str:
    return text if len(text) <= _LENGTH else f"{text[: _LENGTH - 1]}…"
