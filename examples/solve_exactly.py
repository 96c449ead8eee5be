"""Compute the exact minimum coverage set of a payoff table.

Rows are actions of the ego agent, columns actions of the teammate. A member of the coverage set has a witness: a mixed
teammate to which it is the only best response. Any other action has a reason why it is not needed.
"""

import coverset

PATROL = {
    "payoffs": [["4", "0"], ["3", "2"], ["2", "2"], ["1", "3"]],
    "ego_actions": ["rush", "hold", "stall", "wait"],
    "teammate_actions": ["push", "guard"],
}


def main() -> None:
    solution = coverset.solve(PATROL)
    names = PATROL["ego_actions"]
    for member in solution.members:
        witness = " + ".join(
            f"{share} {action}" for share, action in zip(member.witness, PATROL["teammate_actions"], strict=True)
        )
        print(f"{names[member.action]} is needed: margin {member.margin} with the teammate {witness}")
    for other in solution.non_members:
        print(f"{names[other.action]} is not needed: {other.reason}")


if __name__ == "__main__":
    main()
