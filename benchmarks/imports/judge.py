"""Whether a tool did right to files of another release, by the definitions of a change.

A definition counts as its code: comments, docstrings, layout and the order of imports do not. A
change is what it takes out of a definition, and what it puts there. So it is known for a definition
that differs from that of the origin as well.
"""

from __future__ import annotations

import ast
import copy
import re
import warnings
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

from pyflakes.checker import Checker
from pyflakes.messages import UndefinedName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# What a tool made: the change exactly once and nothing else, something else, or no change.
Verdict = Literal["right", "wrong", "nothing"]
# Of a release: it has the change already, lacks a definition of it, can take it, or is unclear.
Situation = Literal["present", "gone", "open", "unclear"]
_State = Literal["same", "lacks", "has", "gone", "unclear"]
Files = dict[str, bytes]
MODULE = ""
IMPORTS = "import"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Unit:
    """A function, or what a class or a module has beside functions and classes."""

    nodes: tuple[ast.AST, ...]

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Its code, with the lines and the layout that Python itself gives it."""
        return tuple(line.strip() for node in self.nodes for line in _unparsed(node))

    def is_as(self, other: Unit | None) -> bool:
        return other is not None and self.lines == other.lines


class _WithoutDocstrings(ast.NodeTransformer):
    """Takes strings that are statements out; an import leaves their changes out, and says so."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node


def _unparsed(node: ast.AST) -> list[str]:
    node = _WithoutDocstrings().visit(copy.deepcopy(node))
    if node is None:
        return []
    if isinstance(node, ast.ClassDef):  # its functions are units of their own
        node = ast.ClassDef(node.name, node.bases, node.keywords, [ast.Pass()], node.decorator_list)
    return ast.unparse(node).split("\n")


@lru_cache(maxsize=300)
def units(text: bytes) -> Mapping[str, Unit]:
    """The units of a file by qualified name, imports apart.

    Raises:
        SyntaxError, ValueError: it is not Python.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    found: dict[str, tuple[ast.AST, ...]] = {}

    def visit(body: Sequence[ast.stmt], scope: str) -> None:
        for node in body:
            name = scope
            if isinstance(node, _DEFINITIONS):
                name = f"{scope}.{node.name}" if scope else node.name
            elif not scope and isinstance(node, (ast.Import, ast.ImportFrom)):
                name = IMPORTS
            # An overload or a setter has the name of another one.
            found[name] = (*found.get(name, ()), node)
            if isinstance(node, ast.ClassDef):
                visit(node.body, name)

    visit(tree.body, MODULE)
    return {name: Unit(nodes) for name, nodes in found.items()}


def touched(before: Files, after: Files) -> list[tuple[str, str]]:
    """The files and names of the units that a change touches."""
    found: list[tuple[str, str]] = []
    for path, text in after.items():
        old, new = _units_of(before, path), units(text)
        names = dict.fromkeys([*old, *new])
        found += [(path, name) for name in names if not _are_same(old.get(name), new.get(name))]
    return found


def _units_of(files: Files, path: str) -> Mapping[str, Unit]:
    return units(files[path]) if path in files else {}


def _are_same(one: Unit | None, other: Unit | None) -> bool:
    return one is other or (one is not None and one.is_as(other))


def situation(before: Files, after: Files, found: Callable[[str, str], Unit | None]) -> Situation:
    """Whether a release can take a change. `found` is the unit of a name there, or None.

    The imports of a module do not count: they follow from the rest.
    """
    states: set[_State] = set()
    for path, name in touched(before, after):
        if name != IMPORTS:
            pair = _units_of(before, path).get(name), _units_of(after, path).get(name)
            states.add(_state(*pair, found(path, name)))
    if "gone" in states:
        return "gone"
    if not states or "unclear" in states:
        return "unclear"
    return "present" if states == {"has"} else "open"


def _state(old: Unit | None, new: Unit | None, there: Unit | None) -> _State:
    if _are_same(there, old):
        return "same"
    if _are_same(there, new):
        return "has"
    if there is None or old is None or new is None:
        return "gone" if there is None else "unclear"
    counts = Counter(old.lines), Counter(new.lines), Counter(there.lines)
    gone, more = _net(counts[0], counts[1])
    sides: list[tuple[_State, Counter[str], Counter[str], Counter[str]]] = [
        ("lacks", counts[0], gone, more),
        ("has", counts[1], more, gone),
    ]
    for state, side, has, lacks in sides:
        has_all = all(counts[2][line] >= side[line] for line in has)
        if has_all and all(counts[2][line] <= side[line] for line in lacks):
            return state
    return "unclear"


def _net(old: Counter[str], new: Counter[str]) -> tuple[Counter[str], Counter[str]]:
    """What goes away, and what comes."""
    return old - new, new - old


def judged(before: Files, after: Files, target: Files, made: Files) -> Verdict:
    """Judge what was made of files of another release.

    `before` and `after` are the files at the origin. Each unit that the change touches must lose
    and get the same code as there, beside a line that it is beside there. One that has the change
    already must stay, and so must all others. `made` has all files that a tool changed. A
    definition may have moved to another one of them. A file may get an import for the new code
    that it has at the origin without the change: without it, the code would not run.
    """
    try:
        return _judged(before, after, target, made)
    except (SyntaxError, ValueError):
        return "wrong"


def _judged(before: Files, after: Files, target: Files, made: Files) -> Verdict:
    if any(_undefined(text) - _undefined(target.get(path, b"")) for path, text in made.items()):
        return "wrong"
    changed = {
        (path, name)
        for path, text in made.items()
        if text != target.get(path)
        for name in _differing(_units_of(target, path), units(text))
    }
    results: set[Verdict | None] = set()
    moved: dict[str, str] = {}
    used = _new_words(before, after)
    # The imports come last: they are where the definitions of their file are.
    for path, name in sorted(touched(before, after), key=lambda each: each[1] == IMPORTS):
        place = moved.get(path, path) if name == IMPORTS else path
        if name not in {MODULE, IMPORTS} and name not in _units_of(target, path):
            others = [p for p, other in changed if other == name and p != path]
            place = others[0] if len(others) == 1 else path
            moved[path] = place
        pair = _units_of(before, path).get(name), _units_of(after, path).get(name)
        there = _units_of(target, place).get(name)
        got = units(made[place]).get(name) if place in made else there
        changed.discard((place, name))
        if name == IMPORTS:
            results.add(_of_imports(*pair, there, got, used))
        else:
            results.add(_of_unit(*pair, there, got))
    for path in [path for path, name in changed if name == IMPORTS and path in after]:
        same = units(after[path]).get(IMPORTS)
        there, got = _units_of(target, path).get(IMPORTS), units(made[path]).get(IMPORTS)
        if _of_imports(same, same, there, got, used) == "right":
            changed.discard((path, IMPORTS))
    # A file that a definition moved to may need an import for it.
    if any(name != IMPORTS or path in after for path, name in changed):
        return "wrong"
    results.discard(None)
    if results <= {"nothing"}:
        return "nothing"
    return "right" if results == {"right"} else "wrong"


@lru_cache(maxsize=300)
def _undefined(text: bytes) -> Counter[str]:
    """The names that a file uses and that nothing defines."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Checker(ast.parse(text)).messages
    return Counter(str(m.message_args) for m in found if isinstance(m, UndefinedName))


