"""STUB until merged."""
from __future__ import annotations
from episode.matchers.expression_code import Emitter, LaneArrays, LanePlaces
from episode.matchers.rows.code.arrays import ROWS
from episode.plan.expressions import *
from episode.plan.expressions import Navigated, Load, walk, Apply, Current
Places = LanePlaces
class RowConditions(Emitter):
    def __init__(self, s, plan, places, match):
        super().__init__(s.f, places, LaneArrays(s.key, s.ints, s.floats, s.valid, s.const_i, s.const_f), s.settings[ROWS])
        self.s, self.plan, self.match = s, plan, match
        self.names = list(plan.labels.names)
        self.aggregates = ()
        self.walks_path = False
        t=set()
        for c in plan.conditions.values():
            for p in c.residual:
                for n in walk(p):
                    if isinstance(n, Load) and isinstance(n.at, Navigated) and n.at.labels is not None:
                        assert len(n.at.labels)==1 and n.at.offset==0
                        t.add(self.names.index(next(iter(n.at.labels))))
        self.tracked=frozenset(t)
    def is_steady(self, label):
        c=self.plan.conditions.get(self.names[label])
        if c is None: return True
        for p in c.residual:
            for n in walk(p):
                if isinstance(n, Load) and isinstance(n.at, Navigated) and self.names[label] in n.at.labels: return False
        return True
    def reads_labels(self, label):
        c=self.plan.conditions.get(self.names[label])
        return {self.names.index(x) for p in (c.residual if c else ()) for n in walk(p) if isinstance(n, Load) and isinstance(n.at, Navigated) for x in n.at.labels}
    def find_row(self, at):
        l=self.names.index(next(iter(at.labels)))
        r=(self.match.first_row if at.first else self.match.last_row)[l].value
        ok=self.match.last_row[l] >= 0
        r=r if not at.shift else r+at.shift
        if at.shift: ok=ok & (r>=self.match.lo) & (r<self.match.hi)
        return self.f.select(ok, r, self.match.row), ok
    def take(self,label,begins): pass
    def holds(self,label):
        c=self.plan.conditions.get(self.names[label])
        if c is None or not c.residual: return None
        self.begin_row(self.match.row.value, True)
        h=None
        for p in c.residual:
            x=self.holds_one(p); h = x if h is None else h & x
        return h
    def holds_one(self,p): return Emitter.holds(self,p)
