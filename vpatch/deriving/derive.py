"""From a file before and after to edits: for each difference, the first candidate that holds."""

from __future__ import annotations

import ast
import difflib
import hashlib
import itertools
import logging
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vpatch.changes.time_limit import TimeOverError
from vpatch.codemods.trees import BLOCKS
from vpatch.deriving.candidate import Candidate, Case
from vpatch.deriving.diff_like import as_change
from vpatch.deriving.differences import CodeDifference, differences
from vpatch.deriving.other_releases import ByteChange, OtherFiles
from vpatch.deriving.passage import DifferenceInFile, Passage
from vpatch.deriving.source_code import SourceCode, is_docstring, parsed_if_python
from vpatch.deriving.strategies import LAST_STRATEGIES, STRATEGIES
from vpatch.deriving.strategies.statements import says_all_of, without_comments
from vpatch.deriving.texts import texts
from vpatch.deriving.trial import Trial, same_code
from vpatch.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.changes.change import FileChange
    from vpatch.deriving.other_releases import OtherFile
    from vpatch.deriving.strategies import Strategies
    from vpatch.deriving.trial import Verdict
    from vpatch.source.tree import Tree

# Kinds that say a change by its text and not by its meaning.
BY_TEXT = frozenset({"text", "diff"})
ONLY_COMMENTS = "only comments or blank lines change"
DOCSTRING = "a docstring changes"
# So many candidates are tried for one difference; fewer where each one takes long to read.
_MOST_CANDIDATES = 60
_FEWEST_CANDIDATES = 16
_MOST_BYTES = 800_000
# A long file that keeps a smaller part of its lines than this is a new one.
_LONG_FILE, _FEW_KEPT = 200, 0.1
_log = logging.getLogger(__name__)


class NotDerivedError(Exception):
    """No edit of vpatch says a change; says which."""


@dataclass(frozen=True)
class DerivedEdit:
    """Edits for one place of a file. `lines` are those of the file before, counted from 1.

    `why` says why the edit is of text. `gives` is what it gives instead of the bytes: the code and
    comments in another layout, or the code alone. `changes_docstring` says that it changes no more.
    `failures` are sentences about strategies that a fault of vpatch kept from it. `forms` of the
    edit were tried on other releases, and it does the same in `holds_in` of them.
    """

    path: str
    candidate: Candidate
    lines: tuple[int, int]
    why: str | None = None
    gives: Verdict | None = None
    changes_docstring: bool = False
    failures: tuple[str, ...] = ()
    forms: int = 0
    holds_in: int | None = None

    @property
    def kind(self) -> str:
        return self.candidate.kind


def derive(
    change: FileChange,
    tree: Tree,
    *,
    exact: bool = False,
    text: bool = False,
    others: Sequence[OtherFile] = (),
) -> list[DerivedEdit]:
    """Find edits that make `change.after` of a file that is there.

    With `exact`, none gives another layout; with `text`, none goes by meaning. `others` are the
    file in other releases: of several forms of an edit, the one that does the same in most.

    Raises:
        NotDerivedError: no edit does.
    """
    before = change.before or b""
    trial = Trial(tree, change.path, change.after, OtherFiles(change.path, others))
    if text:
        return _of_text(change, trial, "imported as text")
    if change.path.endswith(".py"):
        if _is_rewritten(change):
            return _of_text(change, trial, "nearly all of the file is new")
        try:
            sources = SourceCode(before), SourceCode(change.after)
        except (SyntaxError, ValueError) as error:
            return _of_text(change, trial, f"the file is not plain Python: {error}")
        try:
            return list(_of_python(*sources, trial, exact=exact))
        except (NotDerivedError, TimeOverError, UnavailableError):
            raise
        except Exception as error:  # noqa: BLE001 - one file must not cost all others
            failure = _failure("the search for edits by meaning", change.path, error)
            return _of_text(change, trial, "vpatch failed to find edits by meaning", failure)
    return _of_text(change, trial, "the file is not Python")


