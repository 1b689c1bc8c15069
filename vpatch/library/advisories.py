"""Security advisories of vLLM: those that come with vpatch, and those that the user names.

The format is OSV's (https://ossf.github.io/osv-schema/). GitHub's database and PyPI's use it too.
"""

from __future__ import annotations

import re
import stat
import zlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile, ZipInfo, is_zipfile

from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from vpatch.errors import UsageError
from vpatch.library.catalog import installed
from vpatch.library.cvss import SEVERITIES, severity_of
from vpatch.util.untrusted import MEGABYTE, parse_json, plain_path, read_file
from vpatch.util.validation import first_of
from vpatch.util.versions import is_number, read_version
from vpatch.util.visible import visible_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

_LARGEST = 16 * MEGABYTE
# What all files of a zip unpack to. The export of osv.dev for PyPI has less.
_LARGEST_ZIP = 2000 * MEGABYTE
# The same export has a tenth.
_MOST_FILES = 300_000
_NAMES_VLLM = re.compile(rb'"name"\s*:\s*"vllm"|github\.com[/:]vllm-project/vllm', re.IGNORECASE)
_PACKAGE = ("PyPI", "vllm")
# Ranges of commits need the repository.
_ECOSYSTEM = "ECOSYSTEM"
_GIT = "GIT"
# Any form that git clones.
_REPOSITORY = re.compile(
    r"((git\+)?(https?|git|ssh)://([^/@]+@)?(www\.)?github\.com/|([^/@]+@)?github\.com:)"
    r"vllm-project/vllm(\.git)?/?",
    re.IGNORECASE,
)
_SHOWN = 60
_FIRST_READ = "0.20.0"
_OTHER_WORDS = {"medium": "moderate"}


class _Osv(BaseModel):
    # A database adds keys of its own.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Package(_Osv):
    ecosystem: str = ""
    name: str = ""


class Range(_Osv):
    type: str
    repo: str = ""
    events: tuple[dict[str, str], ...]

    @model_validator(mode="after")
    def _versions(self) -> Range:
        for event in self.events if self.type == _ECOSYSTEM else ():
            if not event:
                raise ValueError("an event says nothing")
            for text in event.values():
                if read_version(text) is None:
                    raise ValueError(f"{text[:_SHOWN]!r} is not a version")
        return self

    def covers(self, version: Version) -> bool:
        """Whether the version is affected, as the specification of OSV evaluates it."""
        affected = False
        events = ((kind, text) for event in self.events for kind, text in event.items())
        for kind, text in sorted(events, key=_when):
            at = _version(text)
            if kind == "introduced" and at <= version:
                affected = True
            if kind == "fixed" and at <= version:
                affected = False
            if kind == "last_affected" and at < version:
                affected = False
        return affected


class Affected(_Osv):
    package: Package = Package()
    ranges: tuple[Range, ...] = ()
    versions: tuple[str, ...] = ()

    @property
    def is_vllm(self) -> bool:
        """Whether it is about vLLM: by the name of the package, or of the repository of commits."""
        if (self.package.ecosystem, canonicalize_name(self.package.name)) == _PACKAGE:
            return True
        return any(_REPOSITORY.fullmatch(one.repo) for one in self.ranges)

    @property
    def has_open_commits(self) -> bool:
        """Whether a range of commits has no end: then the list of tags is as old as the record."""
        ends = {"fixed", "last_affected", "limit"}
        return any(
            one.type == _GIT and not any(ends & event.keys() for event in one.events)
            for one in self.ranges
        )


class Reference(_Osv):
    type: str
    url: str


class Rating(_Osv):
    """A severity as a vector of CVSS: `CVSS:3.1/AV:N/...`."""

    type: str
    score: str


