"""Trains a small network to tell classes of images with Lightning, and goes on in the middle of an epoch.

    python examples/train_lightning.py IMAGES FOLDER [--epochs 4] [--stop-after STEPS]

IMAGES has the folders `train` and `val`, each with a folder of images for every class. FOLDER gets both as datasets,
unless they are there, and a checkpoint after every fifth step. Prints the loss of each step, and the accuracy after
each epoch. With a checkpoint that exists, it goes on from there: losses and accuracies are those of a run that was
never stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn import functional

import shardkit as sk
from shardkit.torch import Batch, Loader

SIDE = 32


def prepare(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images, [samples, 3, SIDE, SIDE] from -1 to 1, and labels. Lightning moves them to the device."""
    return batch["image"].permute(0, 3, 1, 2).float() / 127.5 - 1, batch["label"]


def loaders(folder: Path) -> tuple[Loader, Loader]:
    """Return what gives batches for training and for validation."""
    crop = {"image": sk.Image(crop="random", size=SIDE, scale=(0.3, 1), flip=0.5), "label": None}
    whole = {"image": sk.Image(crop="center", size=SIDE), "label": None}
    train = Loader(folder / "train", batch_size=16, seed=1, columns=crop, remainder="drop", batch_function=prepare)
    return train, Loader(folder / "val", batch_size=64, order="sequential", columns=whole, batch_function=prepare)


class CountEpochs(lightning.Callback):
    """Mends Lightning 2.6, which does not count an epoch as begun after a checkpoint of the last step of another."""

    def on_train_batch_start(self, trainer: lightning.Trainer, *_: object) -> None:
        """Count the epoch unless that was done."""
        progress = trainer.fit_loop.epoch_progress
        if progress.current.ready == progress.current.processed:
            progress.increment_ready()
            progress.increment_started()


class Classifier(lightning.LightningModule):
    """Three convolutions, and the mean over the image."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        layers: list[torch.nn.Module] = []
        for before, after in ((3, 16), (16, 32), (32, 32)):
            layers += [torch.nn.Conv2d(before, after, 3, stride=2, padding=1), torch.nn.ReLU()]
        pool = [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, classes)]
        self.network = torch.nn.Sequential(*layers, *pool)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        """Return the loss of a batch."""
        images, labels = batch
        loss = functional.cross_entropy(self.network(images), labels)
        print(f"step {self.global_step + 1}: loss {loss.item():.9f}", flush=True)
        return loss

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> None:
        """Note how many labels are found."""
        images, labels = batch
        right = (self.network(images).argmax(dim=1) == labels).float().mean()
        self.log("accuracy", right, batch_size=len(labels), sync_dist=True)

    def on_validation_epoch_end(self) -> None:
        """Print the accuracy over the whole dataset."""
        accuracy = self.trainer.callback_metrics["accuracy"].item()
        print(f"epoch {self.current_epoch}: accuracy {accuracy:.4f}", flush=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return what updates the network."""
        return torch.optim.Adam(self.parameters(), lr=0.003)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--stop-after", type=int, default=-1, help="steps, those before a restart among them")
    arguments = parser.parse_args()

    for part in ("train", "val"):
        if not (arguments.folder / part).exists():
            sk.pack(arguments.images / part, arguments.folder / part)
    train, validation = loaders(arguments.folder)

    lightning.seed_everything(1, verbose=False)
    saved = arguments.folder / "last.ckpt"
    checkpoints = ModelCheckpoint(arguments.folder, "last", every_n_train_steps=5, enable_version_counter=False)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=arguments.epochs,
        max_steps=arguments.stop_after,
        callbacks=[checkpoints, CountEpochs()],
        num_sanity_val_steps=0,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Classifier(len(list((arguments.images / "train").iterdir())))
    trainer.fit(model, train, validation, ckpt_path=saved if saved.exists() else None)


if __name__ == "__main__":
    main()
