"""A small LSTM that predicts the next character, for the text of roles (`covey.data.text`).

    h_1 … h_T = LSTM(embedding(x_1 … x_T))        p(x_{T+1} | x_1 … x_T) = softmax(head(h_T))

The form of McMahan et al., *Communication-efficient learning of deep networks from decentralized data*, 2017: 8 numbers
per character, two layers. Theirs have 256 units (hidden=256), and it learns from all positions; this one predicts
the character after each window only.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


class CharLSTM(nn.Module):
    """See `char_lstm`."""

    def __init__(self, symbols: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, symbols)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(self.embedding(x))[0][:, -1])


def char_lstm(
    in_shape: int | Sequence[int] = 80, symbols: int = 96, embedding: int = 8, hidden: int = 128, layers: int = 2
) -> CharLSTM:
    """Next-character LSTM: two layers of 128 units on embedded characters; `embedding`, `lstm` and `head`.

    215 904 parameters for 96 symbols, whatever the length of the windows.
    """
    return CharLSTM(symbols, embedding, hidden, layers)
