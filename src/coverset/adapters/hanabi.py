"""Hanabi (Bard et al. 2020) from JaxMARL, fully in JAX: the full game, and small ones.

Needs the extra `coverset[jaxmarl]`. Players see all cards but their own, and act in turn; whoever waits has only the
action of doing nothing. All share one reward: the change of the score, which is the number of cards played in order,
and 0 once the last life is lost. Returns therefore lie between 0 and `max_score`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxmarl.environments.hanabi.hanabi_game import DEFAULT_COLOR_MAP
from jaxtyping import Array, Float, Int

from coverset.adapters.jaxmarl import JaxMarlGame, JaxMarlState
from coverset.checks import check_at_least, check_between
from coverset.envs.drawing import Action, Board
from coverset.types import Flag

UNKNOWN = "?"
RULES = (
    "Play the cards of every colour in the order 1, 2, 3, ... You see all cards but your own. A hint costs a token and "
    "tells a player which of its cards have a colour or a number; a discarded card gives a token back. A card played "
    "out of order costs a life, and with the last life all points are lost."
)


@dataclass(frozen=True)
class Hanabi(JaxMarlGame):
    """Hanabi for two to five players; the defaults are the full game for two, with 25 points.

    Actions of H cards in hand, C colours and R numbers, with N - 1 other players counted from the next:
    discard card 0..H-1, play card 0..H-1, hint colour 0..C-1 to each other player, hint number 0..R-1 to each, nothing.
    """

    num_agents: int = 2
    num_colors: int = 5
    """At most 6."""
    num_ranks: int = 5
    hand_size: int | None = None
    """Cards in a hand: by default 5 for two and three players, 4 for more."""
    max_info_tokens: int = 8
    max_life_tokens: int = 3
    num_cards_of_rank: tuple[int, ...] | None = None
    """Cards of each number in a colour: by default 3 of the first, 1 of the last, and 2 of those between."""
    shuffle_player_order: bool = False
    """Whether the order of turns is drawn for every game; otherwise seat 0 begins."""

    def __post_init__(self) -> None:
        check_between("num_agents", self.num_agents, 2, 5)
        check_between("num_colors", self.num_colors, 1, len(DEFAULT_COLOR_MAP))
        for name in ("num_ranks", "max_info_tokens", "max_life_tokens", "cards_in_hand"):
            check_at_least("hand_size" if name == "cards_in_hand" else name, getattr(self, name), 1)
        if len(self.copies) != self.num_ranks or min(self.copies) < 1:
            raise ValueError(
                f"num_cards_of_rank must hold a number of at least 1 for each of the {self.num_ranks} ranks, "
                f"got {list(self.copies)}."
            )
        if self._num_drawn < 1:
            dealt = self.num_agents * self.cards_in_hand
            raise ValueError(
                f"hand_size must leave a card in the deck of {self._num_cards}, got {self.cards_in_hand}, "
                f"which deals {dealt}."
            )

    reward = "mean"

    @property
    def cards_in_hand(self) -> int:
        """Number of cards in a hand."""
        return self.hand_size if self.hand_size is not None else 5 if self.num_agents < 4 else 4

    @property
    def copies(self) -> tuple[int, ...]:
        """Cards of each number in a colour."""
        if self.num_cards_of_rank is not None:
            return self.num_cards_of_rank
        return ((3, *(2,) * (self.num_ranks - 2), 1) if self.num_ranks > 1 else (3,))[: self.num_ranks]

    @property
    def max_score(self) -> int:
        """Points of a perfect game."""
        return self.num_colors * self.num_ranks

    @property
    def _num_cards(self) -> int:
        return self.num_colors * sum(self.copies)

    @property
    def _num_drawn(self) -> int:
        """Cards in the deck when all hands are dealt."""
        return self._num_cards - self.num_agents * self.cards_in_hand

    @property
    def horizon(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The longest game: a turn for every card drawn, hints for the tokens that these give, and a last round."""
        return 2 * self._num_drawn + self.max_info_tokens + self.num_agents

    @property
    def seats_alike(self) -> bool:
        return self.shuffle_player_order

    def make_game(self) -> Any:
        from jaxmarl.environments.hanabi import Hanabi as JaxMarlHanabi

        return JaxMarlHanabi(
            num_agents=self.num_agents,
            num_colors=self.num_colors,
            num_ranks=self.num_ranks,
            hand_size=self.cards_in_hand,
            max_info_tokens=self.max_info_tokens,
            max_life_tokens=self.max_life_tokens,
            num_cards_of_rank=np.array(self.copies),
            shuffle_player_order=self.shuffle_player_order,
        )

    def _judge_end(self, done: Flag, time: Int[Array, ""]) -> tuple[Flag, Flag]:
        """Hanabi ends by its rules; illegal moves alone can last longer."""
        return done, (time >= self.horizon) & ~done

    def board(self) -> Board | None:
        """Names of the actions; the state is shown as text."""
        actions = [Action(name) for name in action_names(self)]
        return Board(RULES, (actions,) * self.num_agents)

    def render(self, state: JaxMarlState, seat: int | None = None) -> str:
        """Tokens, cards on the table, and hands; a player's own cards are shown as far as hints tell."""
        inner = state.inner
        counts = {
            "turn": int(inner.step),
            "score": f"{int(inner.score)} of {self.max_score}",
            "hints left": int(np.sum(inner.info_tokens)),
            "lives": int(np.sum(inner.life_tokens)),
            "cards in the deck": int(np.sum(inner.deck)),
        }
        played = np.sum(inner.fireworks, axis=1).astype(int)
        discarded = [self._name_card(card) for card in np.asarray(inner.discard_pile) if card.any()]
        lines = [
            ", ".join(f"{name}: {count}" for name, count in counts.items()),
            "played: " + " ".join(f"{color}{top}" for color, top in zip(self._colors, played, strict=True)),
            "discarded: " + (" ".join(sorted(discarded)) or "none"),
        ]
        return "\n".join([*lines, *(self._describe_hand(inner, n, seat) for n in range(self.num_agents))])

    @property
    def _colors(self) -> Sequence[str]:
        return DEFAULT_COLOR_MAP[: self.num_colors]

    def _describe_hand(self, inner: Any, seat: int, viewer: int | None) -> str:
        """One player's cards, each with what hints have told about it in brackets: `R2 [?2 RG12]`."""
        place = int(np.argsort(inner.seat_order)[seat])
        cards, hinted = np.asarray(inner.player_hands[place]), []
        for number, card in enumerate(cards):
            told = self._describe_hints(inner, place, number)
            shown = UNKNOWN * 2 if seat == viewer else self._name_card(card)
            hinted.append(f"{shown} [{told}]" if card.any() else "--")
        turn = ">" if inner.cur_player_idx[place] else " "
        return f"{turn} seat {seat}{' (you)' if seat == viewer else ''}: {'  '.join(hinted)}"

    def _describe_hints(self, inner: Any, place: int, number: int) -> str:
        """The colour and the number that hints have named, and those that they have left possible."""
        color, rank = inner.colors_revealed[place][number], inner.ranks_revealed[place][number]
        possible = np.asarray(inner.card_knowledge[place][number]).reshape(self.num_colors, self.num_ranks) > 0
        named = f"{_name_hinted(color, self._colors)}{_name_hinted(rank, self._ranks)}"
        colors = "".join(np.array(self._colors)[possible.any(axis=1)])
        return f"{named} {colors}{''.join(np.array(self._ranks)[possible.any(axis=0)])}"

    @property
    def _ranks(self) -> Sequence[str]:
        return [str(rank + 1) for rank in range(self.num_ranks)]

    def _name_card(self, card: Float[np.ndarray, "colors ranks"]) -> str:
        color, rank = np.unravel_index(int(np.argmax(card)), card.shape)
        return f"{self._colors[int(color)]}{self._ranks[int(rank)]}"


def _name_hinted(revealed: Any, names: Sequence[str]) -> str:
    """The name that a hint has revealed, or a question mark."""
    return names[int(np.argmax(revealed))] if np.any(revealed) else UNKNOWN


def action_names(environment: Hanabi) -> list[str]:
    """Names of the actions by number; cards count from 1, and other players from the next."""
    cards = range(1, environment.cards_in_hand + 1)
    others = range(1, environment.num_agents)
    whom = [f" to player +{other}" if environment.num_agents > 2 else "" for other in others]
    moves = [f"{move} card {card}" for move in ("discard", "play") for card in cards]
    hints = [
        f"hint {hint}{player}"
        for hints in (environment._colors, environment._ranks)
        for player in whom
        for hint in hints
    ]
    return [*moves, *hints, "wait"]


def mini_hanabi(num_agents: int = 2) -> Hanabi:
    """A small Hanabi with 9 points: three colours, three numbers, hands of three cards, four hints and three lives."""
    return Hanabi(num_agents, num_colors=3, num_ranks=3, hand_size=3, max_info_tokens=4, max_life_tokens=3)
