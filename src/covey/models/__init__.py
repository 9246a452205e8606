"""The networks of the papers. The personal head of each has the prefix "head": Task.from_module(…, personal="head")."""

from covey.models.alexnet import AlexNet, alexnet
from covey.models.char_lstm import CharLSTM, char_lstm
from covey.models.cnn import CNN, cnn
from covey.models.cnn_widths import OverCNN, UnderCNN, cnn_over, cnn_under
from covey.models.linear import MLP, LinearNet, Softmax, harbox_dnn, linear_net, mlp, softmax
from covey.models.names import NAMES, NETWORKS, Network, build
from covey.models.resnet import ResNet, ResNet18, ResNet20, ResNet50, resnet18, resnet20, resnet50
from covey.models.vgg import VGG11, vgg11

__all__ = [
    "CNN",
    "MLP",
    "NAMES",
    "NETWORKS",
    "VGG11",
    "AlexNet",
    "CharLSTM",
    "LinearNet",
    "Network",
    "OverCNN",
    "ResNet",
    "ResNet18",
    "ResNet20",
    "ResNet50",
    "Softmax",
    "UnderCNN",
    "alexnet",
    "build",
    "char_lstm",
    "cnn",
    "cnn_over",
    "cnn_under",
    "harbox_dnn",
    "linear_net",
    "mlp",
    "resnet18",
    "resnet20",
    "resnet50",
    "softmax",
    "vgg11",
]
