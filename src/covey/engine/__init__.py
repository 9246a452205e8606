"""What runs the methods."""

from covey.engine.clock import Clock
from covey.engine.run import Run
from covey.engine.simulate import simulate

__all__ = ["Clock", "Run", "simulate"]
