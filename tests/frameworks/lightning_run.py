"""A training script with Lightning."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as lightning
import torch
from harness import Run, Stopped

from shardkit.torch import Loader


class Module(lightning.LightningModule):
    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self.layer = torch.nn.Linear(1, 1)

    def train_dataloader(self) -> Loader:
        return self.run.loader()

    def training_step(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        self.run.train(batch)
        return self.layer(batch["label"].float().unsqueeze(1)).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-9)


class CountEpochs(lightning.Callback):
    """Counts the epoch that Lightning 2.6 begins uncounted when it resumes from a checkpoint of an epoch's last batch.

    Without it, Lightning takes the next checkpoint within that epoch for one of its end, and does not load the state.
    """

    def on_train_batch_start(self, trainer: lightning.Trainer, *_: Any) -> None:
        progress = trainer.fit_loop.epoch_progress
        if progress.current.ready == progress.current.processed:
            progress.increment_ready()
            progress.increment_started()


class StopWithCheckpoint(lightning.Callback):
    def __init__(self, run: Run) -> None:
        self.run = run

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        if self.run.stops("in the loop"):
            self._stop(trainer)

    def on_train_epoch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        if self.run.stops("between epochs"):
            self._stop(trainer)

    def _stop(self, trainer: lightning.Trainer) -> None:
        trainer.save_checkpoint(self.run.checkpoint)
        saved = torch.load(self.run.checkpoint, weights_only=False)
        self.run.state = saved["loops"]["fit_loop"]["state_dict"]["combined_loader"]
        self.run.barrier()
        raise Stopped


def lightning_trainer(run: Run) -> None:
    _fit(run, [CountEpochs(), StopWithCheckpoint(run)])


def lightning_alone(run: Run) -> None:
    _fit(run, [StopWithCheckpoint(run)])


def _fit(run: Run, callbacks: list[lightning.Callback]) -> None:
    trainer = lightning.Trainer(
        max_epochs=run.epochs,
        accelerator="cpu",
        devices=run.world_size,
        strategy="ddp" if run.world_size > 1 else "auto",
        callbacks=callbacks,
        default_root_dir=run.folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(run), ckpt_path=run.last_checkpoint if run.resumes else None, weights_only=False)
