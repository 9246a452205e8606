"""The variant of AlexNet that DePRL trains on Fashion-MNIST.

A. Krizhevsky, I. Sutskever, G. Hinton, *ImageNet classification with deep convolutional neural networks*, 2012, in the
shapes of the code of Xiong et al., DePRL, AAAI 2024, which enlarges the 28×28 pictures to 32×32 (the table of their
text contradicts itself). Their code keeps the whole classifier block personal, their text the last layer:
personal=("classifier", "head"), or "head".
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from covey.models.pictures import enlarge


class AlexNet(nn.Sequential):
    """See `alexnet`."""


def alexnet(
    in_shape: Sequence[int] = (1, 28, 28), classes: int = 10, hidden: int = 128, dropout: float = 0.05
) -> AlexNet:
    """A small AlexNet: five convolutions and three linear layers; `body`, `classifier` and `head`.

    2 504 906 parameters for grey pictures up to 32×32 and ten classes; smaller ones are enlarged to 32×32 first.
    """
    height, width = ((max(32, one) + 10 - 11) // 4 + 1 for one in in_shape[1:])
    body = nn.Sequential(
        *enlarge(in_shape, 32),
        nn.Conv2d(in_shape[0], 64, 11, stride=4, padding=5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 192, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(192, 384, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )
    classifier = nn.Sequential(
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(256 * (height // 8) * (width // 8), hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
    )
    parts = OrderedDict[str, nn.Module](body=body, classifier=classifier)
    return AlexNet(parts | {"head": nn.Linear(hidden, classes)})
