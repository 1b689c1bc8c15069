"""The context of a use case: the project, the library, the cache and the trees."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from packaging.version import Version

from vpatch.errors import BadValueError, UsageError, VpatchError, combine
from vpatch.library.catalog import SECURITY, Library, find_library, installed, root_of
from vpatch.library.project import Project, find_project
from vpatch.progress import Progress, Silent
from vpatch.source import index
from vpatch.source.cache import Cache, default_cache_folder
from vpatch.source.pip_settings import PipSettings, read_pip_settings
from vpatch.source.resolve import cached_pin, listed_pin, open_tree
from vpatch.source.spec import ImageSpec, PypiSpec, parse_vllm
from vpatch.trust.decision import Trust, UntrustedError, changed_while_read
from vpatch.trust.store import Store, content_of, default_folder
from vpatch.util.extras import require
from vpatch.util.own_code import content_digest, decider_digest
from vpatch.workspace.site import site_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager

    from vpatch.declare.target import Target
    from vpatch.engine.environment import Engine
    from vpatch.github.client import GitHub
    from vpatch.github.threads import Threads
    from vpatch.library.decisions import RecordedDecisions
    from vpatch.library.patch import Patch
    from vpatch.planning.answers import Answers
    from vpatch.source.entry import CachedTree
    from vpatch.source.spec import TreeSpec
    from vpatch.source.tree import Pin

# The library's patches know the code from here on.
_FIRST = Version("0.20")


@dataclass(frozen=True)
class Context:
    """What every use case shares: the project, the library, the cache and the sources.

    `patches_dirs` and `recipes_dirs` are further folders with patches and with recipes. `offline`
    forbids the network. `trust_everything` runs a project's code without asking whether the user
    trusts it. vpatch looks for the project in `folder` and upwards; None is the current folder.
    Without `uses_records`, nothing is taken from decisions.json.
    """

    patches_dirs: tuple[Path, ...] = ()
    recipes_dirs: tuple[Path, ...] = ()
    offline: bool = False
    trust_everything: bool = False
    progress: Progress = field(default_factory=Silent)
    folder: Path | None = None
    uses_records: bool = True

    @cached_property
    def project(self) -> Project:
        project = find_project(Path.cwd() if self.folder is None else self.folder.absolute())
        for marker in project.passed:
            self.progress.note(f"{marker} belongs to another user and is not used")
        return project

    @property
    def checkouts(self) -> Path:
        """The folder of the project's checkouts, as seen from the current folder."""
        return refuse_link(below_project(self.project, ".vpatch"))

    @cached_property
    def library(self) -> Library:
        library = find_library(
            self.project.folder, self.patches_dirs, self.recipes_dirs, self.trust, self._records
        )
        for note in library.notes:
            self.progress.note(note)
        return library

    def note_once(self, text: str) -> None:
        """Say something once, however often it is met."""
        if text not in self._notes:
            self._notes.add(text)
            self.progress.note(text)

    @cached_property
    def _notes(self) -> set[str]:
        return set()

    def with_library(self, library: Library, *, uses_records: bool = True) -> Context:
        """Return a context with another library. What it shares, this one closes."""
        context = replace(self, uses_records=uses_records)
        shared = {"trust": self.trust, "answers": self.answers, "_own_engines": self._own_engines}
        context.__dict__.update(library=library, project=self.project, **shared)
        return context

    @property
    def _records(self) -> Path | None:
        """Where it is kept what was read of patches; None if no cache can be there."""
        try:
            return self.cache.answers("patches")
        except UsageError:
            return None  # a command that needs the cache says so

    @cached_property
    def trust(self) -> Trust:
        """What of a project may run: what the user recorded, or all of it."""
        shipped = tuple(installed(kind) for kind in ("patches", "recipes", "targets"))
        shipped += (installed("patches") / SECURITY,)
        return Trust(Store(default_folder()), shipped=shipped, everything=self.trust_everything)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove temporary copies of patches. The end of a `with` block does so, too."""
        if "trust" in self.__dict__:
            self.trust.close()
        if "answers" in self.__dict__:
            self.answers.close()

    def become_another_process(self) -> None:
        """Give up what belongs to the process that this one was forked from."""
        if "trust" in self.__dict__:
            self.trust.disown()
        self.__dict__.pop("answers", None)
        # Nobody would see two processes draw on one terminal.
        object.__setattr__(self, "progress", Silent())

    def require_trust(self, patches: Iterable[Patch], recipe: str | None = None) -> None:
        """Refuse to run what patches and a recipe say, unless the user trusts all of it.

        Raises:
            UntrustedError: some of it is not trusted; the error lists all of that.
        """
        # To show what is remembered needs no declaration.
        from vpatch.library.loading import load_patch  # noqa: PLC0415

        errors: list[VpatchError] = []
        for patch in {patch.folder: patch for patch in patches}.values():
            try:
                # What runs was read before, and somebody may have put other bytes there since.
                trusted = load_patch(self.trust.copy_of(patch.folder), self.trust)
                if trusted.digest != patch.digest:
                    raise changed_while_read(patch.folder)
            except UntrustedError as error:
                errors.append(error)
        try:
            if recipe:
                path = self.library.recipe(recipe)
                content = content_of(path)
                self.trust.require(path, content)
                if content.files[path.name] != self.library.read_recipe(path)[1].content:
                    raise changed_while_read(path)
        except UntrustedError as error:
            errors.append(error)
        if errors:
            raise combine(errors)

    def trust_own(self, folder: Path) -> None:
        """Trust a patch that a command of the user just wrote; a note says where that fails."""
        try:
            self.trust.adopt(folder)
        except VpatchError as error:
            self.progress.note(f"{folder} is not trusted yet: {error.what}")

    @cached_property
    def cache(self) -> Cache:
        return Cache(default_cache_folder())

    @property
    def plans(self) -> Path:
        """Where plans that were made are remembered."""
        return self.cache.answers("plans")

    @cached_property
    def answers(self) -> Answers:
        """What is known of the contents of files, by this run and by earlier ones."""
        # What is in the cache needs no SQLite.
        from vpatch.planning.answers import Answers, answers_file  # noqa: PLC0415

        return Answers(answers_file(self.cache.answers("contents")), content_digest())

    @cached_property
    def pip_settings(self) -> PipSettings:
        return read_pip_settings(os.environ)

    def own_engine(self, typed: str) -> Engine:
        """Look at somebody's own environment, once: a vLLM takes seconds to say what it runs on."""
        # Only few commands need one.
        from vpatch.engine import environment  # noqa: PLC0415

        if typed not in self._own_engines:
            self._own_engines[typed] = environment.existing_engine(typed)
        return self._own_engines[typed]

    @cached_property
    def _own_engines(self) -> dict[str, Engine]:
        return {}

    def releases(self) -> list[str]:
        """Return the final releases of vLLM that the index has, from the first that counts on."""
        versions = map(Version, self.releases_of("vllm"))
        return [str(v) for v in versions if v >= _FIRST and not v.is_prerelease]

    def releases_of(self, tree: str) -> list[str]:
        """Return all releases that the index has a source archive of, candidates too, in order."""
        releases = index.releases(
            tree,
            settings=self.pip_settings,
            folder=self.cache.answers("index"),
            offline=self.offline,
            progress=self.progress,
        )
        return [release.version for release in releases if not release.yanked]

    def target(self, name: str) -> Target:
        """Read a target's declaration."""
        # Few commands need one.
        from vpatch.declare.target import Target  # noqa: PLC0415
        from vpatch.declare.yamlfile import read_yaml  # noqa: PLC0415

        return read_yaml(self.library.target(name), Target)[0]

    @cached_property
    def _targets(self) -> dict[str, Target]:
        """All targets, by their repositories."""
        targets = map(self.target, self.library.targets)
        return {target.repository: target for target in targets}

    def github(self, stack: ExitStack, target: Target | None = None) -> GitHub:
        """Open the API that a target names, once a run."""
        # Only few commands need it, and PyGithub takes its time.
        from vpatch.github.client import GitHub, default_api  # noqa: PLC0415
        from vpatch.github.tokens import is_named  # noqa: PLC0415

        api = (target and target.api) or default_api()
        if api not in self._github:
            named = [record.name for record in self.trust.records() if record.kind == "host"]
            client = stack.enter_context(closing(GitHub(api, named)))
            if client.token is None and not is_named(api, hosts=named):
                self.progress.note(
                    f"a target names {client.host}, and you did not: no token goes there "
                    f"(vpatch trust --host {client.host})"
                )
            self._github[api] = client
            stack.callback(self._github.pop, api)
        return self._github[api]

    def github_of(self, repository: str, stack: ExitStack) -> GitHub:
        """Open the API that knows a repository: that of its target, if it has one."""
        return self.github(stack, self._targets.get(repository))

    @cached_property
    def _github(self) -> dict[str, GitHub]:
        return {}

    def threads(self, stack: ExitStack) -> Threads:
        """What is known of threads upstream, or can be asked for."""
        from vpatch.github.threads import Threads  # noqa: PLC0415

        def tag_of(repository: str) -> str:
            target = self._targets.get(repository)
            return target.tag if target else "v{version}"

        return Threads(
            self.cache.answers("github"),
            None if self.offline else lambda name: self.github_of(name, stack),
            tag_of,
        )

    def tree(
        self, spec: TreeSpec, expected_digest: str | None = None
    ) -> AbstractContextManager[CachedTree]:
        if isinstance(spec, ImageSpec):
            require("image", "an image as a source")
            # Only this needs Docker.
            from vpatch.workspace.image_tree import open_image_tree  # noqa: PLC0415

            return open_image_tree(spec, self.cache, self.progress, expected_digest)
        return open_tree(
            spec,
            cache=self.cache,
            settings=self.pip_settings,
            offline=self.offline,
            progress=self.progress,
            expected_digest=expected_digest,
            site_of=site_of,
        )

    def cached_pin(self, spec: TreeSpec, expected_digest: str | None = None) -> Pin | None:
        """Return the pin of a release that is in the cache; None where only its tree can tell."""
        if not isinstance(spec, PypiSpec):
            return None
        return cached_pin(spec, self.cache, expected_digest)

    def listed_pin(self, spec: TreeSpec, expected_digest: str | None = None) -> Pin | None:
        """Return the pin of a release that is in the cache, or that the index lists."""
        pin = self.cached_pin(spec, expected_digest)
        if pin is not None or self.offline or not isinstance(spec, PypiSpec):
            return pin
        return listed_pin(
            spec,
            cache=self.cache,
            settings=self.pip_settings,
            progress=self.progress,
            expected_digest=expected_digest,
        )

    @cached_property
    def recorded_decisions(self) -> list[tuple[Path, Mapping[str, RecordedDecisions]]]:
        """What is recorded of patches: each folder of patches, and what lies in it by tree."""
        from vpatch.library.decisions import read_decisions  # noqa: PLC0415 - needs pydantic

        roots = dict.fromkeys(root_of(folder) for folder in self.library.patches.values())
        return [(root, read_decisions(root, decider_digest())) for root in roots]


