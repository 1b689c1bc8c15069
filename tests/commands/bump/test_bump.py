"""vpatch bump: the report, in all of its forms."""

from __future__ import annotations

import pytest

from tests.commands.bench.browser import fixture_open_page  # noqa: F401
from tests.projects import FILES, LLAMA, archive
from vpatch import __version__
from vpatch.util.extras import EXTRAS

RECIPE = """vllm: 0.50.0
patches: [name-proj, slow-mode]
"""
# The first patch's method has a new line, the second one's is as before.
CHANGED = FILES[LLAMA].replace(
    b"        self.head", b"        self.norm = Norm(4)\n        self.head"
)


@pytest.fixture
def bumped(project):
    """A project with a recipe on 0.50.0; its first patch meets other code in 0.51.0."""
    project.index.add("0.51.0", archive("0.51.0", {LLAMA: CHANGED}))
    _recipe(project, "small", RECIPE)
    return project


def _recipe(project, name, text):
    path = project.folder / "recipes" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


REPORT = f"""\
small: vllm 0.50.0 to 0.51.0
  look again  name-proj
    needed in 1 place -> needed in 1 place
    upstream changed 1 definition that it edits
      edits  Llama.__init__: changed, +1 -0, {LLAMA}:2
  keep  slow-mode
    needed in 1 place -> needed in 1 place
    the code that it edits and reads is the same
1 look again, 1 keep
upstream's commits: not asked for, see --clone and --github

next: read the code that changed with --diff, or with --output report.html
"""
DIFFS = f"""\
        upstream, 0.50.0 to 0.51.0:
          --- {LLAMA}:2
          +++ {LLAMA}:2
          @@ -1,3 +1,4 @@
               def __init__(self, prefix):
                   self.proj = Linear(4, 4)  # narrow
          +        self.norm = Norm(4)
                   self.head = Linear(4, 8)
        patch, 0.50.0:
          --- {LLAMA}:2
          +++ {LLAMA}:2
          @@ -1,3 +1,3 @@
               def __init__(self, prefix):
          -        self.proj = Linear(4, 4)  # narrow
          +        self.proj = Linear(4, 4, prefix=f"{{prefix}}.proj")  # narrow
                   self.head = Linear(4, 8)
"""


def test_the_report(bumped):
    assert bumped.run("bump", "small", "--to", "0.51", code=1).out == REPORT


def test_the_code_that_changed(bumped):
    out = bumped.run("bump", "small", "--to", "0.51", "--diff", code=1).out
    assert DIFFS in out
    assert "next:" not in out


def test_no_recipe_is_every_recipe_of_the_project(bumped):
    _recipe(bumped, "other", "vllm: 0.51.0\npatches: [slow-mode]\n")
    _recipe(bumped, "second", "vllm: 0.50.0\npatches: [slow-mode]\n")
    out = bumped.run("bump", "--to", "latest", code=1).out
    assert [line for line in out.splitlines() if " to 0.51.0" in line] == [
        "second: vllm 0.50.0 to 0.51.0",
        "small: vllm 0.50.0 to 0.51.0",
    ]
    assert "other pins vllm-0.51.0 already" in out
    assert "vllm-0.23" not in out


def test_a_bump_that_needs_nobody_is_clean(bumped):
    _recipe(bumped, "small", "vllm: 0.50.0\npatches: [slow-mode]\n")
    assert bumped.run("bump", "small", "--to", "0.51").out.endswith("1 keep\n\n")


def test_as_json(bumped):
    found = bumped.run("bump", "small", "--to", "0.51", "--json", code=1).json
    (recipe,) = found["recipes"]
    assert [recipe[key]["version"] for key in ("old", "new")] == ["0.50.0", "0.51.0"]
    first, second = recipe["patches"]
    assert [(one["patch"], one["verdict"]) for one in (first, second)] == [
        ("name-proj", "look again"),
        ("slow-mode", "keep"),
    ]
    assert (first["old"]["places"], first["old"]["files"]) == (1, [LLAMA])
    (code,) = first["changed"]
    assert (code["name"], code["kind"], code["edited"]) == ("Llama.__init__", "changed", True)
    assert code["after"]["line"] == 2
    assert code["after"]["code"] == CHANGED.decode().splitlines()[1:]
    assert "prefix=" in code["patched"]["code"][1]
    assert "+        self.norm = Norm(4)" in code["upstream"]


