"""The simulation of stars, against the same steps in NumPy in double precision."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np

import braze as bz

NBODY = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "nbody.py"))


def pull(place: np.ndarray, mass: np.ndarray) -> np.ndarray:
    found = np.zeros_like(place)
    for i in range(len(place)):
        apart = place - place[i]
        distance = np.sqrt((apart**2).sum(-1) + NBODY["SOFTENING"] ** 2)
        found[i] = (apart * (mass / distance**3)[:, None]).sum(0)
    return found


def test_places_after_some_steps() -> None:
    start, speed, mass = (np.asarray(x) for x in NBODY["cloud"](17))
    found, _, energies = bz.jit(lambda p, v: NBODY["simulate"](p, v, mass, 20, 0.01))(start, speed)
    place, speed = start.astype(np.float64), speed.astype(np.float64)
    force = pull(place, mass)
    for _ in range(20):
        speed = speed + 0.005 * force
        place = place + 0.01 * speed
        force = pull(place, mass)
        speed = speed + 0.005 * force
    np.testing.assert_allclose(np.asarray(found), place, atol=2e-5)
    assert np.ptp(np.asarray(energies)) < 1e-4


def test_it_tells_what_it_did(capsys) -> None:
    NBODY["main"](["--bodies", "16", "--steps", "3"])
    assert "16 stars, 3 steps" in capsys.readouterr().out
