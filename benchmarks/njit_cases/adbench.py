"""Instances of the ADBench suite (github.com/microsoft/ADBench), read from the folder ``$ADBENCH_DATA``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np


def folder() -> Path:
    """Where the instances are.

    Raises
    ------
    FileNotFoundError : it is not said, or not there.
    """
    place = Path(os.environ.get("ADBENCH_DATA", "/nonexistent"))
    if not place.is_dir():
        raise FileNotFoundError("set ADBENCH_DATA to the folder with ADBench's ba, gmm, hand, lstm")
    return place


def expected(instance: str) -> dict:
    """The values that ADBench's own tests expect of a test instance."""
    return json.loads((folder() / "expected_test_values.json").read_text())[instance]


def numbers(text: str) -> np.ndarray:
    return np.array(text.split(), dtype=float)


def bundle(name: str) -> dict:
    """Cameras, points, weights, observations, features; all cameras (and so on) of a file are alike."""
    lines = (folder() / "ba" / name).read_text().split("\n")
    n, m, p = (int(v) for v in lines[0].split())
    cam, point, weight, feat = (numbers(line) for line in lines[1:5])
    k = np.arange(p)
    return {
        "cams": np.tile(cam, (n, 1)),
        "points": np.tile(point, (m, 1)),
        "weights": np.full(p, weight[0]),
        "seen": np.stack([k % n, k % m], 1),
        "feats": np.tile(feat, (p, 1)),
    }


def lstm(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Main and extra parameters, state, sequence."""
    lines = [line for line in (folder() / "lstm" / name).read_text().split("\n") if line.strip()]
    layers, chars, _ = (int(v) for v in lines[0].split())
    rows = [numbers(line) for line in lines[1:]]
    cuts = np.cumsum([2 * layers, 3, 2 * layers, chars])
    parts = np.split(np.array(rows, dtype=object), cuts)
    return tuple(np.array([*part], dtype=float) for part in parts[:4])  # type: ignore[return-value]


def gmm(name: str) -> tuple:
    """alpha, means, icf, x, gamma, m."""
    values = iter((folder() / "gmm" / name).read_text().split())
    d, k, n = (int(next(values)) for _ in range(3))
    take = lambda *shape: np.array([float(next(values)) for _ in range(np.prod(shape))]).reshape(
        shape
    )
    alpha, means, icf = take(k), take(k, d), take(k, d * (d + 1) // 2)
    x = take(n, d)
    return alpha, means, icf, x, float(next(values)), int(next(values))


def hand(name: str, model: str, complicated: bool) -> dict:
    """The model of a hand, measured points, and the parameters (``us`` of the complicated problem)."""
    place = folder() / "hand"
    bones = [line.split(":") for line in (place / model / "bones.txt").read_text().split()]
    vertices = [line.split(":") for line in (place / model / "vertices.txt").read_text().split()]
    triangles = (place / model / "triangles.txt").read_text().split()
    weights = np.zeros((len(vertices), len(bones)))
    for i, atoms in enumerate(vertices):
        for k in range(int(atoms[8])):
            weights[i, int(atoms[9 + 2 * k])] = float(atoms[10 + 2 * k])
    lines = [line for line in (place / name).read_text().split("\n") if line.strip()]
    count, size = (int(v) for v in lines[0].split())
    rows = np.array([numbers(line) for line in lines[1 : 1 + count]])
    us = [numbers(line) for line in lines[1 + count : 1 + 2 * count]] if complicated else []
    matrix = lambda b, start: np.array(b[start : start + 16], dtype=float).reshape(4, 4)
    return {
        "theta": np.array([float(line) for line in lines[-size:]]),
        "us": np.array(us).reshape(-1, 2),
        "names": [b[0] for b in bones],
        "parents": np.array([int(b[1]) for b in bones]),
        "relatives": np.array([matrix(b, 2) for b in bones]),
        "inverses": np.array([matrix(b, 18) for b in bones]),
        "positions": np.array([[float(v) for v in a[:3]] + [1.0] for a in vertices]),
        "weights": weights,
        "triangles": np.array([[int(v) for v in t.split(":")] for t in triangles]),
        "corresponding": rows[:, 0].astype(np.int64),
        "points": rows[:, 1:].copy(),
    }
