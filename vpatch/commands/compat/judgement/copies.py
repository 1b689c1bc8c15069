"""Functions of a target that are nearly functions of vLLM: somebody copied the code."""

from __future__ import annotations

import ast
import difflib
import re
import textwrap
from collections import Counter, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from vpatch.commands.compat.code.codebase import IsHere
from vpatch.commands.compat.code.outline import Class, Function
from vpatch.commands.compat.code.part import module_at
from vpatch.commands.compat.judgement.facts import place_of
from vpatch.commands.compat.surface.items import Item, Ref, Spot
from vpatch.planning.outline import dumped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vpatch.commands.compat.code.outline import Binding
    from vpatch.commands.compat.code.part import CodePart
    from vpatch.commands.compat.judgement.release import JudgedRelease
    from vpatch.commands.compat.surface.items import Surface
    from vpatch.commands.compat.target import CompatTarget

# The part of the statements that must be the same, as for the successor of a definition, and how
# much less a second candidate must have. Of 12 pairs of vllm-ascend that have less, 0.5 to 0.6, all
# were copies as well; but then nearly half of the code is the target's own.
ALIKE = 0.6
_CLEARER = 0.1
# With fewer statements, two functions are alike by chance: constructors that only set attributes.
FEWEST = 8
# The longest function of vLLM has 400. To compare two lists takes long where they are longer.
MOST = 2000
# Before statements are compared, that part of the lines must be the same. It only saves time.
_LINES = 0.3
# A line that many functions of one name have does not tell which one it is.
_COMMON = 40
_SHORTEST = 4
_DEFINITION = re.compile(rb"^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)[ \t]*[(\[]", re.MULTILINE)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


class _Own(NamedTuple):
    """A function of the target, and how many different lines of code it has."""

    dotted: str
    spot: Spot
    text: str
    lines: int


class _Match(NamedTuple):
    """A function of vLLM: how much of a target's function it has, its dotted name, and a count."""

    ratio: float
    dotted: str
    shared: int


def copies_of(
    release: JudgedRelease, target: CompatTarget, own: CodePart, surface: Surface
) -> Iterator[Item]:
    """Yield an item for each function of a target that is nearly one of the same name in vLLM.

    How much is the same is twice the statements that both have in the same order, divided by all
    statements of the two. It must be ALIKE, and of no other function in vLLM nearly as much. A
    statement counts without layout, comments and docstrings; an `if` or a loop counts by its head.
    """
    search = _Search(_functions(target, own))
    pairs: dict[str, list[_Match]] = defaultdict(list)
    for one, path, line, text in search.likely(release.files):
        statements, others = search.statements[one.dotted], statements_of(text)
        if min(len(statements), len(others)) < FEWEST or len(statements) > MOST:
            continue
        matcher = difflib.SequenceMatcher(None, statements, others, autojunk=False)
        ratio = matcher.ratio() if matcher.quick_ratio() >= ALIKE else 0
        dotted = _name_at(release, path, line) if ratio >= ALIKE else None
        if dotted is not None:
            shared = sum(block.size for block in matcher.get_matching_blocks())
            pairs[one.dotted].append(_Match(ratio, dotted, shared))
    replaced = _replaced(release, surface, pairs.keys())
    for dotted in sorted(pairs):
        match = _clear(pairs[dotted], replaced.get(dotted))
        if match is None:
            continue
        count = len(search.statements[dotted])
        note = f"{match.shared} of its {count} statements are those of {match.dotted}"
        spot = search.own[dotted].spot
        yield Item("copy", dotted, spot, Ref((match.dotted,)), own_name=dotted, note=note)


@lru_cache(maxsize=1)
def statements_of(text: str) -> list[str]:
    """Return the statements of a function, in an order and a form that only the code decides."""
    try:
        tree = ast.parse(textwrap.dedent(text))
        node = tree.body[0] if tree.body else None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return list(_statements(node.body))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    return []


