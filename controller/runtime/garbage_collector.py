"""How often Python looks for garbage: seldom, as nearly all that is made here lives until the plan is carried out."""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 100_000
"""Objects made before the collector looks at the young ones; Python's own 700 are looked at a hundred times a plan."""


def collect_seldom() -> None:
    """Let plans of tens of thousands of pods be made without the collector walking over their objects again and again.

    Reference counts still free nearly all at once; what only a cycle holds waits for the next look.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
