"""The public API: what the documentation shows runs on the real archive of vLLM 0.23.0."""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import json
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.commands.audit.cases import advisory
from tests.commands.install import official
from tests.commands.smoke.builders import record_of_run
from tests.documents import ROOT, page, shown
from tests.environments import environment_with_vllm
from tests.helpers import fails
from tests.index_server import Index, serve
from tests.projects import (
    ENGINE,
    FILES,
    LARGE,
    SLOW_MODE,
    archive,
    git,
    own_repository,
    write_patch,
    write_tree,
)
from vpatch import api
from vpatch.evidence.store import write_evidence
from vpatch.library import catalog

PATCH = "mtp-proj-prefix"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_script_of_the_documentation():
    (code,) = re.findall(
        r"^```python\n(.*?)^```", page("how-to/python.md"), re.MULTILINE | re.DOTALL
    )
    assert len(code.splitlines()) <= 30
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "python.md", "exec"), {})  # noqa: S102 - the page's own code
    assert printed.getvalue() == shown("python")


@pytest.mark.slow
def test_the_examples_of_docstrings():
    found = doctest.testmod(api)
    assert found.attempted >= 6
    assert found.failed == 0


def test_every_public_name_is_there_and_documented():
    for name in api.__all__:
        assert getattr(api, name).__doc__, name


def test_what_is_not_there():
    with pytest.raises(api.UsageError, match="no-such-patch"):
        api.status(api.open_context(), "0.23", patches=["no-such-patch"])
    with fails("vpatch.lock-named-twice"):
        api.check(api.open_context(), "0.23", lock="x")


@pytest.mark.parametrize(
    ("argument", "given", "hint"),
    [
        ("patches", PATCH, f"give a list: patches=['{PATCH}']"),
        ("patches", PATCH.encode(), f"give a list: patches=['{PATCH}']"),
        ("patches", "", "leave it out"),
        ("trees", "vllm-ascend==0.23.0", "give a list: trees=['vllm-ascend==0.23.0']"),
    ],
)
@pytest.mark.parametrize(
    "function",
    [
        *(api.status, api.plan, api.apply, api.smoke, api.bench, api.wheel, api.install),
        *(api.build_image, api.plan_image, api.upstream_status),
    ],
)
def test_a_string_is_no_list(function, argument, given, hint):
    with fails("vpatch.not-a-list", match=f"^{argument} is ") as caught:
        function(api.open_context(), "0.23", **{argument: given})
    assert caught.value.hint == hint
    assert isinstance(caught.value, api.UsageError)


@pytest.mark.parametrize("argument", ["patches_dirs", "recipes_dirs"])
@pytest.mark.parametrize("given", ["mine", b"mine", Path("mine")])
def test_one_folder_is_no_list(argument, given):
    with fails("vpatch.not-a-list") as caught:
        api.open_context(**{argument: given})
    assert caught.value.hint == f"give a list: {argument}=['mine']"


def test_the_folder_of_a_context_must_be_there(folder):
    (folder / "file").write_text("")
    for given, what in [("nosuch", "no such folder"), (folder / "file", "not a folder")]:
        with fails("vpatch.not-a-folder", match=what) as caught:
            api.open_context(given)
        assert caught.value.where == str(folder / given)
        assert isinstance(caught.value, api.UsageError)


@pytest.fixture
def mine(folder):
    """A folder with a small vLLM, a patch for it, and a recipe with both."""
    write_tree(folder / "small")
    write_patch(folder / "own", "slow-mode", SLOW_MODE, concerns="text: def start")
    (folder / "lists").mkdir()
    recipe = folder / "lists" / "mine.yaml"
    recipe.write_text("vllm: {source: ../small}\npatches: [slow-mode]\n")
    return recipe


def opened(folder=None, own="own"):
    return api.open_context(folder, patches_dirs=[own], trust_everything=True)


@pytest.mark.usefixtures("mine")
def test_nothing_is_printed(capfd):
    context = opened()
    api.apply(context, "./small", patches=["slow-mode"])
    assert api.check(context).differences == ()
    assert b"+" in api.diff(context, "slow-mode")
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("mine")
def test_a_project_elsewhere(folder, tmp_path_factory, monkeypatch):
    api.apply(opened(), folder / "small", patches=["slow-mode"])
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    (folder / "vpatch.toml").write_text("")
    own = folder / "own"
    result = api.check(opened(folder, own))
    assert (result.differences, result.hint) == ((), None)
    lock = result.path.resolve()
    assert lock.is_relative_to(folder)
    assert api.check(opened(own=own), lock=lock).differences == ()


