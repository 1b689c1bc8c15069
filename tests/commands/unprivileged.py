"""Commands as somebody who may not write everywhere, also where the tests run as root."""

from __future__ import annotations

import os

_CAPS = "-dac_override,-dac_read_search,-fowner"


def prefix():
    """What to put before a command: root without the right to ignore permissions."""
    if os.geteuid() != 0:
        return ()
    return ("setpriv", "--bounding-set", _CAPS, "--inh-caps", _CAPS)
