"""The page of all patches of the library, with their states by release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.library.catalog import find_library
from vpatch.util.markdown import escape
from vpatch.util.versions import describe_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.library.patch import Patch
    from vpatch.library.shapes import Shapes

HEAD = """---
search:
  boost: 0.7
---

# Patches of the library

vpatch comes with these patches. Each state was read from the code of the release. "By behaviour"
means that a test ran inside this vLLM: see [known shapes](shapes.md). `vpatch show PATCH` prints
what a patch is for, and `vpatch show PATCH --format markdown` where it comes from.
`vpatch list --search WORDS` finds a patch by a symptom, a thread or a file.
"""
_STATES = {
    "needed": "Needed",
    "upstreamed": "Upstream has it",
    "absent": "The code is not there",
}
_TREE = "vllm"


def patches_page(mark: str) -> str:
    """Return the page. `mark` is the line above what is generated."""
    library = find_library(Path(__file__).parents[1])
    patches = sorted(library.load_all(), key=lambda one: (one.id in library.security, one.id))
    recorded = [(patch, patch.shapes) for patch in patches if patch.shapes is not None]
    lines = [HEAD, mark, "", "| patch | needed | upstream has it |", "|---|---|---|"]
    for patch, shapes in recorded:
        states = _states(shapes, _TREE)
        needed, upstreamed = (states[state] or "none" for state in ("needed", "upstreamed"))
        lines.append(f"| [`{patch.id}`](#{patch.id}) | {needed} | {upstreamed} |")
    for patch, shapes in recorded:
        lines += ["", f"## {patch.id}", "", escape(patch.title), "", *_facts(patch, shapes)]
    return "\n".join(lines) + "\n"


def thread_link(name: str) -> str:
    """Return a link to a thread on GitHub, which leads an issue's address to its pull request."""
    repository, _, number = name.partition("#")
    return f"[{name}](https://github.com/{repository}/issues/{number})"


def _facts(patch: Patch, shapes: Shapes) -> Iterator[str]:
    for symptom in patch.declaration.symptoms:
        # As a log or a person has it, so in code.
        yield "- Symptom: `" + symptom.replace("`", "'") + "`"
    for tree in shapes.shapes:
        states = _states(shapes, tree)
        for state, name in _STATES.items():
            if states[state]:
                yield f"- {name}: {states[state]}{'' if tree == _TREE else f' of {tree}'}"
    yield f"- By behaviour: {_behaviour(shapes) or 'no run is recorded'}"
    threads = [thread_link(one.ref) for one in patch.declaration.upstream]
    if threads:
        yield f"- Threads: {', '.join(threads)}"


def _states(shapes: Shapes, tree: str) -> dict[str, str]:
    every = shapes.releases(tree)
    states: dict[str, set[str]] = {state: set() for state in _STATES}
    for known in shapes.shapes[tree]:
        states[known.state].update(known.releases)
    return {state: describe_ranges(releases, every) for state, releases in states.items()}


def _behaviour(shapes: Shapes) -> str:
    engines: dict[str, set[str]] = {}
    for release, results in shapes.behaviour.get(_TREE, {}).items():
        for one in results:
            if (one.outcome, one.patch_digest) == ("holds", shapes.patch_digest):
                engines.setdefault(one.engine, set()).add(release)
    every = shapes.releases(_TREE)
    return "; ".join(
        f"on {engine} in {describe_ranges(releases, every)}" for engine, releases in engines.items()
    )