@pytest.mark.usefixtures("mine")
def test_a_changed_checkout_is_told_with_what_to_do():
    context = opened()
    asked = {"patches": ["slow-mode"], "checkout": "here"}
    (applied,) = api.apply(context, "./small", **asked)
    assert applied.outcome == "created"
    (path, *_) = applied.lock.files
    changed = applied.request.target / path.path
    changed.write_text(changed.read_text() + "# mine\n")
    result = api.check(context, checkout="here")
    assert result.drifted == ()
    assert all(path.path in difference for difference in result.damaged)
    assert result.hint.endswith("--force")
    with pytest.raises(api.VpatchError, match="changes that vpatch did not make"):
        api.apply(context, "./small", **asked)
    assert api.apply(context, "./small", **asked, force=True)


def states(plans):
    return [(d.patch.id, str(d.state)) for plan in plans for d in plan.decisions]


def test_a_version_and_a_recipe_may_be_paths(folder, mine):
    context = api.open_context(patches_dirs=["own"], trust_everything=True)
    needed = [("slow-mode", "needed")]
    for given in (Path("small"), folder / "small", "./small"):
        assert states(api.status(context, given, patches=["slow-mode"])) == needed
        assert states(api.plan(context, given, patches=["slow-mode"])) == needed
    for recipe in (mine, str(mine)):
        assert states(api.status(context, recipe=recipe)) == needed
        assert states(api.plan(context, recipe=recipe)) == needed


def test_a_path_is_no_release():
    with fails("source.wrong-spec", match="no such folder"):
        api.plan(api.open_context(), Path("0.23"))


@pytest.mark.usefixtures("mine")
def test_the_current_folder_may_change_after_the_context_is_opened(
    folder, tmp_path_factory, monkeypatch
):
    (folder / "vpatch.toml").write_text("")
    folders = {"patches_dirs": ["own"], "recipes_dirs": ["lists"]}
    contexts = [api.open_context(given, **folders) for given in (".", None)]
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    for context in contexts:
        assert context.project.marker == folder / "vpatch.toml"
        assert context.project.folder == folder
        assert context.library.patches["slow-mode"] == folder / "own" / "slow-mode"
        assert context.library.recipes["mine"] == folder / "lists" / "mine.yaml"


@pytest.mark.usefixtures("mine")
def test_the_end_of_a_with_block_removes_copies_of_patches():
    with api.open_context(patches_dirs=["own"], trust_everything=True) as context:
        copy = context.trust.copy_of(context.library.patches["slow-mode"])
        assert (copy / "patch.yaml").is_file()
    assert not copy.exists()


def test_strict_refuses_a_new_shape(folder):
    write_tree(folder / "vllm-0.50.0")
    write_patch(folder / "patches", "slow-mode", SLOW_MODE, concerns="text: def start")
    context = api.open_context(offline=True)
    with fails("checkout.patch-stops", "slow-mode is needed: .*; new shape: nothing is recorded"):
        api.apply(context, folder / "vllm-0.50.0", patches=["slow-mode"], strict=True)
    (recipe,) = [folder / "recipes" / "mine.yaml"]
    recipe.parent.mkdir()
    recipe.write_text(f"vllm: {folder}/vllm-0.50.0\npatches: [slow-mode]\nstrict: true\n")
    with fails("checkout.patch-stops", "new shape: nothing is recorded"):
        api.apply(context, recipe=recipe)
    (done,) = api.apply(context, folder / "vllm-0.50.0", patches=["slow-mode"])
    found = api.check(context, checkout=done.request.target)
    assert found.differences == ()
    strict = api.check(context, checkout=done.request.target, strict=True)
    assert "slow-mode is needed: new shape" in strict.differences[0]


def test_a_request_is_the_same_as_keywords(mine):
    context = opened()
    request = api.Request("./small", patches=("slow-mode",))
    needed = [("slow-mode", "needed")]
    assert states(api.plan(context, request)) == needed
    assert states(api.status(context, request, Path("small"))) == needed * 2
    assert states(api.status(context, api.Request(recipe=str(mine)))) == needed
    listed = api.Request("small", patches=["no-such"])  # what a script may well give
    assert states(api.plan(context, listed, vllm=Path("small"), patches=["slow-mode"])) == needed
    with fails("vpatch.not-a-list"):
        api.plan(context, api.Request("./small", patches="slow-mode"))
    with pytest.raises(TypeError, match="both are the vllm"):
        api.plan(context, "./small", vllm="./small")
    with pytest.raises(TypeError, match="patch"):
        api.plan(context, "./small", patch=["slow-mode"])


