"""What bounds the models of peers: pairs of neighbours (`proximity`, `pairwise`), and each alone (`ball`, `box`,
`region`)."""

from covey.constraints.judge import judged
from covey.constraints.pairs import Constraint, Pairwise, Proximity, pairwise, proximity
from covey.constraints.regions import Ball, Box, Region, UserRegion, ball, box, region, within

__all__ = [
    "Ball",
    "Box",
    "Constraint",
    "Pairwise",
    "Proximity",
    "Region",
    "UserRegion",
    "ball",
    "box",
    "judged",
    "pairwise",
    "proximity",
    "region",
    "within",
]