class Sign(_Osv):
    """A line of code by which vpatch sees a defect for which it has no patch.

    Attributes:
        files: where the line is, by release; one of them is enough.
        defect: text that the line has. Without it, only the absence of all files says something.
        fix: text that the files have where the defect is corrected, although they have the line.
        first: the first release that has the defect, of those that were read; or that has a file.
        last: the last release that has the defect.
        fixed: the first release after `last`, where there is one.
        read: the last release whose code was read; the first is 0.20.0.
    """

    files: tuple[str, ...]
    defect: str | None = None
    fix: str | None = None
    first: str
    last: str | None = None
    fixed: str | None = None
    read: str

    def was_read(self, version: str) -> bool:
        """Whether somebody read this release, and wrote down what its code says."""
        asked = Version(version)
        is_final = not (asked.is_prerelease or asked.is_postrelease or asked.local)
        return is_final and Version(_FIRST_READ) <= asked <= Version(self.read)

    def is_defective(self, version: str) -> bool:
        """Whether the code of a release that was read has the defect, or may have it."""
        return Version(self.first) <= Version(version) and not self.is_before(version)

    def is_before(self, version: str) -> bool:
        """Whether the last release with the defect is older."""
        return self.last is not None and Version(self.last) < Version(version)


class Advisory(_Osv):
    """One advisory; see OSV's specification for the keys."""

    id: str = Field(pattern=r"^\S{1,100}$")
    modified: AwareDatetime
    withdrawn: AwareDatetime | None = None
    aliases: tuple[str, ...] = ()
    summary: str = ""
    affected: tuple[Affected, ...] = ()
    severities: tuple[Rating, ...] = Field((), alias="severity")
    references: tuple[Reference, ...] = ()
    database_specific: dict[str, Any] = Field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.id, *self.aliases})

    @property
    def severity(self) -> str | None:
        """One of `SEVERITIES`: the advisory's word, or else the worst of its vectors.

        None where it has neither.
        """
        word = str(self.database_specific.get("severity", "")).lower()
        word = _OTHER_WORDS.get(word, word)
        if word in SEVERITIES:
            return word
        ratings = [severity_of(one.score) for one in self.severities]
        return max((one for one in ratings if one), key=SEVERITIES.index, default=None)

    @property
    def own(self) -> dict[str, JsonValue]:
        """What vpatch's own data says of it; no other database has a say here."""
        own = self.database_specific.get("vpatch")
        return own if isinstance(own, dict) else {}

    @property
    def not_carried(self) -> str | None:
        """Why vpatch has no patch for it, if vpatch's own data says so."""
        reason = self.own.get("not_carried")
        return reason if isinstance(reason, str) else None

    @property
    def sign(self) -> Sign | None:
        """The line that shows the defect, if vpatch's own data has one."""
        sign = self.own.get("sign")
        return Sign.model_validate(sign) if sign else None

    def is_withdrawn(self, now: datetime) -> bool:
        return self.withdrawn is not None and self.withdrawn <= now

    def covers(self, version: str) -> bool | None:
        """Whether the advisory claims that a release of vLLM is affected.

        None if it does not tell: it has commits and no tags, or tags from before this release.
        """
        asked = _version(version)
        ours = [one for one in self.affected if one.is_vllm]
        # Tags of a repository: v0.23.0.
        listed = [one for part in ours for one in map(read_version, part.versions) if one]
        ranges = [each for one in ours for each in one.ranges if each.type == _ECOSYSTEM]
        if asked in listed or any(one.covers(asked) for one in ranges):
            return True
        is_older = any(one.has_open_commits for one in ours) and asked > max(listed, default=asked)
        return None if is_older or not (listed or ranges) else False


@dataclass(frozen=True)
class Advisories:
    """Advisories in the order of their ids, and the day of the newest.

    `notes` are sentences: what newer advisories did with those that vpatch has.
    """

    all: tuple[Advisory, ...]
    as_of: datetime
    notes: tuple[str, ...] = ()

    def age(self, now: datetime) -> int:
        """How old the data is, in days."""
        return max(0, (now - self.as_of).days)


def shipped_advisories() -> Advisories:
    """Read the advisories that come with vpatch."""
    return _in_order(read_advisories(installed("advisories")))


