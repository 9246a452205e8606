"""All methods on Fashion-MNIST, 64 peers by Dirichlet 0.1 over each class, at most 150 samples each.

    python recipes/baselines_on_fashion_mnist.py [--seeds 0 1] [--only local dfedalt] [--device cuda]

The printed numbers beside are for all 60 000 samples, 128 peers and an AlexNet variant (DePRL paper, Table 7: ring,
Dirichlet 0.1). Needs `fashion_mnist.npz` in the folder that COVEY_DATA names.
"""

from __future__ import annotations

from pathlib import Path

from baselines import Setting, main

from covey.cli.settings import Run

RUN = Run(algorithm="local", data="fashion_mnist", peers=64, partition="dirichlet_classes:0.1", samples=150,
          model="mlp", rounds=40, batch=32, epochs=1, weight_decay=5e-4, decay=0.99, evaluate_every=5,
          threads=1)  # fmt: skip
PRINTED = {"FedAvg": "84.19", "FedRep": "94.27", "Ditto": "95.23", "FedRoD": "95.93", "DPSGD": "77.45",
           "DisPFL": "95.74", "DePRL": "96.66"}  # fmt: skip

if __name__ == "__main__":
    main(
        [Setting("fashion_mnist-64", "64 peers by Dirichlet 0.1 over each class", RUN, PRINTED, "as printed")],
        "All methods on Fashion-MNIST", "python recipes/baselines_on_fashion_mnist.py",
        Path("docs/results/baselines_on_fashion_mnist.md"),
        "The last column holds what the DePRL paper prints (Table 7: ring, Dirichlet 0.1) for all 60 000 samples,\n"
        "128 peers and an AlexNet variant: the same kind of division, a larger setting.\n",
    )  # fmt: skip
