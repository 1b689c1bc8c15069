"""A log becomes verdicts: which declared symptoms it shows, and what to do."""

from __future__ import annotations

import shlex
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from vpatch.errors import UsageError, VpatchError
from vpatch.logs.explanations import Explanation, explained
from vpatch.logs.symptoms import find_in_pieces
from vpatch.logs.vllm_format import printed_version, read_pieces, release_of
from vpatch.planning.state import State
from vpatch.source.spec import parse_vllm
from vpatch.workspace import selection
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from io import BufferedReader

    from vpatch.library.patch import Patch
    from vpatch.logs.symptoms import Sighting
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Pin
    from vpatch.workspace.context import Context

STDIN = "-"


# More than these are not told apart: they would take time and memory without end.
_VERSIONS = 20


_LONGEST_VERSION = 100


# gzip, bzip2, xz, zstandard, zip, and UTF-16 as some shells write it.
_NO_TEXT = (
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ",
    b"\x28\xb5\x2f\xfd",
    b"PK\x03\x04",
    b"\xff\xfe",
    b"\xfe\xff",
)


# Claimed for a tree that never needs a patch.
_NEVER = "<0"


_NOT_KNOWN = "whether the vLLM of this log needs it is not known"


@dataclass
class DiagnosedLog:
    """A log while it is read, and what it told besides symptoms. `typed` is how it was named."""

    typed: str
    lines: int = 0
    versions: list[str] = field(default_factory=list)
    explained: dict[Explanation, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "standard input" if self.typed == STDIN else self.typed

    def pieces(self, stream: BinaryIO) -> Iterator[tuple[int, str]]:
        for number, text in read_pieces(stream):
            self.lines = number
            version = printed_version(text)
            if version is not None and version not in self.versions:
                self.versions.append(version[:_LONGEST_VERSION])
                del self.versions[_VERSIONS:]
            known = explained(text)
            if known is not None:
                self.explained.setdefault(known, number)
            yield number, text


@dataclass(frozen=True)
class SymptomVerdict:
    """What a patch means for the vLLM of a log; the state is None where that is not known."""

    patch: Patch
    says: str
    state: State | None = None
    reason: str | None = None
    run: str | None = None
    sightings: tuple[Sighting, ...] = ()


@contextmanager
def opened_log(log: DiagnosedLog) -> Iterator[BinaryIO]:
    try:
        if log.typed == STDIN:
            yield _text(cast("BufferedReader", sys.stdin.buffer), log.name)
        else:
            with Path(log.typed).open("rb") as stream:
                yield _text(stream, log.name)
    except OSError as error:
        raise UsageError(
            f"the log cannot be read: {error.strerror or error}",
            where=log.name,
            hint="name a file with vLLM's output, or - for standard input",
            code="logs.unreadable",
        ) from error


def _text(stream: BufferedReader, name: str) -> BinaryIO:
    if stream.peek(8).startswith(_NO_TEXT):
        raise UsageError(
            "the log is packed, or in UTF-16, so vpatch cannot search it",
            where=name,
            hint="unpack or convert it first, such as: zcat FILE | vpatch diagnose -",
            code="logs.packed",
        )
    return stream


class LookedFor(NamedTuple):
    """How many patches there are, and how many symptoms these declare."""

    patches: int
    symptoms: int


class Diagnosis(NamedTuple):
    """What a log shows. `note` says why a verdict is not known, if one is not."""

    looked_for: LookedFor
    log: DiagnosedLog
    sightings: list[Sighting]
    verdicts: list[SymptomVerdict]
    note: str | None


def diagnose(context: Context, log: str, vllm: str | None) -> Diagnosis:
    """Look for the symptoms of all patches in a log.

    Args:
        context: the project and its library.
        log: a file, or - for standard input.
        vllm: the vLLM that wrote it; by default the one that the log names.

    Raises:
        UsageError: there is no such log, or no such version.
    """
    known = context.library.load_all()
    if vllm:
        parse_vllm(vllm)  # an error must not come after a long log
    reading = DiagnosedLog(log)
    with opened_log(reading) as stream:
        task = context.progress.start(f"Reading {reading.name}")
        sightings = list(find_in_pieces(reading.pieces(stream), known))
        task.done()
    sighted = list({sighting.patch.id: sighting.patch for sighting in sightings}.values())
    verdicts, note = symptom_verdicts(context, sighted, vllm, reading.versions)
    verdicts = [
        replace(one, sightings=tuple(s for s in sightings if s.patch.id == one.patch.id))
        for one in verdicts
    ]
    symptoms = sum(len(patch.declaration.symptoms) for patch in known)
    return Diagnosis(LookedFor(len(known), symptoms), reading, sightings, verdicts, note)


def symptom_verdicts(
    context: Context, patches: Sequence[Patch], vllm: str | None, printed: Sequence[str]
) -> tuple[list[SymptomVerdict], str | None]:
    """What each patch means for the vLLM that is asked for, or else the one that the log is of.

    The second value says why it is not known, where it is not.
    """
    ids = tuple(patch.id for patch in patches if "vllm" in patch.declaration.needed_in)
    verdicts = {
        patch.id: SymptomVerdict(
            patch, _join(_NOT_KNOWN if patch.id in ids else None, _plugins(patch))
        )
        for patch in patches
    }
    note = None if vllm else _unclear(printed)
    if note or not ids:
        return list(verdicts.values()), note
    asked = vllm or release_of(printed[0]) or ""
    try:
        (job,) = selection.resolve(
            selection.Request(asked, patches=ids), context.library, whole_library=True
        )
        with context.tree(job.spec) as tree:
            # As `vpatch apply --patch` would find each: the others do not meet it.
            plan = planned(context, job.patches, tree, to_write=False, alone=ids)
    except VpatchError as error:
        if vllm:
            raise
        # The log named this version, not the user. The user still sees what was found.
        return list(verdicts.values()), f"what vLLM {asked} needs cannot be told: {error}"
    usual = selection.resolve(selection.Request(asked), context.library)[0]
    for decision in plan.decisions:
        if decision.patch.id in verdicts:
            run = _next(context, decision, usual, asked)
            says = _says(decision, plan.pin, usual, printed)
            verdicts[decision.patch.id] = SymptomVerdict(
                decision.patch, says, decision.state, decision.reason, run
            )
    return list(verdicts.values()), None


def _unclear(printed: Sequence[str]) -> str | None:
    """Why the log does not tell a release, if it does not."""
    if not printed:
        return "the log does not say which vLLM wrote it: give --vllm VERSION"
    if len({release_of(version) or version for version in printed}) > 1:
        return f"several vLLM wrote this log ({', '.join(printed)}): give --vllm VERSION"
    if release_of(printed[0]) is None:
        return (
            f"vLLM {printed[0]} is a build and no release: give --vllm with the release that is "
            "nearest to it, or with its source (./FOLDER, URL@COMMIT)"
        )
    return None


def _in_recipe(decision: Decision, usual: selection.Selection) -> bool:
    return usual.recipe is not None and decision.patch.id in {patch.id for patch in usual.patches}


def _next(
    context: Context, decision: Decision, usual: selection.Selection, vllm: str
) -> str | None:
    named = [("--vllm", vllm)]
    match decision.state:
        case State.NEEDED:
            verb = "apply"
            named += [] if _in_recipe(decision, usual) else [("--patch", decision.patch.id)]
        case State.BLOCKED | State.CONFLICT | State.UNTRUSTED:
            verb = "status"
            named.append(("--why", decision.patch.id))
        case _:
            return None
    named += [("--patches-dir", str(folder)) for folder in context.patches_dirs]
    named += [("--recipes-dir", str(folder)) for folder in context.recipes_dirs]
    return f"vpatch {verb} {shlex.join(word for option in named for word in option)}"


def _says(decision: Decision, pin: Pin, usual: selection.Selection, printed: Sequence[str]) -> str:
    name = f"vLLM {pin.version or pin.ref or pin.origin}"
    if pin.version and pin.version in {release_of(version) for version in printed}:
        other = ", so the message has another cause here, or the files that ran are not its own"
    else:
        itself = f", and says {', '.join(printed)}" if printed else ""
        other = f": this log must be of another one{itself}"
    if decision.state is State.NEEDED:
        recipe = f", and the recipe {usual.recipe} has it"
        return f"{name} needs it{recipe if _in_recipe(decision, usual) else ''}"
    plugins = _plugins(decision.patch)
    says = {
        State.APPLIED: f"{name} carries the patch, as its lock says{other}",
        State.UPSTREAMED: f"{name} has the cure already{other}",
        # A plugin's message needs no further cause.
        State.ABSENT: f"{name} does not have what the patch is about{'' if plugins else other}",
        State.BLOCKED: f"{name} cannot have it yet: it {decision.reason}",
        State.CONFLICT: f"{name} has this code in a shape that the patch does not fit",
        State.UNTRUSTED: f"only the patch's own code can tell of {name}: {decision.reason}",
    }
    return _join(says[decision.state], plugins)


def _join(*parts: str | None) -> str:
    return "; ".join(part for part in parts if part)


def _plugins(patch: Patch) -> str | None:
    claims = patch.declaration.needed_in.items()
    trees = [tree for tree, claim in claims if tree != "vllm" and claim != _NEVER]
    if not trees:
        return None
    example = f"vpatch status --tree {trees[0]}==VERSION --patch {patch.id}"
    return f"for {' and '.join(trees)} ask {example}"
