"""Makes mutants by number, has vpatch decide on them, and judges the decision."""

from __future__ import annotations

import ast
import difflib
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Literal

from mutants import calls, effects, expressions, imports, layout, renames, statements
from mutants.bases import Files, Ground, Grounds, Kind, MutantTree, decide, undefined
from mutants.mutant import Family, Mark, Mutant, follow
from mutants.scene import Answer, judged
from vpatch.planning.state import Decision, State

if TYPE_CHECKING:
    from mutants.cases import Case

Verdict = Literal[
    "right", "silent", "wrong edit", "twice", "needless conflict", "needed conflict", "crash"
]
VERDICTS: tuple[Verdict, ...] = (
    "right",
    "silent",
    "wrong edit",
    "twice",
    "needless conflict",
    "needed conflict",
    "crash",
)
SILENT = {State.UPSTREAMED, State.APPLIED, State.ABSENT}
ATTEMPTS = 60
GENERIC = [
    *renames.FAMILIES,
    *imports.FAMILIES,
    *expressions.FAMILIES,
    *calls.FAMILIES,
    *statements.FAMILIES,
    *layout.FAMILIES,
]
KINDS: dict[Kind, int] = {"pristine": 6, "patched": 2, "adopted": 2}


@dataclass
class Result:
    """What became of a mutant. `diff` is what it changed, `detail` why the verdict is bad."""

    patch: str
    release: str
    number: int
    kind: Kind = "pristine"
    family: str = ""
    mark: Mark = "harmless"
    verdict: Verdict | None = None
    state: str = ""
    reason: str = ""
    detail: str = ""
    new_shape: bool = False
    diff: str = ""
    seconds: float = 0.0
    discarded: Counter[str] = field(default_factory=Counter)


def tried(grounds: Grounds, case: Case, release: str, seed: int, number: int) -> Result:
    """Make a mutant and judge it. It depends on the arguments alone."""
    result = Result(case.patch, release, number)
    rng = Random(f"{seed}/{case.patch}/{release}/{number}")  # noqa: S311 - no secret
    found = grounds.of(case, release)
    for _ in range(ATTEMPTS):
        kind = rng.choices(list(found), [KINDS[k] for k in found])[0]
        ground = found[kind]
        try:
            family, mutant = _made(case, ground, rng)
        except (AttributeError, ValueError, SyntaxError):
            result.discarded["the mutation failed"] += 1
            continue
        result.kind, result.family, result.mark = kind, family.name, _mark(family, kind)
        if mutant is None:
            result.discarded["nothing to do"] += 1
            continue
        files = {**ground.files, **mutant.files}
        fault = _fault(mutant)
        answer = None if fault else _answer(case, ground, files, mutant)
        before = ground.answer(case)
        if fault or answer is None:
            result.discarded[fault or "the oracle cannot say"] += 1
            continue
        if not _as_marked(result.mark, before, answer, kind):
            result.discarded["the oracle does not agree with the mark"] += 1
            continue
        _judge(grounds, case, ground, mutant, answer, result)
        return result
    return result


def _mark(family: Family, kind: Kind) -> Mark:
    return "curing" if kind == "adopted" and family.mark == "harmless" else family.mark


def _made(case: Case, ground: Ground, rng: Random) -> tuple[Family, Mutant | None]:
    spots = case.spots_in(ground.files)
    half = Family("half/some-changes", "moving", lambda _, __: None)
    families = [*GENERIC, *effects.FAMILIES]
    pools: list[list[Family]] = [families, list(case.families) or families]
    if ground.kind == "adopted":
        pools.append([half])
    family = rng.choice(rng.choices(pools, [6, 2, 1][: len(pools)])[0])
    if family is half:
        return half, _halved(ground, rng)
    if not spots:
        return family, None
    spot = rng.choice(spots)
    if family.mark == "meaning" or rng.random() < 0.7:  # noqa: PLR2004
        return family, family.mutate(spot, rng)
    # Upstream seldom changes one thing alone: something harmless goes with it.
    other = rng.choice([f for f in GENERIC if f.mark == "harmless"])
    combined = Family(f"{family.name}", family.mark, family.mutate)
    return combined, follow(other.mutate, family.mutate)(spot, rng)


