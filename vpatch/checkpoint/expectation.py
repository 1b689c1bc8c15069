"""What vLLM leaves unquantised by a config: compared as the releases compare names."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from vpatch.checkpoint.fused import mapped_entries, with_prefix
from vpatch.checkpoint.list_entry import ASKED_FOR_PARTS, Entry, Matching
from vpatch.checkpoint.methods import FLOAT_BITS
from vpatch.checkpoint.mixed_precision import covered_by_layers
from vpatch.checkpoint.modules import experts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vpatch.checkpoint.fused import Naming, RunTime
    from vpatch.checkpoint.quantisation import Ignored, Quantisation

_OLDEST = "0.20.0"
MATRICES = ("gate_proj", "up_proj", "down_proj")
"""What vLLM calls the matrices of an expert where it asks compressed-tensors about them."""


class LeftOut(NamedTuple):
    """Modules by their names in vLLM: those that every release leaves out, and those that one may.

    What is in neither is built quantised, if vLLM builds it by the config at all.
    """

    always: frozenset[str]
    ever: frozenset[str]


class _Way(NamedTuple):
    """One way to leave a module out: all of `names` are matched. `always`: in every release.

    `inside`: an entry has the one name in it, as the name of a layer's expert has the layer's.
    """

    names: tuple[str, ...]
    matching: Matching
    always: bool
    inside: bool = False


def left_out_modules(
    quantisation: Quantisation, naming: Naming, run_time: Iterable[RunTime]
) -> LeftOut:
    """Return the modules that a config leaves out; none where the method is not understood."""
    modules = list(run_time)
    always: set[str] = set()
    ever: set[str] = set()
    for ignored in quantisation.ignored():
        ways = {one.name: list(_ways(quantisation, ignored.matching, one)) for one in modules}
        hits = _Hits(quantisation, ignored, naming, (w for some in ways.values() for w in some))
        for name, some in ways.items():
            matched = [way for way in some if hits.have(way)]
            if matched:
                ever.add(name)
            if any(way.always for way in matched):
                always.add(name)
    blocks = tuple(with_prefix(naming, block) for block in quantisation.blocks)
    if blocks:
        outside = {one.name for one in modules if not one.name.startswith(blocks)}
        ever |= outside
        always |= outside - _configured(quantisation, naming, outside)
    if parts := quantisation.parts_to_quantise:
        # is_layer_gptq_quantized of gptq_utils.py, which get_moe_quant_method does not call
        unnamed = {
            one.name
            for one in modules
            if not any(part in name for name in (one.name, *one.parts) for part in parts)
        }
        ever |= unnamed
        always |= {name for name in unnamed if experts_of(name) is None}
    if quantisation.is_mixed:
        covered = covered_by_layers(quantisation, naming, modules)
        names = {one.name for one in modules}
        ever |= names - covered.always
        always |= names - covered.ever
    return LeftOut(frozenset(always), frozenset(ever))


def _ways(quantisation: Quantisation, matching: Matching, module: RunTime) -> Iterator[_Way]:
    experts = experts_of(module.name)
    if matching is Matching.TABLE:
        yield _Way(module.disk, matching, always=True)
    elif experts is not None:
        yield from _ways_of_experts(quantisation, matching, module.name, experts)
    else:
        # Most methods once asked for the parts alone of a module that is declared as fused.
        fused = module.declared == _OLDEST and matching in {*ASKED_FOR_PARTS, Matching.WILDCARD}
        everywhere = matching is not Matching.LATER_REGEX
        yield _Way(
            (module.name,),
            matching,
            everywhere and (not fused or matching is Matching.WILDCARD),
        )
        if module.parts and matching in ASKED_FOR_PARTS:
            yield _Way(module.parts, matching, module.declared == _OLDEST)
        if module.parts and matching is Matching.WILDCARD:
            yield _Way(module.parts, Matching.EXACT, module.declared == _OLDEST)


def _ways_of_experts(
    quantisation: Quantisation, matching: Matching, name: str, experts: str
) -> Iterator[_Way]:
    """Yield the names that vLLM asks for, which are those of the layer that has the experts.

    compressed-tensors asks for the matrices of the first expert.
    """
    if matching is Matching.BEGINNING:
        return  # BitsAndBytesConfig.get_quant_method does not look at its list
    by_matrix = quantisation.method == "compressed-tensors"
    first = tuple(f"{experts}.0.{matrix}" for matrix in MATRICES)
    if by_matrix:
        yield _Way(first, matching, always=True)
    if matching is not Matching.WILDCARD:
        # An entry for one expert may be for its layer in some release.
        yield _Way((name,), matching, always=False)
    everywhere = not by_matrix and matching is not Matching.LATER_REGEX
    yield _Way((experts,), matching, always=everywhere)
    # is_layer_skipped of quant_utils.py
    exact = matching in {Matching.EXACT, Matching.WILDCARD}
    if matching in {Matching.ANYWHERE, Matching.LATER_REGEX}:
        return
    yield _Way((experts,), matching, always=exact, inside=True)


class _Hits:
    """Which names the entries of a list match, each as vLLM compares it."""

    def __init__(
        self, quantisation: Quantisation, ignored: Ignored, naming: Naming, ways: Iterable[_Way]
    ) -> None:
        names: dict[Matching, dict[str, None]] = defaultdict(dict)
        for way in ways:
            if not way.inside:
                names[way.matching].update(dict.fromkeys(way.names))
        is_table = ignored.matching is Matching.TABLE
        self._texts = [
            mapped
            for text in ignored.entries
            for mapped in ((text,) if is_table else mapped_entries(naming, text, ignored.matching))
        ]
        self._matched = {
            kind: {hit for text in self._texts for hit in Entry(text, kind).those(some)}
            for kind, some in names.items()
        }
        if ignored.matching is Matching.CONFIGURED:
            quantised = _configured(quantisation, naming, names[ignored.matching])
            self._matched[ignored.matching] -= quantised

    def have(self, way: _Way) -> bool:
        if way.inside:
            return any(way.names[0] in text for text in self._texts)
        return self._matched[way.matching].issuperset(way.names)


def _configured(quantisation: Quantisation, naming: Naming, names: Iterable[str]) -> set[str]:
    """Return the names that auto-round's `extra_config` gives few bits: the first entry counts."""
    options = quantisation.config.get("extra_config")
    remaining = dict.fromkeys(names)
    quantised: set[str] = set()
    for text, one in options.items() if isinstance(options, dict) else ():
        bits = one.get("bits") if isinstance(one, dict) else None
        (mapped,) = mapped_entries(naming, text, Matching.CONFIGURED)
        entry = Entry(mapped, Matching.CONFIGURED)
        for name in entry.those(remaining):
            del remaining[name]
            if isinstance(bits, int) and bits < FLOAT_BITS:
                quantised.add(name)
    return quantised
