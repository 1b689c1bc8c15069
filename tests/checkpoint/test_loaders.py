"""Which releases load an MTP head: what vpatch says, and what their own loaders do."""

from __future__ import annotations

import itertools
import re
from contextlib import ExitStack

import pytest

from tests.checkpoint import builders as b
from tests.checkpoint.loaders import LAYERS, MODELS, DraftLoader, LoaderRefusalError
from vpatch.checkpoint.gaps import RELEASES, gaps_of, why_nowhere
from vpatch.checkpoint.report import inspection_lines
from vpatch.checkpoint.schemes import family_of
from vpatch.checkpoint.tokenizer import Tokenizer
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

HEAD, EMBEDDING, NORM = "shared_head.head", "embed_tokens", "shared_head.norm"
# The draft model: the first of these that the registry of a release has.
DRAFTS = {
    "DeepseekV3ForCausalLM": ("DeepSeekMTPModel",),
    "GlmMoeDsaForCausalLM": ("DeepseekV32MTPModel", "DeepSeekMTPModel"),
    "Glm4MoeForCausalLM": ("Glm4MoeMTPModel",),
    "Glm4MoeLiteForCausalLM": ("Glm4MoeLiteMTPModel",),
    "GlmOcrForConditionalGeneration": ("GlmOcrMTPModel",),
    "PanguUltraMoEForCausalLM": ("OpenPanguMTPModel",),
    "HYV3ForCausalLM": ("HYV3MTPModel",),
    "Step3p5ForCausalLM": ("Step3p5MTP",),
}
WITHOUT = ((), (HEAD,), (EMBEDDING,), (HEAD, EMBEDDING), (NORM,), ("enorm",), ("eh_proj",))
CASES = [
    (architecture, prefix, layers, quantised, without)
    for architecture, layers, quantised, without in itertools.product(
        DRAFTS, (1, 2), (False, True), WITHOUT
    )
    for prefix in (("model.", "model.language_model.") if "Ocr" in architecture else ("model.",))
    # Its loader counts nothing, so that it does not say what is missing.
    if "HYV3" not in architecture or not {NORM, "enorm", "eh_proj"}.intersection(without)
]


def head_of(architecture, prefix, layers, without=()):
    last = "final_layernorm" if architecture.startswith("HYV3") else NORM
    tensors = {}
    for number in range(LAYERS, LAYERS + layers):
        start = f"{prefix}layers.{number}"
        norms = ("enorm", "hnorm", last, "input_layernorm")
        tensors |= {f"{start}.{name}.weight": b.NORM for name in norms}
        matrices = ("eh_proj", HEAD, EMBEDDING, "self_attn.o_proj")
        tensors |= {f"{start}.{name}.weight": b.matrix() for name in matrices}
    lost = tuple(f"layers.{LAYERS + n}.{name}.weight" for n in range(layers) for name in without)
    return {n: t for n, t in tensors.items() if not (lost and n.endswith(lost))}


def trunk_of(prefix):
    tensors = {f"{prefix}embed_tokens.weight": b.matrix(), "lm_head.weight": b.matrix()}
    for number in range(LAYERS):
        tensors[f"{prefix}layers.{number}.input_layernorm.weight"] = b.NORM
        tensors[f"{prefix}layers.{number}.self_attn.o_proj.weight"] = b.matrix()
    return tensors


def checkpoint(folder, architecture, prefix, layers, *, quantised=False, without=()):
    config = b.config_of(architecture, LAYERS, num_nextn_predict_layers=layers)
    if quantised:
        config["quantization_config"] = {"quant_method": "fp8"}
    tensors = trunk_of(prefix) | head_of(architecture, prefix, layers, without)
    return b.look_at(b.write_checkpoint(folder, config, tensors))


@pytest.fixture(scope="module")
def trees():
    with ExitStack() as stack:
        yield {v: stack.enter_context(Context().tree(parse_vllm(v))) for v in RELEASES}


def registered(tree):
    """Return the file and the class of each draft, by its name in the registry of a release."""
    text = tree.read(f"{MODELS}/registry.py").decode()
    entries = re.findall(r'"(\w+)": \(\s*"([\w.]+)",\s*"(\w+)",?\s*\)', text)
    return {
        name: (
            f"{module.replace('.', '/')}/nvidia/mtp.py"
            if "." in module
            else f"{MODELS}/{module}.py",
            made,
        )
        for name, module, made in entries
    }


@pytest.fixture(scope="module")
def loaders(trees):
    """The loader of each draft, by the release and the architecture."""
    ready = {}
    for release, tree in trees.items():
        drafts = registered(tree)
        for architecture, names in DRAFTS.items():
            ready[release, architecture] = DraftLoader(
                tree, *next(drafts[one] for one in names if one in drafts)
            )
    return ready


