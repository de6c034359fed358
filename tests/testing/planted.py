"""Operators with planted errors: the checks must find each of them."""

from contextlib import contextmanager

from nbgrad.op import REGISTRY, Operator


@contextmanager
def planted(forward, vjp=None, jvp=None, batch=None, name="planted"):
    """A temporary operator from a NumPy function and (wrong) rules; it saves its inputs."""
    op = Operator(name, forward, nin=None, saves=lambda needs, params: tuple(range(len(needs))))
    op.vjp_rule, op.jvp_rule, op.batch_rule = vjp, jvp, batch
    try:
        yield op
    finally:
        del REGISTRY[name]


def square(wrong):
    """x*x whose reverse rule is ``wrong(g, x)``."""
    return planted(lambda x: x * x, lambda g, out, x, *, needs: (wrong(g, x),))
