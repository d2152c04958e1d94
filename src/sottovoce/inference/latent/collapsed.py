"""States of hidden chains drawn one by one, with the probabilities of the transitions summed out.

As Goldwater and Griffiths (2007) have it, and Geumlek (2020, §4.5) after them. Drawing whole paths (`sample_paths`)
leaves the same posterior and moves farther in a sweep; this is the sampler that the thesis ran.
"""

from __future__ import annotations

import numpy as np

from sottovoce.privacy.numbers import Floats, Integers


def collapsed_states(
    log_emission: Floats, states: Integers, prior: float, rng: np.random.Generator, weight: Floats | float = 1.0
) -> Integers:
    r"""Return all states after one sweep, each drawn given all others, several runs side by side.

    .. math:: \Pr[z_t = k \mid \cdot] \propto p(x_t \mid k)\, (n_{z_{t-1} k} + \alpha)\,
              \frac{n_{k z_{t+1}} + 1[z_{t-1} = k = z_{t+1}] + \alpha}{n_{k \cdot} + 1[z_{t-1} = k] + K\alpha}

    with n the moves of all other steps.

    Parameters
    ----------
    log_emission
        log p(x_t | z_t = k), with axes (run, chain, step, state); zero where a step is missing.
    states
        Where the sweep begins, (run, chain, step).
    prior
        What each entry of the Dirichlet priors of the first state and of the transitions is worth.
    weight
        The power that every conditional probability is raised to, of each run.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> sure = np.log([[[[0.99, 1e-9], [1e-9, 0.99]]]])
    >>> collapsed_states(sure, np.array([[[1, 1]]]), 1.0, seeded_rng(1))
    array([[[0, 1]]])
    """
    runs, chains, steps, size = log_emission.shape
    run, every = np.arange(runs), np.arange(size)
    states = states.copy()
    first = np.stack([(states[:, :, 0] == k).sum(axis=1) for k in every], axis=1) + prior
    moves = np.full((runs, size, size), float(prior))
    np.add.at(moves, (run[:, None, None], states[:, :, :-1], states[:, :, 1:]), 1.0)
    power = np.broadcast_to(np.asarray(weight, dtype=np.float64), runs)[:, None]
    uniform = rng.random((steps, chains, runs, 1))
    for c in range(chains):
        for t in range(steps):
            now = states[:, c, t]
            before = states[:, c, t - 1] if t else None
            after = states[:, c, t + 1] if t + 1 < steps else None
            if after is not None:
                moves[run, now, after] -= 1
            if before is None:
                first[run, now] -= 1
                logs = np.log(first)
            else:
                moves[run, before, now] -= 1
                logs = np.log(moves[run, before])
            if after is not None:
                ahead, total = moves[run, :, after], moves.sum(axis=2)
                if before is not None:  # the move into the state counts before the one out of it
                    here = before[:, None] == every
                    ahead, total = ahead + (here & (after[:, None] == every)), total + here
                logs = logs + np.log(ahead / total)
            logs = power * (logs + log_emission[:, c, t])
            below = np.exp(logs - logs.max(axis=1, keepdims=True)).cumsum(axis=1)
            new = (below[:, :-1] < uniform[t, c] * below[:, -1:]).sum(axis=1)
            states[:, c, t] = new
            if before is None:
                first[run, new] += 1
            else:
                moves[run, before, new] += 1
            if after is not None:
                moves[run, new, after] += 1
    return states
