"""Which machines are fast at bfloat16."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailmask._util.precision import processor_features

CPUINFO = Path("/proc/cpuinfo")


@pytest.mark.skipif(not CPUINFO.exists(), reason="only Linux lists the processor's features in a file")
def test_features_are_those_that_linux_lists() -> None:
    flags = set(CPUINFO.read_text().split())
    for name in ("avx2", "avx512_bf16", "amx_bf16"):
        assert (name in processor_features()) == (name in flags)
