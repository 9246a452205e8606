"""What a run is judged by."""

from covey.measure.evaluate import Evaluator, Scores
from covey.measure.similarity import cosines, similarities
from covey.measure.stationarity import Squares, consensus_error, deprl_m, stays_below

__all__ = [
    "Evaluator",
    "Scores",
    "Squares",
    "consensus_error",
    "cosines",
    "deprl_m",
    "similarities",
    "stays_below",
]
