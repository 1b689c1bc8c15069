"""Compare what `vpatch compat` reads of operators with what a CPU build of vLLM has.

    python benchmarks/compat_operators.py RELEASE...

The CPU build is as a plugin's: it has its own C++ sources, and fewer operators than vLLM's modules
name. vpatch reads those sources and the modules. The build of the release that `vpatch engine` put
into the cache says which operators there are. Ends with 1 if the two contradict each other.
"""

from __future__ import annotations

import ast
import importlib
import json
import sys
from collections import Counter

ASK = "--ask"


def answers() -> None:
    """Say of each operator in a vLLM's own Python whether it is there."""
    import torch  # noqa: PLC0415 - only in the engine

    rows = json.load(sys.stdin)
    importlib.import_module("vllm.platforms").current_platform.import_kernels()
    results = []
    for row in rows:
        namespace, name, *overload = row["name"].split(".")
        packet = getattr(getattr(torch.ops, namespace), name, None)
        wanted = overload[0] if overload else "default"
        is_there = packet is not None and (row["any_overload"] or hasattr(packet, wanted))
        results.append("here" if is_there else "gone")
    sys.stdout.write("\nANSWERS" + json.dumps(results))


def main(releases: list[str]) -> int:
    from compat_imports import ask_engine  # noqa: PLC0415 - not in the engine

    from vpatch.operators.import_time import operators_named  # noqa: PLC0415
    from vpatch.operators.lack import lack_of  # noqa: PLC0415
    from vpatch.operators.registrations import SOURCES, read_registrations  # noqa: PLC0415
    from vpatch.source.spec import parse_vllm  # noqa: PLC0415
    from vpatch.workspace.context import Context  # noqa: PLC0415

    is_wrong = False
    for release in releases:
        named = {}
        with Context().tree(parse_vllm(release)) as tree:
            paths = [path for path in tree.paths() if path.startswith("csrc/cpu/")]
            sources = {path: tree.read(path) for path in paths if path.endswith(SOURCES)}
            cmake = {path: tree.read(path) for path in ("cmake/cpu_extension.cmake",)}
            built = read_registrations(sources, cmake)
            for path in sorted(tree.holding(b"torch")):
                for one in operators_named(ast.parse(tree.package_files[path])):
                    if one.name.partition(".")[0] in built.places:
                        named[one.name, one.any_overload] = one
        plain = [one._replace(asked=(), not_asked=(), condition="") for one in named.values()]
        real = ask_engine(__file__, release, [one._asdict() for one in plain])
        pairs: Counter[tuple[str, str]] = Counter()
        for one, answer in zip(plain, real, strict=True):
            lack = lack_of(built, one).lack
            pairs[lack, answer] += 1
            if lack not in {answer, "unknown"}:
                is_wrong = True
                print(f"{release}: {one.name} is {lack}, and Python says {answer}")
        print(f"{release}: {', '.join(sorted(built.places))}, {len(plain)} operators")
        for (lack, answer), count in sorted(pairs.items()):
            print(f"  vpatch says {lack}, Python says {answer}: {count}")
    return int(is_wrong)


if __name__ == "__main__":
    if sys.argv[1:] == [ASK]:
        answers()
    elif len(sys.argv) > 1:
        sys.exit(main(sys.argv[1:]))
    else:
        sys.exit(__doc__)
