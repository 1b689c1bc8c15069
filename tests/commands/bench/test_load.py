"""One load, sent by a `vllm bench serve` of a few lines to a server of a few lines."""

from __future__ import annotations

import ast
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands.bench.fakes import serving
from tests.test_releases import TABLE
from vpatch.commands.bench.cells import Load
from vpatch.commands.bench.load import Sender, send
from vpatch.commands.bench.load_result import LoadResult, measured_from
from vpatch.declare.bench import Shape
from vpatch.declare.smoke import Sampling
from vpatch.harness.measured import Fault
from vpatch.harness.predict import Counters
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

LOAD = Load(Shape(input=8, output=7), 2, 6, 11)


@pytest.fixture
def at(tmp_path):
    """Sends a load to a server with k, with both as FAKE_FAULT says."""

    def at(k=2, fault="", client_fault="", seconds=20.0, load=LOAD, sampling=None, flags=None):
        with serving(tmp_path, k, fault) as (target, sandbox):
            sender = Sender(
                sandbox, sampling or Sampling(), {"FAKE_FAULT": client_fault}, seconds, flags or {}
            )
            workdir = tmp_path / "room"
            workdir.mkdir(exist_ok=True)
            log, raw = tmp_path / "client.log", tmp_path / "raw.json"
            return send(load, target, sender, workdir, log, raw)

    return at


def test_what_came_of_a_load(at, tmp_path):
    found = at()
    assert isinstance(found, LoadResult), found
    raw = json.loads((tmp_path / "raw.json").read_text())
    assert (found.requests, found.input_tokens, found.output_tokens) == (6, 48, 42)
    assert found.output_tokens_per_second == raw["output_throughput"]
    # Of each request the first token is the prompt's; two steps of three make the other six.
    assert found.counters == Counters(12, 24, 24, (12, 12))
    for name, figure in found.latencies.items():
        assert figure.mean == raw[f"mean_{name}_ms"]
        assert figure.p99 == raw[f"p99_{name}_ms"]
        assert len(figure.quantiles) == 101
        assert list(figure.quantiles) == sorted(figure.quantiles)
        assert figure.quantiles[0] - 1e-3 <= figure.p50 <= figure.quantiles[-1] + 1e-3
    first = sorted(raw["ttfts"])
    assert found.latencies["ttft"].quantiles[100] == pytest.approx(1000 * first[-1], abs=1e-3)
    whole = [a + sum(b) for a, b in zip(raw["ttfts"], raw["itls"], strict=True)]
    assert found.latencies["e2el"].quantiles[0] == pytest.approx(1000 * min(whole), abs=1e-3)
    per_token = [sum(gaps) / 6 for gaps in raw["itls"]]
    assert found.latencies["tpot"].quantiles[100] == pytest.approx(1000 * max(per_token), abs=1e-3)


def test_prompts_that_the_server_has_seen(at):
    """The fake has one prefix of 4 tokens for all."""
    assert at().cached_tokens == 6 * 4
    assert at(fault="keeps nothing").cached_tokens == 0


def test_nothing_is_drafted_with_k_0(at):
    assert at(k=0).counters == Counters()


def test_a_second_load_counts_by_itself(tmp_path):
    with serving(tmp_path, 2, "") as (target, sandbox):
        sender = Sender(sandbox, Sampling(), {}, 20.0)
        found = [
            send(LOAD, target, sender, tmp_path, tmp_path / f"{n}.log", tmp_path / f"{n}.json")
            for n in range(2)
        ]
    assert [one.counters.drafts for one in found] == [12, 12]
    assert [one.cached_tokens for one in found] == [24, 24]


def test_what_vllm_bench_serve_is_told(at, tmp_path):
    at(sampling=Sampling.model_validate({"temperature": 0.5, "top-p": 0.9, "seed": 3}))
    (said,) = (
        line for line in (tmp_path / "client.log").read_text().splitlines() if "seed=" in line
    )
    for word in (
        *("backend='openai'", "endpoint='/v1/completions'", "dataset_name='random'"),
        *("input_len=8", "output_len=7", "num_prompts=6", "max_concurrency=2", "seed=11"),
        *("temperature=0.5", "ignore_eos=True", "save_detailed=True", "ready_check_timeout_sec=0"),
        *("percentile_metrics='ttft,tpot,itl,e2el'", "metric_percentiles='50,95,99'"),
        'extra_body=\'{"top_p": 0.9, "seed": 3}\'',
    ):
        assert word in said, word