def _is_rewritten(change: FileChange) -> bool:
    """Whether a long file keeps few of its distinct lines, wherever and however deep they are."""
    sides = (change.before or b"", change.after)
    before, after = ({line.strip() for line in side.splitlines()} for side in sides)
    most = max(len(before), len(after))
    return most >= _LONG_FILE and len(before & after) < _FEW_KEPT * most


def _failure(what: str, where: str, error: Exception) -> str:
    """Say that a part of vpatch failed; the log has the traceback."""
    _log.info("%s failed for %s", what, where, exc_info=error)
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{where}: {what} failed: {reason}; -v shows the traceback"


def _of_text(change: FileChange, trial: Trial, why: str, *failures: str) -> list[DerivedEdit]:
    before, after = (_lines(text) for text in (change.before or b"", change.after))
    edits = _as_text(before, (0, len(before)), after, trial, why)
    return [replace(edit, failures=failures) for edit in edits]


def _as_text(
    now: list[str], lines: tuple[int, int], new: list[str], trial: Trial, why: str, shift: int = 0
) -> Iterator[DerivedEdit]:
    """Edits of text that replace `lines` of a file by `new`, one for each part that differs.

    `shift` is how many lines more the file had before the edits above.
    """
    old = now[slice(*lines)]
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, first, last, other_first, other_last in matcher.get_opcodes():
        if tag == "equal":
            continue
        by_then = [*now[: lines[0]], *new[:other_first], *old[first:], *now[lines[1] :]]
        start = lines[0] + other_first
        changed = new[other_first:other_last]
        candidate = _text_for(by_then, (start, start + last - first), changed, trial)
        top = lines[0] + shift
        yield DerivedEdit(trial.path, candidate, (top + first + 1, top + last), why)


def _with_glob(candidate: Candidate, glob: str, *, everywhere: bool = False) -> Candidate:
    """The candidate with a glob for each name of the file, or `everywhere`.

    A diff has the path in itself.
    """
    edits = [
        {**edit, "files": glob} if everywhere or "files" in edit else edit
        for edit in candidate.edits
    ]
    return replace(candidate, edits=tuple(edits))


def _lines(content: bytes) -> list[str]:
    # Not splitlines(): a carriage return or a form feed may be inside a line.
    return re.findall(r"[^\n]*\n|[^\n]+", content.decode())


def _text_for(now: list[str], lines: tuple[int, int], new: list[str], trial: Trial) -> Candidate:
    path = trial.path
    content = "".join(now).encode()
    wanted = "".join([*now[: lines[0]], *new, *now[lines[1] :]]).encode()
    passage = Passage(content, wanted, trial.final)
    digest = hashlib.sha256(content + wanted).hexdigest()[:8]
    name = f"{path.rpartition('/')[2].rpartition('.')[0] or 'hunk'}-{digest}.diff"
    docstrings = _docstrings(content) if path.endswith(".py") else frozenset()
    # The text of a docstring changes as easily as a comment does: better a longer text without it.
    exact = (
        candidate
        for candidate in sorted(
            texts(path, now, lines, new, name),
            key=lambda one: _has_context(one, docstrings.difference(now[slice(*lines)])),
        )
        if (bound := trial.bound(candidate)) is not None and trial.is_exact(bound, passage)
    )
    best = trial.most_lasting(exact, ByteChange(content, wanted), None)
    if best is not None:
        return _with_glob(best, trial.glob_of_text(best))
    raise NotDerivedError(f"{path}, line {lines[0] + 1}: {_why_no_text(content, wanted)}")


def _docstrings(content: bytes) -> frozenset[str]:
    """The lines of docstrings; none of what is not Python, as half of a change may be."""
    lines = _lines(content)
    return frozenset(
        line
        for node in ast.walk(parsed_if_python(content))
        if isinstance(node, ast.stmt) and is_docstring(node)
        for line in lines[node.lineno - 1 : node.end_lineno]
    )


