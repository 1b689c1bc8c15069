"""Symptoms that an import proposes: what the code raises and logs before the change."""

from __future__ import annotations

import pytest

from vpatch.changes.change import FileChange
from vpatch.commands.importing.log_messages import messages_of, new_messages

BEFORE = """\
def check(a):
    if a > 4:
        raise ValueError(f"cannot take more than {a} drafts at once")
    logger.warning("%d drafts are slow on this device", a)
    logger.info("this is no failure at all")
    self.log.error(
        "the drafts of this checkpoint are lost "
        "on the way"
    )
    print("not a message of a log")
    parser.error("this option is of no log")
    raise KeyError("short")
"""


def messages(before, after, path="vllm/m.py"):
    return messages_of([FileChange(path, before.encode(), after.encode())])


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("more than {a}", "above {a}", ["cannot take more than"]),
        ("slow on this", "slow on any", ["drafts are slow on this device"]),
        ('        "on the way"\n', "", [
            "the drafts of this checkpoint are lost on the way"]),
        ("no failure", "failure", []),
        # A condition that changes leads to what it raises.
        ("a > 4", "a > 5", ["cannot take more than"]),
        # Only a cured tree says what is new.
        ("    print(", '    raise ValueError("this is not taken any more")\n    print(', []),
        ("not a message", "a message", []),
        ("of no log", "of no log either", []),
        ('"short"', '"shorter"', []),
    ],
)  # fmt: skip
def test_what_changed_lines_raise_and_log(old, new, found):
    assert messages(BEFORE, BEFORE.replace(old, new)) == found


def test_a_message_that_changes_is_the_old_one():
    raised = 'raise ValueError("the {} mode is unknown here")\n'
    after = "x = 1\n" + raised.replace("unknown", "new and unknown")
    assert messages(raised, after) == ["mode is unknown here"]


def test_what_is_not_python_has_no_messages():
    assert messages("raise x(", 'raise ValueError("this is not known yet")') == []
    assert messages('raise ValueError("this is not known yet")', "", "a.sh") == []


def test_what_only_a_cured_tree_says_is_known():
    after = BEFORE.replace("more than {a} drafts", "above {a} tokens and more")
    change = FileChange("vllm/m.py", BEFORE.encode(), after.encode())
    assert new_messages([change]) == ["tokens and more at once"]
    moved = BEFORE.replace('    print("not a message of a log")\n', "")
    assert new_messages([FileChange("vllm/m.py", BEFORE.encode(), moved.encode())]) == []
