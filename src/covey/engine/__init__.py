"""What runs the methods."""

from covey.engine.run import Run
from covey.engine.simulate import simulate

__all__ = ["Run", "simulate"]
