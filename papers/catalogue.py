"""Every figure and table of the five documents, and where it is redrawn, or why not."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CATALOGUE", "Document", "Entry"]


@dataclass(frozen=True)
class Entry:
    """One figure, table or set of numbers: the experiments that redraw it, or the reason why none does."""

    figure: str
    shows: str
    experiments: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Document:
    """A document and all it shows."""

    title: str
    entries: tuple[Entry, ...]


_HMM = ("hmm-printed", "hmm", "hmm-fires")
_LOGS = "the war logs are not ours to ship: as printed on made-up logs of their size, and on two public logs"

THESIS = Document(
    "J. Geumlek, *Sampling from distributions under differential privacy notions* (thesis, 2020)",
    (
        Entry("Figure 4.1", "private posteriors of one proportion", ("private-beta-posteriors",)),
        Entry("Figure 4.2", "L1 error of one private sample against N", ("private-beta-error",)),
        Entry("Theorems 4 and 5", "asymptotic relative efficiencies", ("asymptotic-efficiency",)),
        Entry("Table 4.1", "properties of the two methods", reason="words, no computation"),
        Entry("Figures 4.3 to 4.5", "states of a private hidden Markov model, Iraq", _HMM, _LOGS),
        Entry("Figure 4.6", "held-out log-likelihood of private naive Bayes and hidden Markov models", _HMM, _LOGS),
        Entry("Figure 4.7", "state assignments by one sample and by a hundred, Afghanistan", _HMM, _LOGS),
        Entry("Figures 5.1 and 5.2", "achievable (λ, ε)", ("achievable-levels",)),
        Entry("Figures 5.3 and 5.4", "divergence from the posterior against ε", ("kl-utility",)),
        Entry("Figures 5.5 and 5.6", "held-out likelihood against ε", ("held-out-likelihood",)),
        Entry("Figures 5.7 and 5.8", "held-out likelihood under other priors", ("held-out-priors",)),
        Entry(
            "Figure 6.1",
            "implications between mixing conditions",
            ("amplification-curves",),
            "a diagram; its arrows are checked on random kernels",
        ),
        Entry("Figure 6.2", "mixing conditions and local privacy", reason="a table of definitions, no computation"),
        Entry(
            "Chapter 6",
            "amplification by mixing, coupling and iteration",
            ("amplification-curves", "per-record-privacy"),
        ),
        Entry("Figure 7.1", "what composes and what does not", reason="a diagram, no computation"),
        Entry("Figure 7.2", "Bernoulli-Couplet", ("profile-couplet",)),
        Entry(
            "Table 7.1",
            "the profiles of Categorical-Chain",
            ("profile-categories",),
            "the input of Figures 7.3 and 7.4",
        ),
        Entry("Figures 7.3 and 7.4", "Categorical-Chain, baseline and ours", ("profile-categories",)),
        Entry("Figures 7.5 and 7.7", "Bernoulli-Chain-6, baseline and ours", ("profile-chain-6",)),
        Entry("Figures 7.6 and 7.8", "Bernoulli-Chain-21, baseline and ours", ("profile-chain-21",)),
    ),
)

PAPER = Document(
    "J. Geumlek, S. Song and K. Chaudhuri, *Rényi differential privacy mechanisms for posterior sampling* (2017)",
    (
        Entry("Figure 1", "achievable (λ, ε)", ("achievable-levels",)),
        Entry("Figure 2 (a, b)", "divergence from the posterior against ε", ("kl-utility",)),
        Entry("Figure 2 (c, d)", "held-out likelihood against ε", ("held-out-likelihood",)),
        Entry("Figure 3", "test error of logistic regression", ("logistic-regression", "glm-error")),
    ),
)

APPENDIX = Document(
    "The appendix of the same paper",
    (
        Entry("Figure 1", "held-out likelihood for ρ = ⅓, ½, ⅔", ("held-out-priors",)),
        Entry("Figure 2", "the uniform prior", ("held-out-priors",)),
        Entry("Figure 3", "test error at λ = 1 and 10", ("logistic-regression",)),
        Entry("Figure 4", "negative log-likelihood", ("logistic-regression",)),
    ),
)

MINAMI = Document(
    "K. Minami, H. Arai, I. Sato and H. Nakagawa, *Differential privacy without sensitivity*, supplement (2016)",
    (
        Entry("Section B", "β < 1.79e-4·n, n > 5600, (B.7), (B.8)", ("gibbs-temperature",)),
        Entry(
            "Theorem 16, Example 17",
            "consistency, asymptotic variance, β = 0.012",
            ("gibbs-consistency", "gibbs-temperature"),
        ),
        Entry(
            "Theorem 18, Example 19",
            "PAC-Bayes bounds",
            reason="no numbers in the paper; `sv.regression.pac_bayes` computes the bound",
        ),
        Entry("Theorem 21", "steps until a Langevin chain is close", ("langevin-steps", "langevin-certificate")),
    ),
)

DIMITRAKAKIS = Document(
    "C. Dimitrakakis, B. Nelson, A. Mitrokotsa and B. Rubinstein, *Robust and private Bayesian inference* (2014)",
    (
        Entry("Section 4.3", "answers until two data sets can be told apart", ("distinguishability",)),
        Entry("all else", "theorems on posterior sampling", reason="it has no figures, tables or experiments"),
    ),
)

CATALOGUE = (THESIS, PAPER, APPENDIX, MINAMI, DIMITRAKAKIS)
