"""What patches mean for trees, as several results have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BeforeValidator

from vpatch.console.document import OutputModel, read_from
from vpatch.planning.code_shape import Sureness
from vpatch.planning.proven import proof_of
from vpatch.planning.state import State
from vpatch.source.tree import SourceKind

if TYPE_CHECKING:
    from vpatch.planning.state import Decision, Plan


class FindingOutput(OutputModel):
    """Something that was looked for in a tree."""

    what: str
    """A sentence for people."""
    path: str | None
    """The file, relative to the root of the tree."""
    line: int | None
    """The line in the pristine file, from 1."""


class ChangedDefinitionOutput(OutputModel):
    """A definition that is not as in the nearest known release."""

    name: str
    """`PATH::QUALIFIED.NAME`."""
    kind: Literal["changed", "added", "removed"]


class ShapeOutput(OutputModel):
    """The code that a decision was read from, compared with the releases on record."""

    definitions: dict[str, str]
    """`PATH::QUALIFIED.NAME` of each definition, and the digest of its syntax."""
    known: list[str]
    """The releases on record with exactly these definitions; empty for a new shape."""
    patched: list[str]
    """Those of them that have the definitions once the patch is applied."""
    proof: str | None
    """How a known shape was proven: `behaviour`, `example`, `not asked`, or `contradicted`."""
    nearest: str | None
    """For a new shape, the release on record that differs least."""
    differing: list[ChangedDefinitionOutput]
    stale: bool
    """Whether the record was made with another edition of the patch."""
    release: str | None
    """The release on record that the tree is, by the digest of its archive."""
    compared_with: str | None
    """The release on record whose code around this one differs least."""
    around: list[ChangedDefinitionOutput]
    """How the code around it differs from that of `compared_with`."""


class DecisionOutput(OutputModel):
    """What a patch means for a tree."""

    patch: str
    """The id of the patch."""
    digest: str
    """The digest of the patch, `sha256:HEX`."""
    state: State
    reason: str
    """A sentence for people."""
    variant: str | None
    """The variant of the patch that was used."""
    disagreement: str | None
    """A sentence if the code disagrees with what the patch declares in `needed-in`."""
    places: int
    """How many places its edits change; 0 unless it is needed."""
    files: list[str]
    """The files that the patch changes, sorted."""
    findings: list[FindingOutput]
    sureness: Sureness | None
    """How sure the state is; null if it stops an apply."""
    new_shape: bool
    """Whether the patch is not recorded for exactly this code."""
    shape: ShapeOutput | None
    """Null if the state stops an apply."""

    @classmethod
    def of(cls, decision: Decision, tree: str) -> Self:
        return cls(
            patch=decision.patch.id,
            digest=decision.patch.digest,
            state=decision.state,
            reason=decision.reason,
            variant=decision.variant,
            disagreement=decision.disagreement,
            places=decision.places,
            files=list(decision.files),
            findings=decision.findings,
            sureness=decision.sureness,
            new_shape=decision.new_shape,
            shape=_shape_of(decision, tree),
        )


def _shape_of(decision: Decision, tree: str) -> ShapeOutput | None:
    shape, shapes = decision.shape, decision.patch.shapes
    if shape is None:
        return None
    proof = proof_of(shapes, tree, shape.known[-1]).by if shape.known and shapes else None
    fields = {name: value for name, value in vars(shape).items() if name != "surroundings"}
    return ShapeOutput(**fields, proof=proof)


def _decisions_of(plan: Plan) -> list[DecisionOutput]:
    return [DecisionOutput.of(decision, plan.pin.tree) for decision in plan.decisions]


class TreeOutput(OutputModel):
    """A pinned tree, and what each patch means for it."""

    tree: str = read_from("plan.pin.tree")
    """The name of the distribution, such as `vllm`."""
    kind: SourceKind = read_from("plan.pin.kind")
    """A release's archive (`pypi`), a commit (`git`), a folder, a wheel, an environment,
    or an image."""
    version: str | None = read_from("plan.pin.version")
    ref: str | None = read_from("plan.pin.ref")
    """The git commit or tag; null for a release."""
    origin: str = read_from("plan.pin.origin")
    """Where the tree was found."""
    digest: str = read_from("plan.pin.digest")
    """`sha256:HEX` of the archive, the wheel or the content; `sha1:HEX` of the commit."""
    recipe: str | None
    """The recipe that chose the patches."""
    decisions: Annotated[list[DecisionOutput], BeforeValidator(_decisions_of)] = read_from("plan")
