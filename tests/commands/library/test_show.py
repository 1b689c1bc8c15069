from __future__ import annotations

import pytest

from tests.projects import SLOW_MODE, VERSION
from vpatch.commands.library import show_command


def test_show_tells_all_there_is(empty):
    out = empty.run("show", "mtp-proj-prefix").out
    assert out.startswith("mtp-proj-prefix\n[Bugfix][DeepSeek-V4] Pass prefix to the MTP")
    for title in (
        "Why",
        "Symptoms",
        "Edits of the variant both are a ReplicatedLinear",
        "Upstream",
        "Remove when",
        "Proof",
    ):
        assert f"\n{title}\n" in out
    assert "vllm-project/vllm#44821 (pull request, same change, merged, released in 0.24.0)" in out
    assert "\nsha256:" in out
    assert "\x1b" not in out


def test_show_is_as_narrow_as_the_terminal(empty, monkeypatch):
    monkeypatch.setattr(show_command, "line_width", lambda: 60)
    out = empty.run("show", "mtp-proj-prefix").out
    text = out.partition("\nWhy\n")[2].partition("\nsha256:")[0]
    assert max(map(len, text.splitlines())) <= 60


def test_show_as_json(project):
    document = project.run("show", "name-proj", "--json").json
    assert document["id"] == "name-proj"
    assert document["declaration"]["needed-in"] == {"vllm": ">=0.50"}
    assert document["declaration"]["remove-when"] == "never"
    assert document["folder"] == str(project.patches / "name-proj")
    assert document["digest"].startswith("sha256:")


def test_show_of_a_patch_that_is_not_there(project):
    run = project.run("show", "name-prj", code=2)
    assert run.err == "error: there is no patch 'name-prj'\n  next: did you mean 'name-proj'?\n"
    document = project.run("show", "name-prj", "--json", code=2).document
    assert document["errors"][0].pop("code")
    assert document == {
        "schema_version": 1,
        "command": "show",
        "exit_code": 2,
        "result": None,
        "errors": [
            {
                "what": "there is no patch 'name-prj'",
                "where": None,
                "hint": "did you mean 'name-proj'?",
                "exit_code": 2,
            }
        ],
    }


def test_show_without_a_patch(project):
    assert project.run("show", code=2).err == (
        "error: name one patch\n  next: give one PATCH: vpatch list shows all\n"
    )


def test_show_has_the_notes_and_why_it_is_on_request(project):
    folder = project.patch(
        "on-asking", '- find: launch(...)\n  add-keyword: {a: "1"}', more="on-request: it is slow\n"
    )
    (folder / "NOTES.md").write_text("Run on *nothing*.\n\n- yet\n")
    out = project.run("show", "on-asking").out
    assert "\nTaken on request only\n  it is slow\n" in out
    assert "\nNotes\nRun on *nothing*.\n\n- yet\n" in out
    assert "on request" not in project.run("show", "name-proj").out


def test_notes_that_are_not_utf_8(project):
    notes = project.patches / "name-proj" / "NOTES.md"
    notes.write_bytes(b"caf\xe9 and tea\n")
    assert "\nNotes\ncaf\\xe9 and tea\n" in project.run("show", "name-proj").out


def test_notes_that_cannot_be_read(project):
    notes = project.patches / "name-proj" / "NOTES.md"
    with notes.open("wb") as file:
        file.truncate(10_000_000_000)
    run = project.run("show", "name-proj", code=2)
    assert run.codes == ("library.unreadable-notes",)
    assert run.errors == (
        f"error: {notes}: the notes cannot be read: is larger than 64000000 bytes\n"
        "  next: correct or remove it\n"
    )


@pytest.mark.parametrize(
    ("key", "says"), [("requires", "requires"), ("conflicts", "conflicts with")]
)
def test_another_patch_that_is_not_there(project, key, says):
    folder = project.patch("third", SLOW_MODE, more=f"{key}: [name-proj, slow-mod]\n")
    file = folder / "patch.yaml"
    line = file.read_text().splitlines().index(f"{key}: [name-proj, slow-mod]") + 1
    for command in (["show", "third"], ["apply", "--vllm", VERSION]):
        run = project.run(*command, code=2)
        assert run.errors == (
            f"error: {file}:{line}: it {says} 'slow-mod', and there is no such patch\n"
            "  next: did you mean 'slow-mode'?\n"
        )


def test_a_patch_without_risks_and_threads(project):
    shown = project.run("show", "name-proj").out
    assert "\nRisks\n  No risk is known.\n" in shown
    assert "\nUpstream\n  - No thread is known.\n" in shown
