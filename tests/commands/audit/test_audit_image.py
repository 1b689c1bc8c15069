from __future__ import annotations

import json

from tests.commands.audit.cases import advisory
from tests.commands.audit.test_audit import ID, audit, ours
from tests.docker_engine import PACKAGES


def test_audit_of_an_image_verifies_it_first(patched, docker):
    with (patched.patches / "strength" / "patch.yaml").open("a") as file:
        file.write(f"resolves: [{{id: {ID}}}]\n")
    row = advisory(fixed="0.60.0").model_dump(mode="json")
    (patched.folder / "new.json").write_text(json.dumps(row))
    inside = json.loads(docker.run(patched.tag, "cat", "/opt/vpatch/vllm.openvex.json"))
    assert len(inside["statements"]) > 0
    labels = docker.settings(patched.tag)["Labels"]
    assert labels["vpatch.vex"] == "/opt/vpatch/vllm.openvex.json"
    bill = json.loads(docker.run(patched.tag, "cat", labels["vpatch.sbom"]))
    (patch,) = bill["metadata"]["component"]["pedigree"]["patches"]
    assert patch["resolves"][0]["id"] == "strength"
    assert patch["diff"]["text"]["content"].startswith("--- a/vllm/")
    # All of the image: what its base has, too.
    (libc,) = [one for one in bill["components"] if one["name"] == "libc6"]
    assert libc["purl"].startswith("pkg:deb/debian/libc6@")
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert "org.opencontainers.image.created" in labels
    author = ("--author", "ACME <psirt@acme.example>")
    own = audit(patched, "--image", patched.tag, "--format", "cyclonedx", *author, code=None)
    names = {one["name"] for one in json.loads(own.out)["components"]}
    assert {one["name"] for one in bill["components"]} == names
    run = audit(patched, "--image", patched.tag, "--json")
    found = ours(run)
    assert [one["state"] for one in found["patches"]] == ["applied"]
    assert found["status"] == "under_investigation"
    assert run.json["trees"][0]["image"] == docker.id(patched.tag)
    vex = audit(patched, "--image", patched.tag, "--count-untested", "--format", "openvex")
    (statement,) = [
        one for one in json.loads(vex.out)["statements"] if one["vulnerability"]["name"] == ID
    ]
    assert statement["status"] == "fixed"
    whole, package = statement["products"]
    assert whole["@id"].startswith("pkg:oci/vpatch-test-smoked@sha256%3A")
    assert package["@id"] == "pkg:pypi/vllm@0.50.0%2Bcpu"
    changed = f"{patched.tag}-changed"
    docker.build(changed, f"FROM {patched.tag}\nCOPY layer.py {PACKAGES}/vllm/", {"layer.py": b""})
    bare = f"{patched.tag}-bare"
    docker.build(bare, f"FROM {patched.tag}\nRUN rm {labels['vpatch.vex']}", {})
    try:
        run = patched.run("verify-image", bare, code=1)
        assert f"{labels['vpatch.vex']}: it is missing" in run.out
        refused = audit(patched, "--image", changed, code=1)
        assert refused.codes == ("image.not-as-locked",)
        assert f"run vpatch verify-image {changed}" in refused.err
    finally:
        docker.forget(changed, bare)
