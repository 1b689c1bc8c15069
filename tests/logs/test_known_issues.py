from __future__ import annotations

import io
import re
from collections import Counter
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import ValidationError

from vpatch.library.catalog import installed
from vpatch.library.loading import load_patch
from vpatch.logs.known_issues import (
    READ,
    KnownIssue,
    anchor_of,
    known_issues,
    patch_symptoms,
    squeeze,
)
from vpatch.logs.symptoms import LogReader, declared_symptoms
from vpatch.source.cache import default_cache_folder
from vpatch.trust.decision import EVERYTHING
from vpatch.workspace.context import Context

ISSUES = known_issues()
SYMPTOMS = patch_symptoms()
CHECKED = [issue for issue in ISSUES if issue.code is not None]
SHORTEST_ANCHOR = 8
ROOT = Path(__file__).parents[2]
NO_SPECULATION = (
    "INFO 08-01 10:00:00 [core.py:113] Initializing a V1 LLM engine (v0.21.0) with config: "
    "model='m', speculative_config=None, tokenizer='m'"
)
SPECULATION = "non-default args: {'speculative_config': {'method': 'mtp'}}"


def read(*lines, issues=ISSUES, patches=()):
    reader = LogReader(patches, issues)
    reader.read(io.BytesIO("\n".join(lines).encode()), "x.log")
    return reader.result()


def test_there_are_known_issues():
    assert len(ISSUES) >= 150


@pytest.mark.parametrize("issue", ISSUES, ids=lambda issue: issue.id)
def test_the_example_of_an_issue_names_it(issue):
    near = issue.near
    around = []
    if near.platforms:
        around.append(
            f"INFO 01-01 10:00:00 [x.py:1] Automatically detected platform {near.platforms[0]}."
        )
    if near.speculation:
        method = "dflash" if near.log else "mtp"
        around.append(f"non-default args: {{'speculative_config': {{'method': '{method}'}}}}")
    if near.frames:
        around.append(f'  File "/x/vllm/{near.frames}.py", line 3, in f')
    assert issue.id in [one.issue.id for one in read(*around, issue.example).issues]
    assert issue.id not in [one.issue.id for one in read(*around, issue.near_miss).issues]


# What the words of an issue may name, and the platform or the letters in its message.
DEVICES = {"XPU": "xpu", "ROCm": "rocm", "Gaudi": "gaudi"}


@pytest.mark.parametrize("word", DEVICES)
def test_an_issue_of_one_device_is_for_that_device(word):
    """What says that it is about a device is not said of another one."""
    elsewhere = [
        issue.id
        for issue in ISSUES
        if re.search(rf"\b{word}\b", issue.title)
        and DEVICES[word] not in issue.near.platforms
        and word.lower() not in issue.symptom.lower()
    ]
    assert elsewhere == []


def test_a_message_of_several_issues_has_other_causes():
    shared = {
        one.id
        for one in ISSUES
        for other in ISSUES
        if one is not other and one.pattern.search(squeeze(other.example))
    }
    assert shared
    assert [issue.id for issue in ISSUES if issue.id in shared and issue.alone] == []


def test_ids_and_titles_are_unique():
    for key in ("id", "title"):
        counts = Counter(getattr(issue, key) for issue in ISSUES)
        assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("one", [*ISSUES, *SYMPTOMS.symptom], ids=lambda one: one.symptom[:40])
def test_each_symptom_has_an_anchor(one):
    anchor = anchor_of(one.symptom)
    assert len(re.sub(r"[0-9a-f-]", "", anchor)) >= SHORTEST_ANCHOR
    assert anchor in squeeze(one.example)
    assert one.near.log is None or anchor_of(one.near.log)


@pytest.mark.parametrize(
    ("pattern", "anchor"),
    [
        (r"a plain text", "aplaintext"),
        (r"'\w+' in the text\.", "'inthetext."),
        (r"KeyError: '[\w.]{1,80}\.(main_norm|other)", "KeyError:'"),
        (r"one|other", ""),
        (r"colou?r of it", "rofit"),
        (r"xyz\(\d+\) of", "xyz("),
        (r"((a|b)c)?tail", "tail"),
    ],
)
def test_the_anchor_of_a_pattern(pattern, anchor):
    assert anchor_of(pattern) == anchor


def library():
    folders = sorted(path.parent for path in installed("patches").glob("**/patch.yaml"))
    return [load_patch(folder, EVERYTHING) for folder in folders]


def test_each_declared_symptom_of_the_library_is_looked_at():
    declared = {(p.id, s) for p in library() for s in p.declaration.symptoms}
    families = {(one.patch, one.declared) for one in SYMPTOMS.symptom}
    prose = {(one.patch, text) for one in SYMPTOMS.prose for text in one.declared}
    assert families | prose == declared
    assert not families & prose


