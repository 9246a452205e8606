"""OSGP: stochastic gradient push that need not wait for its neighbours.

    x_i⁺ = P_ii x_i^{½} + Σ_{j≠i} (what has arrived of P_ij x_j^{½});  w likewise;  z_i = x_i / w_i

M. Assran et al., *Stochastic gradient push for distributed deep learning*, 2019: messages overlap with the next round's
gradient steps and are added, numerator and weight together, when they arrive. `by=PushSum(overlap=True)` is that: in a
simulation a message arrives one round after it was sent. The default does not overlap, because "OSGP" of the DFedPGP
paper is described without overlap: SGP with several local epochs. What is in flight still counts: Σw over the peers and
over undelivered messages is m.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.algorithms.sgp import SGP


@dataclass(frozen=True)
class OSGP(SGP):
    """SGP with several local steps; `OSGP(local, by=PushSum(overlap=True))` overlaps them with communication."""
