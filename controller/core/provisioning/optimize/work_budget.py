"""Count the work of refinement in place of time: the core reads no clock, so that equal problems get equal plans.

One unit of work is what one core at about 3 GHz does in one second. The coefficients were fitted to CPU times measured
there: seconds for each call, for each step, and for each element of the arrays that a call goes through. On another
machine the same work takes more or less time, and gives the same plan: a core half as fast takes twice the seconds.
Where that is too long, or a faster core has time to spare, change `SolveOptions.budget_seconds`, not the coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class WorkBudget:
    """Work allowed and work done, in the unit above."""

    allowed: float
    done: float = 0.0

    @property
    def over(self) -> bool:
        """Whether all work allowed is done."""
        return self.done >= self.allowed

    def filled(self, items: int, bins: int, steps: int, pairs: int) -> None:
        """Count a call of `fill`: item types, bins, steps, and pairs of item type and bin summed over the steps."""
        self.done += 120e-6 + 6e-8 * items * bins + 45e-6 * steps + 8e-9 * pairs

    def ranked(self, items: int, bins: int) -> None:
        """Count a ranking of bin types by the worth that they could hold."""
        self.done += 80e-6 + 1.2e-8 * items * bins

    def searched(self, items: int, bins: int) -> None:
        """Count a choice among filled bins, of those to empty or to top up."""
        self.done += 150e-6 + 1.5e-8 * items * bins

    def covered(self, patterns: int, items: int) -> None:
        """Count a linear program that covers units of these item types by patterns."""
        self.done += 350e-6 + 0.9e-6 * patterns + 3e-8 * patterns * items

    def solved(self, cells: int, rows: int) -> None:
        """Count a linear program: pairs of item and bin, and pairs of item and resource or host rule."""
        self.done += 2e-3 + 4e-6 * (cells + rows)
