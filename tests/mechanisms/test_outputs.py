"""What releases let out, of every mechanism: as many rows as were asked for, none among them."""

import numpy as np
import pytest

from sottovoce.mechanisms.mechanism import MECHANISMS
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng


@pytest.mark.parametrize("word", list(MECHANISMS.kinds))
def test_no_draws_are_no_rows_of_the_same_width(word: str) -> None:
    mechanism = MECHANISMS[word].example()
    seen = mechanism.see(mechanism.worst_pair()[0])
    two, none = (np.asarray(mechanism.outputs(seen, seeded_rng(1), draws)) for draws in (2, 0))
    assert len(two) == 2 and none.shape == (0, *two.shape[1:])
    with pytest.raises(InvalidValue, match="draws"):
        mechanism.outputs(seen, seeded_rng(1), -1)
