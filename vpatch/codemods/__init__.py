"""The vocabulary of edits, one file each, every edit of Python code a libcst codemod."""

from vpatch.codemods.base import Outcome, Place, PythonEdit, Site, SiteTransformer

__all__ = ["Outcome", "Place", "PythonEdit", "Site", "SiteTransformer"]