def test_prose_is_not_looked_for():
    looked_for = {(p.id, text) for p in library() for text, _ in declared_symptoms(p)}
    assert looked_for == {(one.patch, one.declared) for one in SYMPTOMS.symptom}
    assert LogReader(library()).symptoms == len(SYMPTOMS.symptom)


def test_a_request_may_be_what_leads_to_a_failure():
    request = (
        "DEBUG 08-01 10:00:05 [x.py:5] Request c details: prompt: 'a', prompt_token_ids: [5{}]"
    )
    failure = [
        '  File "/x/vocab_parallel_embedding.py", line 3, in f',
        "IndexError: index out of range in self",
    ]
    (one,) = read(request.format(", -1"), *failure, patches=library()).sightings
    assert one.patch.id == "cve-2026-93592"
    assert read(request.format(""), *failure, patches=library()).sightings == []


def test_what_follows_from_a_failed_import_is_not_cured_by_a_patch():
    failed = (
        "WARNING 08-01 10:00:05 [cuda.py:21] Failed to import from vllm._C with "
        "ImportError('/x/vllm/_C.abi3.so: undefined symbol: _ZN3c104cuda4freeEv')"
    )
    missing = [
        '  File "/x/vllm/compilation/passes/fusion.py", line 3, in <module>',
        "AttributeError: '_OpNamespace' '_C' object has no attribute 'fused_add_rms_norm'",
    ]
    (cured,) = read(*missing, patches=library()).sightings
    assert cured.patch.id == "import-time-op-compat"
    after = read(failed, *missing, patches=library())
    assert after.sightings == []
    assert after.issues[0].issue.id == "vllm-built-for-another-torch"


@pytest.mark.parametrize(
    ("message", "own", "other"),
    [
        (
            "AttributeError: module 'torch.accelerator' has no attribute 'empty_cache'",
            "vllm/v1/worker/gpu_worker.py",
            "vllm_omni/platforms/xpu.py",
        ),
        (
            "ValueError: Unable to find matching target for  in the compressed-tensors config.",
            "vllm/model_executor/models/deepseek_v4_mtp.py",
            "vllm/model_executor/models/internvl.py",
        ),
    ],
)
def test_a_patch_does_not_cure_the_code_of_others(message, own, other):
    def cures(path):
        frames = [
            '  File "/x/vllm/v1/engine/core.py", line 1, in main',
            f'  File "/x/{path}", line 3, in f',
        ]
        return [one.alone for one in read(*frames, message, patches=library()).sightings]

    assert (cures(own), cures(other)) == ([True], [])


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_a_failure_of_a_patch_is_not_merely_reported(level):
    text = "'FusedMoEConfig' object has no attribute 'disable_inplace'"
    record = f"(A pid=1) {level} 08-01 10:00:05 [x.py:5] retried after: {text}"
    assert read(record, patches=library()).sightings == []
    (one,) = read(record, f"AttributeError: {text}", patches=library()).sightings
    assert (one.patch.id, one.line, one.count) == ("optional-disable-inplace", 2, 1)


@pytest.mark.parametrize(
    "lines",
    [
        # A general message of PyTorch.
        ["RuntimeError: The size of tensor a (8) must match the size of tensor b (4)"],
        # A file of vLLM is no repository.
        [
            '  File "/x/vllm/transformers_utils/gguf_utils.py", line 3, in check_gguf_file',
            "OSError: mistralai/Mistral-7B does not appear to have a file named config.json.",
        ],
        # vLLM does not speculate.
        [
            "non-default args: {'model': 'm'}",
            NO_SPECULATION,
            (
                "AssertionError: Workspace is locked but allocation from "
                "'turboquant_attn.py:879:_decode_attention' requires 0.76 MB, current size is 0."
            ),
            "    assert self.page_size_padded >= page_size",
        ],
        # A GPU of NVIDIA, and not an NPU.
        [
            "INFO 01-01 10:00:00 [x.py:1] Automatically detected platform cuda.",
            SPECULATION,
            '  File "/x/vllm/v1/worker/mamba_utils.py", line 3, in collect',
            "IndexError: list index out of range",
        ],
        # Other frames, and none.
        [
            SPECULATION,
            '  File "/x/vllm/config/model.py", line 3, in verify_with_parallel_config',
            "NotImplementedError: Pipeline parallelism is not supported for this model.",
        ],
        ["TypeError: '>' not supported between instances of 'NoneType' and 'int'"],
        # It starts all the same.
        [
            (
                "WARNING 01-01 10:00:00 [vllm.py:1863] max_num_scheduled_tokens is set to 64 "
                "based on the speculative decoding settings. This may lead to suboptimal speed."
            ),
            (
                "WARNING 01-01 10:00:00 [vllm.py:549] Model Runner V2 does not yet support "
                "ngram/ngram_gpu speculative decoding; using the V1 model runner instead."
            ),
        ],
    ],
)
def test_what_is_no_known_issue(lines):
    assert read(*lines).issues == []


