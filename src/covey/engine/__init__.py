"""What runs the methods."""

from covey.engine.adapt import Adaptation, adapt, representation
from covey.engine.clock import Clock
from covey.engine.run import Run
from covey.engine.simulate import simulate

__all__ = ["Adaptation", "Clock", "Run", "adapt", "representation", "simulate"]
