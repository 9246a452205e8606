"""Local work on rows: SGD with momentum, SAM, proximal pulls and masks, on mini-batches keyed per peer."""

from covey.training.sgd import SGD

__all__ = ["SGD"]
