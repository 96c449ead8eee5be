"""Train an ad hoc agent with generated teammates and evaluate it with held-out heuristics.

PLASTIC-Policy keeps a belief over the training teammates and plays the best response to the most likely one. The RL^2
agent learns to adapt by a recurrent policy; it is trained for a few steps only, so that this example stays short.
"""

from tempfile import TemporaryDirectory

import coverset


def main() -> None:
    with TemporaryDirectory() as out:
        coverset.generate("matrix", seeds=[0], total_steps=60_000, out=out)
        coverset.train(out, learner="plastic")
        coverset.train(out, learner="rl2", total_steps=60_000, evaluations=0)
        for learner in ("plastic", "rl2"):
            (agent,) = coverset.evaluate(out, learner=learner, trials=64, episodes=10)
            print(f"{learner}: {agent['oracle_fraction']:.2f} of the oracle")
            for name, partner in agent["partners"].items():
                print(f"  {name}: {partner['mean_return']:.2f} of {partner['oracle']:.2f}")


if __name__ == "__main__":
    main()
