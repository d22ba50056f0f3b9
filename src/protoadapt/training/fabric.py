"""Precision, devices and processes: the only module that imports lightning-fabric, when training starts."""

from typing import TYPE_CHECKING

import torch

from protoadapt.core.errors import UserError, install

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def launch(accelerator: str, devices: int | str, num_nodes: int, strategy: str, precision: str | None) -> "Fabric":
    """The processes of a run: started here, or recognised when torchrun or SLURM started them.

    Arguments as in lightning-fabric; precision None: bf16-mixed on a GPU, 32-true elsewhere.
    """
    try:
        from lightning_fabric import Fabric
    except ImportError:
        try:
            from lightning.fabric import Fabric  # type: ignore[no-redef]  # the same code in another package
        except ImportError as error:
            raise UserError(f"training needs lightning-fabric, which is not installed: {install('train')}") from error
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
        if "invalid strategy name" in str(error):
            raise UserError(f"--strategy {strategy!r} is unknown: give auto, ddp or fsdp") from error
        raise UserError(
            f"accelerator={accelerator}, devices={devices}, nodes={num_nodes}, strategy={strategy} do not work here: "
            f"{' '.join(str(error).split())[:200]}"
        ) from error
    fabric.launch()
    return fabric
