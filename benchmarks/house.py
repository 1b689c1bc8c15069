"""Print figures of the code's layout: lines, imports, dicts of `Any`, and readers of options.

    python -m benchmarks.house

They say how far the code is from the layout that CONTRIBUTING describes. Nothing fails by them;
tests/test_layout.py holds the limits.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import grimp

from benchmarks.readers import SMOKE_OPTIONS, readers

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "vpatch"
# A page that a script writes says so in a comment that begins like this.
GENERATED = "<!-- generated: "
_ANY = re.compile(r"dict\[str, Any\]|Mapping\[str, Any\]")
_OBJECT = re.compile(r"dict\[str, object\]|Mapping\[str, object\]")


def package_of(module: str) -> str:
    """The package or module in `vpatch` that a module lies in; "" for `vpatch` itself."""
    return ".".join(module.split(".")[1:2])


def feature_of(module: str) -> str:
    """The folder of `commands` that a module lies in, or "" for what lies elsewhere."""
    inside = module.removeprefix("vpatch.commands.")
    return "" if inside == module else inside.partition(".")[0]


def imports() -> set[tuple[str, str]]:
    """The pairs of modules of which one imports the other, those for type checkers included."""
    graph = grimp.build_graph("vpatch", cache_dir=None)
    return {
        (module, imported)
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
    }


def edges_of(pairs: set[tuple[str, str]], part_of: Callable[[str], str]) -> set[tuple[str, str]]:
    """The pairs of parts of vpatch of which one imports the other."""
    edges = {(part_of(module), part_of(imported)) for module, imported in pairs}
    return {(one, other) for one, other in edges if one and other and one != other}


def longest_chain(edges: set[tuple[str, str]]) -> list[str]:
    """The longest chain of packages of which each imports the next one.

    Raises:
        RecursionError: packages import each other.
    """
    below: dict[str, list[str]] = {}
    for one, other in sorted(edges):
        below.setdefault(one, []).append(other)
    chains: dict[str, list[str]] = {}

    def chain(name: str) -> list[str]:
        if name not in chains:
            rest = max((chain(other) for other in below.get(name, [])), key=len, default=[])
            chains[name] = [name, *rest]
        return chains[name]

    return max((chain(name) for name in list(below)), key=len)


def lines_of_code(text: str) -> int:
    """The lines of a module that are neither blank, nor a comment, nor part of a docstring."""
    ignored = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in ignored:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        # A docstring, or what stands below an attribute as one.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def main() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    pairs = imports()
    edges = edges_of(pairs, package_of)
    features = edges_of(pairs, feature_of)
    both = [
        f"{one} and {other}"
        for one, other in combinations(sorted({name for pair in pairs for name in pair}), 2)
        if (one, other) in pairs and (other, one) in pairs
    ]
    chain = longest_chain(edges)
    print(f"files: {len(sources)}")
    print(f"lines of code: {sum(map(lines_of_code, sources.values()))}")
    print(f"dicts of Any: {sum(len(_ANY.findall(text)) for text in sources.values())}")
    print(f"dicts of object: {sum(len(_OBJECT.findall(text)) for text in sources.values())}")
    print(f"imports between packages: {len(edges)}")
    print(f"imports between commands: {', '.join(f'{a} > {b}' for a, b in sorted(features))}")
    print(f"longest chain: {len(chain)}: {' > '.join(chain)}")
    print(f"files that import each other: {len(both)}")
    for pair in both:
        print(f"  {pair}")
    reading = [str(path.relative_to(PACKAGE)) for path in readers(sources, SMOKE_OPTIONS)]
    print(f"files that read the options of smoke: {len(reading)}: {', '.join(reading)}")
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    written = [text for text in pages if GENERATED not in text]
    print(f"words in docs: {sum(len(text.split()) for text in written)}")
    print(f"words in docs with generated pages: {sum(len(text.split()) for text in pages)}")


if __name__ == "__main__":
    main()
