"""Best responses and teammates as one object: stacked parameters, saved and loaded without running anybody's code."""

from pathlib import Path
from typing import Any, NamedTuple

from coverset.checks import format_value
from coverset.policies.actor import ActorPolicy
from coverset.policies.saving import check_roles, fill_stacked, named_tensors, network_record, read_network_template
from coverset.runs.storage import DamagedFile, check_fields, load_tensors, save_tensors
from coverset.runs.trust import sign_record

FORMAT = "coverset population 3"


class Population(NamedTuple):
    """Best responses and teammates, with a leading axis of members. Pair i is best response i with teammate i."""

    best_responses: ActorPolicy
    teammates: ActorPolicy


def save_population(path: Path, population: Population, metadata: dict[str, Any]) -> None:
    """Write both stacks; tensors are called `best_responses.weights.0` and so on, with a leading axis of members."""
    roles = population._asdict()
    tensors = {name: x for role, policy in roles.items() for name, x in named_tensors(role, policy.network).items()}
    networks = {role: network_record(policy.kind, policy.spec) for role, policy in roles.items()}
    save_tensors(path, tensors, sign_record({"format": FORMAT, **networks, **metadata}))


def load_population(path: str | Path) -> tuple[Population, dict[str, Any]]:
    """Read what `save_population` wrote, and its metadata."""
    path = Path(path)
    tensors, metadata = load_tensors(path)
    check_format(path, metadata, FORMAT)
    check_roles(path, tensors, Population._fields)
    policies = []
    for role in Population._fields:
        template, spec = read_network_template(path, metadata, metadata.get(role))
        network = fill_stacked(path, role, tensors, template)
        policies.append(ActorPolicy(network, metadata[role]["kind"], spec))
    return Population(*policies), metadata


def check_format(path: Path, metadata: dict[str, Any], wanted: str) -> None:
    """Raise DamagedFile unless a file's metadata are of this format, and say for which environment it was made."""
    found = metadata.get("format")
    if isinstance(found, str) and found != wanted and found.rpartition(" ")[0] == wanted.rpartition(" ")[0]:
        raise DamagedFile(f"{path} was written by another version of coverset ('{found}'): generate or train it again.")
    if found != wanted:
        raise DamagedFile(f"{path} holds {format_value(found)} where '{wanted}' was expected.")
    check_fields(path, metadata, env=str, env_parameters=dict)
