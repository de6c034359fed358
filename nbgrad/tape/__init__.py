"""The explicit tape: a readable program that is recorded, replayed, transformed and drawn."""

from .program import Instruction, Tape, trace

__all__ = ["Instruction", "Tape", "trace"]
