from __future__ import annotations

import hashlib

import pytest

from tests.projects import ENGINE, FILES, LLAMA, NAME_PROJ, SLOW_MODE, opened, plan_of, write_patch
from vpatch.checkout.commits import commits_of, lock_of
from vpatch.declare.patch import Upstream, describe_upstream

pytestmark = pytest.mark.usefixtures("isolated")

NAME_HEAD = """
- find: self.head = Linear(...)
  add-keyword: {prefix: 'f"{prefix}.head"'}
"""


def digest(text):
    return f"sha256:{hashlib.sha256(text).hexdigest()}"


def test_messages_say_what_the_digest_covers(tmp_path):
    threads = """upstream:
  - {ref: vllm-project/vllm#7, is: issue}
  - {ref: vllm-project/vllm#8, is: pull request, relation: backport, state: merged}
"""
    folder = write_patch(tmp_path / "patches", "name-proj", NAME_PROJ, more=threads)
    with opened(tmp_path) as tree:
        made = plan_of(tree, folder)
    (commit,) = commits_of(made)
    assert commit.message == (
        "[Bugfix] name-proj\n\n"
        "Without it, the small model fails.\n\n"
        "Vpatch-Id: name-proj\n"
        f"Vpatch-Digest: {made.decisions[0].patch.digest}\n"
    )
    assert set(commit.files) == {LLAMA}


def test_message_names_the_variant(tmp_path):
    folder = write_patch(tmp_path / "patches", "name-proj", NAME_PROJ)
    text = (folder / "patch.yaml").read_text()
    start, end = text.index("edits:"), text.index("remove-when")
    edits = text[start:end].replace("\n", "\n    ").rstrip()
    declared = f"{text[:start]}variants:\n  - name: flat\n    {edits}\n{text[end:]}"
    (folder / "patch.yaml").write_text(declared)
    with opened(tmp_path) as tree:
        (commit,) = commits_of(plan_of(tree, folder))
    assert "\nVpatch-Variant: flat\n" in commit.message


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"is": "issue"}, "a/b#1 (issue)"),
        ({"is": "issue", "state": "closed"}, "a/b#1 (issue, closed)"),
        (
            {"is": "pull request", "relation": "same change", "state": "open"},
            "a/b#1 (pull request, same change, open)",
        ),
        (
            {"is": "pull request", "relation": "cause", "state": "merged", "release": "0.24.0"},
            "a/b#1 (pull request, cause, merged, released in 0.24.0)",
        ),
        (
            {"is": "pull request", "relation": "cause", "state": "merged"},
            "a/b#1 (pull request, cause, merged)",
        ),
    ],
)
def test_describe_upstream(facts, text):
    assert describe_upstream(Upstream.model_validate({"ref": "a/b#1"} | facts)) == text


def test_lock_of_two_patches_in_one_file(tmp_path):
    patches = tmp_path / "patches"
    folders = [
        write_patch(patches, "name-proj", NAME_PROJ),
        write_patch(patches, "name-head", NAME_HEAD),
        write_patch(patches, "slow-mode", SLOW_MODE),
        write_patch(patches, "elsewhere", SLOW_MODE, concerns="text: no such text"),
    ]
    with opened(tmp_path) as tree:
        made = plan_of(tree, *folders)
    lock = lock_of(made, "recipe", "b" * 40, ["1" * 40, "2" * 40, "3" * 40])
    assert [p.id for p in lock.patches] == ["name-proj", "name-head", "slow-mode"]
    assert [p.commit[0] for p in lock.patches] == ["1", "2", "3"]
    assert (lock.base, lock.head, lock.recipe) == ("b" * 40, "3" * 40, "recipe")
    assert [(s.id, s.state) for s in lock.skipped] == [("elsewhere", "absent")]
    first, second = lock.patches[0].files[0], lock.patches[1].files[0]
    assert first.before == digest(FILES[LLAMA])
    assert second.before == first.after
    # Over the whole run a file goes from its pristine state to the last.
    assert [f.path for f in lock.files] == [ENGINE, LLAMA]
    assert (lock.files[1].before, lock.files[1].after) == (first.before, second.after)


def test_lock_of_nothing(tmp_path):
    folder = write_patch(tmp_path / "patches", "elsewhere", SLOW_MODE, concerns="text: no such")
    with opened(tmp_path) as tree:
        made = plan_of(tree, folder)
    assert commits_of(made) == []
    lock = lock_of(made, None, "b" * 40, [])
    assert (lock.head, lock.files, lock.patches) == ("b" * 40, (), ())


def test_lock_of_a_file_that_is_created(tmp_path):
    edit = "- {add-file: vllm/new.py, from: new.py}"
    folder = write_patch(tmp_path / "patches", "new-file", edit)
    (folder / "new.py").write_text("x = 1\n")
    with opened(tmp_path) as tree:
        made = plan_of(tree, folder)
    (file,) = lock_of(made, None, "b" * 40, ["1" * 40]).files
    assert (file.path, file.before, file.after) == ("vllm/new.py", None, digest(b"x = 1\n"))
