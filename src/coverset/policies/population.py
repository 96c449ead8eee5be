"""Best responses and teammates as one object: stacked parameters, saved and loaded without running anybody's code."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from coverset.checks import check_between, format_value
from coverset.policies.actor import ActorPolicy
from coverset.policies.agent import Agent
from coverset.policies.saving import check_roles, fill_stacked, named_tensors, network_record, read_network_template
from coverset.policies.stacked import count_members, take_member
from coverset.runs.finding import find_population_file
from coverset.runs.game_names import game_title
from coverset.runs.storage import DamagedFile, check_fields, load_tensors, save_tensors
from coverset.runs.trust import sign_record

FORMAT = "coverset population 3"


class Halves(NamedTuple):
    """Both halves of a population, with a leading axis of members."""

    best_responses: ActorPolicy
    teammates: ActorPolicy


class Population(Halves):
    """Best responses and teammates, with a leading axis of members. Pair i is best response i with teammate i.

    Members are counted from 1: `population.teammate(2).act(observation)`.
    """

    about: Mapping[str, Any] = {}
    """What a population from a file was made for; no part of the tree of arrays."""

    def teammate(self, number: int, *, seed: int = 0, seat: int = 1) -> Agent:
        """A teammate that plays.

        Args:
          number: which one, from 1.
          seed: of its random numbers.
          seat: where it sits, in games of three or more players.
        """
        several = self.about.get("num_seats", 2) > 2
        return _take_agent(self, self.teammates, "teammate", number, seed, seat if several else None)

    def best_response(self, number: int, *, seed: int = 0) -> Agent:
        """A best response that plays: to teammate `number`, from 1."""
        return _take_agent(self, self.best_responses, "best response", number, seed, None)

    def __repr__(self) -> str:
        if not self.about:
            return super().__repr__()
        game = game_title(str(self.about.get("env")), self.about.get("env_parameters"))
        counts = f"{count_members(self.best_responses)} best responses and {count_members(self.teammates)} teammates"
        return f"<Population: {counts} of {game}, seed {self.about.get('seed')}>"


def _take_agent(
    population: Population, policies: ActorPolicy, title: str, number: int, seed: int, seat: int | None
) -> Agent:
    check_between(title, number, 1, count_members(policies))
    return Agent(take_member(policies, number - 1), dict(population.about), seed, seat)


def save_population(path: Path, population: Population, metadata: dict[str, Any]) -> None:
    """Write both stacks; tensors are called `best_responses.weights.0` and so on, with a leading axis of members."""
    roles = population._asdict()
    tensors = {name: x for role, policy in roles.items() for name, x in named_tensors(role, policy.network).items()}
    networks = {role: network_record(policy.kind, policy.spec) for role, policy in roles.items()}
    save_tensors(path, tensors, sign_record({"format": FORMAT, **networks, **metadata}))


def load_population(path: str | Path) -> tuple[Population, dict[str, Any]]:
    """Read the policies of a run, and what they were made for.

    Args:
      path: a file of policies, a seed of a run, or a run, of which the first seed is taken.
    """
    path = find_population_file(Path(path))
    tensors, metadata = load_tensors(path)
    check_format(path, metadata, FORMAT)
    check_roles(path, tensors, Population._fields)
    policies = []
    for role in Population._fields:
        template, spec = read_network_template(path, metadata, metadata.get(role))
        network = fill_stacked(path, role, tensors, template)
        policies.append(ActorPolicy(network, metadata[role]["kind"], spec))
    population = Population(*policies)
    population.about = metadata
    return population, metadata


def check_format(path: Path, metadata: dict[str, Any], wanted: str) -> None:
    """Raise DamagedFile unless a file's metadata are of this format, and say for which environment it was made."""
    found = metadata.get("format")
    if isinstance(found, str) and found != wanted and found.rpartition(" ")[0] == wanted.rpartition(" ")[0]:
        raise DamagedFile(f"{path} was written by another version of coverset ('{found}'): generate or train it again.")
    if found != wanted:
        raise DamagedFile(f"{path} holds {format_value(found)} where '{wanted}' was expected.")
    check_fields(path, metadata, env=str, env_parameters=dict)
