"""Who plays which seat when a person joins a game."""

from dataclasses import dataclass

from coverset.envs.base import Environment
from coverset.envs.seats import check_ego_seat
from coverset.policy import Policy
from coverset.studio.partners import Partner


@dataclass(frozen=True)
class SeatPlan:
    """The seats of a trial."""

    person: int
    ego: int
    """The seat from which the seats that policies know are counted."""
    policies: tuple[Policy | None, ...]
    """Of every seat; None for the person's."""


def plan_seats(environment: Environment, partner: Partner, team: Partner | None, person: int | None) -> SeatPlan:
    """Seat a person with a partner; raise ValueError where the person cannot take that seat.

    With two players the partner sits where it was trained, and the person in the other seat. With more, a partner of
    the team's side plays all seats but the person's, which is the ego's; if the partner is the ego, the person takes a
    seat of the team, and `team` plays the rest of it.

    Args:
      environment: the game.
      partner: whom the person has chosen.
      team: who plays the remaining seats beside an ego; None if there are none.
      person: the person's seat; None for the first one that is free.
    """
    seats = environment.num_seats
    if seats == 2:
        return _plan(seats, _free_seat(person, (1 - partner.seat,)), 0, {partner.seat: partner.policy}, None)
    if partner.is_ego:
        free = tuple((partner.seat + place) % seats for place in range(1, seats))
        others = None if team is None else team.policy
        return _plan(seats, _free_seat(person, free), partner.seat, {partner.seat: partner.policy}, others)
    ego = 0 if person is None else person
    check_ego_seat(environment, ego)
    return _plan(seats, ego, ego, {}, partner.policy)


def _free_seat(person: int | None, free: tuple[int, ...]) -> int:
    if person is not None and person not in free:
        *others, last = map(str, sorted(free))
        wanted = f"{', '.join(others)} or {last}" if others else last
        raise ValueError(f"seat must be {wanted} with this partner, got {person}.")
    return free[0] if person is None else person


def _plan(seats: int, person: int, ego: int, taken: dict[int, Policy], others: Policy | None) -> SeatPlan:
    policies = tuple(None if seat == person else taken.get(seat, others) for seat in range(seats))
    return SeatPlan(person, ego, policies)
