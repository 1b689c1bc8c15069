"""accepted-advisories.yaml: what a project accepts, as each format shows it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pytest

from tests.commands.audit.cases import CURED, HOLE, ID, advisory, fix, plan_of
from tests.commands.audit.cases import recorded as record
from tests.commands.audit.openvex_model import Document
from tests.commands.audit.sarif_schema import sarif_validator
from tests.commands.audit.test_audit import audit, ours
from tests.projects import VERSION
from vpatch.commands.audit.acceptance import accept_findings, find_unused, read_accepted
from vpatch.commands.audit.documents import document_of
from vpatch.commands.audit.judge import judge
from vpatch.commands.audit.result import AuditedTree, AuditResult
from vpatch.errors import VpatchError
from vpatch.library.advisories import Advisories
from vpatch.library.project import Project

AT = datetime(2026, 11, 23, tzinfo=UTC)
LATER, BEFORE = "2999-12-31", "2020-01-31"
FILE = "accepted-advisories.yaml"


def entry(name=ID, until=LATER, reason="Only the gateway reaches it."):
    return f"accepted:\n  - id: {name}\n    reason: {reason}\n    until: {until}\n"


def accept(project, text):
    # What makes it a project, so that the file is beside it.
    (project.folder / "vpatch.toml").touch()
    (project.folder / FILE).write_text(text)


@pytest.fixture
def accepting(holed):
    accept(holed, entry())
    return holed


def test_an_audit_is_green_with_what_the_project_accepts(accepting):
    run = audit(accepting, "--vllm", VERSION)
    first = run.out.splitlines()[0]
    assert first.startswith(f"vllm {VERSION}  1 affected (1 accepted), ")
    assert f"    accepted until {LATER}: Only the gateway reaches it.\n" in run.out
    # Nothing is left to cure.
    assert "next: " not in run.out
    audit(accepting, "--vllm", VERSION, "--fail-on", "critical")


def test_the_status_is_that_of_the_code(accepting):
    found = ours(audit(accepting, "--vllm", VERSION, "--json"))
    assert found["status"] == "affected"
    assert found["accepted"] == {
        "id": ID,
        "reason": "Only the gateway reaches it.",
        "until": LATER,
        "expired": False,
        "where": f"{FILE}:2",
    }


def test_an_entry_whose_day_has_passed_counts_again(holed):
    accept(holed, entry(until=BEFORE))
    run = audit(holed, "--vllm", VERSION, code=1)
    assert f"counts again, as it was accepted until {BEFORE}: Only the gateway" in run.out
    assert "next: vpatch apply" in run.out
    assert "(1 accepted)" not in run.out
    assert ours(audit(holed, "--vllm", VERSION, "--json", code=1))["accepted"]["expired"]


def test_the_last_day_is_accepted_as_a_whole(tmp_path):
    project = Project(tmp_path, None)
    (tmp_path / FILE).write_text(entry(until="2026-11-23"))
    (on_the_day,) = read_accepted(project, date(2026, 11, 23))
    (a_day_later,) = read_accepted(project, date(2026, 11, 24))
    assert (on_the_day.expired, a_day_later.expired) == (False, True)


def test_an_alias_accepts_as_well(holed):
    row = advisory(fixed="0.60.0", aliases=["GHSA-aaaa-bbbb-cccc"]).model_dump(mode="json")
    (holed.folder / "new.json").write_text(json.dumps(row))
    accept(holed, entry("GHSA-aaaa-bbbb-cccc"))
    audit(holed, "--vllm", VERSION)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("CVE-1999-1", "vpatch knows no advisory of this id"),
        ("CVE-2026-77", "it is not affected here"),
    ],
)
def test_an_entry_that_accepts_nothing_is_named(holed, name, why):
    rows = [json.loads((holed.folder / "new.json").read_text())]
    rows.append(advisory("CVE-2026-77", fixed="0.10.0").model_dump(mode="json"))
    (holed.folder / "new.json").write_text(json.dumps(rows))
    accept(holed, entry(name))
    run = audit(holed, "--vllm", VERSION, code=1)
    assert f"{FILE}:2: {name} is accepted, and {why}\n" in run.out
    (unused,) = audit(holed, "--vllm", VERSION, "--json", code=1).json["unused_accepted"]
    assert (unused["id"], unused["why"], unused["where"]) == (name, why, f"{FILE}:2")
    markdown = audit(holed, "--vllm", VERSION, "--format", "markdown", code=1).out
    assert f"- {FILE}:2: {name} is accepted, and {why}\n" in markdown


def test_a_table_has_another_letter_for_what_is_accepted(accepting):
    accepting.run("apply", "--vllm", VERSION, "--security", "all")
    run = audit(accepting, "--vllm", f"{VERSION},./.vpatch/vllm-{VERSION}")
    (row,) = [line for line in run.out.splitlines() if line.startswith(ID)]
    # What is under investigation there is accepted, too.
    assert row.split()[1:] == ["a", "i"]
    assert "a affected (accepted) 1" in run.out


GOOD = "{id: CVE-1, reason: x, until: 2999-01-01}"


@pytest.mark.parametrize(
    ("text", "where", "what", "hint"),
    [
        ("accepted:\n  - {id: CVE-1, until: 2999-01-01}", 2, "'reason' is missing", "add it"),
        ("accepted:\n  - {id: CVE-1, reason: x}", 2, "'until' is missing", "add it"),
        (f"accepted:\n  - {GOOD}\n  - reason: x\n    until: 2999-01-01", 3, "'id' is", "add it"),
        ("accepted:\n- id: A\n  until: 2999-01-01\n  reason: ' '", 4, "must not be empty", "why"),
        ("accepted:\n- id: A\n  reason: x\n  until: soon", 4, "'soon' is not a day", "2027-01-31"),
        ("accepted:\n- id: A\n  reason: x\n  until: 2027-02-30", 4, "is not a day", "2027-01-31"),
        ("accepted:\n  - CVE-1", 2, "must be a mapping of keys", "write `accepted:`"),
        ("accepted: 5", 1, "must be a list", "write `accepted:`"),
        (f"accept:\n  - {GOOD}", 1, "unknown key 'accept'", "did you mean 'accepted'?"),
        ("- a", 1, "must hold a mapping", "write"),
        (
            f"{entry()}  - {{id: {ID}, reason: y, until: 2998-01-01}}",
            5,
            f"{ID} is accepted in {FILE}:2 already",
            "remove one",
        ),
    ],
)
def test_a_wrong_entry_is_refused_with_its_line(holed, text, where, what, hint):
    accept(holed, text)
    (error,) = audit(holed, "--vllm", VERSION, "--json", code=2).json_errors
    assert error["where"] == f"{FILE}:{where}"
    assert what in error["what"]
    assert hint in error["hint"]


def test_a_file_of_another_name_is_refused(holed):
    accept(holed, entry())
    (holed.folder / FILE).rename(holed.folder / "accepted-advisories.yml")
    (error,) = audit(holed, "--vllm", VERSION, "--json", code=2).json_errors
    assert (error["code"], error["hint"]) == ("library.wrong-file", f"rename it to {FILE}")


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / FILE).symlink_to(tmp_path / "none")
    with pytest.raises(VpatchError) as error:
        read_accepted(Project(tmp_path, None))
    assert error.value.code == "declare.unreadable"


@pytest.fixture
def document(tmp_path):
    """Write an audit of the small vLLM in a format, with an entry that ends on a day."""
    patch = record(fix(tmp_path))

    def write(form, until=LATER, code=HOLE, **keys):
        (tmp_path / FILE).write_text(entry(until=until, reason="It | is *inside*."))
        accepted = read_accepted(Project(tmp_path, None))
        plan = plan_of([patch], code, **keys)
        tree = accept_findings(AuditedTree("small vllm", plan, judge([advisory()], plan)), accepted)
        unused = tuple(find_unused([tree], accepted))
        result = AuditResult(Advisories((advisory(),), AT), (tree,), unused)
        return document_of(result, form, AT)

    return write


@pytest.mark.parametrize(
    ("until", "words"), [(LATER, f"accepted until {LATER}"), (BEFORE, "counts again, as it was")]
)
def test_no_document_for_scanners_takes_an_accepted_hole_for_a_closed_one(document, until, words):
    vex = document("openvex", until)
    Document.model_validate_json(vex)
    (statement,) = json.loads(vex)["statements"]
    assert statement["status"] == "affected"
    assert f"the project says: {words}" in statement["status_notes"]
    (found,) = json.loads(document("cyclonedx", until))["vulnerabilities"]
    assert found["analysis"]["state"] == "exploitable"
    assert f"the project says: {words}" in found["analysis"]["detail"]


def test_sarif_has_a_suppression_with_the_reason(document):
    found = json.loads(document("sarif"))
    sarif_validator().validate(found)
    (result,) = found["runs"][0]["results"]
    (suppression,) = result["suppressions"]
    assert suppression == {
        "kind": "external",
        "status": "accepted",
        "justification": f"accepted until {LATER}: It | is *inside*.",
    }
    assert result["level"] == "error"


def test_sarif_has_no_suppression_after_the_day(document):
    found = json.loads(document("sarif", BEFORE))
    sarif_validator().validate(found)
    (result,) = found["runs"][0]["results"]
    assert result["suppressions"] == []
    assert f"it counts again, as it was accepted until {BEFORE}" in result["message"]["text"]


def test_markdown_shows_what_is_accepted_and_no_markup_of_others(document):
    text = document("markdown")
    assert f"| high | affected (accepted) | accepted until {LATER}: It \\| is \\*inside\\*." in text
    assert "| high | affected | counts again" in document("markdown", BEFORE)


def test_what_is_fixed_is_not_accepted(document):
    assert "(accepted)" not in document("markdown", code=CURED, carried={"fix"})
    (statement,) = json.loads(document("openvex", code=CURED, carried={"fix"}))["statements"]
    assert statement["status"] == "fixed"
    assert "accepted" not in statement["status_notes"]


def test_a_recipe_is_the_first_place_in_sarif(holed):
    """A code host shows a place in its own repository."""
    (holed.folder / "recipes").mkdir()
    holed.patch("name-proj", "- find: Linear(4, 8)\n  rewrite: Linear(8, 8)")
    text = f"why: a\n\nvllm: {VERSION}\npatches: [name-proj]\n"
    (holed.folder / "recipes" / "plain.yaml").write_text(text)
    found = json.loads(audit(holed, "--recipe", "plain", "--format", "sarif", code=1).out)
    sarif_validator().validate(found)
    (result,) = [one for one in found["runs"][0]["results"] if one["ruleId"] == ID]
    (place,) = result["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "recipes/plain.yaml"},
        "region": {"startLine": 3},
    }
    (code,) = result["relatedLocations"]
    assert code["physicalLocation"]["artifactLocation"]["uri"] == "vllm/engine.py"
    (tree,) = audit(holed, "--recipe", "plain", "--json", code=1).json["trees"]
    assert (tree["declared"]["path"], tree["declared"]["line"]) == ("recipes/plain.yaml", 3)