def with_newer(shipped: Advisories, others: Iterable[Advisory]) -> Advisories:
    """Add advisories to the shipped ones.

    A newer text of an id replaces the older one. An advisory adds to the one that is its alias, or
    that has it as an alias: what it claims can hide nothing. `withdrawn` counts for its own id.
    What vpatch says of a shipped one stays: a newer text has the same defect.
    """
    now = datetime.now(UTC)
    result = {one.id: one for one in shipped.all}
    # What a file says twice does not depend on the order.
    ordered = sorted(others, key=lambda one: (one.modified, one.id))
    for new in ordered:
        if not new.is_withdrawn(now):
            _add(result, new)
    notes = [_withdraw(result, gone, shipped.all) for gone in ordered if gone.is_withdrawn(now)]
    known = {one.id for one in shipped.all}
    newer = [one.id for one in result.values() if one.id in known and one not in shipped.all]
    if newer:
        notes.append(f"a newer text than vpatch's own counts for {', '.join(sorted(newer))}")
    return replace(_in_order(result.values()), notes=tuple(dict.fromkeys(notes)))


def _add(result: dict[str, Advisory], new: Advisory) -> None:
    # Only vpatch's own data says why vpatch has no patch.
    specific = {key: value for key, value in new.database_specific.items() if key != "vpatch"}
    new = new.model_copy(update={"database_specific": specific})
    old = result.get(new.id)
    if old is None:
        same = [one for one in result.values() if not one.names.isdisjoint(new.names)]
        # Of several that it names, none is the same: each stays, and it is one more.
        if len(same) != 1:
            result[new.id] = new
            return
        old = same[0]
    if old.id == new.id and old.modified > new.modified:
        return
    replaces = old.id == new.id and old.modified < new.modified
    result[old.id] = _join(old, new, replaces=replaces)


def _join(old: Advisory, new: Advisory, *, replaces: bool) -> Advisory:
    own = {"vpatch": old.own} if old.own else {}
    aliases = tuple(sorted((old.names | new.names) - {old.id}))
    if replaces:
        specific = new.database_specific | own
        return new.model_copy(update={"aliases": aliases, "database_specific": specific})
    severities = sorted(
        (one.severity for one in (old, new) if one.severity), key=SEVERITIES.index, reverse=True
    )
    text = max(old, new, key=lambda one: one.modified)
    worst = {"severity": severities[0]} if severities else {}
    update = {
        "aliases": aliases,
        "id": old.id,
        "modified": text.modified,
        "summary": text.summary or old.summary,
        "affected": old.affected + new.affected,
        "severities": old.severities + new.severities,
        "references": tuple(dict.fromkeys(old.references + new.references)),
        "database_specific": text.database_specific | own | worst,
    }
    return new.model_copy(update=update)


def _withdraw(result: dict[str, Advisory], gone: Advisory, shipped: Sequence[Advisory]) -> str:
    """Take out the advisory of one id, and say so."""
    when = f"{gone.id} was withdrawn on {gone.withdrawn:%Y-%m-%d}"
    old = result.get(gone.id)
    if old is not None and (
        old.modified < gone.modified or (old.modified == gone.modified and old in shipped)
    ):
        del result[gone.id]
        return f"{when}: the audit leaves it out"
    others = sorted(one.id for one in result.values() if not one.names.isdisjoint(gone.names))
    if old is not None:
        return f"{when}, and it counts still: its text here is newer"
    if others:
        return f"{when}; the audit has {', '.join(others)}, which counts for itself"
    return f"{when}: the audit leaves it out"


