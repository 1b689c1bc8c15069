"""A body: filled, cleaned by upstream's own bot, edited by people, brought up to date."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.commands.upstream.releases import release
from vpatch.commands.upstream.body import facts_of, render, update, with_fact
from vpatch.declare.target import Target, Template
from vpatch.declare.yamlfile import read_yaml

ROOT = Path(__file__).parents[3]
TEMPLATE = read_yaml(ROOT / "targets" / "vllm.yaml", Target)[0].template
FILE = TEMPLATE.file
PARTS = {
    "summary": "It cures.",
    "claims": "- one\n- two",
    "reproduction": "run it",
    "commands": "```bash\npytest\n```",
    "results": "| a |\n|---|\n| b |",
    "cause": "It was so.",
    "not a duplicate": "Searched.",
    "limits": "None.",
    "assistance": "",
}
FACTS = {"patch": "one", "digest": "sha256:1"}


def text_of(version):
    with release(version) as tree:
        return tree.read(FILE).decode()


def bodied(version="0.33.0", *, parts=PARTS, assisted=False):
    return render(TEMPLATE, text_of(version), parts, FACTS, assisted=assisted)


def below(body, heading):
    """What stands below a heading, up to the next, without comments."""
    text = body.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    while "<!--" in text:
        before, _, rest = text.partition("<!--")
        text = before + rest.partition("-->")[2]
    return "\n\n".join(part.strip() for part in text.split("\n\n") if part.strip())


def bot(body):
    """What upstream's bot makes of a new body: its script, run by node as GitHub would."""
    if shutil.which("node") is None:
        pytest.skip("no node here")
    with release("0.33.0") as tree:
        workflow = YAML(typ="safe").load(tree.read(".github/workflows/new_pr_bot.yml"))
    script = workflow["jobs"]["update-description"]["steps"][0]["with"]["script"]
    stub = f"""
const context = {{repo: {{owner: "o", repo: "r"}}, issue: {{number: 1}}}};
let body = {json.dumps(body)};
const github = {{rest: {{pulls: {{
  get: async () => ({{data: {{body}}}}),
  update: async (sent) => {{ body = sent.body; }},
}}}}}};
const log = console.log; console.log = () => {{}};
(async () => {{ await (async () => {{ {script} }})(); log(JSON.stringify(body)); }})();
"""
    ran = subprocess.run(["node", "-e", stub], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


def test_the_template_of_today():
    body = bodied()
    assert below(body, "Overview") == "It cures."
    assert below(body, "Claims") == "- one\n- two"
    assert below(body, "Validation") == "run it\n\n```bash\npytest\n```\n\n| a |\n|---|\n| b |"
    assert below(body, "Details").startswith("It was so.\n\nSearched.\n\nNone.\n\n---")
    assert "- [ ] AI assistance was used" in body
    assert "- [x]" not in body
    template = [line for line in text_of("0.33.0").splitlines() if line]
    assert [line for line in body.splitlines() if line in template] == template


def test_the_template_until_it():
    body = bodied("0.23.0", parts=PARTS | {"assistance": "A machine helped."})
    assert below(body, "Purpose").endswith("None.\n\nA machine helped.")
    assert below(body, "Test Plan") == "run it\n\n```bash\npytest\n```"
    assert below(body, "Test Result").startswith("| a |\n|---|\n| b |\n\n---")


def test_assistance_ticks_its_box():
    body = bodied(assisted=True)
    assert body.count("- [x]") == 1
    assert "- [x] AI assistance was used during the creation of this PR." in body


def test_what_no_heading_takes_comes_before_the_end():
    template = Template.model_validate(
        {"file": "x", "sections": {"What": ("summary",), "Not here": ("claims",)}}
    )
    text = "## What\n\n```\n## Not here\n```\n<!--\n## Not here\n-->\n\n---\nchecklist\n"
    body = render(template, text, PARTS, {}, assisted=False)
    assert below(body, "What") == "It cures.\n\n```"
    rest = below(body, "Details")
    assert rest.startswith("- one\n- two\n\nrun it")
    assert rest.endswith("None.\n\n---\nchecklist")
    alone = render(None, "", PARTS, FACTS, assisted=True)
    assert below(f"\n{alone}", "Purpose") == "It cures.\n\n- one\n- two"
    assert below(f"\n{alone}", "Validation").startswith("run it")
    assert below(f"\n{alone}", "Details").startswith("It was so.")


def test_upstreams_bot_leaves_what_the_next_run_needs():
    body = with_fact(bodied(), "commit", "abc")
    cleaned = bot(body)
    assert cleaned != body
    assert "BEFORE SUBMITTING" not in cleaned
    assert facts_of(cleaned) == FACTS | {"commit": "abc"}
    again = update(cleaned, bodied(parts=PARTS | {"summary": "It cures more."}))
    assert again.unwritten == ()
    assert again.text.count("It cures more.") == 1
    assert "It cures.\n" not in again.text


def test_nothing_changes_where_nothing_is_new():
    body = bodied()
    assert update(body, body).text == body
    # As GitHub's own editor sends it.
    assert update(body.replace("\n", "\r\n"), body).text == body


def test_what_people_wrote_is_kept():
    body = bodied()
    edited = body.replace("It cures.", "It cures, says Ann.").replace(
        "## Claims\n", "## Claims\n\nAnn's own words.\n"
    )
    edited = edited.replace("- [ ] **Code", "- [x] **Code")
    new = bodied(parts=PARTS | {"summary": "It cures more.", "claims": "- three"})
    found = update(edited, new)
    assert found.unwritten == ("Overview: a person wrote there, so it was left as it is",)
    assert "It cures, says Ann." in found.text
    assert "It cures more." not in found.text
    assert "Ann's own words." in found.text
    assert "- three" in found.text
    assert "- two" not in found.text
    assert "- [x] **Code" in found.text


def test_a_part_that_was_removed_stays_away():
    body = bodied()
    start, end = body.index("<!-- vpatch Claims"), body.index("end of Claims -->")
    found = update(body[:start] + body[end + len("end of Claims -->") :], bodied())
    assert found.unwritten == ("Claims: a person removed it, so it was left as it is",)
    assert "- two" not in found.text


def test_facts_are_found_again_and_replaced():
    old = with_fact(bodied(), "commit", "abc")
    new = with_fact(
        render(TEMPLATE, text_of("0.33.0"), PARTS, {"patch": "one"}, assisted=False),
        "commit",
        "def",
    )
    assert facts_of(update(old, new).text) == {"patch": "one", "commit": "def"}
    assert facts_of("by hand") == {}
    assert facts_of(update("by hand", new).text)["commit"] == "def"
    assert update("by hand", new).text.endswith("\nby hand")


def test_a_heading_of_the_templates_that_is_called_as_ours():
    template = Template.model_validate({"file": "x", "sections": {"Details": ("summary",)}})
    body = render(template, "## Details\n", PARTS, FACTS, assisted=False)
    new = render(template, "## Details\n", PARTS | {"claims": "- three"}, FACTS, assisted=False)
    found = update(body, new).text
    assert found.count("It cures.") == 1
    assert found.count("- three") == 1
    assert "- two" not in found


def test_what_looks_as_a_rule_or_a_marker_in_a_part():
    template = Template.model_validate({"file": "x", "sections": {"What": ("reproduction",)}})
    odd = "```yaml\na: 1\n---\nb: 2\n```\n<!-- vpatch\nend of What -->"
    body = render(
        template, "## What\n\n---\nbox\n", PARTS | {"reproduction": odd}, {}, assisted=False
    )
    assert "a: 1\n---\nb: 2" in body
    assert body.index("b: 2") < body.index("## Details") < body.index("\n---\nbox")
    assert update(body, body).unwritten == ()


def test_upstreams_template_became_another():
    old, new = bodied("0.23.0"), bodied("0.33.0")
    found = update(old, new)
    assert "Purpose: upstream's template has no such heading any more" in found.unwritten[0]
    assert "It cures." in found.text
    assert len(found.unwritten) == 3 + 4


def test_a_body_by_hand_is_not_filled():
    found = update("By Ann.", bodied())
    assert found.text.endswith("By Ann.")
    assert all("nothing in the body is vpatch's" in one for one in found.unwritten)
    assert len(found.unwritten) == 4
