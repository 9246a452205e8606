"""covey: personal models, trained among peers that have no server.

task = covey.Task.from_module(module, covey.data.load("digits", peers=20), personal="head")
run = covey.simulate(covey.algorithms.DFedAlt(covey.SGD(0.1), covey.SGD(0.1)), task, covey.graphs.ring(20))
run.summary()
"""

__version__ = "0.1.0"

from covey import algorithms, compress, data, exchange, graphs, models, transfer, trigger
from covey.engine import Clock, Run, adapt, simulate
from covey.errors import (
    BadInput,
    CoveyError,
    DamagedCheckpoint,
    Diverged,
    UnknownName,
    UnsoundGraph,
)
from covey.per_peer import groups
from covey.tasks import Task
from covey.training import SGD

__all__ = [
    "SGD",
    "BadInput",
    "Clock",
    "CoveyError",
    "DamagedCheckpoint",
    "Diverged",
    "Run",
    "Task",
    "UnknownName",
    "UnsoundGraph",
    "adapt",
    "algorithms",
    "compress",
    "data",
    "exchange",
    "graphs",
    "groups",
    "models",
    "simulate",
    "transfer",
    "trigger",
]
