"""Training scripts with Accelerate and with Hugging Face's Trainer."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator
from transformers import Trainer, TrainerCallback, TrainingArguments

from harness import BATCH, Run, Stopped
from shardkit.torch import StepLoader


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
