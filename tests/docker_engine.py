"""A Docker Engine for tests, as `.ci/docker` starts it, and small images in it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import uuid
from contextlib import closing, contextmanager, suppress

import pytest
from docker import APIClient
from docker.errors import ImageNotFound

WHERE = "VPATCH_TEST_DOCKER"
BASE = "VPATCH_TEST_BASE"
# Where Debian's Python has its packages.
PACKAGES = "/usr/lib/python3/dist-packages"


def tar(files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o644
            archive.addfile(entry, io.BytesIO(text))
    content.seek(0)
    return content


class Engine:
    """The engine, asked past vpatch; `base` is this session's own, as others run beside it."""

    def __init__(self, where, base):
        self.where = where
        self.api = APIClient(base_url=where)
        self.base = f"vpatch-test-base:{uuid.uuid4().hex[:8]}"
        self.build(self.base, f"FROM {base}\nCOPY . /\n", {"session": self.base.encode()})

    def build(self, tag, dockerfile, files=(), network="none"):
        """Build an image; `files` are written beside its Dockerfile."""
        context = tar({"Dockerfile": dockerfile.encode(), **dict(files)})
        events = self.api.build(
            fileobj=context,
            custom_context=True,
            tag=tag,
            rm=True,
            decode=True,
            network_mode=network,
        )
        errors = [event["error"] for event in events if "error" in event]
        assert not errors, errors
        return self.id(tag)

    def id(self, name):
        return self.api.inspect_image(name)["Id"]

    def layers(self, name):
        return self.api.inspect_image(name)["RootFS"]["Layers"]

    def images(self):
        """All images that stand on this session's base, those without a name as well."""
        first = self.layers(self.base)[-1]
        found = {one["Id"] for one in self.api.images(all=True)}
        return {one for one in found if first in self.layers(one)}

    def commands(self):
        """What runs in containers of images that stand on this session's base."""
        found = self.api.containers(filters={"ancestor": self.base})
        return [one["Command"] for one in found]

    def has(self, name):
        try:
            self.api.inspect_image(name)
        except ImageNotFound:
            return False
        return True

    def settings(self, name):
        return self.api.inspect_image(name)["Config"]

    def forget(self, *names):
        for name in names:
            with suppress(ImageNotFound):
                self.api.remove_image(name, force=True)

    def load(self, tag, architecture):
        """Load an empty image for another architecture."""
        config = json.dumps(
            {
                "architecture": architecture,
                "os": "linux",
                "config": {},
                "rootfs": {"type": "layers", "diff_ids": []},
            }
        ).encode()
        name = f"{hashlib.sha256(config).hexdigest()}.json"
        manifest = json.dumps([{"Config": name, "RepoTags": [tag], "Layers": []}]).encode()
        self.api.load_image(tar({name: config, "manifest.json": manifest}))

    def containers(self):
        """All containers of images that stand on this session's base."""
        found = self.api.containers(all=True, filters={"ancestor": self.base})
        return {one["Id"] for one in found}

    def run(self, image, *command):
        """Run a command in an image, and return what it prints."""
        container = self.api.create_container(
            image, list(command[1:]), entrypoint=[command[0]], user="0", network_disabled=True
        )["Id"]
        try:
            self.api.start(container)
            assert self.api.wait(container)["StatusCode"] == 0
            return self.api.logs(container).decode()
        finally:
            self.api.remove_container(container, force=True)

    def files(self, image, folder):
        """The files of an image below a folder, by their paths in it."""
        container = self.api.create_container(image, ["true"])["Id"]
        try:
            chunks, _ = self.api.get_archive(container, folder)
            content = io.BytesIO(b"".join(chunks))
        finally:
            self.api.remove_container(container)
        with tarfile.open(fileobj=content) as archive:
            return {
                entry.name.partition("/")[2]: archive.extractfile(entry).read()
                for entry in archive.getmembers()
                if entry.isfile()
            }


@contextmanager
def engine_for_tests():
    where = os.environ.get(WHERE)
    if where is None:
        pytest.skip("no Docker Engine for tests: .ci/docker COMMAND runs a command beside one")
    engine = Engine(where, os.environ[BASE])
    with closing(engine.api):
        yield engine
        engine.forget(engine.base)
