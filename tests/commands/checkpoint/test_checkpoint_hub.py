"""vpatch checkpoint on a repository of the Hub: the real client, and a Hub of this machine."""

from __future__ import annotations

import os
import subprocess
import sys

import huggingface_hub.constants
import pytest

from tests.checkpoint import builders as b
from tests.checkpoint.fake_hub import COMMIT, TOKEN, Hub, running
from tests.commands.test_extras import MAIN, WITHOUT

NAME = "acme/small"


@pytest.fixture(scope="module")
def hub_server():
    with running() as found:
        yield found


@pytest.fixture
def hub(hub_server, empty, tmp_path, monkeypatch):
    vars(hub_server).update(vars(Hub(url=hub_server.url, elsewhere=hub_server.elsewhere)))
    hub_server.add(NAME, b.v4(tmp_path / "v4", ["mtp.0.e_proj"]))
    cache = str(tmp_path / "hub")
    empty.env |= {
        "HF_ENDPOINT": hub_server.url,
        "HF_HOME": cache,
        "NO_PROXY": "127.0.0.1,localhost",
    }
    empty.env |= {"HF_TOKEN": TOKEN, "HF_HUB_OFFLINE": "0"}
    # The client reads these variables when it is imported: in this process, long ago.
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", f"{cache}/hub")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    yield hub_server
    huggingface_hub.close_session()


def inspect(project, *args, **options):
    return project.run("checkpoint", "inspect", *args, **options)


# Each way to be refused: what is typed, what the Hub answers, and how the command ends.
REFUSED = [
    ("acme/none", {}, 2, "checkpoint.no-such-repository", "the Hub shows this user no such"),
    (f"{NAME}@v9", {}, 2, "checkpoint.no-such-repository", "the repository has no such revision"),
    (NAME, {f"/{NAME}/resolve": (403, "GatedRepo")}, 4, "checkpoint.gated", "is gated"),
    (NAME, {"/api/": (429, "")}, 4, "checkpoint.hub-unavailable", "too many requests"),
    (NAME, {"/api/": (500, "")}, 4, "checkpoint.hub-unavailable", "the Hub answers with 500"),
]


def same(text, root):
    return text.replace(str(root), "ROOT")


@pytest.mark.parametrize("revision", ["", "@main", f"@{COMMIT}"])
def test_the_answer_is_that_of_the_folder(hub, empty, revision):
    folder = hub.repositories[NAME]
    there = inspect(empty, NAME + revision, code=1)
    assert same(there.out, NAME + revision) == same(inspect(empty, folder, code=1).out, folder)
    assert TOKEN not in there.out + there.err


def test_150_gb_by_their_headers_alone(hub, empty, tmp_path):
    folder = b.many_shards(tmp_path / "large")
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")]
    assert sum(sizes) > 149e9
    hub.add("acme/large", folder)
    found = inspect(empty, "acme/large", "--json", code=None).json
    assert len(found["shards"]["present"]) == 31
    assert hub.sent < 5_000_000


def test_a_header_that_is_longer_than_most(hub, empty, tmp_path):
    tensors = {f"model.layers.0.experts.{n}.up.weight": b.matrix() for n in range(2000)}
    folder = b.write_checkpoint(tmp_path / "long", b.config_of("LlamaForCausalLM"), tensors)
    hub.add("acme/long", folder)
    found = inspect(empty, "acme/long", "--json", code=None).json
    assert found["dtypes"]["BF16"]["tensors"] == 2000


def test_the_token_goes_to_the_hub_alone(hub, empty):
    hub.private.add(NAME)
    inspect(empty, NAME, code=1)
    asked = [one for one in hub.of("hub") if NAME in one.path]
    assert {one.authorization for one in asked} == {f"Bearer {TOKEN}"}
    assert {one.authorization for one in hub.of("cdn")} == {None}


