from __future__ import annotations
import math, os
from itertools import pairwise
import numpy as np
from scipy.spatial import cKDTree
from scipy.special import expit

OUT = 6
COOLING = (2.0, 0.05)
WARM = (0.5, 0.05)
EPS = float(os.environ.get("EPS", 1.0))
FR = float(os.environ.get("FR", 0.9))
BAD = float(os.environ.get("BAD", 0.02))
TURN = int(os.environ.get("TURN", 5))


class CrowdMap:
    def __init__(self, k, half_extent_m, rng, *, chains=2):
        self.k, self.half = k, np.array(half_extent_m)
        self.rng, self.chains = rng, chains
        self.people, self.answers, self._places, self._number = [], [], [], {}
        self.points = np.empty((chains, 0, 2))
        self.bad = np.zeros(chains, bool)
        self.scale = None
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

    def fit(self, guess_m, *, sweeps, samples, cooling, progress=None, **_):
        if not self.people:
            return
        n, known = len(self.people), self.points.shape[1]
        pts = np.zeros((self.chains, n, 2))
        pts[:, :known] = self.points
        # forget misfits here
        Q = len(self.answers)
        C = self.chains
        sizes = np.array([len(a) for a in self.answers])
        # right-aligned members
        listed = np.full((Q, self.k), -1)
        for q, a in enumerate(self.answers):
            if a:
                listed[q, -len(a):] = a
        self.listed, self.sizes = listed, sizes
        new = np.arange(n) >= known
        for c in range(C):
            if self.bad[c]:
                pts[c] = self._enter(pts[c] * 0, 0, np.full(Q, self.scale))
            elif new.any():
                pts[c] = self._enter(pts[c], known, guess_m)
        self.points = np.clip(pts, -self.half, self.half)
        V = self.rng.normal(size=(C * n, 2))
        hot, cold = cooling
        temps = np.concatenate([np.geomspace(hot, cold, sweeps), np.full(sweeps, cold)])
        kept = []
        every = max(1, sweeps // samples)
        for s, temp in enumerate(temps):
            if s % 25 == 0:
                w = self._work()
            w["T"] = temp * w["spacing"]
            X = self.points.reshape(-1, 2)
            F, stiff = self._force(X, w)
            h = EPS / np.sqrt(stiff)[:, None]
            V = math.sqrt(FR) * V + math.sqrt(1 - FR) * self.rng.normal(size=V.shape)
            V += h * F
            # a kick too hard would fly away
            np.clip(V, -4, 4, out=V)
            X = X + h * V
            big = np.abs(X) > self.half
            V[big] *= -1
            X = np.clip(X, -self.half, self.half)
            if TURN and s % TURN == 0:
                X = self._turn(X, w)
            self.points = X.reshape(C, n, 2)
            if s >= sweeps and (s - sweeps) % every == every - 1:
                kept.append(self.points.copy())
        self.strains = self._strain(w)
        bad = self.strains > 2 * self.strains.min() + BAD
        self.bad = bad
        self.samples = np.concatenate([np.array(kept)[:, c] for c in range(C) if not bad[c]])

    def _strain(self, w):
        """Violation in units of the spacing, per rule, of each chain."""
        k = self.k
        D = self._dist(self.points.reshape(-1, 2), w)[2]
        z = np.maximum(np.column_stack([D[:, : k - 1] - D[:, 1:k], D[:, k - 1 : k] - D[:, k:]]), 0) / w["spacing"]
        z = np.where(w["rules"], z, 0).reshape(self.chains, -1)
        return z.sum(axis=1) / w["rules"].reshape(self.chains, -1).sum(axis=1)

    def _work(self):
        C, n, Q, k = self.chains, len(self.people), len(self.answers), self.k
        blocks = []
        for c in range(C):
            count = min(k + OUT, n)
            _, near = cKDTree(self.points[c]).query(self.places, [*range(1, count + 1)])
            isl = (near[:, :, None] == self.listed[:, None, :]).any(axis=2)
            order = np.argsort(isl, axis=1, kind="stable")
            out = np.where(np.take_along_axis(isl, order, 1), -1, np.take_along_axis(near, order, 1))
            out = np.pad(out, ((0, 0), (0, OUT)), constant_values=-1)[:, :OUT]
            out = np.where((self.sizes == k)[:, None], out, -1)
            m = np.column_stack([self.listed, out])
            blocks.append(np.where(m >= 0, m + c * n, C * n))
        M = np.concatenate(blocks)
        P = np.tile(self.places, (C, 1))
        real = M < C * n
        rules = np.column_stack([real[:, : k - 1] & real[:, 1:k], real[:, k - 1 : k] & real[:, k:]])
        w = {"M": M, "P": P, "real": real, "rules": rules}
        D = self._dist(self.points.reshape(-1, 2), w)[2]
        reach = np.where(real[:, k - 1], D[:, k - 1], 1.0)
        scale = reach if self.scale is None else np.clip(np.median(reach.reshape(C, Q)[:, : ], axis=1).repeat(Q), self.scale / 2, self.scale)
        w["reach"] = reach
        w["spacing"] = np.maximum(scale / np.maximum(np.tile(self.sizes, C), 1), 0.1)[:, None]
        q, col = np.nonzero(real)
        w["q"], w["col"] = q, col
        order = np.argsort(M[q, col], kind="stable")
        w["by"] = (q[order], col[order], np.searchsorted(M[q, col][order], np.arange(C * n + 1)))
        return w

    def _dist(self, X, w):
        far = np.vstack([X, [[1e9, 1e9]]])
        dx = far[:, 0][w["M"]] - w["P"][:, :1]
        dy = far[:, 1][w["M"]] - w["P"][:, 1:]
        return dx, dy, np.sqrt(dx * dx + dy * dy + 1e-6)

    def _force(self, X, w):
        k, m = self.k, len(X)
        dx, dy, D = self._dist(X, w)
        T = w["T"]
        z = np.column_stack([D[:, : k - 1] - D[:, 1:k], D[:, k - 1 : k] - D[:, k:]]) / T
        z = np.where(w["rules"], z, -50.0)
        e = expit(z)
        s = e / T
        push = np.zeros(D.shape)
        push[:, : k - 1] -= s[:, : k - 1]
        push[:, 1:k] += s[:, : k - 1]
        push[:, k - 1] -= s[:, k - 1 :].sum(axis=1)
        push[:, k:] += s[:, k - 1 :]
        f = push / D
        idx = w["M"].ravel()
        F = np.column_stack([np.bincount(idx, (f * dx).ravel(), m + 1), np.bincount(idx, (f * dy).ravel(), m + 1)])[:m]
        # stiffness: rules that are nearly violated
        st = np.broadcast_to(np.where(w["real"], 0.5 / T**2, 0), D.shape)
        stiff = np.bincount(idx, st.ravel(), m + 1)[:m] + 1e-9
        return F, stiff

    def _turn(self, X, w):
        """Try a turn about a place for a tenth of the people."""
        q_, col_, first = w["by"]
        m = len(X)
        who = np.flatnonzero((self.rng.random(m) < 0.2) & (np.diff(first) > 0))
        pick = first[who] + (self.rng.random(len(who)) * np.diff(first)[who]).astype(int)
        c = w["P"][q_[pick]]
        ang = self.rng.uniform(0, 2 * math.pi, len(who))
        d = X[who] - c
        Y = X.copy()
        Y[who] = c + np.column_stack([np.cos(ang) * d[:, 0] - np.sin(ang) * d[:, 1], np.sin(ang) * d[:, 0] + np.cos(ang) * d[:, 1]])
        D, N = self._dist(X, w)[2], self._dist(Y, w)[2]
        k, T = self.k, w["T"]

        def cost(A, B):  # rules of near A, far B
            return np.where(w["rules"], np.maximum(np.column_stack([A[:, : k - 1] - B[:, 1:k], A[:, k - 1 : k] - B[:, k:]]), 0) / T, 0)

        old, near, far = cost(D, D), cost(N, D), cost(D, N)
        ch = np.zeros(D.shape)
        dn, df = near - old, far - old
        ch[:, : k - 1] += dn[:, : k - 1]
        ch[:, k - 1] += dn[:, k - 1 :].sum(axis=1)
        ch[:, 1:k] += df[:, : k - 1]
        ch[:, k:] += df[:, k - 1 :]
        tot = np.bincount(w["M"].ravel(), ch.ravel(), m + 1)[:m]
        ok = np.zeros(m, dtype=bool)
        ok[who] = True
        ok &= (tot < self.rng.exponential(1, m)) & (np.abs(Y) < self.half).all(axis=1)
        X = X.copy()
        X[ok] = Y[ok]
        return X

    def _enter(self, pts, known, guess_m):
        n = len(pts)
        rows = []
        for q, (place, a) in enumerate(zip(self.places, self.answers)):
            if not a:
                continue
            a = np.array(a)
            ev = np.sqrt((np.arange(len(a)) + 0.7) / len(a))
            old = a < known
            if guess_m is not None or not old.any():
                r = ev * (float(self.half.min()) if guess_m is None else guess_m[q])
            else:
                dist = np.sort(np.hypot(*(pts[a[old]] - place).T))
                rk = np.flatnonzero(old)
                r = np.interp(np.arange(len(a)), rk, dist) * ev / np.clip(ev, ev[rk[0]], ev[rk[-1]])
            rows.append(np.column_stack([np.full(len(a), q), a, r]))
        R = np.concatenate(rows)
        R = R[R[:, 1] >= known]
        q, i, r = R[:, 0].astype(int), R[:, 1].astype(int), R[:, 2]
        order = np.lexsort((-r, i))
        P = self.places[q]
        pts = pts.copy()
        # last written is the nearest
        o = order
        pts[i[o]] = P[o] + self.rng.normal(size=(len(o), 2)) * (r[o, None] + 0.1)
        wgt = 1 / (r * r + 1)
        tot = np.bincount(i, wgt, n)
        for _ in range(15):
            d = pts[i] - P
            L = np.hypot(*d.T) + 1e-9
            goal = P + d * (r / L)[:, None]
            for ax in (0, 1):
                pts[known:, ax] = np.bincount(i, wgt * goal[:, ax], n)[known:] / tot[known:]
        return pts

    def estimates(self):
        return self.samples.mean(axis=0)

    def radii_m(self, share):
        return np.quantile(np.hypot(*np.moveaxis(self.samples - self.estimates(), 2, 0)), share, axis=0)

    def disorder(self):
        pairs = [(q, a, b) for q, answer in enumerate(self.answers) for a, b in pairwise(answer)]
        if not pairs:
            return 0.0
        q, near, far = np.array(pairs).T
        telling = np.isin(near * len(self.people) + far, far * len(self.people) + near)
        places, points = self.places[q], self.samples[-1]
        wrong = np.hypot(*(points[near] - places).T) > np.hypot(*(points[far] - places).T)
        return float(np.mean(wrong[telling])) if telling.any() else 0.0
