"""What a function or a class of vLLM is called now that is gone in a release."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vpatch.commands.compat.code.outline import Class, Function
from vpatch.commands.compat.code.part import module_at
from vpatch.planning.code_place import CodePlace, alike
from vpatch.planning.successor import CLEARER, files_like

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.commands.compat.code.codebase import DefinedPlace
    from vpatch.commands.compat.code.outline import Binding
    from vpatch.commands.compat.judgement.release import JudgedRelease

# The part of the lines that must be the same: more than bump asks, as no proof follows.
_ALIKE = 0.7
# Shorter definitions are alike by chance.
_FEWEST = 6


def renamed(base: JudgedRelease, release: JudgedRelease, place: DefinedPlace) -> str:
    """Return what took the place of a definition of the base, and on what that rests; or "".

    It is of the same kind, in the same class if it is a method, and the base has nothing of that
    name. It has most of the lines, and no other one has nearly as many.
    """
    lines = base.lines(place)
    if len(lines) < _FEWEST or not isinstance(place.binding, Function | Class):
        return ""
    is_class = isinstance(place.binding, Class)
    gone = CodePlace(
        base.path_of(place.module), place.name, place.binding.first, tuple(lines), is_class
    )
    scored = sorted(
        ((alike(gone, one), one) for one in _candidates(gone, place, base, release)),
        key=lambda pair: pair[0],
        reverse=True,
    )
    scored = [pair for pair in scored if pair[0] >= _ALIKE - CLEARER]
    if not scored or scored[0][0] < _ALIKE:
        return ""
    if len(scored) > 1 and scored[0][0] - scored[1][0] < CLEARER:
        return ""
    ratio, heir = scored[0]
    module = module_at(heir.path)
    name = f"{module}.{heir.name}"
    return f"probably {name} ({heir.where}), as {ratio:.0%} of the lines are the same"


def _candidates(
    gone: CodePlace, place: DefinedPlace, base: JudgedRelease, release: JudgedRelease
) -> Iterator[CodePlace]:
    above, _, _ = place.name.rpartition(".")
    counts = Counter(line.strip() for line in gone.lines)
    for path in files_like(gone, release.view):
        text = release.files[path]
        module = module_at(path)
        # To read an outline takes long: the lines of the file tell whether it is worth it.
        shared = counts & Counter(
            line.strip().decode(errors="replace") for line in text.split(b"\n")
        )
        if shared.total() < _ALIKE / 2 * len(gone.lines):
            continue
        outline = release.outline(module)
        lines = text.decode(errors="replace").splitlines()
        for name, one in _members(outline.names, above) if outline else ():
            if isinstance(one, Class) == gone.is_class and not _had(base, place, above, name):
                own = tuple(lines[one.first - 1 : one.last])
                likely = (counts & Counter(line.strip() for line in own)).total()
                if likely * 2 >= (_ALIKE - 2 * CLEARER) * (len(own) + len(gone.lines)):
                    full = f"{above}.{name}" if above else name
                    yield CodePlace(path, full, one.first, own, gone.is_class)


def _members(
    names: dict[str, tuple[Binding, ...]], above: str
) -> Iterator[tuple[str, Function | Class]]:
    """Yield what a module defines, or a class in it."""
    if above:
        first, _, rest = above.partition(".")
        for one in names.get(first, ()):
            if isinstance(one, Class):
                yield from _members(one.members, rest)
        return
    for name, several in names.items():
        last = several[-1]
        if isinstance(last, Function | Class):
            yield name, last


def _had(base: JudgedRelease, place: DefinedPlace, above: str, name: str) -> bool:
    """Whether the base has a definition of this name: then it took nobody's place."""
    if not above:
        return base.defines(name)
    outline = base.outline(place.module)
    return outline is not None and any(n == name for n, _ in _members(outline.names, above))
