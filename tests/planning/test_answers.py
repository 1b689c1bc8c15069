"""What is known of contents is kept, and what is damaged is found anew."""

from __future__ import annotations

import gc
import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.waiting import until
from vpatch.planning import answers as answers_module
from vpatch.planning.answers import Answers

ROOT = Path(__file__).parents[2]
CONTENT = [b"digest"]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "contents" / "answers.db"


def asked(file, question="q", *, code="", contents=CONTENT, answer="new"):
    """The answer, and whether it was found anew."""
    calls = []

    def find():
        calls.append(1)
        return answer

    answers = Answers(file, code)
    found = answers.ask(question, contents, find)
    answers.save()
    answers.close()
    return found, bool(calls)


def script(text, *args):
    """Python code that runs in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text), *map(str, args)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_answer_is_kept(file):
    assert asked(file, answer={"a": [1, None]}) == ({"a": [1, None]}, True)
    assert asked(file) == ({"a": [1, None]}, False)


def test_another_process_finds_it(file):
    assert asked(file, answer=[1]) == ([1], True)
    process = script(
        """
        import sys
        from pathlib import Path
        from vpatch.planning.answers import Answers
        print(Answers(Path(sys.argv[1])).ask("q", [b"digest"], lambda: sys.exit("asked")))
        """,
        file,
    )
    assert process.communicate(timeout=60) == ("[1]\n", "")


@pytest.mark.parametrize(
    "other",
    [
        {"code": "another"},
        {"question": "another"},
        {"contents": [b"another"]},
        {"contents": [b"digest", b"digest"]},
        {"contents": []},
        {"question": "qd", "contents": [b"igest"]},
    ],
)
def test_another_question_has_another_answer(file, other):
    asked(file, answer="old")
    assert asked(file, **other) == ("new", True)
    assert asked(file) == ("old", False)


def test_an_answer_is_the_same_found_or_kept(file):
    # A tuple becomes a list in the database, so it is one from the beginning.
    assert asked(file, answer=(1, {2: 3})) == ([1, {"2": 3}], True)
    assert asked(file) == ([1, {"2": 3}], False)


def test_an_error_is_not_kept(file):
    answers = Answers(file)
    with pytest.raises(ZeroDivisionError):
        answers.ask("q", CONTENT, lambda: 1 / 0)
    answers.save()
    answers.close()
    assert asked(file) == ("new", True)


WRITER = """
    import sys
    from pathlib import Path
    from vpatch.planning.answers import Answers
    number = int(sys.argv[2])
    for turn in range(20):
        answers = Answers(Path(sys.argv[1]))
        for one in range(20):
            key = f"{number}/{turn}/{one}"
            answers.ask(key, [], lambda: key)
            answers.ask(f"shared/{turn}/{one}", [], lambda: [turn, one])
        answers.save()
        answers.close()
"""


def test_several_processes_write_at_once(file):
    writers = [script(WRITER, file, number) for number in range(4)]
    for writer in writers:
        assert writer.communicate(timeout=120) == ("", "")
        assert writer.returncode == 0
    answers = Answers(file)
    for turn in range(20):
        for one in range(20):
            assert answers.ask(f"shared/{turn}/{one}", [], pytest.fail) == [turn, one]
            for number in range(4):
                key = f"{number}/{turn}/{one}"
                assert answers.ask(key, [], pytest.fail) == key
    answers.close()


ENDLESS = """
    import itertools, sys
    from pathlib import Path
    from vpatch.planning.answers import Answers
    for turn in itertools.count():
        answers = Answers(Path(sys.argv[1]))
        for one in range(200):
            answers.ask(f"{turn}/{one}", [], lambda: [turn, one, "x" * 1000])
        answers.save()
        answers.close()
        print(turn, flush=True)
