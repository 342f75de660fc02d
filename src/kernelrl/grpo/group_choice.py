"""Which groups a step learns from: tasks by a curriculum, silent groups replaced by new ones or by old ones.

A group is silent when all its rewards that are compared with each other are alike: its advantages are 0. Dynamic
sampling (DAPO, arXiv 2503.14476, section 3.2) generates further batches until no group is silent, or `resample` batches
were generated; a replay buffer gives back groups of hard tasks that were solved earlier.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from pydantic import BaseModel, ConfigDict, NonNegativeInt
from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOConfig

from kernelrl.errors import UserError
from kernelrl.grpo.batches import Batch, loss_mask, replace, take
from kernelrl.grpo.curriculum import Curriculum
from kernelrl.grpo.replay_buffer import ReplayBuffer, ReplaySettings
from kernelrl.grpo.reward_function import SharedRewardFunction
from kernelrl.stage_folder import is_main_rank
from kernelrl.training import ranks


class Generating(Protocol):
    """What a choice uses of the trainer."""

    @property
    def num_generations(self) -> int | None: ...

    @property
    def state(self) -> TrainerState: ...

    @property
    def accelerator(self) -> Any: ...

    @property
    def rewards_N(self) -> Tensor: ...

    @property
    def compared_N(self) -> Tensor: ...

    @property
    def shared(self) -> SharedRewardFunction: ...

    def generated(self, inputs: list[dict[str, Any]]) -> Batch: ...

    def log_probabilities(self, batch: Batch) -> Tensor: ...

    def log_figure(self, name: str, value: float) -> None: ...


class GroupSettings(BaseModel):
    """The node `grpo.groups` of the config."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    resample: NonNegativeInt
    """Further batches that a step generates at most to replace silent groups (DAPO's dynamic sampling)."""
    replay: ReplaySettings | None
    """A buffer of solved hard tasks, whose groups take the place of silent ones; None: there is none."""

    @property
    def replaces_groups(self) -> bool:
        """Whether other groups take the place of silent ones."""
        return self.resample > 0 or self.replay is not None

    def check(self, arguments: GRPOConfig) -> None:
        """Check that every rank has whole groups, where some are replaced.

        Raises:
            UserError: it has not.
        """
        rows = arguments.per_device_train_batch_size * (arguments.steps_per_generation or 1)
        if self.replaces_groups and rows % (arguments.num_generations or 1):
            raise UserError(
                f"grpo.groups: a rank generates {rows} rows at a time, which are no whole groups of "
                f"num_generations={arguments.num_generations}; train on fewer ranks, or on a larger batch"
            )


