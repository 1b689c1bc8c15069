"""A vector of CVSS becomes one of four words, by its base score."""

from __future__ import annotations

SEVERITIES = ("low", "moderate", "high", "critical")
# The first base score of each word: the scale is the same in CVSS 3 and 4, and `none` is 0.
_SCORES = (0.1, 4.0, 7.0, 9.0)
# The metrics of CVSS 4.0 that depend on nobody's threats and environment.
_BASE = frozenset({"AV", "AC", "AT", "PR", "UI", "VC", "VI", "VA", "SC", "SI", "SA"})


def severity_of(vector: str) -> str | None:
    """Return the severity of a vector of CVSS 3.x or 4.0; None for another one, or for no harm."""
    # It takes 17 ms to import, and few advisories have a vector.
    from cvss import CVSS3, CVSS4, CVSSError  # noqa: PLC0415

    try:
        if vector.startswith("CVSS:3."):
            score = float(CVSS3(vector).base_score)
        elif vector.startswith("CVSS:4."):
            score = float(CVSS4(_base_of(vector)).base_score)
        else:
            return None
    except CVSSError:
        return None
    words = [word for word, least in zip(SEVERITIES, _SCORES, strict=True) if score >= least]
    return words[-1] if words else None


def _base_of(vector: str) -> str:
    """The vector without what threats and environments change: the library scores them too."""
    version, *metrics = vector.split("/")
    return "/".join([version, *(one for one in metrics if one.partition(":")[0] in _BASE)])
