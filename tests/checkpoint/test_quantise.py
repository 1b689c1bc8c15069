"""Quantising apart from the arithmetic: files, paths and the process that does the arithmetic."""

from __future__ import annotations

import hashlib
import signal
from pathlib import Path

import pytest

from tests.checkpoint import builders as b
from tests.checkpoint.test_graft import digests, numbered
from tests.checkpoint.test_switching import killed
from vpatch.checkpoint.quantise import quantise_mtp
from vpatch.checkpoint.quantiser import Quantiser
from vpatch.progress import Silent

MTP = "model.mtp_layers.0"
CONFIG = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "config_groups": {
        "all": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
        }
    },
    "ignore": ["lm_head", f"re:{MTP}.*"],
}


class ZeroQuantiser(Quantiser):
    """Answers as the process would whose current folder is /; all values become zeros."""

    def __init__(self):
        self.version = "0"

    def _ask(self, op, **order):
        match op:
            case "schemes":
                return {"formats": {"all": "float-quantized"}}
            case "match":
                return {"matches": [["all", "lm_head" in names] for names in order["modules"]]}
            case "layout":
                return {"layouts": [self._layout(*job["shape"]) for job in order["jobs"]]}
        file = Path("/", order["file"])
        layout = self._layout(*order["job"]["shape"])
        sizes = {name: rows * columns for name, _, (rows, columns), _ in layout}
        assert file.stat().st_size >= max(order["at"].values())
        return {"digests": {n: hashlib.sha256(bytes(c)).hexdigest() for n, c in sizes.items()}}

    def _layout(self, rows, columns):
        return [
            ("weight", "F8_E4M3", (rows, columns), False),
            ("weight_scale", "U8", (rows, 1), False),
        ]


def trunk(folder):
    """A quantised trunk with an MTP layer that is not, in one shard and without an index."""
    tensors = b.trunk(dtype="F8_E4M3")
    matrices = [name for name, (dtype, _) in tensors.items() if dtype == "F8_E4M3"]
    tensors |= {f"{name}_scale": ("U8", (b.HIDDEN, 1)) for name in matrices}
    tensors |= b.mimo_head()
    config = b.config_of("MiMoForCausalLM", num_nextn_predict_layers=1, quantization_config=CONFIG)
    return b.write_checkpoint(folder, config, tensors, values=numbered(tensors))


def test_a_folder_that_is_named_from_the_current_one(tmp_path, monkeypatch):
    trunk(tmp_path / "checkpoint")
    monkeypatch.chdir(tmp_path)
    assert quantise_mtp(Path("checkpoint"), ZeroQuantiser(), Silent()).modules


def test_ctrl_c_at_any_step_leaves_nothing_half_done(tmp_path):
    whole = trunk(tmp_path / "whole")
    old = digests(whole)
    quantise_mtp(whole, ZeroQuantiser(), Silent())
    new = digests(whole)
    seen = []
    for step in range(1, 100, 2):
        folder = trunk(tmp_path / f"folder-{step}")
        work = lambda folder=folder: quantise_mtp(folder, ZeroQuantiser(), Silent())  # noqa: E731
        if not killed(step, work, ending=signal.SIGINT):
            break
        assert digests(folder) in (old, new), step
        seen.append(digests(folder) == new)
    assert {*seen} == {False, True}


def test_ctrl_c_while_the_process_starts_ends_it(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Quantiser, "_read", interrupt)
    quantiser = Quantiser(python)
    with pytest.raises(KeyboardInterrupt), quantiser:
        raise AssertionError("it is not entered")
    assert quantiser._process.returncode == -signal.SIGKILL