def read_advisories(path: Path, where: str | None = None) -> list[Advisory]:
    """Read the advisories about vLLM in a file, in a zip of files, or in a folder of `.json` files.

    Errors name `where`, or else the path.

    Raises:
        UsageError: a file is not an advisory, or none is about vLLM.
    """
    named = where or str(path)
    files: Iterable[tuple[bytes, str]]
    if path.is_dir():
        files = (_read(one, str(one)) for one in sorted(path.rglob("*.json")))
    elif path.is_file():
        files = _unzip(path, named) if is_zipfile(path) else [_read(path, named)]
    else:
        raise _none("there is no such file or folder", named)
    advisories = [
        one
        for content, name in files
        for one in parse_advisories(content, name)
        if any(affected.is_vllm for affected in one.affected)
    ]
    if not advisories:
        raise _none("has no advisory about vllm", named)
    return advisories


def _none(what: str, where: str) -> UsageError:
    hint = "name a file in the OSV format, a folder or a zip of such files, or a URL"
    return UsageError(what, where=where, hint=hint, code="security.no-advisories")


def _read(path: Path, where: str) -> tuple[bytes, str]:
    try:
        return read_file(path, _LARGEST), where
    except OSError as error:
        raise _wrong(f"cannot be read: {error.strerror}", where) from error


def _unzip(path: Path, where: str) -> Iterator[tuple[bytes, str]]:
    """The files of a zip that name vllm: an export of osv.dev has those of all packages."""
    remaining = _LARGEST_ZIP
    try:
        with ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_FILES:
                raise _wrong(f"has {len(members)} files, and {_MOST_FILES} are read", where)
            for member in members:
                name = f"{where}: {visible_line(member.filename)}"
                _refuse_unsafe(member, name)
                if not member.filename.endswith(".json"):
                    continue
                with archive.open(member) as file:
                    content = file.read(min(_LARGEST, remaining) + 1)
                remaining -= len(content)
                if len(content) > _LARGEST or remaining < 0:
                    raise _wrong("unpacks to too much", name)
                if _NAMES_VLLM.search(content):
                    yield content, name
    # An encrypted file is a RuntimeError.
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise _wrong(f"is a zip that cannot be read: {error}", where) from error


def _refuse_unsafe(member: ZipInfo, where: str) -> None:
    """Nothing is unpacked; but no database exports such a thing."""
    if stat.S_ISLNK(member.external_attr >> 16):
        raise _wrong("is a link", where)
    try:
        plain_path(member.filename.removesuffix("/"))
    except ValueError as error:
        raise _wrong("leads out of the zip, or has a name that no file can have", where) from error


def parse_advisories(content: bytes, where: str) -> list[Advisory]:
    """Read one advisory, a list of them, or the answer of an OSV service.

    Raises:
        UsageError: it is something else.
    """
    try:
        document = parse_json(content)
        if isinstance(document, dict) and "vulns" in document:
            document = document["vulns"]
        rows: Sequence[object] = document if isinstance(document, list) else [document]
        return [Advisory.model_validate(row) for row in rows]
    except ValidationError as error:
        what = f"is not an advisory in the OSV format: {first_of(error)}"
    except ValueError as error:
        what = f"is not JSON: {error}"
    raise _wrong(what, where)


def _wrong(what: str, where: str) -> UsageError:
    hint = (
        "name a file in the OSV format: https://api.osv.dev/v1/vulns/ID has one for each id of an "
        "advisory"
    )
    return UsageError(what, where=where, hint=hint, code="security.wrong-advisory")


def _in_order(advisories: Iterable[Advisory]) -> Advisories:
    every = tuple(sorted(advisories, key=lambda one: _natural(one.id)))
    newest = max((one.modified for one in every), default=datetime.fromtimestamp(0, UTC))
    return Advisories(every, newest)


def _natural(name: str) -> list[tuple[int, str]]:
    """CVE-2026-9540 comes before CVE-2026-12491."""
    return [(int(part), "") if is_number(part) else (0, part) for part in name.split("-")]


def _when(event: tuple[str, str]) -> tuple[Version, bool]:
    """A fix in the release that introduces it again comes first."""
    kind, text = event
    return _version(text), kind == "introduced"


def _version(text: str) -> Version:
    return read_version(text) or Version("0")
