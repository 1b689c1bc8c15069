"""The results of the commands of `vpatch checkpoint`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import BeforeValidator, Field

from vpatch.checkpoint.gaps import gaps_of, specifier
from vpatch.checkpoint.graft import Grafted
from vpatch.console.document import OutputModel, read_from

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from vpatch.checkpoint.drafts import CheckpointDraft
    from vpatch.checkpoint.finding_model import CheckpointFinding
    from vpatch.checkpoint.header import Shard
    from vpatch.checkpoint.inspection import Inspection
    from vpatch.checkpoint.mtp import DeclaredMtp
    from vpatch.checkpoint.needs import Need
    from vpatch.checkpoint.quantise import Quantised
    from vpatch.checkpoint.report import ReleaseRow
    from vpatch.checkpoint.tokenizer import Tokenizer


def _counts(collections: Mapping[str | int, Collection[str]]) -> dict[str, int]:
    return {str(key): len(collection) for key, collection in collections.items()}


def _file_names(shards: Iterable[Shard]) -> list[str]:
    return [shard.path.name for shard in shards]


def _layers_by_key(declared: Iterable[DeclaredMtp]) -> dict[str, int]:
    return {one.key: one.count for one in declared}


class CheckpointFindingOutput(OutputModel):
    kind: str
    """A fixed word for programs."""
    what: str
    """A sentence for people."""
    hint: str | None
    """What to do next."""
    fault: bool
    """Whether it keeps MTP out; if not, it is a note."""
    modules: list[str]
    """All modules that it is about, by their names in vLLM."""
    pattern: str | None
    """A regular expression for these modules. It matches no module for which the opposite holds."""


class ShardsOutput(OutputModel):
    present: Annotated[list[str], BeforeValidator(_file_names)] = read_from("shards")
    missing: Annotated[dict[str, int], BeforeValidator(_counts)]
    """How many tensors a shard that is not there should have."""
    unlisted: list[str]
    """Shards that the index does not name."""


class AmountOutput(OutputModel):
    tensors: int
    bytes: int = read_from("size")


class ListEntryOutput(OutputModel):
    """An entry of a list of modules that are not quantised, and what it hits."""

    entry: str
    disk: list[str]
    """Modules by their names on disk."""
    vllm: list[str] = read_from("run")
    """Modules by their names in vLLM."""
    missed: list[str]
    """Modules that it hits on disk and not in vLLM."""
    missed_before: str | None = read_from("until")
    """The release of vLLM from which it hits them."""
    better: list[str]
    """The entries to write instead; empty if nothing is missed."""
    fault: str | None
    """Why the entry cannot be compared."""


class IgnoreListOutput(OutputModel):
    """A list of modules that are not quantised."""

    where: str = read_from("ignored.where")
    """Its key in config.json."""
    matching: str = read_from("ignored.matching.value")
    """How vLLM compares its entries with names."""
    split: list[str]
    """Modules of vLLM that the list names only in part."""
    entries: list[ListEntryOutput]


class QuantisationOutput(OutputModel):
    where: Annotated[str, BeforeValidator(".".join)] = read_from("quantisation.way")
    """Its key in config.json."""
    method: str = read_from("quantisation.method")
    understood: bool = read_from("quantisation.understood")
    """Whether vpatch knows how vLLM reads a config of this method."""
    bits: list[str] = read_from("quantisation.bits")
    lists: list[IgnoreListOutput] = read_from("judged")


class FormatsOutput(OutputModel):
    """How many matrices have which format."""

    trunk: dict[str, int]
    mtp: dict[str, int]


class MtpOutput(OutputModel):
    declared: Annotated[dict[str, int], BeforeValidator(_layers_by_key)]
    """The number of layers by the key of config.json that declares it."""
    names: Annotated[str | None, BeforeValidator(lambda scheme: scheme and scheme.name)] = (
        read_from("scheme")
    )
    """The name of the scheme that names the tensors."""
    layers: Annotated[dict[str, int], BeforeValidator(_counts)]
    """The number of tensors by the number of the layer."""
    tensors: Annotated[int, BeforeValidator(len)] = read_from("names")
    missing: list[str]
    """Modules that must be there and are not."""
    without_scale: list[str] = read_from("lacking")
    """Modules that have a quantised matrix and no scale."""


class DraftOutput(OutputModel):
    """A draft of another kind than MTP layers."""

    kind: str
    """A fixed word for programs."""
    what: str
    """What it is, for people."""
    verifier: str | None
    """The model that it drafts for, where the checkpoint names it."""
    inside: bool
    """Whether it lies in the verifier's own checkpoint."""
    speculative_config: str | None
    """The value of `--speculative-config` that starts it."""
    vllm: str | None
    """The releases that run it; null where vpatch knows none."""

    @classmethod
    def of(cls, draft: CheckpointDraft, folder: Path) -> Self:
        release = draft.release
        until = f",<={release.until}" if release and release.until else ""
        return cls(
            kind=draft.kind,
            what=draft.what,
            verifier=draft.verifier,
            inside=draft.inside,
            speculative_config=draft.config(str(folder)),
            vllm=f">={release.since}{until}" if release else None,
        )


