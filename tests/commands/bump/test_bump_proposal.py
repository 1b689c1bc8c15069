"""Conflicts that are planted on purpose: what vpatch proposes, and where it proposes nothing."""

from __future__ import annotations

import pytest

from tests.projects import ENGINE, FILES, LLAMA, archive

CLASS = FILES[LLAMA].decode()


@pytest.fixture
def planted(project):
    """Return a bump to a release in which these files differ; None takes a file away."""
    (project.folder / "recipes").mkdir()
    (project.folder / "recipes" / "mine.yaml").write_text("vllm: 0.50.0\npatches: [name-proj]\n")

    def bump(files, *args, code=1):
        kept = {path: data for path, data in FILES.items() if path not in files}
        added = {path: text.encode() for path, text in files.items() if text is not None}
        project.index.add("0.51.0", _sdist(kept | added))
        return project.run("bump", "mine", "--to", "0.51", *args, code=code)

    project.bump = bump
    return project


def _sdist(files):
    from tests.index_server import sdist

    return sdist("0.51.0", files)


def proposed(project, files, patch_id="name-proj"):
    """The proposal for the one patch; the changed patch passes the checks in both releases."""
    (patch,) = project.bump(files, "--json").json["recipes"][0]["patches"]
    assert patch["verdict"] == "needs a person"
    proposal = patch["proposal"]
    assert proposal is not None, patch["no_proposal"]
    (project.patches / patch_id / "patch.yaml").write_text(proposal["text"])
    for version in ("0.50.0", "0.51.0"):
        found = project.run("status", "--vllm", version, "--patch", patch_id, "--json").json
        (decision,) = found["trees"][0]["decisions"]
        assert (decision["state"], decision["places"]) == ("needed", 1)
    return proposal


def test_a_renamed_class_gets_a_variant(planted):
    patch = planted.patches / "name-proj" / "patch.yaml"
    text = patch.read_text().replace(
        "  - find: self.proj", "  - within: Llama.__init__\n    find: self.proj"
    )
    patch.write_text(text)
    proposal = proposed(planted, {LLAMA: CLASS.replace("class Llama", "class LlamaModel")})
    assert proposal["said"] == "upstream renamed code: Llama is now LlamaModel"
    assert "  - name: from 0.51.0\n" in proposal["text"]
    assert "within: LlamaModel.__init__\n" in proposal["text"]


def test_a_moved_file_is_named_as_well(planted):
    patch = planted.patches / "name-proj" / "patch.yaml"
    patch.write_text(
        patch.read_text().replace("    add-keyword", f"    files: {LLAMA}\n    add-keyword")
    )
    moved = "vllm/layers/llama.py"
    proposal = proposed(planted, {LLAMA: None, moved: CLASS})
    assert proposal["said"] == f"upstream moved code: {LLAMA} is now {moved}"
    assert f"    files: [{LLAMA}, {moved}]\n" in proposal["text"]


LAUNCH = FILES[ENGINE].decode()
DEEPER = {ENGINE: LAUNCH.replace('mode="fast"', 'mode="fast", depth=1')}


@pytest.fixture
def slow(planted):
    """The same with a patch that rewrites a call, and names all of its arguments."""
    (planted.folder / "recipes" / "mine.yaml").write_text("vllm: 0.50.0\npatches: [slow-mode]\n")
    return planted


def test_an_added_argument_is_let_through(slow):
    proposal = proposed(slow, DEEPER, "slow-mode")
    assert proposal["said"] == 'upstream added an argument: find launch($config, mode="fast", ...)'
    assert [line for line in proposal["diff"][3:] if line[0] in "+-"] == [
        '-  - find: launch($config, mode="fast")',
        '-    rewrite: launch($config, mode="slow")',
        '+  - find: launch($config, mode="fast", ...)',
        '+    rewrite: launch($config, mode="slow", ...)',
    ]


@pytest.mark.parametrize("quote", ["'", '"'])
def test_an_added_parameter_of_a_function_is_let_through(planted, quote):
    edit = f"""
- find: {quote}def start(config): ...{quote}
  rewrite: {quote}def start(config, slow=False): ...{quote}
"""
    planted.patch("slow-mode", edit)
    (planted.folder / "recipes" / "mine.yaml").write_text("vllm: 0.50.0\npatches: [slow-mode]\n")
    proposal = proposed(
        planted, {ENGINE: LAUNCH.replace("start(config)", "start(config, depth=1)")}, "slow-mode"
    )
    assert proposal["said"] == "upstream added an argument: find def start(config, ...): ..."


SPLIT = """class Llama:
    def __init__(self, prefix):
        self._make()
        self.head = Linear(4, 8)

    def _make(self):
        for name in ("proj", "other"):
            setattr(self, name, Linear(4, 4))
"""


