"""The edit kinds, one file each. Every edit of Python code is a libcst codemod.

It may import `declare`, `source`, `trust` and `util` alone.
"""

from vpatch.codemods.base import EditOutcome, EditSite, PythonEdit, SiteTransformer
from vpatch.codemods.scope import Scope

__all__ = ["EditOutcome", "EditSite", "PythonEdit", "Scope", "SiteTransformer"]
