"""A folder that scanners read: a VEX repository (https://github.com/aquasecurity/vex-repo-spec).

`products.json` is what the folder knows, product by product; all other files are made of it. So one
run adds releases, and another one a wheel.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from packageurl import PackageURL
from packaging.version import Version
from pydantic import AwareDatetime, BaseModel, ConfigDict, JsonValue, ValidationError

from vpatch.commands.audit.index_page import write_page
from vpatch.commands.audit.judge import Status
from vpatch.commands.audit.openvex import document_of_statements, statement_of
from vpatch.commands.audit.pedigree import diffs_of
from vpatch.errors import UsageError
from vpatch.util.directories import replace_dir
from vpatch.util.scratch import staging_folder
from vpatch.util.source_date import source_date_epoch
from vpatch.util.untrusted import MEGABYTE, parse_json, read_file
from vpatch.util.validation import first_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vpatch.commands.audit.author import Author
    from vpatch.commands.audit.result import AuditedTree, AuditResult

ARCHIVE = "vex.tar.gz"
_SPECIFICATION = "0.1"
_STATE = "products.json"
_MANIFESTS = ("vex-repository.json", ".well-known/vex-repository.json")
_LARGEST = 64 * MEGABYTE


class Fix(BaseModel):
    """A fix that a patch brings: the advisories, and where its diff and its test are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    patch: str
    advisories: tuple[str, ...]
    diff: str
    tests: tuple[str, ...]


class Product(BaseModel):
    """What the feed says of one package URL."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    purl: str
    subject: str
    statements: tuple[dict[str, JsonValue], ...]
    fixes: tuple[Fix, ...] = ()


class Feed(BaseModel):
    """All that a folder says. The products are in the order of their names and versions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    updated_at: AwareDatetime
    url: str | None = None
    author: str | None = None
    products: tuple[Product, ...]


def write_feed(
    result: AuditResult, folder: Path, url: str | None, author: Author | None = None
) -> Feed:
    """Write what an audit says into a folder, beside what the folder says of other products.

    `url` is where the folder will be, and `author` who answers for it; without them, the folder
    keeps those that it has. A reader sees all of the old folder or all of the new one.

    Raises:
        UsageError: the folder has other things in it, or something audited has no package URL of
            its own: what is published about it would count for other code.
    """
    for tree in result.trees:
        _refuse_unnamed(tree)
    before = _read(folder)
    products = {one.purl: one for one in before.products} if before else {}
    diffs = _diffs_of(folder) if before else {}
    for tree in result.trees:
        diffs |= dict(_tree_diffs(tree))
        products |= {one.purl: one for one in _products(tree)}
    seconds = source_date_epoch()
    now = datetime.now(UTC).replace(microsecond=0)
    feed = Feed(
        updated_at=now if seconds is None else datetime.fromtimestamp(seconds, UTC),
        url=url.rstrip("/") if url else before.url if before else None,
        author=str(author) if author else before.author if before else None,
        products=tuple(sorted(products.values(), key=_order)),
    )
    with staging_folder(folder.absolute().parent, folder.name) as staged:
        new = staged / "new"
        for path, content in _files(feed, diffs).items():
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            (new / path).write_bytes(content)
        replace_dir(new, folder, staged / "old")
    return feed


def _refuse_unnamed(tree: AuditedTree) -> None:
    is_release = tree.plan.pin.kind == "pypi" and not tree.carried and tree.applied is None
    is_wheel = tree.applied is not None and tree.distributions
    if not (is_release or is_wheel):
        raise UsageError(
            "a feed is for published releases and for the wheels of recipes: to a scanner, this "
            "code has the name and the version of other code",
            where=tree.subject,
            hint="give --vllm VERSION or --recipe NAME, or another --format for this one alone",
            code="security.not-for-a-feed",
        )


def _read(folder: Path) -> Feed | None:
    if not folder.exists():
        return None
    path = folder / _STATE
    if folder.is_dir() and not path.exists() and not any(folder.iterdir()):
        return None
    try:
        return Feed.model_validate(parse_json(read_file(path, _LARGEST)))
    except ValidationError as error:
        what = f"{_STATE}: {first_of(error)}"
    except (OSError, ValueError) as error:
        what = f"{_STATE} cannot be read: {error}"
    raise UsageError(
        f"is not empty, and is no feed of vpatch: {what}",
        where=str(folder),
        hint="name another folder, or remove this one",
        code="security.not-a-feed",
    )


