"""The reverse sweep of a program.

`adjoint` appends it to a copy of the program. It is written first as if every value of the forward sweep could be seen;
`residuals` then decides what is computed again and what is kept on tapes. Each array that carries derivatives has a
shadow of the same shape (`shadows`); a load of the array adds to the shadow, a store takes from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from numba import types

from . import ir, partials, scalars
from .activity import Activity
from .alias import Aliases
from .calls import CallRules
from .exposed import telling
from .regions import Regions
from .residuals import Residuals
from .shadows import Shadows
from .simplify import simplify

WRONG_SHAPE = "njit.vjp: a cotangent has another shape than the result it belongs to; give it the shape of the function's value"
_tags = itertools.count(1)
Adjoints = dict[ir.Value, ir.Value]


class Pullback(NamedTuple):
    """A program with its reverse sweep.

    Parameters of ``fn``: those of the program, then the shadow of every array in ``shadows``, then a cotangent for every
    result in ``seeds`` (positions). Results: those of the program, then the cotangents of the numbers in ``inputs``.
    """

    fn: ir.Function
    shadows: list[int]
    seeds: list[int]
    inputs: list[int]


def adjoint(
    f: ir.Function,
    wrt: Sequence[int],
    seeds: Sequence[int],
    outputs: Sequence[int] = (),
    gradient: bool = False,
) -> Pullback:
    """Append the reverse sweep to a program (which is consumed).

    Parameters
    ----------
    f : the program.
    wrt : positions of the parameters to differentiate with respect to.
    seeds : positions of the results that have a cotangent.
    outputs : positions of array parameters whose final contents have one (in their shadows).
    gradient : whether the only seed is never zero.
    """
    return _Adjoint(f, wrt, seeds, outputs, gradient).run()


class _Adjoint(CallRules, Regions, Shadows, Residuals):
    def __init__(
        self,
        f: ir.Function,
        wrt: Sequence[int],
        seeds: Sequence[int],
        outputs: Sequence[int],
        gradient: bool,
    ):
        self.f = f
        self.wrt, self.seeds = list(wrt), list(seeds)
        self.aliases = Aliases(f)
        inputs = [f.params[k] for k in wrt]
        ends = [f.results[k] for k in seeds] + [f.params[k] for k in outputs]
        self.activity = Activity(f, self.aliases, inputs, ends)
        self.forward = list(f.body.ops)
        self.order = {op: k for k, op in enumerate(ir.walk(f.body))}
        self.primal_blocks = {f.body, *(b for op in self.order for b in op.blocks)}
        self.ops_of = {b: list(b.ops) for b in self.primal_blocks}
        self.reverse_of: dict[ir.Block, ir.Block] = {f.body: f.body}
        self.prelude: dict[ir.Block, list[ir.Op]] = {f.body: []}
        self.counts: dict[ir.Op, ir.Value] = {}
        self.reverse_iv: dict[ir.Op, ir.Value] = {}
        self.shadow: dict[ir.Value, ir.Value] = {}
        self.sizes: dict[tuple, ir.Value] = {}
        self.line: Any = None
        self.telling = telling(f, f.results[seeds[0]]) if gradient else set()
        self.free: set[ir.Value] = set()  # accumulators whose order of summation does not matter

    def run(self) -> Pullback:
        """Generate, then decide what is kept."""
        f = self.f
        results = list(f.results)
        arrays = [k for k, p in enumerate(f.params) if ir.is_array(p) and self.activity.active(p)]
        wanted = [
            k
            for k in self.wrt
            if ir.is_array(f.params[k]) and k not in arrays and ir.is_float(f.params[k].type)
        ]
        shadows = sorted([*arrays, *wanted])
        for k in shadows:
            p = f.params[k]
            self.shadow[p] = f.add_param(p.type, "d_" + p.name)
        numbers = [k for k in self.wrt if not ir.is_array(f.params[k])]
        primal_params = f.params[:]
        adj: Adjoints = {}
        reverse = ir.Block()  # the reverse sweep at the top level, spliced in at the end
        self.top = reverse
        reverse.parent = None
        self.reverse_of[f.body] = reverse
        self.prelude[reverse] = []
        self.b = ir.Builder(reverse)
        for k in self.seeds:
            self.seed(results[k], adj)
        self.sweep(f.body, adj)
        grads = [adj.get(primal_params[k]) or scalars.zero(primal_params[k].type) for k in numbers]
        reverse.yields = grads
        self.finish()
        f.body.yields = [*results, *reverse.yields]
        simplify(f)
        return Pullback(f, shadows, self.seeds, numbers)

    def seed(self, r: ir.Value, adj: Adjoints) -> None:
        """One more parameter: the cotangent of a result."""
        ct = self.f.add_param(r.type, "ct")
        if not self.activity.active(r):
            return
        if ir.is_array(r):
            for k in range(r.type.ndim):
                same = scalars.apply(self.b, "eq", self.b.shape(ct, k), self.size_of(r, k))
                self.b.op("check", [same], attrs={"error": "ValueError", "message": WRONG_SHAPE})
            self.b.op("add", [self.shadow_of(r), ct])
        else:
            self.add(adj, r, ct)

    # -- accumulating ------------------------------------------------------------------------------------
    def add(self, adj: Adjoints, v: ir.Value, c: ir.Value) -> None:
        """Add a contribution to the adjoint of a scalar."""
        if v.home is None or not self.activity.active(v):
            return
        old = adj.get(v)
        if old is None or (isinstance(old, ir.Const) and old.value == 0):
            adj[v] = scalars.cast(self.b, c, v.type)
            return
        new = scalars.apply(
            self.b, "radd" if old in self.free else "add", old, scalars.cast(self.b, c, v.type)
        )
        if old in self.free:
            self.free.add(new)
        adj[v] = new

    def take(self, adj: Adjoints, v: ir.Value) -> ir.Value | None:
        """The adjoint of a value that ends here."""
        c = adj.pop(v, None)
        return None if isinstance(c, ir.Const) and c.value == 0 else c

    # -- operations -----------------------------------------------------------------------------------------
    def sweep(self, block: ir.Block, adj: Adjoints) -> None:
        """The operations of a block, backwards."""
        for op in reversed(self.ops_of[block]):
            method = getattr(self, "rev_" + op.kind, None)
            if method is not None:
                self.b.line = op.line
                method(op, adj)

    def rev_apply(self, op: ir.Op, adj: Adjoints) -> None:
        """Multiply with partial derivatives."""
        g = self.take(adj, op.result)
        if g is None:
            return
        if op.attrs["fn"] == "mul" and op.args[0] is op.args[1]:  # a square: 2 g x
            twice = scalars.apply(self.b, "add", g, g)
            self.add(adj, op.args[0], partials.cotangent(self.b, op, 0, twice))
            return
        for i, a in enumerate(op.args):
            if self.activity.active(a) and partials.differentiable(op.attrs["fn"], i):
                self.add(adj, a, partials.cotangent(self.b, op, i, g, op.result in self.telling))

    def rev_cast(self, op: ir.Op, adj: Adjoints) -> None:
        """Convert back."""
        g = self.take(adj, op.result)
        if g is not None and self.activity.active(op.args[0]):
            self.add(adj, op.args[0], scalars.cast(self.b, g, op.args[0].type))

    def rev_load(self, op: ir.Op, adj: Adjoints) -> None:
        """Add to the shadow."""
        g = self.take(adj, op.result)
        if g is not None and self.activity.active(op.args[0]):
            self.b.accum(
                self.shadow_of(op.args[0]),
                op.args[1:],
                scalars.cast(self.b, g, op.args[0].type.dtype),
            )

    def rev_store(self, op: ir.Op, adj: Adjoints) -> None:
        """Take from the shadow."""
        array, *index, v = op.args
        if not self.activity.active(array):
            return
        s = self.shadow_of(array)
        if self.activity.active(v):
            g = self.b.load(s, index)
            self.b.store(s, index, scalars.zero(array.type.dtype))
            self.add(adj, v, g)
        else:
            self.b.store(s, index, scalars.zero(array.type.dtype))

    def rev_accum(self, op: ir.Op, adj: Adjoints) -> None:
        """Read the shadow."""
        array, *index, v = op.args
        if self.activity.active(array) and self.activity.active(v):
            self.add(adj, v, self.b.load(self.shadow_of(array), index))

    def rev_copy(self, op: ir.Op, adj: Adjoints) -> None:
        """Take a whole shadow."""
        dst, src = op.args
        if not self.activity.active(dst):
            return
        if self.activity.active(src):
            self.b.op("add", [self.shadow_of(src), self.shadow_of(dst)])
        self.clear(self.shadow_of(dst))

    def rev_add(self, op: ir.Op, adj: Adjoints) -> None:
        """``dst += src``: the source's shadow gets the destination's."""
        dst, src = op.args
        if self.activity.active(dst) and self.activity.active(src):
            self.b.op("add", [self.shadow_of(src), self.shadow_of(dst)])

    def clear(self, s: ir.Value) -> None:
        """Zeros into a whole array."""
        if isinstance(s.type.dtype, types.Record):
            for name in s.type.dtype.fields:
                t = types.Array(s.type.dtype.typeof(name), s.type.ndim, "A")
                if ir.is_float(t):
                    self.clear(
                        self.b.op(
                            "view", [s], [t], attrs={"spec": ir.View("field", name=name)}
                        ).result
                    )
            return
        sizes = [self.b.shape(s, k) for k in range(s.type.ndim)]
        outer = self.b.block
        index = []
        for n in sizes:
            op = self.b.loop(ir.Const(0, types.intp), n, [], "k")
            self.b.block = op.blocks[0]
            index.append(op.blocks[0].params[0])
        self.b.store(s, index, scalars.zero(s.type.dtype))
        self.b.block = outer

    # -- control ----------------------------------------------------------------------------------------------
    def outer_values(self, op: ir.Op) -> list[ir.Value]:
        """Active numbers from outside that the blocks of an operation read."""
        return [v for v in ir.free_values(op) if not ir.is_array(v) and self.activity.active(v)]

    def matters(self, op: ir.Op, adj: Adjoints) -> bool:
        """Whether an operation with blocks has anything to reverse."""
        if any(self.activity.active(r) for r in op.results):
            return True
        inner = [o for b in op.blocks for o in ir.walk(b) if o in self.order]
        return any(
            o.kind in ("store", "accum", "copy", "add") and self.activity.active(o.args[0])
            for o in inner
        )

    def enter(self, blocks: Sequence[ir.Block], new: ir.Block) -> ir.Block:
        """Write into the reverse of some blocks; returns where writing went before."""
        for b in blocks:
            self.reverse_of[b] = new
        self.prelude[new] = []
        old, self.b.block = self.b.block, new
        return old

    def rev_if(self, op: ir.Op, adj: Adjoints) -> None:
        """The same condition, each branch backwards."""
        if not self.matters(op, adj):
            return
        outer = self.outer_values(op)
        given = {r: self.take(adj, r) for r in op.results if not ir.is_array(r)}
        new = self.b.op("if", [op.args[0]], blocks=[ir.Block(), ir.Block()])
        for b, nb in zip(op.blocks, new.blocks, strict=True):
            old = self.enter([b], nb)
            local: Adjoints = {u: adj[u] for u in outer if u in adj}
            self.branch_shadows(op, b)
            for r, y in zip(op.results, b.yields, strict=True):
                g = given.get(r)
                if g is not None and self.activity.active(y):
                    self.add(local, y, g)
            self.sweep(b, local)
            nb.yields = [local.get(u) or scalars.zero(u.type) for u in outer]
            self.b.block = old
        new.results = [ir.Value(u.type, "d_" + u.name, new) for u in outer]
        for u, r in zip(outer, new.results, strict=True):
            adj[u] = r
            if any(y in self.free for y in (b.yields[outer.index(u)] for b in new.blocks)):
                self.free.add(r)

    def rev_for(self, op: ir.Op, adj: Adjoints) -> None:
        """The iterations backwards."""
        self.rev_loop(op, adj)

    rev_while = rev_for

    def trip_bounds(self, op: ir.Op) -> tuple[ir.Value, ir.Value]:
        """First and last (excluded) value of the reverse loop's variable."""
        if op.kind == "for" and not op.attrs.get("exit"):
            return op.args[0], op.args[1]
        n = self.count(op)
        if op.kind == "while":
            return ir.Const(0, types.intp), n
        if op.attrs.get("reverse"):
            return scalars.apply(self.b, "sub", op.args[1], n), op.args[1]
        return op.args[0], scalars.apply(self.b, "add", op.args[0], n)

    def rev_loop(self, op: ir.Op, adj: Adjoints) -> None:
        """A loop: adjoints of carried and outer numbers, and shadows of carried arrays, are carried backwards."""
        if not self.matters(op, adj):
            return
        outer = self.outer_values(op)
        carried = [
            k for k, p in enumerate(op.phis) if not ir.is_array(p) and self.activity.active(p)
        ]
        handles = self.carried_shadows(op)
        op.attrs.setdefault("tag", next(_tags))
        lo, hi = self.trip_bounds(op)
        inits = [self.take(adj, op.results[k]) or scalars.zero(op.phis[k].type) for k in carried]
        inits += [adj.get(u) or scalars.zero(u.type) for u in outer]
        inits += [h.init for h in handles]
        names = [op.phis[k].name for k in carried] + [u.name for u in outer] + ["" for _ in handles]
        attrs: dict[str, Any] = (
            {"reverse": not op.attrs.get("reverse", False)}
            if op.kind == "for"
            else {"reverse": True}
        )
        attrs["reverse_of"] = op.attrs["tag"]
        attrs.update({k: "adjoint" for k in ("parallel",) if op.attrs.get(k)})
        body = ir.Block(
            [(types.intp, "i"), *((v.type, "d_" + n) for v, n in zip(inits, names, strict=True))]
        )
        new = self.b.op(
            "for", [lo, hi, *inits], [v.type for v in inits], attrs=attrs, blocks=[body]
        )
        for r, p in zip(new.results, body.params[1:], strict=True):
            r.name = p.name
        self.reverse_iv[op] = body.params[0]
        old = self.enter(op.blocks, body)
        params = body.params[1:]
        local: Adjoints = dict(zip(outer, params[len(carried) :]))
        self.free.update(params[len(carried) : len(carried) + len(outer)])
        for k, p in zip(carried, params):
            self.add(local, op.nexts[k], p)
        self.enter_shadows(op, handles, params[len(carried) + len(outer) :])
        for b in reversed(op.blocks):
            self.sweep(b, local)
        body.yields = [
            local.pop(op.phis[k], None) or scalars.zero(op.phis[k].type) for k in carried
        ]
        body.yields += [local.get(u) or scalars.zero(u.type) for u in outer]
        body.yields += [h.last for h in handles]
        self.b.block = old
        for u, r in zip(outer, new.results[len(carried) :]):
            adj[u] = r
        for k, r in zip(carried, new.results):
            self.add(adj, op.inits[k], r)
        self.leave_shadows(op, handles, new.results[len(carried) + len(outer) :])

    def count(self, op: ir.Op) -> ir.Value:
        """How often a loop that ends by a condition has run: one more carried number."""
        found = self.counts.get(op)
        if found is None:
            block = op.blocks[0]
            p = ir.Value(types.intp, "trips", block=block)
            last = op.blocks[-1]
            nexts = len(op.nexts)
            block.params.append(p)
            op.args.append(ir.Const(0, types.intp))
            step = ir.Op("apply", [p, ir.Const(1, types.intp)], [types.intp], {"fn": "add"})
            step.block = last
            last.ops.append(step)
            last.yields.insert(nexts, step.result)
            found = ir.Value(types.intp, "trips", op)
            op.results.append(found)
            self.counts[op] = found
        return found
