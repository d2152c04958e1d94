"""Draws from a hidden Markov model's posterior, and what they say."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from sottovoce.inference.latent.diagnostics import Convergence
from sottovoce.inference.latent.draws import NamedDraws
from sottovoce.inference.latent.fields import Field, field_from
from sottovoce.inference.latent.forward_backward import forward_filter
from sottovoce.inference.latent.gibbs_sampler import ChainState
from sottovoce.inference.latent.label_switching import common_labels
from sottovoce.mechanisms.arviz_groups import arviz_groups
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Floats, Integers

_BLOCK = 2_000_000


@dataclass(frozen=True, eq=False, repr=False)
class HiddenMarkovPosterior(NamedDraws):
    """Posterior draws with the same labels throughout, the commonest state first.

    Attributes
    ----------
    fields
        The fields of the emissions.
    initial, transition
        Probabilities of the first state (draw, state) and of the next one (draw, from, to).
    emissions
        Probabilities of each field's categories (draw, state, category).
    states
        The states (draw, chain, step).
    chains
        How many sampling chains the draws come from, one chain's draws after the other's.
    """

    fields: tuple[Field, ...]
    initial: Floats
    transition: Floats
    emissions: tuple[Floats, ...]
    states: Integers
    chains: int = 1

    @staticmethod
    def relabelled(fields: Sequence[Field], draws: ChainState, chains: int = 1) -> HiddenMarkovPosterior:
        """Return the posterior of draws (its runs are the draws), each state under one name."""
        labels = common_labels(draws.states, draws.initial.shape[-1])
        d = np.arange(len(labels))[:, None]
        return HiddenMarkovPosterior(
            tuple(fields),
            draws.initial[d, labels],
            draws.transition[d[..., None], labels[:, :, None], labels[:, None, :]],
            tuple(theta[d, labels] for theta in draws.emissions),
            np.argsort(labels, axis=1)[d[..., None], draws.states],
            chains,
        )

    def __len__(self) -> int:
        return len(self.initial)

    def after(self, burn_in: int) -> HiddenMarkovPosterior:
        """Return the draws of every chain after its first `burn_in`."""
        count = len(self) // self.chains
        if not 0 <= burn_in < count:
            raise InvalidValue(f"burn_in must lie between 0 and {count - 1}. Got {burn_in}")
        late = np.arange(len(self)).reshape(self.chains, -1)[:, burn_in:].ravel()
        return self._some(late)

    @cached_property
    def convergence(self) -> Convergence:
        """R-hat and the effective number of draws: the worst over all probabilities and the share that stays."""
        named = {f.name: theta for f, theta in zip(self.fields, self.emissions, strict=True)}
        named |= {"the transitions": self.transition, "the share of steps that stay": self.stay_share}
        return Convergence.of({name: draws.reshape(self.chains, -1, *draws.shape[1:]) for name, draws in named.items()})

    @property
    def stay_share(self) -> Floats:
        """The share of all steps that stay in their state, by draw; 1 where there is a single step."""
        same = self.states[:, :, 1:] == self.states[:, :, :-1]
        return same.mean(axis=(1, 2)) if same.size else np.ones(len(self))

    def cell_emission(self, name: str) -> Floats:
        """Return the draws of a field's probabilities in every cell, whatever its state is called.

        The axes are (draw, chain, step, category).
        """
        return self.emission(name)[np.arange(len(self))[:, None, None], self.states]

    def emission(self, name: str) -> Floats:
        """Return the draws of one field's probabilities (draw, state, category)."""
        for field, theta in zip(self.fields, self.emissions, strict=True):
            if field.name == name:
                return theta
        raise InvalidValue(f"no field is called {name!r}; known: {', '.join(f.name for f in self.fields)}")

    @property
    def named(self) -> Mapping[str, Floats]:
        """The draws of each field's probabilities, and of ``initial`` and ``transition``, by name."""
        emissions = {f.name: theta for f, theta in zip(self.fields, self.emissions, strict=True)}
        return emissions | {"initial": self.initial, "transition": self.transition}

    def along(self, name: str) -> tuple[Sequence[Hashable], ...]:
        """Return the states, by number, and a field's categories."""
        shown = {f.name: f.categories for f in self.fields}
        return (range(self.initial.shape[-1]), shown[name]) if name in shown else super().along(name)

    def thinned(self, most: int) -> HiddenMarkovPosterior:
        """Return evenly spaced draws of every chain, at most so many in all."""
        count = len(self) // self.chains
        kept = np.unique(np.linspace(0, count - 1, max(min(most // self.chains, count), 1)).astype(int))
        return self._some((np.arange(self.chains)[:, None] * count + kept).ravel())

    def _some(self, i: Integers) -> HiddenMarkovPosterior:
        emissions = tuple(theta[i] for theta in self.emissions)
        return replace(
            self, initial=self.initial[i], transition=self.transition[i], emissions=emissions, states=self.states[i]
        )

    @property
    def state_probabilities(self) -> Floats:
        """How often each cell was in each state: (chain, step, state)."""
        return np.stack([(self.states == s).mean(axis=0) for s in range(self.initial.shape[1])], axis=-1)

    @property
    def most_frequent_states(self) -> Integers:
        """The state that each cell was in most often: (chain, step)."""
        return np.asarray(self.state_probabilities.argmax(axis=-1))

    def log_likelihood(self, counts: Sequence[object]) -> Floats:
        """Return log p(counts | a draw) for every draw, states summed out, multinomial coefficients left out.

        Parameters
        ----------
        counts
            One array (chain, step, category) a field; a missing step is all zeros. The chains need not be those
            of the fit.
        """
        tables = self._tables(counts)
        per_draw = max(tables[0].size // tables[0].shape[-1] * self.initial.shape[1], 1)
        block = max(_BLOCK // per_draw, 1)
        parts = []
        for first in range(0, len(self), block):
            subset = slice(first, first + block)
            state = ChainState(
                self.initial[subset],
                self.transition[subset],
                tuple(e[subset] for e in self.emissions),
                self.states[subset],
            )
            _, logs = forward_filter(state.log_emission(tables), state.initial, state.transition)
            parts.append(logs.sum(axis=1))
        return np.concatenate(parts)

    def held_out_log_likelihood(self, counts: Sequence[object], missing: object) -> float:
        r"""Return Σ over held-out cells of log p(cell | the other cells), averaged over draws inside the logarithm.

        A held-out cell's state is summed out given its sampled neighbours, which needs no private count:
        p(cell) = mean over draws of Σ_s Pr[s | neighbours] Π θ_s^N. Multinomial coefficients are left out.

        Parameters
        ----------
        counts
            The true counts, one array (chain, step, category) a field; only held-out cells are read.
        missing
            Which cells the fit did not see: (chain, step).
        """
        tables = self._tables(counts)
        held = np.asarray(missing, dtype=bool)
        shape = self.states.shape[1:]
        if held.shape != shape or tables[0].shape[:2] != shape:
            raise InvalidData(f"counts and missing must be of {shape[0]} chains and {shape[1]} steps")
        chain, step = np.nonzero(held)
        if not chain.size:
            return 0.0
        log_move, draw = np.log(self.transition), np.arange(len(self))[:, None]
        before = np.where(step > 0, step - 1, 0)
        after = np.minimum(step + 1, shape[1] - 1)
        prior = np.where(
            (step > 0)[None, :, None],
            log_move[draw, self.states[:, chain, before]],
            np.log(self.initial)[:, None, :],
        )
        onward = np.swapaxes(log_move, 1, 2)[draw, self.states[:, chain, after]]
        prior = prior + np.where((step < shape[1] - 1)[None, :, None], onward, 0.0)
        prior -= special.logsumexp(prior, axis=-1, keepdims=True)
        logs = sum(
            table[chain, step] @ np.swapaxes(np.log(theta), 1, 2)
            for table, theta in zip(tables, self.emissions, strict=True)
        )
        each = special.logsumexp(prior + logs, axis=(0, -1)) - np.log(len(self))
        return float(each.sum())

    def _tables(self, counts: Sequence[object]) -> list[Floats]:
        tables = [np.asarray(table, dtype=np.float64) for table in counts]
        fits = len(tables) == len(self.fields) and all(
            t.ndim == 3 and t.shape[:2] == tables[0].shape[:2] and t.shape[2] == f.size
            for t, f in zip(tables, self.fields, strict=True)
        )
        if not fits:
            raise InvalidData("give one array of counts (chain, step, category) for each field, in order")
        return tables

    def to_arviz(self) -> Any:
        """Return the probabilities as an ArviZ `InferenceData`."""
        parts = {name: draws.reshape(self.chains, -1, *draws.shape[1:]) for name, draws in self.named.items()}
        return arviz_groups({"posterior": parts})

    def to_dict(self) -> dict[str, object]:
        """Return the draws as plain values; `from_dict` reads them back."""
        return {
            "value": "hidden markov posterior",
            "fields": [f.to_dict() for f in self.fields],
            "initial": self.initial.tolist(),
            "transition": self.transition.tolist(),
            "emissions": [theta.tolist() for theta in self.emissions],
            "states": self.states.tolist(),
            "chains": self.chains,
        }

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> HiddenMarkovPosterior:
        """Read draws from `to_dict`'s form."""
        with restoring("a hidden Markov posterior"):
            return HiddenMarkovPosterior(
                tuple(map(field_from, state["fields"])),
                np.asarray(state["initial"], dtype=np.float64),
                np.asarray(state["transition"], dtype=np.float64),
                tuple(np.asarray(theta, dtype=np.float64) for theta in state["emissions"]),
                np.asarray(state["states"], dtype=np.int64),
                int(state.get("chains", 1)),
            )