WITHIN = """
- within: Llama.__init__
  find: self.proj = Linear(...)
  add-keyword: {prefix: 'f"{self.prefix}.proj"'}
"""
IN_TWO = """class Llama:
    def __init__(self, prefix):
        self.prefix = prefix
        self._make()
        self.head = Linear(4, 8)

    def _make(self):
        self.proj = Linear(4, 4)  # narrow
"""


@pytest.mark.parametrize("within", ["Llama.__init__", '"*.__init__"'])
def test_a_split_function_gets_a_variant_with_the_part_that_is_edited(planted, within):
    planted.patch("name-proj", WITHIN.replace("Llama.__init__", within))
    proposal = proposed(planted, {LLAMA: IN_TWO})
    assert proposal["said"].startswith("upstream split code: ")
    assert f"within: {within.replace('__init__', '_make')}\n" in proposal["text"]


def test_a_split_function_of_which_two_have_the_part_gets_no_proposal(planted):
    planted.patch("name-proj", WITHIN)
    again = "\n    def _again(self):\n        self.proj = Linear(4, 4)  # narrow\n"
    (patch,) = planted.bump({LLAMA: IN_TWO + again}, "--json").json["recipes"][0]["patches"]
    assert patch["proposal"] is None
    assert patch["no_proposal"] == (
        "nothing clearly took the place of the code that the patch is about"
    )


def test_a_split_function_where_a_patch_only_adds_lines(planted):
    edit = """
- within: Llama.__init__
  insert: self.named = True
  after: self.proj = Linear(...)
"""
    planted.patch("name-proj", edit)
    assert "within: Llama._make\n" in proposed(planted, {LLAMA: IN_TWO})["text"]


def test_a_split_function_without_a_successor_gets_no_proposal(planted):
    (patch,) = planted.bump({LLAMA: SPLIT}, "--json").json["recipes"][0]["patches"]
    assert patch["verdict"] == "needs a person"
    assert patch["proposal"] is None
    assert patch["no_proposal"] == (
        "nothing clearly took the place of the code that the patch is about"
    )


def test_a_candidate_that_does_not_hold_is_not_offered(slow):
    other = {ENGINE: LAUNCH.replace('launch(config, mode="fast")', "launch(*modes(config))")}
    (found,) = slow.bump(other, "--json").json["recipes"][0]["patches"]
    assert found["proposal"] is None
    assert found["no_proposal"] == (
        "no change that was tried fits both releases: "
        'upstream added an argument: find launch($config, mode="fast", ...)'
    )


def test_two_twins_are_no_clear_successor(planted):
    patch = planted.patches / "name-proj" / "patch.yaml"
    patch.write_text(
        patch.read_text().replace(
            "  - find: self.proj", "  - within: Llama.__init__\n    find: self.proj"
        )
    )
    twins = (
        CLASS.replace("class Llama", "class A") + "\n\n" + CLASS.replace("class Llama", "class B")
    )
    (found,) = planted.bump({LLAMA: twins}, "--json").json["recipes"][0]["patches"]
    assert found["proposal"] is None
    assert found["no_proposal"]


def test_a_proposal_is_shown_and_not_written(slow):
    patch = slow.patches / "slow-mode" / "patch.yaml"
    before = patch.read_bytes()
    run = slow.bump(DEEPER, "--output", "report.md")
    assert "    proposal, for you to check: upstream added an argument" in run.out
    assert '          +  - find: launch($config, mode="fast", ...)\n' in run.out
    assert patch.read_bytes() == before
    text = (slow.folder / "report.md").read_text()
    assert '\n  +  - find: launch($config, mode="fast", ...)\n' in text


TWICE = LAUNCH + '\n\ndef again(config):\n    return launch(config, mode="fast", depth=1)\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [(TWICE, DEEPER[ENGINE]), (LAUNCH, TWICE.replace('mode="fast")', 'mode="fast", depth=2)'))],
    ids=["more of the old release", "more places of the new release"],
)
def test_a_change_that_edits_more_is_not_offered(slow, before, after):
    patch = slow.patches / "slow-mode" / "patch.yaml"
    patch.write_text(
        patch.read_text().replace("remove-when", "    expect: {at-least: 1}\nremove-when")
    )
    slow.index.add("0.50.0", archive("0.50.0", {ENGINE: before.encode()}))
    (found,) = slow.bump({ENGINE: after}, "--json").json["recipes"][0]["patches"]
    assert found["verdict"] == "needs a person"
    assert found["proposal"] is None
    assert found["no_proposal"].startswith("no change that was tried fits both releases: ")
