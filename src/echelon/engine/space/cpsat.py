"""CP-SAT behind one interface: loaded on first use, one worker, a fixed seed, deterministic time as the budget.

So the same question gets the same answer on every machine, and few processes ever pay for loading the library.
"""

from __future__ import annotations

from typing import Any

from .budget import Steps

#: Steps that are worth one unit of the solver's deterministic time.
STEPS_PER_UNIT = 100_000


class Solver:
    """One model: build it with `cp`, solve it, read values."""

    def __init__(self) -> None:
        from ortools.sat.python import cp_model  # half a second and 60 MB

        self._library: Any = cp_model
        self.cp: Any = cp_model.CpModel()
        self.sum: Any = cp_model.LinearExpr.sum
        self.weighted: Any = cp_model.LinearExpr.weighted_sum
        self._answer: Any = None
        #: Whether the last answer is final: the best solution, or that there is none.
        self.ended = False

    def solve(self, steps: Steps, linearization: int, *, probing: bool = True, presolve: bool = True) -> bool | None:
        """Whether there is a solution; None if the budget ended first.

        `linearization` is how much of the model goes into its relaxation; `probing` tries variables first, `presolve`
        rewrites the model first.
        """
        solver = self._library.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.linearization_level = linearization
        if not probing:
            solver.parameters.cp_model_probing_level = 0
        solver.parameters.cp_model_presolve = presolve
        solver.parameters.max_deterministic_time = max(0, steps.left) / STEPS_PER_UNIT
        status = solver.solve(self.cp)
        steps.left -= 1 + int(solver.response_proto.deterministic_time * STEPS_PER_UNIT)
        self._answer = solver
        self.ended = status in (self._library.OPTIMAL, self._library.INFEASIBLE)
        if status in (self._library.OPTIMAL, self._library.FEASIBLE):
            return True
        return False if status == self._library.INFEASIBLE else None

    @property
    def bound(self) -> int:
        """A lower bound of the minimised expression."""
        inner: int = (
            self._answer.response_proto.inner_objective_lower_bound
        )  # an integer, where a float would be rounded
        offset: float = self.cp.proto.objective.offset
        return max(0, inner + round(offset))

    def value(self, variable: Any) -> int:
        """The value of a variable or a sum in the solution."""
        found: int = self._answer.value(variable)
        return found
