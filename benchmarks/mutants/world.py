"""Runs modules of vLLM without their dependencies: what is not run is a stub that takes anything.

A module runs with an import function of its own. Modules of the standard library are real. Those
of `World.runs`, paths of the tree, are run in the same way. Any other name that is imported is a
`Stub`: it can be called, compared, subclassed and computed with, and records its calls.
"""

from __future__ import annotations

import builtins
import dis
import signal
import sys
import types
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SECONDS = 10.0
_OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"),
    *("lshift", "rshift"),
)


class CannotSayError(Exception):
    """The code did what the stubs do not know."""


@dataclass
class Call:
    """A call of a stub: its dotted name, and what it got."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Stub:
    """Stands for anything that is not run."""

    def __init__(self, world: World, name: str) -> None:
        self.__dict__["_world"] = world
        self.__dict__["_name"] = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name not in self._world.special:
            raise AttributeError(name)
        found = self._world.named(f"{self._name}.{name}")
        self.__dict__[name] = found
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._world.calls.append(Call(self._name, args, kwargs))
        decorates = len(args) == 1 and isinstance(args[0], types.FunctionType | type)
        if decorates and not kwargs and not self._name.endswith(".jit"):
            return args[0]
        return Stub(self._world, f"{self._name}()")

    def __mro_entries__(self, _: tuple[Any, ...]) -> tuple[type, ...]:
        return (self._world.base(self._name),)

    def __instancecheck__(self, _: object) -> bool:
        return False

    def __subclasscheck__(self, _: object) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self._name}>"

    __str__ = __repr__

    def __format__(self, _: str) -> str:
        return str(self)

    def __getitem__(self, key: object) -> Any:
        self._world.calls.append(Call(f"{self._name}[]", (key,), {}))
        return Stub(self._world, f"{self._name}[]")

    def __setitem__(self, key: object, value: object) -> None:
        self._world.calls.append(Call(f"{self._name}[]=", (key, value), {}))

    def __iter__(self) -> Iterator[Any]:
        # As many as the code unpacks it to, and one where it does something else.
        frame = sys._getframe(1)  # noqa: SLF001 - nothing else tells
        operation, number = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2]
        count = number if operation == dis.opmap["UNPACK_SEQUENCE"] else 1
        return iter([Stub(self._world, f"{self._name}[]") for _ in range(count)])

    def __len__(self) -> int:
        return 1

    def __bool__(self) -> bool:
        return self._world.truth

    def __index__(self) -> int:
        return 1

    __int__ = __index__

    def __float__(self) -> float:
        return 1.0

    def __contains__(self, _: object) -> bool:
        return False

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _compared(self, _: object) -> bool:
        return self._world.truth

    __lt__ = __le__ = __gt__ = __ge__ = _compared

    def _computed(self, _: object = None) -> Any:
        return Stub(self._world, f"{self._name}~")

    __neg__ = __pos__ = __invert__ = __abs__ = _computed


def _operate(operator: str) -> Callable[[Stub, object], Any]:
    def computed(self: Stub, other: object) -> Any:
        world, name = self.__dict__["_world"], self.__dict__["_name"]
        world.calls.append(Call(f"operator.{operator}", (self, other), {}))
        return Stub(world, f"{name}~")

    return computed


for _name in _OPERATORS:
    for _form in (f"__{_name}__", f"__r{_name}__", f"__i{_name}__"):
        setattr(Stub, _form, _operate(_name))


class Known(Stub):
    """A function that is known, where a stub may stand: in annotations, or as a module's name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_function"](*args, **kwargs)


class Base:
    """What a class that is derived from a stub is derived from."""

    _world: World

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __init_subclass__(cls, **_: Any) -> None:
        pass

    def __class_getitem__(cls, _: object) -> Any:
        return cls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self._world.named(f"self.{name}")


@dataclass
class World:
    """A tree whose modules can be run.

    `read` gives a file's text or None. `runs` are the paths that are run when they are imported.
    `special` are values for names, whole dotted ones or last parts. Attributes in `missing` do not
    exist. `truth` is what a stub is where a condition asks it.
    """

    read: Callable[[str], bytes | None]
    runs: frozenset[str]
    special: Mapping[str, Any] = field(default_factory=dict)
    missing: Callable[[str], bool] = lambda _: False
    truth: bool = True
    calls: list[Call] = field(default_factory=list)
    modules: dict[str, Any] = field(default_factory=dict)
    _bases: dict[str, type] = field(default_factory=dict)

    def named(self, name: str) -> Any:
        """The value of a dotted name."""
        if self.missing(name):
            raise AttributeError(f"no attribute {name!r}")
        last = name.rpartition(".")[2]
        key = name if name in self.special else last
        if key in self.special:
            return self._known(name, self.special[key])
        return self.module(name) or Stub(self, name)

    def _known(self, name: str, value: Any) -> Any:
        if not isinstance(value, types.FunctionType):
            return value
        known = Known(self, name)
        known.__dict__["_function"] = value
        return known

    def base(self, name: str) -> type:
        if name not in self._bases:
            self._bases[name] = type(name.rpartition(".")[2] or "Any", (Base,), {"_world": self})
        return self._bases[name]

    def path_of(self, name: str) -> str | None:
        stem = name.replace(".", "/")
        return next((p for p in (f"{stem}.py", f"{stem}/__init__.py") if p in self.runs), None)

    def module(self, name: str) -> Any:
        """A module that is run, or None."""
        path = self.path_of(name)
        return None if path is None else self.run(path)

    def run(self, path: str) -> Any:
        """Run a file of the tree, once."""
        if path in self.modules:
            return self.modules[path]
        text = self.read(path)
        if text is None:
            raise CannotSayError(f"no file {path}")
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        made = types.ModuleType(name)
        made.__package__ = name if path.endswith("/__init__.py") else name.rpartition(".")[0]
        made.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import}
        self.modules[path] = made
        exec(_compiled(path, text), made.__dict__)  # noqa: S102 - of a release, or a mutant of it
        return made

    def _import(
        self,
        name: str,
        globals_: Mapping[str, Any] | None = None,
        _: object = None,
        names: tuple[str, ...] | None = (),
        level: int = 0,
    ) -> Any:
        if level:
            package = (globals_ or {}).get("__package__", "").split(".")
            parts = package[: len(package) - level + 1]
            name = ".".join([*parts, *([name] if name else [])])
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names:
            return builtins.__import__(name, None, None, names or (), 0)
        return self._whole(name if names else top)

    def _whole(self, name: str) -> Any:
        found = self.named(name)
        if isinstance(found, types.ModuleType):
            # A submodule is an attribute of its package only if that was run.
            world = self
            found.__dict__.setdefault("__getattr__", lambda last: _sub(world, name, last))
        return found


def _sub(world: World, name: str, last: str) -> Any:
    if last.startswith("__") or world.path_of(f"{name}.{last}") is None:
        raise AttributeError(last)
    return world.module(f"{name}.{last}")


@lru_cache(maxsize=256)
def _compiled(path: str, text: bytes) -> types.CodeType:
    # Without asserts: stubs answer no question of that kind.
    return compile(text, path, "exec", dont_inherit=True, optimize=1)


@contextmanager
def limited(seconds: float = SECONDS) -> Iterator[None]:
    """End code that goes on for too long: a loop over a stub's answers may.

    The time is that of the processor, so that a busy machine changes no answer.
    """

    def stop(*_: object) -> None:
        raise CannotSayError("it takes too long")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