class TokenizerOutput(OutputModel):
    class_: str | None = Field(alias="class", validation_alias="name")
    """The class that the checkpoint names."""
    own_code: bool
    """Whether the class comes with the checkpoint."""
    transformers: str | None
    """The version of transformers that was asked."""
    known: bool | None
    """Whether that version has the class."""


class NeededPatchOutput(OutputModel):
    """A patch that this checkpoint needs for MTP."""

    patch: str
    reason: str
    vllm: str | None
    """The releases that the patch is for."""


class NeedsOutput(OutputModel):
    vllm: str | None
    """The releases that run its MTP layers, once no finding prevents it."""
    patches: list[NeededPatchOutput]


class ReleaseSupportOutput(OutputModel):
    """What a release of vLLM has for the checkpoint; null where the checkpoint does not ask."""

    version: str
    architecture: bool | None = read_from("support.architecture")
    """Whether it registers the model."""
    mtp: bool | None = read_from("support.mtp")
    """Whether it has a draft model for the MTP layers."""
    quantisation: bool | None = read_from("support.quantisation")
    """Whether it knows the method of quantisation."""
    patches: list[str]
    """The patches that MTP needs there."""


class InspectOutput(OutputModel):
    """The result of `vpatch checkpoint inspect`."""

    folder: Path
    architecture: str | None
    layers: int | None
    shards: ShardsOutput
    dtypes: dict[str, AmountOutput]
    quantisation: QuantisationOutput | None
    formats: FormatsOutput
    mtp: MtpOutput
    draft: DraftOutput | None
    """What the checkpoint has or is, where that is another draft than MTP layers."""
    tokenizer: TokenizerOutput
    needs: NeedsOutput
    releases: list[ReleaseSupportOutput]
    """The releases of `--vllm`."""
    findings: list[CheckpointFindingOutput]

    @classmethod
    def of(
        cls,
        inspection: Inspection,
        tokenizer: Tokenizer,
        findings: Iterable[CheckpointFinding],
        needs: Iterable[tuple[Need, str | None]],
        releases: Iterable[ReleaseRow] = (),
    ) -> Self:
        checkpoint, family = inspection.checkpoint, inspection.mtp.family
        has_mtp = inspection.mtp.scheme is not None or inspection.mtp.count > 0
        return cls(
            folder=checkpoint.folder,
            architecture=checkpoint.architecture,
            layers=checkpoint.layers,
            shards=checkpoint,
            dtypes=inspection.by_dtype,
            quantisation=inspection if inspection.quantisation else None,
            formats=FormatsOutput(
                trunk={kind: one.tensors for kind, one in inspection.formats(mtp=False).items()},
                mtp={kind: one.tensors for kind, one in inspection.formats(mtp=True).items()},
            ),
            mtp=inspection.mtp,
            draft=DraftOutput.of(inspection.draft, checkpoint.folder) if inspection.draft else None,
            tokenizer=tokenizer,
            needs=NeedsOutput(
                vllm=specifier(family.since, gaps_of(inspection))
                if family and inspection.draft is None and has_mtp
                else None,
                patches=[
                    NeededPatchOutput(patch=need.patch, reason=need.reason, vllm=releases)
                    for need, releases in needs
                ],
            ),
            releases=releases,
            findings=findings,
        )


