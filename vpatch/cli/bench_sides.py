"""What a benchmark measures: trees on an engine, images, or servers that were there before."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vpatch import jobs
from vpatch.bench.run import Answering, Opened
from vpatch.bench.running import look_at
from vpatch.cli.grounds import (
    checkpoint_folders,
    engine_ground,
    image_ground,
    look_at_image,
    refuse_missing,
)
from vpatch.cli.session import open_engine
from vpatch.engine.environment import KINDS
from vpatch.errors import UsageError
from vpatch.smoke.site import inherited, lay_over
from vpatch.smoke.subject import digest_of_subject, subject_of, subject_of_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from vpatch.cli.bench_plan import Said
    from vpatch.cli.session import Session
    from vpatch.declare.bench import Bench
    from vpatch.engine.environment import Engine
    from vpatch.jobs import Job, Request
    from vpatch.smoke.machine import Machine
    from vpatch.smoke.prove import Ground
    from vpatch.smoke.site import Site

Kind = Literal["trees", "images", "servers"]
_IMAGE, _PRISTINE = "image:", "pristine:"
_KEY = "OPENAI_API_KEY"
_PATIENCE = 60.0
_PAIR = 2


@dataclass(frozen=True)
class Subjects:
    """What is measured, side by side, as it was said; a side of servers has one for each k."""

    kind: Kind
    sides: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Ready:
    """All that a benchmark needs: `client` and `vllm` are those of an `Order`."""

    bench: Bench
    sides: Sequence[Opened | Answering]
    client: Callable[[Path], Site]
    vllm: str
    title: str


def subjects_of(
    image: str | None, urls: Sequence[str], compare: str | None, request: Request
) -> Subjects:
    """Say what the options mean.

    Raises:
        UsageError: they contradict each other.
    """
    source = [request.vllm, request.recipe, *request.trees, *request.patches]
    given = [
        name for name, said in (("--image", image), ("--url", urls), ("--compare", compare)) if said
    ]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other", todo="give one of them")
    if image is not None:
        _refuse_source(source, f"{_IMAGE}{image}")
        return Subjects("images", ((image,),))
    if urls:
        return Subjects("servers", (tuple(urls),))
    if compare is None:
        return Subjects("trees", ((request.vllm or "",),))
    sides = [side.strip() for side in compare.split(",")]
    kinds = {_kind_of(side) for side in sides}
    if len(sides) != _PAIR or "" in sides or len(kinds) > 1:
        raise UsageError(
            f"{compare!r} are not two of a kind",
            where="--compare",
            todo="give two versions or folders, two of image:TAG, or two URLs of servers",
        )
    (kind,) = kinds
    if kind == "images":
        _refuse_source(source, sides[0])
        return Subjects(kind, tuple((side.removeprefix(_IMAGE),) for side in sides))
    if kind == "trees" and request.vllm:
        raise UsageError("--vllm and --compare both name a vLLM", todo="leave out --vllm")
    return Subjects(kind, tuple((side,) for side in sides))


@dataclass(frozen=True)
class Opening:
    """What the command line says, as far as it is the same for all sides."""

    session: Session
    request: Request
    engine: str | None
    recipe: str | None
    said: Said
    machine: Machine
    stack: ExitStack

    def open(self, subjects: Subjects) -> Ready:
        by_kind = {"trees": self._trees, "images": self._images, "servers": self._servers}
        return by_kind[subjects.kind](subjects.sides)

    def _trees(self, sides: Sequence[Sequence[str]]) -> Ready:
        found = [self._jobs(vllm) for (vllm,) in sides]
        bench = self.said.plan(self.session, self.recipe or found[0][0].recipe)
        engine = self._engine()
        kind = engine if engine in KINDS else self.session.own_engine(engine).kind
        refuse_missing(bench.needs, bench.models.values(), self.machine, kind)
        opened = [self._opened_trees(one, engine) for one in found]
        title = found[0][0].recipe or opened[0].ground.version
        return self._ready(bench, opened, f"{title}-{kind}")

    def _jobs(self, vllm: str) -> list[Job]:
        """What a side of trees means; `pristine:VERSION` is one without its patches."""
        library, request = self.session.library, replace(self.request, vllm=vllm or None)
        if not vllm.startswith(_PRISTINE):
            return jobs.resolve(request, library)
        without = replace(request, vllm=vllm.removeprefix(_PRISTINE), patches=())
        return [replace(job, patches=()) for job in jobs.resolve(without, library)]

    def _opened_trees(self, found: Sequence[Job], engine: str) -> Opened:
        ground, plans, version = engine_ground(
            self.session, found, engine, self.stack, asked_for=bool(self.request.patches)
        )
        subject = subject_of(plans)
        count = sum(len(tree["patches"]) for tree in subject)
        patches = f"{count} patch{'es' if count > 1 else ''}" if count else "no patches"
        return self._opened(f"vLLM {version} with {patches}", subject, ground)

    def _images(self, sides: Sequence[Sequence[str]]) -> Ready:
        gpus = bool(self.machine.gpus)
        found = [look_at_image(name, self.stack, gpus=gpus) for (name,) in sides]
        first, _ = found[0]
        bench = self.said.plan(self.session, self.recipe or first.lock.recipe)
        refuse_missing(bench.needs, bench.models.values(), self.machine, first.kind)
        seen = checkpoint_folders(bench.models.values())
        seen += [Path(s.path).resolve().parent for s in bench.shapes if s.path is not None]
        opened = []
        for image, docker in found:
            ground = image_ground(image, docker, seen, gpus=gpus)
            what = f"image {image.name}, vLLM {image.version}"
            opened.append(self._opened(what, subject_of_lock(image.lock), ground))
        title = f"{first.lock.recipe or first.version}-{first.kind}-image"
        return self._ready(bench, opened, title)

    @staticmethod
    def _ready(bench: Bench, sides: Sequence[Opened], title: str) -> Ready:
        """The first side's vLLM sends the loads of all."""
        ground = sides[0].ground

        def client(room: Path) -> Site:
            return ground.site("after", room.parent, room.name)

        return Ready(bench, sides, client, ground.version, title)

    def _opened(self, what: str, subject: list[dict[str, Any]], ground: Ground) -> Opened:
        described = {
            "what": what,
            "machine": asdict(self.machine),
            # A container is given none of it.
            "inherited": {} if ground.image else inherited(),
            "digest": digest_of_subject(subject),
            "subject": subject,
            "engine": {"kind": ground.kind, "vllm": ground.version},
        }
        image = {"image": dict(ground.image)} if ground.image else {}
        return Opened(ground, described | image)

    def _servers(self, sides: Sequence[Sequence[str]]) -> Ready:
        """Servers that run: an engine is opened for its `vllm bench serve` alone."""
        found = [self._answering(urls) for urls in sides]
        first = found[0].servers[0]
        ks = sorted({server.k for side in found for server in side.servers})
        said = self.said if self.said.model else replace(self.said, model=self._root(first.root))
        bench = said.plan(self.session, self.recipe, served=ks)
        refuse_missing(bench.needs, bench.models.values(), self.machine, bench.needs.engine or "")
        engine = self._engine()
        if engine in KINDS:
            version = self.request.vllm or (first.version or "").partition("+")[0]
            if not version:
                raise UsageError("nothing says which vLLM sends the loads", todo="give --vllm")
            opened = self.stack.enter_context(open_engine(self.session, engine, version))
        else:
            opened = self.session.own_engine(engine)
        (name,) = bench.models
        return Ready(bench, found, partial(_untouched, opened), opened.version, f"{name}-url")

    def _answering(self, urls: Sequence[str]) -> Answering:
        servers = [look_at(url, _PATIENCE, os.environ.get(_KEY)) for url in urls]
        by_k: dict[int, str] = {}
        for server in servers:
            if server.k in by_k:
                raise UsageError(
                    f"{by_k[server.k]} and {server.client.url} both have k={server.k}",
                    todo="to set two servers against each other, give --compare A,B",
                )
            by_k[server.k] = server.client.url
        described = {
            "what": ", ".join(by_k[k] for k in sorted(by_k)),
            # The loads are sent from here; where a server runs is not known.
            "machine": asdict(self.machine),
            "inherited": {},
            "digest": None,
            "servers": [server.described for server in servers],
        }
        return Answering(servers, described)

    def _engine(self) -> str:
        return self.engine or ("cuda" if self.machine.gpus else "cpu")

    @staticmethod
    def _root(root: str | None) -> str:
        if root is None:
            raise UsageError(
                "the server does not say what it serves",
                todo="give --model PATH|ID: the prompts are made with its tokenizer",
            )
        return root


def _untouched(engine: Engine, room: Path) -> Site:
    room.mkdir()
    return lay_over(engine, [{}], room)


def _kind_of(side: str) -> Kind:
    if side.startswith(_IMAGE):
        return "images"
    is_url = side.startswith(("http://", "https://"))
    # A repository's has a reference after an @, or ends in .git.
    if is_url and "@" not in side.rpartition("/")[2] and not side.endswith(".git"):
        return "servers"
    return "trees"


def _refuse_source(source: Sequence[str | None], image: str) -> None:
    if any(source):
        raise UsageError(
            "an image says itself what is in it",
            where=image,
            todo="leave out what names a source or patches",
        )
