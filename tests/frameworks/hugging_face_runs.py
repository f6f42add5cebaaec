"""Training scripts with Accelerate and with Hugging Face's Trainer."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from harness import BATCH, SEED, Run, Stopped
from torch.utils.data import DataLoader, default_collate
from transformers import Trainer, TrainerCallback, TrainingArguments

from shardkit.torch import IterableDataset, StepLoader


class Model(torch.nn.Module):
    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, label: torch.Tensor) -> dict[str, torch.Tensor]:
        self.run.train({"label": label})
        return {"loss": self.layer(label.float().unsqueeze(1)).mean()}


def accelerate(run: Run) -> None:
    accelerator = Accelerator(cpu=True)
    loader = run.loader()
    accelerator.register_for_checkpointing(loader)
    model = Model(run)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-9))
    if run.resumes:
        accelerator.load_state(run.last_checkpoint)

    def stop() -> None:
        accelerator.save_state(run.checkpoint)
        run.state = loader.state_dict()
        accelerator.wait_for_everyone()
        raise Stopped

    for batches in loader.epochs(run.epochs):
        for batch in batches:
            accelerator.backward(model(**batch)["loss"])
            optimizer.step()
            optimizer.zero_grad()
            if run.stops("in the loop"):
                stop()
        if run.stops("between epochs"):
            stop()


class LoaderTrainer(Trainer):
    def __init__(self, run: Run, **options: Any) -> None:
        super().__init__(**options)
        self.run = run

    def get_train_dataloader(self) -> StepLoader:
        return StepLoader(self.run.loader())


class StopWithCheckpoint(TrainerCallback):
    def __init__(self, run: Run) -> None:
        self.run = run

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        assert state.global_step == self.run.steps
        control.should_save = self.run.stops("in the loop")

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_save = self.run.stops("between epochs")

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.run.barrier()
        raise Stopped


def hugging_face_trainer(run: Run) -> None:
    arguments = TrainingArguments(
        output_dir=str(run.folder),
        num_train_epochs=run.epochs,
        per_device_train_batch_size=BATCH // run.world_size,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = LoaderTrainer(run, model=Model(run), args=arguments, callbacks=[StopWithCheckpoint(run)])
    trainer.train(resume_from_checkpoint=str(run.last_checkpoint) if run.resumes else None)


# What these frameworks do with a dataset that they are given, instead of a loader that they leave alone.


def _samples(run: Run) -> IterableDataset:
    def remember(sample: dict[str, Any]) -> dict[str, Any]:
        run.made.append((0, len(run.made), [int(sample["label"])]))
        return {"label": sample["label"]}

    return IterableDataset(run.dataset, columns=["label"], seed=SEED, transform=remember)


def _one_epoch(run: Run, dataloader: Any) -> None:
    for batch in dataloader:
        run.train(batch)


def accelerate_prepares(run: Run) -> None:
    accelerator = Accelerator(cpu=True)
    _one_epoch(run, accelerator.prepare(DataLoader(_samples(run), batch_size=10)))


def accelerate_divides(run: Run) -> None:
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=False))
    _one_epoch(run, accelerator.prepare(DataLoader(_samples(run), batch_size=10)))


def accelerate_skips(run: Run) -> None:
    accelerator = Accelerator(cpu=True)
    dataloader = accelerator.prepare(DataLoader(_samples(run), batch_size=10))
    _one_epoch(run, accelerator.skip_first_batches(dataloader, 15))


def accelerate_skips_steps(run: Run) -> None:
    accelerator = Accelerator(cpu=True)
    _one_epoch(run, accelerator.skip_first_batches(StepLoader(run.loader()), 5))


def trainer_with_dataset(run: Run) -> None:
    arguments = TrainingArguments(
        output_dir=str(run.folder),
        max_steps=20,
        per_device_train_batch_size=10,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(
        Model(run),
        arguments,
        data_collator=default_collate,
        train_dataset=_samples(run),
        callbacks=[StopWithCheckpoint(run)],
    )
    trainer.train(resume_from_checkpoint=str(run.last_checkpoint) if run.resumes else None)