@pytest.mark.slow
def test_each_release_loads_what_vpatch_says_that_it_loads(loaders, tmp_path):
    wrong = []
    for number, case in enumerate(CASES):
        architecture, prefix, layers, quantised, without = case
        inspection = checkpoint(
            tmp_path / str(number), architecture, prefix, layers,
            quantised=quantised, without=without,
        )  # fmt: skip
        gaps, nowhere = gaps_of(inspection), why_nowhere(inspection)
        names = inspection.checkpoint.names()
        # What a quantised checkpoint lacks, no release says: a norm stays as it was made.
        silent = quantised and bool(inspection.mtp.missing)
        for release in RELEASES:
            try:
                loaded = loaders[release, architecture].load(
                    names, layers=layers, quantised=quantised
                )
                # The loader of HYV3 returns nothing.
                loads = loaded is None or any(".eh_proj." in one for one in loaded)
            except LoaderRefusalError:
                loads = False
            runs = nowhere is None and not any(gap.has(release) for gap in gaps)
            if not silent and loads is not runs:
                wrong.append((release, case, loads))
    assert wrong == []


def lines(inspection):
    return "\n".join(one.text for one in inspection_lines(inspection, Tokenizer(None), ()))


def test_a_head_that_takes_its_embeddings_from_the_trunk(tmp_path):
    found = checkpoint(tmp_path, "GlmMoeDsaForCausalLM", "model.", 1, without=(HEAD, EMBEDDING))
    text = lines(found)
    assert "0.21.0 or later runs its MTP" in text
    assert '0.20.0 to 0.20.2 do not: they end with "not initialized from checkpoint": ' in text
    assert "model.layers.2.shared_head.head, model.layers.2.embed_tokens" in text


def test_a_quantised_head_takes_its_embeddings_from_the_trunk_everywhere(tmp_path):
    found = checkpoint(
        tmp_path, "GlmMoeDsaForCausalLM", "model.", 1, quantised=True, without=(HEAD, EMBEDDING)
    )
    assert gaps_of(found) == ()


@pytest.mark.parametrize("quantised", [False, True])
def test_a_head_without_its_norm_runs_nowhere(quantised, tmp_path):
    found = checkpoint(
        tmp_path, "DeepseekV3ForCausalLM", "model.", 1, quantised=quantised, without=(NORM,)
    )
    assert found.mtp.missing == ("model.layers.2.shared_head.norm",)
    text = lines(found)
    assert "no release runs its MTP as it is: model.layers.2.shared_head.norm is missing" in text
    assert "--speculative-config" not in text


def test_a_head_of_step_needs_its_output(tmp_path):
    found = checkpoint(tmp_path, "Step3p5ForCausalLM", "model.", 1, without=(HEAD,))
    assert found.mtp.missing == ("model.layers.2.shared_head.output",)
    assert family_of("Step3p5ForCausalLM").scheme.left_away == "transformer."


MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
ASKED = "ask the config about shared_head.head"


@pytest.mark.parametrize(
    ("architecture", "entry", "reason"),
    [
        ("Glm4MoeForCausalLM", "lm_head", f"{ASKED} as model.layers.2.head"),
        ("Glm4MoeForCausalLM", "model.layers.2.shared_head*", f"{ASKED} as model.layers.2.head"),
        ("Glm4MoeForCausalLM", "model.layers.2*", None),
        ("Glm4MoeForCausalLM", "model.layers.2.head", None),
        ("PanguUltraMoEForCausalLM", "model.layers.2.shared_head*", None),
        ("HYV3ForCausalLM", "model.layers.2*", f"{ASKED} by no name"),
    ],
)
def test_a_head_of_a_layer_that_modelopt_covers_by_another_name(
    architecture, entry, reason, tmp_path
):
    config = b.config_of(architecture, LAYERS, num_nextn_predict_layers=1)
    tensors = trunk_of("model.") | head_of(architecture, "model.", 1)
    for algorithm, expected in (("NVFP4", reason), ("FP8", None)):
        method = {**MODELOPT, "quant_algo": algorithm, "ignore": ["lm_head", entry]}
        whole = config | {"quantization_config": method}
        gaps = gaps_of(b.look_at(b.write_checkpoint(tmp_path, whole, tensors)))
        assert [(one.since, one.last) for one in gaps] == (
            [("0.23.0", "0.33.0")] if expected else []
        )
        assert expected is None or expected in gaps[0].reason
