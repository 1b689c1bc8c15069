"""What travels to a node."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import vpatch
from vpatch.cluster.parcel import Parcel


def test_the_same_files_make_the_same_parcel():
    one, two = Parcel({"a": b"1", "b": b"2"}), Parcel({"b": b"2", "a": b"1"})
    assert one.packed == two.packed
    assert one.digest != Parcel({"a": b"1"}).digest


def test_it_has_vpatchs_own_code_and_no_data():
    with zipfile.ZipFile(io.BytesIO(Parcel({"a": b"1"}).packed)) as archive:
        names = set(archive.namelist())
    package = Path(vpatch.__file__).parent
    own = {f"code/vpatch/{p.relative_to(package).as_posix()}" for p in package.rglob("*.py")}
    assert {name for name in own if "/data/" not in name} <= names
    assert not [name for name in names if "/data/" in name or "__pycache__" in name]
    assert "a" in names
