"""pip-audit reads no VEX. What docs/how-to/security.md shows makes it ignore what is cured."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tests.commands.audit.mixed import ADVISORIES, CLAIMED, CURED_ONES, VERSION
from tests.commands.audit.trivy import write_installed
from tests.documents import page, run
from tests.http_server import answering
from vpatch.commands.audit.output import AuditOutput
from vpatch.commands.audit.result import AuditResult

COMMAND = re.search(
    r"^vpatch audit --python .venv/bin/python --json(.*?pip-audit.*?)$",
    page("how-to/security.md"),
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.slow
def test_exactly_what_is_cured_is_ignored(mixed, tmp_path):
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    output = AuditOutput.model_validate(AuditResult(ADVISORIES, (mixed,))).model_dump(mode="json")
    (tmp_path / "audit.json").write_text(json.dumps({"result": output}))
    write_installed(tmp_path / "root", VERSION)
    known = [one.model_dump(mode="json") for one in ADVISORIES.all if one.id in CLAIMED]
    body = json.dumps({"vulns": known}).encode()
    with answering(lambda _path: (200, body)) as port:
        folder = "--path root/usr/lib/python3/site-packages --cache-dir cache"
        local = f"--osv-url http://127.0.0.1:{port} {folder} --progress-spinner off --format json"
        plain = found(run(f"pip-audit -s osv {local}", tmp_path, (1,)))
        left = found(run(f"cat audit.json {COMMAND[1]} {local}", tmp_path, (123,)))
    assert len(plain) == len(CLAIMED)
    assert plain - left == CURED_ONES
    assert left < plain


def found(text):
    (package,) = json.loads(text)["dependencies"]
    names = {one.id: one for one in ADVISORIES.all}
    # pip-audit may name one by an alias.
    return {
        next(name for name in (row["id"], *row["aliases"]) if name in names)
        for row in package["vulns"]
    }