class GroupChoice:
    """Makes the batches of a training.

    Args:
        rows: of the data set, in its order.
        curriculum: on every rank; the main rank's decides.
    """

    def __init__(
        self, settings: GroupSettings, rows: Sequence[Mapping[str, Any]], curriculum: Curriculum | None, seed: int
    ):
        self._settings = settings
        self._rows = rows
        self._curriculum = curriculum
        self._seed = seed
        self._buffer = None if settings.replay is None else ReplayBuffer(settings.replay, seed)

    def make(self, trainer: Generating, inputs: list[dict[str, Any]]) -> Batch:
        """This rank's rows of the next batch, generated and scored."""
        size, num = trainer.num_generations, len(inputs)
        assert size is not None
        batch = trainer.generated(inputs if self._curriculum is None else self._draw(trainer, num, 0))
        if not self._settings.replaces_groups:  # then a group may be shared by several ranks
            return batch
        silent = silent_groups(trainer.rewards_N, size, trainer.compared_N)
        solved = torch.tensor(trainer.shared.solved, dtype=torch.float).view(-1, size).mean(1).tolist()
        num_silent, rounds = len(silent), 0
        while rounds < self._settings.resample and ranks.any_rank(bool(silent)):
            rounds += 1
            more = trainer.generated(self._draw(trainer, num, rounds))
            quiet = silent_groups(trainer.rewards_N, size, trainer.compared_N)
            fresh = [group for group in range(num // size) if group not in quiet][: len(silent)]
            if fresh:
                shares = torch.tensor(trainer.shared.solved, dtype=torch.float).view(-1, size).mean(1).tolist()
                batch = replace(batch, silent[: len(fresh)], take(more, fresh, size), size)
                for group, other in zip(silent, fresh, strict=False):
                    solved[group] = shares[other]
                silent = silent[len(fresh) :]
        figures = {"groups/resampled_batches": float(rounds), "groups/replaced": float(num_silent - len(silent))}
        if self._buffer is not None:
            batch, replayed = self._replay(trainer, batch, silent, solved)
            figures["groups/replayed"] = float(replayed)
        batch["num_items_in_batch"] = trainer.accelerator.gather(loss_mask(batch).sum()).sum()
        for name, value in figures.items():
            trainer.log_figure(name, value)
        return batch

    def _replay(
        self, trainer: Generating, batch: Batch, silent: list[int], solved: Sequence[float]
    ) -> tuple[Batch, int]:
        """Keep the groups of hard tasks, and put earlier ones in place of silent ones; how many."""
        assert self._buffer is not None and trainer.num_generations is not None
        size, step = trainer.num_generations, trainer.state.global_step
        if "old_per_token_logps" not in batch:  # what is replayed is compared with what wrote it
            batch["old_per_token_logps"] = trainer.log_probabilities(batch)
        for group in range(len(solved)):
            if group not in silent:
                self._buffer.add(step, take(batch, [group], size), solved[group])
        num, others = self._buffer.draw(step, len(silent))
        if others is not None:
            device = batch["completion_ids"].device
            others = {name: values.to(device) for name, values in others.items()}
            batch = replace(batch, silent[:num], others, size)
        return batch, num

    def _draw(self, trainer: Generating, num: int, round: int) -> list[dict[str, Any]]:
        """This rank's share of rows of tasks that the main rank chooses, each as often as a group has rows."""
        size, state = trainer.num_generations, trainer.state
        assert size is not None
        tasks = num * ranks.num_ranks() // size

        def choose() -> list[int]:
            if self._curriculum is None:
                rng = random.Random(f"groups/{self._seed}/{state.global_step}/{round}")
                return [rng.randrange(len(self._rows)) for _ in range(tasks)]
            return self._curriculum.choose(state.global_step, state.global_step / max(state.max_steps, 1), tasks)

        rows = [dict(self._rows[index]) for index in ranks.from_main(choose) for _ in range(size)]
        return rows[ranks.rank() * num :][:num]

    def save(self, checkpoint: Path) -> None:
        """Write the state into the folder of a checkpoint; to be called by every rank."""
        if self._curriculum is not None and is_main_rank():
            self._curriculum.save(checkpoint)
        if self._buffer is not None:
            self._buffer.save(checkpoint)

    def load(self, checkpoint: Path) -> None:
        """Go on from a checkpoint; to be called by every rank."""
        if self._curriculum is not None:
            self._curriculum.load(checkpoint)
        if self._buffer is not None:
            self._buffer.load(checkpoint)


class GroupChoiceCallback(TrainerCallback):
    """Has the state saved with every checkpoint, before it is sealed."""

    def __init__(self, choice: GroupChoice):
        self._choice = choice

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        assert args.output_dir is not None
        self._choice.save(Path(args.output_dir) / f"checkpoint-{state.global_step}")


def silent_groups(rewards_N: Tensor, size: int, compared_N: Tensor) -> list[int]:
    """Numbers of the groups that teach nothing: known rewards that are compared with each other are all alike.

    Args:
        rewards_N: (N,) NaN: left out.
        compared_N: (N,) rows of a group with the same number are compared with each other.
    """
    groups, compared = rewards_N.view(-1, size), compared_N.view(-1, size)
    teaches = torch.zeros(len(groups), dtype=torch.bool, device=groups.device)
    for number in set(compared_N.tolist()):
        known = ~groups.isnan() & (compared == number)
        high = groups.masked_fill(~known, -torch.inf).amax(1)
        low = groups.masked_fill(~known, torch.inf).amin(1)
        teaches |= high > low
    return torch.nonzero(~teaches).flatten().tolist()
