"""Run edits and predicates over a view of a tree, and count what they find."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.codemods.base import EditOutcome, EditSite, Scope, SiteTransformer
from vpatch.codemods.nodes import canonical, kinds_of
from vpatch.codemods.pattern import Pattern, parse_pattern
from vpatch.codemods.text import AddFile, TextReplacement
from vpatch.planning.outline import is_python
from vpatch.planning.state import Finding
from vpatch.planning.view import View, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import libcst as cst

    from vpatch.codemods.base import PythonEdit, Repeat
    from vpatch.codemods.bind import BoundEdit
    from vpatch.codemods.extent import Extents
    from vpatch.declare.edits import Expect, Predicate


@dataclass(frozen=True)
class FoundSite:
    """A site in a file. `module` is what its node is a part of; files of text have `text`."""

    path: str
    todo: bool
    scope: str = ""
    problem: str | None = None
    recognised: bool = True
    repeat: Repeat | None = None
    bindings: Mapping[str, str] | None = None
    node: cst.CSTNode | None = None
    module: cst.Module | None = None
    text_line: int | None = None
    text: bytes | None = None


@dataclass(frozen=True)
class EditResult:
    """What one edit found and made of a view. `mismatch` says how the count is wrong, if it is."""

    edit: BoundEdit
    found: tuple[FoundSite, ...]
    view: View
    mismatch: str | None

    @property
    def todo(self) -> bool:
        return any(found.todo for found in self.found)

    @property
    def recognised(self) -> list[FoundSite]:
        """What was found, without new code that does not show what it replaced."""
        return [found for found in self.found if found.recognised]


def run_edit(edit: BoundEdit, view: View, *, carried: bool = False) -> EditResult:
    """Run one edit. `carried` says that the view has the patch already.

    Then new code counts that does not show what it replaced.
    """
    codemod = edit.codemod
    if isinstance(codemod, (TextReplacement, AddFile)):
        found, after = _run_text(codemod, view)
    else:
        found, after = _run_python(codemod, edit.files, edit.where, view)
    problem = next((f for f in found if f.problem is not None), None)
    if problem is not None:
        mismatch: str | None = f"{problem.path}: {problem.problem}"
    elif edit.files and not isinstance(codemod, AddFile) and not view.matching(edit.files):
        mismatch = f"no file of the tree matches {', '.join(edit.files)}"
    else:
        mismatch = count(edit.expect, found, edit.where, carried=carried)
        unrecognised = sum(not f.recognised for f in found)
        if mismatch and unrecognised and not carried:
            mismatch += (
                f"; {unrecognised} more with the new code, but nothing shows that it replaced "
                f"the old"
            )
    return EditResult(edit, tuple(found), view if mismatch else after, mismatch)


def _run_text(codemod: TextReplacement | AddFile, view: View) -> tuple[list[FoundSite], View]:
    found: list[FoundSite] = []
    files: dict[str, bytes] = {}
    paths = [codemod.path] if isinstance(codemod, AddFile) else view.matching(codemod.files)
    for path in paths:
        before = view.read(path)
        if isinstance(codemod, AddFile):
            obstacle = view.obstacle(path)
            if obstacle is not None:
                return [FoundSite(path, todo=True, problem=obstacle)], view
            after, sites = codemod.apply(before)
        else:
            after, sites = codemod.apply(before or b"")
        if after != before:
            files[path] = after
        found += [
            FoundSite(
                path,
                s.todo,
                problem=s.problem,
                recognised=s.recognised,
                text_line=s.line,
                text=before,
            )
            for s in sites
        ]
    return found, view.over({}, files)


def _run_python(
    codemod: PythonEdit,
    globs: Sequence[str] | None,
    where: Mapping[str, Sequence[str]],
    view: View,
) -> tuple[list[FoundSite], View]:
    found: list[FoundSite] = []
    modules: dict[str, cst.Module] = {}
    needles = [codemod.place.words | words for words in _expanded(codemod.needles, where)]
    paths = view.mentioning(view.holding(needles, globs), codemod.place.pieces)
    for path in filter(is_python, paths):
        if isinstance(codemod, _Probe) and not view.may_have(path, codemod.sought):
            continue
        module = view.module(path)
        outcome = codemod.apply(module, view.extents)
        if any(site.todo for site in outcome.sites):
            modules[path] = outcome.module
        found += [_found(path, site, module) for site in outcome.sites]
    return found, view.over(modules, {})


def words_of(edit: BoundEdit) -> list[frozenset[bytes]]:
    """The words of the code that an edit looks for, in each of its forms; none for a text."""
    codemod = edit.codemod
    if isinstance(codemod, (TextReplacement, AddFile)):
        return []
    return _expanded(codemod.needles, edit.where)


def _expanded(
    needles: Sequence[frozenset[bytes]], where: Mapping[str, Sequence[str]]
) -> list[frozenset[bytes]]:
    """Alternatives for each value that a metavariable may have, as far as values are words."""
    words = [
        [value.encode() for value in values]
        for values in where.values()
        if all(value.isidentifier() and value.isascii() for value in values)
    ]
    return [base.union(choice) for base in needles for choice in itertools.product(*words)]


def _found(path: str, site: EditSite, module: cst.Module) -> FoundSite:
    return FoundSite(
        path,
        site.todo,
        site.scope,
        site.problem,
        site.recognised,
        site.repeat,
        site.bindings,
        site.node,
        module,
    )


def count(
    expect: Expect,
    found: Sequence[FoundSite],
    where: Mapping[str, Sequence[str]],
    *,
    carried: bool = False,
) -> str | None:
    """How the places found differ from the number declared, in words; None if they do not.

    Source: shared convention of the edits; done places count as much as those with work left, so
    that a tree that upstream has half fixed is still recognised. New code that does not show what
    it replaced may fill the number up where the tree has the patch, and does not count elsewhere.
    """
    unsure = [f for f in found if not f.recognised] if carried else []
    found = [f for f in found if f.recognised]
    wanted = expect.at_least or expect.count or 1
    # Nothing found at all has no files to count by.
    groups = sorted({f.path for f in found}) if expect.per == "file" and found else [None]
    variable = expect.for_each.removeprefix("$") if expect.for_each else None
    values = where.get(variable, ()) if variable else [None]
    wrong: list[str] = []
    for path in groups:
        for value in values:
            number, further = (
                sum(
                    (path is None or f.path == path)
                    and (
                        value is None or (f.bindings or {}).get(variable or "") == canonical(value)
                    )
                    for f in places
                )
                for places in (found, unsure)
            )
            if number + further >= wanted and (number <= wanted or expect.at_least is not None):
                continue
            least = "at least " if expect.at_least is not None else ""
            of = f" for ${variable} = {value}" if value else ""
            place = f" in {path}" if path else ""
            wrong.append(f"expected {least}{wanted}{of}, found {number}{place}")
    return "; ".join(wrong) or None


# --- predicates -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Probed:
    """`found` are the places that were looked at, also where the predicate does not hold."""

    holds: bool
    found: tuple[FoundSite, ...] = ()


def probe(predicate: Predicate, view: View) -> Probed:
    """Whether a predicate holds for a view, and the places that show it."""
    if predicate.find is not None:
        place = _place(predicate)
        sought = parse_pattern(predicate.find)
        unless = tuple(map(parse_pattern, predicate.unless or ()))
        matches = search(sought, place, predicate.files, view, unless)
        return Probed(bool(matches), tuple(matches))
    if predicate.text is not None:
        needle = predicate.text.encode()
        paths = view.containing(needle, predicate.files)
        return Probed(bool(paths), tuple(_first_line(view, path, needle) for path in paths))
    if predicate.all_ is not None:
        found: list[FoundSite] = []
        for inner in predicate.all_:
            result = probe(inner, view)
            found += result.found
            if not result.holds:
                return Probed(holds=False, found=tuple(found))
        return Probed(holds=True, found=tuple(found))
    if predicate.any_ is not None:
        results = [probe(inner, view) for inner in predicate.any_]
        return Probed(any(r.holds for r in results), tuple(f for r in results for f in r.found))
    results = [probe(inner, view) for inner in predicate.none or ()]
    return Probed(not any(r.holds for r in results), tuple(f for r in results for f in r.found))


def search(
    pattern: Pattern,
    place: Scope,
    files: Sequence[str] | None,
    view: View,
    unless: Sequence[Pattern] = (),
) -> Sequence[FoundSite]:
    """Every match of a pattern in code that can run, but for those that `unless` matches."""
    found, _ = _run_python(_Probe(pattern, place, unless), files, place.where, view)
    return found


def describe(predicate: Predicate) -> str:
    """A predicate in words."""
    if predicate.find is not None:
        text = f"the code {' '.join(predicate.find.split())}"
    elif predicate.text is not None:
        text = f"the text {predicate.text.strip()!r}"
    elif predicate.all_ is not None:
        return " and ".join(map(_in_brackets, predicate.all_))
    elif predicate.any_ is not None:
        return " or ".join(map(_in_brackets, predicate.any_))
    else:
        return f"nothing of: {', '.join(describe(inner) for inner in predicate.none or ())}"
    if predicate.unless:
        text += f", other than {' or '.join(' '.join(each.split()) for each in predicate.unless)},"
    within = f" within {predicate.within}" if predicate.within else ""
    return text + within + (f" in {', '.join(predicate.files)}" if predicate.files else "")


def lacks(effect: Predicate) -> str:
    return f"the tree still does not have {describe(effect)}"


def _in_brackets(predicate: Predicate) -> str:
    """A part of several predicates, told apart where it has several parts itself."""
    parts = predicate.all_ or predicate.any_ or ()
    return f"({describe(predicate)})" if len(parts) > 1 else describe(predicate)


def _place(predicate: Predicate) -> Scope:
    where = {name.removeprefix("$"): texts for name, texts in predicate.where.items()}
    return Scope(predicate.within, where)


def _first_line(view: View, path: str, needle: bytes) -> FoundSite:
    text = view.read(path) or b""
    line = text.count(b"\n", 0, text.index(needle)) + 1
    return FoundSite(path, todo=False, text_line=line, text=text)


class _Probe:
    """An edit that edits nothing: every match of a pattern is a site."""

    def __init__(self, sought: Pattern, place: Scope, unless: Sequence[Pattern]) -> None:
        self.sought = sought
        self.place = place
        self.unless = unless
        self.needles = (sought.needles,)

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        return _ProbeTransformer(self.sought, self.place, self.unless).run(module, extents)


class _ProbeTransformer(SiteTransformer):
    def __init__(self, pattern: Pattern, place: Scope, unless: Sequence[Pattern]) -> None:
        self.kinds = kinds_of(pattern.node)
        super().__init__(place, (pattern.names,))
        self.pattern = pattern
        self.unless = unless

    def edit(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        match = self.pattern.match(updated, self.spellings)
        if match is None or not self.place.admits(self.scope, match, updated):
            return updated
        excluded = (p.match(updated, self.spellings, match.bindings) for p in self.unless)
        if not any(excluded):
            self.add(original, todo=False, match=match)
        return updated


# --- telling ----------------------------------------------------------------------------------


def findings(what: str, found: Iterable[FoundSite], view: View | None = None) -> Iterator[Finding]:
    """Say where things were found, with lines: those of the pristine files, if a view is given."""
    lines: dict[int, Mapping[cst.CSTNode, int]] = {}
    for item in found:
        line, text = item.text_line, item.text
        if item.module is not None and item.node is not None:
            if id(item.module) not in lines:
                lines[id(item.module)] = lines_of(item.module)
            line, text = lines[id(item.module)].get(item.node), item.module.bytes
        if view is not None and line is not None and text is not None:
            line = view.pristine_line(item.path, line, text)
        done = "there" if item.recognised else "the new code, with no sign of the old"
        state = item.problem or ("to do" if item.todo else done)
        scope = f" in {item.scope}" if item.scope else ""
        yield Finding(f"{what}{scope}: {state}", item.path, line)
