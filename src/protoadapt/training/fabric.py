"""Precision, devices and processes: lightning-fabric, in one place."""

import torch

from protoadapt.core.errors import UserError

try:
    from lightning_fabric import Fabric
except ImportError:  # the same code under its other name
    from lightning.fabric import Fabric  # type: ignore[no-redef]


def launch(accelerator: str, devices: int | str, num_nodes: int, strategy: str, precision: str | None) -> Fabric:
    """The processes of a run: started here, or found when torchrun or SLURM started them."""
    if precision is None:
        gpu = accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
        precision = "bf16-mixed" if gpu else "32-true"
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=devices,
            num_nodes=num_nodes,
            strategy=strategy,
            precision=precision,  # type: ignore[arg-type]
        )
    except (ValueError, TypeError, RuntimeError) as error:
        raise UserError(
            f"accelerator={accelerator}, devices={devices}, nodes={num_nodes}, strategy={strategy} do not work here: "
            f"{' '.join(str(error).split())[:200]}"
        ) from error
    fabric.launch()
    return fabric


__all__ = ["Fabric", "launch"]
