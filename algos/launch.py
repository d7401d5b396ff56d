"""From a configuration to a finished run: check, build, train, say where everything is."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from algos import ranks
from algos.algorithm import Algorithm
from algos.command_line import exit_on_mistakes, flatten
from algos.config import TrainConfig
from algos.console import Console, hush_libraries
from algos.deepspeed_config import read_deepspeed_file, zero_stage
from algos.disk_full import no_room
from algos.evaluate import Evaluation, NothingPlayed
from algos.going_on import checkpoint_of, folder_of, take_up
from algos.group_pay import both_orders, check_both_orders, check_group_rewards
from algos.memory import OutOfMemory
from algos.phases import check_phases
from algos.plan import GB, Gpus, Shape, make_plan, refuse_a_small_share, refuse_what_cannot_fit
from algos.prompts import mismatch, write_prompts
from algos.report_to import Reporters, check_installed
from algos.samplers import Room, servers_of
from algos.seeds import seed_generators
from algos.state import Run
from algos.team import (
    Policy,
    batch_layout,
    learning_agents,
    learning_rates,
    make_team,
    policy_names,
    total_updates,
)
from algos.world import eval_sets, kept_apart, make_world, trained_on
from rema_agents.models import EMBEDDED, model_folder
from rema_env.transcript import role_of


def launch(config: TrainConfig, algorithm: Algorithm, *, command: str) -> dict[str, Any]:
    """Run one training command; returns its summary.

    What is wrong with the configuration is said in one message before any model is loaded, with exit code 2. A run
    that cannot go on says why and from where to resume, with exit code 1.
    """
    from algos.learning import Diverged
    from algos.trainer import train

    console, prog = Console(quiet=not ranks.is_first()), f"python -m algos.{command}"
    if config.common.preset:
        console.say(f"preset: {config.common.preset}")
    if config.run.dry_run:
        with exit_on_mistakes(prog):
            dry_run(config, algorithm, console)
        return {}
    with ranks.ending_together():
        with exit_on_mistakes(prog):
            run = prepare(config, algorithm, console, command)
        try:
            with console:
                summary = train(run)
        except Exception as error:
            if isinstance(error, (Diverged, OutOfMemory, NothingPlayed)) or no_room(error, run.folder.path):
                print(f"{prog}: {error}; {how_to_go_on(run)}", file=sys.stderr)
                raise SystemExit(1) from None
            error.add_note(how_to_go_on(run))
            raise
        finally:
            run.reporters.close()
            run.team.close()
            run.folder.close()
    say_result(console, summary)
    if left_out := getattr(run.world.problems, "left_out", 0):
        console.say(f"{left_out} questions of {run.world.problems.name} are evaluated on and were not trained on")
    console.say(f"run folder: {run.folder.path}")
    return summary


def how_to_go_on(run: Run) -> str:
    """Where a run that ended before its time can be taken up."""
    last = run.folder.latest()
    if last is None:
        return f"no checkpoint was written yet, after {run.progress.step} steps"
    return f"{last} is whole: go on from it with --resume-from-checkpoint latest --output-dir {run.folder.path}"


def say_result(console: Console, summary: dict[str, Any]) -> None:
    """Accuracy before and after, where it was measured."""
    before, after = (summary[name] for name in ("accuracy_before", "accuracy_after"))
    done = f"after {summary['steps']} steps and {summary['train_seconds']:.0f} s of training"
    if before is None and after is not None:
        console.say(f"held-out accuracy {after:.3f} {done}; before it, it was not measured on the same problems")
    elif before is not None and after is not None:
        greedy = summary["accuracy_greedy_before"], summary["accuracy_greedy_after"]
        console.say(
            f"held-out accuracy {before:.3f} before, {after:.3f} {done} (greedy {greedy[0]:.3f}, {greedy[1]:.3f})"
        )


def check(config: TrainConfig, *, n: int, bf16: bool) -> None:
    """Refuse what contradicts itself, with the numbers, for a run of `n` ranks. Raises ValueError."""
    if config.run.gpus is not None and not config.run.dry_run:
        raise ValueError("--gpus is for --dry-run, a plan for GPUs that need not be here; a run takes those that are")
    problems = config.sampling.problems_per_step
    if problems % n:
        below = problems - problems % n
        raise ValueError(
            f"--problems-per-step {problems} does not divide by {n} ranks, and a group of episodes is never divided: "
            f"choose {f'{below} or ' if below else ''}{below + n}"
        )
    check_phases(config)
    check_installed(config.run.report_to)
    read_deepspeed_file(config.learner, bf16=bf16, ranks=n)
    if config.model.lora_rank and config.model.team == "separate" and zero_stage(config.learner) == 3:
        raise ValueError("--lora-rank with --team separate shares one base, which --zero-stage 3 cannot part: use 2")


def dry_run(config: TrainConfig, algorithm: Algorithm, console: Console) -> None:
    """Say what a step consists of and the memory it needs. Raises ValueError for a plan that cannot fit."""
    gpus = Gpus.parse(config.run.gpus or f"{ranks.count()}x80GB")
    check(config, n=gpus.count, bf16=config.model.bf16 is not False)
    agents = make_world(config.env).agents
    names = policy_names(config.model, agents)
    learning = {names[agent] for agent in learning_agents(config.model, agents)}
    servers = servers_of(config.model, dict.fromkeys(names.values()), learning)
    where = config.model.model_name_or_path or EMBEDDED
    shape = Shape.read(model_folder(where, next(iter(names.values()))))
    console.say(batch_layout(config, agents, ranks=gpus.count))
    plan = make_plan(
        config,
        shape,
        len(set(names.values()) - servers.keys()),
        len(learning),
        gpus,
        reference="ref_logp" in algorithm.needs,
    )
    console.say(f"{shape.parameters:,} parameters, {gpus.count} GPUs of {gpus.bytes / GB:g} GB")
    for line in plan.lines():
        console.say(line)
    refuse_what_cannot_fit(plan, gpus)
    if config.model.sampler in ("auto", "vllm"):
        refuse_a_small_share(plan, gpus, config.model.vllm_gpu_memory_utilization)


def prepare(config: TrainConfig, algorithm: Algorithm, console: Console, command: str) -> Run:
    """All parts of a run, models last; taken up from a checkpoint where it is told to."""
    from algos.learner import check_deepspeed
    from algos.scoring import Precision

    bf16 = Precision.here(config.model.bf16).bf16
    check(config, n=ranks.count(), bf16=bf16)
    check_deepspeed(config.learner, bf16=bf16)
    world = make_world(config.env)
    check_group_rewards(config.sampling.group_rewards, [role_of(agent) for agent in world.agents])
    evaluation = Evaluation.of(config, console.playing)
    sets = eval_sets(config.evaluation, config.env, world)
    world = kept_apart(world, sets)
    if both_orders(config.sampling.group_rewards):
        check_both_orders(world.problems.draw(config.common.seed, 0), config.sampling.num_generations)
    console.say(batch_layout(config, world.agents, ranks=ranks.count()))
    folder = folder_of(config, command)
    checkpoint = checkpoint_of(config, folder)
    hush_libraries()
    seed_generators(config.common.seed, ranks.number())
    team = _team(config, algorithm, world.agents)
    for policy in team.policies:
        if (said := mismatch(policy.folder, world.system_prompts)) is not None:
            console.warn(said)
    for name, problems in sets.items():
        if (said := trained_on(world.problems, problems, name)) is not None:
            console.warn(said)
    run = Run(config, algorithm, world, evaluation, team, folder, console, sets)
    take_up(run, checkpoint, console)
    settings = flatten(config)
    folder.write_config(settings)
    write_prompts(folder.path, world.system_prompts)
    told = config.run.report_to if ranks.is_first() else ()
    run.reporters = Reporters(told, folder.path, settings, first=run.progress.logged + 1)
    return run


def _team(config: TrainConfig, algorithm: Algorithm, agents: tuple[str, ...]) -> Any:
    """Every policy with its sampler, those that learn with a learner and, where it is needed, a reference."""
    from algos.learner import AdaptersOff, Learner
    from algos.scoring import Precision, Reference

    precision = Precision.here(config.model.bf16)
    tokens, temperature = config.learner.micro_batch_tokens, config.sampling.temperature
    rates = learning_rates(config, agents)
    lora = (config.model.lora_rank, config.model.lora_alpha) if config.model.lora_rank else None
    first: list[Learner] = []

    def add_learner(policy: Policy) -> None:
        policy.learner = Learner(
            policy.folder,
            replace(config.learner, learning_rate=rates.get(policy.name, config.learner.learning_rate)),
            precision,
            temperature=temperature,
            total_updates=total_updates(config, agents, policy.agents),
            needs=algorithm.needs,
            lora=lora,
            name=policy.name,
            base=first[0] if lora and first else None,
        )
        first.append(policy.learner)
        if "ref_logp" in algorithm.needs and lora:
            policy.reference = AdaptersOff(policy.learner)
        elif "ref_logp" in algorithm.needs:
            policy.reference = Reference(policy.folder, precision, temperature=temperature, micro_batch_tokens=tokens)

    return make_team(
        config.model, agents, precision, add_learner=add_learner, room=Room.of(config), seed=config.common.seed
    )
