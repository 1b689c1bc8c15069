"""Conflicts of the library at real release steps, each without the variants that settle it."""

from __future__ import annotations

import json
import shutil
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from packaging.version import Version
from ruamel.yaml import YAML

from carrying.case import LIBRARY, Case, decision_on, made_by
from vpatch.library.loading import load_patch
from vpatch.planning.state import State
from vpatch.trust.decision import EVERYTHING
from vpatch.workspace.examples import run_examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vpatch.workspace.context import Context


def library_cases(context: Context, asked: Sequence[str]) -> Iterator[Case]:
    """Each step at which a patch takes another variant, and has no other one that fits."""
    known = json.loads((LIBRARY / "decisions.json").read_text())["trees"]["vllm"]["patches"]
    for place in sorted(LIBRARY.rglob("patch.yaml")):
        patch = place.parent.name
        if (asked and patch not in asked) or not _names(place)[1:]:
            continue
        taken = {
            release: str(one.get("variant"))
            for one in known[patch]["decisions"]
            if one["state"] == State.NEEDED
            for release in one["releases"]
        }
        for old, new in pairwise(sorted(taken, key=Version)):
            if taken[old] == taken[new]:
                continue
            earlier = {taken[one] for one in taken if Version(one) < Version(new)}
            later = {taken[one] for one in taken if Version(one) >= Version(new)}
            wanted, kept = (made_by(decision_on(context, patch, one)) for one in (new, old))
            if wanted is not None and kept is not None:
                prepare = partial(take_away, names=later - earlier, new=new)
                yield Case("library", patch, old, new, prepare, wanted, kept)


def _names(place: Path) -> list[str]:
    document = YAML(typ="safe").load(place.read_text())
    return [one["name"] for one in document.get("variants", ())]


def take_away(folder: Path, names: set[str], new: str) -> None:
    """Take variants out of the patch in a folder, and the examples that came with them.

    Those are of `new` and of later releases by their names. Others fail without the variants.
    """
    yaml = YAML()
    yaml.width = 4096
    path = folder / "patch.yaml"
    document = yaml.load(path.read_text())
    document["variants"] = [one for one in document["variants"] if one["name"] not in names]
    yaml.dump(document, path)
    (folder / "shapes.json").unlink(missing_ok=True)
    for example in (folder / "examples").iterdir():
        release = example.name.rpartition("-")[2]
        if release[:1].isdigit() and Version(release).release[:2] >= Version(new).release[:2]:
            shutil.rmtree(example)
    patch = load_patch(folder, EVERYTHING)
    for one in run_examples(patch):
        if one.failures:
            shutil.rmtree(folder / "examples" / one.name)
