"""What becomes of a module that names an operator on import, with the operators of a build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from vpatch.operators.import_time import NamedOperator
    from vpatch.operators.registrations import BuiltOperators

# "perhaps" is not there, under a condition that nobody can read; "unknown" is perhaps there.
Lack = Literal["not run", "here", "unknown", "perhaps", "gone"]
LACKS: tuple[Lack, ...] = ("not run", "here", "unknown", "perhaps", "gone")


class OperatorLack(NamedTuple):
    """Whether a build lacks an operator that is named on import; `why` is a clause."""

    lack: Lack
    why: str = ""


def lack_of(built: BuiltOperators, named: NamedOperator) -> OperatorLack:
    """Return whether a build lacks an operator where a module names it on import."""
    asked = {one: _has(built, one) for one in named.asked}
    not_asked = {one: _has(built, one) for one in named.not_asked}
    if False in asked.values() or True in not_asked.values():
        return OperatorLack("not run")
    has_it = built.has(named.name, any_overload=named.any_overload)
    if has_it:
        return OperatorLack("here")
    if has_it is None:
        namespace = named.name.partition(".")[0]
        why = built.open.get(namespace) or built.open.get("")
        return OperatorLack("unknown", why or f"only some conditions build {named.name}")
    unsure = [one for one, has in {**asked, **not_asked}.items() if has is None]
    if unsure:
        return OperatorLack("unknown", f"it depends on {unsure[0]}, which only some builds have")
    return OperatorLack("perhaps" if named.condition else "gone", named.condition)


def _has(built: BuiltOperators, name: str) -> bool | None:
    return built.has(name, any_overload=name.count(".") == 1)
