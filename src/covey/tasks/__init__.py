"""What is learned: a module on a data set, or a function of named tensors."""

from covey.tasks.task import Task

__all__ = ["Task"]