def test_the_import_of_the_api_imports_no_other_feature():
    code = "import sys, vpatch.api; print(*(m for m in sys.modules if 'vpatch.commands.' in m))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name.split(".")[2] for name in run.stdout.split()} == {"apply", "status"}


DIFF = """\
--- a/vllm/engine.py
+++ b/vllm/engine.py
@@ -1,2 +1,2 @@
 def start(config):
-    return launch(config, mode="fast")
+    return launch(config, mode="exact")
"""
THREADS = """upstream:
- ref: vllm-project/vllm#9
  is: pull request
  relation: same change
  state: merged
  release: 0.24.0
resolves: [{id: CVE-2026-1234}]
effect: {find: 'launch($_, mode="slow")'}
proof:
- {test: test_it.py, engine: cuda, vllm: 0.23.0, fails-before: {test_mode: "assert"}}
- test: test_it.py
  engine: cpu
  vllm: 0.23.0
  fails-before: {test_mode: "assert"}
  not-asked: [{vllm: "==0.23.0", why: it takes hours}]
"""


@pytest.fixture
def project(isolated, monkeypatch):
    """A project with a patch for a small vLLM 0.23.0, its recipe, a library that has neither, and
    an index with the next release."""
    patch = write_patch(
        isolated / "patches", PATCH, SLOW_MODE, concerns="text: def start", more=THREADS
    )
    (patch / "test_it.py").write_text("def test_mode(): assert False\n")
    example = patch / "examples" / "needed-small"
    write_tree(example / "before", {ENGINE: FILES[ENGINE]})
    write_tree(example / "after", {ENGINE: FILES[ENGINE].replace(b"fast", b"slow")})
    (isolated / "recipes").mkdir()
    (isolated / "recipes" / "vllm-0.23.yaml").write_text(f"vllm: 0.23.0\npatches: [{PATCH}]\n")
    (isolated / "vpatch.toml").write_text("")
    (isolated / "fix.diff").write_text(DIFF)
    site = isolated / "site"
    for name in ("patches/security", "recipes", "targets"):
        (site / name).mkdir(parents=True)
    for name in ("advisories", "docker", "known-issues"):
        shutil.copytree(ROOT / name, site / name)
    monkeypatch.setattr(catalog, "__file__", str(site / "vpatch" / "library" / "catalog.py"))
    with serve(Index()) as index:
        index.add("0.23.0", archive("0.23.0"))
        index.add("0.24.0", archive("0.24.0", LARGE))
        wheel = official.write(isolated / "official", version="0.23.0")
        index.archives[wheel.name] = wheel.read_bytes()
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield isolated


trusting = partial(api.open_context, trust_everything=True)


def committed(project):
    own_repository(project)
    git(project, "add", "patches", "recipes")
    git(project, "commit", "--quiet", "-m", "carry")


def test_install_and_uninstall(project):
    env = environment_with_vllm(project / "env", version="0.23.0")
    before = env.state()
    done = api.install(trusting(), "0.23", patches=[PATCH], python=env.python)
    assert (done.outcome, done.files) == ("installed", (ENGINE,))
    assert b'mode="slow"' in (env.site / ENGINE).read_bytes()
    found = api.verify_env(trusting(), env.python)
    assert (found.vllm.state, found.vllm.is_clean) == ("installed", True)
    assert api.uninstall(env.python).files == (ENGINE,)
    assert env.state() == before
    (env.site / ENGINE).write_bytes(b"# mine\n")
    assert not api.verify_env(trusting(), str(env.python)).vllm.is_clean
    with fails("wheel.not-installed"):
        api.uninstall(env.python)


@pytest.mark.usefixtures("project")
def test_this_python_is_the_default():
    for call in (api.uninstall, lambda: api.verify_env(trusting())):
        with pytest.raises(api.UsageError, match="has no vLLM") as caught:
            call()
        assert caught.value.where == sys.executable


def test_a_wheel(project):
    options = api.WheelOptions(wheel=project / "official" / "vllm-0.23.0-py3-none-any.whl")
    made = api.wheel(trusting(), "0.23", patches=[PATCH], options=options)
    assert made.path.parent == Path("dist")
    assert b'mode="slow"' in official.members(made.path)[ENGINE]


@pytest.mark.usefixtures("project")
def test_what_an_image_would_be_built_of():
    options = api.BuildOptions(base="python:3.12", mode="overlay", tags=("team/vllm:1",))
    planned = api.plan_image(trusting(), "0.23", patches=[PATCH], options=options)
    assert (planned.mode, planned.base, planned.files) == ("overlay", "python:3.12", [ENGINE])
    with fails("cli.bad-value", "cannot be the name"):
        api.plan_image(trusting(), "0.23", options=api.BuildOptions(tags=("No!",)))


