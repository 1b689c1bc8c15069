"""Compare `vpatch compat` with Python itself: import what targets import, in CPU builds of vLLM.

    python benchmarks/compat_reality.py RELEASE TARGET...

It takes the build of the release that `vpatch engine` put into the cache. There, each name that a
target imports or reaches through a module is asked for, and each call of a name is bound to the
real signature. Nothing of the target runs. It prints where the two differ.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

ASK = "--ask"
# What a patch replaces is compared with the target's own function, which Python does not do.
_PATH_KINDS = ("import", "attribute", "subclass", "string", "environment")


def ask(row: dict[str, Any]) -> str:  # noqa: C901, PLR0911 - one for each answer
    """Say in a vLLM's own Python whether a name is there, and whether a call fits it."""
    import importlib  # noqa: PLC0415 - only here
    import inspect  # noqa: PLC0415

    parts = row["root"].split(".")
    # As an import does: a module counts before a name in its package, but for the last one.
    start = 1
    while start < len(parts) - 1:
        try:
            importlib.import_module(".".join(parts[: start + 1]))
        except ModuleNotFoundError as error:
            if not ".".join(parts[: start + 1]).startswith(str(error.name)):
                return f"error: {error}"
            break
        start += 1
    value: Any = importlib.import_module(".".join(parts[:start]))
    for number, part in enumerate(parts[start:], start + 1):
        try:
            value = getattr(value, part)
        except AttributeError:
            if not inspect.ismodule(value):
                return "gone"
            name = ".".join(parts[:number])
            try:
                value = importlib.import_module(name)
            except ModuleNotFoundError as error:
                return "gone" if name.startswith(str(error.name)) else f"error: {error}"
    if row["call"] is None:
        return "here"
    positions, keywords, has_star, has_double_star = row["call"]
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "no signature"
    try:
        # A call with stars gives the rest by them.
        bind = signature.bind_partial if has_star or has_double_star else signature.bind
        bind(*[None] * positions, **dict.fromkeys(keywords))
    except TypeError as error:
        return f"misfit: {error}"
    return "here"


def answers() -> None:
    rows = json.load(sys.stdin)
    results = []
    for row in rows:
        try:
            results.append(ask(row))
        except Exception as error:  # noqa: BLE001 - whatever an import raises is an answer
            results.append(f"error: {type(error).__name__}: {error}"[:200])
    sys.stdout.write("\nANSWERS" + json.dumps(results))


def predicted(release: str, targets: list[str]) -> list[dict[str, Any]]:
    from vpatch.commands.compat.judgement.facts import fact_of  # noqa: PLC0415 - not in the engine
    from vpatch.commands.compat.judgement.release import JudgedRelease, own_part  # noqa: PLC0415
    from vpatch.commands.compat.surface.collect import surface_of  # noqa: PLC0415
    from vpatch.commands.compat.target import read_target  # noqa: PLC0415
    from vpatch.source.spec import parse_vllm  # noqa: PLC0415
    from vpatch.util.recursion import allow_deep_syntax  # noqa: PLC0415
    from vpatch.workspace.context import Context  # noqa: PLC0415

    allow_deep_syntax()
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    context = Context()
    for name in targets:
        target = read_target(context, name)
        surface = surface_of(target, context.progress)
        with context.tree(parse_vllm(release)) as tree:
            own = own_part(target, surface)
            judged = JudgedRelease(tree, own, surface, context.answers)
            for item in surface.items.values():
                root = item.ref.roots[0]
                if item.ref.steps or not root.startswith("vllm") or "." not in root:
                    continue
                if root.partition(".")[0] != "vllm" or len(item.ref.roots) > 1:
                    continue
                if item.kind not in {*_PATH_KINDS, "call"}:
                    continue
                fact = fact_of(judged, item)
                call = None
                if item.call is not None:
                    one = item.call
                    call = [one.positions, one.keywords, one.has_star, one.has_double_star]
                row = {
                    "kind": item.kind,
                    "root": root,
                    "call": call,
                    "presence": fact.presence,
                    "problems": fact.problems,
                    "spot": str(item.spot),
                    "why": fact.why,
                }
                rows[root, json.dumps(call)] = row
    return list(rows.values())


def main(release: str, targets: list[str]) -> int:
    from compat_imports import ask_engine  # noqa: PLC0415 - not in the engine

    rows = predicted(release, targets)
    real = ask_engine(__file__, release, rows)
    pairs: Counter[tuple[str, str]] = Counter()
    for row, answer in zip(rows, real, strict=True):
        says = "misfit" if row["problems"] else row["presence"]
        is_ = answer.partition(":")[0]
        pairs[says, is_] += 1
        agrees = (
            says == is_ or says in {"unknown", "lost", "own"} or is_ in {"error", "no signature"}
        )
        if not agrees:
            print(f"{row['kind']} {row['root']} at {row['spot']}: {says}, and Python says {answer}")
            print(f"    {row['why']} {row['problems']} {row['call']}")
    print(f"{release}: {len(rows)} names and calls")
    for (says, is_), count in sorted(pairs.items()):
        print(f"  vpatch says {says}, Python says {is_}: {count}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == [ASK]:
        answers()
    elif len(sys.argv) > 2:  # noqa: PLR2004
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    else:
        sys.exit(__doc__)
