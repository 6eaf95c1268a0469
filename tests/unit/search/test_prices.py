"""The additive model wants least of what the simulator's plans are compared by."""

from dataclasses import replace

import pytest

from tilewright.program.metrics import Metrics, Objective, prices_of, score

pytestmark = pytest.mark.quick

PLAN = Metrics(cycles=4000, read_bytes=900, write_bytes=100, energy_pj=5e4, peak_bytes=700, tasks=9)


@pytest.mark.parametrize("objective", [o for o in Objective if o is not Objective.MEMORY])
def test_a_price_is_what_a_little_more_adds_to_the_score(objective: Objective) -> None:
    prices = prices_of(objective, PLAN.cycles, PLAN.energy_pj)
    more = (
        (prices.cycle, replace(PLAN, cycles=PLAN.cycles + 1)),
        (prices.byte, replace(PLAN, read_bytes=PLAN.read_bytes + 1)),
        (prices.picojoule, replace(PLAN, energy_pj=PLAN.energy_pj + 1)),
    )
    for price, plan in more:
        added = score(plan, objective) - score(PLAN, objective)
        assert price == pytest.approx(added, rel=1e-6, abs=2e-3)  # beside ties


def test_a_percent_of_energy_is_worth_a_percent_of_time() -> None:
    prices = prices_of(Objective.EDP, 4000, 5e4)
    assert prices.of(40, 0, 0) == pytest.approx(prices.of(0, 0, 500))
    assert prices_of(Objective.EDP, 4000, 0.0) == prices_of(Objective.LATENCY, 4000, 0.0)
