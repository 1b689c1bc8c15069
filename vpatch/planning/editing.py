"""Run edits and predicates over a view of a tree, and count what they find."""

from __future__ import annotations

import itertools
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.codemods.custom import Custom
from vpatch.codemods.find_code import FindCode
from vpatch.codemods.nodes import canonical
from vpatch.codemods.pattern import parse_pattern
from vpatch.codemods.scope import Scope
from vpatch.codemods.statements import RewriteStatements
from vpatch.codemods.text import AddFile, TextReplacement
from vpatch.planning.outcome import FoundSite, outcome
from vpatch.planning.outline import is_python
from vpatch.planning.state import Finding
from vpatch.source.tree import BUILT
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vpatch.codemods.base import PythonEdit
    from vpatch.codemods.bind import BoundEdit
    from vpatch.declare.edits import Expect, Predicate
    from vpatch.planning.view import View


@dataclass(frozen=True)
class EditResult:
    """What one edit found and made of a view. `mismatch` says how the count is wrong, if it is."""

    edit: BoundEdit
    sites: tuple[FoundSite, ...]
    view: View
    mismatch: str | None

    @property
    def todo(self) -> bool:
        return any(site.todo for site in self.sites)

    @property
    def recognised(self) -> list[FoundSite]:
        """What was found, without new code that does not show what it replaced."""
        return [site for site in self.sites if site.recognised]


def run_edit(
    edit: BoundEdit, view: View, *, carried: bool = False, located: bool = False
) -> EditResult:
    """Run one edit. `carried` says that the view has the patch already.

    Then new code counts that does not show what it replaced. With `located`, places have lines.
    """
    codemod = edit.codemod
    if isinstance(codemod, (TextReplacement, AddFile)):
        sites, after = _run_text(codemod, view)
    else:
        sites, after = _run_python(codemod, _question(edit), edit.files, view, located=located)
    problem = next((site for site in sites if site.problem is not None), None)
    if problem is not None:
        mismatch: str | None = f"{problem.path}: {problem.problem}"
    elif edit.files and not isinstance(codemod, AddFile) and not view.matching(edit.files):
        mismatch = f"no file of the tree matches {', '.join(edit.files)}"
    else:
        gone = carried and isinstance(codemod, RewriteStatements) and codemod.leaves_nothing
        mismatch = None
        if sites or not gone:
            mismatch = count(edit.expect, sites, edit.where, carried=carried)
        unrecognised = sum(not site.recognised for site in sites)
        if mismatch and unrecognised and not carried:
            mismatch += (
                f"; {unrecognised} more with the new code, but nothing shows that it replaced "
                f"the old"
            )
    return EditResult(edit, tuple(sites), view if mismatch else after, mismatch)


def _question(edit: BoundEdit) -> str | None:
    """All that decides what an edit does with a file of Python; None where that is not known."""
    if not isinstance(edit.codemod, Custom):
        return edit.question
    code = edit.codemod.remembered_as
    return None if code is None else f"{edit.question}\n{code}"


def _run_text(codemod: TextReplacement | AddFile, view: View) -> tuple[list[FoundSite], View]:
    places: list[FoundSite] = []
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
        places += [
            FoundSite(
                path,
                s.todo,
                problem=s.problem,
                recognised=s.recognised,
                line=s.line,
                text=before,
            )
            for s in sites
        ]
    return places, view.over(files)


def _run_python(
    codemod: PythonEdit,
    question: str | None,
    globs: Sequence[str] | None,
    view: View,
    *,
    located: bool,
) -> tuple[list[FoundSite], View]:
    sites: list[FoundSite] = []
    files: dict[str, bytes] = {}
    place = codemod.place
    needles = [place.words | words for words in _alternatives(codemod.needles, place.where)]
    paths = view.mentioning(view.holding(needles, globs), place.pieces)
    for path in filter(is_python, paths):
        result = outcome(codemod, question, path, view, located=located)
        if result.after is not None:
            files[path] = result.after
        sites += result.sites
    return sites, view.over(files)


def words_of(edit: BoundEdit) -> list[frozenset[bytes]]:
    """The words of the code that an edit looks for, in each of its forms; none for a text."""
    codemod = edit.codemod
    if isinstance(codemod, (TextReplacement, AddFile)):
        return []
    return _alternatives(codemod.needles, edit.where)


def _alternatives(
    needles: Sequence[frozenset[bytes]], where: Mapping[str, Sequence[str]]
) -> list[frozenset[bytes]]:
    """Alternatives for each value that a metavariable may have, as far as values are words."""
    words = [
        [value.encode() for value in values]
        for values in where.values()
        if all(value.isidentifier() and value.isascii() for value in values)
    ]
    return [base.union(choice) for base in needles for choice in itertools.product(*words)]


