"""Stars that attract each other: a simulation as one compiled loop.

Run `python examples/nbody.py [--bodies N] [--steps N]`. Every star pulls at every other one, so a step of n stars
takes n² forces. `lax.scan` keeps all the steps in machine code, without Python between them. Leapfrog integration keeps
the energy: the program prints how well, and how far from the middle the stars are at the end.
"""

import argparse
import time

import braze as bz
import braze.numpy as bnp
from braze import lax, random

SOFTENING = 0.05
"""Keeps close encounters finite."""


def acceleration(place, mass):
    """Pull on every star, [n, 3], of stars at places [n, 3] with masses [n]."""
    apart = place[None, :, :] - place[:, None, :]
    distance = bnp.sqrt(bnp.sum(apart * apart, axis=-1) + SOFTENING**2)
    return bnp.sum(apart * (mass[None, :] / (distance * distance * distance))[:, :, None], axis=1)


def energy(place, speed, mass):
    """Kinetic and potential energy together."""
    apart = place[None, :, :] - place[:, None, :]
    distance = bnp.sqrt(bnp.sum(apart * apart, axis=-1) + SOFTENING**2)
    pairs = mass[None, :] * mass[:, None] / distance
    moving = 0.5 * bnp.sum(mass[:, None] * speed * speed)
    # A star is no pair with itself: take its own term out again.
    return moving - 0.5 * (bnp.sum(pairs) - bnp.sum(mass * mass) / SOFTENING)


def simulate(place, speed, mass, steps, dt):
    """Leapfrog: half a kick, a drift, half a kick. Gives places, speeds and the energy after each step."""

    def step(state, _):
        place, speed, pull = state
        speed = speed + 0.5 * dt * pull
        place = place + dt * speed
        pull = acceleration(place, mass)
        speed = speed + 0.5 * dt * pull
        return (place, speed, pull), energy(place, speed, mass)

    start = (place, speed, acceleration(place, mass))
    (place, speed, _), energies = lax.scan(step, start, None, length=steps)
    return place, speed, energies


def cloud(bodies, seed=0):
    """A rotating cloud of stars of equal mass: places, speeds, masses."""
    place = random.uniform(random.key(seed), (bodies, 3), minval=-1.0, maxval=1.0)
    around = bnp.stack([-place[:, 1], place[:, 0], bnp.zeros(bodies)], axis=-1)
    return place, 0.5 * around, bnp.full(bodies, 1.0 / bodies)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bodies", type=int, default=256)
    parser.add_argument("--steps", type=int, default=100)
    asked = parser.parse_args(arguments)
    place, speed, mass = cloud(asked.bodies)
    run = bz.jit(lambda place, speed: simulate(place, speed, mass, asked.steps, 0.01))
    before = float(bz.jit(energy)(place, speed, mass))
    exe = run.trace(place, speed).lower().compile()
    start = time.perf_counter()
    place, speed, energies = run(place, speed)
    seconds = time.perf_counter() - start
    drift = max(abs(float(e) - before) for e in energies.tolist())
    forces = asked.bodies**2 * asked.steps
    print(f"{asked.bodies} stars, {asked.steps} steps: {forces / seconds / 1e6:.0f} million forces a second")
    print(f"temporaries: {exe.memory_analysis().temp_size_in_bytes / 1024:.0f} KB")
    print(f"energy {before:.4f} at first, off by at most {drift:.0e} since")
    print(f"mean distance from the middle: {float(bnp.mean(bnp.sqrt(bnp.sum(place * place, axis=-1)))):.3f}")


if __name__ == "__main__":
    main()