def test_prompts_from_a_file(at, tmp_path, monkeypatch):
    """The client runs in a folder of its own, and the plan's paths are of the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mixed.jsonl").write_text("{}")
    shape = Shape(dataset="custom", path="mixed.jsonl", output=7)
    at(load=replace(LOAD, shape=shape), sampling=Sampling.model_validate({"ignore-eos": False}))
    said = (tmp_path / "client.log").read_text()
    assert f"dataset_path='{tmp_path / 'mixed.jsonl'}'" in said
    assert "dataset_name='custom'" in said
    assert "input_len=None" in said
    assert "ignore_eos=False" in said
    assert "skip_chat_template=False" in said
    assert "trust_remote_code=False" in said
    at(load=replace(LOAD, shape=shape.model_copy(update={"chat_template": False})))
    assert "skip_chat_template=True" in (tmp_path / "client.log").read_text()


def test_the_sender_knows_what_the_server_knows_of_the_tokenizer(at, tmp_path):
    at(flags={"trust-remote-code": True, "tokenizer-mode": "mistral", "max-num-seqs": 8})
    said = (tmp_path / "client.log").read_text()
    assert "trust_remote_code=True" in said
    assert "tokenizer_mode='mistral'" in said


def test_short_answers_to_prompts_from_a_file(at, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mixed.jsonl").write_text("{}")
    shape = Shape(dataset="custom", path="mixed.jsonl", output=7)
    found = at(fault="cut", load=replace(LOAD, shape=shape))
    assert found.what == "24 tokens came, and 42 were asked for"


def test_answers_in_one_piece_have_no_time_between(at):
    found = at(fault="one piece")
    assert isinstance(found, Fault)
    raw = {"duration": 1, "completed": 1, "total_input_tokens": 1, "total_output_tokens": 2}
    raw |= {"output_throughput": 2, "output_lens": [2], "ttfts": [0.5], "itls": [[]]}
    raw |= {
        f"{which}_{name}_ms": 0.0
        for which in ("mean", "p50", "p95", "p99")
        for name in ("ttft", "tpot", "itl", "e2el")
    }
    assert set(measured_from(raw, Counters(), 0).latencies["itl"].quantiles) == {0.0}


@pytest.mark.parametrize(
    ("faults", "kind", "said"),
    [
        ({"fault": "refuses"}, "wrong answer", "6 of 6 requests failed: HTTP Error 500"),
        ({"fault": "cut"}, "wrong answer", "24 tokens came, and 42 were asked for"),
        ({"fault": "miscounted"}, "not alone", "the server made 48 tokens while 6 requests got 42"),
        (
            {"client_fault": "short answers"},
            "wrong answer",
            "41 tokens came, and 42 were asked for",
        ),
        ({"client_fault": "client dies"}, "crashed", "vllm bench serve ended with 1"),
        ({"client_fault": "client of another time"}, "wrong answer", "'p95_itl_ms'"),
        ({"client_fault": "client hangs", "seconds": 2.0}, "takes too long", "not done after 2 s"),
    ],
)
def test_what_is_no_measurement(at, faults, kind, said):
    found = at(**faults)
    assert isinstance(found, Fault), found
    assert found.kind == kind
    assert said in found.what
    if "client_fault" in faults:
        assert found.ending


def test_what_another_load_left_is_not_taken_for_this_one(at):
    assert isinstance(at(), LoadResult)
    found = at(client_fault="client is silent")
    assert (found.kind, found.what) == ("crashed", "vllm bench serve ended with 0")


def test_counters_that_cannot_be_read(at):
    found = at(fault="no metrics")
    assert found.kind == "wrong answer"
    assert found.what.startswith("its counters cannot be read: /metrics answered 404")


@pytest.fixture(scope="module")
def options():
    """The options that a client is given."""
    source = Path(sys.modules["vpatch.commands.bench.load"].__file__).read_text()
    options = {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and str(node.value).startswith("--")
    }
    assert len(options) > 20
    return options


# Other quick tests need the archive of 0.23.0 as well; to fetch those of all others takes long.
@pytest.mark.parametrize(
    "version",
    ["0.23.0", *(pytest.param(v, marks=pytest.mark.slow) for v in TABLE if v != "0.23.0")],
)
def test_every_release_knows_what_it_is_told(version, options):
    """The options of the real one, and the keys that are read of what it writes."""
    with Context().tree(parse_vllm(version)) as tree:
        paths = [path for path in tree.paths() if path.startswith("vllm/benchmarks/")]
        text = "\n".join(tree.read(path).decode() for path in paths if path.endswith(".py"))
        entry = tree.read("vllm/entrypoints/cli/benchmark/serve.py").decode()
    assert {option for option in options if f'"{option}"' not in text} == set()
    for key in ("duration", "completed", "total_input_tokens", "total_output_tokens", "errors"):
        assert f'"{key}": ' in text, key
    for key in ("output_throughput", "output_lens", "ttfts", "itls"):
        assert f'"{key}": ' in text, key
    assert 'result[f"mean_{metric_attribute_name}_ms"]' in text
    assert 'result[f"p{p_word}_{metric_attribute_name}_ms"]' in text
    assert "class BenchmarkServingSubcommand" in entry
    # The key of a server is read from there, and is no option.
    assert 'os.environ.get("OPENAI_API_KEY")' in text
    for dataset in ("random", "custom", "sharegpt", "spec_bench"):
        assert f'"{dataset}"' in text