def _statements(body: Iterable[ast.AST]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.stmt() | ast.ExceptHandler() | ast.match_case():
                blocks = [getattr(node, name, None) or [] for name in _BLOCKS]
            case _:
                blocks = []
        if not any(blocks):
            yield dumped(node)
            continue
        head = [type(node).__name__]
        for name, value in ast.iter_fields(node):
            values = value if isinstance(value, list) else [value]
            plain = [] if name in _BLOCKS else values
            head += [dumped(one) if isinstance(one, ast.AST) else str(one) for one in plain]
        yield " ".join(head)
        for block in blocks:
            yield from _statements(block)


class _Search:
    """Functions of a target, by their names and by their lines."""

    def __init__(self, functions: Iterable[_Own]) -> None:
        self.own: dict[str, _Own] = {}
        self._index: dict[str, dict[bytes, list[_Own]]] = defaultdict(lambda: defaultdict(list))
        for one in functions:
            self.own[one.dotted] = one
            lines = self._index[one.dotted.rpartition(".")[2]]
            for line in _code(one.text.encode().splitlines()):
                lines[line].append(one)
        self.statements = _OwnStatements(self.own)

    def likely(self, files: Mapping[str, bytes]) -> Iterator[tuple[_Own, str, int, str]]:
        """Yield functions with those of vLLM that may be their origin: a path, a line, a text."""
        for path, text in files.items():
            lines: list[bytes] = []
            for match in _DEFINITION.finditer(text) if path.endswith(".py") else ():
                index = self._index.get(match[2].decode(errors="replace"))
                if index is None:
                    continue
                lines = lines or text.splitlines()
                first = text.count(b"\n", 0, match.start())
                block = lines[first : _end(lines, first, len(match[1]))]
                code = _code(block)
                counts = Counter(
                    one for ln in code for one in index.get(ln, ()) if len(index[ln]) <= _COMMON
                )
                for one, count in counts.items():
                    if count >= _LINES * max(len(code), one.lines):
                        yield one, path, first + 1, b"\n".join(block).decode(errors="replace")


class _OwnStatements(dict[str, list[str]]):
    """The statements of functions of the target, each read once and only if asked for."""

    def __init__(self, own: Mapping[str, _Own]) -> None:
        super().__init__()
        self._own = own

    def __missing__(self, dotted: str) -> list[str]:
        self[dotted] = statements_of(self._own[dotted].text)
        return self[dotted]


def _functions(target: CompatTarget, own: CodePart) -> Iterator[_Own]:
    for module, path in target.modules.items():
        outline = own.outline(module)
        if outline is None or outline.error:
            continue
        source: list[str] = []
        for name, function in _in_names(outline.names):
            if function.last - function.first < FEWEST:
                continue
            source = source or target.files[path].decode(errors="replace").splitlines()
            lines = source[function.first - 1 : function.last]
            count = len(_code(line.encode() for line in lines))
            spot = Spot(path, function.first)
            yield _Own(f"{module}.{name}", spot, "\n".join(lines), count)


def _in_names(
    names: Mapping[str, Iterable[Binding]], above: str = ""
) -> Iterator[tuple[str, Function]]:
    """Yield the functions and methods of an outline, by their qualified names."""
    for name, several in names.items():
        for one in several:
            if isinstance(one, Function):
                yield f"{above}{name}", one
            elif isinstance(one, Class):
                yield from _in_names(one.members, f"{above}{name}.")


def _code(lines: Iterable[bytes]) -> set[bytes]:
    texts = (line.strip() for line in lines)
    return {text for text in texts if len(text) >= _SHORTEST and not text.startswith(b"#")}


def _end(lines: Sequence[bytes], first: int, indent: int) -> int:
    """Return the line after a function, as the indentation says it."""
    for number in range(first + 1, len(lines)):
        text = lines[number].lstrip()
        if text and len(lines[number]) - len(text) <= indent and text[:1] not in b")]}#":
            return number
    return len(lines)


def _name_at(release: JudgedRelease, path: str, line: int) -> str | None:
    """Return the dotted name of the function of vLLM at a line; None if it has none of its own."""
    module = module_at(path)
    outline = release.outline(module)
    for name, one in _in_names(outline.names) if outline else ():
        if one.first <= line <= one.last:
            answer = release.evaluate(Ref((f"{module}.{name}",))).answer
            if isinstance(answer, IsHere) and answer.is_sure and answer.place.binding == one:
                return answer.place.dotted
    return None


def _replaced(
    release: JudgedRelease, surface: Surface, wanted: Iterable[str]
) -> dict[str, str | None]:
    """Return what functions of the target replace in vLLM, by the names of both."""
    names = set(wanted)
    replaced: dict[str, str | None] = {}
    for item in surface.items.values():
        name = item.own_name if item.kind == "patch" else item.name
        if item.kind in {"patch", "override"} and name in names:
            place = place_of(release, item)
            replaced[name] = None if place is None else place.dotted
    return replaced


def _clear(matches: Iterable[_Match], replaced: str | None) -> _Match | None:
    """Return the one function that was copied; what the copy replaces counts before others."""
    several = sorted(matches, reverse=True)
    own = next((one for one in several if one.dotted == replaced), None)
    if own is not None and several[0].ratio - own.ratio < _CLEARER:
        return own
    if len(several) > 1 and several[0].ratio - several[1].ratio < _CLEARER:
        return None
    return several[0]
