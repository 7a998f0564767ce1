"""A run: workers take turns, case by case and round by round, so that a slow minute hits all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .case import Case, disagreement
from .client import Client, Failure
from .libraries import is_installed
from .result import Result

REST_SECONDS = 0.15  # OpenBLAS's threads keep a core busy for 0.1 s after their last product
CASE_SECONDS = 20.0  # a library that needs longer for its rounds gets fewer
REFERENCE = ("jax", "numpy")  # whose float64 is right; the first that is there and can do the case
Tell = Callable[[str], None]


class Plan(NamedTuple):
    """How many calls make a round of a library, in how many it takes part, and what they took."""

    calls: int
    turns: int
    seconds: list[float]


class Session:
    """Workers of the libraries, and references that compute in float64."""

    def __init__(self, names: Sequence[str], tell: Tell = lambda text: None) -> None:
        self.clients = {name: Client(name) for name in names}
        self.references = {n: Client(n, precise=True) for n in REFERENCE if is_installed(n)}
        self.tell = tell

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        for client in [*self.clients.values(), *self.references.values()]:
            client.close()

    def measure(self, case: Case, rounds: int) -> Result:
        """Check that libraries agree, then time them in turns."""
        result = Result(case)
        made = {}
        for name, client in self.clients.items():
            self.tell(f"{case.title}: {name} compiles")
            value = self._asked(result, name, client, "prepare", case.name)
            if value is not None:
                made[name] = value
        self._compare(result, made)
        plans = {}
        for name in made:
            time.sleep(REST_SECONDS)
            found = self._asked(result, name, self.clients[name], "calibrate")
            if found is not None:
                calls, taken = found
                turns = min(rounds, int(CASE_SECONDS / taken))
                plans[name] = Plan(calls, turns, [taken / calls] if turns == 0 else [])
        self._time(result, plans, rounds)
        for name, client in self.clients.items():
            if name in made and client.process is not None:
                self._asked(result, name, client, "drop")
        return result

    def _time(self, result: Result, plans: dict[str, Plan], rounds: int) -> None:
        """Rounds, each begun by another library; slow ones take part only in the first."""
        names = list(plans)
        for i in range(rounds):
            self.tell(f"{result.case.title}: round {i + 1} of {rounds}")
            start = i % max(1, len(names))
            for name in names[start:] + names[:start]:
                plan = plans[name]
                if name in result.failed or i >= plan.turns:
                    continue
                time.sleep(REST_SECONDS)
                taken = self._asked(result, name, self.clients[name], "round", plan.calls)
                if taken is not None:
                    plan.seconds.append(taken)
        done = [name for name in names if name not in result.failed]
        result.seconds = {name: plans[name].seconds for name in done}

    def _asked(
        self, result: Result, name: str, client: Client, method: str, *arguments: Any
    ) -> Any:
        """The answer, or None with the reason in the result."""
        try:
            return client.ask(method, *arguments)
        except Failure as failure:
            reasons = result.lacking if failure.lacks else result.failed
            reasons[name] = str(failure)
            return None

    def _compare(self, result: Result, made: dict[str, Any]) -> None:
        """Note who is wrong by the reference, and that nobody could be it."""
        self.tell(f"{result.case.title}: reference")
        for client in self.references.values():
            try:
                expected = client.ask("prepare", result.case.name)
                client.ask("drop")
            except Failure:
                continue
            for name, ours in made.items():
                problem = disagreement(result.case, ours, expected)
                if problem:
                    result.wrong[name] = problem
                    self.tell(f"WRONG: {result.case.title}, {name}: {problem}")
            return
        result.wrong["reference"] = "no library could be the reference"
