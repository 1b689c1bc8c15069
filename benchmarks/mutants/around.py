"""Changes of the code beside what a patch reads, one mutator for each kind of change.

What a change is beside is found by the short rules here, and not by those of vpatch.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.planning.names import plain_name

if TYPE_CHECKING:
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Tree

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Files = dict[str, bytes]


@dataclass(frozen=True)
class Source:
    """A file that a patch reads, and its syntax. `known` are the shape's definitions there."""

    tree: Tree
    known: frozenset[str]
    path: str
    text: str
    module: ast.Module

    def with_lines(self, *new: tuple[int, str]) -> Files:
        """The file with lines put before some others, which count from 1."""
        lines = self.text.splitlines(keepends=True)
        for number, line in sorted(new, reverse=True):
            lines.insert(number - 1, line)
        return {self.path: "".join(lines).encode()}


@dataclass(frozen=True)
class Core(Source):
    """A function that a patch reads, with its qualified name.

    `has_place` is whether something that the patch looks for is in it.
    """

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    has_place: bool = False

    @property
    def owner(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]


def sources_of(decision: Decision, tree: Tree) -> Iterator[Source]:
    """The Python files of a shape that have a place; all of them where nothing has one."""
    places = {one.path for one in decision.findings if one.path}
    definitions = decision.shape.definitions if decision.shape else {}
    known = frozenset(f"{k.partition('::')[0]}::{plain_name(k)}" for k in definitions)
    for path in sorted({key.partition("::")[0] for key in definitions}):
        # What is absent has no place.
        if path.endswith(".py") and (path in places or not places):
            text = tree.read(path).decode()
            yield Source(tree, known, path, text, ast.parse(text))


def cores_of(decision: Decision, source: Source) -> Iterator[Core]:
    """The functions of a shape that other code can name, in one file."""
    for name, node in functions_in(source.module):
        if f"{source.path}::{name}" in source.known:
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            has_place = any(o.path == source.path and o.line in lines for o in decision.findings)
            yield Core(**vars(source), name=name, node=node, has_place=has_place)


def functions_in(
    module: ast.Module,
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The functions of a module and the methods of its classes, by qualified name."""
    for node in module.body:
        if isinstance(node, FUNCTIONS):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{o.name}", o) for o in node.body if isinstance(o, FUNCTIONS))


def names_in(node: ast.AST) -> set[str]:
    """The names that code reads, without those of its annotations."""
    inner = [o for part in getattr(node, "body", [node]) for o in ast.walk(part)]
    notes = [o.annotation for o in inner if isinstance(o, ast.AnnAssign)]
    idle = {id(o) for one in notes for o in ast.walk(one)}
    return {o.id for o in inner if isinstance(o, ast.Name) and id(o) not in idle}


def attributes_in(node: ast.AST) -> set[str]:
    """The attributes of `self` that code reads."""
    return {
        o.attr
        for part in getattr(node, "body", [node])
        for o in ast.walk(part)
        if isinstance(o, ast.Attribute) and isinstance(o.value, ast.Name) and o.value.id == "self"
    }


def begin(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, str]:
    """The line of the first statement, and its indentation."""
    return node.body[0].lineno, " " * node.body[0].col_offset


def imported(core: Core, tree: Tree) -> Iterator[tuple[str, str, ast.Module, str]]:
    """What the function uses of other modules of the tree: file, text, syntax and name."""
    used = names_in(core.node)
    for node in core.module.body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            path = f"{node.module.replace('.', '/')}.py"
            if path not in tree.package_files:
                continue
            text = tree.read(path).decode()
            for alias in node.names:
                if (alias.asname or alias.name) in used:
                    yield path, text, ast.parse(text), alias.name


def callee(core: Core) -> Iterator[Files]:
    """A function that the code calls returns nothing."""
    wanted = names_in(core.node) | {f"{core.owner}.{name}" for name in attributes_in(core.node)}
    for name, node in functions_in(core.module):
        if name in wanted and f"{core.path}::{name}" not in core.known:
            line, space = begin(node)
            yield core.with_lines((line, f"{space}return None\n"))
    for path, text, module, name in imported(core, core.tree):
        for other, node in functions_in(module):
            if other == name and f"{path}::{name}" not in core.known:
                line, space = begin(node)
                whole = replace(core, path=path, name=name, text=text, module=module, node=node)
                yield whole.with_lines((line, f"{space}return None\n"))


def caller(core: Core) -> Iterator[Files]:
    """A function that calls the code of a place leaves before it does."""
    if not core.has_place:
        return
    files = [
        core.path,
        *(p for p in sorted(core.tree.holding(core.last.encode())) if p != core.path),
    ]
    for path in files[:6]:
        text = core.tree.read(path).decode()
        module = ast.parse(text)
        for name, node in functions_in(module):
            if f"{path}::{name}" in core.known or name == core.name:
                continue
            if any(is_call_of(core, o, path) for o in ast.walk(node)):
                line, space = begin(node)
                whole = replace(core, path=path, name=name, text=text, module=module, node=node)
                yield whole.with_lines(
                    (line, f"{space}if args_are_old():\n{space}    return None\n")
                )


def is_call_of(core: Core, node: ast.AST, path: str) -> bool:
    """Whether it calls the function by its name, from its own class or its own module."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            return bool(core.owner) and name == core.last and path == core.path
        case ast.Call(func=ast.Name(id=name)):
            return not core.owner and name == core.last
        case _:
            return False


def constant(core: Core) -> Iterator[Files]:
    """A constant that the code reads is emptied."""
    names = names_in(core.node) - {"logger"}
    own = [(core.path, core.text, core.module, name) for name in names]
    for path, text, module, name in [*own, *imported(core, core.tree)]:
        for node in module.body:
            if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if f"{path}::{name}" in core.known or [ast.unparse(o) for o in targets] != [name]:
                continue
            lines = text.splitlines(keepends=True)
            lines[node.lineno - 1 : node.end_lineno] = [f"{name} = None\n"]
            yield {path: "".join(lines).encode()}


def rebinding(core: Core) -> Iterator[Files]:
    """The name of the code is given to something else: in its module, or in another one."""
    dotted = core.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    last = f"\n\n{core.name} = None\n"
    conditional = f'\n\nif os.environ.get("VLLM_OLD"):\n    {core.name} = None\n'
    if core.owner:
        yield {core.path: (core.text + last).encode()}
        yield {core.path: (core.text + conditional).encode()}
    folder = core.path.rpartition("/")[0]
    first = core.name.partition(".")[0]
    other = f"{folder}/compat_shims.py"
    if core.owner:
        yield {other: f"from {dotted} import {first}\n\n{core.name} = None\n".encode()}
        text = f'from {dotted} import {first} as Own\n\nsetattr(Own, "{core.last}", None)\n'
        yield {other: text.encode()}
    else:
        parent, _, stem = dotted.rpartition(".")
        yield {other: f"from {parent} import {stem}\n\n{stem}.{core.name} = None\n".encode()}


def binding(core: Core) -> Iterator[Files]:
    """A name that the code takes from another module is something else under a condition."""
    used = names_in(core.node)
    for node in core.module.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)) and node.end_lineno:
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                if name in used and f"{core.path}::{name}" not in core.known:
                    added = f'if "VLLM_OLD" in globals():\n    {name} = None\n'
                    yield core.with_lines((node.end_lineno + 1, added))