def _products(tree: AuditedTree) -> Iterator[Product]:
    statements = tuple(statement_of(one) for one in tree.stated)
    for package in tree.packages:
        yield Product(
            purl=package.purl,
            subject=tree.subject,
            statements=statements,
            fixes=tuple(_fixes(tree)),
        )


def _fixes(tree: AuditedTree) -> Iterator[Fix]:
    """The patches that the code carries, and that cure an advisory there."""
    cured = [
        (one.advisory.id, decision.patch.id)
        for one in tree.findings
        if one.status is Status.FIXED
        for decision in one.decisions
    ]
    for decision in tree.applied.taken if tree.applied else ():
        patch = decision.patch
        names = tuple(name for name, cure in cured if cure == patch.id)
        if names:
            tests = tuple(f"{patch.id}/{one.test}" for one in patch.declaration.proof)
            path = _diff_path(tree, patch.id)
            yield Fix(patch=patch.id, advisories=names, diff=path, tests=tests)


def _tree_diffs(tree: AuditedTree) -> Iterator[tuple[str, bytes]]:
    for patch, text in diffs_of(tree.applied).items() if tree.applied else ():
        yield _diff_path(tree, patch), text.encode()


def _diff_path(tree: AuditedTree, patch: str) -> str:
    return f"diffs/{tree.distributions[0][1]}/{patch}.diff"


def _diffs_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): read_file(path, _LARGEST)
        for path in sorted(folder.glob("diffs/*/*.diff"))
    }


def _files(feed: Feed, diffs: Mapping[str, bytes]) -> dict[str, bytes]:
    """Every file of the folder, by its path."""
    packages: dict[str, list[Product]] = {}
    for product in feed.products:
        purl = PackageURL.from_string(product.purl)
        packages.setdefault(PackageURL(purl.type, None, purl.name).to_string(), []).append(product)
    locations = {name: f"{name.replace('pkg:', 'pkg/', 1)}/vex.json" for name in packages}
    rows = [{"id": name, "location": locations[name]} for name in packages]
    index: dict[str, object] = {"updated_at": feed.updated_at.isoformat(), "packages": rows}
    data = {"index.json": _json(index)}
    for name, products in packages.items():
        document = document_of_statements(_merged(products), feed.updated_at, feed.author)
        data[locations[name]] = document.encode()
    used = {fix.diff for product in feed.products for fix in product.fixes}
    files = data | {path: content for path, content in diffs.items() if path in used}
    files[ARCHIVE] = _archive(data, feed.updated_at)
    files["index.html"] = write_page(feed, set(files)).encode()
    files[_STATE] = _json(feed.model_dump(mode="json"))
    if feed.url is not None:
        files |= dict.fromkeys(_MANIFESTS, _json(_manifest(feed.url)))
    return files


def _merged(products: list[Product]) -> list[dict[str, JsonValue]]:
    """The statements of several products: each one names all that it holds for."""
    merged: dict[str, dict[str, JsonValue]] = {}
    named: dict[str, list[JsonValue]] = {}
    for product in products:
        for statement in product.statements:
            key = hashlib.sha256(json.dumps(statement, sort_keys=True).encode()).hexdigest()
            merged.setdefault(key, statement)
            named.setdefault(key, []).append({"@id": product.purl})
    return [{**statement, "products": named[key]} for key, statement in merged.items()]


def _manifest(url: str) -> dict[str, JsonValue]:
    version: dict[str, JsonValue] = {
        "spec_version": _SPECIFICATION,
        "locations": [{"url": f"{url}/{ARCHIVE}"}],
        "update_interval": "24h",
    }
    return {
        "name": "vpatch",
        "description": "What security advisories mean for releases and patched wheels of vLLM",
        "versions": [version],
    }


def _archive(files: Mapping[str, bytes], at: datetime) -> bytes:
    """The same files at the same time give the same bytes."""
    seconds = int(at.timestamp())
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, content in sorted(files.items()):
            info = tarfile.TarInfo(path)
            info.size, info.mtime, info.mode = len(content), seconds, 0o644
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=seconds)


def _json(document: object) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


def _order(product: Product) -> tuple[str, Version]:
    purl = PackageURL.from_string(product.purl)
    return purl.name, Version(purl.version or "0")
