"""A refusal says in shares what was asked for and what is left."""

import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.privacy import BudgetExceeded


def test_a_refusal_speaks_of_shares(tmp_path) -> None:
    data = pa.table({"smoker": [True, False] * 50})
    facts = sv.Facts(smoker=sv.Flag())
    with sv.Curator(data, tmp_path / "l", sv.ApproxDP(1, 1e-6), facts=facts, dataset="p") as curator:
        curator.proportion("smoker", spend=0.25)
        with pytest.raises(BudgetExceeded, match=r"it takes 90 % of it and 75 % is left .*nothing was spent"):
            curator.proportion("smoker", spend=0.9)
        curator.proportion("smoker", spend=0.75)
        with pytest.raises(
            BudgetExceeded, match=r"it takes 1 % of it and less than 0.001 % is left .* and next to nothing of"
        ):
            curator.proportion("smoker", spend=0.01)
        with pytest.raises(BudgetExceeded, match=r"it takes 37,351 % of it"):
            curator.proportion("smoker", spend=sv.ApproxDP(200, 1e-6))
