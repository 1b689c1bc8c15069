from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers import fails, tree_of
from tests.index_server import FILES
from vpatch.source import entry, searched, word_index
from vpatch.source.memory import ChangedTree, MemoryTree
from vpatch.util.words import WORDS

from .test_cache import flip, only_entry, truncate

PACKAGE = {path: text for path, text in FILES.items() if path.startswith("vllm/") and ".py" in path}
# What words are made of, what parts them, and what is neither for bytes: accents and other letters.
PIECES = st.sampled_from(
    ["a", "ab", "foo", "foo_1", "_", "9", "A", ".", "(", " ", "\n", "\r\n", "\t", "é", "日", "\0"]
)
TEXTS = st.lists(PIECES, max_size=12).map(lambda pieces: "".join(pieces).encode())


def index_of(files):
    return word_index.WordIndex(word_index.dump(files), list(files))


@given(st.lists(TEXTS, max_size=6), TEXTS)
@example([b"", b"foo", b"xfoo", b"foox", b"a.foo"], b"foo")
@example([b"caf\xc3\xa9", b"caf"], b"caf\xc3\xa9")
@example([b"f(1)", b"of(1)", b"f (1)"], b"f(1")
@example([b"foo.bar", b"foo.barx", b"xfoo.bar"], b"foo.bar")
def test_the_index_answers_what_a_search_finds(texts, needle):
    files = {f"vllm/{number}.py": text for number, text in enumerate(texts)}
    index = index_of(files)
    for one in (needle, *(word for text in texts for word in WORDS.findall(text))):
        with_word = searched.files_with_word(files, one)
        assert word_index.files_with_word(index, files, one) == with_word
        with_text = searched.files_with_text(files, one)
        assert word_index.files_with_text(index, files, one) == with_text
    assert index.words() == sorted(searched.words_of(files))


@given(st.lists(TEXTS, min_size=1, max_size=4), TEXTS, TEXTS)
def test_a_changed_tree_answers_what_a_search_finds(texts, changed, needle):
    files = {f"vllm/{number}.py": text for number, text in enumerate(texts)}
    over = {"vllm/0.py": changed, "vllm/new.py": changed, "other/new.py": changed, "a.txt": needle}
    tree = MemoryTree(tree_of({}).pin, files)
    made = ChangedTree(tree, over, frozenset())
    package = {**files, "vllm/0.py": changed, "vllm/new.py": changed}
    assert dict(made.package_files) == package
    assert made.holding(needle) == searched.files_with_word(package, needle)
    assert made.containing(needle) == searched.files_with_text(package, needle)
    assert set(made.words()) == searched.words_of(package)


def test_many_files():
    files = {f"vllm/{number}.py": b"" for number in range(70_000)} | {"vllm/z.py": b"last"}
    assert index_of(files).with_word(b"last") == {"vllm/z.py"}


def test_what_the_index_narrows_is_read_and_nothing_else():
    files = {"a.py": b"foo.bar", "b.py": b"bar", "c.py": b"foo bar"}
    index = index_of(files)
    read = {path: files[path] for path in ("a.py", "c.py")}
    assert word_index.files_with_text(index, read, b"foo.b") == {"a.py"}
    assert word_index.files_with_word(index, read, b"foo.bar") == {"a.py"}


def test_an_entry_has_its_index_from_the_start(opening, monkeypatch):
    with opening() as tree:
        monkeypatch.setattr(word_index, "write", None)
        monkeypatch.setattr(entry, "_read_verified", None)
        assert list(tree.words()) == [b"1", b"2", b"x", b"y"]
        assert tree.holding(b"y") == tree.containing(b"2") == {"vllm/models/llama.py"}
        assert tree.holding(b"nothing_has_this") == frozenset()


def other_key(path):
    word_index.write(
        path.parent, word_index.key_of("0", list(PACKAGE)), dict.fromkeys(PACKAGE, b"z")
    )


def other_format(path):
    path.write_bytes(path.read_bytes().replace(b"words 1", b"words 0", 1))


def flip_the_last(path):
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def clear(path):
    path.write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    [truncate, flip, flip_the_last, clear, other_key, other_format, lambda path: path.unlink()],
)
def test_an_index_that_cannot_be_used_is_made_anew(opening, cache, damage):
    opening().close()
    file = only_entry(cache) / "words"
    made = file.read_bytes()
    damage(file)
    # What a process left that was killed while it wrote.
    (only_entry(cache) / "words.part").write_bytes(b"half" * len(made))
    with opening() as tree:
        assert set(tree.words()) == searched.words_of(PACKAGE)
    assert file.read_bytes() == made
    assert not (only_entry(cache) / "words.part").exists()


def test_without_an_index_all_files_are_searched(opening, cache):
    opening().close()
    (only_entry(cache) / "words").unlink()
    # In the way of the lock, as a read-only folder would be. Root may write anywhere.
    (only_entry(cache) / "words.lock").mkdir()
    with opening() as tree:
        words = searched.words_of(PACKAGE)
        assert set(tree.words()) == words
        for word in words:
            assert tree.holding(word) == searched.files_with_word(PACKAGE, word)
            text = b"= " + word
            assert tree.containing(text) == searched.files_with_text(PACKAGE, text)
    assert not (only_entry(cache) / "words").exists()


def test_no_index_is_made_of_a_damaged_file(opening, cache, notes):
    opening().close()
    (only_entry(cache) / "words").unlink()
    flip(only_entry(cache) / "files/vllm/models/llama.py")
    with opening() as tree, fails("source.damaged-cache-entry", r"llama\.py") as caught:
        tree.holding(b"x")
    assert "run the command again" in str(caught.value)
    with opening() as tree:
        assert set(tree.words()) == searched.words_of(PACKAGE)
    assert len(notes.downloads) == 2
