"""Ways to say a difference by meaning. Each proposes candidates, those that say least first.

To support a further kind of edit, write a strategy and add it to `STRATEGIES`. A strategy need not
check what it proposes: `deriving` runs each candidate, and keeps the first that gives the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from vpatch.deriving.strategies.entries import entries
from vpatch.deriving.strategies.headers import parameters
from vpatch.deriving.strategies.imports import imported_names, new_imports
from vpatch.deriving.strategies.inserts import inserted, inserted_between
from vpatch.deriving.strategies.keywords import keywords
from vpatch.deriving.strategies.rewrites import each_part, rewritten
from vpatch.deriving.strategies.several import one_into_several
from vpatch.deriving.strategies.statements import (
    deleted,
    long_ones,
    regrouped,
    regrouped_beside,
    replaced,
    without_comments,
)
from vpatch.deriving.strategies.values import values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vpatch.deriving.candidate import Candidate, Case

Strategies: TypeAlias = "tuple[Callable[[Case], Iterator[Candidate]], ...]"

STRATEGIES: Strategies = (
    entries,
    values,
    keywords,
    parameters,
    imported_names,
    new_imports,
    inserted,
    rewritten,
    each_part,
    deleted,
    regrouped,
    one_into_several,
)
# They say more than what changes, and are for what no other gives the code of.
LAST_STRATEGIES: Strategies = (
    inserted_between,
    regrouped_beside,
    replaced,
    long_ones,
    without_comments,
)
