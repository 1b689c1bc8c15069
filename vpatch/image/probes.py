"""What an image's Python is asked of each patch: whether what it imports is the patched code.

The names of the functions, constants and imports that a patch changed are read from its files
before and after. In the image, each is looked up in the imported module and compared with the
module's own source: what another package wraps or replaces while it is imported is found so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.planning.definitions import changed_names, module_of, names_of
from vpatch.planning.state import overall_changes

if TYPE_CHECKING:
    from vpatch.planning.definitions import Kind
    from vpatch.planning.state import Plan


@dataclass(frozen=True)
class Probe:
    """A name of a module, as `Class.method`, and how to compare its value.

    A `function` by its code, a `constant` by its value, an `import` by being there.
    """

    module: str
    name: str
    kind: Kind


def probes_of(plan: Plan) -> dict[str, list[Probe]]:
    """Return the probes of each patch that a plan takes, by its id; none where it has no names."""
    last = overall_changes(plan)
    by_patch = {}
    for decision in plan.taken:
        probes: list[Probe] = []
        for path, change in sorted(decision.changes.items()):
            module = module_of(path)
            if module is not None:
                there = names_of(last[path].after)
                probes += [Probe(module, *key) for key in changed_names(change) if key in there]
        by_patch[decision.patch.id] = probes
    return by_patch
