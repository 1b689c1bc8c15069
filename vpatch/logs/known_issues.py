"""Messages in logs: symptoms of patches, and issues that people reported.

The data lies in `known-issues/`, as TOML: a symptom is a regular expression, an example that it
must match, and a near miss that it must not. A test holds all entries to that, and holds what
they say of releases to their code.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from vpatch.declare.yamlfile import Declared
from vpatch.library.catalog import installed

if TYPE_CHECKING:
    from packaging.version import Version

FOLDER = "known-issues"
PATCHES_FILE = "patches.toml"
# The releases whose code was read. Of others, nothing is known.
FIRST_READ, LAST_READ = "0.20.0", "0.33.0"
READ = SpecifierSet(f">={FIRST_READ},<={LAST_READ}")

# Declared where none of them has the fix.
NO_RELEASE = "<0"

Platform = Literal["cuda", "rocm", "xpu", "cpu", "npu", "tpu"]
Text = Annotated[str, StringConstraints(min_length=1, max_length=600)]
# `vllm-project/vllm#123`
Thread = Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+#\d+$")]


def _pattern(text: str) -> str:
    try:
        squeezed_pattern(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    return text


def _releases(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ValueError("is not a range of versions, such as >=0.22.0") from error
    return text


Pattern = Annotated[Text, AfterValidator(_pattern)]
Releases = Annotated[Text, AfterValidator(_releases)]


@cache
def squeezed_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern for text without white space: a terminal may break a line anywhere."""
    return re.compile("".join(text.split()))


class Near(Declared):
    """What else must hold for a symptom to count. A condition that is not declared always holds."""

    frames: Pattern | None = None
    """A regular expression that the traceback above the message must match."""
    log: Pattern | None = None
    """A regular expression that another line of the log must match."""
    without: Pattern | None = None
    """A regular expression that no line of the log may match: what it follows from instead."""
    platforms: tuple[Platform, ...] = ()
    """The platforms that it occurs on."""
    speculation: bool | None = None
    """Whether vLLM must speculate."""


class Symptom(Declared):
    """A message in a log. White space in the expression does not count."""

    symptom: Pattern
    """A regular expression that the message matches."""
    example: Text
    """A message that it must match, as somebody reported it."""
    near_miss: Text
    """A message that resembles it, and that it must not match."""
    near: Near = Near()
    alone: bool = True
    """Whether the message has this cause alone. Otherwise it is one cause among others."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return squeezed_pattern(self.symptom)

    @property
    def reported(self) -> bool:
        """Whether the message is a record of INFO or DEBUG, as the example is one."""
        return any(f"{level} " in self.example for level in ("INFO", "DEBUG"))

    @property
    def warns(self) -> bool:
        """Whether the message is a record of WARNING or less, as the example is one."""
        return self.reported or "WARNING " in self.example

    @model_validator(mode="after")
    def _examples(self) -> Symptom:
        if not self.pattern.search(squeeze(self.example)):
            raise ValueError("the example does not match the symptom")
        if self.pattern.search(squeeze(self.near_miss)):
            raise ValueError("the near miss matches the symptom")
        return self


class PatchSymptom(Symptom):
    """A symptom of a patch of the library, in place of what the patch declares."""

    patch: Text
    declared: Text
    """The symptom as the patch declares it."""


class PatchProse(Declared):
    """Symptoms that a patch declares for people: no log has them."""

    patch: Text
    declared: tuple[Text, ...] = Field(min_length=1)
    why: Literal["prose", "message of the cure"]


class PatchSymptoms(Declared):
    """The file with the symptoms of the library's patches."""

    symptom: tuple[PatchSymptom, ...]
    prose: tuple[PatchProse, ...]


class CodeFact(Declared):
    """What tells a fix, the defect, or the message itself, in the code of a release."""

    files: tuple[Text, ...] = Field(min_length=1)
    """Where to look: any of these files."""
    text: Text
    """A regular expression."""
    tells: Literal["fix", "defect", "message"]
    """What a file that matches has. `message` is for what vLLM refuses on purpose."""
    releases: Releases
    """Those that have the fix, or lack the defect or the message, of 0.20.0 to 0.33.0."""
    fixes: bool = True
    """Whether a release that has it does not show the message any more."""


class KnownIssue(Symptom):
    """An issue that people reported in public."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)]
    title: Text
    """What fails, in a few words."""
    thread: tuple[Thread, ...] = Field(min_length=1)
    """Where people reported it."""
    fix: tuple[Thread, ...] = ()
    """The pull requests that fix it."""
    code: CodeFact | None = None
    """Where to see in the code whether a release has the fix. Without it, nobody looked."""
    meaning: Text
    """What the message means."""
    do: Text
    """What to do."""
    inspect: bool = False
    """Whether `vpatch checkpoint inspect` shows more."""

    @property
    def fixed_somewhere(self) -> bool:
        """Whether a release that was read has the fix."""
        return self.code is not None and self.code.fixes and self.code.releases != NO_RELEASE

    def was_read(self, release: Version | None) -> bool:
        """Whether somebody looked into the code of a release for this issue."""
        return self.code is not None and release is not None and release in READ

    def has_fix(self, release: Version) -> bool | None:
        """Whether the code of a release has the fix; None if nobody looked."""
        if self.code is None or not self.code.fixes or not self.was_read(release):
            return None
        return release in SpecifierSet(self.code.releases)


class _IssueFile(Declared):
    issue: tuple[KnownIssue, ...]


@lru_cache(maxsize=1)
def known_issues() -> tuple[KnownIssue, ...]:
    """Return all known issues, in the order of the files."""
    files = sorted(installed(FOLDER).glob("*.toml"))
    return tuple(
        issue
        for path in files
        if path.name != PATCHES_FILE
        for issue in _IssueFile.model_validate(_read(path.read_bytes()), strict=False).issue
    )


@lru_cache(maxsize=1)
def patch_symptoms() -> PatchSymptoms:
    """Return what is known of the symptoms of the library's patches."""
    content = (installed(FOLDER) / PATCHES_FILE).read_bytes()
    return PatchSymptoms.model_validate(_read(content), strict=False)


def _read(content: bytes) -> object:
    return tomllib.loads(content.decode())


def squeeze(text: str) -> str:
    return "".join(text.split())


_ESCAPED = re.compile(r"\\([^\w\s])")
# The parts of a pattern that are not plain text: classes, groups, escapes of letters, repetitions.
_REPEATED = r"(?:[*+?]|\{[^}]*\})*"
_CLASS = re.compile(rf"\[\^?\]?[^\]]*\]{_REPEATED}")
_GROUP = re.compile(rf"\([^()]*\){_REPEATED}")
_OTHER = re.compile(rf"\\[A-Za-z]{_REPEATED}|\.{_REPEATED}|.(?:[*?]|\{{[^}}]*\}})|[\^$+]")
_MARK = "\0"
# Plus its code, this is the place of an escaped character.
_AREA = 0xE000
_LAST = 0x7F


def anchor_of(pattern: str) -> str:
    """Return the longest plain text that all matches of a pattern have, "" if there is none."""
    text = _ESCAPED.sub(lambda match: chr(_AREA + ord(match[1])), squeeze(pattern))
    text, before = _CLASS.sub(_MARK, text), ""
    while before != text:
        before, text = text, _GROUP.sub(_MARK, text)
    if "|" in text:
        return ""
    parts = _OTHER.sub(_MARK, text).split(_MARK)
    return "".join(_plain(character) for character in max(parts, key=len))


def _plain(character: str) -> str:
    code = ord(character) - _AREA
    return chr(code) if 0 <= code <= _LAST else character