def releases():
    with Context() as context:
        return [spec.removeprefix("==") for spec in map(str, context.releases())]


def trees():
    """The unpacked trees of the releases that were read, by version."""
    found = {}
    for folder in sorted((default_cache_folder() / "trees").glob("vllm-[0-9]*")):
        version = folder.name.split("-")[1]
        # Of an older or newer one, nobody says anything.
        if re.fullmatch(r"\d+\.\d+\.\d+", version) and Version(version) in READ:
            found[version] = folder / "files"
    return found


@pytest.mark.slow
@pytest.mark.parametrize("issue", CHECKED, ids=lambda issue: issue.id)
def test_the_code_of_each_release_has_the_fix_or_not(issue):
    code, at_hand = issue.code, trees()
    assert at_hand, "no release of vLLM is unpacked in the cache"
    pattern = re.compile(code.text)
    with_fix = set()
    for version, folder in at_hand.items():
        files = [folder / name for name in code.files if (folder / name).is_file()]
        matches = any(pattern.search(path.read_text(encoding="utf-8")) for path in files)
        if matches == (code.tells == "fix"):
            with_fix.add(version)
    assert with_fix == {v for v in at_hand if Version(v) in SpecifierSet(code.releases)}


@pytest.mark.slow
def test_a_release_without_a_message_has_it_in_no_other_file():
    elsewhere = []
    for version, folder in trees().items():
        lacking = [
            issue
            for issue in CHECKED
            if issue.code.tells == "message"
            and Version(version) in SpecifierSet(issue.code.releases)
        ]
        for path in (folder / "vllm").rglob("*.py"):
            text = path.read_text(encoding="utf-8", errors="replace")
            elsewhere += [
                (issue.id, version, path.name)
                for issue in lacking
                if re.search(issue.code.text, text)
            ]
    assert elsewhere == []


def entry(**changes):
    keys = {
        "id": "an-issue",
        "title": "It fails",
        "symptom": "it fails with care",
        "example": "it fails with care",
        "near-miss": "it fails",
        "thread": ["a/b#1"],
        "meaning": "It fails",
        "do": "nothing",
    } | changes
    return KnownIssue.model_validate({k: v for k, v in keys.items() if v is not None}, strict=False)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"example": "all is well"}, "the example does not match"),
        ({"near-miss": "it fails with care too"}, "the near miss matches"),
        ({"symptom": "it fails ("}, "is not a regular expression"),
        ({"thread": []}, "at least 1 item"),
        ({"thread": ["somewhere"]}, "should match pattern"),
        ({"colour": "red"}, "Extra inputs"),
        ({"id": "An Issue"}, "should match pattern"),
    ],
)
def test_what_is_no_entry(changes, what):
    assert entry().id == "an-issue"
    with pytest.raises(ValidationError, match=what):
        entry(**changes)


@pytest.mark.parametrize(
    ("lines", "warned"),
    [
        (["WARNING 08-01 10:00:00 [x.py:1] it fails with care"], True),
        (["WARNING 08-01 10:00:00 [x.py:1] it fails with care", "it fails with care"], False),
        (["ERROR 08-01 10:00:00 [x.py:1] it fails with care"], False),
    ],
)
def test_a_warning_alone_does_not_make_an_issue_sure(lines, warned):
    (one,) = read(*lines, issues=[entry()]).issues
    assert (one.warned, one.alone) == (warned, not warned)
    warning = entry(example="WARNING 08-01 10:00:00 [x.py:1] it fails with care")
    (one,) = read(*lines, issues=[warning]).issues
    assert (one.warned, one.alone) == (False, True)


def test_what_is_said_of_a_release_rests_on_its_code():
    code = {"files": ["a.py"], "text": "x", "tells": "fix", "releases": ">=0.22.0"}
    issue = entry(code=code)
    assert issue.has_fix(Version("0.22.1")) is True
    assert issue.has_fix(Version("0.21.0")) is False
    assert issue.has_fix(Version("0.19.1")) is None
    assert issue.has_fix(Version("0.34.0")) is None
    assert entry().has_fix(Version("0.22.1")) is None
    assert entry(code=code | {"fixes": False}).has_fix(Version("0.22.1")) is None
    read_before = [issue.was_read(version) for version in (Version("0.22.1"), Version("0.34.0"))]
    assert (read_before, issue.was_read(None)) == ([True, False], False)
    assert not entry().was_read(Version("0.22.1"))