def _has_context(candidate: Candidate, docstrings: frozenset[str]) -> bool:
    """Whether a text looks for a line of a docstring; a diff has all lines around it."""
    return candidate.kind == "diff" or any(
        line in docstrings for text, _ in candidate.texts for line in text.splitlines(keepends=True)
    )


def _why_no_text(content: bytes, wanted: bytes) -> str:
    """Why neither a text nor a diff says a change."""
    if not wanted.strip():
        return "nothing would be left of the file, and an edit by text leaves text in its place"
    if not content.strip():
        return "the file has no text by which an edit could find its place"
    return "its lines are not unique"


def _of_python(
    before: SourceCode, after: SourceCode, trial: Trial, *, exact: bool
) -> Iterator[DerivedEdit]:
    cases = [Case(trial.path, each, before, after) for each in differences(before, after)]
    if all(why_text(case.difference) in (ONLY_COMMENTS, DOCSTRING) for case in cases):
        # A pattern of a docstring has no name, so that every file would have to be read for it.
        for case in cases:
            yield from _text_of(case, trial, why_text(case.difference))
        return
    taken = 0
    for case, following in itertools.zip_longest(cases, cases[1:]):
        if taken:
            taken -= 1
            continue
        both = None if following is None else _with_following(case, following)
        edits = None if both is None else _with_comments(both, following, trial)
        taken = int(edits is not None)
        if edits is None:
            others = replace(trial.others)
            edits = list(_edits_of(case, trial, exact=exact))
            joined = None if following is None else _joined(case, following)
            if joined is not None and any(edit.why for edit in edits):
                together = list(_edits_of(joined, replace(trial, others=others), exact=exact))
                if not any(edit.why for edit in together):
                    edits, taken = together, 1
                    trial.others.files = others.files
        yield from edits


def _joined(new: Case, changed: Case) -> Case | None:
    """New statements right above others that change, as one; None for other differences.

    An insert finds no place beside code that changes itself.
    """
    above, below = new.difference, changed.difference
    is_above = above.before[1] == below.before[0] and above.after[1] == below.after[0]
    if not is_above or above.old or not above.new or not below.old or below.part is not None:
        return None
    both = replace(
        below,
        new=(*above.new, *below.new),
        before=(above.before[0], below.before[1]),
        after=(above.after[0], below.after[1]),
        indices=above.indices,
    )
    return replace(changed, difference=both)


def _edits_of(case: Case, trial: Trial, *, exact: bool) -> Iterator[DerivedEdit]:
    start, end = case.difference.before
    why = why_text(case.difference)
    tried = trial.others.tried
    choice = _by_meaning(case, trial, exact=exact)
    failures = tuple(choice.failures)
    if choice.candidate is None:
        for edit in _text_of(case, trial, why):
            yield replace(edit, failures=failures)
    else:
        yield DerivedEdit(
            trial.path,
            choice.candidate,
            (start + 1, end),
            gives=choice.gives,
            changes_docstring=why == DOCSTRING,
            failures=failures,
            forms=trial.others.tried - tried,
            holds_in=trial.others.releases if trial.others.tried else None,
        )


def _text_of(case: Case, trial: Trial, why: str) -> Iterator[DerivedEdit]:
    # Differences above this one are made already.
    start, end = case.difference.before
    top, bottom = case.difference.after
    now = [*case.after.lines[:top], *case.before.lines[start:]]
    new = list(case.after.lines[top:bottom])
    yield from _as_text(now, (top, top + end - start), new, trial, why, shift=start - top)


def _with_following(comments: Case, code: Case) -> Case | None:
    """Comments that differ right above statements that do, as one; None for other differences."""
    above, below = comments.difference, code.difference
    is_above = above.before[1] == below.before[0] and above.after[1] == below.after[0]
    is_header = above.part is not None or below.part is not None
    if not is_above or not below.old or not below.new or is_header:
        return None
    if why_text(above) != ONLY_COMMENTS:
        return None
    lines = (above.before[0], below.before[1]), (above.after[0], below.after[1])
    return replace(code, difference=replace(below, before=lines[0], after=lines[1]))


