"""What is wrong with a declaration. To say so needs no parser."""

from __future__ import annotations

from vpatch.errors import UsageError


class DeclarationError(UsageError):
    """A declaration does not follow its schema."""

    code = "declare.wrong-value"
