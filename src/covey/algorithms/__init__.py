"""The published methods, one file each. A method named here is known to the command line by its lower-case name."""

from covey.algorithms.algorithm import Algorithm
from covey.algorithms.choco import CHOCO
from covey.algorithms.deprl import DePRL
from covey.algorithms.dfedalt import DFedAlt
from covey.algorithms.dfedavg import DFedAvg, DFedAvgM
from covey.algorithms.dfedavgmp import DFedAvgMP
from covey.algorithms.dfedpgp import DFedPGP
from covey.algorithms.dfedsalt import DFedSalt
from covey.algorithms.dpsgd import DPSGD
from covey.algorithms.dsgdm import DSGDm
from covey.algorithms.fedavg import FedAvg
from covey.algorithms.fedavgm import FedAvgM
from covey.algorithms.fedper import FedPer
from covey.algorithms.fedrep import FedRep
from covey.algorithms.local import Local
from covey.algorithms.osgp import OSGP
from covey.algorithms.saddlepoint import SaddlePoint
from covey.algorithms.sgp import SGP
from covey.algorithms.sparq import SPARQ
from covey.algorithms.squarm import SQuARM

__all__ = [
    "CHOCO",
    "DPSGD",
    "OSGP",
    "SGP",
    "SPARQ",
    "Algorithm",
    "DFedAlt",
    "DFedAvg",
    "DFedAvgM",
    "DFedAvgMP",
    "DFedPGP",
    "DFedSalt",
    "DSGDm",
    "DePRL",
    "FedAvg",
    "FedAvgM",
    "FedPer",
    "FedRep",
    "Local",
    "SQuARM",
    "SaddlePoint",
]