def test_without_docker_nothing_is_applied_for_an_image(project, monkeypatch):
    # Nothing answers there.
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    with pytest.raises(api.UnavailableError) as caught:
        api.build_image(trusting(), recipe="vllm-0.23", options=api.BuildOptions(base="a:1"))
    assert caught.value.code.startswith("docker.")
    assert not (project / ".vpatch").exists()


@pytest.mark.usefixtures("project")
def test_an_edited_source_is_imported():
    checkout = api.source(trusting(), "src", "0.23")
    assert (checkout.outcome, checkout.pin.version) == ("created", "0.23.0")
    file = checkout.folder / "vllm" / "engine.py"
    file.write_text(file.read_text().replace("fast", "exact"))
    (patch,) = api.import_patches(trusting(), api.ImportRequest("src", releases="none"))
    assert patch.id == "src"
    with pytest.raises(api.VpatchError, match="has changes"):
        api.source(trusting(), "src", "0.23")


@pytest.mark.usefixtures("project")
def test_an_import():
    request = api.ImportRequest("fix.diff", vllm="0.23", text=True, releases="0.24")
    (patch,) = api.import_patches(trusting(), request)
    assert patch.folder == Path("patches/fix")
    assert (patch.needs_a_person, [one.version for one in patch.releases]) == (False, ["0.24.0"])
    assert states(api.plan(trusting(), "0.23", patches=["fix"])) == [("fix", "needed")]
    assert "text:" in (patch.folder / "patch.yaml").read_text()
    assert api.lift_patch(trusting(), "fix", "0.23").count == 1
    assert "rewrite:" in (patch.folder / "patch.yaml").read_text()
    request = api.ImportRequest("fix.diff", tree="vllm==0.23.0", kind="diff", releases="none")
    (other,) = api.import_patches(trusting(), request, output_dir="elsewhere")
    assert (other.folder, other.releases) == (Path("elsewhere/fix"), ())
    with fails("cli.missing-option"):
        api.import_patches(trusting(), api.ImportRequest("fix.diff"))


def test_a_bump(project):
    result = api.bump(trusting(), "0.24", output="bump.md")
    (patch,) = result.report.patches
    assert (patch.verdict, result.written, result.sent) == ("look again", None, None)
    assert PATCH in (project / "bump.md").read_text()
    committed(project)
    write = api.BumpOptions(branch="next", proof=False)
    written = api.bump(trusting(), "0.24", ["vllm-0.23"], write=write).written
    assert git(project, "rev-parse", "next").strip() == written.commit
    assert "0.24.0" in git(project, "show", "next:recipes/vllm-0.24.yaml")
    with fails("bump.none-open"):
        api.settle_bump(trusting(), api.BumpOptions(proof=False))
    with fails("bump.none-open"):
        api.abort_bump(trusting())


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"repository": "o/r"}, "--repository would have no effect without --pr"),
        ({"engine": "cpu", "proof": False}, "--engine would have no effect with --no-proof"),
        ({"pull": True}, "--pr asks GitHub, and --offline forbids it"),
    ],
)
def test_options_of_a_bump_that_exclude_each_other(options, what):
    with fails("cli.unused-option", what):
        api.bump(trusting(offline=True), "0.24", write=api.BumpOptions(**options))
    with fails("vpatch.not-a-list", "^recipes is"):
        api.bump(trusting(), "0.24", "vllm-0.23")


def test_an_audit(project):
    new = project / "new.json"
    new.write_text(json.dumps(advisory(fixed="0.60.0").model_dump(mode="json")))
    request = api.AuditRequest(versions=("0.23",), advisories=str(new))
    result = api.audit(trusting(), request)
    assert (result.has_open(), result.has_open("critical")) == (True, False)
    (run,) = json.loads(api.audit_document(result, "sarif"))["runs"]
    assert "CVE-2026-1234" in {one["ruleId"] for one in run["results"]}
    with fails("cli.bad-value", "no format 'pdf'"):
        api.audit_document(result, "pdf")
    both = api.audit(trusting(), api.AuditRequest(every=True))
    assert [one.plan.pin.version for one in both.trees] == ["0.23.0", "0.24.0"]
    for wrong in (api.AuditRequest(), api.AuditRequest(versions=("0.23",), recipe="vllm-0.23")):
        with fails("cli.wrong-usage"):
            api.audit(trusting(), wrong)


