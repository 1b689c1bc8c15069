"""Mutations of comments, layout and signatures, and of where a definition is."""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from mutants.mutant import Family, Mutant, Spot
from mutants.source import Function, Span, own

if TYPE_CHECKING:
    from random import Random


def docstring(spot: Spot, rng: Random) -> Mutant | None:
    function = spot.function(rng)
    if function is None:
        return None
    first, source = function.body[0], spot.source
    indent = source.indent(first)
    if ast.get_docstring(function) is not None:
        new = '"""Do the work, as the caller asks."""'
        return spot.made([(*source.span(first), new)])
    if first.lineno == function.lineno:
        return None
    at = source.start_of_line(first)
    return spot.made([(at, at, f'{indent}"""Do the work."""\n')])


def comment(spot: Spot, rng: Random) -> Mutant | None:
    """Comment lines between statements, and behind one."""
    function, source = spot.function(rng), spot.source
    found = [n for n in (own(function) if function else ()) if isinstance(n, ast.stmt)]
    found = [n for n in found if source.whole_lines(n)]
    if not found:
        return None
    spans: list[Span] = []
    for statement in rng.sample(found, min(3, len(found))):
        at = source.start_of_line(statement)
        spans.append((at, at, f"{source.indent(statement)}# NOTE: see the design document.\n"))
    return spot.made(spans)


def comments_gone(spot: Spot, rng: Random) -> Mutant | None:
    node, source = spot.node, spot.source
    if node is None or isinstance(node, ast.Module):
        return None
    del rng
    start, end = source.start_of_line(node), source.end_of_line(node)
    lines = source.data[start:end].splitlines(keepends=True)
    first = source.data[:start].count(b"\n") + 1
    for token in tokenize.tokenize(io.BytesIO(source.data).readline):
        at = token.start[0] - first
        bare = token.type == tokenize.COMMENT and token.line.strip() == token.string
        if bare and 0 <= at < len(lines):
            lines[at] = b""
    return spot.made([(start, end, b"".join(lines).decode())])


def reformat(spot: Spot, rng: Random) -> Mutant | None:
    """Write a function as Python's own unparser does."""
    function, source = spot.function(rng), spot.source
    if function is None:
        return None
    indent = source.indent(function)
    text = "\n".join(indent + line if line else line for line in ast.unparse(function).split("\n"))
    return spot.made([(source.start_of_line(function), source.end_of_line(function), f"{text}\n")])


def one_line(spot: Spot, rng: Random) -> Mutant | None:
    """Write some calls on one line."""
    node, source = spot.node, spot.source
    found = [
        n
        for n in (ast.walk(node) if node else ())
        if isinstance(n, ast.Call) and n.lineno != n.end_lineno
    ]
    if not found:
        return None
    call = rng.choice(found)
    return spot.made([(*source.span(call), ast.unparse(call))])


