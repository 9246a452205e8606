"""Who talks to whom in round t, and with which weights.

W: a row receives; W[i, j] is the weight that i gives to what j says. A `Graph` is a schedule of `Round`s; `describe()`
says what it does to differences between peers. `NAMES` and `parse` serve the command line.
"""

from covey.graphs.absence import absent
from covey.graphs.builders import (
    centre,
    erdos_renyi,
    exponential,
    full,
    grid,
    isolated,
    random_doubly_stochastic,
    ring,
    torus,
)
from covey.graphs.graph import Graph, Round, always, everybody
from covey.graphs.matrices import from_matrix, from_networkx
from covey.graphs.names import NAMES, parse
from covey.graphs.schedules import epidemic, fixed, one_peer_exponential, random_directed, random_undirected, server
from covey.graphs.soundness import Needs, check
from covey.graphs.weights import SameRow, Sparse, Weights

__all__ = [
    "NAMES",
    "Graph",
    "Needs",
    "Round",
    "SameRow",
    "Sparse",
    "Weights",
    "absent",
    "always",
    "centre",
    "check",
    "epidemic",
    "erdos_renyi",
    "everybody",
    "exponential",
    "fixed",
    "from_matrix",
    "from_networkx",
    "full",
    "grid",
    "isolated",
    "one_peer_exponential",
    "parse",
    "random_directed",
    "random_doubly_stochastic",
    "random_undirected",
    "ring",
    "server",
    "torus",
]
