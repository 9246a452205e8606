"""Representation transfer: a target with few samples learns from the representations that others have learned.

    V = dictionary([source.B for source in sources])      one basis of what they know
    theta = phase1(X1, y1, V)                              a head, from n₁ samples
    theta = phase2(X2, y2, theta)                          the whole model, from n₂ others

Linear algebra in float64 on what is given; only `neighbours` knows of peers. After N. Singh, *Towards Efficient
Federated Learning*, chapter 5; its section 6.4 asks for what `choose` and `borrow` do.
"""

from covey.transfer.choice import Choice, choose
from covey.transfer.dictionary import dictionary
from covey.transfer.features import penultimate
from covey.transfer.neighbours import Borrowed, borrow
from covey.transfer.phases import Descent, Head, descend, fit_head, phase1, phase2
from covey.transfer.risk import EffectiveRanks, Offer, Theorem6, effective_ranks, excess_risk, theorem6
from covey.transfer.source import Source, learn_source

__all__ = [
    "Borrowed",
    "Choice",
    "Descent",
    "EffectiveRanks",
    "Head",
    "Offer",
    "Source",
    "Theorem6",
    "borrow",
    "choose",
    "descend",
    "dictionary",
    "effective_ranks",
    "excess_risk",
    "fit_head",
    "learn_source",
    "penultimate",
    "phase1",
    "phase2",
    "theorem6",
]
