"""The published methods, one file each. A method named here is known to the command line by its lower-case name."""

from covey.algorithms.algorithm import Algorithm
from covey.algorithms.centralised import Centralised
from covey.algorithms.choco import CHOCO
from covey.algorithms.d2 import D2
from covey.algorithms.deprl import DePRL
from covey.algorithms.dfedalt import DFedAlt
from covey.algorithms.dfedavg import DFedAvg, DFedAvgM
from covey.algorithms.dfedavgmp import DFedAvgMP
from covey.algorithms.dfedpgp import DFedPGP
from covey.algorithms.dfedsalt import DFedSalt
from covey.algorithms.dfedsam import DFedSAM
from covey.algorithms.dispfl import DisPFL
from covey.algorithms.ditto import Ditto
from covey.algorithms.dpsgd import DPSGD
from covey.algorithms.dsgdm import DSGDm
from covey.algorithms.epidemic import Epidemic
from covey.algorithms.extra import EXTRA
from covey.algorithms.fedavg import FedAvg
from covey.algorithms.fedavgm import FedAvgM
from covey.algorithms.fedbabu import FedBABU
from covey.algorithms.fedper import FedPer
from covey.algorithms.fedrep import FedRep
from covey.algorithms.fedrod import FedRoD
from covey.algorithms.gtdsgd import GTDSGD
from covey.algorithms.heads import Heads
from covey.algorithms.local import Local
from covey.algorithms.osgp import OSGP
from covey.algorithms.qgdsgdm import QGDSGDm
from covey.algorithms.sgp import SGP
from covey.algorithms.sparq import SPARQ
from covey.algorithms.squarm import SQuARM

__all__ = [
    "CHOCO",
    "D2",
    "DPSGD",
    "EXTRA",
    "GTDSGD",
    "OSGP",
    "SGP",
    "SPARQ",
    "Algorithm",
    "Centralised",
    "DFedAlt",
    "DFedAvg",
    "DFedAvgM",
    "DFedAvgMP",
    "DFedPGP",
    "DFedSAM",
    "DFedSalt",
    "DSGDm",
    "DePRL",
    "DisPFL",
    "Ditto",
    "Epidemic",
    "FedAvg",
    "FedAvgM",
    "FedBABU",
    "FedPer",
    "FedRep",
    "FedRoD",
    "Heads",
    "Local",
    "QGDSGDm",
    "SQuARM",
]
