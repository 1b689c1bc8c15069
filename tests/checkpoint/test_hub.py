"""A Hub that answers with what no Hub sends.

tests/commands/checkpoint/test_checkpoint_hub.py has the real one.
"""

from __future__ import annotations

import json

import huggingface_hub
import pytest

from tests.helpers import fails
from tests.raw_server import dripping, for_ever, head, sending
from vpatch.checkpoint import hub
from vpatch.checkpoint.folder import open_checkpoint, read_checkpoint

COMMIT = "1234567890abcdef1234567890abcdef12345678"
SPACE = b" " * 1000
REPOSITORY = {"sha": COMMIT, "siblings": [{"rfilename": "config.json", "size": 2}]}
REFUSED = "checkpoint.hub-unavailable"


def described(document=None):
    text = json.dumps(REPOSITORY if document is None else document).encode()
    return [head(Content_Length=len(text)), text]


def sibling(**keys):
    return {"sha": COMMIT, "siblings": [{"rfilename": "config.json", "size": 2} | keys]}


@pytest.fixture(autouse=True)
def _client(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "_LARGEST_REFUSAL", 100_000)
    monkeypatch.setattr(hub, "_LARGEST_LIST", 100_000)
    yield
    huggingface_hub.close_session()


def read(monkeypatch, description, files=None):
    answers = {"/api": description, **(files or {})}
    with sending(lambda path: next(a for p, a in answers.items() if p in path)) as port:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
        return read_checkpoint(hub.open_repository("acme/small"))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ([head(), *for_ever(SPACE)], "more than was asked for"),
        ([head("404 Not Found"), *for_ever(SPACE)], "more than was asked for"),
        ([head("302 Found", Location="/api/x"), *for_ever(SPACE)], "more than was asked for"),
        ([head(Content_Length="9" * 5000), SPACE], "does not answer"),
        ([head("302 Found", Location="/api/x", Content_Length=0)], "TooManyRedirects"),
        ([head("302 Found", Location="http://[", Content_Length=0)], "does not answer"),
        ([head(Content_Length=9), b"not json!"], "it is not JSON"),
        ([head(), b"[" * 90_000], "nested too deeply"),
        ([head("404 Not Found"), b"[" * 90_000], "the Hub"),
        ([head(), b"\xff\xfe"], "it is not JSON"),
        ([head(), b"1" * 5000], "it is not JSON"),
        (described([]), "not that of a Hub"),
        (described({"siblings": "config.json"}), "siblings: must be a list"),
        (described({"siblings": ["config.json"]}), "siblings"),
        (described({"siblings": {"a": 1}}), "siblings"),
        (described(sibling(size="many")), "size"),
        (described(sibling(size=-1)), "size"),
        (described(sibling(size=10**30)), "size"),
        (described(sibling(rfilename=7)), "rfilename"),
        (described({"sha": "../../refs"}), "sha"),
        (described({"sha": 7}), "sha"),
    ],
)
def test_what_no_hub_tells_of_a_repository(monkeypatch, answer, says):
    with fails(REFUSED, says):
        read(monkeypatch, answer)


@pytest.mark.parametrize("name", ["..", "", ".", "a\\b", "a\0b", "a/b", "\u202e"])
def test_names_that_are_no_files_of_the_folder(monkeypatch, name):
    with fails("checkpoint.wrong-format", "there are no safetensors files"):
        read(monkeypatch, described(sibling(rfilename=name)))


RANGE = {"Content_Range": "bytes 0-1/2"}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ([head("206 Partial Content", **RANGE), *for_ever(SPACE)], "more than was asked for"),
        (
            [
                head("206 Partial Content", Transfer_Encoding="chunked", **RANGE),
                *for_ever(b"1\r\n \r\n"),
            ],
            "more than was asked for",
        ),
        (
            [head("206 Partial Content", Content_Length=10**12, **RANGE), *for_ever(SPACE)],
            "more than was asked for",
        ),
        ([head("206 Partial Content", **RANGE), b"{"], "sent 1 of 2 bytes"),
        ([head("206 Partial Content"), b"{}"], "another range"),
        ([head("206 Partial Content", Content_Range="bytes 2-3/9"), b"{}"], "another range"),
        (
            [head("206 Partial Content", Content_Range="bytes ²-1/2"), b"{}"],
            "does not answer|range",
        ),
        ([head("206 Partial Content", Content_Range=f"bytes 0-{'9' * 5000}/2"), b"{}"], "range"),
        ([head(), *for_ever(SPACE)], "does not send ranges"),
        ([head("416 Range Not Satisfiable"), *for_ever(SPACE)], "more than was asked|416"),
    ],
)
def test_what_no_hub_sends_of_a_file(monkeypatch, answer, says):
    with fails(REFUSED, says):
        read(monkeypatch, described(), {"/resolve/": answer})


@pytest.mark.parametrize("part", ["/api", "/resolve/"])
def test_a_hub_that_is_too_slow(monkeypatch, part):
    monkeypatch.setattr(hub, "_LONGEST", 0.3)
    answers = {"/api": described(), part: dripping(head("206 Partial Content", **RANGE) + SPACE)}
    with fails(REFUSED, r"takes longer than 0\.3 s"):
        read(monkeypatch, answers.pop("/api"), answers)


def test_a_checkpoint_that_takes_too_long_in_all(monkeypatch):
    monkeypatch.setattr(hub, "_LONGEST_OF_ALL", 0.0)
    # A whole answer could be there before anybody looks at the time.
    slow = dripping(head("206 Partial Content", **RANGE) + SPACE)
    with fails(REFUSED, "takes longer than 0 s"):
        read(monkeypatch, described(), {"/resolve/": slow})


def test_more_shards_than_any_model_has(monkeypatch):
    """Nothing is asked of the Hub for each of them."""
    monkeypatch.setattr(hub, "_LARGEST_LIST", 64_000_000)
    files = [{"rfilename": f"model-{n}.safetensors", "size": 100} for n in range(4000)]
    with fails("checkpoint.too-many-shards", "it has 4000 shards, more than the limit of 2000"):
        read(monkeypatch, described({"sha": COMMIT, "siblings": files}))


def test_an_index_with_more_shards_than_any_model_has(tmp_path):
    index = {"weight_map": {f"w.{n}": f"model-{n}.safetensors" for n in range(4000)}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with fails("checkpoint.too-many-shards"):
        open_checkpoint(tmp_path)
