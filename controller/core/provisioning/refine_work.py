"""Work counted: what stands for time in refinement, as the core has no clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Work:
    """Seconds that the work done so far is about worth, by fixed figures: those of a core at about 3 GHz."""

    allowed: float
    done: float = 0.0

    @property
    def over(self) -> bool:
        """Whether the allowance is spent."""
        return self.done >= self.allowed

    def filled(self, steps: int, units: int, bins: int) -> None:
        """Count a filling of so many bins out of so many units, and how often something was put into each."""
        self.done += 150e-6 + steps * (50e-6 + 8e-9 * units * bins)

    def solved(self, cells: int) -> None:
        """Count a linear program of so many pairs of unit and bin."""
        self.done += 2e-3 + 6e-6 * cells