def test_in_markdown(bumped):
    bumped.run("bump", "small", "--to", "0.51", "--output", "report.md", code=1)
    text = (bumped.folder / "report.md").read_text()
    assert text.startswith("# small: vllm 0.50.0 to 0.51.0\n\n1 look again, 1 keep.\n\n")
    assert "## Look again: upstream changed code that the patch edits or reads" in text
    assert "\n- edits  Llama.\\_\\_init\\_\\_: changed, +1 -0, " in text
    assert "  ```diff\n  --- vllm/models/llama.py:2\n" in text
    assert "\n  +        self.norm = Norm(4)\n" in text


def test_a_fence_is_longer_than_what_the_code_has(bumped):
    code = CHANGED.replace(b"Norm(4)", b'Norm("````")')
    bumped.index.add("0.52.0", archive("0.52.0", {LLAMA: code}))
    bumped.run("bump", "small", "--to", "0.52", "--output", "report.md", code=1)
    assert "  `````diff\n" in (bumped.folder / "report.md").read_text()


def test_as_a_page(bumped):
    bumped.index.add("0.52.0", archive("0.52.0", {LLAMA: CHANGED.replace(b"Norm(4)", b"'<b>'")}))
    bumped.run("bump", "small", "--to", "0.52", "--output", "report.html", code=1)
    text = (bumped.folder / "report.html").read_text()
    assert '<span class="added">        self.norm = &#39;&lt;b&gt;&#39;</span>' in text
    assert "<h3>0.50.0, patched</h3>" in text
    assert f"UTC</time> by vpatch {__version__}." in text
    (recipe,) = bumped.run("bump", "small", "--to", "0.52", "--json", code=1).json["recipes"]
    for pin in (recipe["old"], recipe["new"]):
        assert f"<code>{pin['digest']}</code>" in text
    assert "http" not in text


@pytest.mark.parametrize("width", [1400, 600])
@pytest.mark.parametrize(("scheme", "paper"), [("light", (255, 255, 255)), ("dark", (20, 23, 27))])
def test_a_page_can_be_read_in_light_and_dark(bumped, open_page, scheme, paper, width):
    bumped.run("bump", "small", "--to", "0.51", "--output", "report.html", code=1)
    with open_page(bumped.folder / "report.html", scheme, width) as opened:
        assert opened.background() == f"rgb{paper}"
        assert [one for one in opened.contrasts() if one["contrast"] < 4.5] == []
        assert opened.sideways() == 0
        assert opened.complaints == []
        assert [url.rpartition("/")[2] for url in opened.requests] == ["report.html"]


def test_a_page_needs_its_extra(bumped, monkeypatch):
    monkeypatch.setitem(EXTRAS, "bump", ("no_such_module",))
    run = bumped.run("bump", "small", "--to", "0.51", "--output", "report.html", code=4)
    assert run.codes == ("util.missing-extra",)


def test_a_report_of_no_known_form(bumped):
    run = bumped.run("bump", "small", "--to", "0.51", "--output", "report.txt", code=2)
    assert run.codes == ("bump.report-form",)


def test_a_conflict_shows_the_nearest_code(bumped):
    code = FILES[LLAMA].replace(b"self.proj = Linear", b"self.proj = Dense")
    bumped.index.add("0.52.0", archive("0.52.0", {LLAMA: code}))
    out = bumped.run("bump", "small", "--to", "0.52", code=1).out
    assert "  needs a person  name-proj\n" in out
    assert f"    {LLAMA}:4: nearest: self.head = Linear(4, 8)" in out


def test_a_release_before_the_pin_is_refused(bumped):
    bumped.index.add("0.49.0", archive("0.49.0"))
    run = bumped.run("bump", "small", "--to", "0.49.0", code=2)
    assert run.codes == ("bump.backwards",)
    # Unless nobody named the recipe: others may have something to do.
    out = bumped.run("bump", "--to", "0.49.0").out
    assert out == "small pins vllm-0.50.0, which is later\n"


def test_a_project_without_recipes(project):
    run = project.run("bump", "--to", "0.51", code=2)
    assert run.codes == ("bump.no-recipes",)


def test_other_trees_keep_their_pins(bumped):
    engine = bumped.folder / "plugin"
    (engine / "plugin").mkdir(parents=True)
    (engine / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    (engine / "plugin" / "__init__.py").write_text("")
    patch = bumped.patches / "slow-mode" / "patch.yaml"
    patch.write_text(patch.read_text().replace('vllm: ">=0.50"', 'vllm: ">=0.50", plugin: ">=1"'))
    _recipe(bumped, "small", f"{RECIPE}trees: {{plugin: ../plugin}}\n")
    out = bumped.run("bump", "small", "--to", "0.51", code=1).out
    assert "  plugin keeps its pin: vpatch bump compares releases of vLLM only\n" in out
