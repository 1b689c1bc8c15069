"""Where a run executes: an engine with patched trees laid over it, or a patched image."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypedDict

from vpatch.engine import PAYLOAD
from vpatch.engine.overlay import on_top, touched_as_released
from vpatch.harness.container import ContainerSandbox
from vpatch.harness.sandbox import OverlaySandbox, lay_over, own_changes
from vpatch.harness.syntax import refuse_syntax_errors
from vpatch.planning.state import overall_changes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.docker.engine import Docker
    from vpatch.engine.environment import Engine
    from vpatch.harness.sandbox import Sandbox
    from vpatch.planning.state import Change, Plan


Phase = Literal["before", "after"]


class ImageFacts(TypedDict):
    """What records say of an image: its tag, its id, and its digests in registries."""

    name: str
    id: str
    digests: list[str]


@dataclass(frozen=True)
class TreeContent:
    """A tree as it is laid over an engine: what patches change, and its own files if it has any.

    `files` are all Python files of a tree that is not a release, and none of one that is.
    """

    changes: Mapping[str, Change]
    files: Mapping[str, bytes]
    is_release: bool


@dataclass(frozen=True)
class _OnEngine:
    engine: Engine
    image: None = field(default=None, init=False)

    @property
    def kind(self) -> str:
        return self.engine.kind

    @property
    def version(self) -> str:
        return self.engine.version


@dataclass(frozen=True)
class EngineTarget(_OnEngine):
    """An engine of this machine, over which trees are laid, vLLM's first."""

    trees: Sequence[TreeContent]

    @cached_property
    def _own(self) -> list[dict[str, Change]]:
        """What the trees' own files change; every file of a package is read for it."""
        packages = self.engine.package.parent
        changes = [own_changes(tree.files, packages) for tree in self.trees]
        if any(changes):
            refuse_syntax_errors(self.engine.python, changes)
        return [
            own or (touched_as_released(self.engine, tree.changes) if tree.is_release else {})
            for own, tree in zip(changes, self.trees, strict=True)
        ]

    def sandbox(self, phase: Phase, work: Path, name: str | None = None) -> Sandbox:
        changes = self._own
        if phase == "after":
            changes = [
                on_top(own, tree.changes) for own, tree in zip(changes, self.trees, strict=True)
            ]
        return lay_over(self.engine, changes, new_folder(work, name or phase))


def contents_of(plans: Sequence[Plan], files: Sequence[Mapping[str, bytes]]) -> list[TreeContent]:
    """Return the contents of plans; `files` are each tree's own, where it is not a release."""
    return [
        TreeContent(overall_changes(plan), own, plan.pin.kind == "pypi")
        for plan, own in zip(plans, files, strict=True)
    ]


@dataclass(frozen=True)
class InstalledTarget(_OnEngine):
    """An engine in which patched files are installed. `digests` are theirs; see `Sandbox`."""

    digests: Mapping[str, str]

    def sandbox(self, phase: Phase, work: Path, name: str | None = None) -> Sandbox:  # noqa: ARG002
        # There is one phase, and nothing is laid over it.
        return OverlaySandbox(self.engine.python, (), self.digests, self.engine.package.parent)


@dataclass(frozen=True)
class ImageTarget:
    """A patched image. `digests` are those of the files that were laid over it; see `Sandbox`.

    `folders` are further ones that its containers are to see, as checkpoints.
    """

    docker: Docker
    image: ImageFacts
    kind: str
    version: str
    digests: Mapping[str, str]
    folders: Sequence[Path]
    gpus: bool

    def sandbox(self, phase: Phase, work: Path, name: str | None = None) -> Sandbox:  # noqa: ARG002
        # There is one phase, and nothing is laid over it.
        seen = {str(folder): "ro" for folder in [*self.folders, PAYLOAD]}
        return ContainerSandbox(
            self.docker, self.image["id"], self.digests, {**seen, str(work): "rw"}, self.gpus
        )


ExecutionTarget = EngineTarget | InstalledTarget | ImageTarget
"""What an order is run on: `kind` is cpu, cuda, or what a plugin calls its device.

`version` is vLLM's; `image` says which one it is where it is one. `sandbox` makes the sandbox of a
phase, in a folder `name` below `work`.
"""


def new_folder(work: Path, name: str) -> Path:
    folder = work / name
    folder.mkdir()
    return folder
