"""`vpatch test --record-examples`: examples of patches that are there."""

from __future__ import annotations

from tests.projects import FILES, LLAMA, NAMED, SLOW_MODE, archive

WIDE = FILES | {LLAMA: FILES[LLAMA].replace(b"Linear(4, 4)", b"Linear(4, 5)")}


def examples(project, patch_id):
    folder = project.patches / patch_id / "examples"
    return sorted(one.name for one in folder.iterdir()) if folder.exists() else []


def test_the_newest_release_that_needs_the_patch_is_an_example(project):
    project.index.add("0.52.0", archive("0.52.0", {LLAMA: b"class Llama: ...\n"}))
    run = project.run("test", "name-proj", "slow-mode", "--record-examples")
    assert run.out == "wrote  name-proj  needed-0.51.0\nwrote  slow-mode  needed-0.52.0\n"
    folder = project.patches / "name-proj/examples/needed-0.51.0"
    assert (folder / "before" / LLAMA).read_bytes() == FILES[LLAMA]
    assert NAMED in (folder / "after" / LLAMA).read_bytes()
    # What the patch does not change, but concerns it.
    assert sorted(p.name for p in (folder.parents[2] / "slow-mode/examples").rglob("*.py")) == [
        "engine.py",
        "engine.py",
        "llama.py",
        "llama.py",
    ]
    assert "2 of 2 examples hold" in project.run("test", "--no-style").out


def test_each_named_release_is_an_example(project):
    project.index.add("0.52.0", archive("0.52.0", {LLAMA: b"class Llama: ...\n"}))
    args = ("test", "name-proj", "--record-examples", "--vllm", "0.50,0.51,0.52")
    run = project.run(*args, code=1)
    assert examples(project, "name-proj") == ["needed-0.50.0", "needed-0.51.0"]
    assert "left out  name-proj  needed-0.52.0: the patch is conflict: " in run.out
    mine = project.patches / "name-proj/examples/needed-0.50.0/after" / LLAMA
    mine.write_bytes(b"mine\n")
    (first, second, _) = project.run(*args, "--json", code=1).json["examples"]
    assert first["failures"] == ["it is there already, and stays as it is"]
    assert second["example"] == "needed-0.51.0"
    assert mine.read_bytes() == b"mine\n"


def test_each_variant_is_an_example(empty):
    empty.index.add("0.52.0", archive("0.52.0", WIDE))
    folder = empty.patch("name-proj", "- find: f()\n  rewrite: g()\n")
    text = (folder / "patch.yaml").read_text()
    head, _, rest = text.partition("edits:\n")
    edit = "      - {find: 'Linear(4, NUMBER)', rewrite: 'Linear(4, 6)'}\n"
    variants = "".join(
        f"  - name: of-{number}\n    edits:\n{edit.replace('NUMBER', number)}" for number in "45"
    )
    _, _, tail = rest.partition("remove-when")
    (folder / "patch.yaml").write_text(f"{head}variants:\n{variants}remove-when{tail}")
    run = empty.run("test", "name-proj", "--record-examples")
    assert run.out == "wrote  name-proj  needed-0.52.0\nwrote  name-proj  needed-0.51.0\n"


def test_a_patch_that_no_release_needs_has_no_example(project):
    project.patch("lost", "- find: nowhere()\n  rewrite: somewhere()\n")
    run = project.run("test", "lost", "--record-examples", code=1)
    assert run.out == "left out  lost  needed: no release needs the patch by itself\n"
    assert examples(project, "lost") == []
    run = project.run("test", "lost", "--record-examples", "--no-style", code=2)
    assert run.codes == ("cli.unused-option",)


def test_a_patch_that_requires_another_has_no_example_of_its_own(project):
    folder = project.patch("both", SLOW_MODE, more="requires: [name-proj]\n")
    run = project.run("test", "both", "--record-examples", code=1)
    assert "left out  both  needed: the patch requires name-proj, and an example has one" in run.out
    assert not (folder / "examples").exists()
