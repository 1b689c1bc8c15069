"""The index of a real vLLM's words, from the user's own cache, compared with a search."""

from __future__ import annotations

import random

import pytest

from tests.commands.upstream.releases import release
from vpatch.planning.plan import plan
from vpatch.planning.view import _WORD, View
from vpatch.source import searched
from vpatch.workspace.context import Context


class Compared:
    """A tree whose every answer is compared with that of a search."""

    def __init__(self, tree):
        self.tree = tree
        self.asked = {}

    def __getattr__(self, name):
        return getattr(self.tree, name)

    def holding(self, word):
        found = self.tree.holding(word)
        assert found == searched.files_with_word(self.tree.package_files, word), word
        self.asked[word] = found
        return found

    def containing(self, text):
        found = self.tree.containing(text)
        assert found == searched.files_with_text(self.tree.package_files, text), text
        self.asked[text] = found
        return found


@pytest.mark.slow
def test_the_index_of_a_release():
    chance = random.Random(17)
    with Context(offline=True) as context, release("0.33.0") as tree:
        patches = context.library.load(context.library.usual)
        compared = Compared(tree)
        # The index is asked whatever is known of the files that it names.
        plan(patches, compared, answers=context.answers)
        assert sum(map(bool, compared.asked.values())) > len(patches)
        words = set(tree.words())
        assert words == searched.words_of(tree.package_files)
        for word in chance.sample(sorted(words), 12):
            compared.holding(word)
            compared.holding(word + b"_")
            compared.containing(word[len(word) // 3 : -1] or word)
        for path in chance.sample(list(tree.package), 12):
            text = tree.package_files[path]
            start = chance.randrange(len(text) + 1)
            some = text[start : start + chance.randrange(1, 60)]
            assert path in compared.containing(some)
            compared.holding(some)
        texts = tree.package_files.values()
        names = {name.decode() for text in texts for name in _WORD.findall(text)}
        assert View(tree).vocabulary == names
