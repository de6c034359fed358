"""Gravity among bodies kept in a record array: leapfrog with softening, and a merit of the final state."""

import numpy as np
from numba import njit

body_dtype = np.dtype(
    [("x", "f8"), ("y", "f8"), ("z", "f8"), ("vx", "f8"), ("vy", "f8"), ("vz", "f8"), ("m", "f8")]
)
G = 1.0
EPS2 = 1e-4


@njit
def accelerate(bodies, acc):
    """Accelerations by the law of action and reaction."""
    acc[:] = 0.0
    n = len(bodies)
    for i in range(n):
        for j in range(i + 1, n):
            dx = bodies[j].x - bodies[i].x
            dy = bodies[j].y - bodies[i].y
            dz = bodies[j].z - bodies[i].z
            r2 = dx * dx + dy * dy + dz * dz + EPS2
            w = G / (r2 * np.sqrt(r2))
            acc[i, 0] += bodies[j].m * w * dx
            acc[i, 1] += bodies[j].m * w * dy
            acc[i, 2] += bodies[j].m * w * dz
            acc[j, 0] -= bodies[i].m * w * dx
            acc[j, 1] -= bodies[i].m * w * dy
            acc[j, 2] -= bodies[i].m * w * dz


@njit
def kick(bodies, acc, dt):
    """Change the velocities."""
    for i in range(bodies.size):
        bodies[i].vx += dt * acc[i, 0]
        bodies[i].vy += dt * acc[i, 1]
        bodies[i].vz += dt * acc[i, 2]


@njit
def drift(bodies, dt):
    """Change the positions."""
    for i in range(bodies.size):
        bodies[i].x += dt * bodies[i].vx
        bodies[i].y += dt * bodies[i].vy
        bodies[i].z += dt * bodies[i].vz


@njit
def leapfrog(bodies, dt, steps):
    """Kick, drift, kick; in place."""
    acc = np.empty((bodies.size, 3))
    accelerate(bodies, acc)
    for _ in range(steps):
        kick(bodies, acc, 0.5 * dt)
        drift(bodies, dt)
        accelerate(bodies, acc)
        kick(bodies, acc, 0.5 * dt)


@njit
def make_bodies(pos, vel, mass):
    """A record array from plain arrays."""
    bodies = np.empty(mass.size, dtype=body_dtype)
    for i in range(mass.size):
        bodies[i].x, bodies[i].y, bodies[i].z = pos[i, 0], pos[i, 1], pos[i, 2]
        bodies[i].vx, bodies[i].vy, bodies[i].vz = vel[i, 0], vel[i, 1], vel[i, 2]
        bodies[i].m = mass[i]
    return bodies


@njit
def miss_distance(pos, vel, mass, dt, steps, target):
    """The squared distance of the last body from a target after so many steps."""
    bodies = make_bodies(pos, vel, mass)
    leapfrog(bodies, dt, steps)
    b = bodies[-1]
    return (b.x - target[0]) ** 2 + (b.y - target[1]) ** 2 + (b.z - target[2]) ** 2
