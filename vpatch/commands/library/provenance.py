"""The provenance of patches in Markdown, for a pull request or for whoever asks where code is from.

A table for each patch: what it changes and why, threads, origin, licence, files, digest and proof.
What patch.yaml and the record beside it do not have is named as not declared or not recorded.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.declare.patch import upstream_facts
from vpatch.library.catalog import came_along
from vpatch.util.markdown import escape
from vpatch.util.plural import counted
from vpatch.util.versions import describe_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.commands.library.effect import PatchEffect
    from vpatch.declare.patch import Proof, Upstream
    from vpatch.library.patch import Patch
    from vpatch.library.shapes import Shapes

# As in pyproject.toml: a patch of the library that names no other has vpatch's own licence.
_OF_THE_LIBRARY = "Apache-2.0"
_ORIGINS = {
    "same change": "the same change as",
    "backport": "a backport of",
    "different approach": "a different approach than",
}


def provenance(patches: Sequence[Patch], effects: Sequence[PatchEffect]) -> str:
    """Return a table for each patch, in the order given.

    Args:
        patches: the patches.
        effects: what they change in the trees that were asked for; a patch without any has the
            files of the record beside it.
    """
    lines = [f"{counted(len(patches), 'patch')}, declared for vpatch.", ""]
    for patch in patches:
        declaration = patch.declaration
        lines += [f"### {escape(patch.id)}", "", escape(declaration.title), ""]
        rows = {
            "Reason": [_paragraph(declaration.why)],
            "Risks": [_paragraph(declaration.risks or "none declared")],
            "Threads": [_thread(one) for one in declaration.upstream] or ["none declared"],
            "Origin": list(_origin(patch)),
            "Licence": [_licence(patch)],
            "Resolves": [escape(one.id) for one in declaration.resolves],
            "Files": list(_files(patch, effects)),
            "Digest": [f"`{patch.digest}`"],
            "Proof": list(_proofs(patch)),
            "Remove when": [_paragraph(declaration.remove_when)],
        }
        lines += ["| | |", "|---|---|"]
        lines += [f"| {name} | {'<br>'.join(texts)} |" for name, texts in rows.items() if texts]
        lines.append("")
    return "\n".join(lines)


def _paragraph(text: str) -> str:
    """The first paragraph: the whole text is on the patch's page."""
    return escape(" ".join(text.strip().partition("\n\n")[0].split()))


def _thread(thread: Upstream) -> str:
    repository, _, number = thread.ref.partition("#")
    kind = "issues" if thread.is_ == "issue" else "pull"
    link = f"[{thread.ref}](https://github.com/{repository}/{kind}/{number})"
    return f"{link}: {', '.join(map(escape, upstream_facts(thread)))}"


def _origin(patch: Patch) -> Iterator[str]:
    """Where the change comes from, and which tools helped to write it, as far as it is declared."""
    relations = [
        f"{_ORIGINS[one.relation]} {one.ref}"
        for one in patch.declaration.upstream
        if one.relation in _ORIGINS
    ]
    yield escape("; ".join(relations)) or "no pull request of upstream is declared"
    proposal = patch.declaration.proposal
    if proposal is None:
        yield "tools (AI) that helped to write it: not declared"
    else:
        tools = escape(", ".join(proposal.assisted_by))
        yield f"tools (AI) that helped to write it: {tools or 'none'}"


def _licence(patch: Patch) -> str:
    if patch.declaration.license is not None:
        return escape(patch.declaration.license)
    if came_along("patches", patch.folder):
        return f"{_OF_THE_LIBRARY}, as vpatch"
    return "not declared (`license` in patch.yaml)"


def _files(patch: Patch, effects: Sequence[PatchEffect]) -> Iterator[str]:
    here = [one for one in effects if one.decision.patch.id == patch.id]
    if here:
        for effect in here:
            where = escape(effect.pin.label)
            files = ", ".join(f"`{path}`" for path in effect.decision.files)
            state = escape(f"{effect.decision.state}")
            yield f"{where}: {files}" if effect.diff else f"{where}: none, the patch is {state}"
        return
    shapes = patch.shapes
    is_current = shapes is not None and shapes.patch_digest == patch.digest
    recorded = list(_recorded_files(shapes)) if shapes is not None and is_current else []
    yield from recorded or ["not recorded: name a release with `--vllm`"]


def _recorded_files(shapes: Shapes) -> Iterator[str]:
    """A line for each file, with the releases in which it changes."""
    for tree, known_shapes in shapes.shapes.items():
        releases_of: dict[str, set[str]] = defaultdict(set)
        for known in known_shapes:
            for key, digest in known.patched.items():
                if known.definitions.get(key) != digest:
                    releases_of[key.partition("::")[0]].update(known.releases)
        for path, releases in sorted(releases_of.items()):
            where = describe_ranges(releases, shapes.releases(tree))
            yield f"`{path}` in {escape(tree)} {where}"


def _proofs(patch: Patch) -> Iterator[str]:
    """What each behaviour test showed, as recorded for exactly this edition of the patch."""
    if not patch.declaration.proof:
        yield "no behaviour test is declared"
    for proof in patch.declaration.proof:
        lines = _outcomes(patch.shapes, proof, patch.digest) if patch.shapes else ()
        recorded = "; ".join(lines) or f"no run on {proof.engine} is recorded"
        yield f"`{proof.test}`: {escape(recorded)}"


def _outcomes(shapes: Shapes, proof: Proof, patch_digest: str) -> Iterator[str]:
    for tree, results_of in shapes.behaviour.items():
        for outcome in ("holds", "contradicts"):
            releases = [
                release
                for release, results in results_of.items()
                for one in results
                if (one.test, one.engine, one.outcome, one.patch_digest)
                == (proof.test, proof.engine, outcome, patch_digest)
            ]
            if releases:
                known = sorted({*shapes.releases(tree), *releases}, key=Version)
                yield f"{outcome} on {proof.engine} in {tree} {describe_ranges(releases, known)}"
