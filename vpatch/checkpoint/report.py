"""What a checkpoint has, in lines for people. The command line prints them, in colours."""

from __future__ import annotations

import json
import shlex
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple

from packaging.version import Version

from vpatch.checkpoint.gaps import gaps_of, runs_in, why_nowhere
from vpatch.checkpoint.module_pattern import in_few_words
from vpatch.util.plural import counted, listed
from vpatch.util.versions import describe_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.checkpoint.drafts import CheckpointDraft
    from vpatch.checkpoint.graft import Grafted
    from vpatch.checkpoint.ignore import Judged
    from vpatch.checkpoint.inspection import Amount, Inspection
    from vpatch.checkpoint.needs import Need
    from vpatch.checkpoint.quantise import Quantised
    from vpatch.checkpoint.support import Support
    from vpatch.checkpoint.tokenizer import Tokenizer

_SHOWN = 3
_ANSWERS = {True: "yes", False: "no", None: "-"}


class ReleaseRow(NamedTuple):
    """What a release has for a checkpoint, and the ids of the patches that MTP needs there."""

    version: str
    support: Support
    patches: tuple[str, ...]


class Line(NamedTuple):
    """A line, and what it is."""

    text: str
    kind: Literal["text", "title", "fault"] = "text"


def inspection_lines(
    inspection: Inspection, tokenizer: Tokenizer, needs: Sequence[tuple[Need, str | None]]
) -> Iterator[Line]:
    checkpoint = inspection.checkpoint
    layers = f", {counted(checkpoint.layers, 'layer')}" if checkpoint.layers else ""
    yield Line(f"{checkpoint.architecture or 'no architecture named'}{layers}", "title")
    shards = counted(len(checkpoint.shards), "shard")
    if checkpoint.missing:
        shards += f", {len(checkpoint.missing)} missing"
    yield _line("shards", f"{shards}, {size_of(sum(a.size for a in inspection.by_dtype.values()))}")
    amounts = (f"{a.tensors} {kind} ({size_of(a.size)})" for kind, a in inspection.by_dtype.items())
    yield _line("tensors", ", ".join(amounts) or "none")
    yield from _quantisation(inspection)
    if inspection.draft is not None:
        yield from _draft(inspection, inspection.draft)
    else:
        yield from _mtp(inspection)
    yield _line("tokenizer", _tokenizer(tokenizer))
    if inspection.draft is None:
        yield from _mtp_releases(inspection)
    for need, releases in needs:
        since = f" (vLLM {releases})" if releases else ""
        yield _line("patch", f"{need.patch}{since}: {need.reason}")


def release_lines(rows: Sequence[ReleaseRow]) -> Iterator[Line]:
    """A line for each group of releases that follow each other and have the same."""
    table = [["release", "model", "MTP", "quantisation", "patches"]]
    for (support, patches), group in groupby(rows, key=lambda row: row[1:]):
        versions = [row.version for row in group]
        name = describe_range(versions[0], versions[-1])
        facts = (support.architecture, support.mtp, support.quantisation)
        table.append([name, *(_ANSWERS[one] for one in facts), ", ".join(patches) or "none"])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        text = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        yield Line(f"  {text.rstrip()}")


def list_lines(inspection: Inspection) -> Iterator[Line]:
    if not inspection.judged:
        yield Line("no list of config.json says what is not quantised")
    for judged in inspection.judged:
        names = counted(len(judged.entries), "pattern")
        yield Line(
            f"{judged.ignored.where}: {names}, compared with names: {judged.ignored.matching.value}"
        )
        for entry in judged.entries:
            yield from _entry(entry)
        for name in judged.split:
            yield Line(f"  {name} is made of modules of which some are named and some are not:")
            yield Line("    vLLM has one format for it; name all of them, or none")


def graft_lines(done: Grafted) -> Iterator[Line]:
    if not done.changed:
        yield Line(f"nothing to do: {counted(len(done.there), 'MTP tensor')} as they are")
        return
    if done.shard:
        tensors = counted(len(done.written), "MTP tensor")
        yield Line(f"{done.shard.name}: {tensors}, {size_of(done.size)}, read back")
    if done.there:
        yield Line(f"{counted(len(done.there), 'MTP tensor')} there already")
    for (old, new), count in done.converted.items():
        yield Line(f"  {counted(count, 'tensor')} {old} made {new}")
    if done.keys and done.backup:
        yield Line(f"config.json: {', '.join(done.keys)}; {done.backup.name} is what it was")
    if done.index:
        yield Line("model.safetensors.index.json leads to them")


def quantise_lines(done: Quantised) -> Iterator[Line]:
    if not done.changed:
        yield Line("nothing to do: the config covers no further MTP module")
        return
    for kind, count in done.formats.items():
        yield Line(
            f"{counted(count, 'MTP module')} made {kind} by compressed-tensors {done.library}"
        )
    yield Line(f"  round-to-nearest, {size_of(done.before)} made {size_of(done.after)}, read back")
    if done.floats:
        yield Line(f"  unquantised as in the trunk, or by a list: {_names(done.floats)}")
    if done.grafted:
        yield Line(f"  {counted(len(done.grafted), 'tensor')} taken from the original")
    yield Line(f"new: {', '.join(path.name for path in done.shards)}; the index leads to them")
    if done.keys:
        yield Line(f"config.json: {', '.join(done.keys)}")
    for words, entries in (("no longer left out", done.dropped), ("left out", done.added)):
        if entries:
            yield Line(f"{words}: {_names(entries)}")
    old = [*([done.backup.name] if done.backup else []), *done.superseded]
    if old:
        yield Line(f"{', '.join(old)}: what was there before; delete it when the new one works")