def order(source: Source) -> Iterator[Files]:
    """A value that another statement of the module uses is given after that statement."""
    top = [node for node in source.module.body if not isinstance(node, (*FUNCTIONS, ast.ClassDef))]
    lines = source.text.splitlines(keepends=True)
    for number, node in enumerate(top):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                is_known = f"{source.path}::{name}" in source.known
                is_used = any(name in names_in(other) for other in top[number + 1 :])
                if is_known and is_used:
                    own = lines[node.lineno - 1 : node.end_lineno]
                    rest = [*lines[: node.lineno - 1], *lines[node.end_lineno :]]
                    yield {source.path: "".join([*rest, "\n\n", *own]).encode()}


def override(core: Core) -> Iterator[Files]:
    """A new subclass overrides the method."""
    if core.owner:
        dotted = core.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        text = (
            f"from {dotted} import {core.owner}\n\n\nclass Faster{core.owner}({core.owner}):\n"
            f"    def {core.last}(self, *args, **kwargs):\n        return None\n"
        )
        yield {f"{core.path.rpartition('/')[0]}/faster.py": text.encode()}


def decorator(core: Core) -> Iterator[Files]:
    """The class of the method gets a decorator."""
    for node in core.module.body:
        if isinstance(node, ast.ClassDef) and node.name == core.owner:
            first = min([node.lineno, *(o.lineno for o in node.decorator_list)])
            yield core.with_lines((first, "@without_checks\n"))


def route(core: Core) -> Iterator[Files]:
    """A new module has the code of a place under another name."""
    if not core.has_place:
        return
    source = ast.get_source_segment(core.text, core.node, padded=True) or ""
    lines = [line[core.node.col_offset :] for line in source.splitlines()]
    copy = "\n".join(lines).replace(f"def {core.last}(", "def second_route(", 1)
    yield {f"{core.path.rpartition('/')[0]}/second_route.py": f"{copy}\n".encode()}


def field(core: Core) -> Iterator[Files]:
    """What sets an attribute that the code reads gives it another name."""
    for name, node in functions_in(core.module):
        if name != f"{core.owner}.__init__" or f"{core.path}::{name}" in core.known:
            continue
        for attribute in sorted(attributes_in(core.node) & attributes_in(node)):
            lines = core.text.splitlines(keepends=True)
            own = lines[node.lineno - 1 : node.end_lineno]
            renamed = [
                line.replace(f"self.{attribute} =", f"self.old_{attribute} =") for line in own
            ]
            if renamed != own:
                lines[node.lineno - 1 : node.end_lineno] = renamed
                yield {core.path: "".join(lines).encode()}


def moved(core: Core) -> Iterator[Files]:
    """The class or the function has another name everywhere in its file."""
    first = core.name.partition(".")[0]
    yield {core.path: core.text.replace(first, f"{first}V2").encode()}


def comment(core: Core) -> Iterator[Files]:
    """Harmless: comments and log lines in each function of the file that is not of the shape."""
    for name, node in functions_in(core.module):
        if f"{core.path}::{name}" not in core.known and "logger" in core.text:
            line, space = begin(node)
            is_text = isinstance(node.body[0], ast.Expr) and isinstance(
                node.body[0].value, ast.Constant
            )
            if not is_text:
                added = f"{space}# A remark.\n{space}logger.debug('%s', 1)\n"
                yield core.with_lines((line, added))


def unrelated(core: Core) -> Iterator[Files]:
    """Harmless: a new function that has nothing to do with the code."""
    added = "\n\ndef format_greeting_of_the_day(who):\n    return f'hello {who}'\n"
    yield {core.path: (core.text + added).encode()}
    yield {f"{core.path.rpartition('/')[0]}/greeting.py": added.encode()}


Mutator = Callable[[Core], Iterator[Files]]
MODES: list[Mutator] = [
    *(callee, caller, constant, rebinding, binding, override, decorator, route, field, moved),
]
MODES_OF_FILES: list[Callable[[Source], Iterator[Files]]] = [order]
HARMLESS: list[Mutator] = [comment, unrelated]
