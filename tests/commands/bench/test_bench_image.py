"""vpatch bench in images, with a real Docker Engine and a vLLM of a few lines."""

from __future__ import annotations

import json
import re

import pytest

from tests.commands.bench.test_bench import PLAN
from tests.docker_engine import PACKAGES


@pytest.fixture
def benched(patched, monkeypatch):
    # They take longer to draw than the loads to run.
    monkeypatch.setattr("vpatch.commands.bench.report.page.plots_of", lambda _: [])
    checkpoint = str(patched.folder / "model")
    plan = PLAN.replace("MODEL", checkpoint).replace("k: [0, 2]", "k: [2]")
    patched.recipe.write_text(patched.recipe.read_text() + plan)
    return patched


def record_of(project):
    return json.loads((project.folder / "bench" / "one" / "bench.json").read_text())


def test_an_image_under_load(benched, docker):
    """The plan is that of the recipe that the image was built from."""
    before = docker.containers()
    run = benched.run("bench", "--image", benched.tag, "--name", "one")
    assert "2 of 2 runs measured" in run.out
    record = record_of(benched)
    (side,) = record["sides"]
    assert side["what"] == f"image {benched.tag}, vLLM 0.50.0"
    assert side["image"]["id"] == docker.id(benched.tag)
    assert [patch["id"] for patch in side["subject"][0]["patches"]] == ["strength"]
    assert side["inherited"] == {}
    assert [point["measured"]["counters"]["drafts"] for point in record["points"]] == [4, 8]
    assert docker.containers() == before


def test_two_images(benched, docker):
    other = f"{benched.tag}-other"
    docker.build(other, f"FROM {benched.tag}\nRUN touch {PACKAGES}/other", {})
    try:
        pair = f"image:{benched.tag},image:{other}"
        run = benched.run("bench", "--compare", pair, "--name", "one", "--repeats", "3")
    finally:
        docker.forget(other)
    assert "12 of 12 runs measured" in run.out
    sides = record_of(benched)["sides"]
    assert [side["name"] for side in sides] == ["A", "B"]
    assert sides[0]["image"]["id"] != sides[1]["image"]["id"]
    assert len(re.findall(r"^\| given .* \| B +\| [\d.]+x \[", run.out, flags=re.MULTILINE)) == 2


def test_prompts_from_a_file_are_seen_in_there(benched, monkeypatch):
    monkeypatch.setattr("vpatch.commands.bench.run._READER", "json")
    (benched.folder / "mixed.jsonl").write_text("{}\n")
    text = benched.recipe.read_text().replace(
        "[{input: 8, output: 7}]", "[{dataset: custom, path: mixed.jsonl, output: 7}]"
    )
    benched.recipe.write_text(text)
    benched.run("bench", "--image", benched.tag, "--name", "one")
    log = next((benched.folder / "bench" / "one" / "logs").glob("*c-1.log"))
    assert f"dataset_path='{benched.folder / 'mixed.jsonl'}'" in log.read_text()


def test_an_image_that_is_not_there(benched):
    run = benched.run("bench", "--image", "no-such:image", "--name", "one", code=2)
    assert run.codes == ("image.not-here",)