def size_of(count: int) -> str:
    """Return bytes in the unit that fits, such as 12.3 MB."""
    value, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:  # noqa: PLR2004
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "bytes" else f"{value:.1f} {units[0]}"


def _line(label: str, text: str) -> Line:
    return Line(f"  {label:<13} {text}")


def _quantisation(inspection: Inspection) -> Iterator[Line]:
    quantised = inspection.quantisation
    if quantised is None:
        yield _line("quantisation", "none in config.json")
        return
    yield _line("quantisation", ", ".join([quantised.method, *quantised.bits]))
    for judged in inspection.judged:
        hit = {name for entry in judged.entries for name in entry.run}
        names = counted(len(judged.entries), "pattern")
        modules = counted(len(hit), "module")
        yield _line("", f"{judged.ignored.where}: {names} for {modules} in vLLM")


def _draft(inspection: Inspection, draft: CheckpointDraft) -> Iterator[Line]:
    verifier = f", for {draft.verifier}" if draft.verifier else ""
    yield _line("draft", f"{draft.what}{verifier}")
    folder = str(inspection.checkpoint.folder)
    if (value := draft.config(folder)) is not None:
        yield _line("", f"--speculative-config {shlex.quote(value)}")
    if draft.release is not None:
        last = draft.release.until
        since = f"{draft.release.since} to {last}" if last else f"{draft.release.since} or later"
        yield _line("vLLM", f"{since} {'run' if last else 'runs'} it")


def _mtp_releases(inspection: Inspection) -> Iterator[Line]:
    """Say which releases run the MTP layers, and what starts them."""
    family = inspection.mtp.family
    if family is None:
        return
    gaps = gaps_of(inspection)
    releases = runs_in(family.since, gaps)
    mtp = inspection.mtp
    # Whether vLLM has a default for what config.json does not declare is known of some models.
    if not mtp.count and (mtp.scheme is None or not (mtp.assumed or mtp.declared)):
        return
    if mtp.scheme is None:
        yield _line("vLLM", f"{releases} runs MTP of this model, which needs its tensors")
        return
    if (reason := why_nowhere(inspection)) is not None:
        yield _line("vLLM", f"no release runs its MTP as it is: {reason}")
        return
    several = " and " in releases or " to " in releases
    yield _line("vLLM", f"{releases} {'run' if several else 'runs'} its MTP")
    for gap in gaps:
        if Version(gap.last) >= Version(family.since):
            first = max(gap.since, family.since, key=Version)
            yield _line("", f"{first} to {gap.last} do not: {gap.reason}")
    if releases != "none":
        value = json.dumps({"method": "mtp", "num_speculative_tokens": mtp.count or 1})
        yield _line("", f"--speculative-config '{value}'")


def module_lines(modules: Sequence[str], pattern: str | None) -> Iterator[str]:
    """Name all modules that a finding is about, and the one pattern for them."""
    label = "modules:"
    for name in in_few_words(modules):
        yield f"  {label:<8} {name}"
        label = ""
    if pattern is not None:
        yield f"  pattern: {pattern}"


def _mtp(inspection: Inspection) -> Iterator[Line]:
    mtp = inspection.mtp
    declared = ", ".join(f"{one.key} {one.count}" for one in mtp.declared)
    yield _line("MTP", f"declared: {declared or 'no'}")
    if mtp.scheme is None:
        yield _line("", "tensors: none")
        return
    layers = counted(len(mtp.layers), "layer")
    yield _line("", f"tensors: {len(mtp.names)} of {layers}, called {mtp.scheme.name}")
    head, trunk = inspection.formats(mtp=True), inspection.formats(mtp=False)
    yield _line("", f"matrices: {_kinds(head)}; the trunk's: {_kinds(trunk)}")


def _kinds(formats: dict[str, Amount]) -> str:
    return ", ".join(f"{amount.tensors} {kind}" for kind, amount in formats.items()) or "none"


def _tokenizer(tokenizer: Tokenizer) -> str:
    if tokenizer.name is None:
        return "no class named"
    if tokenizer.own_code:
        return f"{tokenizer.name}, with code of its own"
    if tokenizer.known is None:
        return tokenizer.name
    verb = "has it" if tokenizer.known else "does not have it"
    return f"{tokenizer.name}; transformers {tokenizer.transformers} {verb}"


def _entry(entry: Judged) -> Iterator[Line]:
    yield Line(f"  {entry.entry}")
    if entry.fault:
        yield Line(f"    {entry.fault}", "fault")
        return
    yield Line(f"    on disk  {_names(entry.disk)}")
    yield Line(f"    in vLLM  {_names(entry.run)}")
    if entry.missed:
        before = f", before {entry.until}" if entry.until else ""
        yield Line(f"    missed   {_names(entry.missed)}{before}", "fault")
        yield Line(f"    better   {'  '.join(entry.better)}")


def _names(names: Sequence[str]) -> str:
    return listed(names, _SHOWN) or "nothing"
