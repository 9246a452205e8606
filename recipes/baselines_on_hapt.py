"""All methods on HAPT, windows of smartphones' motion sensors: its 30 users as they are, and pooled into 128 peers.

    python recipes/baselines_on_hapt.py [--seeds 0 1] [--only local dfedalt] [--device cuda]

HAPT stands in for HARBox, which has other users, sensors and classes: the printed numbers beside the second table are
for HARBox (DePRL paper, Table 7: ring, Dirichlet 0.1, 128 peers), and show an order of methods, not a goal. Needs
`hapt.npz` in the folder that COVEY_DATA names.
"""

from __future__ import annotations

from pathlib import Path

from baselines import Setting, main

from covey.cli.settings import Run

RUN = Run(algorithm="local", data="hapt", peers=0, partition="natural", model="mlp", rounds=40, batch=32, epochs=1,
          weight_decay=5e-4, decay=0.99, evaluate_every=5, threads=1)  # fmt: skip
HARBOX = {"FedAvg": "48.34", "FedRep": "90.08", "Ditto": "88.62", "FedRoD": "91.23", "DPSGD": "54.90",
          "DisPFL": "90.96", "DePRL": "92.07"}  # fmt: skip
POOLED = Run(**{**RUN.__dict__, "peers": 128, "partition": "dirichlet_classes:0.1"})

if __name__ == "__main__":
    main(
        [Setting("hapt-30", "30 users as they are", RUN, {}),
         Setting("hapt-128", "Pooled, 128 peers by Dirichlet 0.1 over each class", POOLED, HARBOX,
                 "HARBox, as printed")],
        "All methods on HAPT", "python recipes/baselines_on_hapt.py", Path("docs/results/baselines_on_hapt.md"),
        "The column *HARBox* holds what the DePRL paper prints (Table 7, ring, Dirichlet 0.1, 128 peers) for another\n"
        "data set with another model and other rates; HARBox could not be had. Windows of HAPT overlap by half, so a\n"
        "test window may lie between two training windows of the same user: all accuracies here are optimistic.\n",
    )  # fmt: skip