def _with_comments(both: Case, code: Case, trial: Trial) -> list[DerivedEdit] | None:
    """A change that brings the new comments, if the code alone would need as long an edit.

    A shorter one fits more releases, and then the comments are left out.
    """
    others = replace(trial.others)
    (alone, *rest) = _edits_of(code, replace(trial, others=others), exact=True)
    if rest or alone.why is not None or not says_all_of(code, alone.candidate):
        return None
    choice = _Choice()
    place = DifferenceInFile(both.before, both.after, both.difference)
    tried = trial.others.tried
    _choose(choice, both, trial, place, (without_comments,), exact=True)
    if choice.candidate is None:
        return None
    start, end = both.difference.before
    forms, holds_in = trial.others.tried - tried, trial.others.releases
    held = holds_in if trial.others.tried else None
    return [DerivedEdit(trial.path, choice.candidate, (start + 1, end), forms=forms, holds_in=held)]


@dataclass
class _Choice:
    """The candidate for a difference, if one holds, and the strategies that failed."""

    candidate: Candidate | None = None
    gives: Verdict | None = None
    failures: list[str] = field(default_factory=list)


def _by_meaning(case: Case, trial: Trial, *, exact: bool) -> _Choice:
    """The first candidate that gives the bytes, or else the first that gives the code.

    A strategy that fails is skipped.
    """
    choice = _Choice()
    place = DifferenceInFile(case.before, case.after, case.difference)
    # Comments and blank lines alone are no change of the code that would need an edit.
    is_silent = same_code(place.window.now, place.window.wanted)
    is_near = _choose(choice, case, trial, place, STRATEGIES, exact=exact or is_silent)
    # With the bytes, a text says a part of a docstring in fewer lines.
    is_text = exact and (is_near or why_text(case.difference) == DOCSTRING)
    if choice.candidate is None and not is_silent and not is_text:
        _choose(choice, case, trial, place, LAST_STRATEGIES, exact=exact)
    return choice


def _choose(
    choice: _Choice,
    case: Case,
    trial: Trial,
    place: DifferenceInFile,
    strategies: Strategies,
    *,
    exact: bool,
) -> bool:
    """Put the best candidate of some strategies into the choice, if one holds.

    Returns:
        Whether some give the code in another layout, or without comments.
    """
    now, wanted = place.passage.now, place.passage.wanted
    near: dict[Verdict, list[Candidate]] = {}
    candidates = _exact(case, trial, place, strategies, near, choice)
    change = ByteChange(now, wanted)

    def is_exact(candidate: Candidate) -> bool:
        bound = trial.bound(candidate)
        is_same = bound is not None and trial.is_exact(bound, place.passage)
        if not is_same:
            # Lines that are longer elsewhere in the file may decide about the layout.
            near.setdefault("layout", []).append(candidate)
        return is_same

    best = trial.most_lasting(candidates, change, case.scope, fits=is_exact)
    if best is not None:
        choice.candidate = _with_files(_short(best, "exact", trial, place), trial)
        return bool(near)
    verdicts: dict[int, Verdict] = {}

    def gives_code(candidate: Candidate) -> bool:
        bound = trial.bound(candidate)
        verdict = None if bound is None else trial.verdict(bound, place.passage)
        if verdict is not None:
            verdicts[id(candidate)] = verdict
        return verdict is not None

    for further in () if exact else (near.get("layout", []), near.get("code", [])):
        best = trial.most_lasting(further, change, case.scope, fits=gives_code)
        if best is not None:
            gives = verdicts[id(best)]
            choice.gives = None if gives == "exact" else gives
            short = _short(best, gives, trial, place)
            choice.candidate = _with_files(short, trial)
            break
    return bool(near)