class IgnoreNamesOutput(OutputModel):
    """The result of `vpatch checkpoint ignore-names`."""

    lists: list[IgnoreListOutput]
    """As they were before `--write`."""
    fixed: bool
    """Whether config.json was written."""
    backup: Path | None
    """The copy of config.json as it was."""
    clean: bool
    """Whether every entry now hits in vLLM what it hits on disk."""


class ConvertedOutput(OutputModel):
    """Tensors that got another dtype."""

    before: str
    after: str
    tensors: int


class QuantisedOutput(OutputModel):
    """MTP modules that were quantised as the trunk is, by rounding to the nearest."""

    modules: list[str]
    """The modules that were quantised."""
    unquantised: list[str] = read_from("floats")
    """The modules that stay as they are."""
    formats: dict[str, int]
    """The number of modules by compressed-tensors' format."""
    bytes_before: int = read_from("before")
    """The size of the modules' matrices."""
    bytes_after: int = read_from("after")
    """The size of what they became."""
    shards: list[Path]
    """The new shards."""
    superseded: list[str]
    """The old shards, by their new names."""
    no_longer_ignored: list[str] = read_from("dropped")
    """The entries that the config's lists lost."""
    ignored: list[str] = read_from("added")
    """The entries that they got."""
    backup: Path | None
    """The copy of config.json as it was."""
    compressed_tensors: str = read_from("library")
    """The version that quantised them."""


class QuantiseOutput(OutputModel):
    """The result of `vpatch checkpoint quantise-mtp`."""

    quantised: QuantisedOutput
    findings: list[CheckpointFindingOutput]
    """What still keeps MTP out."""


class GraftOutput(OutputModel):
    """The result of `vpatch checkpoint graft-mtp`."""

    written: list[str]
    """The tensors that were written."""
    already_there: list[str]
    """The tensors that were there before."""
    bytes: int
    """The size of what was written."""
    shard: Path | None
    """The new shard."""
    converted: list[ConvertedOutput]
    config: list[str]
    """The keys that config.json got."""
    backup: Path | None
    """The copy of config.json as it was."""
    index: bool
    """Whether the index was written."""
    quantised: QuantisedOutput | None
    """What was quantised, if the trunk is."""
    findings: list[CheckpointFindingOutput]
    """What still keeps MTP out."""

    @classmethod
    def of(
        cls,
        done: Grafted,
        findings: Iterable[CheckpointFinding],
        quantised: Quantised | None = None,
    ) -> Self:
        return cls(
            written=done.written,
            already_there=done.there,
            bytes=done.size,
            shard=done.shard,
            converted=[
                ConvertedOutput(before=old, after=new, tensors=count)
                for (old, new), count in done.converted.items()
            ],
            config=done.keys,
            backup=done.backup,
            index=done.index,
            quantised=quantised,
            findings=findings,
        )

    @classmethod
    def of_quantised(cls, done: Quantised, findings: Iterable[CheckpointFinding]) -> Self:
        size = sum(path.stat().st_size for path in done.shards)
        shard = done.shards[0] if done.shards else None
        written = Grafted(
            done.grafted, (), size, shard, {}, done.keys, done.backup, index=done.changed
        )
        return cls.of(written, findings, done)