def count(
    expect: Expect,
    sites: Sequence[FoundSite],
    where: Mapping[str, Sequence[str]],
    *,
    carried: bool = False,
) -> str | None:
    """How the places found differ from the number declared, in words; None if they do not.

    Source: shared convention of the edits; done places count as much as those with work left, so
    that a tree that upstream has half fixed is still recognised. New code that does not show what
    it replaced may fill the number up where the tree has the patch, and does not count elsewhere.
    """
    unsure = [site for site in sites if not site.recognised] if carried else []
    sure = [site for site in sites if site.recognised]
    wanted = expect.at_least or expect.count or 1
    # Nothing found at all has no files to count by.
    groups = sorted({site.path for site in sure}) if expect.per == "file" and sure else [None]
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
                for places in (sure, unsure)
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
    """`sites` are the places that were looked at, also where the predicate does not hold."""

    holds: bool
    sites: tuple[FoundSite, ...] = ()


def probe(predicate: Predicate, view: View, *, located: bool = False) -> Probed:
    """Whether a predicate holds for a view, and the places that show it, `located` with lines."""
    if predicate.find is not None:
        place = _place(predicate)
        unless = tuple(map(parse_pattern, predicate.unless or ()))
        sought = FindCode(parse_pattern(predicate.find), place, unless)
        question = predicate.model_dump_json(include={"find", "unless", "within", "where"})
        matches, _ = _run_python(sought, question, predicate.files, view, located=located)
        return Probed(bool(matches), tuple(matches))
    if predicate.text is not None:
        needle = predicate.text.encode()
        paths = view.containing(needle, predicate.files)
        return Probed(bool(paths), tuple(_first_line(view, path, needle) for path in paths))
    parts = predicate.all_ or predicate.any_ or predicate.none or ()
    results: list[Probed] = []
    for inner in parts:
        results.append(probe(inner, view, located=located))
        if predicate.all_ is not None and not results[-1].holds:
            break
    verdicts = [result.holds for result in results]
    if predicate.all_ is not None:
        holds = all(verdicts)
    else:
        holds = any(verdicts) if predicate.any_ is not None else not any(verdicts)
    return Probed(holds, tuple(site for result in results for site in result.sites))


def describe(predicate: Predicate) -> str:
    """A predicate in words."""
    if predicate.find is not None:
        text = f"the code {' '.join(predicate.find.split())}"
    elif predicate.text is not None:
        first, *more = predicate.text.strip().split("\n")
        text = f"the text {first!r}" + (f" with {counted(len(more), 'line')} below" if more else "")
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


def lacks(predicate: Predicate, view: View) -> str:
    """Say why a predicate does not hold, such as "does not have the text 'x'".

    Of several conditions, these are the ones that fail.
    """
    return "\nand it ".join(_failing(predicate, view))


def _failing(predicate: Predicate, view: View) -> Iterator[str]:
    for inner in predicate.all_ or ():
        if not probe(inner, view).holds:
            yield from _failing(inner, view)
    for inner in predicate.none or ():
        if probe(inner, view).holds:
            yield f"has {_in_full(inner)}"
    if predicate.all_ is None and predicate.none is None:
        yield f"does not have {_in_full(predicate)}"


def only_in_sources(predicate: Predicate, view: View) -> list[str]:
    """Return the files that a predicate names, and that a built package does not have."""
    if view.tree.pin.kind not in BUILT:
        return []
    inner = (*(predicate.all_ or ()), *(predicate.any_ or ()), *(predicate.none or ()))
    roots = {path.partition("/")[0] for path in view.tree.package_files}
    own = {path for path in predicate.files or () if path.partition("/")[0] not in roots}
    missing = own - set(view.tree.paths())
    return sorted(missing.union(*(only_in_sources(one, view) for one in inner)))


def _in_full(predicate: Predicate) -> str:
    """A predicate in words, a text of several lines line by line below them."""
    text = predicate.text.strip("\n") if predicate.text is not None else ""
    if "\n" not in text:
        return describe(predicate)
    files = f" in {', '.join(predicate.files)}" if predicate.files else ""
    return f"these lines{files}:\n{textwrap.indent(text, '    ')}"


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
    return FoundSite(path, todo=False, line=line, text=text)


# --- telling ----------------------------------------------------------------------------------


def findings(what: str, sites: Iterable[FoundSite], view: View | None = None) -> Iterator[Finding]:
    """Say where things were found, with lines: those of the pristine files, if a view is given."""
    for item in sites:
        line = item.line
        if view is not None and line is not None and item.text is not None:
            line = view.pristine_line(item.path, line, item.text)
        done = "there" if item.recognised else "the new code, with no sign of the old"
        state = item.problem or ("to do" if item.todo else done)
        scope = f" in {item.scope}" if item.scope else ""
        yield Finding(f"{what}{scope}: {state}", item.path, line)