@pytest.mark.usefixtures("project")
def test_upstream_status():
    api.plan(trusting(), "0.23", patches=[PATCH])  # into the cache
    found = api.upstream_status(trusting(offline=True), "0.23", patches=[PATCH])
    ((patch, action),) = [(row.decision.patch.id, row.advice.action) for row in found.rows]
    assert (patch, action) == (PATCH, "keep")
    assert found.rows[0].known[0].answer.release == "0.24.0"


def test_examples_style_and_shapes(project):
    (example,) = api.run_examples(trusting())[PATCH]
    assert (example.name, example.failures) == ("needed-small", ())
    (style,) = api.judge_style(trusting(), PATCH, vllm="0.23")
    assert (style.patch.id, style.release, style.failed) == (PATCH, "0.23.0", ())
    assert style.not_judged
    (recorded,) = api.record_shapes(trusting(), PATCH, vllm="0.23")
    assert [shape.releases for shape in recorded.shapes.shapes["vllm"]] == [("0.23.0",)]
    assert (project / "patches" / PATCH / "shapes.json").is_file()


def test_behaviour_tests_that_are_not_asked(project):
    """No engine is made for these; tests/commands/proofs has those that run."""
    context = trusting()
    write_patch(project / "patches", "bare", SLOW_MODE)
    with fails("harness.no-test", "bare has no behaviour test for cpu"):
        api.run_behaviour_tests(context, "bare", engine="cpu")
    (one,) = api.run_tests_on_releases(context, PATCH, engine="cpu", vllm="0.23")
    assert (one.release, one.found.outcome) == ("0.23.0", "not asked")
    assert one.found.reason.endswith("it takes hours")
    (one,) = api.run_tests_on_recipe(context, "vllm-0.23", PATCH, engine="cpu")
    assert (one.release, one.found.outcome) == ("0.23.0", "not asked")


def evidenced(project):
    log = project / "log"
    log.write_text("")
    asked = {"vllm": "0.23.0", "recipe": None, "tree": [], "patch": [PATCH], "plan": None}
    (project / "evidence" / "one" / "logs").mkdir(parents=True)
    write_evidence(project / "evidence" / "one", record_of_run(log, asked=asked))


def test_evidence(project):
    evidenced(project)
    (one,), errors = api.list_evidence(trusting())
    assert (one.evidence.name, errors) == ("one", [])
    same = api.verify_evidence(trusting(), "one", evidence_dir="evidence")
    assert same.differs == one.differs != []
    assert (same.changed, same.holds) == ([], False)
    with (project / "evidence" / "one" / "report.md").open("a") as file:
        file.write("more")
    assert api.verify_evidence(trusting(), "one").changed == ["report.md"]


@pytest.fixture
def stubs(project, monkeypatch):
    """The use cases that need Docker or a real vLLM only say what they were asked for."""
    calls = []

    def stub(name, result=()):
        def run(*args, **keywords):
            calls.append((name, args, keywords))
            return result

        return run

    folder = SimpleNamespace(folder=project / "evidence" / "one")
    for name, result in {
        "build_image.usecase.apply_and_build": None,
        "build_image.verify.verify": SimpleNamespace(problems=[]),
        "proofs.usecase.run_proofs": (),
        "proofs.releases.run_on_releases": (),
        "proofs.recipe.run_on_recipe": (),
        "smoke.usecase.smoke": folder,
        "bench.usecase.bench": folder,
    }.items():
        monkeypatch.setattr(f"vpatch.commands.{name}", stub(name.rpartition(".")[2], result))
    return calls


def test_the_page_has_an_example_of_each_function_that_runs(project, stubs, monkeypatch):
    environment_with_vllm(project / "env", version="0.23.0")
    api.record_shapes(trusting(), PATCH, vllm="0.23,0.24")
    committed(project)
    evidenced(project)
    plugin = project / "my-plugin" / "my_plugin"
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").write_text("from vllm import NothingOfThisName\n")
    monkeypatch.setattr(api, "open_context", trusting)
    code = "".join(
        re.findall(r"^```python\n(.*?)^```", page("reference/api.md"), re.MULTILINE | re.DOTALL)
    )
    names = {}
    exec(compile(code, "api.md", "exec"), names)  # noqa: S102 - the page's own code
    functions = {name for name in api.__all__ if inspect.isfunction(getattr(api, name))}
    assert {name for name in functions if f"api.{name}(" not in code} == set()
    assert names["states"] == ["needed", "needed"]
    assert names["differences"] == ()
    assert names["verdicts"] == {PATCH: "look again"}
    assert names["branch"].branch == "next"
    assert names["broken"] == ["vllm.NothingOfThisName"]
    assert len(stubs) == 7