def _short(
    candidate: Candidate, gives: Verdict, trial: Trial, place: DifferenceInFile
) -> Candidate:
    """The candidate with changes in place of longer rewrites, if they give the same."""
    change = as_change(candidate)
    bound = None if change is None else trial.bound(change)
    if change is None or bound is None or trial.verdict(bound, place.passage) != gives:
        return candidate
    return change


def _exact(
    case: Case,
    trial: Trial,
    place: DifferenceInFile,
    strategies: Strategies,
    near: dict[Verdict, list[Candidate]],
    choice: _Choice,
) -> Iterator[Candidate]:
    """The candidates that give the bytes of the window; those that give its code go to `near`."""
    numbers = itertools.count()
    fitting = _MOST_BYTES // max(1, len(place.window.now))
    most = min(_MOST_CANDIDATES, max(_FEWEST_CANDIDATES, fitting))
    inexact: set[str] = set()
    for strategy in strategies:
        try:
            for candidate in strategy(case):
                outcome = _outcome_of(candidate)
                if outcome in inexact and not trial.others.files:
                    continue
                if next(numbers) >= most:
                    break
                bound = trial.bound(candidate)
                if bound is None:
                    continue
                verdict = trial.verdict(bound, place.window)
                if verdict == "exact":
                    yield candidate
                elif verdict is not None:
                    inexact.add(outcome)
                    near.setdefault(verdict, []).append(candidate)
        except (TimeOverError, UnavailableError):
            raise
        except Exception as error:  # noqa: BLE001 - the others may still say the difference
            what = f"the strategy {strategy.__name__!r}"
            where = f"{case.path}, line {case.difference.before[0] + 1}"
            choice.failures.append(_failure(what, where, error))


def _outcome_of(candidate: Candidate) -> str:
    """What a candidate makes where it fits: the same code at the same place gives the same bytes.

    However the statement beside an insert is named, that is the same place.
    """
    places = ("after", "before")
    return repr([{k: k in places or v for k, v in edit.items()} for edit in candidate.edits])


def _with_files(candidate: Candidate, trial: Trial) -> Candidate:
    """The candidate with the file named, unless a qualified name finds the place in the tree."""
    named = all({"within", "of", "beside"} & edit.keys() for edit in candidate.edits)
    if named and trial.everywhere(candidate):
        return candidate
    return _with_glob(candidate, trial.glob, everywhere=True)


def why_text(difference: CodeDifference) -> str:
    """Why no edit by meaning says a difference."""
    if _is_same_code(difference):
        return ONLY_COMMENTS
    counts = len(difference.old), len(difference.new)
    reasons = {
        DOCSTRING: all(is_docstring(s.node) for s in (*difference.old, *difference.new)),
        "statements share a line": any(s.shares_line for s in (*difference.old, *difference.new)),
        "statements go away": not counts[1],
        "no place to insert": not counts[0],
        f"{counts[0]} statements become {counts[1]}": counts[0] != counts[1],
        "the header of a block changes": difference.part is not None,
    }
    return next((why for why, holds in reasons.items() if holds), "no edit gives the same bytes")


def _is_same_code(difference: CodeDifference) -> bool:
    """Whether nothing but comments and blank lines differs, of statements or of a header."""
    if difference.part is not None and difference.nodes is not None:
        one, other = map(_header_code, difference.nodes)
        return one == other
    sides = (difference.old, difference.new)
    one, other = ([ast.dump(statement.node) for statement in side] for side in sides)
    return one == other


def _header_code(node: ast.AST) -> list[str]:
    """What a block is headed by, without what is in it."""
    fields = (value for name, value in ast.iter_fields(node) if name not in BLOCKS)
    return [
        ast.dump(each) if isinstance(each, ast.AST) else repr(each)
        for value in fields
        for each in (value if isinstance(value, list) else [value])
    ]
