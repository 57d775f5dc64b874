"""Work counted: what stands for time in refinement, as the core has no clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class WorkBudget:
    """Seconds that the work done so far is about worth, by fixed figures: those of a core at about 3 GHz."""

    allowed: float
    done: float = 0.0

    @property
    def over(self) -> bool:
        """Whether the allowance is spent."""
        return self.done >= self.allowed

    def filled(self, units: int, bins: int, steps: int, pairs: int) -> None:
        """Count a filling of bins out of so many sorts of units; per step, the pairs of both that it looks at."""
        self.done += 120e-6 + 6e-8 * units * bins + 45e-6 * steps + 8e-9 * pairs

    def looked(self, units: int, bins: int) -> None:
        """Count a choice of bins by what they could hold."""
        self.done += 80e-6 + 1.2e-8 * units * bins

    def searched(self, units: int, bins: int) -> None:
        """Count a choice among bins that are filled, of those to empty or of those to fill up."""
        self.done += 150e-6 + 1.5e-8 * units * bins

    def solved(self, cells: int, rows: int) -> None:
        """Count a linear program of so many pairs of unit and bin, and of unit and resource or rule."""
        self.done += 2e-3 + 4e-6 * (cells + rows)
