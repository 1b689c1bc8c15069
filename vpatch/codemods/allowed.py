"""What a codemod.py may use, so that nothing but the file that it edits decides what it does.

This reads the source and runs nothing of it. It is not a sandbox: the user trusts the code before
it runs. It finds what an author writes in good faith. An author who hides a read from it gets
answers that vpatch remembers for too long.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, field
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

import libcst as cst


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Modules that read no file, clock, environment or setting. Each was looked through for that.
# Left out are warnings and logging (what they print would be missing the second time), tokenize
# and linecache (they open files), decimal (a context that others share), random and inspect.
PURE = _words(
    "__future__ abc ast bisect collections collections.abc contextlib copy dataclasses difflib "
    "enum fnmatch functools heapq itertools json keyword math numbers operator re string textwrap "
    "token types typing unicodedata"
)
LIBCST = _words(
    "libcst libcst.matchers libcst.metadata libcst.helpers libcst.codemod libcst.codemod.visitors"
)
VPATCH = "vpatch.codemods"
OF_VPATCH = frozenset(["EditOutcome", "EditSite", "PythonEdit", "Scope", "SiteTransformer"])

# Built-in functions that read more, run other code, keep state, or print.
BUILTINS = _words(
    "breakpoint compile copyright credits delattr eval exec exit globals help input license locals "
    "open print quit setattr vars"
)
# Attributes, of whatever object, that lead out of the modules above or open something.
ATTRIBUTES = _words(
    "_sys _thread _warnings ag_frame attrgetter bltns builtins chdir codecs copyreg cr_frame "
    "diff_code exec_transform_with_prettyprint f_back f_builtins f_globals f_locals "
    "FilePathProvider ForwardRef FullRepoManager gather_files get_type_hints gi_frame "
    "importlib inspect invoke_formatter io methodcaller open os "
    "parallel_exec_transform_with_prettyprint posixpath subprocess sys tb_frame "
    "TypeInferenceProvider warnings"
)
# Names with two underscores at both ends that tell nothing of anything else.
SPECIAL = _words(
    "__all__ __bool__ __call__ __class__ __contains__ __debug__ __doc__ __enter__ __eq__ __exit__ "
    "__getitem__ __hash__ __init__ __init_subclass__ __iter__ __len__ __lt__ __match_args__ "
    "__name__ __new__ __next__ __post_init__ __qualname__ __repr__ __slots__ __str__"
)
_TYPE_CHECKING = frozenset(["TYPE_CHECKING", "typing.TYPE_CHECKING"])


@dataclass(frozen=True)
class Use:
    """A line of a source, from 1, and what is used there, in words for the user."""

    line: int
    what: str


@dataclass(frozen=True)
class Scan:
    """What a source imports that is neither Python's, libcst's nor vpatch's; and what it may not.

    `imports` has the line of each module. `optional` are names that may be modules: of
    `from package import name`. `pure` are the modules of Python. `refused` is the first use that
    may read more.
    """

    imports: dict[str, int]
    optional: dict[str, int]
    pure: dict[str, int]
    refused: Use | None


@cache
def scan(source: bytes, package: str = "") -> Scan:
    """Read a source; `package` is what its relative imports start from.

    Raises:
        SyntaxError, ValueError: it is not Python.
        RecursionError, MemoryError: it is nested too deeply.
    """
    uses = _Uses(package)
    uses.visit(ast.parse(source))
    uses.resolve()
    refused = min(uses.refused, key=lambda use: use.line, default=None)
    return Scan(uses.imports, uses.optional, uses.pure, refused)


@dataclass
class _Uses(ast.NodeVisitor):
    package: str
    imports: dict[str, int] = field(default_factory=dict)
    optional: dict[str, int] = field(default_factory=dict)
    pure: dict[str, int] = field(default_factory=dict)
    refused: list[Use] = field(default_factory=list)
    # Names in this file that are modules or parts of them; None for a part.
    bound: dict[str, str | None] = field(default_factory=dict)
    chains: list[tuple[ast.expr, bool]] = field(default_factory=list)

    def refuse(self, node: ast.AST, what: str) -> None:
        self.refused.append(Use(getattr(node, "lineno", 1), what))

    def visit_If(self, node: ast.If) -> None:
        # What only a type checker imports is never imported when it runs.
        test = node.test
        if isinstance(test, (ast.Name, ast.Attribute)) and ast.unparse(test) in _TYPE_CHECKING:
            for statement in node.orelse:
                self.visit(statement)
        else:
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(node, alias.name)
            self.bound[alias.asname or alias.name.partition(".")[0]] = (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        try:
            name = resolve_name("." * node.level + (node.module or ""), self.package)
        except ImportError:
            self.refuse(node, "it has a relative import, and is in no package")
            return
        self._import(node, name)
        for alias in node.names:
            whole = f"{name}.{alias.name}"
            self.bound[alias.asname or alias.name] = whole if _is_known(whole) else None
            if name == VPATCH and alias.name not in OF_VPATCH:
                self.refuse(node, f"it imports {whole}")
            elif _is_foreign(name):
                self.optional.setdefault(whole, node.lineno)
            elif alias.name == "*":
                self.refuse(node, f"it imports all names of {name}")
            elif whole in _submodules(name):
                self._import(node, whole)
            else:
                self._attribute(node, alias.name)

    def _import(self, node: ast.stmt, name: str) -> None:
        if _is_foreign(name):
            parts = name.split(".")
            for depth in range(len(parts)):
                self.imports.setdefault(".".join(parts[: depth + 1]), node.lineno)
        elif not _is_known(name):
            self.refuse(node, f"it imports {name}")
        elif name in PURE:
            self.pure.setdefault(name.partition(".")[0], node.lineno)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in BUILTINS or node.id == "getattr" or _is_special(node.id):
            self.refuse(node, f"it uses {node.id}")

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(
                func=ast.Name("getattr"),
                args=[value, ast.Constant(str() as name), *rest],
                keywords=[],
            ):
                self._attribute(node, name)
                self.chains.append((ast.Attribute(value, name, lineno=node.lineno), False))
                for argument in (value, *rest):
                    self.visit(argument)
            case ast.Call(func=ast.Name("getattr")):
                self.refuse(node, "it uses getattr with a name that is not written there")
            case _:
                self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._attribute(node, node.attr)
        self.chains.append((node, not isinstance(node.ctx, ast.Load)))
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.chains.append((node, True))
        self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            self._attribute(node, name)
        self.generic_visit(node)

    def _attribute(self, node: ast.AST, name: str) -> None:
        if name in ATTRIBUTES or _is_special(name):
            self.refuse(node, f"it uses {name}")

    def resolve(self) -> None:
        """Check what is used of imported modules, once all names of imports are known."""
        for node, changes in self.chains:
            names: list[str] = []
            inner = node
            while isinstance(inner, (ast.Attribute, ast.Subscript)):
                names = [inner.attr, *names] if isinstance(inner, ast.Attribute) else []
                inner = inner.value
            if not isinstance(inner, ast.Name) or inner.id not in self.bound:
                continue
            if changes:
                self.refuse(node, f"it changes {ast.unparse(node)}, which other code shares")
            module = self.bound[inner.id]
            for name in names:
                if module is None:
                    break
                whole = f"{module}.{name}"
                inside = whole in _submodules(module)
                if (module == VPATCH and name not in OF_VPATCH) or (
                    inside and not _is_foreign(whole) and not _is_known(whole)
                ):
                    self.refuse(node, f"it uses {whole}")
                module = whole if inside else None


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in SPECIAL


def _is_known(name: str) -> bool:
    """Whether a module of Python, libcst or vpatch may be imported."""
    commands = name.startswith("libcst.codemod.commands.")
    return name in PURE or name in LIBCST or name == VPATCH or commands


def _is_foreign(name: str) -> bool:
    top = name.partition(".")[0]
    return top not in sys.stdlib_module_names and top not in {"libcst", "vpatch"}


@cache
def _submodules(module: str) -> frozenset[str]:
    """The modules in a package of libcst or vpatch; none of any other."""
    roots = {"libcst": Path(cst.__file__).parent, "vpatch": Path(__file__).parents[1]}
    top, *parts = module.split(".")
    if top not in roots:
        return frozenset()
    folder = roots[top].joinpath(*parts)
    if not folder.is_dir():
        return frozenset()
    names = {entry.name.partition(".")[0] for entry in folder.iterdir()}
    return frozenset(f"{module}.{name}" for name in names - {"__init__", "__pycache__", "py"})