@pytest.mark.parametrize(("typed", "ends", "code", "name", "says"), REFUSED)
def test_what_the_hub_refuses(hub, empty, typed, ends, code, name, says):
    hub.ends = {path: [end] * 40 for path, end in ends.items()}
    run = inspect(empty, typed, "--json", code=code)
    (error,) = run.json_errors
    assert error["code"] == name
    assert error["where"].startswith(typed)
    assert says in error["what"]
    assert error["hint"]
    assert TOKEN not in run.out + run.err


def test_an_answer_that_comes_at_the_second_request(hub, empty):
    hub.ends = {f"/{NAME}/resolve": [(503, "")]}
    inspect(empty, NAME, code=1)
    assert not hub.ends[f"/{NAME}/resolve"]


def test_a_server_that_would_send_whole_files(hub, empty, tmp_path):
    shard = {"model.layers.0.a.weight": b.matrix(rows=65536, columns=65536)}
    hub.add("acme/whole", b.write_checkpoint(tmp_path / "whole", {}, shard))
    hub.ranges = False
    run = inspect(empty, "acme/whole", code=4)
    assert "the server does not send ranges of a file" in run.errors
    assert hub.sent < 50_000_000


def test_an_answer_that_breaks_off(hub, empty):
    hub.cut = True
    run = inspect(empty, NAME, code=4)
    assert "the Hub does not answer: RemoteProtocolError" in run.errors


@pytest.mark.usefixtures("hub")
def test_no_hub(empty):
    empty.env["HF_ENDPOINT"] = "http://127.0.0.1:9"
    run = inspect(empty, NAME, code=4)
    assert f"{NAME}: the Hub does not answer: ConnectError" in run.errors


