"""What hostile files claim, and what reading them may cost."""

from __future__ import annotations

import resource

ROWS = 10**12


def peak() -> int:
    """Largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