"""


def test_a_process_is_killed_while_it_writes(file):
    for _ in range(3):
        writer = script(ENDLESS, file)
        turns = [int(writer.stdout.readline()) for _ in range(3)]
        until(lambda: Path(f"{file}-journal").exists())
        writer.send_signal(signal.SIGKILL)
        writer.communicate(timeout=60)
        assert writer.returncode == -signal.SIGKILL
        answers = Answers(file)
        for turn in turns:
            for one in range(200):
                right = [turn, one, "x" * 1000]
                assert answers.ask(f"{turn}/{one}", [], pytest.fail) == right
        # A turn that was not written yet is found anew, and never wrong.
        for turn in range(3, 200):
            right = [turn, 0, "x" * 1000]
            assert answers.ask(f"{turn}/0", [], lambda right=right: right) == right
        answers.save()
        answers.close()


def truncated(file):
    file.write_bytes(file.read_bytes()[:5000])


def flipped(file):
    text = file.read_bytes()
    file.write_bytes(bytes(byte ^ 0xFF for byte in text))


def flipped_in_pages(file):
    text = bytearray(file.read_bytes())
    text[4096:] = bytes(byte ^ 0xFF for byte in text[4096:])
    file.write_bytes(text)


def no_database(file):
    file.write_bytes(b"nothing of the kind\n" * 1000)


def another_table(file):
    file.unlink()
    with closing(sqlite3.connect(file)) as database:
        database.execute("create table answers (key text, other text)")


@pytest.mark.parametrize(
    "damage", [truncated, flipped, flipped_in_pages, no_database, another_table]
)
def test_a_damaged_database_is_found_anew(file, damage):
    for number in range(50):
        asked(file, f"q{number}", answer="old" * 100)
    damage(file)
    assert asked(file, "q7") in [("new", True), ("old" * 100, False)]
    for number in range(50):
        found, _ = asked(file, f"q{number}")
        assert found in {"new", "old" * 100}
    damage(file)
    answers = Answers(file)
    for number in range(50):
        assert answers.ask(f"q{number}", CONTENT, lambda: "new") in {"new", "old" * 100}
    answers.save()
    answers.close()


@pytest.mark.parametrize("damage", [flipped, no_database])
def test_a_damaged_database_begins_anew(file, damage):
    asked(file, answer="old")
    damage(file)
    assert asked(file) == ("new", True)
    # The run that met the damage keeps nothing, and the next one does.
    assert asked(file, answer="newer")[0] in {"new", "newer"}
    assert asked(file, answer="newest")[1] is False


def test_a_directory_in_its_place(file):
    file.mkdir(parents=True)
    assert asked(file) == ("new", True)
    assert asked(file) == ("new", True)
    assert file.is_dir()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(file):
    asked(file, answer="old")
    file.parent.chmod(0o500)
    file.chmod(0o400)
    try:
        assert asked(file, "another") == ("new", True)
        assert asked(file) == ("old", False)
    finally:
        file.parent.chmod(0o700)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "contents").write_text("a file")
    assert asked(tmp_path / "contents" / "answers.db") == ("new", True)


def test_an_answer_that_was_changed_is_found_anew(file):
    asked(file, answer="old")
    with closing(sqlite3.connect(file)) as database, database:
        (before,) = database.execute("select answer from answers").fetchone()
        after = before.replace(b"old", b"bad")
        assert after != before
        database.execute("update answers set answer = ?", (after,))
    assert asked(file) == ("new", True)
    assert asked(file) == ("new", False)


def test_an_answer_of_another_key_is_found_anew(file):
    asked(file, "p", answer="old")
    asked(file, "q", answer="other")
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("update answers set answer = (select max(answer) from answers)")
    found = [asked(file, question) for question in ("p", "q")]
    assert sorted(new for _, new in found) == [False, True]
    assert ("new", True) in found


def test_what_was_not_used_for_longest_goes_first(file, monkeypatch):
    for number in range(20):
        asked(file, f"q{number}", answer="x" * 2000)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("update answers set used = used - 1000000")
    for number in range(5):
        assert asked(file, f"q{number}") == ("x" * 2000, False)
    monkeypatch.setattr(answers_module, "LARGEST", 30_000)
    asked(file, "one more", answer="x" * 2000)
    monkeypatch.undo()
    with closing(sqlite3.connect(file)) as database:
        (left,) = database.execute("select count(*) from answers").fetchone()
    assert left == 11
    assert asked(file, "one more")[1] is False
    for number in range(5):
        assert asked(file, f"q{number}")[1] is False


def test_nothing_is_kept_without_a_file():
    answers = Answers()
    assert answers.ask("q", CONTENT, lambda: [1]) == [1]
    assert answers.ask("q", CONTENT, pytest.fail) == [1]
    answers.save()
    answers.close()
    assert json.dumps(Answers().ask("q", CONTENT, lambda: 2)) == "2"


def test_a_database_that_nobody_closed_is_closed_when_it_goes_in_any_thread(file, monkeypatch):
    faults = []
    monkeypatch.setattr(sys, "unraisablehook", faults.append)
    answers = [Answers(file, "code")]
    answers[0].ask("one", [b"a"], lambda: 1)
    connection = answers[0]._connection
    thread = threading.Thread(target=answers.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert faults == []
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("select 1")