def quotes(spot: Spot, rng: Random) -> Mutant | None:
    node, source = spot.node, spot.source
    found = [
        n
        for n in (ast.walk(node) if node else ())
        if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]
    spans: list[Span] = []
    for constant in found:
        text = source.text(constant)
        if re.fullmatch(r'"[^"\'\\\n]*"', text):
            spans.append((*source.span(constant), f"'{text[1:-1]}'"))
    if not spans:
        return None
    return spot.made(rng.sample(spans, max(1, len(spans) // 2)))


def hints(spot: Spot, rng: Random) -> Mutant | None:
    """Take a function's type hints away, or give it some."""
    function, source = spot.function(rng), spot.source
    if function is None:
        return None
    arguments = [*function.args.args, *function.args.kwonlyargs]
    hinted = [a for a in arguments if a.annotation]
    if hinted:
        return spot.made([(*source.span(a), a.arg) for a in hinted])
    plain = [a for a in arguments if a.arg not in {"self", "cls"}]
    return spot.made([(*source.span(a), f'{a.arg}: "Tensor"') for a in plain])


def decorator(spot: Spot, rng: Random) -> Mutant | None:
    function, source = spot.function(rng), spot.source
    if function is None or b"import torch\n" not in source.data:
        return None
    at = source.start_of_line(function)
    text = rng.choice(["@torch.no_grad()", "@torch.inference_mode()"])
    return spot.made([(at, at, f"{source.indent(function)}{text}\n")])


def reorder(spot: Spot, rng: Random) -> Mutant | None:
    """Swap two methods of a class, or a function with its neighbour."""
    node, source = spot.node, spot.source
    if node is None:
        return None
    owner = node if isinstance(node, ast.ClassDef | ast.Module) else source.parents.get(node)
    body = owner.body if isinstance(owner, ast.ClassDef | ast.Module) else []
    pairs = [
        (one, two)
        for one, two in itertools.pairwise(body)
        if isinstance(one, Function) and isinstance(two, Function) and one.name != two.name
    ]
    if not pairs:
        return None
    one, two = rng.choice(pairs)
    gap = source.data[source.end_of_line(one) : source.start_of_line(two)].decode()
    text = f"{source.block(two)}{gap}{source.block(one)}"
    return spot.made([(source.start_of_line(one), source.end_of_line(two), text)])


def new_parameter(spot: Spot, rng: Random) -> Mutant | None:
    """A parameter more, with a default."""
    function, source = spot.function(rng), spot.source
    if function is None or function.args.kwarg or function.args.vararg:
        return None
    arguments = function.args.kwonlyargs or function.args.args
    if not arguments or (function.args.args and arguments[-1].arg in {"self", "cls"}):
        return None
    last: ast.AST = arguments[-1]
    defaults = function.args.kw_defaults if function.args.kwonlyargs else function.args.defaults
    if defaults and defaults[-1] is not None:
        last = defaults[-1]
    end = source.span(last)[1]
    return spot.made([(end, end, rng.choice([", extra=None", ", layer_idx: int = 0"]))])


def logging(spot: Spot, rng: Random) -> Mutant | None:
    function, source = spot.function(rng), spot.source
    if function is None or b"\nlogger = " not in source.data:
        return None
    found = [n for n in own(function) if isinstance(n, ast.stmt) and source.whole_lines(n)]
    found = [n for n in found if not source.block(n).lstrip().startswith(("elif", '"""'))]
    if not found:
        return None
    statement = rng.choice(found)
    at = source.start_of_line(statement)
    line = f'{source.indent(statement)}logger.debug("here: %s", __name__)\n'
    return spot.made([(at, at, line)])


def _names(spot: Spot) -> list[str]:
    found = []
    for statement in spot.source.tree.body:
        if isinstance(statement, Function | ast.ClassDef):
            found.append(statement.name)
        elif isinstance(statement, ast.Assign):
            found += [t.id for t in statement.targets if isinstance(t, ast.Name)]
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found.append(statement.target.id)
    return [name for name in dict.fromkeys(found) if not name.startswith("__")]


def moved(spot: Spot, rng: Random) -> Mutant | None:
    """Move what a module has to a new one beside it, and import it from there."""
    path = PurePosixPath(spot.path)
    if path.name == "__init__.py":
        return None
    new = path.with_name(f"{path.stem}{rng.choice(['_impl', '_core', '_common'])}.py")
    names = ", ".join(_names(spot))
    module = ".".join(new.with_suffix("").parts)
    header = "# SPDX-License-Identifier: Apache-2.0\n"
    made = f"{header}from {module} import ({names})  # noqa: F401\n"
    return Mutant({spot.path: made.encode(), str(new): spot.source.data})


def second(spot: Spot, rng: Random) -> Mutant | None:
    """A copy of the definition under another name, in the same file."""
    source = spot.source
    name = spot.name.partition(".")[0]
    node = source.definition(name)
    if node is None:
        return None
    new = f"{name}{rng.choice(['Alt', 'V2', '_alt'])}"
    text = re.sub(rf"\b{name}\b", new, source.block(node), count=1)
    at = source.end_of_line(node)
    return spot.made([(at, at, f"\n\n{text}")], places=((spot.path, new),))


def second_file(spot: Spot, rng: Random) -> Mutant | None:
    """A copy of the file, as for another vendor."""
    path = PurePosixPath(spot.path)
    vendor = rng.choice(["maca", "npu", "hpu"])
    vendors = {"nvidia", "amd", "xpu"} & set(path.parts)
    new = (
        PurePosixPath(*[vendor if part in vendors else part for part in path.parts])
        if vendors
        else path.with_name(f"{path.stem}_{vendor}.py")
    )
    if str(new) in spot.files:
        return None
    return Mutant({str(new): spot.source.data}, places=((str(new), spot.name.partition(".")[0]),))


FAMILIES = [
    Family("layout/docstring", "harmless", docstring),
    Family("layout/comment", "harmless", comment),
    Family("layout/comments-gone", "harmless", comments_gone),
    Family("layout/reformatted", "harmless", reformat),
    Family("layout/one-line", "harmless", one_line),
    Family("layout/quotes", "harmless", quotes),
    Family("layout/hints", "harmless", hints),
    Family("layout/decorator", "harmless", decorator),
    Family("layout/reordered", "harmless", reorder),
    Family("signature/parameter", "harmless", new_parameter),
    Family("statements/logging", "harmless", logging),
    Family("moved/module", "moving", moved),
    Family("second/same-file", "moving", second),
    Family("second/new-file", "moving", second_file),
]
