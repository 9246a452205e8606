"""What a run is judged by."""

from covey.measure.evaluate import Evaluator, Scores

__all__ = ["Evaluator", "Scores"]
