from __future__ import annotations
import math, os
from collections import Counter
from itertools import chain, pairwise
import numpy as np
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.special import expit

COOLING = (0.3, 0.1, 0.03, 0.01)
WARM = (0.1, 0.03, 0.01)
GAPS = (1, 2, 4, 8, 16, 32)
PULL = 1e-2
ALWAYS = 4
ITER = int(os.environ.get("ITER", 60))
TGT = int(os.environ.get("TGT", 0))


class CrowdMap:
    def __init__(self, k, half_extent_m, rng, *, solutions):
        self.k, self.half, self.rng, self.S = k, np.array(half_extent_m), rng, solutions
        self.people, self.answers, self._places, self._number = [], [], [], {}
        self.points = []
        self.strains = np.zeros(solutions)
        self.samples = np.empty((1, 0, 2))

    def add(self, place, answer):
        for p in answer:
            if p not in self._number:
                self._number[p] = len(self.people)
                self.people.append(p)
        self._places.append(place)
        self.answers.append(self.numbers(answer))
        return self.answers[-1]

    def numbers(self, answer):
        return [self._number[p] for p in answer if p in self._number]

    @property
    def places(self):
        return np.array(self._places).reshape(-1, 2)

    def fit(self, *, fresh, cooling=COOLING, warm=WARM):
        n = len(self.people)
        places, sizes = self.places, np.array([len(a) for a in self.answers])
        reach = np.minimum(reaches_m(places, self.answers), self.half.min())
        if self.points:
            X = np.array(self.points)
            known = len(X[0])
            now = np.array([np.median(np.hypot(*(X[:, a[-1]] - p).T)) if a and a[-1] < known else r for p, a, r in zip(places, self.answers, reach)])
            reach = np.clip(now, reach / 2, reach)
        self.reach = reach
        q, i = np.repeat(np.arange(len(places)), sizes), np.fromiter(chain.from_iterable(self.answers), int)
        count = np.maximum(np.bincount(i, minlength=n), 1)
        homes = np.column_stack([np.bincount(i, places[q, a], n) for a in (0, 1)]) / count[:, None]
        scale = np.bincount(i, reach[q], n) / count
        hh = self.households()
        told = self._told()
        out = []
        for s in range(self.S):
            points, known = np.zeros((n, 2)), np.zeros(n, bool)
            is_warm = s >= fresh and len(self.points) > 0
            if is_warm:
                old = self.points[s]
                points[: len(old)], known[: len(old)] = old, True
            own = homes + self.rng.normal(0, 0.5, homes.shape) * scale[:, None]
            for temp in warm if is_warm else cooling:
                points = self._lay_out(points, known, homes, scale, reach)
                rules = np.concatenate([told, self._outside(points)])
                rules[:, 1:] = hh[rules[:, 1:]]
                rules = rules[rules[:, 1] != rules[:, 2]]
                if len(np.unique(hh)) < n:
                    rules = np.unique(rules, axis=0)
                points = self._minimize(points, rules, temp * reach, own, scale)[hh]
                points = np.clip(points, -self.half, self.half)
                each = self._strain(points, rules) / scale
                known = each < max(0.3 * each.max(), 0.01)
            out.append((float(each.mean()), s, points))
        out.sort(key=lambda o: -o[0])
        self.strains = np.array([o[0] for o in out])
        self.points = [o[2] for o in out]
        ok = self.strains <= 2 * self.strains.min() + 3e-4
        self.rules = rules
        self.samples = np.array([p for p, good in zip(self.points, ok) if good])

    def _told(self):
        rows = []
        for q, a in enumerate(self.answers):
            a = np.array(a, int)
            rows += [np.column_stack([np.full(len(a) - g, q), a[:-g], a[g:]]) for g in GAPS if g < len(a)]
            if TGT:
                at = np.flatnonzero(a == self.target)
                if len(at):
                    t = at[0]
                    rows.append(np.column_stack([np.full(t, q), a[:t], np.full(t, self.target)]))
                    m = len(a) - t - 1
                    rows.append(np.column_stack([np.full(m, q), np.full(m, self.target), a[t + 1 :]]))
        return np.concatenate([np.empty((0, 3), int), *rows])

    def _outside(self, points):
        n = len(points)
        full = [q for q, a in enumerate(self.answers) if len(a) == self.k]
        count = min(3 * self.k, n)
        if not full:
            return np.empty((0, 3), int)
        _, near = cKDTree(points).query(self.places[full], [*range(1, count + 1)])
        rows = []
        for q, row in zip(full, near):
            o = np.setdiff1d(row, self.answers[q])
            rows.append(np.column_stack([np.full(len(o), q), np.full(len(o), self.answers[q][-1]), o]))
        return np.concatenate(rows)

    def _minimize(self, points, rules, T, homes, scale):
        n = len(points)
        q, near, far = rules.T
        entry, where = np.unique(np.concatenate([q * n + near, q * n + far]), return_inverse=True)
        a, b = where[: len(q)], where[len(q) :]
        eq, ei = np.divmod(entry, n)
        P, t = self.places[eq], T[q]
        w = self.rng.exponential(1, len(q))
        wt = w * t
        E = len(entry)
        pull = (PULL / scale)[:, None]
        sc = scale[:, None]

        def loss(u):
            x = u.reshape(-1, 2) * sc
            d = x[ei] - P
            D = np.sqrt(d[:, 0] ** 2 + d[:, 1] ** 2 + 1e-6)
            z = (D[a] - D[b]) / t
            s = expit(z)
            # log(1 + e^z)
            value = float((wt * (np.maximum(z, 0) - np.log(np.maximum(s, 1 - s)))).sum())
            ws = w * s
            f = (np.bincount(a, ws, E) - np.bincount(b, ws, E)) / D
            g = np.column_stack([np.bincount(ei, f * d[:, 0], n), np.bincount(ei, f * d[:, 1], n)])
            away = x - homes
            value += 0.5 * float((pull * away * away).sum())
            return value / 100, ((g + pull * away) * sc).ravel() / 100

        r = minimize(loss, (points / sc).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": ITER, "ftol": 1e-4, "gtol": 1e-9})
        self.its = getattr(self, "its", 0) + r.nfev
        return r.x.reshape(-1, 2) * sc

    def _strain(self, points, rules):
        q, near, far = rules.T
        P = self.places[q]
        v = np.maximum(np.hypot(*(points[near] - P).T) - np.hypot(*(points[far] - P).T), 0)
        n = len(points)
        c = np.bincount(near, minlength=n) + np.bincount(far, minlength=n)
        return (np.bincount(near, v, n) + np.bincount(far, v, n)) / np.maximum(c, 1)

    def _lay_out(self, points, known, homes, scale, reach):
        if known.all():
            return points
        points = points.copy()
        rows = []
        n = len(points)
        for q, a in enumerate(self.answers):
            a = np.array(a, int)
            if not len(a) or known[a].all():
                continue
            old = known[a]
            ev = np.sqrt((np.arange(len(a)) + 0.7) / len(a))
            r = ev * reach[q]
            if old.any():
                rk = np.flatnonzero(old)
                dist = np.sort(np.hypot(*(points[a[old]] - self.places[q]).T))
                r = np.interp(np.arange(len(a)), rk, dist) * ev / np.clip(ev, ev[rk[0]], ev[rk[-1]])
            rows.append(np.column_stack([np.full(len(a), q), a, r])[~old])
            if LOW and len(a) == self.k and n < 400:
                m = np.setdiff1d(np.flatnonzero(~known), a)
                rows.append(np.column_stack([np.full(len(m), q), m, np.full(len(m), -r.max())]))
        R = np.concatenate(rows)
        q, i, r = R[:, 0].astype(int), R[:, 1].astype(int), R[:, 2]
        P = self.places[q]
        new = ~known
        points[new] = homes[new] + self.rng.normal(0, 0.5, (new.sum(), 2)) * scale[new, None]
        for _ in range(15):
            d = points[i] - P
            L = np.hypot(*d.T) + 1e-9
            goal = P + d * (np.abs(r) / L)[:, None]
            use = ((r > 0) | (L < -r)).astype(float)
            tot = np.bincount(i, use, n)
            go = tot > 0
            for ax in (0, 1):
                points[go, ax] = np.bincount(i, goal[:, ax] * use, n)[go] / tot[go]
        return points

    def households(self):
        seen = Counter(chain.from_iterable(self.answers))
        follows = Counter(p for a in self.answers for p in pairwise(a))
        ends = Counter(a[-1] for a in self.answers if len(a) == self.k)
        first = np.arange(len(self.people))
        leader = {b: a for (a, b), t in follows.items() if t >= ALWAYS and t == seen[b] and t + ends[a] >= seen[a]}
        for p in range(len(first)):
            o = p
            while o in leader:
                o = leader[o]
            first[p] = o
        return first

    def points_apart(self):
        often = np.bincount(np.fromiter(chain.from_iterable(self.answers), int), minlength=len(self.people)) >= ALWAYS
        return len(np.unique(self.households()[often]))

    def estimates(self):
        return np.median(self.samples, axis=0)

    def deviations_m(self):
        return np.hypot(*np.moveaxis(self.samples - self.estimates(), 2, 0)).max(axis=0)

    def disorder(self):
        q, near, far = self.rules.T
        n = len(self.people)
        telling = np.isin(near * n + far, far * n + near)
        P, X = self.places[q], self.points[-1]
        wrong = np.hypot(*(X[near] - P).T) > np.hypot(*(X[far] - P).T)
        return float(np.mean(wrong[telling])) if telling.any() else 0.0


LOW = int(os.environ.get("LOW", 1))


def likeness(a, b):
    length = min(len(a), len(b))
    if length == 0:
        return 0.0
    return sum(len(set(a[:n]) & set(b[:n])) / n for n in range(1, length + 1)) / length


def step_between(a, b):
    return float(np.interp(-likeness(a, b), -_LIKENESSES, _STEPS))


def _even_likeness(step):
    depths = (np.arange(100) + 0.5) / 100
    apart = np.minimum(step / np.sqrt(depths), 2)
    return float(np.mean(2 / math.pi * np.arccos(apart / 2) - apart / math.pi * np.sqrt(1 - apart**2 / 4)))


_STEPS = np.linspace(0.02, 2, 100)
_LIKENESSES = np.array([_even_likeness(step) for step in _STEPS])


def reaches_m(places, answers):
    """How far each list reaches, by how much it differs from those asked nearby."""
    if len(places) == 1:
        return np.full(1, 50.0)
    dist, near = cKDTree(places).query(places, [*range(2, min(len(places), 7) + 1)])
    out = []
    for q in range(len(places)):
        st = np.array([step_between(answers[q], answers[o]) for o in near[q]])
        tell = (st >= 0.12) & (st <= 0.8)
        tell[0] |= not tell.any()
        out.append(max(float(np.median(dist[q][tell] / st[tell])), 1.0))
    return np.array(out)