def _differing(old: Mapping[str, Unit], new: Mapping[str, Unit]) -> Iterator[str]:
    for name in dict.fromkeys([*old, *new]):
        if not _are_same(old.get(name), new.get(name)):
            yield name


def _new_words(before: Files, after: Files) -> frozenset[str]:
    """The words that come with a change, but for those of imports."""
    words: Counter[str] = Counter()
    for path, name in touched(before, after):
        if name != IMPORTS:
            old, new = _units_of(before, path).get(name), _units_of(after, path).get(name)
            words += _words_of(new) - _words_of(old)
    return frozenset(words)


def _words_of(unit: Unit | None) -> Counter[str]:
    return Counter() if unit is None else _tokens(unit)


def _of_imports(
    old: Unit | None, new: Unit | None, there: Unit | None, got: Unit | None, used: frozenset[str]
) -> Verdict | None:
    """Judge the imports of a module: those of the change must be there, and no others come.

    But for those that the origin has, of a name that the new code uses.
    """
    sides = [Counter(_imported(each)) for each in (old, new, there, got)]
    gone, more = _net(sides[0], sides[1])
    lost, came = _net(sides[2], sides[3])
    further = set(came) - set(more)
    if any(one not in sides[1] or one.split()[-1] not in used for one in further):
        return "wrong"
    if set(lost) - set(gone):
        return "wrong"
    if any(not sides[3][name] for name in more):
        return "nothing" if not came and not lost else "wrong"
    return "right" if came or lost else None


def _imported(unit: Unit | None) -> Iterator[str]:
    for node in unit.nodes if unit is not None else ():
        for name in node.names:  # type: ignore[attr-defined]
            head = f"{node.level} {node.module} " if isinstance(node, ast.ImportFrom) else ""
            yield f"{head}{ast.unparse(name)}"


def _of_unit(
    old: Unit | None, new: Unit | None, there: Unit | None, got: Unit | None
) -> Verdict | None:
    state = _state(old, new, there)
    if state == "has":
        return None if _are_same(got, there) else "wrong"
    if _are_same(got, there):
        return "nothing"
    if state == "same":
        return "right" if _are_same(got, new) else "wrong"
    if old is None or new is None or there is None or got is None:
        return "wrong"
    if _net(*map(_tokens, (old, new))) != _net(*map(_tokens, (there, got))):
        return "wrong"
    return "right" if _is_beside(_steps(old, new), _steps(there, got)) else "wrong"


def _tokens(unit: Unit) -> Counter[str]:
    return Counter(token for line in unit.lines for token in _TOKEN.findall(line))


@dataclass(frozen=True)
class _Step:
    """Lines that became others, and the lines around them."""

    above: str | None
    old: tuple[str, ...]
    new: tuple[str, ...]
    below: str | None


def _steps(old: Unit, new: Unit) -> list[_Step]:
    matcher = SequenceMatcher(None, old.lines, new.lines, autojunk=False)
    return [
        _Step(
            old.lines[i - 1] if i else None,
            old.lines[i:j],
            new.lines[k:m],
            old.lines[j] if j < len(old.lines) else None,
        )
        for tag, i, j, k, m in matcher.get_opcodes()
        if tag != "equal"
    ]


def _is_beside(wanted: Sequence[_Step], made: Sequence[_Step]) -> bool:
    """Whether lines change where they do at the origin: by what they are, or a line around them."""
    return len(wanted) == len(made) and all(
        one.above == other.above
        or one.below == other.below
        or (one.old == other.old and one.old)
        or (len(one.old) == len(other.old) and one.new == other.new and one.old)
        for one, other in zip(wanted, made, strict=True)
    )