def below_project(project: Project, name: str) -> Path:
    """A path in the project's folder, as seen from the current folder."""
    return Path(os.path.relpath(project.folder)) / name


def refuse_link(place: Path, option: str = "--checkout") -> Path:
    """Return a place in a project that is written to, unless it is a symbolic link.

    Whoever wrote the project may have put it there, to have any folder of the user's written.
    `option` is the one that names another folder.

    Raises:
        UsageError: it is a link.
    """
    if place.is_symlink():
        raise UsageError(
            f"this is a symbolic link to {place.readlink()}; vpatch follows no links of a project",
            where=str(place),
            hint=f"remove the link, or name the folder with {option}",
            code="library.symbolic-link",
        )
    return place


def open_engine(context: Context, engine: str, vllm: str) -> AbstractContextManager[Engine]:
    """Open `cpu`, `cuda` or a Python, with the release that `vllm` means.

    Raises:
        UsageError: it is something else, or another release.
    """
    # Only two commands need one.
    from vpatch.engine import environment  # noqa: PLC0415

    version, cache = exact_release(context, vllm), context.cache.folder
    return environment.open_engine(
        engine, version, cache, context.progress, look=context.own_engine, offline=context.offline
    )


def exact_release(context: Context, vllm: str) -> str:
    """Return the release that `vllm` means, such as 0.23.0 for 0.23.

    Raises:
        UsageError: it means none.
    """
    spec = parse_vllm(vllm)
    if isinstance(spec, PypiSpec):
        with context.tree(spec) as tree:
            if tree.pin.version is not None:
                return tree.pin.version
    raise BadValueError(f"{vllm} is not a release", hint="give one, such as --vllm 0.23")