def test_offline_with_nothing_in_the_cache(hub, empty, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    run = inspect(empty, NAME, code=4)
    assert "the cache of the Hub's client does not have it" in run.errors
    assert hub.requests == []


def test_the_cache_is_used(hub, empty):
    fetched = huggingface_hub.snapshot_download(NAME, endpoint=hub.url)
    hub.requests.clear()
    online = inspect(empty, NAME, code=1)
    assert not [one.path for one in hub.requests if "/resolve/" in one.path]
    hub.requests.clear()
    # A process of its own: it has the cache's place and its mode from variables.
    empty.env["HF_HUB_OFFLINE"] = "1"
    offline = inspect(empty, NAME, code=1, in_process=False)
    assert hub.requests == []
    assert same(offline.out, fetched) == same(online.out, NAME)


@pytest.mark.usefixtures("hub")
def test_names_are_compared_there_and_not_corrected(empty):
    words = ["checkpoint", "ignore-names", NAME]
    run = empty.run(*words, code=1)
    assert "missed   model.layers.2.e_proj" in run.out
    run = empty.run(*words, "--write", "--json", code=2)
    (error,) = run.json_errors
    assert error["code"] == "checkpoint.read-only"
    assert error["hint"] == "download it, and name its folder"


def test_a_folder_of_that_name_is_meant(hub, empty):
    b.mimo(empty.folder / "acme" / "small")
    assert "MiMoForCausalLM" in inspect(empty, NAME).out
    assert hub.requests == []


RUN = ("--vllm", "0.50", "--engine", sys.executable, "--name", "one")


@pytest.fixture
def lacking(hub, smoked):  # noqa: ARG001 - it is asked
    """A project whose plan names a checkpoint that is on the Hub alone."""
    text = smoked.recipe.read_text()
    assert str(smoked.folder / "model") in text
    smoked.recipe.write_text(text.replace(str(smoked.folder / "model"), NAME))
    return smoked


def test_a_smoke_run_looks_at_the_hub_before_it_starts(hub, lacking):
    """What keeps the checkpoint from running is said before anybody downloads it."""
    run = lacking.run("smoke", *RUN, code=2)
    shown = inspect(lacking, NAME, code=1).out
    title = shown.splitlines()[0]
    assert title.startswith("DeepseekV4ForCausalLM")
    lines = run.err.splitlines()
    start = next(n for n, line in enumerate(lines) if "is not on this machine;" in line)
    assert lines[start].startswith("error: ")
    assert lines[start + 1 : start + 3] == ["    the Hub has it:", f"      {title}"]
    # The small vLLM has no registry of models.
    assert any(line.startswith("      vpatch cannot read what vLLM 0.50.0 has") for line in lines)
    assert "      this prevents loading: " in run.err
    assert f"next: fetch it (hf download {NAME} --revision main)" in lines[-1]
    assert TOKEN not in run.out + run.err
    assert hub.sent < 100_000
    assert not (lacking.folder / "evidence").exists()


def test_a_benchmark_looks_at_the_hub_before_it_starts(lacking):
    words = ("--vllm", "0.50", "--engine", sys.executable, "--model", NAME)
    lacking.recipe.write_text(lacking.recipe.read_text() + BENCH)
    run = lacking.run("bench", *words, code=2)
    assert "the Hub has it:\n      DeepseekV4ForCausalLM" in run.err


BENCH = """
bench:
  models: {given: {checkpoint: acme/small}}
  shapes: [{input: 8, output: 4}]
  cells:
    - {model: given, k: [0]}
"""


@pytest.mark.parametrize(
    ("typed", "ends", "words", "code", "says"),
    [
        ("acme/none", {}, (), 2, "the Hub shows this user no such repository"),
        (NAME, {f"/{NAME}/resolve": (403, "GatedRepo")}, (), 4, "the repository is gated"),
        (NAME, {"/api/": (500, "")}, (), 2, "the Hub tells no more: the Hub answers with 500"),
        (NAME, {}, ("--offline",), 2, "the Hub was not asked, because of --offline"),
    ],
)
def test_a_run_that_learns_nothing_of_the_hub(hub, lacking, typed, ends, words, code, says):
    lacking.recipe.write_text(lacking.recipe.read_text().replace(NAME, typed))
    if "--offline" in words:
        lacking.run("apply", "--vllm", "0.50")  # it has the source then
    hub.ends = {path: [end] * 9 for path, end in ends.items()}
    run = lacking.run("smoke", *RUN, *words, code=code)
    assert says in run.err


def test_a_run_whose_client_is_offline(lacking, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert "tells no more: HF_HUB_OFFLINE is set" in lacking.run("smoke", *RUN, code=2).err


def test_all_that_is_missing_is_said_with_what_the_hub_refuses(hub, lacking):
    text = lacking.recipe.read_text()
    lacking.recipe.write_text(text.replace("smoke:\n", "smoke:\n  needs: {gpus: 64}\n"))
    hub.ends = {f"/{NAME}/resolve": [(403, "GatedRepo")] * 9}
    run = lacking.run("smoke", *RUN, code=4)
    assert "the repository is gated" in run.err
    assert "needs 64 GPUs" in run.err


def test_a_checkpoint_that_vpatch_cannot_read_is_still_to_be_fetched(hub, lacking, tmp_path):
    folder = tmp_path / "gguf"
    folder.mkdir()
    (folder / "model.gguf").write_bytes(b"GGUF" + bytes(60))
    hub.add("acme/gguf", folder)
    lacking.recipe.write_text(lacking.recipe.read_text().replace(NAME, "acme/gguf"))
    run = lacking.run("smoke", *RUN, code=2)
    assert "the Hub tells no more: it is in GGUF" in run.err
    assert "next: fetch it (hf download acme/gguf --revision main)" in run.err


def test_what_a_checkpoint_says_does_not_look_like_an_error(hub, lacking):
    config = hub.repositories[NAME] / "config.json"
    config.write_text(config.read_text().replace("DeepseekV4ForCausalLM", "Evil\\nerror: forged"))
    run = lacking.run("smoke", *RUN, code=2)
    assert "Evil?error: forged" in run.err


def test_without_the_packages_of_the_hub(lacking):
    lacking.trust()
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT, "huggingface_hub", MAIN, "smoke", *RUN],
        cwd=lacking.folder,
        env=os.environ | lacking.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2, run.stderr
    assert "the Hub tells no more: " in run.stderr
    assert "pip install 'vpatch[hub]'" in run.stderr