def _halved(ground: Ground, rng: Random) -> Mutant | None:
    """Some of the changes of the patch: of one file, or of some files."""
    changed = sorted(p for p in ground.changed if p in ground.pristine)
    if not changed:
        return None
    if len(changed) > 1 and rng.random() < 0.5:  # noqa: PLR2004
        some = rng.sample(changed, rng.randint(1, len(changed) - 1))
        return Mutant({path: ground.pristine[path] for path in some})
    path = rng.choice(changed)
    made = effects.parts(ground.pristine[path], ground.files[path], rng)
    return Mutant({path: made}) if made else None


def _fault(mutant: Mutant) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path, text in mutant.files.items():
            try:
                if path.endswith(".py"):
                    compile(text, path, "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                return "does not compile"
    return ""


def _answer(case: Case, ground: Ground, files: Files, mutant: Mutant) -> Answer | None:
    return judged(case.oracle, ground.scene(files, names=mutant.names, places=mutant.places))


def _as_marked(mark: Mark, before: Answer | None, answer: Answer, kind: Kind) -> bool:
    if mark == "harmless":
        return before == answer
    if mark == "curing":
        return answer == "cured" and (before == "defect" or kind == "adopted")
    if mark == "moving":
        return answer in ("defect", before)
    return answer == "defect" or before == "defect"


def _judge(
    grounds: Grounds, case: Case, ground: Ground, mutant: Mutant, answer: Answer, result: Result
) -> None:
    files = {**ground.files, **mutant.files}
    tree = MutantTree(ground.tree.pin, files, ground.tree.release, ground.tree.carried)
    begun = time.perf_counter()
    try:
        decision = decide(grounds.patch(case), tree)
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        result.verdict, result.detail = "crash", f"{type(error).__name__}: {error}"
        result.diff = _diff(ground.files, mutant.files)
        return
    result.seconds = time.perf_counter() - begun
    result.state, result.reason = str(decision.state), decision.reason
    result.new_shape = bool(getattr(decision, "new_shape", False))
    result.verdict, result.detail = _verdict(case, ground, mutant, answer, decision, result.mark)
    if result.verdict not in {"right", "needed conflict"}:
        result.diff = _diff(ground.files, mutant.files)


def _verdict(
    case: Case, ground: Ground, mutant: Mutant, answer: Answer, decision: Decision, mark: Mark
) -> tuple[Verdict, str]:
    if decision.state in SILENT:
        silent = answer == "defect"
        return ("silent", "the defect is there") if silent else ("right", "")
    if decision.state is not State.NEEDED:
        # In a tree that a lock names, somebody changed what the patch made: a person must look.
        needless = mark == "harmless" and ground.kind != "patched"
        return ("needless conflict" if needless else "needed conflict"), ""
    files = {**ground.files, **mutant.files}
    after = {**files, **{path: change.after for path, change in decision.changes.items()}}
    for path, change in decision.changes.items():
        if path.endswith(".py"):
            try:
                ast.parse(change.after)
            except SyntaxError as error:
                return "wrong edit", f"{path} does not compile: {error}"
            unknown = undefined(change.after) - undefined(files.get(path, b""))
            if unknown:
                return "wrong edit", f"{path}: undefined {', '.join(sorted(unknown))}"
    patched = _answer(case, ground, after, mutant)
    if patched != "cured":
        what = "the edited code does not run" if patched is None else f"still {patched}"
        return "wrong edit", what
    return ("twice", "the code was cured already") if answer == "cured" else ("right", "")


def _diff(before: Files, after: Files) -> str:
    lines: list[str] = []
    for path, text in after.items():
        old, new = before.get(path, b"").decode(), text.decode()
        lines += difflib.unified_diff(
            old.splitlines(), new.splitlines(), f"a/{path}", f"b/{path}", lineterm="", n=2
        )
    return "\n".join(lines[:80])
