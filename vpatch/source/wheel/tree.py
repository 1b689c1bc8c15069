"""The tree in a wheel: code and metadata, each file compared with RECORD, and nothing compiled."""

from __future__ import annotations

from email.parser import BytesHeaderParser
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from vpatch.git.files import EXECUTABLE, REGULAR, SourceFile
from vpatch.source.machine_code import hidden_sources, is_compiled
from vpatch.source.wheel.contents import problems_of
from vpatch.source.wheel.names import parse_wheel_name
from vpatch.source.wheel.record import RECORD, WheelRecordError, parse_record
from vpatch.util.digest import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.progress import Progress
    from vpatch.source.wheel.archive import WheelArchive
    from vpatch.source.wheel.names import WheelName
    from vpatch.source.wheel.record import RecordRow

_BYTECODE = ".pyc"
_HINT = "download the wheel again, or unpack it and name the folder if you trust it"


def version_of(archive: WheelArchive) -> str:
    """Return the version that a wheel has by its name and by its metadata.

    Raises:
        UsageError: the file does not have the name of a wheel.
        WheelRecordError: the two differ, or there is no metadata.
    """
    name = parse_wheel_name(archive.path.name)
    metadata = f"{name.info}/METADATA"
    if metadata not in archive.members:
        raise _wrong(archive, f"it has no {metadata}")
    version = str(BytesHeaderParser().parsebytes(archive.read(metadata))["Version"])
    try:
        is_same = Version(version) == Version(name.version)
    except InvalidVersion:
        is_same = False
    if not is_same:
        raise _wrong(archive, f"its metadata has the version {version[:60]}, not {name.version}")
    return version


def read_wheel(archive: WheelArchive, progress: Progress) -> Iterator[SourceFile]:
    """Yield the files of a wheel that are not compiled.

    Raises:
        UnsafeWheelError: it has a member that no wheel of that name may have, or bytecode.
        WheelRecordError: RECORD is missing, or a file is not as it says.
        DamagedWheelError: a member cannot be unpacked.
    """
    name = parse_wheel_name(archive.path.name)
    rows = _rows(archive, name)
    archive.refuse(dict(problems_of(archive, name)))
    # Python may run it in place of a source, and nobody can read it.
    is_hidden = "it is bytecode, which Python would run and vpatch cannot read"
    archive.refuse({one: is_hidden for one in archive.members if one.endswith(_BYTECODE)})
    hidden = hidden_sources(archive.members)
    archive.refuse({one: f"{by} hides it from Python" for one, by in hidden.items()})
    wanted = [one for one in archive.members if _is_text(one)]
    what = f"Unpacking {archive.path.name}"
    task = progress.start(what, total=len(wanted), unit="file")
    try:
        for path in wanted:
            mode = archive.members[path].info.external_attr >> 16
            data = archive.read(path)
            if path != f"{name.info}/{RECORD}":
                _compare(archive, rows.get(path), path, data)
            yield SourceFile(path, EXECUTABLE if mode & 0o100 else REGULAR, data)
            task.advance(1)
    finally:
        task.done()


def _is_text(member: str) -> bool:
    return not member.endswith("/") and not is_compiled(member)


def _rows(archive: WheelArchive, name: WheelName) -> Mapping[str, RecordRow]:
    record = f"{name.info}/{RECORD}"
    if record not in archive.members:
        raise _wrong(archive, f"it has no {record}")
    return parse_record(archive.read(record), str(archive.path))


def _compare(archive: WheelArchive, row: RecordRow | None, path: str, data: bytes) -> None:
    if row is None:
        raise _wrong(archive, f"RECORD does not list {path}")
    if row.sha256 != digest_of(data):
        raise _wrong(archive, f"{path} does not have the digest that RECORD lists")


def _wrong(archive: WheelArchive, what: str) -> WheelRecordError:
    return WheelRecordError(what, where=str(archive.path), hint=_HINT)
