"""Examples that FIRST publishes with the specifications of CVSS."""

from __future__ import annotations

import pytest

from vpatch.library.cvss import severity_of


@pytest.mark.parametrize(
    ("vector", "severity"),
    [
        # Examples of version 3.1: 3.1, 6.4, 7.5, 9.8 and 9.9.
        ("CVSS:3.1/AV:N/AC:H/PR:N/UI:R/S:U/C:L/I:N/A:N", "low"),
        ("CVSS:3.1/AV:N/AC:L/PR:L/UI:N/S:C/C:L/I:L/A:N", "moderate"),
        ("CVSS:3.0/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:N/A:N", "high"),
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", "critical"),
        ("CVSS:3.1/AV:N/AC:L/PR:L/UI:N/S:C/C:H/I:H/A:H", "critical"),
        # No harm is no severity.
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:N", None),
        # Examples of version 4.0: 6.9, 8.7 and 9.3.
        ("CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:N/VI:N/VA:L/SC:N/SI:N/SA:N", "moderate"),
        ("CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:N/VI:N/VA:H/SC:N/SI:N/SA:N", "high"),
        ("CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:H/VI:H/VA:H/SC:N/SI:N/SA:N", "critical"),
        # What nobody has attacked yet is as severe: a database says the base alone.
        ("CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:N/VI:N/VA:H/SC:N/SI:N/SA:N/E:U", "high"),
        # Not a vector of these versions.
        ("CVSS:3.1/AV:N", None),
        ("CVSS:4.0/AV:N/AC:L", None),
        ("AV:N/AC:L/Au:N/C:P/I:P/A:P", None),
        ("9.8", None),
    ],
)
def test_severity_of_a_vector(vector, severity):
    assert severity_of(vector) == severity
