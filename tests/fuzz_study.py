"""A small study with one file of every kind that coverset reads, made without training."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import toy_run
from coverset.adhoc.learner import AdHocPolicy, agent_spec
from coverset.adhoc.learners.plastic import Plastic
from coverset.adhoc.registry import make_learner
from coverset.adhoc.saved import save_agent
from coverset.envs.matrix import MatrixGame
from coverset.pipeline.generate import make_plan
from coverset.policies.actor import dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.networks.recurrent import LSTM
from coverset.policies.population import Population, save_population
from coverset.runs.directory import RunDirectory, to_tensors
from coverset.runs.storage import write_json
from coverset.settings import TrainSettings
from reports.synthetic import write_agent, write_rows, write_run

SEED = "matrix/seed-0"
CHUNK = 3
RECORDING = "recording-0123456789ab"


def make_study(root: Path) -> None:
    """One file of every kind that coverset reads, as the commands would write it; nothing is trained."""
    seed, agent = root / SEED, root / SEED / "plastic"
    write_run(seed, env="matrix", method="lbrdiv", seed=0, size=2, level=3.0)
    write_agent(agent, learner="plastic", seed=0, level=3.0)
    lines = (seed / "metrics.jsonl").read_text().splitlines()
    write_rows(seed / "metrics.jsonl", [complete_row(n, json.loads(line)) for n, line in enumerate(lines, start=1)])
    config = make_plan("matrix", **toy_run.SETTINGS).config(0)
    write_json(seed / "config.json", {**config, "trained_with": [0]})
    write_json(seed / "timing.json", {"train_seconds": 1.5})
    write_json(seed / "certificate.json", certificate())
    state = jax.tree.map(lambda leaf: jnp.asarray(np.zeros(leaf.shape, leaf.dtype)), raw_shapes(state_shapes()))
    RunDirectory(seed).save_checkpoint(CHUNK, to_tensors(state))
    about = {"env": "matrix", "env_parameters": config["env_parameters"], "seat": 0, "seed": 0}
    library = dense_policy(network(1, 4, 3, stacked=(2,)))
    save_population(seed / "policies.safetensors", Population(library, library), about)
    settings = TrainSettings(total_steps=1, hidden_sizes=(4,), memory_size=3, reward_scale=0.5)
    recurrent = LSTM(network(1 + 3 + 2, 4, 4 * 3), jnp.asarray(numbers(3, 4 * 3)), network(3, 3))
    for name, actor in (("rl2", recurrent), ("feedforward", network(1, 4, 3, 3))):
        learner = make_learner(name, {})
        spec = agent_spec(learner, MatrixGame(), settings, 0)
        save_agent(seed / name / "agent.safetensors", AdHocPolicy(actor, learner, spec), learner, spec, about)
    plastic = Plastic(bins=4, table_size=8)
    spec = agent_spec(plastic, MatrixGame(), settings, 0, Population(library, library))
    policy = plastic.build_policy(jax.random.key(0), spec)
    policy = eqx.tree_at(lambda p: p.library, policy, library)
    save_agent(agent / "agent.safetensors", policy, plastic, spec, about)
    episode = {"actions": [[0, 1], [2, 2]], "rewards": [0.0, 6.0], "return": 6.0, "oracle": 10.0}
    recording = {"format": "coverset recording 2", **about, "env_version": 1, "partner": {"name": "H1"}}
    write_json(root / "recordings" / f"{RECORDING}.json", {**recording, "planned_episodes": 1, "episodes": [episode]})
    write_json(root / "game.json", {"payoffs": [[10, 0], [0, 6.5]], "ego_actions": ["a", "b"], "name": "ours"})


def complete_row(number: int, row: dict[str, Any]) -> dict[str, Any]:
    """Row `number`, from 1, of a log, with the fields that the report does not read."""
    steps = number * make_plan("matrix", **toy_run.SETTINGS).trainer.schedule.steps_per_chunk
    pairs = {"pair_returns": [[3.0, None], [1.5, 2.0]], "pair_values": [[3.0, 1.0], [1.5, 2.0]]}
    learned = {"entropy": {"best_responses": [1.0, 0.5], "teammates": [1.0, 0.5]}, "critic_loss": 0.25}
    counted = {"chunk": number, "update": 5 * number, "env_steps": steps}
    return {**row, **counted, **pairs, **learned, "covers": ["action 1", None], "restarted": [2]}


def numbers(*shape: int) -> np.ndarray:
    """Different numbers, by no compiled program."""
    return np.linspace(-1.0, 1.0, math.prod(shape), dtype=np.float32).reshape(shape)


def network(*sizes: int, stacked: tuple[int, ...] = ()) -> MLP:
    """Layers of these sizes."""
    weights = [jnp.asarray(numbers(*stacked, *layer)) for layer in pairwise(sizes)]
    return MLP(tuple(weights), tuple(jnp.asarray(numbers(*stacked, size)) for size in sizes[1:]))


def certificate() -> dict[str, Any]:
    """What `certify` writes, as far as anybody reads it."""
    bounds = {"lower": 2.0, "upper": 2.5}
    best = {"own": 2.0, "observed": 2.5, "blind": bounds, "regret_blind": bounds}
    checked = {"constraints": 4, "constraints_violated": 0, "smallest_gap": 0.2, "margin": 0.1}
    reading = {"discount": 0.9, "best_responses": [best, best]}
    return {**checked, "states": 12, "horizon": 5, "conventions": ["a 90%", "b 80%"], "discounted": reading}


def state_shapes() -> Any:
    """Shapes of a checkpoint's state."""
    return jax.eval_shape(make_plan("matrix", **toy_run.SETTINGS).trainer.init, jax.random.key(0))


def raw_shapes(state: Any) -> Any:
    """The same with random keys as numbers."""
    is_key = lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)  # noqa: E731
    return jax.tree.map(lambda leaf: jax.eval_shape(jax.random.key_data, leaf) if is_key(leaf) else leaf, state)
